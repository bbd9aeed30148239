//! The kinds of the core group, which no API server is asked for: Kubernetes has served them in `v1` since they came, and keeps
//! what it has made stable.
//!
//! Should a server not serve one of them after all, the first request for it finds the collection gone, and then what the server
//! says of its group counts.

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::{ClusterResourceScope, ListableResource, NamespaceResourceScope};

use evenkeel_core::contract::Gvk;

use super::Served;

/// What can be done with each of them.
const VERBS: [&str; 7] = ["create", "delete", "get", "list", "patch", "update", "watch"];

/// Where a kind's objects live.
trait Place {
    const NAMESPACED: bool;
}

impl Place for NamespaceResourceScope {
    const NAMESPACED: bool = true;
}

impl Place for ClusterResourceScope {
    const NAMESPACED: bool = false;
}

struct Kind {
    name: &'static str,
    plural: &'static str,
    namespaced: bool,
}

const fn kind<K: ListableResource<Scope: Place>>() -> Kind {
    Kind { name: K::KIND, plural: K::URL_PATH_SEGMENT, namespaced: <K::Scope as Place>::NAMESPACED }
}

const KINDS: [Kind; 14] = [
    kind::<core::ConfigMap>(),
    kind::<core::Endpoints>(),
    kind::<core::Event>(),
    kind::<core::LimitRange>(),
    kind::<core::Namespace>(),
    kind::<core::Node>(),
    kind::<core::PersistentVolume>(),
    kind::<core::PersistentVolumeClaim>(),
    kind::<core::Pod>(),
    kind::<core::ReplicationController>(),
    kind::<core::ResourceQuota>(),
    kind::<core::Secret>(),
    kind::<core::Service>(),
    kind::<core::ServiceAccount>(),
];

/// How a kind of the core group is served; none for what is not known here.
pub(super) fn served(gvk: &Gvk) -> Option<Served> {
    if !gvk.group.is_empty() || &*gvk.version != "v1" {
        return None;
    }
    let Kind { plural, namespaced, .. } = *KINDS.iter().find(|kind| kind.name == &*gvk.kind)?;
    let verbs = VERBS.iter().map(|verb| (*verb).to_owned()).collect();
    Some(Served::Yes { plural: plural.into(), namespaced, verbs })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_of_the_core_group_is_known_by_its_name_and_place() {
        for (kind, found) in [
            ("ConfigMap", Some(("configmaps", true))),
            ("Namespace", Some(("namespaces", false))),
            ("Endpoints", Some(("endpoints", true))),
            ("PersistentVolume", Some(("persistentvolumes", false))),
            ("Binding", None),
            ("Pods", None),
        ] {
            let served = served(&Gvk::new("", "v1", kind));
            let told = served.as_ref().and_then(|served| match served {
                Served::Yes { plural, namespaced, .. } => Some((&**plural, *namespaced)),
                Served::No => None,
            });
            assert_eq!(told, found, "{kind}");
        }
        for (group, version) in [("apps", "v1"), ("", "v2")] {
            assert_eq!(served(&Gvk::new(group, version, "Pod")), None, "{group}/{version}");
        }
    }
}
