//! What a schema means for a walk: leaf, struct or map, list of which kind; and how list items are told apart.

use super::path::Step;
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
            (Ty::Known(schema), Step::Field(name)) => {
                let of_object = matches!(name.as_str(), "apiVersion" | "kind" | "metadata");
                schema.property(name).is_some() || (schema.embedded && of_object)
            }
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

/// The step of a list item; an error where it has nothing to be told apart by.
pub(super) fn item_step(kind: ListKind<'_>, item_ty: Ty<'_>, item: &Value) -> Result<Step, String> {
    let ListKind::Map(keys) = kind else {
        return match item {
            Value::Object(_) => Err("associative list without keys has an element that's a map type".into()),
            Value::Array(_) => Err("not supported: associative list with lists as elements".into()),
            Value::Null => Err("associative list without keys has an element that's an explicit null".into()),
            scalar => Ok(Step::Value(scalar.clone())),
        };
    };
    if item.is_null() {
        return Err("associative list with keys may not have a null element".into());
    }
    let Some(fields) = item.as_object() else {
        return Err("associative list with keys may not have non-map elements".into());
    };
    let default = |key: &String| match item_ty {
        Ty::Known(schema) => schema.property(key).and_then(Schema::default_value),
        _ => None,
    };
    // A key that is neither given nor has a default is left out: that is another item than one with it.
    let given =
        keys.iter().filter_map(|key| Some((key.clone(), fields.get(key).or_else(|| default(key))?.clone())));
    let mut parts: Vec<(String, Value)> = given.collect();
    if parts.is_empty() {
        let keys: Vec<String> = keys.iter().map(|key| crate::error::go_quote(key)).collect();
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any \
             key fields)",
            keys.join(" ")
        ));
    }
    parts.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(Step::Key(parts))
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
