//! Reads JSON and YAML, and notices fields that occur twice.

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::cell::RefCell;

/// Parses JSON. The second part has a sentence for each field that occurs twice; the last one counts.
pub(crate) fn parse(bytes: &[u8]) -> Result<(Value, Vec<String>), String> {
    let duplicates = RefCell::new(Vec::new());
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let seed = Seed { path: Path::Root, duplicates: &duplicates };
    let value = seed.deserialize(&mut deserializer).map_err(|error| words(bytes, &error))?;
    deserializer.end().map_err(|error| words(bytes, &error))?;
    Ok((value, duplicates.into_inner()))
}

/// Parses YAML, of which JSON is a part.
pub(crate) fn parse_yaml(bytes: &[u8]) -> Result<(Value, Vec<String>), String> {
    let text = std::str::from_utf8(bytes).map_err(|error| format!("yaml: {error}"))?;
    // As the API server reads YAML: `defaultMode: 0644`.
    let options = serde_saphyr::options! { legacy_octal_numbers: true };
    let mut value: Value =
        serde_saphyr::from_str_with_options(text, options).map_err(|error| format!("yaml: {error}"))?;
    whole_numbers(&mut value);
    Ok((value, Vec::new()))
}

/// Writes whole numbers without a fraction, as Go does however they were read.
pub(crate) fn whole_numbers(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            let float = number.as_f64().unwrap_or_default();
            #[allow(clippy::cast_possible_truncation)] // Whole, and small enough to be exact.
            if float.fract() == 0.0 && float.abs() < WHOLE_MAX {
                *value = Value::from(float as i64);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Object(fields) => fields.values_mut().for_each(whole_numbers),
        _ => {}
    }
}

/// The sentence of Go's decoder, as near as the position allows.
fn words(bytes: &[u8], error: &serde_json::Error) -> String {
    if bytes.iter().all(u8::is_ascii_whitespace) || error.is_eof() {
        return "unexpected end of JSON input".to_owned();
    }
    let line = bytes.split(|byte| *byte == b'\n').nth(error.line().saturating_sub(1)).unwrap_or_default();
    let at = line.get(error.column().saturating_sub(1)).copied().unwrap_or(b' ');
    format!(
        "invalid character '{}' {}",
        char::from(at),
        if error.column() <= 1 { "looking for beginning of value" } else { "in JSON" }
    )
}

/// The type of a value as Go's decoder names it.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The value as Go prints it.
pub(crate) fn go_value(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".into(),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(go_value).collect::<Vec<_>>().join(" ")),
        Value::Object(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|(key, value)| format!("{key}:{}", go_value(value))).collect();
            format!("map[{}]", fields.join(" "))
        }
        other => other.to_string(),
    }
}

/// Where a value is; spelled out only where something is wrong with it.
#[derive(Clone, Copy)]
enum Path<'a> {
    Root,
    Field(&'a Path<'a>, &'a str),
    Item(&'a Path<'a>, usize),
}

impl std::fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Path::Root => Ok(()),
            Path::Field(Path::Root, name) => f.write_str(name),
            Path::Field(parent, name) => write!(f, "{parent}.{name}"),
            Path::Item(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

/// Past this a whole number has no exact place among floating-point numbers.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

struct Seed<'a> {
    path: Path<'a>,
    duplicates: &'a RefCell<Vec<String>>,
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        loop {
            let seed = Seed { path: Path::Item(&self.path, list.len()), duplicates: self.duplicates };
            match access.next_element_seed(seed)? {
                Some(item) => list.push(item),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            let path = Path::Field(&self.path, &key);
            let value = access.next_value_seed(Seed { path, duplicates: self.duplicates })?;
            if fields.contains_key(&key) {
                self.duplicates.borrow_mut().push(format!("duplicate field \"{path}\""));
            }
            fields.insert(key, value);
        }
        Ok(Value::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_occurs_twice_is_told_with_its_path_and_the_last_counts() {
        let (value, duplicates) = parse(br#"{"a": [{"b": 1, "b": 2}], "c": 1.5}"#).unwrap();
        assert_eq!(value, serde_json::json!({"a": [{"b": 2}], "c": 1.5}));
        assert_eq!(duplicates, ["duplicate field \"a[0].b\""]);
    }

    #[test]
    fn a_whole_number_keeps_its_fraction_until_it_is_written() {
        let (mut value, _) = parse(br#"{"a": [1.0, 1.5, 2]}"#).unwrap();
        assert!(value["a"][0].is_f64());
        whole_numbers(&mut value);
        assert_eq!(value, serde_json::json!({"a": [1, 1.5, 2]}));
    }

    #[test]
    fn broken_text_is_refused() {
        assert_eq!(parse(b"{\"a\":").unwrap_err(), "unexpected end of JSON input");
        assert_eq!(parse(b"x").unwrap_err(), "invalid character 'x' looking for beginning of value");
    }
}
