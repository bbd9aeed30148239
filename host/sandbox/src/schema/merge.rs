//! How a value merges: the look-ups of server-side apply and of strategic merge patches.

use super::structural::{Additional, JsonType, Schema};

/// What server-side apply makes of a value, by the rules of kube-openapi's conversion.
#[derive(Clone, Copy, Debug)]
pub enum MergeType<'a> {
    /// One value, one owner.
    Scalar,
    /// A list of a known kind.
    List {
        /// How its items are told apart.
        kind: ListKind<'a>,
        /// The schema of an item; none where items are untyped (and so atomic).
        item: Option<&'a Schema>,
    },
    /// A map or struct; the fields' schemas come from [`Schema::field`].
    Map {
        /// Owned as a whole.
        atomic: bool,
        /// Whether fields that no schema names are merged as [`MergeType::Deduced`]; without it they are unknown.
        open: bool,
    },
    /// The value itself tells: maps are granular, lists atomic, the rest scalars. Fields below are deduced as well, unless
    /// [`Schema::field`] knows better.
    Deduced,
    /// Whatever it is, it is owned as a whole.
    Atomic,
}

/// How the items of a list are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListKind<'a> {
    /// Not at all: the list is one value.
    Atomic,
    /// By their value.
    Set,
    /// By these fields.
    Map(&'a [String]),
}

/// `x-kubernetes-patch-strategy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PatchStrategy {
    /// Lists are merged item by item, by the merge key or by value.
    pub merge: bool,
    /// The value is replaced as a whole.
    pub replace: bool,
    /// Fields that `$retainKeys` does not name are dropped.
    pub retain_keys: bool,
}

