//! What a schema means for a walk: leaf, struct or map, list of which kind; and how list items are told apart.

use super::path::{Step, show};
use super::set::{FieldSet, Node};
use crate::schema::{ListKind, MergeType, Schema};
use serde_json::Value;

/// What is known of the type of a value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ty<'a> {
    Known(&'a Schema),
    /// Nothing: the value's own shape says it; lists are atomic.
    Deduced,
    /// Nothing, and whatever it is, it has one owner.
    Atomic,
}

/// How a value is walked.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape<'a> {
    Leaf,
    List { kind: ListKind<'a>, item: Ty<'a> },
    Map,
}

impl<'a> Ty<'a> {
    /// How this value is walked. Atomic lists and maps are leaves; null is what the schema says.
    pub(super) fn shape(self, value: Option<&Value>) -> Shape<'a> {
        let deduced = || match value {
            Some(Value::Object(_)) => Shape::Map,
            _ => Shape::Leaf,
        };
        let Ty::Known(schema) = self else {
            return if matches!(self, Ty::Deduced) { deduced() } else { Shape::Leaf };
        };
        match schema.merge_type() {
            MergeType::Scalar | MergeType::Atomic => Shape::Leaf,
            MergeType::List { kind: ListKind::Atomic, .. } => Shape::Leaf,
            MergeType::List { kind, item } => Shape::List { kind, item: item.map_or(Ty::Atomic, Ty::Known) },
            MergeType::Map { atomic: true, .. } => Shape::Leaf,
            MergeType::Map { .. } => Shape::Map,
            MergeType::Deduced => deduced(),
        }
    }

    /// The type of a field of a map or struct.
    pub(super) fn field(self, name: &str) -> Ty<'a> {
        match self {
            Ty::Known(schema) => schema.field(name).map_or(Ty::Deduced, Ty::Known),
            other => other,
        }
    }

    /// Whether the step is a field that the schema names (and not an entry of a map).
    pub(super) fn names(self, step: &Step) -> bool {
        match (self, step) {
            (Ty::Known(schema), Step::Field(name)) => schema.property(name).is_some(),
            _ => false,
        }
    }

    /// The type of what is below a step.
    pub(super) fn below(self, step: &Step) -> Ty<'a> {
        match (self, step) {
            (ty, Step::Field(name)) => ty.field(name),
            (Ty::Known(schema), _) => schema.item().map_or(Ty::Atomic, Ty::Known),
            (other, _) => other,
        }
    }
}

/// The fields of a map, where it is one.
pub(super) fn fields(value: Option<&Value>) -> Option<&serde_json::Map<String, Value>> {
    value.and_then(Value::as_object)
}

