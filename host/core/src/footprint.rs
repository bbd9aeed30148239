//! The part of an object in which an action leaves its mark: a change outside it is no drift, and wakes nobody for it.
//!
//! Others write into what a plugin applied all the time: a machine's controller its status, a quota's controller what
//! is used. Most of the host's events are of that kind.

use serde_json::{Map, Value};

use crate::contract::Action;
use crate::limits::VIEW_POINTERS_MAX;
use crate::target::ActionTarget;
use crate::view::{Owner, View};

/// Metadata that names the object: nobody can change it.
const NAMES: [&str; 3] = ["name", "namespace", "uid"];

/// Labels, or annotations, up to which each is a part of its own: both and the rest still fit into a view.
const ENTRIES_MAX: usize = 12;

/// The view in which an action may drift, of an object that a field manager applies.
///
/// What others put beside an applied value is theirs, and wakes nobody. Where they cannot but take the whole over (an atomic map, such as
/// a selector), the manager loses it, which its fields tell.
pub fn of(target: &ActionTarget<'_>, manager: &str) -> View {
    let owner = |subresource| Owner { manager: manager.into(), subresource };
    match target.action() {
        Action::Apply(apply) => applied(target.body(), apply.controlled).with_owner(owner(None)),
        Action::ApplyStatus(apply) => {
            applied(target.body(), apply.controlled).with_owner(owner(Some("status")))
        }
        Action::AddFinalizer(_) => parts(&["/metadata/finalizers".to_owned()]),
        // Whether it is there at all is in every view, and so is which one it is.
        Action::Delete(_) => parts(&["/metadata/uid".to_owned()]),
        Action::Create(_)
        | Action::RemoveFinalizer(_)
        | Action::Patch(_)
        | Action::Publish(_)
        | Action::Enqueue(_)
        | Action::External(_) => View::whole(),
    }
}

/// A view of parts; of the whole where they are too many.
fn parts(parts: &[String]) -> View {
    View::parse(parts).unwrap_or_else(|_| View::whole())
}

/// Each value that is applied; where these are too many, the members that they are in.
fn applied(body: &Map<String, Value>, controlled: bool) -> View {
    // The API server keeps it elsewhere.
    if body.contains_key("stringData") {
        return View::whole();
    }
    let with = |values: fn(String, &Value, &mut Vec<String>)| {
        let mut parts = Vec::new();
        for (key, value) in body {
            match (key.as_str(), value) {
                ("apiVersion" | "kind", _) => {}
                ("metadata", Value::Object(metadata)) => parts.extend(of_metadata(metadata)),
                (key, value) => values(format!("/{}", escaped(key)), value, &mut parts),
            }
        }
        if controlled {
            parts.push("/metadata/ownerReferences".to_owned());
        }
        // An object that is nothing but a name: all that can drift is whether it is there.
        if parts.is_empty() {
            parts.push("/metadata/uid".to_owned());
        }
        parts
    };
    let fine = with(each_value);
    if fine.len() <= VIEW_POINTERS_MAX { parts(&fine) } else { parts(&with(|at, _, parts| parts.push(at))) }
}

/// Lists are one value: which item is meant is not told by its place.
fn each_value(at: String, value: &Value, parts: &mut Vec<String>) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            members
                .iter()
                .for_each(|(key, value)| each_value(format!("{at}/{}", escaped(key)), value, parts));
        }
        _ => parts.push(at),
    }
}

/// Labels and annotations one by one, as everybody puts theirs beside those of others; the rest of metadata by fields.
fn of_metadata(metadata: &Map<String, Value>) -> Vec<String> {
    let mut parts = Vec::new();
    for (key, value) in metadata.iter().filter(|(key, _)| !NAMES.contains(&key.as_str())) {
        let field = format!("/metadata/{}", escaped(key));
        match value {
            Value::Object(entries) if !entries.is_empty() && entries.len() <= ENTRIES_MAX => {
                parts.extend(entries.keys().map(|entry| format!("{field}/{}", escaped(entry))));
            }
            _ => parts.push(field),
        }
    }
    parts
}

