//! The rules of a schema, compiled once and run on each object.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use super::checker::{Checked, compile};
use super::eval::{Evaluation, TOO_EXPENSIVE};
use super::types::{Declared, Type, declare};
use super::value::Value;
use super::variables;
use crate::schema::correlate::{Correlated, old_item};
use crate::schema::field_error::{ErrorKind, FieldError};
use crate::schema::merge::ListKind;
use crate::schema::path::{child, index, key};
use crate::schema::structural::{JsonType, Schema, flag, text};

/// What all rules of an object may cost together.
const BUDGET: u64 = 10_000_000;
/// What one evaluation may cost.
const CALL_COST_MAX: u64 = 1_000_000;
const MESSAGE_BYTES_MAX: usize = 5 * 1024;
const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// The compiled rules of a node and of all below it.
#[derive(Debug)]
pub(crate) struct Validator {
    ty: Type,
    /// The OpenAPI type, which errors show in place of the value.
    type_name: &'static str,
    rules: Vec<Rule>,
    properties: BTreeMap<String, Validator>,
    additional: Option<Box<Validator>>,
    items: Option<Box<Validator>>,
}

#[derive(Debug)]
struct Rule {
    text: String,
    message: String,
    reason: Option<String>,
    field_path: String,
    optional_old: bool,
    compiled: Result<Checked, String>,
    message_expression: Option<(String, Checked)>,
}

/// What an object is validated against, and what is left to spend.
struct Run {
    budget: u64,
    stopped: bool,
    errors: Vec<FieldError>,
}

/// A place in the object and in its old self.
#[derive(Clone)]
struct Place<'a> {
    path: String,
    value: &'a Json,
    old: Option<&'a Json>,
    /// For ratcheting: this place, if old and new can be told to belong together, and the nearest above that can.
    both: Option<Correlated<'a>>,
    above: Option<Correlated<'a>>,
}

impl Place<'_> {
    fn unchanged(&self) -> bool {
        self.both.as_ref().or(self.above.as_ref()).is_some_and(Correlated::unchanged)
    }
}

impl Validator {
    /// Compiles the rules of a schema; none if it has none.
    pub(crate) fn compile(schema: &Schema) -> Option<Validator> {
        let declared = declare(schema, "object")?;
        let Declared { ty, .. } = declared;
        let rules: Vec<Rule> = schema.validations.iter().map(|rule| read_rule(rule, &ty)).collect();
        let properties: BTreeMap<String, Validator> = schema
            .properties()
            .filter_map(|(name, property)| Some((name.to_owned(), Validator::compile(property)?)))
            .collect();
        let additional = schema.additional().and_then(Validator::compile).map(Box::new);
        let items = schema.item().and_then(Validator::compile).map(Box::new);
        if rules.is_empty() && properties.is_empty() && additional.is_none() && items.is_none() {
            return None;
        }
        let type_name = schema.ty.map_or("", JsonType::name);
        Some(Validator { ty, type_name, rules, properties, additional, items })
    }

    /// Runs the rules on an object.
    pub(crate) fn validate(
        &self,
        path: &str,
        body: &Json,
        old: Option<&Json>,
        schema: &Schema,
    ) -> Vec<FieldError> {
        let both = old.map(|old| Correlated::new(body, old, schema));
        let mut run = Run { budget: BUDGET, stopped: false, errors: Vec::new() };
        run.walk(self, schema, Place { path: path.to_owned(), value: body, old, both, above: None });
        run.errors
    }
}

fn read_rule(raw: &Json, ty: &Type) -> Rule {
    let read = |field: &str| text(raw, field).unwrap_or_default();
    let optional_old = flag(raw, "optionalOldSelf");
    let variables = variables(ty, optional_old);
    let message_text = read("messageExpression");
    let message_expression = (!message_text.is_empty())
        .then(|| compile(&message_text, &variables).ok())
        .flatten()
        .map(|compiled| (message_text, compiled));
    let rule_text = read("rule");
    Rule {
        compiled: compile(&rule_text, &variables),
        text: rule_text,
        message: read("message").trim().to_owned(),
        reason: text(raw, "reason"),
        field_path: normal_path(&read("fieldPath")),
        optional_old,
        message_expression,
    }
}

