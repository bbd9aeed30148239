//! Printer columns of custom kinds.

use jiff::Timestamp;
use serde_json::{Number, Value};

use super::jsonpath::JsonPath;

/// A column of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its heading.
    pub name: String,
    /// `integer`, `number`, `string`, `boolean` or `date`.
    pub kind: String,
    /// OpenAPI format, or nothing.
    pub format: String,
    /// For `kubectl get -o wide` to explain.
    pub description: String,
    /// Above zero only with `-o wide`.
    pub priority: i64,
    path: Option<JsonPath>,
}

impl Column {
    /// Reads an entry of `additionalPrinterColumns`. A path that cannot be read finds nothing.
    pub fn parse(raw: &Value) -> Column {
        let text = |field: &str| raw.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        Column {
            name: text("name"),
            kind: text("type"),
            format: text("format"),
            description: match text("description") {
                empty if empty.is_empty() => {
                    format!("Custom resource definition column (in JSONPath format): {}", text("jsonPath"))
                }
                description => description,
            },
            priority: raw.get("priority").and_then(Value::as_i64).unwrap_or_default(),
            path: JsonPath::parse(&text("jsonPath")).ok(),
        }
    }

    /// The column that a kind without columns of its own has.
    pub fn age() -> Column {
        Column {
            name: "Age".to_owned(),
            kind: "date".to_owned(),
            format: String::new(),
            description: "CreationTimestamp is a timestamp representing the server time when this object was created. \
                          It is not guaranteed to be set in happens-before order across separate operations. Clients \
                          may not set this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the \
                          system. Read-only. Null for lists. More info: \
                          https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata"
                .to_owned(),
            priority: 0,
            path: JsonPath::parse(".metadata.creationTimestamp").ok(),
        }
    }

    /// The cell of an object. Null where the path finds nothing, or nothing of the column's type.
    pub fn cell(&self, object: &Value, now: Timestamp) -> Value {
        let found = self.path.as_ref().map(|path| path.find(object)).unwrap_or_default();
        if self.kind == "string" {
            if found.is_empty() {
                return Value::Null;
            }
            // Several results stand beside each other, as in kubectl's own JSONPath printer.
            let texts: Vec<String> = found.into_iter().map(printed).collect();
            return Value::String(texts.join(" "));
        }
        let Some(value) = found.into_iter().next() else { return Value::Null };
        match (self.kind.as_str(), value) {
            ("integer", Value::Number(number)) => whole(number),
            ("number", Value::Number(number)) => {
                number.as_f64().and_then(Number::from_f64).map_or(Value::Null, Value::Number)
            }
            ("boolean", Value::Bool(_)) => value.clone(),
            ("date", Value::String(text)) => match text.parse::<Timestamp>() {
                Ok(then) => Value::String(human_duration(now.as_second() - then.as_second())),
                Err(_) => Value::String("<invalid>".to_owned()),
            },
            _ => Value::Null,
        }
    }
}

#[allow(clippy::cast_possible_truncation)] // As Go's conversion.
fn whole(number: &Number) -> Value {
    number.as_i64().or_else(|| number.as_f64().map(|float| float as i64)).map_or(Value::Null, Value::from)
}

/// A value as kubectl's JSONPath prints it.
fn printed(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// A duration as `kubectl get` shows it: the two largest units where that says more, at most three figures.
pub fn human_duration(seconds: i64) -> String {
    if seconds < -1 {
        return "<invalid>".to_owned();
    }
    if seconds < 0 {
        return "0s".to_owned();
    }
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let (days, years) = (hours / 24, hours / 24 / 365);
    let both = |large: i64, unit: char, small: i64, small_unit: char| {
        if small == 0 { format!("{large}{unit}") } else { format!("{large}{unit}{small}{small_unit}") }
    };
    if seconds < 120 {
        format!("{seconds}s")
    } else if minutes < 10 {
        both(minutes, 'm', seconds % 60, 's')
    } else if minutes < 180 {
        format!("{minutes}m")
    } else if hours < 8 {
        both(hours, 'h', minutes % 60, 'm')
    } else if hours < 48 {
        format!("{hours}h")
    } else if hours < 192 {
        both(days, 'd', hours % 24, 'h')
    } else if days < 365 * 2 {
        format!("{days}d")
    } else if days < 365 * 8 {
        both(years, 'y', days % 365, 'd')
    } else {
        format!("{years}y")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use serde_json::json;

    #[test]
    fn cells_have_the_type_of_their_column() {
        let object = json!({
            "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"cpu": 2, "size": 1.5, "on": true, "name": "a", "list": ["x", "y"]},
        });
        let now: Timestamp = "2026-01-01T00:05:07Z".parse().expect("a time");
        let cell = |kind: &str, path: &str| {
            Column::parse(&json!({"name": "N", "type": kind, "jsonPath": path}))
                .cell(&object, now)
                .to_string()
        };
        let cells = [
            cell("integer", ".spec.cpu"),
            cell("number", ".spec.size"),
            cell("boolean", ".spec.on"),
            cell("string", ".spec.name"),
            cell("string", ".spec.list[*]"),
            cell("string", ".spec.cpu"),
            cell("string", ".spec.none"),
            cell("integer", ".spec.name"),
            Column::age().cell(&object, now).to_string(),
        ];
        expect![[r#"2 1.5 true "a" "x y" "2" null null "5m7s""#]].assert_eq(&cells.join(" "));
    }

    #[test]
    fn ages_are_short() {
        let texts: Vec<String> =
            [-5, 0, 119, 120, 599, 600, 10799, 10800, 28800, 172_800, 691_200, 63_072_000, 300_000_000]
                .into_iter()
                .map(human_duration)
                .collect();
        expect!["<invalid> 0s 119s 2m 9m59s 10m 179m 3h 8h 2d 8d 2y 9y"].assert_eq(&texts.join(" "));
    }
}
