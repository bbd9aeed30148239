//! What stands for a part of an earlier answer.

use serde_json::Value;
use std::collections::BTreeMap;

/// The namespace of a case, and the answers that it kept, of one server.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    /// The namespace.
    pub namespace: String,
    /// Answers by name.
    pub answers: BTreeMap<String, Value>,
}

impl Kept {
    /// Replaces `$ns` and `${name:/pointer}`; what is not there becomes nothing.
    pub fn fill(&self, text: &str) -> String {
        let text = text.replace("$ns", &self.namespace);
        let mut out = String::with_capacity(text.len());
        let mut rest = text.as_str();
        while let Some(start) = rest.find("${") {
            let Some(end) = rest[start..].find('}').map(|end| start + end) else { break };
            out.push_str(&rest[..start]);
            out.push_str(&self.look_up(&rest[start + 2..end]));
            rest = &rest[end + 1..];
        }
        out.push_str(rest);
        out
    }

    /// Replaces in every string of a value, keys included.
    pub fn fill_value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.fill(text)),
            Value::Array(items) => items.iter().map(|item| self.fill_value(item)).collect(),
            Value::Object(fields) => {
                fields.iter().map(|(key, value)| (self.fill(key), self.fill_value(value))).collect()
            }
            other => other.clone(),
        }
    }

    fn look_up(&self, name: &str) -> String {
        let (name, pointer) = name.split_once(':').unwrap_or((name, ""));
        match self.answers.get(name).and_then(|answer| answer.pointer(pointer)) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Null) | None => String::new(),
            Some(other) => other.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_part_of_an_answer_is_filled_in_and_an_absent_one_is_empty() {
        let answers = BTreeMap::from([("a".to_owned(), json!({"metadata": {"uid": "u", "generation": 2}}))]);
        let kept = Kept { namespace: "n".into(), answers };
        assert_eq!(
            kept.fill("/x/$ns/${a:/metadata/uid}?g=${a:/metadata/generation}&b=${b:/c}"),
            "/x/n/u?g=2&b="
        );
        assert_eq!(kept.fill_value(&json!({"k": ["${a:/metadata/uid}", 1]})), json!({"k": ["u", 1]}));
    }
}
