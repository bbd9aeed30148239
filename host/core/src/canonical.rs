//! One text for one JSON value: keys sorted, no spaces, whole numbers without a fraction.

use std::fmt::Write as _;

use serde_json::{Number, Value};

/// The canonical text of a JSON text; none where it is not JSON.
pub fn canonical_text(json: &str) -> Option<String> {
    // Most values that fields are matched against are plain strings and numbers.
    let value: Value = serde_json::from_str(json).ok()?;
    Some(canonical(&value))
}

/// The canonical text of a value.
pub fn canonical(value: &Value) -> String {
    let mut out = String::new();
    write_value(&mut out, value);
    out
}

/// Whether two values are the same; `1` and `1.0` are.
pub fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || number(a) == number(b),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        _ => a == b,
    }
}

fn write_value(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(n) => out.push_str(&number(n)),
        Value::String(text) => write_string(out, text),
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_value(out, item);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            // Sorted here: another crate may switch the map to insertion order for all of us.
            let mut keys: Vec<_> = fields.iter().collect();
            keys.sort_unstable_by_key(|(key, _)| *key);
            out.push('{');
            for (at, (key, value)) in keys.into_iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_string(out, key);
                out.push(':');
                write_value(out, value);
            }
            out.push('}');
        }
    }
}

fn write_string(out: &mut String, text: &str) {
    let _ = write!(out, "{}", Value::from(text));
}

/// Past this not every whole number is a float's.
const WHOLE_FLOAT_MAX: f64 = 9_007_199_254_740_992.0;

fn number(number: &Number) -> String {
    match number.as_f64() {
        Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() <= WHOLE_FLOAT_MAX => {
            format!("{float:.0}")
        }
        _ => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_has_one_text() {
        for (given, text) in [
            (r#"{"b": 1.0, "a": [true, null, "x\u0041"]}"#, r#"{"a":[true,null,"xA"],"b":1}"#),
            ("  2.50 ", "2.5"),
            ("-0.0", "-0"),
            (r#""ä\n""#, r#""ä\n""#),
            ("{}", "{}"),
        ] {
            assert_eq!(canonical_text(given).as_deref(), Some(text), "{given}");
        }
        assert_eq!(canonical_text("{"), None);
    }

    #[test]
    fn a_whole_float_is_the_same_as_the_integer_and_no_other_number_is() {
        let same = |a: &str, b: &str| {
            same(&serde_json::from_str(a).expect("JSON"), &serde_json::from_str(b).expect("JSON"))
        };
        assert!(same(r#"{"a":[1]}"#, r#"{"a":[1.0]}"#));
        assert!(!same("1", "1.5"));
        assert!(!same(r#"{"a":1}"#, r#"{"a":1,"b":null}"#));
        assert!(!same("1", "\"1\""));
    }
}
