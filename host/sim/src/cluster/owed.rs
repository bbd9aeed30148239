//! What a cluster's own controllers still have to do: collect garbage, end namespaces, count what quotas limit.
//!
//! They work in their own time. A step is over only once they have nothing left to do, as in the sandbox, where they do it at
//! once. This says what they have left, from lists of what is there; it does none of it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";
/// Finalizers that controllers of every cluster take off by themselves.
const OWN_FINALIZERS: [&str; 4] =
    [FOREGROUND, ORPHAN, "kubernetes.io/pvc-protection", "customresourcecleanup.apiextensions.k8s.io"];

/// All objects of a kind.
#[derive(Clone, Debug)]
pub(super) struct Listed {
    /// Empty for the core group.
    pub(super) group: String,
    pub(super) kind: String,
    pub(super) objects: Vec<Value>,
}

struct Thing<'a> {
    kind: &'a str,
    group: &'a str,
    object: &'a Value,
}

impl<'a> Thing<'a> {
    fn text(&self, pointer: &str) -> &'a str {
        self.object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    fn is(&self, group: &str, kind: &str) -> bool {
        self.group == group && self.kind == kind
    }

    fn deleting(&self) -> bool {
        self.object.pointer("/metadata/deletionTimestamp").is_some()
    }

    fn texts(&self, pointer: &str) -> impl Iterator<Item = &'a str> {
        self.object.pointer(pointer).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
    }

    fn finalizers(&self) -> impl Iterator<Item = &'a str> {
        self.texts("/metadata/finalizers")
    }

    /// Somebody else than the cluster holds it.
    fn held(&self) -> bool {
        self.finalizers().any(|finalizer| !OWN_FINALIZERS.contains(&finalizer))
    }

    fn owners(&self) -> impl Iterator<Item = &'a Value> {
        self.object.pointer("/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten()
    }

    fn name(&self) -> String {
        match self.text("/metadata/namespace") {
            "" => format!("{} {}", self.kind, self.text("/metadata/name")),
            namespace => format!("{} {namespace}/{}", self.kind, self.text("/metadata/name")),
        }
    }
}

struct Cluster<'a> {
    things: Vec<Thing<'a>>,
    by_uid: BTreeMap<&'a str, usize>,
    /// Kinds of which every object is known.
    known: BTreeSet<(&'a str, &'a str)>,
}

/// What is left to do, in words; empty where the cluster is at rest.
pub(super) fn owed(all: &[Listed]) -> Vec<String> {
    let things: Vec<Thing<'_>> = all
        .iter()
        .flat_map(|listed| {
            let of = |object| Thing { kind: &listed.kind, group: &listed.group, object };
            listed.objects.iter().map(of)
        })
        .collect();
    let by_uid = things.iter().enumerate().map(|(at, thing)| (thing.text("/metadata/uid"), at)).collect();
    let known = all.iter().map(|listed| (listed.group.as_str(), listed.kind.as_str())).collect();
    let cluster = Cluster { things, by_uid, known };
    cluster.things.iter().filter_map(|thing| cluster.left_of(thing)).collect()
}

impl Cluster<'_> {
    fn left_of(&self, thing: &Thing<'_>) -> Option<String> {
        let name = thing.name();
        if !thing.deleting() {
            if uncounted(thing) {
                return Some(format!("{name} is to be counted"));
            }
            return self.unowned(thing).then(|| format!("{name} has lost an owner"));
        }
        if thing.is("", "Namespace") && thing.texts("/spec/finalizers").next().is_some() {
            return (!self.content_is_held(thing)).then(|| format!("{name} is to be emptied and ended"));
        }
        let unfinished = match thing.finalizers().find(|finalizer| OWN_FINALIZERS.contains(finalizer)) {
            Some(FOREGROUND) => !self.dependents_block(thing),
            Some("customresourcecleanup.apiextensions.k8s.io") => !self.instances_are_held(thing),
            Some(_) => true,
            None => false,
        };
        unfinished.then(|| format!("{name} is being deleted"))
    }

    /// It has owners, and one of them is gone or waits for it to go.
    fn unowned(&self, thing: &Thing<'_>) -> bool {
        thing.owners().any(|owner| {
            let text = |field: &str| owner.get(field).and_then(Value::as_str).unwrap_or_default();
            let group = text("apiVersion").split_once('/').map_or("", |(group, _)| group);
            match self.by_uid.get(text("uid")) {
                Some(at) => {
                    let owner = &self.things[*at];
                    owner.deleting() && owner.finalizers().any(|finalizer| finalizer == FOREGROUND)
                }
                // Of a kind that was not looked at nobody can say that it is gone.
                None => self.known.contains(&(group, text("kind"))),
            }
        })
    }

    fn dependents_block(&self, owner: &Thing<'_>) -> bool {
        let uid = owner.text("/metadata/uid");
        self.things.iter().any(|thing| {
            thing.owners().any(|reference| {
                reference["uid"] == *uid && reference["blockOwnerDeletion"] == Value::Bool(true)
            })
        })
    }

    /// Everything in the namespace is being deleted, and something there waits for somebody else.
    fn content_is_held(&self, namespace: &Thing<'_>) -> bool {
        let name = namespace.text("/metadata/name");
        let mut content = self.things.iter().filter(|thing| thing.text("/metadata/namespace") == name);
        let all_go = content.clone().filter(|thing| !thing.is("", "Event")).all(Thing::deleting);
        all_go && content.any(Thing::held)
    }

    fn instances_are_held(&self, definition: &Thing<'_>) -> bool {
        let (group, kind) = (definition.text("/spec/group"), definition.text("/spec/names/kind"));
        self.things.iter().any(|thing| thing.is(group, kind) && thing.held())
    }
}

