//! Values against their schema, with the checks, their order and their words as in kube-openapi's validator.

use serde_json::{Map, Value};

use super::correlate::Correlated;
use super::field_error::{ErrorKind, FieldError, float_text, quote};
use super::formats;
use super::structural::{Additional, JsonType, Link, Schema};

/// What a schema says of a value.
#[derive(Default)]
struct Outcome {
    errors: Vec<FieldError>,
    /// How many checks passed: of several alternatives, the one that came furthest tells its errors.
    matches: usize,
}

impl Outcome {
    fn merge(&mut self, other: Outcome) {
        self.errors.extend(other.errors);
        self.matches += other.matches;
    }

    fn is_valid(&self) -> bool {
        self.errors.is_empty()
    }
}

/// Checks a value. `base` stands before the paths of errors; the texts are relative to the value.
pub(crate) fn check(base: &str, value: &Value, schema: &Schema) -> Vec<FieldError> {
    finish(base, validate("", value, schema, None))
}

/// Checks the new value of an update: what it did not change is not held against it.
pub(crate) fn check_update(base: &str, new: &Value, old: &Value, schema: &Schema) -> Vec<FieldError> {
    let both = Correlated::new(new, old, schema);
    finish(base, validate("", new, schema, Some(&both)))
}

fn finish(base: &str, outcome: Outcome) -> Vec<FieldError> {
    let mut errors = outcome.errors;
    for error in &mut errors {
        let field = error.field.trim_start_matches('.');
        error.field = match (base.is_empty(), field.is_empty()) {
            (true, true) => "<nil>".to_owned(),
            (true, false) => field.to_owned(),
            (false, true) => base.to_owned(),
            (false, false) => format!("{base}.{field}"),
        };
    }
    errors
}

fn validate(path: &str, value: &Value, schema: &Schema, both: Option<&Correlated<'_>>) -> Outcome {
    let outcome = validate_strictly(path, value, schema, both);
    match both {
        Some(both) if !outcome.is_valid() && both.unchanged() => {
            Outcome { errors: Vec::new(), matches: outcome.matches }
        }
        _ => outcome,
    }
}

fn validate_strictly(path: &str, value: &Value, schema: &Schema, both: Option<&Correlated<'_>>) -> Outcome {
    let mut outcome = Outcome::default();
    let step = |outcome: &mut Outcome, part: Outcome| {
        outcome.merge(part);
        outcome.matches += 1;
    };
    if value.is_null() {
        outcome.merge(check_type(path, value, schema));
        outcome.merge(check_enum(path, value, schema));
        return outcome;
    }
    let format = schema.format.as_deref().and_then(formats::supported);
    if schema.ty.is_some() || schema.int_or_string || format.is_some() {
        step(&mut outcome, check_type(path, value, schema));
    }
    step(&mut outcome, check_junctors(path, value, schema, both));
    if let Value::String(text) = value {
        step(&mut outcome, check_text(path, text, schema));
        if let Some(format) = format {
            step(&mut outcome, check_format(path, text, format));
        }
    }
    if value.is_number() {
        step(&mut outcome, check_number(path, value, schema));
    }
    if let Value::Array(items) = value {
        step(&mut outcome, check_items(path, items, schema, both));
    }
    step(&mut outcome, check_enum(path, value, schema));
    if let Value::Object(fields) = value {
        step(&mut outcome, check_fields(path, fields, schema, both));
    }
    outcome.matches += 1;
    outcome
}

fn one(error: FieldError) -> Outcome {
    Outcome { errors: vec![error], matches: 0 }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn wrong_type(path: &str, wanted: &str, found: &str) -> Outcome {
    let detail = format!("{path} in body must be of type {wanted}: {}", quote(found));
    one(FieldError::type_invalid(path, found, detail))
}

fn check_type(path: &str, value: &Value, schema: &Schema) -> Outcome {
    let passed = Outcome { errors: Vec::new(), matches: 1 };
    let wanted: Vec<JsonType> = match (schema.int_or_string, schema.ty) {
        (true, _) => vec![JsonType::Integer, JsonType::String],
        (false, Some(ty)) => vec![ty],
        (false, None) => Vec::new(),
    };
    let names = wanted.iter().map(|ty| ty.name()).collect::<Vec<_>>().join(",");
    if value.is_null() {
        let fine = wanted.is_empty() || schema.nullable;
        return if fine { passed } else { wrong_type(path, &names, "null") };
    }
    let numeric = wanted.iter().any(|ty| matches!(ty, JsonType::Integer | JsonType::Number));
    let format = schema.format.as_deref().and_then(formats::supported);
    if format.is_some() && !numeric && (value.is_string() || value.is_array()) {
        return passed;
    }
    let found = type_name(value);
    let whole =
        value.as_f64().is_some_and(|float| float.fract() == 0.0 && float.abs() < 9_007_199_254_740_992.0);
    let fits = wanted.iter().any(|ty| match ty {
        JsonType::Integer => found == "integer" || (found == "number" && whole),
        JsonType::Number => found == "integer" || found == "number",
        other => other.name() == found,
    });
    if fits || (wanted.is_empty() && format.is_none()) { passed } else { wrong_type(path, &names, found) }
}

fn check_enum(path: &str, value: &Value, schema: &Schema) -> Outcome {
    let allowed = &schema.rules.enumeration;
    if allowed.is_empty() || allowed.iter().any(|one| same(one, value)) {
        return Outcome::default();
    }
    let texts: Vec<String> =
        allowed.iter().map(|one| one.as_str().map_or_else(|| one.to_string(), str::to_owned)).collect();
    one(FieldError::not_supported(path, value.clone(), &texts))
}

/// Equal, where 1 and 1.0 are.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (a, b) => a == b,
    }
}

