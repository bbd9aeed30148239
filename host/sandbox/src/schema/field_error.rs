//! Validation errors: what is wrong with which field, in the API server's words.

use serde_json::{Number, Value};

/// One thing that is wrong with one field of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    /// What sort of mistake it is.
    pub kind: ErrorKind,
    /// Path of the field, as in `spec.ports[0].port`; `<nil>` stands for the whole object.
    pub field: String,
    /// The value found there, where the message shows it.
    pub bad_value: Option<Value>,
    /// What is expected instead.
    pub detail: String,
}

/// The sorts of mistakes that the API server tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ErrorKind {
    /// Something that the field names does not exist.
    NotFound,
    /// The field must be there.
    Required,
    /// The value is in use already.
    Duplicate,
    /// The value is not as it must be.
    Invalid,
    /// The value is not one of a closed set.
    NotSupported,
    /// The field may not be set or changed.
    Forbidden,
    /// Too many characters.
    TooLong,
    /// Too many items.
    TooMany,
    /// The server itself failed.
    Internal,
    /// The value is of another JSON type.
    TypeInvalid,
}

/// A validation error as the `Status` of an answer tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// For programs, as in `FieldValueInvalid`.
    pub reason: &'static str,
    /// For people; without the field.
    pub message: String,
    /// Path of the field.
    pub field: String,
}

impl ErrorKind {
    fn reason(self) -> &'static str {
        match self {
            ErrorKind::NotFound => "FieldValueNotFound",
            ErrorKind::Required => "FieldValueRequired",
            ErrorKind::Duplicate => "FieldValueDuplicate",
            ErrorKind::Invalid => "FieldValueInvalid",
            ErrorKind::NotSupported => "FieldValueNotSupported",
            ErrorKind::Forbidden => "FieldValueForbidden",
            ErrorKind::TooLong => "FieldValueTooLong",
            ErrorKind::TooMany => "FieldValueTooMany",
            ErrorKind::Internal => "InternalError",
            ErrorKind::TypeInvalid => "FieldValueTypeInvalid",
        }
    }

    fn words(self) -> &'static str {
        match self {
            ErrorKind::NotFound => "Not found",
            ErrorKind::Required => "Required value",
            ErrorKind::Duplicate => "Duplicate value",
            ErrorKind::Invalid | ErrorKind::TypeInvalid => "Invalid value",
            ErrorKind::NotSupported => "Unsupported value",
            ErrorKind::Forbidden => "Forbidden",
            ErrorKind::TooLong => "Too long",
            ErrorKind::TooMany => "Too many",
            ErrorKind::Internal => "Internal error",
        }
    }
}

impl FieldError {
    fn new(kind: ErrorKind, field: impl Into<String>, bad: Option<Value>, detail: impl Into<String>) -> Self {
        FieldError { kind, field: field.into(), bad_value: bad, detail: detail.into() }
    }

    /// The value is not as it must be.
    pub fn invalid(field: impl Into<String>, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, field, Some(value.into()), detail)
    }

    /// The value is of another JSON type.
    pub fn type_invalid(
        field: impl Into<String>,
        value: impl Into<Value>,
        detail: impl Into<String>,
    ) -> Self {
        Self::new(ErrorKind::TypeInvalid, field, Some(value.into()), detail)
    }

    /// The field must be there.
    pub fn required(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::Required, field, None, detail)
    }

    /// The value is in use already.
    pub fn duplicate(field: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::new(ErrorKind::Duplicate, field, Some(value.into()), "")
    }

    /// What the field names does not exist.
    pub fn not_found(field: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::new(ErrorKind::NotFound, field, Some(value.into()), "")
    }

    /// The field may not be set or changed.
    pub fn forbidden(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::Forbidden, field, None, detail)
    }

    /// The value is not one of `supported`; `field.NotSupported` sorts neither, so the caller's order is shown.
    pub fn not_supported<S: AsRef<str>>(
        field: impl Into<String>,
        value: impl Into<Value>,
        supported: &[S],
    ) -> Self {
        let quoted: Vec<String> = supported.iter().map(|one| quote(one.as_ref())).collect();
        let detail = if quoted.is_empty() {
            String::new()
        } else {
            format!("supported values: {}", quoted.join(", "))
        };
        Self::new(ErrorKind::NotSupported, field, Some(value.into()), detail)
    }

    /// More than `max` bytes of text.
    pub fn too_long(field: impl Into<String>, max: i64) -> Self {
        let detail = if max >= 0 {
            format!("may not be more than {max} {}", if max == 1 { "byte" } else { "bytes" })
        } else {
            "value is too long".to_owned()
        };
        Self::new(ErrorKind::TooLong, field, None, detail)
    }

    /// More than `max` items, where `actual` were given.
    pub fn too_many(field: impl Into<String>, actual: i64, max: i64) -> Self {
        let detail = if max >= 0 {
            format!("must have at most {max} {}", if max == 1 { "item" } else { "items" })
        } else {
            "has too many items".to_owned()
        };
        Self::new(ErrorKind::TooMany, field, (actual >= 0).then(|| Value::from(actual)), detail)
    }

    /// The server failed.
    pub fn internal(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, field, None, detail)
    }

    /// The message without the field.
    pub fn body(&self) -> String {
        let words = self.kind.words();
        let mut text = match (self.kind, &self.bad_value) {
            (ErrorKind::Required | ErrorKind::Forbidden | ErrorKind::TooLong | ErrorKind::Internal, _)
            | (_, None) => words.to_owned(),
            (_, Some(value)) => format!("{words}: {}", shown(value)),
        };
        if !self.detail.is_empty() {
            text.push_str(": ");
            text.push_str(&self.detail);
        }
        text
    }

    /// The error as an item of `status.details.causes`.
    pub fn cause(&self) -> Cause {
        Cause { reason: self.kind.reason(), message: self.body(), field: self.field.clone() }
    }
}

