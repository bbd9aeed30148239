//! Which kind is meant by a word: scenario files may leave out the `apiVersion` where the kind is unmistakable.

use std::collections::BTreeMap;

use evenkeel_core::contract::Gvk;
use serde_json::Value;

/// Built-in kinds by their `apiVersion`; those with a `*` live in no namespace.
const BUILT_IN: &[(&str, &str)] = &[
    (
        "v1",
        "*Namespace *Node *PersistentVolume ConfigMap Secret Service ServiceAccount Pod PersistentVolumeClaim Event \
         Endpoints ResourceQuota LimitRange ReplicationController PodTemplate",
    ),
    ("apps/v1", "Deployment ReplicaSet StatefulSet DaemonSet ControllerRevision"),
    ("batch/v1", "Job CronJob"),
    ("networking.k8s.io/v1", "Ingress NetworkPolicy *IngressClass"),
    ("rbac.authorization.k8s.io/v1", "Role RoleBinding *ClusterRole *ClusterRoleBinding"),
    ("policy/v1", "PodDisruptionBudget"),
    ("coordination.k8s.io/v1", "Lease"),
    ("storage.k8s.io/v1", "*StorageClass *CSIDriver *CSINode *VolumeAttachment"),
    ("autoscaling/v2", "HorizontalPodAutoscaler"),
    ("discovery.k8s.io/v1", "EndpointSlice"),
    ("apiextensions.k8s.io/v1", "*CustomResourceDefinition"),
    ("admissionregistration.k8s.io/v1", "*ValidatingWebhookConfiguration *MutatingWebhookConfiguration"),
];

/// A kind as the API server serves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindInfo {
    /// Group, version, kind.
    pub gvk: Gvk,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// Its name in paths, as in `configmaps`.
    pub plural: String,
}

/// Why a word names no kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KindError {
    /// Nothing is called so.
    #[error("no kind {kind:?} is known here{}", suggestion.as_ref().map(|s| format!("; is {s} meant?")).unwrap_or_default())]
    Unknown {
        /// The word.
        kind: String,
        /// One that differs in case only.
        suggestion: Option<String>,
    },
    /// Several are.
    #[error("{kind:?} may be {}: add the apiVersion", candidates.join(" or "))]
    Ambiguous {
        /// The word.
        kind: String,
        /// What it may be.
        candidates: Vec<String>,
    },
}

/// All kinds that a scenario may name.
#[derive(Clone, Debug, Default)]
pub struct Kinds(BTreeMap<String, Vec<KindInfo>>);

impl Kinds {
    /// The built-in kinds and those of these CustomResourceDefinitions.
    pub fn with_crds<'a>(crds: impl IntoIterator<Item = &'a Value>) -> Self {
        let mut kinds = Self::default();
        for (api_version, words) in BUILT_IN {
            for word in words.split_whitespace() {
                let kind = word.trim_start_matches('*');
                let gvk = Gvk::from_api_version(api_version, kind);
                kinds.add(KindInfo { gvk, namespaced: !word.starts_with('*'), plural: plural(kind) });
            }
        }
        for crd in crds {
            let text = |pointer: &str| crd.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            for version in crd.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten() {
                let version = version.get("name").and_then(Value::as_str).unwrap_or_default();
                kinds.add(KindInfo {
                    gvk: Gvk::new(text("/spec/group"), version, text("/spec/names/kind")),
                    namespaced: text("/spec/scope") == "Namespaced",
                    plural: text("/spec/names/plural").to_owned(),
                });
            }
        }
        kinds
    }

    fn add(&mut self, info: KindInfo) {
        let entry = self.0.entry(info.gvk.kind.to_string()).or_default();
        if !entry.iter().any(|known| known.gvk == info.gvk) {
            entry.push(info);
        }
    }

    /// Whether any kind is called so, by its name or by its plural: what stands for a kind alone may be either.
    pub fn check(&self, word: &str) -> Result<(), KindError> {
        let mut all = self.0.values().flatten();
        if all.any(|info| *info.gvk.kind == *word || info.plural == word) {
            return Ok(());
        }
        Err(self.unknown(None, word))
    }

    fn unknown(&self, api_version: Option<&str>, kind: &str) -> KindError {
        let mut known = self.0.keys();
        KindError::Unknown {
            kind: api_version.map_or_else(|| kind.to_owned(), |version| format!("{version} {kind}")),
            suggestion: known.find(|known| known.eq_ignore_ascii_case(kind) && *known != kind).cloned(),
        }
    }

    /// The kind that is meant.
    pub fn find(&self, api_version: Option<&str>, kind: &str) -> Result<&KindInfo, KindError> {
        let unknown = || self.unknown(api_version, kind);
        let candidates = self.0.get(kind).ok_or_else(unknown)?;
        match (api_version, candidates.as_slice()) {
            (Some(version), all) => {
                all.iter().find(|info| info.gvk.api_version() == version).ok_or_else(unknown)
            }
            (None, [only]) => Ok(only),
            (None, all) => Err(KindError::Ambiguous {
                kind: kind.to_owned(),
                candidates: all.iter().map(|info| info.gvk.api_version()).collect(),
            }),
        }
    }
}