/// The items of a list; none for what is no list.
pub(super) fn items(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The step of a list item; an error where a key is missing that has no default.
pub(super) fn item_step(kind: ListKind<'_>, item_ty: Ty<'_>, item: &Value) -> Result<Step, String> {
    let ListKind::Map(keys) = kind else {
        return match item {
            Value::Array(_) | Value::Object(_) => {
                Err("associative lists with keys may not have non-map elements".into())
            }
            Value::Null => Err("associative list without keys has an element that's an explicit null".into()),
            scalar => Ok(Step::Value(scalar.clone())),
        };
    };
    let Some(fields) = item.as_object() else {
        return Err("associative list with keys may not have non-map elements".into());
    };
    let mut parts = Vec::with_capacity(keys.len());
    for key in keys {
        let default = || match item_ty {
            Ty::Known(schema) => schema.property(key).and_then(Schema::default_value),
            _ => None,
        };
        match fields.get(key).filter(|value| !value.is_null()).or_else(default) {
            Some(value) => parts.push((key.clone(), value.clone())),
            None => parts.push((key.clone(), Value::Null)),
        }
    }
    if parts.iter().all(|(_, value)| value.is_null()) {
        return Err(format!(
            "associative list with keys has an element that omits key field {}{}",
            quoted(keys),
            ""
        ));
    }
    parts.retain(|(_, value)| !value.is_null());
    parts.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(Step::Key(parts))
}

fn quoted(keys: &[String]) -> String {
    keys.iter().map(|key| crate::error::go_quote(key)).collect::<Vec<_>>().join(" or ")
}

/// The paths of all leaves of a value, with map entries and list items themselves.
pub(crate) fn field_set(value: &Value, ty: Ty<'_>) -> FieldSet {
    below(value, ty)
}

fn below(value: &Value, ty: Ty<'_>) -> FieldSet {
    let mut set = FieldSet::default();
    match ty.shape(Some(value)) {
        Shape::Leaf => {}
        Shape::Map => {
            for (name, value) in fields(Some(value)).into_iter().flatten() {
                let step = Step::Field(name.clone());
                let child = ty.field(name);
                let empty = value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
                let member = is_leaf(child, value) || empty || !ty.names(&step);
                set.attach(&step, Node { member, below: below(value, child) });
            }
        }
        Shape::List { kind, item } => {
            let steps: Vec<_> =
                items(Some(value)).iter().map(|child| item_step(kind, item, child).ok()).collect();
            for (step, child) in steps.iter().zip(items(Some(value))) {
                let Some(step) = step else { continue };
                let twice = steps.iter().filter(|other| other.as_ref() == Some(step)).count() > 1;
                let below = if twice { FieldSet::default() } else { below(child, item) };
                set.attach(step, Node { member: true, below });
            }
        }
    }
    set
}

fn is_leaf(ty: Ty<'_>, value: &Value) -> bool {
    matches!(ty.shape(Some(value)), Shape::Leaf)
}

/// What keeps a value from being applied: fields that the schema lacks, wrong types, items that occur twice.
pub(crate) fn check(value: &Value, ty: Ty<'_>) -> Vec<String> {
    let mut faults = Vec::new();
    check_at(value, ty, &mut Vec::new(), &mut faults);
    faults
}

fn check_at(value: &Value, ty: Ty<'_>, path: &mut Vec<Step>, faults: &mut Vec<String>) {
    let mut fault = |path: &[Step], why: &str| faults.push(format!("{}: {why}", show(path)));
    if value.is_null() {
        return;
    }
    match ty.shape(Some(value)) {
        Shape::Leaf => {
            if let Ty::Known(schema) = ty
                && let Some(why) = wrong_type(schema, value)
            {
                fault(path, &why);
            }
        }
        Shape::Map => {
            let Some(fields) = value.as_object() else {
                fault(path, &format!("expected map, got {}", go_type(value)));
                return;
            };
            for (name, value) in fields {
                path.push(Step::Field(name.clone()));
                if is_unknown(ty, name) {
                    faults.push(format!("{}: field not declared in schema", show(path)));
                } else {
                    check_at(value, ty.field(name), path, faults);
                }
                path.pop();
            }
        }
        Shape::List { kind, item } => {
            let Some(list) = value.as_array() else {
                fault(path, &format!("expected list, got {}", go_type(value)));
                return;
            };
            let mut seen: Vec<Step> = Vec::new();
            for (index, child) in list.iter().enumerate() {
                match item_step(kind, item, child) {
                    Err(why) => faults.push(format!("{}: element {index}: {why}", show(path))),
                    Ok(step) if seen.contains(&step) => {
                        faults.push(format!("{}: duplicate entries for key {step}", show(path)));
                    }
                    Ok(step) => {
                        path.push(step.clone());
                        check_at(child, item, path, faults);
                        path.pop();
                        seen.push(step);
                    }
                }
            }
        }
    }
}

fn is_unknown(ty: Ty<'_>, name: &str) -> bool {
    let Ty::Known(schema) = ty else { return false };
    let closed = matches!(schema.merge_type(), MergeType::Map { open: false, .. });
    closed && schema.field(name).is_none()
}

fn wrong_type(schema: &Schema, value: &Value) -> Option<String> {
    use crate::schema::JsonType;
    let expected = match schema.json_type()? {
        JsonType::Boolean if !value.is_boolean() => "boolean",
        JsonType::String if !value.is_string() => "string",
        JsonType::Integer | JsonType::Number if !value.is_number() => "numeric (int or float)",
        JsonType::Array if !value.is_array() => "list",
        JsonType::Object if !value.is_object() => "map",
        _ => return None,
    };
    let given = match value {
        Value::Array(_) => "list".to_owned(),
        Value::Object(_) => "map".to_owned(),
        other => go_type(other).to_owned(),
    };
    Some(match value {
        Value::String(_) | Value::Bool(_) | Value::Number(_) if !matches!(expected, "list" | "map") => {
            format!("expected {expected}, got {given}")
        }
        _ => format!("expected {expected}, got &{{{given}}}"),
    })
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "float",
        Value::Number(_) => "int",
        Value::String(_) => "string",
        Value::Array(_) => "list",
        Value::Object(_) => "map",
    }
}