impl std::fmt::Display for FieldError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}

/// What stands after `X "name" is invalid: `: one error as it is, several in brackets, each text once.
pub fn aggregate(errors: &[FieldError]) -> String {
    let mut texts: Vec<String> = Vec::new();
    for error in errors {
        let text = error.to_string();
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    match texts.as_slice() {
        [] => "<nil>".to_owned(),
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}

/// A value as `field.Error` prints it: text in quotes, numbers as they are, the rest as JSON.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::String(text) => quote(text),
        Value::Number(number) => number_text(number),
        other => go_json(other),
    }
}

/// JSON as Go's encoder writes it: keys sorted, and `<`, `>`, `&` escaped.
pub(crate) fn go_json(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let sorted: std::collections::BTreeMap<&String, &Value> = fields.iter().collect();
            let fields: Vec<String> = sorted
                .into_iter()
                .map(|(key, value)| format!("{}:{}", go_json(&Value::from(key.as_str())), go_json(value)))
                .collect();
            format!("{{{}}}", fields.join(","))
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go_json).collect();
            format!("[{}]", items.join(","))
        }
        Value::String(_) => {
            value.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
        }
        Value::Number(number) => number_text(number),
        Value::Null | Value::Bool(_) => value.to_string(),
    }
}

/// A number as Go's `%v` prints it.
pub(crate) fn number_text(number: &Number) -> String {
    if let Some(int) = number.as_i64() {
        return int.to_string();
    }
    number.as_f64().map_or_else(|| number.to_string(), float_text)
}

/// A float as Go's `%v` (which is `%g` with the shortest digits) prints it.
pub(crate) fn float_text(float: f64) -> String {
    if float == 0.0 {
        return "0".to_owned();
    }
    let exponent = float.abs().log10().floor();
    if (-4.0..21.0).contains(&exponent) {
        return format!("{float}");
    }
    let text = format!("{float:e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, digits) = match exponent.strip_prefix('-') {
        Some(digits) => ('-', digits),
        None => ('+', exponent),
    };
    format!("{mantissa}e{sign}{digits:0>2}")
}

/// Text in double quotes as Go's `%q` writes it.
pub(crate) fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            c if (c as u32) < 0x20 || c as u32 == 0x7f => out.push_str(&format!("\\x{:02x}", c as u32)),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use serde_json::json;

    #[test]
    fn each_sort_of_error_reads_as_the_real_servers() {
        let errors = [
            FieldError::invalid("spec.cpu", 0, "spec.cpu in body should be greater than or equal to 1"),
            FieldError::required("spec.namespace", ""),
            FieldError::not_supported("spec.powerState", "on", &["On", "Off"]),
            FieldError::duplicate("spec.list[1]", json!({"name": "a"})),
            FieldError::forbidden("metadata.name", "no"),
            FieldError::too_long("spec.s", 3),
            FieldError::too_many("spec.l", 4, 3),
            FieldError::invalid("spec.f", 1.5, "x"),
            FieldError::invalid("spec.f", 1e30, "x"),
        ];
        let text: Vec<String> = errors.iter().map(ToString::to_string).collect();
        expect![[r#"
            spec.cpu: Invalid value: 0: spec.cpu in body should be greater than or equal to 1
            spec.namespace: Required value
            spec.powerState: Unsupported value: "on": supported values: "On", "Off"
            spec.list[1]: Duplicate value: {"name":"a"}
            metadata.name: Forbidden: no
            spec.s: Too long: may not be more than 3 bytes
            spec.l: Too many: 4: must have at most 3 items
            spec.f: Invalid value: 1.5: x
            spec.f: Invalid value: 1e+30: x"#]]
        .assert_eq(&text.join("\n"));
    }

    #[test]
    fn equal_texts_are_told_once() {
        let one = FieldError::required("a", "");
        let two = FieldError::required("b", "");
        assert_eq!(aggregate(&[one.clone(), one.clone()]), "a: Required value");
        assert_eq!(aggregate(&[one, two]), "[a: Required value, b: Required value]");
    }
}