fn check_text(path: &str, text: &str, schema: &Schema) -> Outcome {
    let rules = &schema.rules;
    let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    if let Some(max) = rules.max_length.filter(|max| length > *max) {
        return one(FieldError::too_long(path, max));
    }
    if let Some(min) = rules.min_length.filter(|min| length < *min) {
        let detail = format!("{path} in body should be at least {min} chars long");
        return one(FieldError::invalid(path, text, detail));
    }
    match &rules.pattern {
        Some((pattern, Some(regex))) if !regex.is_match(text) => {
            one(FieldError::invalid(path, text, format!("{path} in body should match '{pattern}'")))
        }
        _ => Outcome::default(),
    }
}

fn check_format(path: &str, text: &str, format: formats::Format) -> Outcome {
    if format.accepts(text) {
        return Outcome::default();
    }
    let detail = format!("{path} in body must be of type {}: {}", format.name(), quote(text));
    one(FieldError::type_invalid(path, text, detail))
}

fn check_number(path: &str, value: &Value, schema: &Schema) -> Outcome {
    let mut outcome = Outcome { errors: Vec::new(), matches: 1 };
    let rules = &schema.rules;
    let int = value.as_i64();
    let float = value.as_f64().unwrap_or_default();
    let shown = |limit: f64| match int {
        // The real server cuts the limit to a whole number before it compares whole numbers.
        Some(_) => format!("{}", limit.trunc()),
        None => float_text(limit),
    };
    // Whole numbers are held against a whole factor, which may be nothing then.
    let factor = rules.multiple_of.map(|factor| if int.is_some() { factor.trunc() } else { factor });
    if let Some(factor) = factor.filter(|factor| *factor <= 0.0) {
        let detail = format!("factor MultipleOf declared for {path} must be positive: {factor}");
        outcome.errors.push(FieldError::invalid(path, 0, detail));
    }
    let mut fail = |words: &str, limit: f64| {
        let detail = format!("{path} in body should be {words} {}", shown(limit));
        outcome.errors.push(FieldError::invalid(path, value.clone(), detail));
    };
    #[allow(clippy::cast_possible_truncation)] // As the real server does it.
    let order = |limit: f64| match int {
        Some(int) => int.partial_cmp(&(limit as i64)),
        None => float.partial_cmp(&limit),
    };
    if let Some(factor) = factor.filter(|factor| *factor > 0.0) {
        let quotient = if factor < 1.0 && int.is_none() {
            1.0 / factor * float
        } else {
            float / factor.max(f64::MIN_POSITIVE)
        };
        if (quotient - quotient.round()).abs() > 1e-9 {
            fail("a multiple of", factor);
        }
    }
    if let Some(min) = rules.minimum {
        match order(min) {
            Some(std::cmp::Ordering::Less) => {
                fail(if rules.exclusive_minimum { "greater than" } else { "greater than or equal to" }, min);
            }
            Some(std::cmp::Ordering::Equal) if rules.exclusive_minimum => fail("greater than", min),
            _ => {}
        }
    }
    if let Some(max) = rules.maximum {
        match order(max) {
            Some(std::cmp::Ordering::Greater) => {
                fail(if rules.exclusive_maximum { "less than" } else { "less than or equal to" }, max);
            }
            Some(std::cmp::Ordering::Equal) if rules.exclusive_maximum => fail("less than", max),
            _ => {}
        }
    }
    outcome
}

fn check_items(path: &str, items: &[Value], schema: &Schema, both: Option<&Correlated<'_>>) -> Outcome {
    let mut outcome = Outcome::default();
    if let Some(item_schema) = schema.item() {
        for (index, item) in items.iter().enumerate() {
            let child = both.and_then(|both| both.index(index));
            outcome.merge(validate(&format!("{path}[{index}]"), item, item_schema, child.as_ref()));
        }
    }
    let size = i64::try_from(items.len()).unwrap_or(i64::MAX);
    if let Some(min) = schema.rules.min_items.filter(|min| size < *min) {
        let detail = format!("{path} in body should have at least {min} items");
        outcome.errors.push(FieldError::invalid(path, size, detail));
    }
    if let Some(max) = schema.rules.max_items.filter(|max| size > *max) {
        outcome.errors.push(FieldError::too_many(path, size, max));
    }
    if schema.rules.unique_items && (1..items.len()).any(|index| items[..index].contains(&items[index])) {
        let detail = format!("{path} in body shouldn't contain duplicates");
        outcome.errors.push(FieldError::invalid(path, "", detail));
    }
    outcome.matches += 1;
    outcome
}

