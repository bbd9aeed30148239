//! Looks several pointers up in one reading of a JSON text, without building a tree.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::{Key, Pointer, index};

/// What each pointer points to, as it is written; none where there is nothing or the text is not JSON.
pub(super) fn find_all<'j>(pointers: &[Pointer], json: &'j str) -> Vec<Option<&'j str>> {
    let mut found = vec![None; pointers.len()];
    let ways = pointers.iter().enumerate().map(|(at, pointer)| Way { rest: &pointer.tokens, at }).collect();
    let seek = Seek { ways, found: &mut found };
    if seek.deserialize(&mut serde_json::Deserializer::from_str(json)).is_err() {
        found.fill(None);
    }
    found
}

/// What is left of a pointer's way, and which pointer it is.
#[derive(Clone, Copy)]
struct Way<'p> {
    rest: &'p [Box<str>],
    at: usize,
}

/// Goes down some ways of a JSON text and skips everything beside them.
struct Seek<'p, 'f, 'j> {
    ways: Vec<Way<'p>>,
    found: &'f mut [Option<&'j str>],
}

impl<'p, 'j> Seek<'p, '_, 'j> {
    fn note(&mut self, at: usize, text: Option<&'j str>) {
        if let Some(place) = self.found.get_mut(at) {
            *place = text;
        }
    }

    /// The ways that go on below a name or an index. Of two values of one name the last one holds, so what was found
    /// below an earlier one is forgotten.
    fn below(&mut self, leads: impl Fn(&str) -> bool) -> Vec<Way<'p>> {
        let step = |way: &Way<'p>| {
            let (first, rest) = way.rest.split_first()?;
            leads(first).then_some(Way { rest, at: way.at })
        };
        let ways: Vec<_> = self.ways.iter().filter_map(step).collect();
        ways.iter().for_each(|way| self.note(way.at, None));
        ways
    }
}

impl<'de> DeserializeSeed<'de> for Seek<'_, '_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(mut self, deserializer: D) -> Result<(), D::Error> {
        if self.ways.iter().all(|way| !way.rest.is_empty()) {
            return deserializer.deserialize_any(self);
        }
        // One ends here. Others that go on read the part once more.
        let text = <&RawValue as serde::Deserialize>::deserialize(deserializer)?.get();
        let (ends, ways): (Vec<_>, Vec<_>) = self.ways.iter().copied().partition(|way| way.rest.is_empty());
        ends.iter().for_each(|way| self.note(way.at, Some(text)));
        if ways.is_empty() {
            return Ok(());
        }
        let deeper = Seek { ways, found: self.found };
        deeper.deserialize(&mut serde_json::Deserializer::from_str(text)).map_err(D::Error::custom)
    }
}

impl<'de> Visitor<'de> for Seek<'_, '_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(Key(key)) = map.next_key()? {
            let ways = self.below(|token| token == key);
            if ways.is_empty() {
                map.next_value::<IgnoredAny>()?;
            } else {
                map.next_value_seed(Seek { ways, found: &mut *self.found })?;
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<(), A::Error> {
        for place in 0.. {
            let ways = self.below(|token| index(token) == Some(place));
            let more = if ways.is_empty() {
                seq.next_element::<IgnoredAny>()?.is_some()
            } else {
                seq.next_element_seed(Seek { ways, found: &mut *self.found })?.is_some()
            };
            if !more {
                break;
            }
        }
        Ok(())
    }

    // Whatever else stands there has no parts.
    fn visit_bool<E: serde::de::Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }
    fn visit_i64<E: serde::de::Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }
    fn visit_u64<E: serde::de::Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }
    fn visit_f64<E: serde::de::Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }
    fn visit_str<E: serde::de::Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }
    fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str, pointers: &[(&str, Option<&str>)]) {
        let parsed: Vec<_> =
            pointers.iter().map(|(text, _)| Pointer::parse(text).expect("a pointer")).collect();
        let wanted: Vec<_> = pointers.iter().map(|(_, found)| *found).collect();
        assert_eq!(find_all(&parsed, json), wanted, "{json}");
    }

    #[test]
    fn several_are_found_at_once_also_within_one_another() {
        check(
            r#"{"a": {"b": [1, {"c": 2}], "d": 3}, "e": null}"#,
            &[
                ("/a/b/1/c", Some("2")),
                ("/a/b", Some(r#"[1, {"c": 2}]"#)),
                ("/a/d", Some("3")),
                ("/a/b/0", Some("1")),
                ("/a/b/2", None),
                ("/e", Some("null")),
                ("/e/x", None),
                ("/missing", None),
                ("/a/d", Some("3")),
                ("", Some(r#"{"a": {"b": [1, {"c": 2}], "d": 3}, "e": null}"#)),
            ],
        );
    }

    #[test]
    fn of_two_values_of_one_name_the_last_one_holds() {
        check(
            r#"{"a":{"b":1},"a":{"c":2}}"#,
            &[("/a/b", None), ("/a/c", Some("2")), ("/a", Some(r#"{"c":2}"#))],
        );
    }

    #[test]
    fn in_what_is_not_json_nothing_is_found() {
        check(r#"{"a":1,"b":"#, &[("/a", None), ("/b", None)]);
        check(r#"{"a":1}"#, &[]);
    }
}