/// `.spec['a']` as it is appended to a path. That it leads somewhere was checked when the definition was made.
fn normal_path(text: &str) -> String {
    text.trim().trim_start_matches('.').replace("['", ".").replace("']", "")
}

impl Rule {
    /// What stands for the rule in errors.
    fn shown(&self) -> &str {
        if self.message.is_empty() { self.text.trim() } else { &self.message }
    }
}

impl Run {
    fn walk(&mut self, node: &Validator, schema: &Schema, place: Place<'_>) {
        if place.value.is_null() || self.stopped {
            return;
        }
        self.rules(node, &place);
        match place.value {
            Json::Array(items) => self.items(node, schema, &place, items),
            Json::Object(fields) => {
                for (name, value) in fields {
                    let (validator, field_schema, path) =
                        match (node.properties.get(name), schema.property(name), schema.additional()) {
                            (Some(validator), Some(property), _) => {
                                (validator, property, child(&place.path, name))
                            }
                            (None, None, Some(additional)) => match &node.additional {
                                Some(validator) => (&**validator, additional, key(&place.path, name)),
                                None => continue,
                            },
                            _ => continue,
                        };
                    let hidden = place.above.is_none() && matches!(name.as_str(), "apiVersion" | "kind");
                    let (both, above) = match &place.both {
                        Some(_) if hidden => (None, None),
                        Some(both) => (both.key(name), Some(both.clone())),
                        None => (None, place.above.clone()),
                    };
                    let old = place.old.and_then(|old| old.get(name));
                    self.walk(validator, field_schema, Place { path, value, old, both, above });
                }
            }
            _ => {}
        }
    }

    fn items(&mut self, node: &Validator, schema: &Schema, place: &Place<'_>, items: &[Json]) {
        let (Some(validator), Some(item_schema)) = (&node.items, schema.item()) else { return };
        for (at, value) in items.iter().enumerate() {
            let old = match schema.list_kind() {
                ListKind::Map(keys) => place.old.and_then(|old| old_item(old, keys, value)),
                ListKind::Atomic | ListKind::Set => None,
            };
            let (both, above) = match &place.both {
                Some(both) => (both.index(at), Some(both.clone())),
                None => (None, place.above.clone()),
            };
            self.walk(
                validator,
                item_schema,
                Place { path: index(&place.path, at), value, old, both, above },
            );
        }
    }

    fn fail(&mut self, node: &Validator, path: &str, detail: String) {
        let path = if path.is_empty() { "<nil>" } else { path };
        self.errors.push(FieldError::invalid(path, node.type_name, detail));
    }

    fn rules(&mut self, node: &Validator, place: &Place<'_>) {
        for rule in &node.rules {
            if self.stopped {
                return;
            }
            if self.budget == 0 {
                self.fail(node, &place.path, OUT_OF_BUDGET.to_owned());
                self.stopped = true;
                return;
            }
            let compiled = match &rule.compiled {
                Ok(compiled) => compiled,
                Err(report) => {
                    self.fail(node, &place.path, format!("rule compile error: {report}"));
                    continue;
                }
            };
            if compiled.uses_old && place.old.is_none() && !rule.optional_old {
                continue;
            }
            self.rule(node, place, rule, compiled);
        }
    }

