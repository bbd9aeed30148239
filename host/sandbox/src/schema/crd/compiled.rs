//! Definitions that were compiled before.
//!
//! The same definition makes the same kind, and takes milliseconds to: a process that runs hundreds of small clusters, each
//! with the same dozen definitions, would do little else.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use serde_json::Value;

use super::{Crd, check_create, compile_accepted};
use crate::schema::field_error::FieldError;

/// Past so many it is begun anew: who has more kinds than that compiles some of them again.
const KEPT_MAX: usize = 256;

static KEPT: LazyLock<Mutex<HashMap<String, Arc<Crd>>>> = LazyLock::new(Mutex::default);

/// Compiles a definition, after a check that it is one.
pub fn compile(definition: &Value) -> Result<Arc<Crd>, Vec<FieldError>> {
    let key = key(definition);
    let kept = || KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = kept().get(&key) {
        return Ok(Arc::clone(known));
    }
    let errors = check_create(definition);
    if !errors.is_empty() {
        return Err(errors);
    }
    let compiled = Arc::new(compile_accepted(definition));
    let mut kept = kept();
    if kept.len() >= KEPT_MAX {
        kept.clear();
    }
    kept.insert(key, Arc::clone(&compiled));
    Ok(compiled)
}

/// All that the check and the compiled kind rest on.
fn key(definition: &Value) -> String {
    let (metadata, status) = (&definition["metadata"], &definition["status"]);
    let parts = [
        &definition["spec"],
        &metadata["name"],
        &metadata["namespace"],
        &metadata["generateName"],
        &metadata["labels"],
        &metadata["annotations"],
        &metadata["finalizers"],
        &metadata["ownerReferences"],
        &status["acceptedNames"],
        &status["storedVersions"],
    ];
    parts.map(Value::to_string).join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition() -> Value {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object"}}});
        let mut definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "gears.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced", "names": {"kind": "Gear", "plural": "gears"},
                "versions": [{
                    "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
                }],
            },
        });
        super::super::prepare(&mut definition);
        definition
    }

    #[test]
    fn the_same_definition_is_compiled_once_whatever_a_server_notes_beside_it() {
        let first = compile(&definition()).expect("a good definition");
        let mut again = definition();
        again["metadata"]["resourceVersion"] = json!("7");
        again["metadata"]["uid"] = json!("0000");
        assert!(Arc::ptr_eq(&first, &compile(&again).expect("the same")));
    }

    #[test]
    fn whatever_a_definition_says_otherwise_makes_another_or_is_refused_as_before() {
        let first = compile(&definition()).expect("a good definition");
        let mut other = definition();
        other["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["type"] =
            json!("string");
        assert!(!Arc::ptr_eq(&first, &compile(&other).expect("a good one, too")));
        for (pointer, wrong) in [
            ("/metadata/name", json!("wheels.example.com")),
            ("/spec/scope", json!("Everywhere")),
            ("/status/storedVersions", json!([])),
        ] {
            let mut bad = definition();
            *bad.pointer_mut(pointer).expect(pointer) = wrong;
            assert!(compile(&bad).is_err(), "{pointer}");
        }
    }
}
