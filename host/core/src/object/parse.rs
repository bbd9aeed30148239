//! From the API server's text to a compact one: pieces are cut out and joined, no tree is built.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::{Head, ManagedFields, ObjectError, owned};
use crate::contract::Gvk;
use crate::names::FIELD_MANAGER_PREFIX;
use crate::pointer::Key;

/// kubectl keeps a copy of the whole object here; it would wake everybody for nothing.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The fields of a JSON object in their order, each as its text where nothing else is wanted.
struct Fields<'j, V = &'j RawValue>(Vec<(Cow<'j, str>, V)>);

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Fields<'de, V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder<V>(PhantomData<V>);
        impl<'de, V: Deserialize<'de>> Visitor<'de> for InOrder<V> {
            type Value = Fields<'de, V>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::with_capacity(8);
                while let Some(Key(key)) = map.next_key()? {
                    fields.push((key, map.next_value()?));
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(InOrder(PhantomData))
    }
}

/// A text, borrowed where it has no escapes.
#[derive(Deserialize)]
struct Text<'j>(#[serde(borrow)] Cow<'j, str>);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OwnerReference<'j> {
    #[serde(borrow, default)]
    uid: Cow<'j, str>,
    #[serde(default)]
    controller: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ManagedEntry<'j> {
    #[serde(borrow, default)]
    manager: Cow<'j, str>,
    #[serde(borrow, default)]
    operation: Cow<'j, str>,
    #[serde(borrow, default)]
    subresource: Option<Cow<'j, str>>,
    #[serde(borrow, default)]
    fields_v1: Option<&'j RawValue>,
}

pub(super) fn parse(gvk: &Gvk, raw: &str) -> Result<(String, Head), ObjectError> {
    let Fields(fields): Fields<'_> = serde_json::from_str(raw).map_err(ObjectError::Json)?;
    let mut head = Head::default();
    let mut out = String::with_capacity(raw.len());
    out.push_str("{\"apiVersion\":");
    push_text(&mut out, &gvk.api_version());
    out.push_str(",\"kind\":");
    push_text(&mut out, &gvk.kind);
    for (key, value) in fields {
        match &*key {
            "apiVersion" | "kind" => continue,
            "metadata" => {
                push_key(&mut out, &key);
                metadata(value.get(), &mut head, &mut out).map_err(ObjectError::Json)?;
            }
            _ => {
                push_key(&mut out, &key);
                out.push_str(value.get());
            }
        }
    }
    out.push('}');
    if head.name.is_empty() {
        return Err(ObjectError::Nameless);
    }
    Ok((out, head))
}

/// Reads the head and writes what plugins may see of it.
fn metadata(raw: &str, head: &mut Head, out: &mut String) -> Result<(), serde_json::Error> {
    let Fields(fields): Fields<'_> = serde_json::from_str(raw)?;
    out.push('{');
    let start = out.len();
    for (key, value) in fields {
        let text = value.get();
        match &*key {
            "managedFields" => {
                head.managed = managed(text)?;
                continue;
            }
            "resourceVersion" => {
                head.resource_version = serde_json::from_str(text)?;
                continue;
            }
            "annotations" if text.contains(LAST_APPLIED) => {
                annotations(text, out, start)?;
                continue;
            }
            "uid" => head.uid = serde_json::from_str(text)?,
            "generation" => head.generation = serde_json::from_str(text)?,
            "namespace" => {
                let namespace: Option<Cow<'_, str>> = serde_json::from_str(text)?;
                head.namespace = namespace.filter(|namespace| !namespace.is_empty()).map(Arc::from);
            }
            "name" => head.name = serde_json::from_str::<Cow<'_, str>>(text)?.into(),
            "labels" => {
                let labels: Option<Fields<'_, Text<'_>>> = serde_json::from_str(text)?;
                let pairs = labels.into_iter().flat_map(|Fields(labels)| labels);
                head.labels = pairs.map(|(key, Text(value))| (key, value)).collect();
            }
            "ownerReferences" => head.controller_uid = controller(text)?,
            "deletionTimestamp" => head.deleting = text != "null",
            "finalizers" => {
                let finalizers: Option<Vec<Box<str>>> = serde_json::from_str(text)?;
                head.finalizers = finalizers.unwrap_or_default();
            }
            _ => {}
        }
        if out.len() > start {
            out.push(',');
        }
        push_text(out, &key);
        out.push(':');
        out.push_str(text);
    }
    out.push('}');
    Ok(())
}

/// Writes annotations without kubectl's; without any there is no field.
fn annotations(raw: &str, out: &mut String, start: usize) -> Result<(), serde_json::Error> {
    let Fields(mut fields): Fields<'_> = serde_json::from_str(raw)?;
    fields.retain(|(key, _)| key != LAST_APPLIED);
    if fields.is_empty() {
        return Ok(());
    }
    if out.len() > start {
        out.push(',');
    }
    out.push_str("\"annotations\":{");
    for (at, (key, value)) in fields.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        push_text(out, key);
        out.push(':');
        out.push_str(value.get());
    }
    out.push('}');
    Ok(())
}

