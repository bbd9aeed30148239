//! Structural schemas: every field is said once, outside of the logic, and the logic may only narrow values.

use regex::Regex;
use serde_json::Value;

use crate::schema::field_error::FieldError;
use crate::schema::path::{child, index, key};
use crate::schema::structural::flag;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Whether a schema is structural; errors are sorted by their text, as the real server sorts them.
pub(crate) fn check(path: &str, schema: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    invariants(path, schema, Level::Root, &mut errors);
    completeness(path, schema, schema, &mut errors);
    errors.sort_by_key(ToString::to_string);
    errors
}

fn text<'a>(schema: &'a Value, field: &str) -> &'a str {
    schema.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(schema: &'a Value, field: &str) -> &'a [Value] {
    schema.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn fields<'a>(schema: &'a Value, field: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    schema.get(field).and_then(Value::as_object).into_iter().flatten()
}

fn set(schema: &Value, field: &str) -> bool {
    schema.get(field).is_some_and(|value| !value.is_null())
}

fn invariants(path: &str, schema: &Value, level: Level, errors: &mut Vec<FieldError>) {
    let ty = text(schema, "type");
    let embedded = flag(schema, "x-kubernetes-embedded-resource");
    let preserve = flag(schema, "x-kubernetes-preserve-unknown-fields");
    let int_or_string = flag(schema, "x-kubernetes-int-or-string");
    if ty == "array" && !set(schema, "items") {
        errors.push(FieldError::required(child(path, "items"), "must be specified"));
    }
    if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
        invariants(&child(path, "items"), items, Level::Item, errors);
    }
    for (name, property) in fields(schema, "properties") {
        invariants(&key(&child(path, "properties"), name), property, Level::Field, errors);
    }
    let additional = schema.get("additionalProperties").filter(|value| !value.is_null());
    if let Some(additional) = additional {
        let path = child(path, "additionalProperties");
        if level == Level::Root {
            errors.push(FieldError::forbidden(&path, "must not be used at the root"));
        }
        if additional.is_object() {
            invariants(&path, additional, Level::Field, errors);
        }
    }
    extensions(path, int_or_string, preserve, embedded, errors);
    let any = is_int_or_string_any_of(list(schema, "anyOf"));
    let all =
        list(schema, "allOf").first().is_some_and(|first| is_int_or_string_any_of(list(first, "anyOf")));
    logic(path, schema, any, all, errors);
    let at_type = child(path, "type");
    if embedded && ty != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(if ty.is_empty() {
            FieldError::required(&at_type, detail)
        } else {
            FieldError::invalid(&at_type, ty, detail)
        });
    } else if ty.is_empty() && !int_or_string && !preserve {
        let detail = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        errors.push(FieldError::required(&at_type, detail));
    }
    if embedded && additional.is_some() {
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        errors.push(FieldError::forbidden(child(path, "additionalProperties"), detail));
    }
    if level == Level::Root && !ty.is_empty() && ty != "object" {
        errors.push(FieldError::invalid(&at_type, ty, "must be object at the root"));
    }
    metadata(path, schema, level, level == Level::Root || embedded, errors);
    let no_properties = fields(schema, "properties").next().is_none();
    if embedded && !preserve && no_properties {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without \
                      x-kubernetes-preserve-unknown-fields";
        errors.push(FieldError::required(child(path, "properties"), detail));
    }
}

fn extensions(path: &str, int_or_string: bool, preserve: bool, embedded: bool, errors: &mut Vec<FieldError>) {
    let detail = "must be false if x-kubernetes-int-or-string is true";
    if int_or_string && preserve {
        errors.push(FieldError::invalid(child(path, "x-kubernetes-preserve-unknown-fields"), true, detail));
    }
    if int_or_string && embedded {
        errors.push(FieldError::invalid(child(path, "x-kubernetes-embedded-resource"), true, detail));
    }
}

