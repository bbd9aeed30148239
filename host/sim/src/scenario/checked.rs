//! What is checked while a file is read, so that a typing error is told with its place and not taken for a test that holds.

use std::error::Error as _;
use std::ops::RangeInclusive;

use evenkeel_core::pointer::Pointer;
use evenkeel_engine::directory::parse_settings;
use serde::Deserialize;
use serde::de::{Deserializer, Error};
use serde_json::{Value, json};

use super::expect::show;

/// Writes by their words, as in `writes`; `update` and `deletecollection` are those of users.
const WRITES: [&str; 9] = [
    "create",
    "apply",
    "apply-status",
    "patch",
    "add-finalizer",
    "remove-finalizer",
    "delete",
    "update",
    "deletecollection",
];
const READS: [&str; 3] = ["get", "list", "watch"];
/// The HTTP statuses of a failure.
const FAILURES: RangeInclusive<u16> = 400..=599;

/// The verb of a write; any where absent.
pub(super) fn write_verb<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    one_of(&WRITES, Option::deserialize(from)?)
}

/// The verb of a write or a read; any where absent.
pub(super) fn verb<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    one_of(&[&WRITES[..], &READS].concat(), Option::deserialize(from)?)
}

fn one_of<E: Error>(known: &[&str], verb: Option<String>) -> Result<Option<String>, E> {
    match verb {
        Some(verb) if !known.contains(&verb.as_str()) => {
            Err(E::custom(format!("no request is called {verb:?}: it is one of {}", known.join(", "))))
        }
        verb => Ok(verb),
    }
}

/// The HTTP status of a failure.
pub(super) fn code<'de, D: Deserializer<'de>>(from: D) -> Result<u16, D::Error> {
    let code = u16::deserialize(from)?;
    if FAILURES.contains(&code) {
        return Ok(code);
    }
    let (least, most) = FAILURES.into_inner();
    Err(D::Error::custom(format!(
        "code {code} is no HTTP status of a failure: it is one from {least} to {most}"
    )))
}

/// How often something fails; once where absent.
pub(super) fn times<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    match Option::deserialize(from)? {
        Some(0) => Err(D::Error::custom("what fails no times does not fail: leave the step out")),
        times => Ok(times),
    }
}

/// The name of an object.
pub(super) fn name<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let name = String::deserialize(from)?;
    if name.is_empty() {
        Err(D::Error::custom("the name is empty: no object is called so"))
    } else {
        Ok(name)
    }
}

/// JSON pointers.
pub(super) fn pointers<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let pointers = Vec::<String>::deserialize(from)?;
    for pointer in &pointers {
        Pointer::parse(pointer)
            .map_err(|error| D::Error::custom(format!("{pointer:?} is no JSON pointer: {error}")))?;
    }
    Ok(pointers)
}

