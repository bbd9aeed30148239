//! Values with holes: `{{ .status.phase | Pending }}`.
//!
//! In a hole stand alternatives, separated by ` | `: the first that is there is taken. An alternative is a path of the object,
//! `now`, `if PATH then A else B`, `PATH + N` (a number or a percentage) or a literal, which may be a YAML flow list. A text
//! that is one hole becomes the value itself; a field whose hole finds nothing is left out.

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::schema::jsonpath::{JsonPath, JsonPathError};

/// A value with holes.
#[derive(Clone, Debug)]
pub(super) enum Template {
    Fixed(Value),
    Hole(Vec<Term>),
    Text(Vec<Piece>),
    Fields(Vec<(String, Template)>),
    Items(Vec<Template>),
}

#[derive(Clone, Debug)]
pub(super) enum Piece {
    Text(String),
    Hole(Vec<Term>),
}

#[derive(Clone, Debug)]
pub(super) enum Term {
    Path(JsonPath),
    Now,
    Literal(Value),
    If { test: JsonPath, then: Box<Term>, otherwise: Box<Term> },
    Plus { path: JsonPath, number: String },
}

/// A template that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// `{{` without `}}`.
    #[error("a hole is not closed in {0:?}")]
    Open(String),
    /// A path in a hole.
    #[error("a path in {text:?} cannot be read")]
    Path {
        /// The whole text.
        text: String,
        /// What is wrong.
        #[source]
        cause: JsonPathError,
    },
    /// `if` without `then` and `else`.
    #[error("{0:?} needs `if PATH then A else B`")]
    If(String),
}

impl Template {
    pub(super) fn parse(value: &Value) -> Result<Template, TemplateError> {
        Ok(match value {
            Value::String(text) if text.contains("{{") => parse_text(text)?,
            Value::Object(fields) => Template::Fields(
                fields
                    .iter()
                    .map(|(name, value)| Ok((name.clone(), Template::parse(value)?)))
                    .collect::<Result<_, TemplateError>>()?,
            ),
            Value::Array(items) => {
                Template::Items(items.iter().map(Template::parse).collect::<Result<_, _>>()?)
            }
            fixed => Template::Fixed(fixed.clone()),
        })
    }

    /// Fills the holes from an object; none if the whole value is a hole that finds nothing.
    pub(super) fn fill(&self, object: &Value, now: Timestamp) -> Option<Value> {
        match self {
            Template::Fixed(value) => Some(value.clone()),
            Template::Hole(terms) => first(terms, object, now),
            Template::Text(pieces) => {
                let mut text = String::new();
                for piece in pieces {
                    match piece {
                        Piece::Text(fixed) => text.push_str(fixed),
                        Piece::Hole(terms) => {
                            text.push_str(
                                &first(terms, object, now).map(|value| plain(&value)).unwrap_or_default(),
                            );
                        }
                    }
                }
                Some(Value::String(text))
            }
            Template::Fields(fields) => {
                let filled = fields
                    .iter()
                    .filter_map(|(name, template)| Some((name.clone(), template.fill(object, now)?)));
                Some(Value::Object(filled.collect::<Map<_, _>>()))
            }
            Template::Items(items) => {
                Some(Value::Array(items.iter().filter_map(|item| item.fill(object, now)).collect()))
            }
        }
    }

