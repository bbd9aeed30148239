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
static NODE_PORT: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r":3\d{4}/(TCP|UDP|SCTP)").expect("a pattern"));
static AGE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^(\d+[dhms])+$").expect("a pattern"));
static RECORD: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(in the precondition|in record) \(\d+\)").expect("a pattern"));
static CURRENT: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"current: \d+").expect("a pattern"));

/// Headers that mean something to a client.
const HEADERS: &[&str] = &["content-type", "warning", "retry-after", "cache-control", "allow"];

/// Remembers what one server called things.
#[derive(Debug, Default)]
pub struct Normalizer {
    names: BTreeMap<&'static str, Vec<String>>,
    /// What the names look like that this server made.
    generated: Vec<Regex>,
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
            let mut values: Vec<String> = values.iter().map(|value| sort_faults(value)).collect();
            values.sort();
            if !values.is_empty() {
                headers.insert((*name).to_owned(), json!(values));
            }
        }
        let body = match watch {
            true => timeless(
                raw.body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(parse).collect(),
            ),
            false => parse(&raw.body),
        };
        if let Some(prefix) = generate_name
            && let Ok(pattern) =
                Regex::new(&format!("{}[bcdfghjklmnpqrstvwxz2456789]{{5}}", regex::escape(prefix)))
        {
            self.generated.push(pattern);
        }
        let mut body = self.value("", &body);
        sort_resources(&mut body);
        mask_tables(&mut body);
        sort_causes(&mut body);
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
                ("continue", Value::String(text)) if key == "metadata" && !text.is_empty() => {
                    json!("CONTINUE")
                }
                (name, value) => self.value(name, value),
            };
            // A key may hold a UID: `k:{"uid":"…"}` in managed fields.
            out.insert(self.text("", name), value);
        }
        Value::Object(out)
    }

    fn text(&mut self, key: &str, text: &str) -> String {
        let mut text = with_sorted_json(text);
        for pattern in self.generated.clone() {
            text = self.number_all("generated name", &pattern, &text);
        }
        text = self.number_all("uid", &UID, &text);
        text = self.number_all("address", &ADDRESS, &text);
        if key == "resourceVersion" && self.names.get("version").is_some_and(|known| known.contains(&text)) {
            text = self.number("version", &text);
        }
        let text = TIME.replace_all(&text, "TIME");
        let text = RECORD.replace_all(&text, "$1 (REVISION)");
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

/// Leaves out the bookmarks that a watch gets by time: upstream may send one more right after that which ends the initial
/// events, or none, as its timer has it.
fn timeless(lines: Vec<Value>) -> Value {
    let by_time =
        |line: &Value| line["type"] == "BOOKMARK" && !line.to_string().contains("k8s.io/initial-events-end");
    lines.into_iter().filter(|line| !by_time(line)).collect()
}

fn parse(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes)
        .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(bytes).into_owned()))
}

/// Upstream lists the kinds of definitions in the order of a map.
fn sort_resources(body: &mut Value) {
    if body["kind"] == "APIResourceList"
        && let Some(resources) = body["resources"].as_array_mut()
    {
        resources.sort_by_cached_key(|one| one["name"].to_string());
    }
}

/// The cells of tables that say how long something is there, and what columns of built-in kinds mean: the sandbox leaves that
/// out on purpose.
fn mask_tables(body: &mut Value) {
    if let Some(events) = body.as_array_mut() {
        for event in events {
            mask_tables(&mut event["object"]);
        }
        return;
    }
    if body["kind"] != "Table" {
        return;
    }
    let columns = body["columnDefinitions"].as_array().cloned().unwrap_or_default();
    for column in body["columnDefinitions"].as_array_mut().into_iter().flatten() {
        column["description"] = json!("DESCRIPTION");
    }
    for row in body["rows"].as_array_mut().into_iter().flatten() {
        for (at, column) in columns.iter().enumerate() {
            let age =
                matches!(column["name"].as_str(), Some("Age" | "Created At" | "Last Seen" | "First Seen"));
            if age && row["cells"][at].is_string() {
                row["cells"][at] = json!("AGE");
            }
        }
        // Later tables of a watch do not tell their columns.
        for cell in row["cells"].as_array_mut().into_iter().flatten() {
            if let Some(text) = cell.as_str() {
                *cell = match AGE.is_match(text) {
                    true => json!("AGE"),
                    false => json!(NODE_PORT.replace_all(text, ":NODE PORT/$1")),
                };
            }
        }
    }
}

/// JSON within a message has the order of Go's structs; it is sorted.
fn with_sorted_json(text: &str) -> String {
    let marks = ["Invalid value: ", "Unsupported value: "];
    let starts = marks.iter().filter_map(|mark| Some(text.find(mark)? + mark.len()));
    let Some(start) = starts.min() else { return text.to_owned() };
    let (head, tail) = text.split_at(start);
    let mut values = serde_json::Deserializer::from_str(tail).into_iter::<Value>();
    let Some(Ok(value)) = values.next() else { return text.to_owned() };
    let rest = &tail[values.byte_offset()..];
    match &value {
        // A patched object is quoted once more.
        Value::String(inner) if inner.starts_with('{') => format!("{head}PATCHED{}", with_sorted_json(rest)),
        Value::Array(_) | Value::Object(_) => format!("{head}{value}{}", with_sorted_json(rest)),
        _ => text.to_owned(),
    }
}

/// Upstream walks Go's maps, whose order is another each time: causes and the parts of their message are sorted.
fn sort_causes(body: &mut Value) {
    if let Some(events) = body.as_array_mut() {
        for event in events {
            sort_causes(&mut event["object"]);
        }
        return;
    }
    if let Some(causes) = body.pointer_mut("/details/causes").and_then(Value::as_array_mut) {
        causes.sort_by_cached_key(Value::to_string);
        // Upstream tells some faults of metadata once for each layer that looks at it.
        causes.dedup();
    }
    let several = body["details"]["causes"].as_array().map_or(0, Vec::len) > 1;
    if let Some(text) = body["message"].as_str().map(str::to_owned) {
        let reason = body["reason"].as_str();
        if several && reason == Some("Invalid") {
            // All of it is in the causes.
            let head = text.split(" is invalid: ").next().unwrap_or_default();
            body["message"] = json!(format!("{head} is invalid: CAUSES"));
        } else {
            body["message"] = json!(sort_faults(&text));
        }
    }
}

/// Sorts what a strict decoder found: fields that are unknown or occur twice.
fn sort_faults(text: &str) -> String {
    let mark = "strict decoding error: ";
    let Some((head, faults)) = text.split_once(mark) else { return text.to_owned() };
    let mut faults: Vec<&str> = faults.split(", ").collect();
    faults.sort_unstable();
    format!("{head}{mark}{}", faults.join(", "))
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