fn check_fields(
    path: &str,
    fields: &Map<String, Value>,
    schema: &Schema,
    both: Option<&Correlated<'_>>,
) -> Outcome {
    let mut outcome = Outcome::default();
    let size = i64::try_from(fields.len()).unwrap_or(i64::MAX);
    if let Some(min) = schema.rules.min_properties.filter(|min| size < *min) {
        let detail = format!("{path} in body should have at least {min} properties");
        outcome.errors.push(FieldError::invalid(path, size, detail));
    }
    if let Some(max) = schema.rules.max_properties.filter(|max| size > *max) {
        outcome.errors.push(FieldError::too_many(path, size, max));
    }
    let child = |key: &str| match both {
        // Both versions are converted to one, so a change of these could not be seen.
        Some(_) if path.is_empty() && (key == "kind" || key == "apiVersion") => None,
        both => both.and_then(|both| both.key(key)),
    };
    for (key, value) in fields {
        if schema.properties.contains_key(key) {
            continue;
        }
        match &schema.additional {
            Additional::Allowed(false) => {
                let detail = format!("{path}.{key} in body is a forbidden property");
                outcome.errors.push(FieldError::invalid(path, key.as_str(), detail));
            }
            Additional::Schema(link) => {
                outcome.merge(validate(&format!("{path}.{key}"), value, link, child(key).as_ref()));
            }
            Additional::Unset | Additional::Allowed(true) => {}
        }
    }
    for (name, property) in &schema.properties {
        if let Some(value) = fields.get(name) {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            outcome.merge(validate(&path, value, property, child(name).as_ref()));
        }
    }
    for name in schema.rules.required.iter().filter(|name| !fields.contains_key(*name)) {
        outcome.errors.push(FieldError::required(format!("{path}.{name}"), ""));
    }
    outcome
}

fn check_junctors(path: &str, value: &Value, schema: &Schema, both: Option<&Correlated<'_>>) -> Outcome {
    let mut outcome = Outcome::default();
    let plain = |text: String| FieldError {
        kind: ErrorKind::Invalid,
        field: String::new(),
        bad_value: Some(Value::from("")),
        detail: text,
    };
    // The junctors look at the same value; only what is below them can be told apart from before.
    let under = |link: &Link| validate_strictly(path, value, link, both);
    if !schema.any_of.is_empty() {
        outcome.merge(any_of(&schema.any_of, &under, || {
            plain(format!("{} must validate at least one schema (anyOf)", quote(path)))
        }));
    }
    if !schema.one_of.is_empty() {
        let results: Vec<Outcome> = schema.one_of.iter().map(under).collect();
        let valid = results.iter().filter(|result| result.is_valid()).count();
        if valid == 1 {
            results.into_iter().filter(Outcome::is_valid).for_each(|result| outcome.merge(result));
        } else {
            let found = match valid {
                0 => "Found none valid".to_owned(),
                several => format!("Found {several} valid alternatives"),
            };
            let text = format!("{} must validate one and only one schema (oneOf). {found}", quote(path));
            outcome.errors.push(plain(text));
            if valid == 0 {
                best(results).into_iter().for_each(|result| outcome.merge(result));
            }
        }
    }
    if !schema.all_of.is_empty() {
        let results: Vec<Outcome> = schema.all_of.iter().map(under).collect();
        let valid = results.iter().filter(|result| result.is_valid()).count();
        let (all, none) = (valid == results.len(), valid == 0);
        results.into_iter().for_each(|result| outcome.merge(result));
        if !all {
            let none = if none { ". None validated" } else { "" };
            outcome
                .errors
                .push(plain(format!("{} must validate all the schemas (allOf){none}", quote(path))));
        }
    }
    if schema.not.as_ref().is_some_and(|not| under(not).is_valid()) {
        outcome.errors.push(plain(format!("{} must not validate the schema (not)", quote(path))));
    }
    outcome.matches += 1;
    outcome
}

fn any_of(links: &[Link], under: &dyn Fn(&Link) -> Outcome, message: impl FnOnce() -> FieldError) -> Outcome {
    let mut results = Vec::new();
    for link in links {
        let result = under(link);
        if result.is_valid() {
            return result;
        }
        results.push(result);
    }
    let mut outcome = one(message());
    best(results).into_iter().for_each(|result| outcome.merge(result));
    outcome
}

/// The first of those that passed most checks.
fn best(results: Vec<Outcome>) -> Option<Outcome> {
    results.into_iter().reduce(|best, next| if next.matches > best.matches { next } else { best })
}
