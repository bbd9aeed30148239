//! Compares what is with what a scenario expects; a difference is a value with the place where it lies.

use serde_json::Value;

/// One difference between what is expected and what is there.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Difference {
    /// Where, as in `Namespace tenant-a /metadata/labels/name`.
    pub at: String,
    /// What was expected.
    pub expected: String,
    /// What is there.
    pub actual: String,
}

impl Difference {
    /// From its parts.
    pub fn new(at: impl Into<String>, expected: impl Into<String>, actual: impl Into<String>) -> Self {
        Self { at: at.into(), expected: expected.into(), actual: actual.into() }
    }
}

/// Every place where `actual` lacks what `expected` says: maps need their members, lists are compared element by element.
pub fn subset(at: &str, expected: &Value, actual: Option<&Value>, found: &mut Vec<Difference>) {
    let Some(actual) = actual else {
        found.push(Difference::new(at, show(expected), "nothing"));
        return;
    };
    match (expected, actual) {
        (Value::Object(wanted), Value::Object(there)) => {
            for (key, value) in wanted {
                subset(&join(at, key), value, there.get(key), found);
            }
        }
        (Value::Array(wanted), Value::Array(there)) => {
            if wanted.len() != there.len() {
                found.push(Difference::new(at, show(expected), show(actual)));
                return;
            }
            for (index, (value, other)) in wanted.iter().zip(there).enumerate() {
                subset(&join(at, &index.to_string()), value, Some(other), found);
            }
        }
        (expected, actual) if same_scalar(expected, actual) => {}
        (expected, actual) => found.push(Difference::new(at, show(expected), show(actual))),
    }
}

/// Numbers compare by value, so that `1` and `1.0` are one.
fn same_scalar(expected: &Value, actual: &Value) -> bool {
    match (expected, actual) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (a, b) => a == b,
    }
}

fn join(at: &str, token: &str) -> String {
    format!("{at}/{}", token.replace('~', "~0").replace('/', "~1"))
}

fn show(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(400) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text,
    }
}

/// The lines of `expected` and `actual` beside each other, as `diff` shows them; none where they are the same.
pub fn lines(at: &str, expected: &[String], actual: &[String]) -> Option<Difference> {
    if expected == actual {
        return None;
    }
    let (expected, actual) = (expected.join("\n"), actual.join("\n"));
    Some(Difference::new(at, expected, actual))
}

/// The first of `expected` that does not follow the ones before it within `actual`.
pub fn in_order<'a>(expected: &'a [String], actual: &[String]) -> Option<&'a String> {
    let mut rest = actual.iter();
    expected.iter().find(|wanted| !rest.any(|line| line == *wanted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(expected: &str, actual: &str, snapshot: Expect) {
        let read = |text| serde_saphyr::from_str::<Value>(text).unwrap_or_else(|error| panic!("{error}"));
        let mut found = Vec::new();
        subset("", &read(expected), Some(&read(actual)), &mut found);
        let shown: Vec<_> =
            found.iter().map(|d| format!("{}: {} is {}\n", d.at, d.expected, d.actual)).collect();
        snapshot.assert_eq(&shown.concat());
    }

    #[test]
    fn what_is_not_named_does_not_matter() {
        check("a: {b: 1}", "a: {b: 1, c: 2}\nd: 3", expect![""]);
    }

    #[test]
    fn a_missing_member_is_named_by_its_place() {
        check(
            "a: {b/c: 1}",
            "a: {}",
            expect![[r#"
            /a/b~1c: 1 is nothing
        "#]],
        );
    }

    #[test]
    fn lists_are_compared_element_by_element() {
        check(
            "a: [1, {b: 2}]",
            "a: [1, {b: 3, c: 4}]",
            expect![[r#"
            /a/1/b: 2 is 3
        "#]],
        );
        check(
            "a: [1]",
            "a: [1, 2]",
            expect![[r#"
            /a: [1] is [1,2]
        "#]],
        );
    }

    #[test]
    fn lines_in_order_may_have_others_between() {
        let lines = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(in_order(&lines("a c"), &lines("a b c")), None);
        assert_eq!(in_order(&lines("c a"), &lines("a b c")).map(String::as_str), Some("a"));
    }
}
