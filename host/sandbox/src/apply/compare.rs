//! What changed from one object to another, as sets of paths.

use super::path::Step;
use super::set::{FieldSet, Node};
use super::walk::{Shape, Ty, fields, item_step, items};
use crate::schema::ListKind;
use serde_json::Value;

/// Paths that only one of two objects has, or that differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Comparison {
    pub removed: FieldSet,
    pub modified: FieldSet,
    pub added: FieldSet,
}

impl Comparison {
    /// Compares two objects of one type.
    pub(crate) fn of(old: &Value, new: &Value, ty: Ty<'_>) -> Comparison {
        let diff = Diff::of(Some(old), Some(new), ty);
        Comparison { removed: diff.removed.below, modified: diff.modified.below, added: diff.added.below }
    }

    /// Leaves out what is at or below the given paths.
    pub(crate) fn without(self, ignored: &FieldSet) -> Comparison {
        if ignored.is_empty() {
            return self;
        }
        Comparison {
            removed: self.removed.recursive_difference(ignored),
            modified: self.modified.recursive_difference(ignored),
            added: self.added.recursive_difference(ignored),
        }
    }
}

#[derive(Default)]
struct Diff {
    removed: Node,
    modified: Node,
    added: Node,
}

impl Diff {
    fn of(old: Option<&Value>, new: Option<&Value>, ty: Ty<'_>) -> Diff {
        let mut diff = Diff::default();
        if old == new {
            return diff;
        }
        let (before, after) = (ty.shape(old), ty.shape(new));
        let leaf = match (new, old) {
            (None, _) => diff.walk(before, old, new, ty),
            (_, None) => diff.walk(after, old, new, ty),
            _ if same_shape(before, after) => diff.walk(after, old, new, ty),
            _ => {
                // The value became something else: what was below it is gone, and it counts as changed itself.
                diff.walk(before, old, new, ty);
                diff.walk(after, old, new, ty)
            }
        };
        if !leaf {
            diff.added.member |= old.is_none();
            diff.removed.member |= new.is_none();
        }
        diff
    }

    /// Walks both values in one shape; true where they are a leaf.
    fn walk(&mut self, shape: Shape<'_>, old: Option<&Value>, new: Option<&Value>, ty: Ty<'_>) -> bool {
        match shape {
            Shape::Map => {
                let (a, b) = (fields(old), fields(new));
                let empty =
                    |map: Option<&serde_json::Map<String, Value>>| map.is_none_or(|map| map.is_empty());
                if empty(a) && empty(b) {
                    return self.leaf(old, new);
                }
                for (name, value) in a.into_iter().flatten() {
                    let other = b.and_then(|b| b.get(name));
                    self.descend(Step::Field(name.clone()), Diff::of(Some(value), other, ty.field(name)));
                }
                for (name, value) in b.into_iter().flatten() {
                    if a.is_none_or(|a| !a.contains_key(name)) {
                        self.descend(Step::Field(name.clone()), Diff::of(None, Some(value), ty.field(name)));
                    }
                }
                false
            }
            Shape::List { kind, item } => {
                if items(old).is_empty() && items(new).is_empty() {
                    return self.leaf(old, new);
                }
                self.list(kind, item, items(old), items(new));
                false
            }
            Shape::Leaf => self.leaf(old, new),
        }
    }

    fn list(&mut self, kind: ListKind<'_>, item: Ty<'_>, old: &[Value], new: &[Value]) {
        let group = |list: &[Value]| -> Vec<(Step, usize)> {
            let steps = list.iter().enumerate();
            steps.filter_map(|(at, child)| Some((item_step(kind, item, child).ok()?, at))).collect()
        };
        let (a, b) = (group(old), group(new));
        let mut steps: Vec<&Step> = Vec::new();
        for (step, _) in a.iter().chain(&b) {
            if !steps.contains(&step) {
                steps.push(step);
            }
        }
        for step in steps {
            let of = |group: &[(Step, usize)], list: &[Value]| -> Vec<Value> {
                group.iter().filter(|(other, _)| other == step).map(|(_, at)| list[*at].clone()).collect()
            };
            let (before, after) = (of(&a, old), of(&b, new));
            match (before.len(), after.len()) {
                (0 | 1, 0 | 1) => self.descend(step.clone(), Diff::of(before.first(), after.first(), item)),
                (2.., 2..) => {
                    if before != after {
                        self.modified.below.nodes.entry(step.clone()).or_default().member = true;
                    }
                }
                (2.., _) => {
                    self.descend(
                        step.clone(),
                        after.first().map_or_else(Diff::default, |it| Diff::of(None, Some(it), item)),
                    );
                    self.removed.below.nodes.entry(step.clone()).or_default().member = true;
                }
                (_, _) => {
                    self.descend(
                        step.clone(),
                        before.first().map_or_else(Diff::default, |it| Diff::of(Some(it), None, item)),
                    );
                    self.added.below.nodes.entry(step.clone()).or_default().member = true;
                }
            }
        }
    }

    fn leaf(&mut self, old: Option<&Value>, new: Option<&Value>) -> bool {
        match (old, new) {
            (None, _) => self.added.member = true,
            (_, None) => self.removed.member = true,
            (Some(Value::Number(old)), Some(Value::Number(new))) => {
                self.modified.member |= old != new && old.as_f64() != new.as_f64();
            }
            (old, new) => self.modified.member |= old != new,
        }
        true
    }

    fn descend(&mut self, step: Step, below: Diff) {
        self.removed.below.attach(&step, below.removed);
        self.modified.below.attach(&step, below.modified);
        self.added.below.attach(&step, below.added);
    }
}

fn same_shape(a: Shape<'_>, b: Shape<'_>) -> bool {
    matches!(
        (a, b),
        (Shape::Leaf, Shape::Leaf) | (Shape::Map, Shape::Map) | (Shape::List { .. }, Shape::List { .. })
    )
}