/// A key as a JSON pointer writes it.
fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;
    use crate::contract::{Apply, Deletion, Finalizer, Patch, Propagation};
    use crate::testing::reference;

    fn check(action: Action, expect: Expect) {
        let target = ActionTarget::of(&action).expect("a sound action");
        let view = of(&target, "m");
        let pointers: Vec<_> = view.pointers().iter().map(|pointer| pointer.as_str().to_owned()).collect();
        let owner =
            view.owner().map(|Owner { manager, subresource }| format!(" of {manager} {subresource:?}"));
        expect.assert_eq(&format!("{}{}", pointers.join(" "), owner.unwrap_or_default()));
    }

    fn apply(object: Value, controlled: bool) -> Apply {
        Apply { object: object.to_string().into(), force: false, controlled }
    }

    #[test]
    fn an_apply_may_drift_in_what_it_says() {
        let object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "b",
            "labels": {"app.example.org/c": "d"}}, "a/b~c": 1,
            "spec": {"empty": {}, "none": null, "list": [{"x": 1}], "deep": {"x": {"y": true, "z": "z"}}}});
        check(
            Action::Apply(apply(object, false)),
            expect![
                "/a~1b~0c /metadata/labels/app.example.org~1c /spec/deep/x/y /spec/deep/x/z /spec/empty /spec/list /spec/none of m None"
            ],
        );
    }

    #[test]
    fn where_its_values_are_more_than_a_view_takes_it_may_drift_in_their_members() {
        let many: Map<String, Value> =
            (0..VIEW_POINTERS_MAX).map(|number| (format!("m{number}"), json!("x"))).collect();
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": many, "immutable": true});
        check(Action::Apply(apply(object, false)), expect!["/data /immutable of m None"]);
    }

    #[test]
    fn many_labels_are_one_part() {
        let labels: Map<String, Value> = (0..20).map(|number| (format!("l{number}"), json!("x"))).collect();
        let object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": labels}});
        check(Action::Apply(apply(object, false)), expect!["/metadata/labels of m None"]);
    }

    #[test]
    fn an_owner_is_a_mark_too() {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {}});
        check(Action::Apply(apply(object, true)), expect!["/data /metadata/ownerReferences of m None"]);
    }

    #[test]
    fn a_status_may_drift_in_the_status() {
        let object =
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "status": {"b": 1}});
        check(Action::ApplyStatus(apply(object, false)), expect![[r#"/status/b of m Some("status")"#]]);
    }

    #[test]
    fn what_the_api_server_moves_is_looked_for_everywhere() {
        let object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "stringData": {"b": "c"}});
        check(Action::Apply(apply(object, false)), expect![" of m None"]);
    }

    #[test]
    fn more_parts_than_a_view_takes_are_the_whole() {
        let mut object = json!({"apiVersion": "v1", "kind": "Odd", "metadata": {"name": "a"}});
        for number in 0..=VIEW_POINTERS_MAX {
            object[format!("part{number}")] = json!(1);
        }
        check(Action::Apply(apply(object, false)), expect![" of m None"]);
    }

    #[test]
    fn other_actions_leave_less() {
        let object = || reference("Pod a/x");
        let finalizer = Finalizer { object: object(), name: "example.org/hold".into() };
        check(Action::AddFinalizer(finalizer), expect!["/metadata/finalizers"]);
        let deletion = Deletion { object: object(), uid: None, propagation: Propagation::Background };
        check(Action::Delete(deletion), expect!["/metadata/uid"]);
        let nothing = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}});
        check(Action::Apply(apply(nothing, false)), expect!["/metadata/uid of m None"]);
        check(Action::Patch(Patch { object: object(), merge: "{}".into() }), expect![""]);
    }
}
