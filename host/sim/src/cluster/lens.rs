//! What a server decides by itself, and a scenario lays down: UIDs, times of creation and deletion, generations.
//!
//! A real server takes none of these from anybody. So they are exchanged on the way: who looks through the lens sees the given
//! object under its given UID, made at its given time, and everything else made at the virtual time at which it was first seen.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Length of a UID as servers make it: 32 digits and four dashes.
const UID_LENGTH: usize = 36;

/// What is shown of objects instead of what the server says, by the server's UID.
#[derive(Debug, Default)]
pub(super) struct Lens {
    objects: BTreeMap<String, Shown>,
    /// Given UIDs, and what the server made of them.
    given: BTreeMap<String, String>,
}

#[derive(Debug)]
struct Shown {
    created: String,
    deleted: Option<String>,
    /// What is added to the server's generation.
    generation: i64,
}

impl Lens {
    /// From now on the object that the server put in place is shown as it was given.
    pub(super) fn place(&mut self, given: &Value, real: &Value, now: &str) {
        let text = |object: &Value, pointer: &str| {
            object.pointer(pointer).and_then(Value::as_str).map(str::to_owned)
        };
        let Some(uid) = text(real, "/metadata/uid") else { return };
        if let Some(shown) = text(given, "/metadata/uid") {
            self.given.insert(shown, uid.clone());
        }
        let generation = |object: &Value| object.pointer("/metadata/generation").and_then(Value::as_i64);
        let shift = generation(real).map(|real| generation(given).unwrap_or(1) - real);
        self.objects.insert(
            uid,
            Shown {
                created: text(given, "/metadata/creationTimestamp").unwrap_or_else(|| now.to_owned()),
                deleted: text(given, "/metadata/deletionTimestamp"),
                generation: shift.unwrap_or_default(),
            },
        );
    }

    /// Changes what comes from the server into what is shown. Nothing is made or deleted while virtual time passes, so what is
    /// seen for the first time happened at `now`.
    pub(super) fn inward(&mut self, value: &mut Value, now: &str) {
        match value {
            Value::Object(fields) => {
                if let (Some(Value::String(uid)), true) =
                    (fields.get("uid"), fields.contains_key("creationTimestamp"))
                {
                    let shown = self.objects.entry(uid.clone()).or_insert_with(|| Shown {
                        created: now.to_owned(),
                        deleted: None,
                        generation: 0,
                    });
                    fields.insert("creationTimestamp".to_owned(), shown.created.clone().into());
                    if let Some(deleted) = fields.get_mut("deletionTimestamp").filter(|at| !at.is_null()) {
                        *deleted = shown.deleted.get_or_insert_with(|| now.to_owned()).clone().into();
                    }
                    if let Some(generation) = fields.get_mut("generation")
                        && let Some(real) = generation.as_i64()
                    {
                        *generation = (real + shown.generation).into();
                    }
                }
                rename_keys(fields, |key| self.shown(key));
                fields.values_mut().for_each(|field| self.inward(field, now));
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.inward(item, now)),
            Value::String(text) => {
                if let Some(shown) = self.shown(text) {
                    *text = shown;
                }
            }
            _ => {}
        }
    }

    /// A text with the given UIDs in place of the server's; none where it has none of these.
    fn shown(&self, text: &str) -> Option<String> {
        if text.len() < UID_LENGTH {
            return None;
        }
        let mut held = self.given.iter().filter(|(_, real)| text.contains(real.as_str())).peekable();
        held.peek()?;
        Some(held.fold(text.to_owned(), |text, (given, real)| text.replace(real.as_str(), given)))
    }

    /// Changes what is sent to the server from what is shown.
    pub(super) fn outward(&self, value: &mut Value) {
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            // The server keeps its own, and takes another one for an attempt to change it.
            for field in ["creationTimestamp", "deletionTimestamp", "generation"] {
                metadata.remove(field);
            }
        }
        self.real_uids(value);
    }

    fn real_uids(&self, value: &mut Value) {
        match value {
            Value::Object(fields) => {
                if let Some(Value::String(uid)) = fields.get_mut("uid")
                    && let Some(real) = self.given.get(uid.as_str())
                {
                    uid.clone_from(real);
                }
                fields.values_mut().for_each(|field| self.real_uids(field));
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.real_uids(item)),
            _ => {}
        }
    }
}

