//! JSON pointers (RFC 6901): parsed once, looked up in values and, without building a tree, in JSON text.

mod seek;

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer, Error as _, Visitor};
use serde_json::Value;

use crate::limits::{POINTER_BYTES_MAX, POINTER_TOKENS_MAX};

/// Why a text is no JSON pointer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PointerError {
    /// It names neither the whole nor a part.
    #[error("a JSON pointer starts with '/'")]
    NoSlash,
    /// `~` stands before `0` or `1` only.
    #[error("'~' in a JSON pointer is written '~0', '/' is '~1'")]
    Escape,
    /// It is longer than the host takes.
    #[error("a JSON pointer has at most {POINTER_BYTES_MAX} bytes and {POINTER_TOKENS_MAX} parts")]
    TooLong,
}

/// A JSON pointer; the empty one is the whole.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pointer {
    text: Box<str>,
    tokens: Box<[Box<str>]>,
}

impl Pointer {
    /// Parses its text.
    pub fn parse(text: &str) -> Result<Self, PointerError> {
        if text.len() > POINTER_BYTES_MAX {
            return Err(PointerError::TooLong);
        }
        let tokens = match text.strip_prefix('/') {
            Some(rest) => rest.split('/').map(unescape).collect::<Result<Vec<_>, _>>()?,
            None if text.is_empty() => Vec::new(),
            None => return Err(PointerError::NoSlash),
        };
        if tokens.len() > POINTER_TOKENS_MAX {
            return Err(PointerError::TooLong);
        }
        Ok(Self { text: text.into(), tokens: tokens.into() })
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The names on the way, unescaped.
    pub fn tokens(&self) -> impl Iterator<Item = &str> {
        self.tokens.iter().map(|token| &**token)
    }

    /// The part of a value.
    pub fn get<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        self.tokens.iter().try_fold(value, |value, token| match value {
            Value::Object(fields) => fields.get(&**token),
            Value::Array(items) => items.get(index(token)?),
            _ => None,
        })
    }

    /// The part of a JSON text, as it is written there; none where there is none or the text is not JSON.
    pub fn find<'j>(&self, json: &'j str) -> Option<&'j str> {
        Self::find_all(std::slice::from_ref(self), json).pop().flatten()
    }

    /// The parts of a JSON text that several pointers point to, in their order; it is read once.
    pub fn find_all<'j>(pointers: &[Self], json: &'j str) -> Vec<Option<&'j str>> {
        seek::find_all(pointers, json)
    }
}

impl fmt::Debug for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn unescape(token: &str) -> Result<Box<str>, PointerError> {
    if !token.contains('~') {
        return Ok(token.into());
    }
    let mut out = String::with_capacity(token.len());
    let mut chars = token.chars();
    while let Some(c) = chars.next() {
        out.push(match c {
            '~' => match chars.next() {
                Some('0') => '~',
                Some('1') => '/',
                _ => return Err(PointerError::Escape),
            },
            other => other,
        });
    }
    Ok(out.into())
}

/// An array's index: digits without a leading zero.
fn index(token: &str) -> Option<usize> {
    let plain = token == "0" || (!token.starts_with('0') && token.bytes().all(|byte| byte.is_ascii_digit()));
    if plain { token.parse().ok() } else { None }
}

/// A key of a JSON object, borrowed where it has no escapes.
pub(crate) struct Key<'de>(pub(crate) Cow<'de, str>);

impl<'de> serde::Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl<'de> Visitor<'de> for Text {
            type Value = Key<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }
            fn visit_borrowed_str<E: serde::de::Error>(self, text: &'de str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Borrowed(text)))
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Owned(text.to_owned())))
            }
            fn visit_bytes<E: serde::de::Error>(self, _: &[u8]) -> Result<Key<'de>, E> {
                Err(E::custom("a key is text"))
            }
        }
        deserializer.deserialize_str(Text).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#" {"a": {"b/c": [10, {"d~": "x"}], "n": null}, "a\u0062": 1, "s": "text"} "#;

    #[test]
    fn a_pointer_finds_in_text_what_it_finds_in_the_tree() {
        let tree: Value = serde_json::from_str(TEXT).expect("JSON");
        for (pointer, found) in [
            ("/a/b~1c/0", Some("10")),
            ("/a/b~1c/1/d~0", Some("\"x\"")),
            ("/a/n", Some("null")),
            ("/ab", Some("1")),
            ("/a/b~1c/2", None),
            ("/a/b~1c/01", None),
            ("/a/b~1c/-", None),
            ("/a/n/x", None),
            ("/s/0", None),
            ("/missing/x", None),
            ("/", None),
        ] {
            let pointer = Pointer::parse(pointer).expect("a pointer");
            assert_eq!(pointer.find(TEXT), found, "{pointer} in text");
            let in_tree = pointer.get(&tree).map(Value::to_string);
            assert_eq!(in_tree.as_deref(), found, "{pointer} in the tree");
        }
        assert_eq!(Pointer::parse("").expect("the whole").find(TEXT), Some(TEXT.trim()));
        assert_eq!(Pointer::parse("/a").expect("a pointer").find("{\"a\":"), None);
    }

    #[test]
    fn what_is_no_pointer_is_refused() {
        for (text, error) in [
            ("a", PointerError::NoSlash),
            ("/a~", PointerError::Escape),
            ("/a~2", PointerError::Escape),
            (&"/a".repeat(33), PointerError::TooLong),
            (&format!("/{}", "a".repeat(1024)), PointerError::TooLong),
        ] {
            assert_eq!(Pointer::parse(text), Err(error), "{text}");
        }
    }
}