    /// Fills the holes of what is to be a text.
    pub(super) fn text(&self, object: &Value, now: Timestamp) -> Option<String> {
        self.fill(object, now).map(|value| plain(&value))
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn first(terms: &[Term], object: &Value, now: Timestamp) -> Option<Value> {
    terms.iter().find_map(|term| term.fill(object, now))
}

impl Term {
    fn fill(&self, object: &Value, now: Timestamp) -> Option<Value> {
        match self {
            Term::Path(path) => path.first(object).filter(|value| !value.is_null()).cloned(),
            Term::Now => Some(Value::String(now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())),
            Term::Literal(value) => Some(value.clone()),
            Term::If { test, then, otherwise } => {
                let holds = test
                    .first(object)
                    .is_some_and(|value| !matches!(value, Value::Null | Value::Bool(false)));
                if holds { then.fill(object, now) } else { otherwise.fill(object, now) }
            }
            Term::Plus { path, number } => {
                let before = path.first(object).map(plain).unwrap_or_else(|| "0".to_owned());
                if number.ends_with('%') {
                    let part = |text: &str| text.trim_end_matches('%').parse::<f64>().unwrap_or_default();
                    return Some(Value::String(format!("{:.2}%", part(&before) + part(number))));
                }
                let part = |text: &str| text.parse::<i64>().unwrap_or_default();
                Some(Value::from(part(&before).saturating_add(part(number))))
            }
        }
    }
}

fn parse_text(text: &str) -> Result<Template, TemplateError> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        if !before.is_empty() {
            pieces.push(Piece::Text(before.to_owned()));
        }
        let (hole, next) = after.split_once("}}").ok_or_else(|| TemplateError::Open(text.to_owned()))?;
        pieces.push(Piece::Hole(
            hole.split(" | ").map(|term| parse_term(term.trim(), text)).collect::<Result<_, _>>()?,
        ));
        rest = next;
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest.to_owned()));
    }
    Ok(match pieces.as_mut_slice() {
        [Piece::Hole(terms)] => Template::Hole(std::mem::take(terms)),
        _ => Template::Text(pieces),
    })
}

fn parse_term(term: &str, whole: &str) -> Result<Term, TemplateError> {
    let path = |text: &str| {
        JsonPath::parse(text.trim()).map_err(|cause| TemplateError::Path { text: whole.to_owned(), cause })
    };
    if term == "now" {
        return Ok(Term::Now);
    }
    if let Some(rest) = term.strip_prefix("if ") {
        let unsure = || TemplateError::If(whole.to_owned());
        let (test, rest) = rest.split_once(" then ").ok_or_else(unsure)?;
        let (then, otherwise) = rest.split_once(" else ").ok_or_else(unsure)?;
        return Ok(Term::If {
            test: path(test)?,
            then: Box::new(parse_term(then.trim(), whole)?),
            otherwise: Box::new(parse_term(otherwise.trim(), whole)?),
        });
    }
    if term.starts_with('.') {
        return Ok(match term.split_once(" + ") {
            Some((before, number)) => Term::Plus { path: path(before)?, number: number.trim().to_owned() },
            None => Term::Path(path(term)?),
        });
    }
    if let Some(inner) = term.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        let items = inner.split(',').map(|item| Value::from(item.trim())).filter(|item| item != "");
        return Ok(Term::Literal(Value::Array(items.collect())));
    }
    Ok(Term::Literal(Value::from(term)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use serde_json::json;

    fn check(template: &str, expect: Expect) {
        let object =
            json!({"metadata": {"name": "a"}, "status": {"progress": "25.00%", "n": 3, "list": ["x"]}});
        let now = Timestamp::from_second(1_767_225_600).expect("a time");
        let shown = match Template::parse(&Value::from(template)) {
            Ok(template) => {
                template.fill(&object, now).map_or("nothing".to_owned(), |value| value.to_string())
            }
            Err(error) => error.to_string(),
        };
        expect.assert_eq(&shown);
    }

    #[test]
    fn holes_are_filled_from_the_object() {
        check("disk of {{ .metadata.name }}", expect![[r#""disk of a""#]]);
        check("{{ .status.n }}", expect!["3"]);
        check("{{ .status.list }}", expect![[r#"["x"]"#]]);
        check("{{ .none }}", expect!["nothing"]);
        check("{{ .none | .status.n | 7 }}", expect!["3"]);
        check("{{ .none | [a, b] }}", expect![[r#"["a","b"]"#]]);
        check("{{ if .none then A else B }}", expect![[r#""B""#]]);
        check("{{ .status.progress + 25.00% }}", expect![[r#""50.00%""#]]);
        check("{{ .status.n + 1 }}", expect!["4"]);
        check("{{ now }}", expect![[r#""2026-01-01T00:00:00Z""#]]);
    }

    #[test]
    fn a_hole_that_is_not_closed_is_refused() {
        check("{{ .a", expect![[r#"a hole is not closed in "{{ .a""#]]);
    }
}