/// A quota with a limit that its status does not have yet: so long the API server does not hold anybody to it.
fn uncounted(thing: &Thing<'_>) -> bool {
    let limits = |pointer: &str| thing.object.pointer(pointer).and_then(Value::as_object);
    let is_counted = |limit: &String| limits("/status/hard").is_some_and(|hard| hard.contains_key(limit));
    thing.is("", "ResourceQuota") && limits("/spec/hard").is_some_and(|hard| !hard.keys().all(is_counted))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What is owed where these Pods, Namespaces, ResourceQuotas and Machines are there.
    fn check(objects: &[Value], expected: &[&str]) {
        let of = |kind: &str| objects.iter().filter(|object| object["kind"] == *kind).cloned().collect();
        let kinds = [("", "Pod"), ("", "Namespace"), ("", "ResourceQuota"), ("e.com", "Machine")];
        let all = kinds.map(|(group, kind)| Listed {
            group: group.to_owned(),
            kind: kind.to_owned(),
            objects: of(kind),
        });
        assert_eq!(owed(&all), expected, "{objects:?}");
    }

    fn machine(more: Value) -> Value {
        let mut machine = json!({"kind": "Machine", "metadata": {"namespace": "a", "name": "m", "uid": "M"}});
        json_patch(&mut machine["metadata"], more);
        machine
    }

    fn pod(more: Value) -> Value {
        let owner = json!({"apiVersion": "e.com/v1", "kind": "Machine", "name": "m", "uid": "M", "blockOwnerDeletion": true});
        let mut pod = json!({"kind": "Pod", "metadata": {"namespace": "a", "name": "p", "uid": "P", "ownerReferences": [owner]}});
        json_patch(&mut pod["metadata"], more);
        pod
    }

    fn json_patch(target: &mut Value, more: Value) {
        let (Value::Object(target), Value::Object(more)) = (target, more) else { panic!("two maps") };
        target.extend(more);
    }

    #[test]
    fn what_has_lost_its_owner_is_to_be_collected() {
        check(&[machine(json!({})), pod(json!({}))], &[]);
        check(&[pod(json!({}))], &["Pod a/p has lost an owner"]);
        check(&[pod(json!({"deletionTimestamp": "t", "finalizers": ["e.com/hold"]}))], &[]);
    }

    #[test]
    fn an_owner_of_a_kind_that_was_not_looked_at_is_taken_to_be_there() {
        check(
            &[pod(json!({"ownerReferences": [{"apiVersion": "o.com/v1", "kind": "Other", "uid": "X"}]}))],
            &[],
        );
    }

    #[test]
    fn one_that_is_deleted_in_the_foreground_waits_for_its_dependents() {
        let machine = machine(json!({"deletionTimestamp": "t", "finalizers": [FOREGROUND]}));
        check(std::slice::from_ref(&machine), &["Machine a/m is being deleted"]);
        check(&[machine.clone(), pod(json!({}))], &["Pod a/p has lost an owner"]);
        check(&[machine, pod(json!({"deletionTimestamp": "t", "finalizers": ["e.com/hold"]}))], &[]);
    }

    #[test]
    fn a_namespace_that_goes_is_emptied_unless_somebody_holds_what_is_in_it() {
        let namespace = json!({"kind": "Namespace", "metadata": {"name": "a", "uid": "N", "deletionTimestamp": "t"},
            "spec": {"finalizers": ["kubernetes"]}});
        let owed = &["Namespace a is to be emptied and ended"];
        check(std::slice::from_ref(&namespace), owed);
        check(&[namespace.clone(), machine(json!({}))], owed);
        check(&[namespace, machine(json!({"deletionTimestamp": "t", "finalizers": ["e.com/hold"]}))], &[]);
    }

    #[test]
    fn a_quota_is_counted_once_its_status_has_each_limit() {
        let quota = |status: Value| {
            json!({"kind": "ResourceQuota", "metadata": {"namespace": "a", "name": "q", "uid": "Q"},
                "spec": {"hard": {"pods": "3", "services": "2"}}, "status": status})
        };
        let owed = &["ResourceQuota a/q is to be counted"];
        check(&[quota(json!({}))], owed);
        check(&[quota(json!({"hard": {"pods": "3"}}))], owed);
        check(&[quota(json!({"hard": {"pods": "2", "services": "2"}, "used": {}}))], &[]);
        check(
            &[json!({"kind": "ResourceQuota", "metadata": {"namespace": "a", "name": "q"}, "spec": {}})],
            &[],
        );
    }
}
