//! The names that Kite gives and knows: group, labels, annotations, finalizers, controllers, fixed object names.
//!
//! Upstream renamed its group and prefix once (`hy3ons.github.io`); objects of that era are foreign to this build.

/// API group of the two kinds. `#[kube(group = …)]` takes a literal only; a test holds both to this.
pub const GROUP: &str = "anacnu.com";
/// API version of the two kinds.
pub const VERSION: &str = "v1";

/// Who manages an object.
pub const MANAGED_BY_LABEL: &str = "kite.anacnu.com/managed-by";
/// The value of [`MANAGED_BY_LABEL`] on what these controllers made. The platform's own namespace has another one.
pub const MANAGED_BY: &str = "kite-controller";
/// The label selector of what these controllers made.
pub const MANAGED_SELECTOR: &str = "kite.anacnu.com/managed-by=kite-controller";
/// Name of the KiteVirtualMachine that an object belongs to.
pub const VM_NAME_LABEL: &str = "kite.anacnu.com/kite-vm-name";
/// Namespace of the KiteVirtualMachine that an object belongs to.
pub const VM_NAMESPACE_LABEL: &str = "kite.anacnu.com/kite-vm-namespace";
/// The namespace's own name, on Kite's namespaces.
pub const NAME_LABEL: &str = "name";

/// On a Namespace: for whom it was created, as `<KiteUser>/<uid>`.
pub const CREATED_FOR: &str = "kite.anacnu.com/created-for";
/// On a Namespace: since when no user references it.
pub const ORPHANED_SINCE: &str = "kite.anacnu.com/orphaned-since";
/// On a Namespace: `"true"` keeps it for good.
pub const RETAIN: &str = "kite.anacnu.com/retain";
/// On a KiteVirtualMachine: `"true"` permits a fresh disk after the old one was lost.
pub const ALLOW_DISK_RECREATE: &str = "kite.anacnu.com/allow-disk-recreate";
/// On a DataVolume: keeps CDI from collecting it.
pub const KEEP_DATA_VOLUME: &str = "cdi.kubevirt.io/storage.deleteAfterCompletion";

/// Finalizer of a KiteUser.
pub const USER_FINALIZER: &str = "kite.anacnu.com/kite-user-cleanup";
/// Finalizer of a KiteVirtualMachine.
pub const VM_FINALIZER: &str = "kite.anacnu.com/kite-vm-cleanup";

/// R1: a user's namespace and its policies.
pub const KITE_USER: &str = "kite-user";
/// R2: namespaces that nobody references.
pub const NAMESPACE: &str = "namespace";
/// R3: everything that makes up a machine.
pub const VIRTUAL_MACHINE: &str = "virtual-machine";
/// R4: what KubeVirt says about a machine.
pub const VM_STATUS: &str = "vm-status";
/// R5: a machine's Services.
pub const VM_SERVICE: &str = "vm-service";
/// R6: what CDI says about a disk.
pub const DATA_VOLUME: &str = "data-volume";

/// NetworkPolicy against other namespaces.
pub const INGRESS_POLICY: &str = "deny-from-other-namespaces";
/// NetworkPolicy for what a tenant may reach.
pub const EGRESS_POLICY: &str = "tenant-isolation-egress";
/// A user's quota.
pub const QUOTA: &str = "kite-user-quota-policy";

/// Namespace of the runtime configuration.
pub const CONFIG_NAMESPACE: &str = "kite";
/// ConfigMap of the runtime configuration.
pub const CONFIG_NAME: &str = "kite-runtime-config";

/// Longest machine name: `vps-access-<name>` has to be a DNS label.
pub const VM_NAME_MAX: usize = 52;

/// Namespaces that belong to the platform, never to a user.
const RESERVED_NAMESPACES: [&str; 10] = [
    "default",
    "kite",
    "cdi",
    "kubevirt",
    "longhorn-system",
    "cert-manager",
    "traefik",
    "ingress-nginx",
    "olm",
    "operators",
];
/// Beginnings of such names.
const RESERVED_NAMESPACE_PREFIXES: [&str; 2] = ["kube-", "openshift-"];
/// First labels of host names that belong to the platform.
const RESERVED_DOMAIN_PREFIXES: [&str; 10] =
    ["admin", "api", "assets", "auth", "console", "dashboard", "kite", "kite-api", "ssh", "www"];

/// Whether a namespace is reserved without any configuration.
pub fn is_built_in_namespace(name: &str) -> bool {
    RESERVED_NAMESPACES.contains(&name)
        || RESERVED_NAMESPACE_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Whether a domain prefix is reserved without any configuration.
pub fn is_built_in_domain_prefix(prefix: &str) -> bool {
    RESERVED_DOMAIN_PREFIXES.contains(&prefix)
}

/// 1 to 63 of `a-z`, `0-9` and `-`, with neither end a `-`.
pub fn is_dns_label(text: &str) -> bool {
    text.len() <= 63 && is_label_of_any_length(text)
}

/// DNS labels joined by dots, at most 253 bytes.
pub fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_label_of_any_length)
}

fn is_label_of_any_length(text: &str) -> bool {
    let bytes = text.as_bytes();
    let inner = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-';
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else { return false };
    bytes.iter().all(inner) && *first != b'-' && *last != b'-'
}

#[cfg(test)]
mod tests {
    use evenkeel_sdk::Kind;

    use super::*;
    use crate::api::{KiteUser, KiteVirtualMachine};

    #[test]
    fn both_kinds_are_of_the_group() {
        for gvk in [KiteUser::gvk(), KiteVirtualMachine::gvk()] {
            assert_eq!((gvk.group.as_str(), gvk.version.as_str()), (GROUP, VERSION));
        }
    }

    #[test]
    fn a_label_has_63_characters_at_most_and_no_dash_at_an_end() {
        let long = "a".repeat(63);
        for good in ["a", "0", "team-a", long.as_str()] {
            assert!(is_dns_label(good), "{good}");
        }
        let longer = "a".repeat(64);
        for bad in ["", "-a", "a-", "Team_A", "a.b", "a\nb", "ä", longer.as_str()] {
            assert!(!is_dns_label(bad), "{bad}");
        }
    }

    #[test]
    fn a_subdomain_is_labels_joined_by_dots() {
        for good in ["a", "ubuntu-22.04", "a.b.c"] {
            assert!(is_dns_subdomain(good), "{good}");
        }
        let long = format!("{}.a", "a".repeat(252));
        for bad in ["", ".", "a.", ".a", "a..b", "A.b", long.as_str()] {
            assert!(!is_dns_subdomain(bad), "{bad}");
        }
    }

    #[test]
    fn system_namespaces_are_reserved_whether_they_exist_or_not() {
        for reserved in ["default", "kube-system", "kube-foo", "openshift-x", "cdi"] {
            assert!(is_built_in_namespace(reserved), "{reserved}");
        }
        for free in ["tenant-a", "kube", "my-kube-"] {
            assert!(!is_built_in_namespace(free), "{free}");
        }
    }
}
