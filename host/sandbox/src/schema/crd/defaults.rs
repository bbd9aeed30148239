//! What a CustomResourceDefinition has when its author left it out.

use serde_json::{Value, json};

/// Fills in the names and the conversion strategy, as the real server does.
pub fn prepare(definition: &mut Value) {
    let Some(spec) = definition.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let empty = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().is_empty();
    if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) {
        let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        if empty(names.get("singular")) && !kind.is_empty() {
            names.insert("singular".to_owned(), kind.to_lowercase().into());
        }
        if empty(names.get("listKind")) && !kind.is_empty() {
            names.insert("listKind".to_owned(), format!("{kind}List").into());
        }
    }
    if spec.get("conversion").is_none_or(Value::is_null) {
        spec.insert("conversion".to_owned(), json!({"strategy": "None"}));
    }
    let webhook = spec.get_mut("conversion").and_then(|conversion| conversion.get_mut("webhook"));
    if let Some(service) = webhook.and_then(|webhook| webhook.pointer_mut("/clientConfig/service"))
        && service.is_object()
        && service.get("port").is_none()
    {
        service["port"] = json!(443);
    }
    let versions = spec.get("versions").and_then(Value::as_array);
    let storage = versions
        .into_iter()
        .flatten()
        .find(|version| version["storage"] == true)
        .and_then(|version| version["name"].as_str())
        .map(str::to_owned);
    if let (Some(storage), Some(object)) = (storage, definition.as_object_mut()) {
        let status = object.entry("status").or_insert_with(|| json!({}));
        if status.is_object() && status["storedVersions"].as_array().is_none_or(Vec::is_empty) {
            status["storedVersions"] = json!([storage]);
        }
    }
}