fn metadata(path: &str, schema: &Value, level: Level, checked: bool, errors: &mut Vec<FieldError>) {
    let at = |name: &str| key(&child(path, "properties"), name);
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
    for name in ["kind", "apiVersion"] {
        if let Some(property) = properties.get(name).filter(|_| checked)
            && text(property, "type") != "string"
        {
            let at = child(&at(name), "type");
            errors.push(FieldError::invalid(at, text(property, "type"), "must be string"));
        }
    }
    let Some(metadata) = properties.get("metadata") else { return };
    if checked && text(metadata, "type") != "object" {
        let at = child(&at("metadata"), "type");
        errors.push(FieldError::invalid(at, text(metadata, "type"), "must be object"));
    }
    if level == Level::Root {
        let names: Vec<&String> = fields(metadata, "properties").map(|(name, _)| name).collect();
        let only_names = names.iter().all(|name| *name == "name" || *name == "generateName");
        let other = metadata.as_object().into_iter().flatten().any(|(field, value)| {
            !matches!(field.as_str(), "type" | "properties" | "default" | "description") && !value.is_null()
        });
        if !only_names || other || set(metadata, "description") && !text(metadata, "description").is_empty() {
            let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
            errors.push(FieldError::forbidden(at("metadata"), detail));
        }
    }
}

fn is_int_or_string_any_of(any_of: &[Value]) -> bool {
    let only_type = |schema: &Value, ty: &str| {
        schema
            .as_object()
            .is_some_and(|fields| fields.len() == 1 && fields.get("type").is_some_and(|t| t == ty))
    };
    matches!(any_of, [first, second] if only_type(first, "integer") && only_type(second, "string"))
}

/// The rules on a value, with the junctors.
fn logic(
    path: &str,
    schema: &Value,
    skip_any_of: bool,
    skip_first_all_of: bool,
    errors: &mut Vec<FieldError>,
) {
    if !skip_any_of {
        for (at, nested) in list(schema, "anyOf").iter().enumerate() {
            nested_rules(&index(&child(path, "anyOf"), at), nested, false, errors);
        }
    }
    for (at, nested) in list(schema, "allOf").iter().enumerate() {
        nested_rules(&index(&child(path, "allOf"), at), nested, skip_first_all_of && at == 0, errors);
    }
    for (at, nested) in list(schema, "oneOf").iter().enumerate() {
        nested_rules(&index(&child(path, "oneOf"), at), nested, false, errors);
    }
    if let Some(not) = schema.get("not").filter(|not| not.is_object()) {
        nested_rules(&child(path, "not"), not, false, errors);
    }
    let pattern = text(schema, "pattern");
    if !pattern.is_empty()
        && let Err(error) = Regex::new(pattern)
    {
        let why = go_regex_error(pattern, &error);
        let detail = format!("must be a valid regular expression, but isn't: {why}");
        errors.push(FieldError::invalid(child(path, "pattern"), pattern, detail));
    }
}

/// Go's words for the commonest mistakes; for others what our parser says.
fn go_regex_error(pattern: &str, error: &regex::Error) -> String {
    let text = error.to_string();
    let last = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
    let go = match last {
        "unclosed group" => format!("missing closing ): `{pattern}`"),
        "unopened group" => format!("unexpected ): `{pattern}`"),
        "unclosed character class" => {
            format!("missing closing ]: `{}`", pattern.rfind('[').map_or(pattern, |at| &pattern[at..]))
        }
        "repetition operator missing expression" => {
            let operator = pattern.chars().find(|c| matches!(c, '*' | '+' | '?')).unwrap_or('*');
            format!("missing argument to repetition operator: `{operator}`")
        }
        "look-around, including look-ahead and look-behind, is not supported" => {
            let at = pattern.find("(?").unwrap_or(0);
            let end = pattern.len().min(at + if pattern[at..].starts_with("(?<") { 4 } else { 3 });
            format!("invalid or unsupported Perl syntax: `{}`", &pattern[at..end])
        }
        other => other.to_owned(),
    };
    format!("error parsing regexp: {go}")
}

