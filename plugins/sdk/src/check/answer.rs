//! Which objects a query means: the host's rules, on trees.

use serde_json::Value;

use crate::{Gvk, ListQuery, ObjectRef};

/// Where an object lives.
pub(super) fn reference(object: &Value) -> ObjectRef {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let api_version = text("/apiVersion").unwrap_or_default();
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    let kind = text("/kind").unwrap_or_default();
    let gvk = Gvk { group: group.to_owned(), version: version.to_owned(), kind };
    ObjectRef {
        gvk,
        namespace: text("/metadata/namespace"),
        name: text("/metadata/name").unwrap_or_default(),
    }
}

/// The order of a list's answer.
pub(super) fn sort_key(object: &Value) -> (Option<String>, String) {
    let ObjectRef { namespace, name, .. } = reference(object);
    (namespace, name)
}

/// Whether an object is part of the answer.
pub(super) fn matches(query: &ListQuery, object: &Value) -> bool {
    let ListQuery { gvk, namespace, labels, fields, controlled_by, view: _ } = query;
    let at = reference(object);
    at.gvk == *gvk
        && (namespace.is_none() || at.namespace == *namespace)
        && selects(labels, object.pointer("/metadata/labels").unwrap_or(&Value::Null))
        && fields.iter().all(|field| {
            let wanted: Value = serde_json::from_str(&field.value).expect("a field's value is JSON");
            object.pointer(&field.pointer) == Some(&wanted)
        })
        && controlled_by.as_deref().is_none_or(|uid| controller_of(object) == Some(uid))
}

fn controller_of(object: &Value) -> Option<&str> {
    let owners = object.pointer("/metadata/ownerReferences")?.as_array()?;
    let controller = owners.iter().find(|owner| owner["controller"] == Value::Bool(true))?;
    controller["uid"].as_str()
}

/// The part of kubectl's grammar that has no sets: `a=b,c!=d,e,!f`.
fn selects(selector: &str, labels: &Value) -> bool {
    selector.split(',').map(str::trim).filter(|term| !term.is_empty()).all(|term| {
        assert!(!term.contains(['(', ')']), "a check knows no set selectors: {selector:?}");
        let label = |key: &str| labels.get(key.trim()).and_then(Value::as_str);
        if let Some((key, value)) = term.split_once("!=") {
            label(key) != Some(value.trim())
        } else if let Some((key, value)) = term.split_once("==").or_else(|| term.split_once('=')) {
            label(key) == Some(value.trim())
        } else if let Some(key) = term.strip_prefix('!') {
            label(key).is_none()
        } else {
            label(term).is_some()
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_selector_holds_where_all_its_terms_do() {
        let labels = json!({"a": "1", "b": "2"});
        for yes in ["", "a=1", "a==1, b=2", "a!=2", "c!=1", "a", "!c"] {
            assert!(selects(yes, &labels), "{yes}");
        }
        for no in ["a=2", "a=1,b=1", "a!=1", "c", "!a"] {
            assert!(!selects(no, &labels), "{no}");
        }
    }
}
