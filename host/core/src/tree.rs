//! A JSON text as a tree that borrows from it: what is read to be compared once is not copied first.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Number, Value};

use crate::canonical::same as same_value;
use crate::pointer::Key;

/// A value of a JSON text.
#[derive(Clone, Debug, PartialEq)]
pub enum Tree<'j> {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A text, borrowed where it has no escapes.
    Text(Cow<'j, str>),
    /// A list.
    Array(Vec<Tree<'j>>),
    /// An object's members in their order; of two of one name the last one holds.
    Object(Vec<(Cow<'j, str>, Tree<'j>)>),
}

impl<'j> Tree<'j> {
    /// Of a text; none where it is not JSON.
    pub fn parse(json: &'j str) -> Option<Self> {
        serde_json::from_str(json).ok()
    }

    /// A member of an object.
    pub fn get(&self, name: &str) -> Option<&Self> {
        let Self::Object(members) = self else { return None };
        members.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// The members of an object; none for what is no object.
    pub fn members(&self) -> Option<&[(Cow<'j, str>, Self)]> {
        match self {
            Self::Object(members) => Some(members),
            _ => None,
        }
    }

    /// Whether it is the same value; `1` and `1.0` are.
    pub fn same(&self, value: &Value) -> bool {
        match (self, value) {
            (Self::Null, Value::Null) => true,
            (Self::Bool(ours), Value::Bool(theirs)) => ours == theirs,
            (Self::Number(ours), Value::Number(theirs)) => {
                ours == theirs || same_value(&Value::Number(ours.clone()), value)
            }
            (Self::Text(ours), Value::String(theirs)) => ours == theirs,
            (Self::Array(ours), Value::Array(theirs)) => {
                ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(ours, theirs)| ours.same(theirs))
            }
            (Self::Object(ours), Value::Object(theirs)) => {
                theirs.iter().all(|(name, theirs)| self.get(name).is_some_and(|ours| ours.same(theirs)))
                    && ours.iter().all(|(name, _)| theirs.contains_key(&**name))
            }
            _ => false,
        }
    }
}

impl<'de: 'j, 'j> Deserialize<'de> for Tree<'j> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Grow)
    }
}

struct Grow;

impl<'de> Visitor<'de> for Grow {
    type Value = Tree<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Tree<'de>, E> {
        Ok(Tree::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Tree<'de>, E> {
        Ok(Tree::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Tree<'de>, E> {
        Ok(Tree::Number(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Tree<'de>, E> {
        Ok(Tree::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Tree<'de>, E> {
        Ok(Number::from_f64(value).map_or(Tree::Null, Tree::Number))
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Tree<'de>, E> {
        Ok(Tree::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Tree<'de>, E> {
        Ok(Tree::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Tree<'de>, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Tree::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree<'de>, A::Error> {
        let mut members = Vec::new();
        while let Some(Key(key)) = map.next_key()? {
            members.push((key, map.next_value()?));
        }
        Ok(Tree::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_same_as_the_value_of_its_text_and_as_no_other() {
        let texts = [
            r#"{"a": [1, -2, 2.5, true, null, "x\n", "ä"], "b": {"c": {}}}"#,
            r#"{"a": [1, -2, 2.5, true, null, "x", "ä"], "b": {"c": {}}}"#,
            r#"{"a": 1}"#,
            r#"{"a": 1, "b": null}"#,
            r#"{"a": "1"}"#,
            "[]",
            "{}",
            "null",
            "18446744073709551615",
            "1e300",
        ];
        for (at, ours) in texts.iter().enumerate() {
            for (other, theirs) in texts.iter().enumerate() {
                let tree = Tree::parse(ours).expect("JSON");
                let value: Value = serde_json::from_str(theirs).expect("JSON");
                assert_eq!(tree.same(&value), at == other, "{ours} and {theirs}");
            }
        }
    }

    #[test]
    fn a_whole_float_is_the_integer_and_of_two_members_the_last_one_holds() {
        let value = serde_json::json!({"a": 1});
        for text in [r#"{"a": 1.0}"#, r#"{"a": 2, "a": 1}"#, r#"{"\u0061": 1}"#] {
            assert!(Tree::parse(text).expect("JSON").same(&value), "{text}");
        }
        assert!(!Tree::parse(r#"{"a": 1, "a": 2}"#).expect("JSON").same(&value));
        assert_eq!(Tree::parse(r#"{"a": "#), None);
    }

    #[test]
    fn what_has_no_escapes_is_not_copied() {
        let tree = Tree::parse(r#"{"a": "plain"}"#).expect("JSON");
        assert!(matches!(tree.get("a"), Some(Tree::Text(Cow::Borrowed("plain")))));
        assert_eq!(tree.get("b"), None);
    }
}