fn nested_rules(path: &str, schema: &Value, skip_any_of: bool, errors: &mut Vec<FieldError>) {
    logic(path, schema, skip_any_of, false, errors);
    if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
        nested_rules(&child(path, "items"), items, false, errors);
    }
    for (name, property) in fields(schema, "properties") {
        nested_rules(&key(&child(path, "properties"), name), property, false, errors);
    }
    let mut forbid =
        |field: &str, detail: &str| errors.push(FieldError::forbidden(child(path, field), detail));
    if !text(schema, "type").is_empty() {
        forbid("type", "must be empty to be structural");
    }
    if set(schema, "additionalProperties") {
        forbid("additionalProperties", "must be undefined to be structural");
    }
    if set(schema, "default") {
        forbid("default", "must be undefined to be structural");
    }
    for field in ["title", "description"] {
        if !text(schema, field).is_empty() {
            forbid(field, "must be empty to be structural");
        }
    }
    for field in [
        "nullable",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-int-or-string",
    ] {
        if flag(schema, field) {
            forbid(field, "must be false to be structural");
        }
    }
    if !list(schema, "x-kubernetes-list-map-keys").is_empty() {
        forbid("x-kubernetes-list-map-keys", "must be empty to be structural");
    }
    for field in ["x-kubernetes-list-type", "x-kubernetes-map-type"] {
        if set(schema, field) {
            forbid(field, "must be undefined to be structural");
        }
    }
    if !list(schema, "x-kubernetes-validations").is_empty() {
        forbid("x-kubernetes-validations", "must be empty to be structural");
    }
    if fields(schema, "properties").any(|(name, _)| name == "metadata") {
        let at = key(&child(path, "properties"), "metadata");
        errors.push(FieldError::forbidden(at, "must not be specified in a nested context"));
    }
}

/// Whatever the logic at the root speaks of must be said by the structure, too (the real server looks at the root only).
fn completeness(path: &str, schema: &Value, spine: &Value, errors: &mut Vec<FieldError>) {
    for junctor in ["allOf", "anyOf", "oneOf"] {
        for (at, nested) in list(schema, junctor).iter().enumerate() {
            nested_completeness(&index(&child(path, junctor), at), path, nested, Some(spine), errors);
        }
    }
    if let Some(not) = schema.get("not").filter(|not| not.is_object()) {
        nested_completeness(&child(path, "not"), path, not, Some(spine), errors);
    }
}

fn nested_completeness(
    path: &str,
    spine_path: &str,
    nested: &Value,
    spine: Option<&Value>,
    errors: &mut Vec<FieldError>,
) {
    let Some(spine) = spine else {
        let detail = format!("because it is defined in {path}");
        errors.push(FieldError::required(spine_path, detail));
        return;
    };
    for junctor in ["allOf", "anyOf", "oneOf"] {
        for (at, inner) in list(nested, junctor).iter().enumerate() {
            nested_completeness(&index(&child(path, junctor), at), spine_path, inner, Some(spine), errors);
        }
    }
    if let Some(not) = nested.get("not").filter(|not| not.is_object()) {
        nested_completeness(&child(path, "not"), spine_path, not, Some(spine), errors);
    }
    if let Some(items) = nested.get("items").filter(|items| items.is_object()) {
        let under = spine.get("items").filter(|items| items.is_object());
        nested_completeness(&child(path, "items"), &child(spine_path, "items"), items, under, errors);
    }
    for (name, property) in fields(nested, "properties") {
        let at = key(&child(path, "properties"), name);
        let under = spine.get("properties").and_then(|properties| properties.get(name));
        nested_completeness(&at, &key(&child(spine_path, "properties"), name), property, under, errors);
    }
}
