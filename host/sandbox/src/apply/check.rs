//! What keeps a value from being applied: fields that the schema lacks, wrong types, items that occur twice.

use super::path::{Step, show};
use super::walk::{Ty, item_step};
use crate::json::go_value;
use crate::schema::{JsonType, ListKind, MergeType, Schema};
use serde_json::Value;

/// A sentence for each fault.
pub(crate) fn check(value: &Value, ty: Ty<'_>) -> Vec<String> {
    let mut walk = Walk { path: Vec::new(), faults: Vec::new() };
    walk.value(value, ty);
    walk.faults
}

struct Walk {
    path: Vec<Step>,
    faults: Vec<String>,
}

impl Walk {
    fn fault(&mut self, why: &str) {
        let path = show(&self.path);
        self.faults.push(if path.is_empty() { why.to_owned() } else { format!("{path}: {why}") });
    }

    fn value(&mut self, value: &Value, ty: Ty<'_>) {
        let Ty::Known(schema) = ty else { return };
        if value.is_null() {
            return;
        }
        match schema.merge_type() {
            MergeType::Scalar => {
                if let Some(why) = wrong_scalar(schema, value) {
                    self.fault(&why);
                }
            }
            MergeType::List { kind, item } => match value.as_array() {
                Some(list) => self.list(list, kind, item.map_or(Ty::Atomic, Ty::Known)),
                None => self.fault(&format!("expected list, got &{{{}}}", go_value(value))),
            },
            MergeType::Map { open, .. } => match value.as_object() {
                Some(fields) => self.map(fields, schema, open),
                None => self.fault(&format!("expected map, got &{{{}}}", go_value(value))),
            },
            MergeType::Deduced | MergeType::Atomic => {}
        }
    }

    fn map(&mut self, fields: &serde_json::Map<String, Value>, schema: &Schema, open: bool) {
        for (name, value) in fields {
            self.path.push(Step::Field(name.clone()));
            match schema.field(name) {
                Some(field) => self.value(value, Ty::Known(field)),
                None if open => {}
                None => self.fault("field not declared in schema"),
            }
            self.path.pop();
        }
    }

    fn list(&mut self, list: &[Value], kind: ListKind<'_>, item: Ty<'_>) {
        let mut seen: Vec<Step> = Vec::new();
        for (index, child) in list.iter().enumerate() {
            let step = match kind {
                ListKind::Atomic => Step::Index(i64::try_from(index).unwrap_or(i64::MAX)),
                kind => match item_step(kind, item, child) {
                    Ok(step) => step,
                    Err(why) => return self.fault(&format!("element {index}: {why}")),
                },
            };
            if kind != ListKind::Atomic {
                if seen.contains(&step) {
                    self.fault(&format!("duplicate entries for key {step}"));
                }
                seen.push(step.clone());
            }
            self.path.push(step);
            self.value(child, item);
            self.path.pop();
        }
    }
}

fn wrong_scalar(schema: &Schema, value: &Value) -> Option<String> {
    match schema.json_type()? {
        JsonType::Integer | JsonType::Number if !value.is_number() => {
            Some(format!("expected numeric (int or float), got {}", go_type(value)))
        }
        JsonType::String if !value.is_string() => {
            Some(format!("expected string, got &value.valueUnstructured{{Value:{}}}", go_value(value)))
        }
        JsonType::Boolean if !value.is_boolean() => {
            Some(format!("expected boolean, got &{{{}}}", go_value(value)))
        }
        _ => None,
    }
}

/// The type as Go names it.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use serde_json::json;

    fn check_text(value: Value, expected: Expect) {
        let schema = Schema::parse(&json!({"type": "object", "properties": {
            "size": {"type": "integer"},
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "list": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "properties": {"name": {"type": "string"}}},
            },
            "atomic": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
        }}));
        expected.assert_eq(&check(&value, Ty::Known(&schema)).join("\n"));
    }

    #[test]
    fn faults_are_told_with_their_path() {
        check_text(json!({"size": 1, "set": ["a"], "list": [{"name": "a"}]}), expect![""]);
        check_text(json!({"size": "1"}), expect![".size: expected numeric (int or float), got string"]);
        check_text(json!({"other": 1}), expect![".other: field not declared in schema"]);
        check_text(json!({"set": ["a", "a"]}), expect![[r#".set: duplicate entries for key [="a"]"#]]);
        check_text(json!({"atomic": [{"b": 1}]}), expect![".atomic[0].b: field not declared in schema"]);
        check_text(
            json!({"list": [{}]}),
            expect![[
                r#".list: element 0: associative list with keys has an element that omits all key fields ["name"] (and doesn't have default values for any key fields)"#
            ]],
        );
    }
}
