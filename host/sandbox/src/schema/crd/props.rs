//! What a schema in a CustomResourceDefinition may say, node by node.

use serde_json::Value;

use crate::schema::cel;
use crate::schema::field_error::FieldError;
use crate::schema::path::{child, index, key};
use crate::schema::structural::{JsonType, flag};

/// What is handed down while a schema is walked.
#[derive(Clone)]
pub(super) struct Walk<'a> {
    /// Why defaults are not allowed here, if they are not.
    pub(super) no_defaults: Option<String>,
    pub(super) inside_meta: bool,
    /// The place from which on old and new values cannot be told to belong together.
    pub(super) uncorrelatable: Option<String>,
    /// Where rules are compiled; none inside of junctors, and where the structure is broken already.
    pub(super) rules: Option<cel::SchemaContext<'a>>,
    /// Whether the cost limit of single rules is waived, as for schemas that an update left alone.
    pub(super) any_cost: bool,
}

/// Mistakes of the schema, and of its rules.
#[derive(Default)]
pub(super) struct Found {
    pub(super) schema: Vec<FieldError>,
    pub(super) rules: Vec<FieldError>,
    /// What each rule may cost, for the sum over the schema.
    pub(super) costs: Vec<(String, u64)>,
}

impl Found {
    fn extend(&mut self, other: Found) {
        self.schema.extend(other.schema);
        self.rules.extend(other.rules);
        self.costs.extend(other.costs);
    }
}

fn text<'a>(schema: &'a Value, field: &str) -> &'a str {
    schema.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn optional_text<'a>(schema: &'a Value, field: &str) -> Option<&'a str> {
    schema.get(field).and_then(Value::as_str)
}

fn list<'a>(schema: &'a Value, field: &str) -> &'a [Value] {
    schema.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn set(schema: &Value, field: &str) -> bool {
    schema.get(field).is_some_and(|value| !value.is_null())
}

/// Checks a node and all below it.
pub(super) fn check(path: &str, schema: &Value, walk: &Walk<'_>, root: bool) -> Found {
    let mut found = Found::default();
    standard(path, schema, walk, &mut found.schema);
    if flag(schema, "uniqueItems") {
        let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        found.schema.push(FieldError::forbidden(child(path, "uniqueItems"), detail));
    }
    fields_below(path, schema, walk, root, &mut found);
    junctors_below(path, schema, walk, &mut found);
    items_below(path, schema, walk, &mut found);
    own_types(path, schema, &mut found.schema);
    map_lists(path, schema, &mut found.schema);
    map_list_items(path, schema, &mut found.schema);
    for (at, rule) in list(schema, "x-kubernetes-validations").iter().enumerate() {
        rule_shape(&index(&child(path, "x-kubernetes-validations"), at), schema, rule, &mut found.schema);
    }
    if found.schema.is_empty()
        && !list(schema, "x-kubernetes-validations").is_empty()
        && let Some(context) = &walk.rules
    {
        let checked = context.check_rules(path, schema, walk.uncorrelatable.as_deref(), walk.any_cost);
        found.rules.extend(checked.errors);
        found.costs.extend(checked.costs);
    }
    found
}

/// What OpenAPI has and Kubernetes does not.
fn standard(path: &str, schema: &Value, walk: &Walk<'_>, errors: &mut Vec<FieldError>) {
    let ty = text(schema, "type");
    if !ty.is_empty() && JsonType::parse(ty).is_none() {
        let known = ["array", "boolean", "integer", "number", "object", "string"];
        errors.push(FieldError::not_supported(child(path, "type"), ty, &known));
    }
    let mut forbid =
        |field: &str, detail: String| errors.push(FieldError::forbidden(child(path, field), detail));
    if let Some(reason) = walk.no_defaults.as_deref().filter(|_| set(schema, "default")) {
        let detail = if reason.is_empty() {
            "must not be set".to_owned()
        } else {
            format!("must not be set {reason}")
        };
        forbid("default", detail);
    }
    if !text(schema, "id").is_empty() {
        forbid("id", "id is not supported".to_owned());
    }
    for field in ["additionalItems", "patternProperties", "definitions", "dependencies", "$ref"] {
        let there = match schema.get(field) {
            Some(Value::Object(fields)) => {
                field == "dependencies" || field == "additionalItems" || !fields.is_empty()
            }
            Some(Value::Null) | None => false,
            Some(_) => true,
        };
        if there {
            forbid(field, format!("{field} is not supported"));
        }
    }
    if ty == "null" {
        forbid("type", "type cannot be set to null, use nullable as an alternative".to_owned());
    }
    if schema.get("items").and_then(Value::as_array).is_some_and(|items| !items.is_empty()) {
        forbid("items", "items must be a schema object and not an array".to_owned());
    }
    if walk.inside_meta && flag(schema, "x-kubernetes-embedded-resource") {
        forbid("x-kubernetes-embedded-resource", "must not be used inside of resource meta".to_owned());
    }
}