/// The plural of a kind's name as all built-in kinds form it.
pub fn plural(kind: &str) -> String {
    let kind = kind.to_lowercase();
    if kind == "endpoints" {
        return kind;
    }
    match kind.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{stem}ies"),
        _ if kind.ends_with(['s', 'x']) || kind.ends_with("ch") => format!("{kind}es"),
        _ => format!("{kind}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn plurals_follow_the_api_servers_rule() {
        for (kind, expected) in [
            ("Policy", "policies"),
            ("Gateway", "gateways"),
            ("Ingress", "ingresses"),
            ("ConfigMap", "configmaps"),
            ("Endpoints", "endpoints"),
        ] {
            assert_eq!(plural(kind), expected);
        }
    }

    #[test]
    fn a_kind_alone_is_enough_where_it_is_unmistakable() {
        let kinds = Kinds::with_crds([]);
        let found = kinds.find(None, "NetworkPolicy").unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(
            (found.gvk.api_version().as_str(), found.plural.as_str()),
            ("networking.k8s.io/v1", "networkpolicies")
        );
        assert!(!kinds.find(None, "Namespace").unwrap_or_else(|error| panic!("{error}")).namespaced);
    }

    #[test]
    fn an_ambiguous_kind_needs_its_api_version() {
        let crd = json!({"spec": {"group": "kn.dev", "scope": "Namespaced", "versions": [{"name": "v1"}],
            "names": {"kind": "Service", "plural": "services"}}});
        let kinds = Kinds::with_crds([&crd]);
        let error = kinds.find(None, "Service").expect_err("two are called so");
        assert_eq!(error.to_string(), "\"Service\" may be v1 or kn.dev/v1: add the apiVersion");
        assert!(kinds.find(Some("kn.dev/v1"), "Service").is_ok());
    }

    #[test]
    fn a_word_alone_is_a_kind_or_a_plural_also_where_several_are_called_so() {
        let crd = json!({"spec": {"group": "kn.dev", "scope": "Namespaced", "versions": [{"name": "v1"}],
            "names": {"kind": "Service", "plural": "knservices"}}});
        let kinds = Kinds::with_crds([&crd]);
        for word in ["Pod", "pods", "Service", "services", "knservices", "Endpoints", "endpoints", "Ingress"]
        {
            assert_eq!(kinds.check(word), Ok(()), "{word}");
        }
        for (word, expected) in [
            ("pod", "no kind \"pod\" is known here; is Pod meant?"),
            ("Pods", "no kind \"Pods\" is known here"),
            ("", "no kind \"\" is known here"),
        ] {
            assert_eq!(kinds.check(word).map_err(|error| error.to_string()), Err(expected.to_owned()));
        }
    }

    #[test]
    fn a_typing_error_is_told_with_what_may_be_meant() {
        let error = Kinds::with_crds([]).find(None, "Configmap").expect_err("no such kind");
        assert_eq!(error.to_string(), "no kind \"Configmap\" is known here; is ConfigMap meant?");
    }
}