/// Objects that are expected. Each is read by itself, so that a mistake is told with the place of its object.
pub(super) fn expected_objects<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Value>, D::Error> {
    #[derive(Deserialize)]
    struct Expected(#[serde(deserialize_with = "expected_object")] Value);

    let objects = Vec::<Expected>::deserialize(from)?;
    Ok(objects.into_iter().map(|Expected(object)| object).collect())
}

fn expected_object<'de, D: Deserializer<'de>>(from: D) -> Result<Value, D::Error> {
    let object = named_object(from)?;
    match object.get("exact") {
        Some(exact) if !exact.is_boolean() => {
            Err(D::Error::custom(format!("exact is true or false, and not {exact}")))
        }
        _ => Ok(object),
    }
}

/// Objects with names, as they are given.
pub(super) fn named_objects<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Value>, D::Error> {
    #[derive(Deserialize)]
    struct Named(#[serde(deserialize_with = "named_object")] Value);

    let objects = Vec::<Named>::deserialize(from)?;
    Ok(objects.into_iter().map(|Named(object)| object).collect())
}

/// An object that a user sends to its own place.
pub(super) fn named_object<'de, D: Deserializer<'de>>(from: D) -> Result<Value, D::Error> {
    let object = Value::deserialize(from)?;
    is_named(&object).map_err(D::Error::custom)?;
    Ok(object)
}

/// An object that a user sends; the server may give it a name.
pub(super) fn object<'de, D: Deserializer<'de>>(from: D) -> Result<Value, D::Error> {
    let object = Value::deserialize(from)?;
    is_object(&object).map_err(D::Error::custom)?;
    Ok(object)
}

/// Whether it is an object of some kind.
pub(super) fn is_object(object: &Value) -> Result<(), String> {
    if !object.is_object() {
        return Err(format!("{} is no object: write its apiVersion, kind and metadata", show(object)));
    }
    match object.get("kind") {
        Some(Value::String(kind)) if !kind.is_empty() => Ok(()),
        Some(kind) => Err(format!("kind is the name of a kind, and not {}", show(kind))),
        None => Err("the object has no kind".to_owned()),
    }
}

/// Whether it is an object with a name.
pub(super) fn is_named(object: &Value) -> Result<(), String> {
    is_object(object)?;
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
    match object.pointer("/metadata/name") {
        Some(Value::String(name)) if !name.is_empty() => Ok(()),
        None | Some(Value::Null) => Err(format!("the {kind} has no metadata.name")),
        Some(name) => {
            Err(format!("metadata.name of the {kind} is a text that is not empty, and not {}", show(name)))
        }
    }
}

/// The plugin's config: a map, since it is handed over as one.
pub(super) fn config<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    match Option::<Value>::deserialize(from)? {
        Some(config) if !config.is_object() => {
            Err(D::Error::custom(format!("config is a map of keys and values, and not {}", show(&config))))
        }
        config => Ok(config),
    }
}

/// What the operator allows, as a settings file says it.
pub(super) fn grant<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    let grant = Option::<Value>::deserialize(from)?;
    if let Some(grant) = &grant {
        parse_settings(&json!({ "grant": grant }).to_string()).map_err(|error| {
            // Its place is one in the text that was made just here.
            let cause = error.source().map_or_else(|| error.to_string(), ToString::to_string);
            D::Error::custom(format!("grant: {}", without_place(&cause)))
        })?;
    }
    Ok(grant)
}

