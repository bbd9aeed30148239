//! Takes a set of paths out of an object.

use super::path::Step;
use super::set::FieldSet;
use super::walk::{Shape, Ty, fields, item_step, items};
use serde_json::{Map, Value};

/// The object without the paths. A map or list that loses all it had becomes null, which decoding drops.
pub(crate) fn remove(value: &Value, paths: &FieldSet, ty: Ty<'_>) -> Value {
    match ty.shape(Some(value)) {
        Shape::Leaf if value.is_array() || value.is_object() => Value::Null,
        Shape::Leaf => value.clone(),
        Shape::Map => {
            let mut out = Map::new();
            for (name, child) in fields(Some(value)).into_iter().flatten() {
                let step = Step::Field(name.clone());
                out.extend(kept(child, paths, &step, ty.field(name)).map(|child| (name.clone(), child)));
            }
            if out.is_empty() { Value::Null } else { Value::Object(out) }
        }
        Shape::List { kind, item } => {
            let mut out = Vec::new();
            for child in items(Some(value)) {
                match item_step(kind, item, child) {
                    Ok(step) => out.extend(kept(child, paths, &step, item)),
                    Err(_) => out.push(child.clone()),
                }
            }
            if out.is_empty() { Value::Null } else { Value::Array(out) }
        }
    }
}

fn kept(child: &Value, paths: &FieldSet, step: &Step, ty: Ty<'_>) -> Option<Value> {
    match paths.nodes.get(step) {
        Some(node) if node.member => None,
        Some(node) if !node.below.is_empty() => Some(remove(child, &node.below, ty)),
        _ => Some(child.clone()),
    }
}
