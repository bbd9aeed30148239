//! Steps of a path into an object, in the notation of `fieldsV1` and in that of conflict messages.

use crate::error::go_quote;
use serde_json::{Map, Value};
use std::cmp::Ordering;

/// One step. Ordered as upstream orders them: fields, then keys, then values, then indices.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// A field of a struct or an entry of a map.
    Field(String),
    /// An item of a list of maps, by its key fields, sorted by name.
    Key(Vec<(String, Value)>),
    /// An item of a set.
    Value(Value),
    /// An item by position; only read, never made.
    Index(i64),
}

impl Step {
    /// Reads a key of `fieldsV1`, such as `f:spec` or `k:{"name":"a"}`.
    pub(crate) fn parse(text: &str) -> Option<Step> {
        let (kind, rest) = text.split_once(':')?;
        match kind {
            "f" => Some(Step::Field(rest.to_owned())),
            "k" => {
                let fields: Map<String, Value> = serde_json::from_str(rest).ok()?;
                let mut fields: Vec<_> = fields.into_iter().collect();
                fields.sort_by(|a, b| a.0.cmp(&b.0));
                Some(Step::Key(fields))
            }
            "v" => Some(Step::Value(serde_json::from_str(rest).ok()?)),
            "i" => Some(Step::Index(rest.parse().ok()?)),
            _ => None,
        }
    }

    /// The key of `fieldsV1`.
    pub(crate) fn encode(&self) -> String {
        match self {
            Step::Field(name) => format!("f:{name}"),
            Step::Key(fields) => {
                let fields: Vec<String> = fields
                    .iter()
                    .map(|(name, value)| format!("{}:{value}", Value::from(name.as_str())))
                    .collect();
                format!("k:{{{}}}", fields.join(","))
            }
            Step::Value(value) => format!("v:{value}"),
            Step::Index(index) => format!("i:{index}"),
        }
    }
}

/// As messages show it: `.spec`, `[name="a"]`, `[="v"]`, `[0]`.
impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Step::Field(name) => write!(f, ".{name}"),
            Step::Key(fields) => {
                let fields: Vec<String> =
                    fields.iter().map(|(name, value)| format!("{name}={}", shown(value))).collect();
                write!(f, "[{}]", fields.join(","))
            }
            Step::Value(value) => write!(f, "[={}]", shown(value)),
            Step::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// A whole path as messages show it.
pub(crate) fn show(path: &[Step]) -> String {
    path.iter().map(Step::to_string).collect()
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => go_quote(text),
        Value::Array(items) => format!("[{}]", items.iter().map(shown).collect::<Vec<_>>().join(",")),
        Value::Object(fields) => {
            let fields: String =
                fields.iter().map(|(key, value)| format!("{key}={};", shown(value))).collect();
            format!("{{{fields}}}")
        }
        other => other.to_string(),
    }
}

impl PartialEq for Step {
    fn eq(&self, other: &Step) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Step {}

impl PartialOrd for Step {
    fn partial_cmp(&self, other: &Step) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Step {
    fn cmp(&self, other: &Step) -> Ordering {
        match (self, other) {
            (Step::Field(a), Step::Field(b)) => a.cmp(b),
            (Step::Key(a), Step::Key(b)) => compare_fields(a.iter().map(pair), b.iter().map(pair)),
            (Step::Value(a), Step::Value(b)) => compare_values(a, b),
            (Step::Index(a), Step::Index(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl Step {
    fn rank(&self) -> u8 {
        match self {
            Step::Field(_) => 0,
            Step::Key(_) => 1,
            Step::Value(_) => 2,
            Step::Index(_) => 3,
        }
    }
}

fn pair(field: &(String, Value)) -> (&String, &Value) {
    (&field.0, &field.1)
}

fn compare_fields<'a>(
    mut a: impl Iterator<Item = (&'a String, &'a Value)>,
    mut b: impl Iterator<Item = (&'a String, &'a Value)>,
) -> Ordering {
    loop {
        match (a.next(), b.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some((name, value)), Some((other_name, other_value))) => {
                let order = name.cmp(other_name).then_with(|| compare_values(value, other_value));
                if order != Ordering::Equal {
                    return order;
                }
            }
        }
    }
}

/// A total order of JSON values: numbers, strings, booleans, lists, maps, null.
pub(crate) fn compare_values(a: &Value, b: &Value) -> Ordering {
    fn rank(value: &Value) -> u8 {
        match value {
            Value::Number(_) => 0,
            Value::String(_) => 1,
            Value::Bool(_) => 2,
            Value::Array(_) => 3,
            Value::Object(_) => 4,
            Value::Null => 5,
        }
    }
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => a.cmp(&b),
            _ => a.as_f64().unwrap_or_default().total_cmp(&b.as_f64().unwrap_or_default()),
        },
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Array(a), Value::Array(b)) => {
            let first = a.iter().zip(b).map(|(a, b)| compare_values(a, b)).find(|order| order.is_ne());
            first.unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        (Value::Object(a), Value::Object(b)) => compare_fields(a.iter(), b.iter()),
        _ => rank(a).cmp(&rank(b)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_read_and_written_in_both_notations() {
        let cases = [
            ("f:spec", ".spec"),
            (r#"k:{"port":80,"protocol":"TCP"}"#, r#"[port=80,protocol="TCP"]"#),
            (r#"v:"a""#, r#"[="a"]"#),
            ("i:3", "[3]"),
        ];
        for (encoded, text) in cases {
            let step = Step::parse(encoded).unwrap();
            assert_eq!((step.encode().as_str(), step.to_string().as_str()), (encoded, text));
        }
        assert!(Step::parse("x:1").is_none() && Step::parse("k:[").is_none());
    }
}