/// What the reader of YAML says, without the place and the part of the text that it shows with it.
pub(super) fn without_place(said: &str) -> &str {
    let first = said.lines().next().unwrap_or_default();
    let message =
        first.split_once(": ").filter(|_| first.starts_with("error: line")).map_or(first, |(_, rest)| rest);
    message.split_once(": ").filter(|_| message.starts_with("line ")).map_or(message, |(_, rest)| rest)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::file;
    use super::*;

    /// A scenario with this at its end is refused in that line, for a reason that has these words.
    fn refused(text: &str, line: u64, words: &str) {
        let text = format!("scenario: a\n{text}\n");
        let error = file::parse(Path::new("a.yaml"), &text).expect_err(&text).to_string();
        assert!(error.starts_with(&format!("a.yaml:{line}:")) && error.contains(words), "{text}{error}");
        assert!(!error.contains('\n') && !error.contains("<input>"), "{error}");
    }

    fn holds(text: &str) {
        let text = format!("scenario: a\n{text}\n");
        file::parse(Path::new("a.yaml"), &text).unwrap_or_else(|error| panic!("{text}{error}"));
    }

    #[test]
    fn a_typing_error_in_a_fault_is_told_with_its_place() {
        for (fail, words) in [
            (
                "verb: aply, code: 500",
                "no request is called \"aply\": it is one of create, apply, apply-status",
            ),
            ("code: 200", "code 200 is no HTTP status of a failure: it is one from 400 to 599"),
            ("code: 600", "code 600 is no HTTP status of a failure"),
            ("code: 500, times: 0", "what fails no times does not fail: leave the step out"),
        ] {
            refused(&format!("steps:\n  - fail: {{{fail}}}"), 3, words);
        }
        for fail in ["verb: watch, code: 400", "verb: update, code: 599, times: 100000", "code: 503"] {
            holds(&format!("steps:\n  - fail: {{{fail}}}"));
        }
    }

    #[test]
    fn only_writes_have_something_before_them() {
        refused(
            "steps:\n  - before: {verb: get, do: []}",
            3,
            "no request is called \"get\": it is one of create",
        );
        for verb in WRITES {
            holds(&format!("steps:\n  - before: {{verb: {verb}, do: []}}"));
        }
    }

    #[test]
    fn a_name_is_not_empty_and_a_pointer_is_one() {
        refused("steps:\n  - delete: {kind: Pod, name: ''}", 3, "the name is empty: no object is called so");
        let expect = |expected: &str| format!("steps:\n  - expect: {{{expected}}}");
        refused(&expect("absent: [{kind: Pod, name: ''}]"), 3, "the name is empty");
        let pointers = "fields-absent: [{kind: Pod, name: a, pointers: [spec/x]}]";
        refused(&expect(pointers), 3, "\"spec/x\" is no JSON pointer");
    }

    #[test]
    fn an_object_is_one_and_has_what_tells_it_apart() {
        for (text, line, words) in [
            ("given: [hello]", 2, "\"hello\" is no object: write its apiVersion, kind and metadata"),
            (
                "given:\n  - {kind: Pod, metadata: {name: a}}\n  - {kind: Pod}",
                4,
                "the Pod has no metadata.name",
            ),
            ("given-many: {times: 1, objects: [{metadata: {name: a}}]}", 2, "the object has no kind"),
            ("steps:\n  - apply: hello", 3, "\"hello\" is no object"),
            ("steps:\n  - apply: {kind: Pod, metadata: {}}", 3, "the Pod has no metadata.name"),
            (
                "steps:\n  - replace: {kind: Pod, metadata: {name: 7}}",
                3,
                "is a text that is not empty, and not 7",
            ),
            ("steps:\n  - create: {kind: 7}", 3, "kind is the name of a kind, and not 7"),
            ("steps:\n  - refused: {apply: {kind: Pod}}", 3, "the Pod has no metadata.name"),
            ("steps:\n  - refused: {create: []}", 3, "[] is no object"),
            ("steps:\n  - expect: {objects: [{kind: Pod}]}", 3, "the Pod has no metadata.name"),
            (
                "steps:\n  - expect: {objects: [{kind: Pod, exact: 'yes', metadata: {name: a}}]}",
                3,
                "exact is true or false, and not \"yes\"",
            ),
        ] {
            refused(text, line, words);
        }
        for text in [
            "given: [{kind: Pod, metadata: {name: a}}]",
            "steps:\n  - create: {kind: Pod, metadata: {generateName: a-}}",
            "steps:\n  - refused: {create: {kind: Pod}}",
            "steps:\n  - expect: {objects: [{kind: Pod, exact: true, metadata: {name: a}}]}",
        ] {
            holds(text);
        }
    }

    #[test]
    fn what_the_operator_says_is_read_with_the_file() {
        refused("config: 7", 2, "config is a map of keys and values, and not 7");
        refused("grant: {permisions: []}", 2, "grant: unknown field `permisions`");
        refused(
            "grant:\n  permissions:\n  - {apiVersion: v1, kind: Pod, verbs: [gett]}",
            3,
            "unknown variant `gett`",
        );
        holds(
            "config: {a: 1}\ngrant: {namespaces: [a], permissions: [{apiVersion: v1, kind: Pod, verbs: [get]}]}",
        );
        holds("config:\ngrant:");
    }

    #[test]
    fn the_readers_words_are_told_without_the_place_that_they_name() {
        for (said, expected) in [
            ("error: line 1 column 2: unknown field `a`\n --> <input>:1:2\n", "unknown field `a`"),
            ("line 1 column 2: no: good", "no: good"),
            ("something else: b", "something else: b"),
        ] {
            assert_eq!(without_place(said), expected);
        }
    }
}
