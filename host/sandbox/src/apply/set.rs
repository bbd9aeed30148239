//! Sets of paths, as `fieldsV1` writes them.

use super::path::Step;
use super::walk::Ty;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// A set of paths below some point.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldSet {
    pub(super) nodes: BTreeMap<Step, Node>,
}

/// A step: whether the path that ends here is in the set, and what is below.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Node {
    pub(super) member: bool,
    pub(super) below: FieldSet,
}

impl Node {
    pub(super) fn is_empty(&self) -> bool {
        !self.member && self.below.is_empty()
    }
}

impl FieldSet {
    /// Reads `fieldsV1`; `None` if it is none.
    pub(crate) fn parse(fields: &Value) -> Option<FieldSet> {
        let mut set = FieldSet::default();
        for (key, below) in fields.as_object()? {
            if key == "." {
                continue;
            }
            let step = Step::parse(key)?;
            let children = below.as_object()?;
            let member = children.is_empty() || children.contains_key(".");
            set.nodes.insert(step, Node { member, below: FieldSet::parse(below)? });
        }
        Some(set)
    }

    /// Writes `fieldsV1`.
    pub(crate) fn encode(&self) -> Value {
        let mut out = Map::new();
        for (step, node) in &self.nodes {
            let mut below = match node.below.encode() {
                Value::Object(below) => below,
                _ => Map::new(),
            };
            if node.member && !below.is_empty() {
                below.insert(".".into(), Value::Object(Map::new()));
            }
            out.insert(step.encode(), Value::Object(below));
        }
        Value::Object(out)
    }

    /// A set of paths of plain field names.
    pub(crate) fn of_fields(paths: &[&[&str]]) -> FieldSet {
        let mut set = FieldSet::default();
        for path in paths {
            let mut at = &mut set;
            for (depth, name) in path.iter().enumerate() {
                let node = at.nodes.entry(Step::Field((*name).to_owned())).or_default();
                node.member |= depth + 1 == path.len();
                at = &mut node.below;
            }
        }
        set
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.values().all(Node::is_empty)
    }

    pub(super) fn attach(&mut self, step: &Step, node: Node) {
        if !node.is_empty() {
            self.nodes.insert(step.clone(), node);
        }
    }

    /// What is in one of both.
    pub(crate) fn union(mut self, other: &FieldSet) -> FieldSet {
        for (step, node) in &other.nodes {
            match self.nodes.get_mut(step) {
                Some(mine) => {
                    mine.member |= node.member;
                    let below = std::mem::take(&mut mine.below);
                    mine.below = below.union(&node.below);
                }
                None => self.attach(step, node.clone()),
            }
        }
        self
    }

    /// What is in both.
    pub(crate) fn intersection(&self, other: &FieldSet) -> FieldSet {
        let mut out = FieldSet::default();
        for (step, node) in &self.nodes {
            if let Some(theirs) = other.nodes.get(step) {
                let member = node.member && theirs.member;
                out.attach(step, Node { member, below: node.below.intersection(&theirs.below) });
            }
        }
        out
    }

    /// What is not in the other; what is below a member of the other stays.
    pub(crate) fn difference(&self, other: &FieldSet) -> FieldSet {
        let mut out = FieldSet::default();
        for (step, node) in &self.nodes {
            match other.nodes.get(step) {
                Some(theirs) => {
                    let member = node.member && !theirs.member;
                    out.attach(step, Node { member, below: node.below.difference(&theirs.below) });
                }
                None => out.attach(step, node.clone()),
            }
        }
        out
    }

    /// What is neither in the other nor below one of its members.
    pub(crate) fn recursive_difference(&self, other: &FieldSet) -> FieldSet {
        let mut out = FieldSet::default();
        for (step, node) in &self.nodes {
            match other.nodes.get(step) {
                Some(theirs) if theirs.member => {}
                Some(theirs) => {
                    let below = node.below.recursive_difference(&theirs.below);
                    out.attach(step, Node { member: node.member, below });
                }
                None => out.attach(step, node.clone()),
            }
        }
        out
    }

    /// The set with every struct field on the way to a member made a member, so that an emptied struct can go too.
    pub(super) fn with_named_fields(&self, ty: Ty<'_>) -> FieldSet {
        let mut out = FieldSet::default();
        for (step, node) in &self.nodes {
            let named = !node.below.is_empty() && ty.names(step);
            let below = node.below.with_named_fields(ty.below(step));
            out.attach(step, Node { member: node.member || named, below });
        }
        out
    }

    /// All paths: the members of a level before what is below them.
    pub(crate) fn paths(&self) -> Vec<Vec<Step>> {
        let mut out = Vec::new();
        self.collect(&mut Vec::new(), &mut out);
        out
    }

    fn collect(&self, at: &mut Vec<Step>, out: &mut Vec<Vec<Step>>) {
        for (step, _) in self.nodes.iter().filter(|(_, node)| node.member) {
            at.push(step.clone());
            out.push(at.clone());
            at.pop();
        }
        for (step, node) in &self.nodes {
            at.push(step.clone());
            node.below.collect(at, out);
            at.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn set(fields: Value) -> FieldSet {
        FieldSet::parse(&fields).unwrap()
    }

    #[test]
    fn fields_are_read_and_written_alike() {
        let fields = json!({"f:metadata": {"f:labels": {".": {}, "f:a": {}}}, "f:spec": {"f:ports": {"k:{\"port\":1}": {".": {}, "f:port": {}}}}});
        assert_eq!(set(fields.clone()).encode(), fields);
    }

    #[test]
    fn sets_are_joined_and_taken_apart() {
        let a = set(json!({"f:a": {".": {}, "f:b": {}}, "f:c": {}}));
        let b = set(json!({"f:a": {}, "f:d": {}}));
        assert_eq!(a.clone().union(&b).encode(), json!({"f:a": {".": {}, "f:b": {}}, "f:c": {}, "f:d": {}}));
        assert_eq!(a.intersection(&b).encode(), json!({"f:a": {}}));
        assert_eq!(a.difference(&b).encode(), json!({"f:a": {"f:b": {}}, "f:c": {}}));
        assert_eq!(a.recursive_difference(&b).encode(), json!({"f:c": {}}));
        let paths: Vec<String> = a.paths().iter().map(|path| super::super::path::show(path)).collect();
        assert_eq!(paths, [".a", ".c", ".a.b"]);
    }
}
