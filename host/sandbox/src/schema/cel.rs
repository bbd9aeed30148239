//! CEL rules of custom kinds (`x-kubernetes-validations`).
//!
//! Our own parser, type checker and evaluator, because rules must be refused with cel-go's words and places, typed by the
//! schema, and held to estimates and budgets of cost. The `cel` crate has no types and no costs, and brings ANTLR along.

mod checker;
mod eval;
mod expression;
mod lexer;
mod library;
mod parser;
mod signatures;
mod syntax;
mod types;
mod validator;
mod value;

#[cfg(test)]
mod tests;

use serde_json::Value;

use self::checker::compile;
use self::types::{REQUEST_BYTES_MAX, Type, declare};
use super::field_error::FieldError;
use super::path::{child, index};
use super::structural::{Schema, flag};

pub use expression::Expression;
pub(crate) use validator::{Validator, check_default};

/// Past this estimate a single rule is too expensive.
const RULE_COST_MAX: u64 = 10_000_000;

/// A place in a schema where rules may be compiled, and how often it can occur in an object.
#[derive(Clone)]
pub(crate) struct SchemaContext<'a> {
    schema: &'a Value,
    root: bool,
    /// None if nothing limits it.
    occurs: Option<u64>,
}

/// What came out of a node's rules.
#[derive(Default)]
pub(crate) struct Checked {
    pub(crate) errors: Vec<FieldError>,
    /// Each rule's path and the most that it can cost.
    pub(crate) costs: Vec<(String, u64)>,
}

impl<'a> SchemaContext<'a> {
    pub(crate) fn root(schema: &'a Value) -> Self {
        SchemaContext { schema, root: true, occurs: Some(1) }
    }

    pub(crate) fn property(self, name: &str) -> Option<Self> {
        let schema = self.schema.get("properties")?.get(name)?;
        Some(SchemaContext { schema, root: false, occurs: self.occurs })
    }

    pub(crate) fn items(self) -> Option<Self> {
        self.many("items", "maxItems")
    }

    pub(crate) fn additional(self) -> Option<Self> {
        self.many("additionalProperties", "maxProperties")
    }

    fn many(self, field: &str, limit: &str) -> Option<Self> {
        let schema = self.schema.get(field)?;
        let most = self.schema.get(limit).and_then(Value::as_u64);
        let occurs = self.occurs.zip(most).map(|(outer, most)| outer.saturating_mul(most));
        Some(SchemaContext { schema, root: false, occurs })
    }

    /// Compiles the rules of a node; `no_old` is the place from which on old values cannot be told.
    pub(crate) fn check_rules(
        &self,
        path: &str,
        raw: &Value,
        no_old: Option<&str>,
        any_cost: bool,
    ) -> Checked {
        let mut checked = Checked::default();
        let mut schema = Schema::parse(raw);
        schema.resource_root = self.root;
        let path = child(path, "x-kubernetes-validations");
        let Some(declared) = declare(&schema, "object") else {
            let detail = "internal error: failed to retrieve type information for x-kubernetes-validations";
            checked.errors.push(FieldError::internal(path, detail));
            return checked;
        };
        let occurs = self.occurs.unwrap_or(REQUEST_BYTES_MAX / (declared.bytes_min + 1));
        for (at, rule) in schema.validations.iter().enumerate() {
            self.check_rule(&index(&path, at), rule, &declared.ty, (occurs, no_old, any_cost), &mut checked);
        }
        checked
    }

    fn check_rule(
        &self,
        path: &str,
        rule: &Value,
        ty: &Type,
        (occurs, no_old, any_cost): (u64, Option<&str>, bool),
        checked: &mut Checked,
    ) {
        let text = |field: &str| rule.get(field).and_then(Value::as_str).unwrap_or_default();
        let optional = flag(rule, "optionalOldSelf");
        let variables = variables(ty, optional);
        let invalid = |field: &str, detail: String| FieldError {
            bad_value: None,
            ..FieldError::invalid(child(path, field), "", format!("{}: {detail}", rule_as_go(rule)))
        };
        let at = child(path, "rule");
        let compiled = match compile(text("rule"), &variables) {
            Ok(compiled) if !matches!(compiled.ty, Type::Bool | Type::Dyn) => {
                checked.errors.push(invalid("rule", "cel expression must evaluate to a bool".to_owned()));
                None
            }
            Ok(compiled) => Some(compiled),
            Err(report) => {
                checked.errors.push(invalid("rule", format!("compilation failed: {report}")));
                None
            }
        };
        let too_much = |name: &str, cost: u64| {
            (!any_cost && cost > RULE_COST_MAX).then(|| cost_message(name, cost, RULE_COST_MAX))
        };
        if let Some(compiled) = &compiled {
            let cost = compiled.cost.saturating_mul(occurs);
            checked
                .errors
                .extend(too_much("estimated rule cost", cost).map(|text| FieldError::forbidden(&at, text)));
            checked.costs.push((at.clone(), cost));
            let message = text("messageExpression");
            if !message.is_empty() {
                let at = child(path, "messageExpression");
                match compile(message, &variables) {
                    Ok(compiled) if !matches!(compiled.ty, Type::Text | Type::Dyn) => {
                        let detail = "messageExpression must evaluate to a string".to_owned();
                        checked.errors.push(invalid("messageExpression", detail));
                    }
                    Ok(compiled) => {
                        let found = too_much("estimated messageExpression cost", compiled.cost);
                        checked.errors.extend(found.map(|text| FieldError::forbidden(&at, text)));
                        checked.costs.push((at, compiled.cost));
                    }
                    Err(report) => {
                        let detail = format!("messageExpression compilation failed: {report}");
                        checked.errors.push(invalid("messageExpression", detail));
                    }
                }
            }
        }
        let uses_old = compiled.is_some_and(|compiled| compiled.uses_old);
        if let (true, Some(place)) = (uses_old, no_old) {
            let detail =
                format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {place}");
            checked.errors.push(FieldError::invalid(&at, text("rule"), detail));
        } else if !uses_old && rule.get("optionalOldSelf").is_some_and(Value::is_boolean) {
            let detail = "may not be set if oldSelf is not used in rule";
            checked.errors.push(FieldError::invalid(child(path, "optionalOldSelf"), optional, detail));
        }
    }
}

/// What rules may name.
fn variables(ty: &Type, optional: bool) -> [(&'static str, Type); 2] {
    let old = if optional { Type::optional(ty.clone()) } else { ty.clone() };
    [("self", ty.clone()), ("oldSelf", old)]
}

/// A rule as the real server prints it: its internal Go struct, which has no JSON names.
fn rule_as_go(rule: &Value) -> String {
    let text = |field: &str| quote_json(rule.get(field).and_then(Value::as_str).unwrap_or_default());
    let optional = |field: &str| {
        rule.get(field).filter(|value| !value.is_null()).map_or("null".to_owned(), Value::to_string)
    };
    format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{},\"FieldPath\":{},\"OptionalOldSelf\":{}}}",
        text("rule"),
        text("message"),
        text("messageExpression"),
        optional("reason"),
        text("fieldPath"),
        optional("optionalOldSelf"),
    )
}

fn quote_json(text: &str) -> String {
    super::field_error::go_json(&Value::from(text))
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