fn controller(raw: &str) -> Result<Option<Box<str>>, serde_json::Error> {
    let owners: Option<Vec<OwnerReference<'_>>> = serde_json::from_str(raw)?;
    let controller = owners.unwrap_or_default().into_iter().find(|owner| owner.controller == Some(true));
    Ok(controller.map(|owner| owner.uid.into()))
}

/// What our managers own by apply; an update by the same name owns it in another way, and a later apply would leave
/// that where it is.
fn managed(raw: &str) -> Result<Vec<ManagedFields>, serde_json::Error> {
    // Most objects have nothing of ours.
    if !raw.contains(FIELD_MANAGER_PREFIX) {
        serde_json::from_str::<IgnoredAny>(raw)?;
        return Ok(Vec::new());
    }
    let entries: Option<Vec<ManagedEntry<'_>>> = serde_json::from_str(raw)?;
    let entries = entries.unwrap_or_default();
    let ours = |entry: &&ManagedEntry<'_>| {
        entry.manager.starts_with(FIELD_MANAGER_PREFIX) && entry.operation == "Apply"
    };
    let fields = entries.iter().filter(ours).map(|entry| ManagedFields {
        manager: (&*entry.manager).into(),
        subresource: subresource(entry).map(Into::into),
        fields: (&*owned::beside(fields_of(entry), &beside(&entries, entry))).into(),
    });
    Ok(fields.collect())
}

fn fields_of<'e>(entry: &'e ManagedEntry<'_>) -> &'e str {
    entry.fields_v1.map_or("{}", RawValue::get)
}

/// None for the object itself.
fn subresource<'e>(entry: &'e ManagedEntry<'_>) -> Option<&'e str> {
    entry.subresource.as_deref().filter(|name| !name.is_empty())
}

/// What others than one own by the same way: what is written by a subresource, as a status is, is not written by the object.
fn beside<'e>(entries: &'e [ManagedEntry<'_>], one: &ManagedEntry<'_>) -> Vec<&'e str> {
    let is_beside =
        |other: &&ManagedEntry<'_>| !std::ptr::eq(*other, one) && subresource(other) == subresource(one);
    entries.iter().filter(is_beside).map(fields_of).collect()
}

fn push_key(out: &mut String, key: &str) {
    out.push(',');
    push_text(out, key);
    out.push(':');
}

