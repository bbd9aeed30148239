//! Old and new value side by side: what an update left alone is not held against it ("ratcheting").

use std::cell::OnceCell;

use serde_json::Value;

use super::merge::ListKind;
use super::structural::Schema;

/// A value, and what stood in its place before the update.
#[derive(Clone)]
pub(crate) struct Correlated<'a> {
    pub(crate) new: &'a Value,
    pub(crate) old: &'a Value,
    schema: &'a Schema,
    equal: OnceCell<bool>,
}

impl<'a> Correlated<'a> {
    pub(crate) fn new(new: &'a Value, old: &'a Value, schema: &'a Schema) -> Self {
        Correlated { new, old, schema, equal: OnceCell::new() }
    }

    /// The field in both; none if one of them lacks it.
    pub(crate) fn key(&self, field: &str) -> Option<Correlated<'a>> {
        let schema = self.schema.property(field).or_else(|| self.schema.additional())?;
        Some(Correlated::new(self.new.as_object()?.get(field)?, self.old.as_object()?.get(field)?, schema))
    }

    /// The item and the old item of the same key: only items of list maps have one.
    pub(crate) fn index(&self, index: usize) -> Option<Correlated<'a>> {
        let new = self.new.as_array()?.get(index)?;
        let ListKind::Map(keys) = self.schema.list_kind() else { return None };
        let old = old_item(self.old, keys, new)?;
        Some(Correlated::new(new, old, self.schema.item()?))
    }

    /// Whether the update left the value alone. Items of a list map may change places; fields that the schema does not
    /// know are compared too, unlike in the real server, where they cannot exist here.
    pub(crate) fn unchanged(&self) -> bool {
        *self.equal.get_or_init(|| match (self.new, self.old) {
            (Value::Array(new), Value::Array(old)) => {
                if new.len() != old.len() {
                    return false;
                }
                if !matches!(self.schema.list_kind(), ListKind::Map(_)) {
                    return new == old;
                }
                (0..new.len()).all(|index| self.index(index).is_some_and(|child| child.unchanged()))
            }
            (Value::Object(new), Value::Object(old)) => {
                new.len() == old.len()
                    && new.iter().all(|(key, value)| match self.key(key) {
                        Some(child) => child.unchanged(),
                        None => old.get(key) == Some(value),
                    })
            }
            (new, old) => new == old,
        })
    }
}

/// The item of `old` with the same keys as `item`.
pub(crate) fn old_item<'a>(old: &'a Value, keys: &[String], item: &Value) -> Option<&'a Value> {
    old.as_array()?.iter().find(|other| keys.iter().all(|key| other.get(key) == item.get(key)))
}
