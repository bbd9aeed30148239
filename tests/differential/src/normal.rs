//! Takes out of an answer what must differ between two servers, and nothing else.
//!
//! UIDs, addresses and generated names become their number in order of appearance, so that two answers still have to name the
//! same object. Resource versions become their number too; those of lists and bookmarks, which other clients' writes move, become
//! a word. Times of this day become a word. Entries of `managedFields` are sorted: upstream orders them by the second.

use crate::server::Raw;
use regex::Regex;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::LazyLock;

static UID: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}").expect("a pattern")
});
static TIME: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"20(?:2[4-9]|[3-9]\d)-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)")
        .expect("a pattern")
});
static ADDRESS: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\b10\.96\.\d+\.\d+\b").expect("a pattern"));
static TOO_OLD: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(too (?:old|large) resource version: )?\b(\d+) ?\((\d+)\)").expect("a pattern")
});
static CURRENT: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"current: \d+").expect("a pattern"));

/// Headers that mean something to a client.
const HEADERS: &[&str] = &["content-type", "warning", "retry-after", "cache-control", "allow"];

/// Remembers what one server called things.
#[derive(Debug, Default)]
pub struct Normalizer {
    names: BTreeMap<&'static str, Vec<String>>,
    generated: Vec<(String, String)>,
}

impl Normalizer {
    /// An answer as it is compared, and as a person reads it.
    pub fn answer(&mut self, raw: &Raw, generate_name: Option<&str>, watch: bool) -> Value {
        let mut headers = Map::new();
        for name in HEADERS {
            let values: Vec<_> = raw
                .headers
                .get_all(*name)
                .iter()
                .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
                .collect();
            if !values.is_empty() {
                headers.insert((*name).to_owned(), json!(values));
            }
        }
        let body = match watch {
            true => {
                raw.body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(parse).collect()
            }
            false => parse(&raw.body),
        };
        if let Some(prefix) = generate_name
            && let Some(name) = body["metadata"]["name"].as_str()
            && name.starts_with(prefix)
            && name.len() > prefix.len()
        {
            self.generated.push((name.to_owned(), format!("{prefix}*{}", self.generated.len())));
        }
        let mut body = self.value("", &body);
        mask_ages(&mut body);
        json!({"status": raw.status, "headers": self.value("", &Value::Object(headers)), "body": body})
    }

    fn value(&mut self, key: &str, value: &Value) -> Value {
        match value {
            Value::Object(fields) => self.object(key, fields),
            Value::Array(items) => {
                let mut items: Vec<Value> = items.iter().map(|item| self.value("", item)).collect();
                if key == "managedFields" {
                    items.sort_by_cached_key(Value::to_string);
                }
                Value::Array(items)
            }
            Value::String(text) => Value::String(self.text(key, text)),
            Value::Number(_) if matches!(key, "nodePort" | "healthCheckNodePort") => json!("NODE PORT"),
            other => other.clone(),
        }
    }

    fn object(&mut self, key: &str, fields: &Map<String, Value>) -> Value {
        let mut out = Map::new();
        let object = key == "metadata" && fields.contains_key("uid");
        for (name, value) in fields {
            let value = match (name.as_str(), value) {
                ("resourceVersion", Value::String(text)) if key == "metadata" => match text.as_str() {
                    "" | "0" => value.clone(),
                    _ if object => json!(self.number("version", text)),
                    _ => json!("VERSION OF A LIST"),
                },
                ("continue", Value::String(_)) if key == "metadata" => json!("CONTINUE"),
                (name, value) => self.value(name, value),
            };
            // A key may hold a UID: `k:{"uid":"…"}` in managed fields.
            out.insert(self.text("", name), value);
        }
        Value::Object(out)
    }

    fn text(&mut self, key: &str, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, stands) in &self.generated {
            text = text.replace(name, stands);
        }
        text = self.number_all("uid", &UID, &text);
        text = self.number_all("address", &ADDRESS, &text);
        if key == "resourceVersion" && self.names.get("version").is_some_and(|known| known.contains(&text)) {
            text = self.number("version", &text);
        }
        let text = TIME.replace_all(&text, "TIME");
        let text = TOO_OLD.replace_all(&text, "${1}REVISION (REVISION)");
        CURRENT.replace_all(&text, "current: REVISION").into_owned()
    }

    fn number_all(&mut self, what: &'static str, pattern: &Regex, text: &str) -> String {
        if !pattern.is_match(text) {
            return text.to_owned();
        }
        let mut out = String::new();
        let mut end = 0;
        for found in pattern.find_iter(text) {
            out.push_str(&text[end..found.start()]);
            out.push_str(&self.number(what, found.as_str()));
            end = found.end();
        }
        out.push_str(&text[end..]);
        out
    }

    fn number(&mut self, what: &'static str, text: &str) -> String {
        let known = self.names.entry(what).or_default();
        let at = known.iter().position(|other| other == text).unwrap_or_else(|| {
            known.push(text.to_owned());
            known.len() - 1
        });
        format!("{what} {at}")
    }
}

fn parse(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes)
        .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(bytes).into_owned()))
}

/// The cells of tables that say how long something is there.
fn mask_ages(body: &mut Value) {
    if let Some(events) = body.as_array_mut() {
        for event in events {
            mask_ages(&mut event["object"]);
        }
        return;
    }
    let Some(columns) = body.get("columnDefinitions").and_then(Value::as_array).cloned() else { return };
    for row in body["rows"].as_array_mut().into_iter().flatten() {
        for (at, column) in columns.iter().enumerate() {
            let age =
                matches!(column["name"].as_str(), Some("Age" | "Created At" | "Last Seen" | "First Seen"));
            if age && row["cells"][at].is_string() {
                row["cells"][at] = json!("AGE");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: Value) -> Value {
        let raw = Raw { status: 200, headers: http::HeaderMap::new(), body: body.to_string().into() };
        Normalizer::default().answer(&raw, None, false)["body"].clone()
    }

    #[test]
    fn the_same_uid_and_version_get_the_same_number() {
        let one = "00000000-0000-0000-0000-000000000001";
        let two = "00000000-0000-0000-0000-000000000002";
        let seen = check(json!({
            "metadata": {"resourceVersion": "99"},
            "items": [
                {"metadata": {"uid": one, "resourceVersion": "7"}},
                {"metadata": {"uid": two, "resourceVersion": "8", "ownerReferences": [{"uid": one}]}},
            ],
        }));
        assert_eq!(seen["metadata"]["resourceVersion"], "VERSION OF A LIST");
        assert_eq!(
            seen["items"][1]["metadata"]["ownerReferences"][0]["uid"],
            seen["items"][0]["metadata"]["uid"]
        );
        assert_ne!(
            seen["items"][1]["metadata"]["resourceVersion"],
            seen["items"][0]["metadata"]["resourceVersion"]
        );
    }

    #[test]
    fn a_time_that_the_client_gave_stays() {
        let seen = check(json!({"a": "2001-02-03T04:05:06Z", "b": "2026-02-03T04:05:06Z"}));
        assert_eq!(seen, json!({"a": "2001-02-03T04:05:06Z", "b": "TIME"}));
    }
}