pub(super) fn push_text(out: &mut String, text: &str) {
    // Escapes only where it must: keys rarely need it.
    let plain = text.bytes().all(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\');
    if plain {
        out.push('"');
        out.push_str(text);
        out.push('"');
    } else {
        out.push_str(&Value::from(text).to_string());
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::super::CachedObject;
    use super::*;

    fn check(raw: &str, expect: Expect) {
        let gvk = Gvk::new("apps", "v1", "Deployment");
        let text = match CachedObject::parse(&gvk, raw) {
            Ok(object) => format!("{}\n{:?}", object.json(), object.head()),
            Err(error) => format!(
                "error: {error}: {}",
                std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default()
            ),
        };
        expect.assert_eq(&text);
    }

    #[test]
    fn what_is_the_hosts_business_is_cut_out() {
        check(
            r#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"7","name":"a",
            "managedFields":[{"manager":"kubectl","operation":"Update"}],"namespace":"n","uid":"u","generation":3},"spec":{"x": 1.50}}"#,
            expect![[r#"
                {"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a","namespace":"n","uid":"u","generation":3},"spec":{"x": 1.50}}
                Head { uid: "u", resource_version: "7", generation: 3, namespace: Some("n"), name: "a", labels: {}, controller_uid: None, deleting: false, finalizers: [], managed: [] }"#]],
        );
    }

    #[test]
    fn kubectls_copy_of_the_object_is_cut_out_and_other_annotations_stay() {
        check(
            r#"{"metadata":{"name":"a","annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{}","b":"\"c\""}}}"#,
            expect![[r#"
                {"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a","annotations":{"b":"\"c\""}}}
                Head { uid: "", resource_version: "", generation: 0, namespace: None, name: "a", labels: {}, controller_uid: None, deleting: false, finalizers: [], managed: [] }"#]],
        );
        check(
            r#"{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{}"},"name":"a"}}"#,
            expect![[r#"
                {"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"}}
                Head { uid: "", resource_version: "", generation: 0, namespace: None, name: "a", labels: {}, controller_uid: None, deleting: false, finalizers: [], managed: [] }"#]],
        );
    }

    #[test]
    fn the_head_knows_owner_finalizers_labels_and_deletion() {
        check(
            r#"{"metadata":{"name":"a","labels":{"a":"1","b":""},"finalizers":["x/y"],"deletionTimestamp":"2026-01-01T00:00:00Z",
            "ownerReferences":[{"uid":"u1"},{"uid":"u2","controller":true}]}}"#,
            expect![[r#"
                {"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a","labels":{"a":"1","b":""},"finalizers":["x/y"],"deletionTimestamp":"2026-01-01T00:00:00Z","ownerReferences":[{"uid":"u1"},{"uid":"u2","controller":true}]}}
                Head { uid: "", resource_version: "", generation: 0, namespace: None, name: "a", labels: {"a": "1", "b": ""}, controller_uid: Some("u2"), deleting: true, finalizers: ["x/y"], managed: [] }"#]],
        );
        check(
            r#"{"metadata":{"name":"a","labels":null,"finalizers":null,"ownerReferences":null,"managedFields":null,"deletionTimestamp":null}}"#,
            expect![[r#"
                {"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a","labels":null,"finalizers":null,"ownerReferences":null,"deletionTimestamp":null}}
                Head { uid: "", resource_version: "", generation: 0, namespace: None, name: "a", labels: {}, controller_uid: None, deleting: false, finalizers: [], managed: [] }"#]],
        );
    }

    #[test]
    fn a_map_whose_members_others_own_is_told_by_those_who_write_the_same_way() {
        check(
            r#"{"metadata":{"name":"a","managedFields":[
            {"manager":"evenkeel/kite/a","operation":"Apply","fieldsV1":{"f:spec":{"f:deep":{}}}},
            {"manager":"evenkeel/kite/b","operation":"Apply","fieldsV1":{"f:spec":{"f:deep":{}}}},
            {"manager":"kubectl","operation":"Update","subresource":"status","fieldsV1":{"f:spec":{"f:deep":{"f:x":{}}}}}]}}"#,
            expect![[r#"
                {"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"}}
                Head { uid: "", resource_version: "", generation: 0, namespace: None, name: "a", labels: {}, controller_uid: None, deleting: false, finalizers: [], managed: [ManagedFields { manager: "evenkeel/kite/a", subresource: None, fields: "{\"f:spec\":{\"f:deep\":{}}}" }, ManagedFields { manager: "evenkeel/kite/b", subresource: None, fields: "{\"f:spec\":{\"f:deep\":{}}}" }] }"#]],
        );
        check(
            r#"{"metadata":{"name":"a","managedFields":[
            {"manager":"evenkeel/kite/a","operation":"Apply","fieldsV1":{"f:spec":{"f:deep":{}}}},
            {"manager":"kubectl","operation":"Update","fieldsV1":{"f:spec":{"f:deep":{"f:x":{}}}}}]}}"#,
            expect![[r#"
                {"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"}}
                Head { uid: "", resource_version: "", generation: 0, namespace: None, name: "a", labels: {}, controller_uid: None, deleting: false, finalizers: [], managed: [ManagedFields { manager: "evenkeel/kite/a", subresource: None, fields: "{\"f:spec\":{\"f:deep\":{\".\":{}}}}" }] }"#]],
        );
    }

    #[test]
    fn only_what_our_managers_applied_counts_as_ours() {
        check(
            r#"{"metadata":{"name":"a","managedFields":[
            {"manager":"evenkeel/kite/a","operation":"Apply","fieldsV1":{"f:spec":{}}},
            {"manager":"evenkeel/kite/a","operation":"Apply","subresource":"status","fieldsV1":{"f:status":{}}},
            {"manager":"evenkeel/kite/a","operation":"Update","fieldsV1":{"f:data":{}}},
            {"manager":"kubectl","operation":"Apply","fieldsV1":{"f:spec":{}}}]}}"#,
            expect![[r#"
                {"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"}}
                Head { uid: "", resource_version: "", generation: 0, namespace: None, name: "a", labels: {}, controller_uid: None, deleting: false, finalizers: [], managed: [ManagedFields { manager: "evenkeel/kite/a", subresource: None, fields: "{\"f:spec\":{}}" }, ManagedFields { manager: "evenkeel/kite/a", subresource: Some("status"), fields: "{\"f:status\":{}}" }] }"#]],
        );
    }

    #[test]
    fn what_is_no_object_is_an_error() {
        check(
            "[]",
            expect![
                "error: not a Kubernetes object: invalid type: sequence, expected a JSON object at line 1 column 0"
            ],
        );
        check(r#"{"metadata":{}}"#, expect!["error: an object without a name: "]);
        check(
            r#"{"metadata":{"name":1}}"#,
            expect![
                "error: not a Kubernetes object: invalid type: integer `1`, expected a string at line 1 column 1"
            ],
        );
        check(
            r#"{"metadata":{"name":"a","labels":{"a":1}}}"#,
            expect![
                "error: not a Kubernetes object: invalid type: integer `1`, expected a string at line 1 column 6"
            ],
        );
        check(
            r#"{"metadata":{"name":"a"}"#,
            expect!["error: not a Kubernetes object: EOF while parsing an object at line 1 column 24"],
        );
    }
}