fn fields_below(path: &str, schema: &Value, walk: &Walk<'_>, root: bool, found: &mut Found) {
    let properties = schema.get("properties").and_then(Value::as_object);
    let named = properties.is_some_and(|properties| !properties.is_empty());
    if let Some(additional) = schema.get("additionalProperties").filter(|value| !value.is_null()) {
        let at = child(path, "additionalProperties");
        if named && additional != &Value::Bool(true) {
            let detail = "additionalProperties and properties are mutual exclusive";
            found.schema.push(FieldError::forbidden(&at, detail));
        }
        if additional.is_object() {
            let mut walk = walk.clone();
            if walk.inside_meta {
                walk.no_defaults = Some("inside additionalProperties applying to object metadata".to_owned());
            }
            walk.rules = walk.rules.and_then(|rules| rules.additional());
            found.extend(check(&at, additional, &walk, false));
        }
    }
    for (name, property) in properties.into_iter().flatten() {
        let mut walk = walk.clone();
        if !matches!(optional_text(schema, "x-kubernetes-map-type"), None | Some("granular" | "atomic")) {
            walk.uncorrelatable.get_or_insert_with(|| path.to_owned());
        }
        let meta = matches!(name.as_str(), "metadata" | "kind" | "apiVersion");
        if meta && (root || flag(schema, "x-kubernetes-embedded-resource")) {
            walk.inside_meta = true;
            if root {
                walk.no_defaults = Some(format!("in top-level {name}"));
            }
        }
        walk.rules = walk.rules.and_then(|rules| rules.property(name));
        found.extend(check(&key(&child(path, "properties"), name), property, &walk, false));
    }
}

fn junctors_below(path: &str, schema: &Value, walk: &Walk<'_>, found: &mut Found) {
    let walk = Walk { rules: None, ..walk.clone() };
    if let Some(not) = schema.get("not").filter(|not| not.is_object()) {
        found.extend(check(&child(path, "not"), not, &walk, false));
    }
    for junctor in ["allOf", "oneOf", "anyOf"] {
        for (at, nested) in list(schema, junctor).iter().enumerate() {
            found.extend(check(&index(&child(path, junctor), at), nested, &walk, false));
        }
    }
}

fn items_below(path: &str, schema: &Value, walk: &Walk<'_>, found: &mut Found) {
    let Some(items) = schema.get("items").filter(|items| items.is_object()) else { return };
    let mut walk = walk.clone();
    if optional_text(schema, "x-kubernetes-list-type") != Some("map") {
        walk.uncorrelatable.get_or_insert_with(|| path.to_owned());
    }
    walk.rules = walk.rules.and_then(|rules| rules.items());
    found.extend(check(&child(path, "items"), items, &walk, false));
}

/// Extensions against the type that they are for.
fn own_types(path: &str, schema: &Value, errors: &mut Vec<FieldError>) {
    let ty = text(schema, "type");
    if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        let at = child(path, "x-kubernetes-preserve-unknown-fields");
        errors.push(FieldError::invalid(at, false, "must be true or undefined"));
    }
    let mut wants = |extension: &str, wanted: &str| {
        let detail = format!("must be {wanted} if {extension} is specified");
        errors.push(if ty.is_empty() {
            FieldError::required(child(path, "type"), detail)
        } else {
            FieldError::invalid(child(path, "type"), ty, detail)
        });
    };
    let map_type = optional_text(schema, "x-kubernetes-map-type");
    let list_type = optional_text(schema, "x-kubernetes-list-type");
    if map_type.is_some() && ty != "object" {
        wants("x-kubernetes-map-type", "object");
    }
    if let Some(other) = map_type.filter(|one| !matches!(*one, "atomic" | "granular")) {
        let at = child(path, "x-kubernetes-map-type");
        errors.push(FieldError::not_supported(at, other, &["atomic", "granular"]));
    }
    if list_type.is_some() && ty != "array" {
        let detail = "must be array if x-kubernetes-list-type is specified";
        errors.push(if ty.is_empty() {
            FieldError::required(child(path, "type"), detail)
        } else {
            FieldError::invalid(child(path, "type"), ty, detail)
        });
    } else if list_type == Some("set") {
        set_items(path, schema, errors);
    }
    if let Some(other) = list_type.filter(|one| !matches!(*one, "atomic" | "set" | "map")) {
        let at = child(path, "x-kubernetes-list-type");
        errors.push(FieldError::not_supported(at, other, &["atomic", "set", "map"]));
    }
}

fn set_items(path: &str, schema: &Value, errors: &mut Vec<FieldError>) {
    let Some(items) = schema.get("items").filter(|items| items.is_object()) else { return };
    let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
    let list_type = items.get("x-kubernetes-list-type").cloned().unwrap_or_default();
    match text(items, "type") {
        "array" if !list_type.is_null() && list_type != "atomic" => {
            let at = child(&child(path, "items"), "x-kubernetes-list-type");
            errors.push(FieldError::invalid(at, list_type, detail));
        }
        "object" if optional_text(items, "x-kubernetes-map-type") != Some("atomic") => {
            let at = child(&child(path, "items"), "x-kubernetes-map-type");
            errors.push(FieldError::invalid(at, list_type, detail));
        }
        _ => {}
    }
}

