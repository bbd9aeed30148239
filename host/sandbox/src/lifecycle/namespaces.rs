//! The life of namespaces: which ones are there from the start, which stay, and how one that goes is emptied.

use crate::resources::Resource;
use crate::store::object::Stored;
use crate::turn::Turn;
use crate::verbs::delete::Propagation;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Namespaces that every cluster has.
pub(crate) const DEFAULT_NAMESPACES: &[&str] = &["default", "kube-node-lease", "kube-public", "kube-system"];

/// Namespaces that admission does not let go.
pub(crate) const PROTECTED_NAMESPACES: &[&str] = &["default", "kube-public", "kube-system"];

/// What is left in a namespace, for its conditions.
#[derive(Default)]
struct Remains {
    by_resource: BTreeMap<String, usize>,
    by_finalizer: BTreeMap<String, usize>,
}

impl Turn<'_> {
    /// Deletes what is in a namespace that is being deleted; lets the namespace go when nothing is left.
    pub(super) fn empty_namespace(&mut self, name: &str) {
        let Some(resource) = self.state.registry.find("", "namespaces").cloned() else { return };
        let Some(namespace) = self.state.store.get(resource.table, name).cloned() else { return };
        if !namespace.head.deleting {
            return;
        }
        for (resource, stored) in self.content_of(name) {
            if !stored.head.deleting {
                self.delete_stored(&resource, &stored, Propagation::Background);
            }
        }
        let remains = self.remains_of(name);
        let done = remains.by_resource.is_empty();
        self.tell_conditions(&resource, &namespace, &remains);
        if done {
            self.finish_namespace(&resource, &namespace);
        }
    }

    fn content_of(&self, name: &str) -> Vec<(Arc<Resource>, Arc<Stored>)> {
        let prefix = format!("{name}/");
        let mut content = Vec::new();
        for (table, objects) in self.state.store.tables() {
            let Some(resource) = self.state.registry.of_table(table).filter(|resource| resource.namespaced)
            else {
                continue;
            };
            let start: Arc<str> = prefix.as_str().into();
            let inside = objects.objects.range(start..).take_while(|(key, _)| key.starts_with(&prefix));
            content.extend(inside.map(|(_, stored)| (resource.clone(), stored.clone())));
        }
        content
    }

    fn remains_of(&self, name: &str) -> Remains {
        let mut remains = Remains::default();
        for (resource, stored) in self.content_of(name) {
            let shown = if resource.group.is_empty() {
                format!("{}.", resource.plural)
            } else {
                format!("{}.{}", resource.plural, resource.group)
            };
            *remains.by_resource.entry(shown).or_default() += 1;
            for finalizer in &stored.head.finalizers {
                *remains.by_finalizer.entry(finalizer.clone()).or_default() += 1;
            }
        }
        remains
    }

    fn tell_conditions(&mut self, resource: &Arc<Resource>, namespace: &Arc<Stored>, remains: &Remains) {
        let now = self.now_text.clone();
        self.edit(resource, namespace, |object| {
            let old = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let conditions = conditions(remains).map(|(kind, status, reason, message)| {
                let before = old.iter().find(|one| one["type"] == kind && one["status"] == status);
                let since = before.map_or(json!(now), |before| before["lastTransitionTime"].clone());
                json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": since})
            });
            object["status"]["conditions"] = Value::Array(conditions.into());
        });
    }

    /// Takes the `kubernetes` finalizer out of the spec, and the namespace with it where nothing else holds it.
    fn finish_namespace(&mut self, resource: &Arc<Resource>, namespace: &Arc<Stored>) {
        self.edit(resource, namespace, |object| {
            if let Some(list) = object.pointer_mut("/spec/finalizers").and_then(Value::as_array_mut) {
                list.retain(|one| one != "kubernetes");
                if list.is_empty() {
                    object["spec"] = json!({});
                }
            }
        });
    }
}

fn conditions(remains: &Remains) -> [(&'static str, &'static str, &'static str, String); 5] {
    let list = |counts: &BTreeMap<String, usize>, words: &str| {
        let parts: Vec<String> =
            counts.iter().map(|(name, count)| format!("{name} {words} {count} resource instances")).collect();
        parts.join(", ")
    };
    let content = if remains.by_resource.is_empty() {
        ("False", "ContentRemoved", "All content successfully removed".to_owned())
    } else {
        let remaining: Vec<String> = remains
            .by_resource
            .iter()
            .map(|(name, count)| format!("{name} has {count} resource instances"))
            .collect();
        ("True", "SomeResourcesRemain", format!("Some resources are remaining: {}", remaining.join(", ")))
    };
    let finalizers = if remains.by_finalizer.is_empty() {
        ("False", "ContentHasNoFinalizers", "All content-preserving finalizers finished".to_owned())
    } else {
        let text = list(&remains.by_finalizer, "in");
        (
            "True",
            "SomeFinalizersRemain",
            format!("Some content in the namespace has finalizers remaining: {text}"),
        )
    };
    let fine = |kind, reason, message: &str| (kind, "False", reason, message.to_owned());
    [
        fine(
            "NamespaceDeletionDiscoveryFailure",
            "ResourcesDiscovered",
            "All resources successfully discovered",
        ),
        fine(
            "NamespaceDeletionGroupVersionParsingFailure",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        fine(
            "NamespaceDeletionContentFailure",
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
        ("NamespaceContentRemaining", content.0, content.1, content.2),
        ("NamespaceFinalizersRemaining", finalizers.0, finalizers.1, finalizers.2),
    ]
}