/// Renames the keys of which `name` knows another name: a field manager's set of an owner reference has its UID in one.
fn rename_keys(fields: &mut Map<String, Value>, name: impl Fn(&str) -> Option<String>) {
    let renamed: Vec<_> = fields.keys().filter_map(|key| Some((key.clone(), name(key)?))).collect();
    for (old, new) in renamed {
        if let Some(value) = fields.remove(&old) {
            fields.insert(new, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;

    const REAL: &str = "0a1b2c3d-0000-4000-8000-000000000001";

    fn lens() -> Lens {
        let mut lens = Lens::default();
        let given =
            json!({"metadata": {"uid": "K1", "generation": 4, "creationTimestamp": "2025-12-01T00:00:00Z"}});
        lens.place(&given, &json!({"metadata": {"uid": REAL, "generation": 1}}), "2026-01-01T00:00:00Z");
        lens
    }

    fn check(mut value: Value, now: &str, snapshot: Expect) {
        lens().inward(&mut value, now);
        snapshot.assert_eq(&value.to_string());
    }

    #[test]
    fn a_given_object_is_shown_as_it_was_given_wherever_its_uid_stands() {
        check(
            json!({"metadata": {"uid": REAL, "generation": 2, "creationTimestamp": "2030-05-05T05:05:05Z"},
                "message": format!("made for {REAL}")}),
            "2026-01-01T00:00:00Z",
            expect![[
                r#"{"message":"made for K1","metadata":{"creationTimestamp":"2025-12-01T00:00:00Z","generation":5,"uid":"K1"}}"#
            ]],
        );
    }

    #[test]
    fn a_key_that_holds_a_given_uid_is_shown_with_it() {
        let key = format!(r#"k:{{"uid":"{REAL}"}}"#);
        check(
            json!({"managedFields": [{"fieldsV1": {"f:ownerReferences": {key: {}}}}]}),
            "2026-01-01T00:00:00Z",
            expect![[r#"{"managedFields":[{"fieldsV1":{"f:ownerReferences":{"k:{\"uid\":\"K1\"}":{}}}}]}"#]],
        );
    }

    #[test]
    fn what_was_not_given_was_made_and_deleted_when_it_was_first_seen() {
        let at = |deleted: Value| json!({"metadata": {"uid": "other", "creationTimestamp": "2030-05-05T05:05:05Z", "deletionTimestamp": deleted}});
        let mut lens = lens();
        let mut shown = |value: Value, now: &str| {
            let mut value = value;
            lens.inward(&mut value, now);
            format!("{} {}", value["metadata"]["creationTimestamp"], value["metadata"]["deletionTimestamp"])
        };
        assert_eq!(shown(at(Value::Null), "t1"), "\"t1\" null");
        assert_eq!(shown(at("2030-05-05T05:06:00Z".into()), "t2"), "\"t1\" \"t2\"");
        assert_eq!(shown(at("2030-05-05T05:06:00Z".into()), "t3"), "\"t1\" \"t2\"");
    }

    #[test]
    fn what_is_sent_names_the_servers_uid_and_none_of_its_times() {
        let mut body = json!({"metadata": {"name": "a", "uid": "K1", "creationTimestamp": "x", "ownerReferences": [{"uid": "K1"}, {"uid": "K9"}]},
            "text": "K1"});
        lens().outward(&mut body);
        expect![[r#"{"metadata":{"name":"a","ownerReferences":[{"uid":"0a1b2c3d-0000-4000-8000-000000000001"},{"uid":"K9"}],"uid":"0a1b2c3d-0000-4000-8000-000000000001"},"text":"K1"}"#]]
            .assert_eq(&body.to_string());
    }
}
