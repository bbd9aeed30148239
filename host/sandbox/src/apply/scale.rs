//! Who manages the replicas of an object, as a Scale has it: upstream takes them out of the managers of the object, lets the
//! Scale's own be noted, and puts the result back.

use super::managers::{Entry, ManagerId, Managers, Operation};
use super::set::FieldSet;

/// The version of every Scale.
pub(crate) const SCALE_VERSION: &str = "autoscaling/v1";

/// Those who manage the replicas of an object, by the Scale's version.
pub(crate) fn of_scale(parent: &Managers, replicas: &FieldSet) -> Managers {
    let mut scale = Managers::default();
    for (id, entry) in &parent.entries {
        if entry.set.intersection(replicas).is_empty() {
            continue;
        }
        let entry =
            Entry { set: replicas.clone(), api_version: SCALE_VERSION.into(), time: entry.time.clone() };
        scale.entries.insert(in_scale(id), entry);
    }
    scale
}

/// The managers of an object after a change of its Scale. Whoever updates is another one in the Scale's version, so that their
/// replicas end up in an entry of their own, without a time.
pub(crate) fn of_parent(parent: &Managers, scale: Managers, replicas: &FieldSet, version: &str) -> Managers {
    let mut scale = scale.entries;
    let mut result = Managers::default();
    for (id, entry) in &parent.entries {
        let apart = entry.set.intersection(replicas).is_empty();
        if apart || scale.remove(id).is_some() {
            result.entries.insert(id.clone(), entry.clone());
            continue;
        }
        let left = entry.set.difference(replicas);
        if !left.is_empty() {
            result.entries.insert(id.clone(), Entry { set: left, ..entry.clone() });
        }
    }
    for (id, entry) in scale {
        if entry.set.intersection(replicas).is_empty() {
            continue;
        }
        let time = parent.entries.get(&id).and_then(|entry| entry.time.clone());
        result.entries.insert(id, Entry { set: replicas.clone(), api_version: version.into(), time });
    }
    result
}

fn in_scale(id: &ManagerId) -> ManagerId {
    let api_version = if id.operation == Operation::Apply { "" } else { SCALE_VERSION };
    ManagerId { api_version: api_version.into(), ..id.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn replicas() -> FieldSet {
        FieldSet::of_fields(&[&["spec", "replicas"]])
    }

    #[test]
    fn an_updater_is_noted_apart_for_the_replicas_and_an_applier_is_not() {
        let fields = json!({"f:spec": {"f:paused": {}, "f:replicas": {}}});
        let list = json!([
            {"manager": "a", "operation": "Apply", "apiVersion": "apps/v1", "fieldsV1": fields, "time": "T"},
            {"manager": "u", "operation": "Update", "apiVersion": "apps/v1", "fieldsV1": fields, "time": "T"},
        ]);
        let parent = Managers::parse(Some(&list)).unwrap();
        let back = of_parent(&parent, of_scale(&parent, &replicas()), &replicas(), "apps/v1").encode();
        let shown: Vec<String> = back
            .as_array()
            .unwrap()
            .iter()
            .map(|one| format!("{} {}", one["manager"].as_str().unwrap(), one["fieldsV1"]))
            .collect();
        assert_eq!(
            shown,
            [
                r#"a {"f:spec":{"f:paused":{},"f:replicas":{}}}"#,
                r#"u {"f:spec":{"f:replicas":{}}}"#,
                r#"u {"f:spec":{"f:paused":{}}}"#,
            ]
        );
    }
}
