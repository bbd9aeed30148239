//! Whose an object is that bears the name of a machine's part.
//!
//! Names and labels are anybody's to write, so an object counts as a part only if its controller owner says so, or if
//! it has no controller at all and all three labels (parts of an older Kite). Everything else is never touched.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use crate::identity::Identity;
use crate::names;

/// Whose an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// There is none.
    Absent,
    /// This machine controls it.
    Owned,
    /// Nobody controls it and the labels are right: to be adopted.
    Legacy,
    /// A machine of the same name that is gone controls it: the garbage collector takes it.
    Stale,
    /// Somebody else's.
    Foreign,
}

impl Ownership {
    /// Whether it may be changed and deleted.
    pub fn is_ours(self) -> bool {
        matches!(self, Self::Owned | Self::Legacy)
    }
}

/// Judges an object at the place where a part of the machine belongs.
pub fn classify(metadata: Option<&ObjectMeta>, machine: &Identity) -> Ownership {
    let Some(metadata) = metadata else { return Ownership::Absent };
    match controller(metadata) {
        Some(owner) if owner.uid == machine.uid => Ownership::Owned,
        Some(owner) if is_kite_machine(owner) && owner.name == machine.name => Ownership::Stale,
        Some(_) => Ownership::Foreign,
        None if has_labels(metadata, machine) => Ownership::Legacy,
        None => Ownership::Foreign,
    }
}

/// Whether an object carries the three labels of the machine.
pub fn has_labels(metadata: &ObjectMeta, machine: &Identity) -> bool {
    let labels = metadata.labels.as_ref();
    machine.labels().iter().all(|(key, value)| labels.and_then(|labels| labels.get(key)) == Some(value))
}

/// Whether an input Secret may be this machine's: it has the three labels, or none of them.
pub fn is_input_of(metadata: &ObjectMeta, machine: &Identity) -> bool {
    let labels = metadata.labels.as_ref();
    let unlabelled = machine.labels().keys().all(|key| labels.is_none_or(|labels| !labels.contains_key(key)));
    unlabelled || has_labels(metadata, machine)
}

/// The machine that an object's own labels name, if they name one in the object's own namespace.
pub fn labelled_machine(metadata: &ObjectMeta) -> Option<&str> {
    let labels = metadata.labels.as_ref()?;
    let managed = labels.get(names::MANAGED_BY_LABEL)? == names::MANAGED_BY;
    let here = labels.get(names::VM_NAMESPACE_LABEL) == metadata.namespace.as_ref();
    let name = labels.get(names::VM_NAME_LABEL)?;
    (managed && here).then_some(name)
}

fn controller(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

fn is_kite_machine(owner: &OwnerReference) -> bool {
    let group = owner.api_version.split_once('/').map(|(group, _)| group);
    owner.kind == "KiteVirtualMachine" && group == Some(names::GROUP)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(metadata: &str, expected: Ownership) {
        let machine = Identity { namespace: "tenant-a".into(), name: "vm-a".into(), uid: "U1".into() };
        let metadata: ObjectMeta = serde_saphyr::from_str(metadata).unwrap();
        assert_eq!(classify(Some(&metadata), &machine), expected);
    }

    const LABELS: &str = "labels: {kite.anacnu.com/managed-by: kite-controller, kite.anacnu.com/kite-vm-name: vm-a, kite.anacnu.com/kite-vm-namespace: tenant-a}";

    fn owner(api_version: &str, kind: &str, name: &str, uid: &str, controller: bool) -> String {
        format!(
            "ownerReferences: [{{apiVersion: {api_version}, kind: {kind}, name: {name}, uid: {uid}, controller: {controller}}}]"
        )
    }

    #[test]
    fn nothing_is_absent() {
        let machine = Identity { namespace: "a".into(), name: "b".into(), uid: "c".into() };
        assert_eq!(classify(None, &machine), Ownership::Absent);
    }

    #[test]
    fn what_the_machine_controls_is_owned_whatever_its_labels() {
        check(&owner("anacnu.com/v1", "KiteVirtualMachine", "vm-a", "U1", true), Ownership::Owned);
    }

    #[test]
    fn labels_alone_are_enough_where_nobody_controls_it() {
        check(LABELS, Ownership::Legacy);
        check(&format!("{LABELS}\n{}", owner("v1", "ConfigMap", "x", "X", false)), Ownership::Legacy);
    }

    #[test]
    fn a_missing_label_makes_it_foreign() {
        check("labels: {kite.anacnu.com/managed-by: kite-controller}", Ownership::Foreign);
        check("{}", Ownership::Foreign);
    }

    #[test]
    fn a_label_that_differs_makes_it_foreign() {
        for (right, wrong) in
            [("vm-a", "vm-b"), ("tenant-a", "tenant-b"), ("kite-controller", "kite-install")]
        {
            check(&LABELS.replace(right, wrong), Ownership::Foreign);
        }
    }

    #[test]
    fn labels_do_not_help_against_another_controller() {
        check(
            &format!("{LABELS}\n{}", owner("apps/v1", "Deployment", "vm-a", "X", true)),
            Ownership::Foreign,
        );
    }

    #[test]
    fn a_part_of_an_earlier_machine_of_the_name_is_stale() {
        check(&owner("anacnu.com/v1", "KiteVirtualMachine", "vm-a", "U0", true), Ownership::Stale);
        check(&owner("anacnu.com/v2", "KiteVirtualMachine", "vm-a", "U0", true), Ownership::Stale);
    }

    #[test]
    fn a_part_of_another_machine_is_foreign() {
        check(&owner("anacnu.com/v1", "KiteVirtualMachine", "vm-b", "U0", true), Ownership::Foreign);
        check(&owner("hy3ons.github.io/v1", "KiteVirtualMachine", "vm-a", "U0", true), Ownership::Foreign);
    }

    #[test]
    fn labels_name_a_machine_in_the_own_namespace_only() {
        let named = |yaml: &str| {
            let metadata: ObjectMeta = serde_saphyr::from_str(yaml).unwrap();
            labelled_machine(&metadata).map(str::to_owned)
        };
        assert_eq!(named(&format!("namespace: tenant-a\n{LABELS}")).as_deref(), Some("vm-a"));
        assert_eq!(named(&format!("namespace: tenant-b\n{LABELS}")), None);
        assert_eq!(named("namespace: tenant-a"), None);
    }
}