    fn rule(&mut self, node: &Validator, place: &Place<'_>, rule: &Rule, compiled: &Checked) {
        let mut evaluation = Evaluation::new(scope(node, place, rule), CALL_COST_MAX);
        let result = evaluation.run(&compiled.expr);
        let cost = evaluation.cost;
        if cost > self.budget {
            self.fail(node, &place.path, OUT_OF_BUDGET.to_owned());
            self.stopped = true;
            return;
        }
        self.budget -= cost;
        match result {
            Ok(Value::Bool(true)) => {}
            Ok(Value::Bool(false)) => self.broken(node, place, rule, compiled.uses_old),
            Ok(_) => {
                self.fail(node, &place.path, format!("no such overload evaluating rule: {}", rule.shown()))
            }
            Err(failure) if failure.starts_with("no such overload") => {
                let detail = format!(
                    "'{failure}': call arguments did not match a supported operator, function or macro signature for \
                     rule: {}",
                    rule.shown()
                );
                self.fail(node, &place.path, detail);
            }
            Err(failure) if failure == TOO_EXPENSIVE => {
                let detail = format!(
                    "'{failure}': no further validation rules will be run due to call cost exceeds limit for rule: {}",
                    rule.shown()
                );
                self.fail(node, &place.path, detail);
                self.stopped = true;
            }
            Err(failure) => {
                self.fail(node, &place.path, format!("{failure} evaluating rule: {}", rule.shown()))
            }
        }
    }

    fn broken(&mut self, node: &Validator, place: &Place<'_>, rule: &Rule, uses_old: bool) {
        if !uses_old && place.unchanged() {
            return;
        }
        let mut path = place.path.clone();
        if !rule.field_path.is_empty() {
            path = child(&path, &rule.field_path);
        }
        if path.is_empty() {
            "<nil>".clone_into(&mut path);
        }
        let detail = self.message(node, place, rule).unwrap_or_else(|| {
            if rule.message.is_empty() {
                format!("failed rule: {}", rule.shown())
            } else {
                rule.message.clone()
            }
        });
        let structure = matches!(node.type_name, "object" | "array");
        let value = (!structure).then(|| place.value.clone());
        let kind = match rule.reason.as_deref() {
            Some("FieldValueForbidden") => ErrorKind::Forbidden,
            Some("FieldValueRequired") => ErrorKind::Required,
            Some("FieldValueDuplicate") => ErrorKind::Duplicate,
            _ => ErrorKind::Invalid,
        };
        // A duplicate says which value, not why.
        let detail = if kind == ErrorKind::Duplicate { String::new() } else { detail };
        self.errors.push(FieldError { kind, field: path, bad_value: value, detail });
    }

    /// What the rule's own expression says; none if it says nothing usable.
    fn message(&mut self, node: &Validator, place: &Place<'_>, rule: &Rule) -> Option<String> {
        let (_, compiled) = rule.message_expression.as_ref()?;
        let mut evaluation = Evaluation::new(scope(node, place, rule), CALL_COST_MAX.min(self.budget));
        let result = evaluation.run(&compiled.expr);
        let cost = evaluation.cost;
        self.budget = self.budget.saturating_sub(cost);
        let Ok(Value::Text(text)) = result else { return None };
        let text = text.trim();
        let usable = !text.is_empty() && text.len() <= MESSAGE_BYTES_MAX && !text.contains('\n');
        usable.then(|| text.to_owned())
    }
}

fn scope<'a>(node: &'a Validator, place: &Place<'a>, rule: &Rule) -> Vec<(&'a str, Value<'a>)> {
    let mut variables = vec![("self", Value::of(place.value, &node.ty))];
    let old = place.old.filter(|old| !old.is_null()).map(|old| Value::of(old, &node.ty));
    match (rule.optional_old, old) {
        (true, old) => variables.push(("oldSelf", Value::Optional(old.map(std::rc::Rc::new)))),
        (false, Some(old)) => variables.push(("oldSelf", old)),
        (false, None) => {}
    }
    variables
}

/// Checks a default value by the rules of its schema: as an update of itself, and as a new value.
pub(crate) fn check_default(path: &str, default: &Json, schema: &Schema) -> Vec<FieldError> {
    let Some(validator) = Validator::compile(schema) else { return Vec::new() };
    let as_update = Place {
        path: path.to_owned(),
        value: default,
        old: Some(default),
        // Nothing was there before: nothing is forgiven.
        both: None,
        above: None,
    };
    let mut run = Run { budget: BUDGET, stopped: false, errors: Vec::new() };
    run.walk(&validator, schema, as_update.clone());
    if run.errors.is_empty() {
        run.walk(&validator, schema, Place { old: None, ..as_update });
    }
    run.errors
}