fn map_lists(path: &str, schema: &Value, errors: &mut Vec<FieldError>) {
    let list_type = optional_text(schema, "x-kubernetes-list-type");
    let keys = list(schema, "x-kubernetes-list-map-keys");
    let at_type = child(path, "x-kubernetes-list-type");
    let at_keys = child(path, "x-kubernetes-list-map-keys");
    if !keys.is_empty() && list_type != Some("map") {
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        errors.push(match list_type {
            None => FieldError::required(at_type, detail),
            Some(other) => FieldError::invalid(at_type, other, detail),
        });
    }
    if list_type != Some("map") {
        return;
    }
    if keys.is_empty() {
        errors.push(FieldError::required(&at_keys, "must not be empty if x-kubernetes-list-type is map"));
    }
    let Some(items) = schema.get("items").filter(|items| items.is_object()) else {
        let detail = "must have a schema if x-kubernetes-list-type is map";
        errors.push(FieldError::required(child(path, "items"), detail));
        return;
    };
    let at_items = child(path, "items");
    if text(items, "type") != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        errors.push(FieldError::invalid(child(&at_items, "type"), text(items, "type"), detail));
        return;
    }
    let whole = schema.get("x-kubernetes-list-map-keys").cloned().unwrap_or_default();
    for (at, name) in keys.iter().enumerate() {
        let name_text = name.as_str().unwrap_or_default();
        match items.get("properties").and_then(|properties| properties.get(name_text)) {
            Some(property) if matches!(text(property, "type"), "array" | "object") => {
                let at = child(&key(&child(&at_items, "properties"), name_text), "type");
                let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                errors.push(FieldError::invalid(at, text(items, "type"), detail));
            }
            Some(_) => {}
            None => {
                let detail = "entries must all be names of item properties";
                errors.push(FieldError::invalid(&at_keys, whole.clone(), detail));
            }
        }
        if keys[..at].contains(name) {
            errors.push(FieldError::invalid(&at_keys, whole.clone(), "must not contain duplicate entries"));
        }
    }
}

fn map_list_items(path: &str, schema: &Value, errors: &mut Vec<FieldError>) {
    let list_type = optional_text(schema, "x-kubernetes-list-type").unwrap_or_default();
    let Some(items) = schema.get("items").filter(|items| items.is_object()) else { return };
    if !matches!(list_type, "set" | "map") {
        return;
    }
    let at_items = child(path, "items");
    if flag(items, "nullable") {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.push(FieldError::forbidden(child(&at_items, "nullable"), detail));
    }
    if list_type != "map" {
        return;
    }
    for name in list(schema, "x-kubernetes-list-map-keys") {
        let name_text = name.as_str().unwrap_or_default();
        let Some(property) = items.get("properties").and_then(|properties| properties.get(name_text)) else {
            continue;
        };
        let at = key(&child(&at_items, "properties"), name_text);
        if !list(items, "required").contains(name) && !set(property, "default") {
            let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required \
                          property";
            errors.push(FieldError::required(child(&at, "default"), detail));
        }
        if flag(property, "nullable") {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push(FieldError::forbidden(child(&at, "nullable"), detail));
        }
    }
}

/// A rule before it is compiled.
fn rule_shape(path: &str, schema: &Value, rule: &Value, errors: &mut Vec<FieldError>) {
    let breaks = |text: &str| text.contains(['\n', '\r']);
    let (expression, message) = (text(rule, "rule").trim(), text(rule, "message"));
    if expression.is_empty() {
        errors.push(FieldError::required(child(path, "rule"), "rule is not specified"));
    } else if !message.is_empty() && message.trim().is_empty() {
        errors.push(FieldError::invalid(child(path, "message"), message, "must be non-empty if specified"));
    } else if breaks(message.trim()) {
        errors.push(FieldError::invalid(child(path, "message"), message, "must not contain line breaks"));
    } else if breaks(expression) && message.trim().is_empty() {
        let detail = "message must be specified if rule contains line breaks";
        errors.push(FieldError::required(child(path, "message"), detail));
    }
    let message_expression = text(rule, "messageExpression");
    if !message_expression.is_empty() && message_expression.trim().is_empty() {
        let detail = "messageExpression must be non-empty if specified";
        errors.push(FieldError::required(child(path, "messageExpression"), detail));
    }
    let reasons = ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
    if let Some(reason) = optional_text(rule, "reason").filter(|reason| !reasons.contains(reason)) {
        errors.push(FieldError::not_supported(child(path, "reason"), reason, &reasons));
    }
    let field_path = text(rule, "fieldPath");
    if field_path.is_empty() {
        return;
    }
    let at = child(path, "fieldPath");
    if field_path.trim().is_empty() {
        errors.push(FieldError::invalid(&at, field_path, "must be non-empty if specified"));
    }
    if breaks(field_path) {
        errors.push(FieldError::invalid(&at, field_path, "must not contain line breaks"));
    }
    if cel::field_path(field_path, schema, true).is_err() {
        errors.push(FieldError::invalid(&at, field_path, "must be a valid path"));
    }
}
