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
    /// What would make the file expect what is there, where that can be said.
    #[serde(skip)]
    pub fix: Option<Fix>,
}

/// A change of a scenario file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fix {
    /// The way from the step's `expect` to the place: keys, and indices from 0.
    pub path: Vec<String>,
    /// What should stand there.
    pub value: Value,
}

impl Difference {
    /// From its parts.
    pub fn new(at: impl Into<String>, expected: impl Into<String>, actual: impl Into<String>) -> Self {
        Self { at: at.into(), expected: expected.into(), actual: actual.into(), fix: None }
    }

    /// With the change that would take it away.
    pub fn fixed_by<const N: usize>(mut self, path: [&str; N], value: impl Into<Value>) -> Self {
        self.fix = Some(Fix { path: path.map(str::to_owned).to_vec(), value: value.into() });
        self
    }

    /// With its change further down, below these keys.
    pub fn below<const N: usize>(mut self, keys: [&str; N]) -> Self {
        if let Some(fix) = &mut self.fix {
            fix.path.splice(0..0, keys.map(str::to_owned));
        }
        self
    }
}

/// Every place where `actual` lacks what `expected` says: maps need their members, lists are compared element by element.
pub fn subset(about: &str, expected: &Value, actual: Option<&Value>) -> Vec<Difference> {
    let mut comparison = Comparison { about, path: Vec::new(), found: Vec::new() };
    comparison.compare(expected, actual);
    comparison.found
}

struct Comparison<'a> {
    about: &'a str,
    /// Where it is.
    path: Vec<String>,
    found: Vec<Difference>,
}

impl Comparison<'_> {
    fn compare(&mut self, expected: &Value, actual: Option<&Value>) {
        match (expected, actual) {
            (expected, None) => self.differ(expected, None),
            (Value::Object(wanted), Some(Value::Object(there))) => {
                for (key, value) in wanted {
                    self.within(key, |inner| inner.compare(value, there.get(key)));
                }
            }
            (Value::Array(wanted), Some(Value::Array(there))) if wanted.len() == there.len() => {
                for (index, (value, other)) in wanted.iter().zip(there).enumerate() {
                    self.within(&index.to_string(), |inner| inner.compare(value, Some(other)));
                }
            }
            (expected, Some(actual)) if same_scalar(expected, actual) => {}
            (expected, actual) => self.differ(expected, actual),
        }
    }

    fn within(&mut self, key: &str, compare: impl FnOnce(&mut Self)) {
        self.path.push(key.to_owned());
        compare(self);
        self.path.pop();
    }

    fn differ(&mut self, expected: &Value, actual: Option<&Value>) {
        let mut at = self.about.to_owned();
        for token in &self.path {
            at.push('/');
            at.push_str(&token.replace('~', "~0").replace('/', "~1"));
        }
        let mut difference =
            Difference::new(at, show(expected), actual.map_or_else(|| "nothing".to_owned(), show));
        difference.fix = actual.map(|actual| Fix { path: self.path.clone(), value: actual.clone() });
        self.found.push(difference);
    }
}

/// Numbers compare by value, so that `1` and `1.0` are one.
fn same_scalar(expected: &Value, actual: &Value) -> bool {
    match (expected, actual) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (a, b) => a == b,
    }
}

/// A value on one line, cut off where it is long.
pub(super) fn show(value: &Value) -> String {
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

/// Whether the lines may have come from these sequences, each in its own order and any of them next: all of them and nothing
/// else where that is asked for, others between where it is not.
pub fn woven(expected: &[String], sequences: &[Vec<String>], all: bool) -> bool {
    let Some((line, rest)) = expected.split_first() else {
        return !all || sequences.iter().all(Vec::is_empty);
    };
    sequences.iter().enumerate().any(|(index, sequence)| {
        let found = sequence.iter().position(|actual| actual == line);
        let Some(at) = found.filter(|at| !all || *at == 0) else { return false };
        let mut left = sequences.to_vec();
        left[index].drain(..=at);
        woven(rest, &left, all)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(expected: &str, actual: &str, snapshot: Expect) {
        let read = |text| serde_saphyr::from_str::<Value>(text).unwrap_or_else(|error| panic!("{error}"));
        let found = subset("", &read(expected), Some(&read(actual)));
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

    #[test]
    fn lines_of_several_keys_may_be_woven_in_any_way_but_each_keeps_its_order() {
        let lines = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let keys = [lines("a b"), lines("x a y")];
        for all in ["a b x a y", "x a a b y", "x a y a b"] {
            assert!(woven(&lines(all), &keys, true), "{all}");
        }
        for not in ["b a x a y", "a b x y a", "a b x a", "a b x a y z"] {
            assert!(!woven(&lines(not), &keys, true), "{not}");
        }
        assert!(woven(&lines("y b"), &keys, false));
        assert!(!woven(&lines("y x"), &keys, false));
    }
}
