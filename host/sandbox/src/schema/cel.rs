//! CEL rules of custom kinds (`x-kubernetes-validations`).

use serde_json::Value;

use super::field_error::FieldError;
use super::structural::Schema;

/// A place in a schema where rules may be compiled.
#[derive(Clone)]
pub(crate) struct SchemaContext<'a> {
    schema: &'a Value,
}

/// What came out of a node's rules.
#[derive(Default)]
pub(crate) struct Checked {
    pub(crate) errors: Vec<FieldError>,
    pub(crate) costs: Vec<(String, u64)>,
}

impl<'a> SchemaContext<'a> {
    pub(crate) fn root(schema: &'a Value) -> Self {
        SchemaContext { schema }
    }

    pub(crate) fn property(self, name: &str) -> Option<Self> {
        self.schema.get("properties")?.get(name).map(|schema| SchemaContext { schema })
    }

    pub(crate) fn items(self) -> Option<Self> {
        self.schema.get("items").map(|schema| SchemaContext { schema })
    }

    pub(crate) fn additional(self) -> Option<Self> {
        self.schema.get("additionalProperties").map(|schema| SchemaContext { schema })
    }

    pub(crate) fn check_rules(
        &self,
        _path: &str,
        _schema: &Value,
        _no_old: Option<&str>,
        _any_cost: bool,
    ) -> Checked {
        Checked::default()
    }
}

/// The rules of a schema, compiled.
#[derive(Debug)]
pub(crate) struct Validator {}

impl Validator {
    pub(crate) fn compile(_schema: &Schema) -> Option<Validator> {
        None
    }

    pub(crate) fn validate(
        &self,
        _p: &str,
        _b: &Value,
        _old: Option<&Value>,
        _s: &Schema,
    ) -> Vec<FieldError> {
        Vec::new()
    }
}

/// Checks a default value by the rules of its schema.
pub(crate) fn check_default(_path: &str, _default: &Value, _schema: &Schema) -> Vec<FieldError> {
    Vec::new()
}

/// How a cost limit was missed.
pub(crate) fn cost_message(name: &str, cost: u64, max: u64) -> String {
    #[allow(clippy::cast_precision_loss)] // It is shown with one digit.
    let factor = cost as f64 / max as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{name} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and \
         maxLength where arrays, maps, and strings are declared)"
    )
}

/// Follows a path of fields (`.spec.a`, `['b']`) through a raw schema: its normal form, and the schema it leads to.
pub(crate) fn field_path<'a>(
    path: &str,
    schema: &'a Value,
    brackets: bool,
) -> Result<(String, &'a Value), String> {
    let mut rest = path;
    let mut found = String::new();
    let mut at = schema;
    while !rest.is_empty() {
        let name;
        if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[', ']']).unwrap_or(after.len());
            if end == 0 {
                return Err(if after.is_empty() {
                    "unexpected end of JSON path".to_owned()
                } else {
                    "does not refer to a valid field".to_owned()
                });
            }
            name = after[..end].to_owned();
            rest = &after[end..];
        } else if let Some(after) = rest.strip_prefix('[') {
            if !brackets {
                return Err("array notation is not allowed".to_owned());
            }
            let (text, after) = quoted(after)?;
            name = text;
            rest = match after.strip_prefix(']') {
                Some(rest) => rest,
                None if after.is_empty() => return Err("unexpected end of JSON path".to_owned()),
                None => return Err(format!("expected ] but got {after}")),
            };
        } else {
            let end = rest.find(['.', '[', ']']).unwrap_or(rest.len()).max(1);
            return Err(format!("expected [ or . but got: {}", &rest[..end]));
        }
        let invalid = || "does not refer to a valid field".to_owned();
        if let Some(properties) = at.get("properties") {
            at = properties.get(&name).ok_or_else(invalid)?;
            found = super::path::child(&found, &name);
        } else if let Some(additional) = at.get("additionalProperties").filter(|one| one.is_object()) {
            at = additional;
            found = super::path::key(&found, &name);
        } else {
            return Err(invalid());
        }
    }
    Ok((found, at))
}

fn quoted(text: &str) -> Result<(String, &str), String> {
    if text.is_empty() {
        return Err("unexpected end of JSON path".to_owned());
    }
    let inner = text.strip_prefix('\'');
    let mut out = String::new();
    let mut chars = inner.unwrap_or_default().char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\'' => return Ok((out, &inner.unwrap_or_default()[at + 1..])),
            '\\' => match chars.next().map(|(_, escaped)| escaped) {
                Some('a') => out.push('\u{7}'),
                Some('b') => out.push('\u{8}'),
                Some('f') => out.push('\u{c}'),
                Some('n') => out.push('\n'),
                Some('r') => out.push('\r'),
                Some('t') => out.push('\t'),
                Some('v') => out.push('\u{b}'),
                Some(c @ ('\'' | '\\')) => out.push(c),
                Some(other) => return Err(format!("invalid string literal: invalid escape char \\{other}")),
                None => break,
            },
            c => out.push(c),
        }
    }
    let end = text.find(['.', ']']).unwrap_or(text.len());
    Err(format!("expected single quoted string but got {}", &text[..end]))
}
