//! Lays an applied object over a live one.

use super::path::Step;
use super::walk::{Shape, Ty, fields, item_step, items};
use crate::schema::ListKind;
use serde_json::{Map, Value};

/// The live object with everything that the applied one says; items of lists keep the live order where they can.
pub(crate) fn merge(live: &Value, applied: &Value, ty: Ty<'_>) -> Value {
    both(Some(live), Some(applied), ty).unwrap_or_default()
}

fn both(live: Option<&Value>, applied: Option<&Value>, ty: Ty<'_>) -> Option<Value> {
    let Some(new) = applied else { return live.cloned() };
    let Some(old) = live else { return Some(new.clone()) };
    match ty.shape(Some(new)) {
        Shape::Leaf => Some(new.clone()),
        Shape::Map => {
            let (a, b) = (fields(Some(old)), fields(Some(new)));
            let empty = |map: Option<&Map<String, Value>>| map.is_none_or(Map::is_empty);
            if empty(a) && empty(b) {
                return Some(new.clone());
            }
            let mut out = Map::new();
            for (name, value) in a.into_iter().flatten() {
                let merged = both(Some(value), b.and_then(|b| b.get(name)), ty.field(name));
                out.extend(merged.map(|merged| (name.clone(), merged)));
            }
            for (name, value) in b.into_iter().flatten() {
                if a.is_none_or(|a| !a.contains_key(name)) {
                    out.insert(name.clone(), value.clone());
                }
            }
            Some(Value::Object(out))
        }
        Shape::List { kind, item } => {
            if items(Some(old)).is_empty() && items(Some(new)).is_empty() {
                return Some(new.clone());
            }
            Some(Value::Array(list(kind, item, items(Some(old)), items(Some(new)))))
        }
    }
}

/// Merges two lists whose items have keys. Items of both come in the applied order; those that only the live list has
/// stay where they were, relative to those before them.
fn list(kind: ListKind<'_>, item: Ty<'_>, live: &[Value], applied: &[Value]) -> Vec<Value> {
    let index = |list: &[Value]| -> Vec<Step> {
        list.iter().map(|child| item_step(kind, item, child).unwrap_or(Step::Index(-1))).collect()
    };
    let (old, new) = (index(live), index(applied));
    let find = |steps: &[Step], step: &Step| steps.iter().position(|other| other == step);
    // An item that the live list has twice is not merged with, it is replaced.
    let twin = |step: &Step| -> Option<&Value> {
        let mut found = old.iter().enumerate().filter(|(_, other)| *other == step);
        let first = found.next()?.0;
        found.next().is_none().then(|| &live[first])
    };
    let mut shared = new.iter().filter(|step| old.contains(step));
    let mut next_shared = shared.next();
    let mut merged: Vec<&Step> = Vec::new();
    let mut out = Vec::with_capacity(old.len().max(new.len()));
    let (mut l, mut r) = (0, 0);
    while l < old.len() || r < new.len() {
        if l < old.len() && r < new.len() {
            let step = &old[l];
            if *step == new[r] {
                merged.push(step);
                out.extend(both(twin(step), Some(&applied[r]), item));
                (l, r) = (l + 1, r + 1);
                next_shared = shared.next();
                continue;
            }
            if new.contains(step) && next_shared.is_some_and(|next| next != step) {
                // In both lists, but another one's turn comes first.
                l += 1;
                continue;
            }
        }
        if l < old.len() {
            let step = &old[l];
            if find(&new, step).is_none() {
                out.push(live[l].clone());
                l += 1;
                continue;
            } else if merged.contains(&step) {
                l += 1;
            }
        }
        if r < new.len() {
            let step = &new[r];
            merged.push(step);
            out.extend(both(twin(step), Some(&applied[r]), item));
            r += 1;
            if next_shared == Some(step) {
                next_shared = shared.next();
            }
        }
    }
    out
}