impl Schema {
    /// What server-side apply makes of a value of this schema.
    pub fn merge_type(&self) -> MergeType<'_> {
        match self.ty {
            Some(JsonType::Boolean | JsonType::Integer | JsonType::Number | JsonType::String) => {
                MergeType::Scalar
            }
            Some(JsonType::Array) => MergeType::List { kind: self.list_kind(), item: self.item() },
            Some(JsonType::Object) => self.merge_map(),
            None if self.quantity => MergeType::Scalar,
            None => MergeType::Deduced,
        }
    }

    /// How the items of this list are told apart; [`ListKind::Atomic`] for what is no list.
    pub fn list_kind(&self) -> ListKind<'_> {
        match self.list_type.as_deref() {
            Some("set") => ListKind::Set,
            Some("map") => ListKind::Map(&self.list_map_keys),
            Some(_) => ListKind::Atomic,
            // Lists that carry only the older strategic merge markers.
            None => match (self.patch_strategy.as_deref(), &self.patch_merge_key) {
                (Some("merge" | "merge,retainKeys"), Some(key)) => ListKind::Map(std::slice::from_ref(key)),
                (Some("merge" | "merge,retainKeys"), None) => ListKind::Set,
                _ => ListKind::Atomic,
            },
        }
    }

    /// Whether the map is owned as a whole.
    pub fn is_atomic_map(&self) -> bool {
        self.map_type.as_deref() == Some("atomic")
    }

    /// The strategy of a strategic merge patch.
    pub fn patch_strategy(&self) -> PatchStrategy {
        let mut strategy = PatchStrategy::default();
        for word in self.patch_strategy.iter().flat_map(|words| words.split(',')) {
            match word {
                "merge" => strategy.merge = true,
                "replace" => strategy.replace = true,
                "retainKeys" => strategy.retain_keys = true,
                _ => {}
            }
        }
        strategy
    }

    /// The field that tells list items apart in a strategic merge patch.
    pub fn patch_merge_key(&self) -> Option<&str> {
        self.patch_merge_key.as_deref()
    }

    fn merge_map(&self) -> MergeType<'_> {
        if self.raw_extension {
            return MergeType::Atomic;
        }
        let open = match self.additional {
            Additional::Unset => {
                self.merge_unknown || (self.properties.is_empty() && !self.embedded && !self.resource_root)
            }
            Additional::Allowed(allowed) => allowed,
            Additional::Schema(_) => false,
        };
        MergeType::Map { atomic: self.is_atomic_map(), open }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Gvk, builtin};
    use super::*;
    use expect_test::{Expect, expect};

    /// Shows how the field at a path of dots merges (`[]` steps into a list's item, `*` into a map's value).
    fn check(gvk: Gvk<'_>, path: &str, expect: Expect) {
        let root = builtin(gvk).expect("a built-in kind");
        let mut schema = root.schema();
        for step in path.split('.') {
            schema = match step {
                "[]" => schema.item(),
                name => schema.field(name),
            }
            .unwrap_or_else(|| panic!("no {step} in {path}"));
        }
        let shown = match schema.merge_type() {
            MergeType::List { kind, .. } => format!("list {kind:?}"),
            other => format!("{other:?}"),
        };
        expect.assert_eq(&shown);
    }

    #[test]
    fn the_lists_of_built_in_kinds_merge_as_on_a_real_server() {
        let service = Gvk::new("", "v1", "Service");
        check(service, "spec.ports", expect![[r#"list Map(["port", "protocol"])"#]]);
        check(service, "spec.clusterIPs", expect!["list Atomic"]);
        check(service, "spec.selector", expect!["Map { atomic: true, open: false }"]);
        check(service, "metadata.finalizers", expect!["list Set"]);
        check(service, "metadata.ownerReferences", expect![[r#"list Map(["uid"])"#]]);
        check(service, "metadata.labels", expect!["Map { atomic: false, open: false }"]);
        check(service, "spec.ports.[].targetPort", expect!["Deduced"]);
        let pod = Gvk::new("", "v1", "Pod");
        check(pod, "spec.containers.[].resources.limits.cpu", expect!["Scalar"]);
        check(pod, "spec.tolerations", expect!["list Atomic"]);
        check(pod, "spec.volumes.[].emptyDir", expect!["Map { atomic: false, open: false }"]);
        let policy = Gvk::new("networking.k8s.io", "v1", "NetworkPolicy");
        check(policy, "spec.podSelector", expect!["Map { atomic: true, open: false }"]);
        check(policy, "spec.ingress", expect!["list Atomic"]);
        let revision = Gvk::new("apps", "v1", "ControllerRevision");
        check(revision, "data", expect!["Atomic"]);
        let crd = Gvk::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        check(crd, "spec.versions", expect!["list Atomic"]);
        check(
            crd,
            "spec.versions.[].schema.openAPIV3Schema.properties.a.properties",
            expect!["Map { atomic: false, open: false }"],
        );
    }

    #[test]
    fn the_protocol_of_a_port_has_a_default_that_completes_its_key() {
        let service = builtin(Gvk::new("", "v1", "Service")).expect("Service is built in");
        let protocol =
            ["spec", "ports"].into_iter().fold(service.schema(), |at, step| at.field(step).expect(step));
        let protocol = protocol.item().and_then(|port| port.field("protocol")).expect("ports have protocols");
        assert_eq!(protocol.default_value(), Some(&serde_json::json!("TCP")));
    }

    #[test]
    fn a_deployments_strategy_retains_keys() {
        let kind = builtin(Gvk::new("apps", "v1", "Deployment")).expect("Deployment is built in");
        let strategy = kind.schema().field("spec").and_then(|spec| spec.field("strategy")).expect("strategy");
        assert!(strategy.patch_strategy().retain_keys);
        let containers = ["spec", "template", "spec", "containers"];
        let containers = containers.into_iter().fold(kind.schema(), |at, step| at.field(step).expect(step));
        assert_eq!((containers.patch_strategy().merge, containers.patch_merge_key()), (true, Some("name")));
    }

    #[test]
    fn the_document_of_a_group_explains_its_kinds() {
        let text = super::super::openapi_v3("networking.k8s.io", "v1").expect("networking is built in");
        let document: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let path = "/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies/{name}";
        assert_eq!(
            document["paths"][path]["patch"]["x-kubernetes-group-version-kind"]["kind"],
            "NetworkPolicy"
        );
        let schemas = &document["components"]["schemas"];
        assert!(schemas["io.k8s.api.networking.v1.NetworkPolicy"]["description"].is_string());
        assert!(schemas["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"].is_object());
    }
}
