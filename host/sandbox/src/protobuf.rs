//! Bodies in Kubernetes' protobuf encoding, which `kubectl create` sends for built-in kinds, as JSON.
//!
//! Only what comes in is understood; answers are JSON, which every client accepts beside it.

mod wire;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::OnceLock;
use wire::{Field, fields};

/// The media type.
pub(crate) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// What every body starts with.
const MAGIC: &[u8] = b"k8s\0";
/// Messages within messages that are followed; deeper ones are refused.
const DEPTH_MAX: usize = 64;

/// A message: its fields by number, with their JSON name and type.
type Message = BTreeMap<u32, (&'static str, &'static str)>;

struct Tables {
    kinds: BTreeMap<(&'static str, &'static str), &'static str>,
    messages: BTreeMap<&'static str, Message>,
}

fn tables() -> &'static Tables {
    static TABLES: OnceLock<Tables> = OnceLock::new();
    TABLES.get_or_init(|| {
        let mut tables = Tables { kinds: BTreeMap::new(), messages: BTreeMap::new() };
        let mut current = Message::new();
        let mut name = "";
        for line in include_str!("../data/protobuf.txt").lines() {
            let words: Vec<&'static str> = line.split_whitespace().collect();
            match words.as_slice() {
                ["kind", version, kind, message] => {
                    tables.kinds.insert((version, kind), message);
                }
                ["message", next] => {
                    tables.messages.insert(name, std::mem::take(&mut current));
                    name = next;
                }
                [number, field, kind] => {
                    if let Ok(number) = number.parse() {
                        current.insert(number, (field, kind));
                    }
                }
                _ => {}
            }
        }
        tables.messages.insert(name, current);
        tables
    })
}

/// The object of a body; the error is a sentence.
pub(crate) fn decode(body: &[u8]) -> Result<Value, String> {
    let body = body.strip_prefix(MAGIC).ok_or("provided data does not appear to be a protobuf message")?;
    let (mut api_version, mut kind, mut raw): (String, String, &[u8]) = (String::new(), String::new(), &[]);
    for (number, field) in fields(body)? {
        match (number, field) {
            (1, Field::Bytes(meta)) => {
                for (number, field) in fields(meta)? {
                    match (number, field) {
                        (1, Field::Bytes(text)) => api_version = wire::text(text)?,
                        (2, Field::Bytes(text)) => kind = wire::text(text)?,
                        _ => {}
                    }
                }
            }
            (2, Field::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    // Options are of every group: clients name that of the object.
    let group = if kind == "DeleteOptions" { "v1" } else { api_version.as_str() };
    let message = tables()
        .kinds
        .get(&(group, kind.as_str()))
        .ok_or_else(|| format!("no kind \"{kind}\" is registered for version \"{api_version}\""))?;
    let mut object = Map::new();
    read_message(message, raw, &mut object, 0)?;
    object.insert("apiVersion".into(), json!(api_version));
    object.insert("kind".into(), json!(kind));
    Ok(Value::Object(object))
}

fn read_message(
    message: &str,
    bytes: &[u8],
    out: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), String> {
    if depth > DEPTH_MAX {
        return Err("protobuf: messages are nested too deeply".into());
    }
    let known =
        tables().messages.get(message).ok_or_else(|| format!("protobuf: unknown message {message}"))?;
    for (number, field) in fields(bytes)? {
        let Some((name, kind)) = known.get(&number) else { continue };
        if *name == "^" {
            if let (Some(inner), Field::Bytes(bytes)) = (kind.strip_prefix('='), field) {
                read_message(inner, bytes, out, depth + 1)?;
            }
            continue;
        }
        if let Some(item) = kind.strip_prefix('*') {
            let values = read_items(item, field, depth)?;
            let list = out.entry(*name).or_insert_with(|| json!([]));
            if let Some(list) = list.as_array_mut() {
                list.extend(values);
            }
        } else if let Some(item) = kind.strip_prefix('%') {
            let (key, value) = read_entry(item, field, depth)?;
            let map = out.entry(*name).or_insert_with(|| json!({}));
            if let Some(map) = map.as_object_mut() {
                map.insert(key, value);
            }
        } else {
            let value = read_value(kind, field, depth)?;
            // Go writes empty texts and numbers of fields that it would leave out of JSON.
            let empty = value == json!("") || value == json!(0) || value == json!(false) || value.is_null();
            if !empty {
                out.insert((*name).to_owned(), value);
            }
        }
    }
    Ok(())
}

/// The items of a list; numbers may come packed.
fn read_items(kind: &str, field: Field<'_>, depth: usize) -> Result<Vec<Value>, String> {
    match (kind, field) {
        ("i", Field::Bytes(packed)) => {
            Ok(wire::packed(packed)?.into_iter().map(|number| json!(number)).collect())
        }
        (kind, field) => Ok(vec![read_value(kind, field, depth)?]),
    }
}

fn read_entry(kind: &str, field: Field<'_>, depth: usize) -> Result<(String, Value), String> {
    let Field::Bytes(bytes) = field else { return Err("protobuf: a map entry is no message".into()) };
    let (mut key, mut value) = (String::new(), None);
    for (number, field) in fields(bytes)? {
        match (number, field) {
            (1, Field::Bytes(text)) => key = wire::text(text)?,
            (2, field) => value = Some(read_value(kind, field, depth)?),
            _ => {}
        }
    }
    let empty = || match kind.as_bytes().first() {
        Some(b'=') => json!({}),
        Some(b'i') => json!(0),
        Some(b'b') => json!(false),
        _ => json!(""),
    };
    Ok((key, value.unwrap_or_else(empty)))
}

fn read_value(kind: &str, field: Field<'_>, depth: usize) -> Result<Value, String> {
    match (kind, field) {
        ("s", Field::Bytes(bytes)) => Ok(json!(wire::text(bytes)?)),
        ("y", Field::Bytes(bytes)) => Ok(json!(STANDARD.encode(bytes))),
        ("b", Field::Number(number)) => Ok(json!(number != 0)),
        ("i", Field::Number(number)) => Ok(json!(number)),
        ("f", Field::Float(float)) => Ok(json!(float)),
        ("T" | "U", Field::Bytes(bytes)) => time(kind == "U", bytes),
        ("D", Field::Bytes(bytes)) => Ok(json!(format!("{}s", wire::number(bytes, 1)? / 1_000_000_000))),
        ("Q", Field::Bytes(bytes)) => Ok(json!(wire::text(wire::bytes(bytes, 1)?)?)),
        ("I", Field::Bytes(bytes)) => match wire::number(bytes, 1)? {
            0 => Ok(json!(wire::number(bytes, 2)?)),
            _ => Ok(json!(wire::text(wire::bytes(bytes, 3)?)?)),
        },
        ("R", Field::Bytes(bytes)) => {
            let raw = wire::bytes(bytes, 1)?;
            if raw.is_empty() {
                return Ok(Value::Null);
            }
            serde_json::from_slice(raw).map_err(|error| error.to_string())
        }
        ("E", Field::Bytes(bytes)) => {
            let texts: Result<Vec<Value>, String> = fields(bytes)?
                .into_iter()
                .filter_map(|(_, field)| match field {
                    Field::Bytes(text) => Some(wire::text(text).map(Value::from)),
                    _ => None,
                })
                .collect();
            Ok(Value::Array(texts?))
        }
        (kind, Field::Bytes(bytes)) if kind.starts_with('=') => {
            let mut out = Map::new();
            read_message(&kind[1..], bytes, &mut out, depth + 1)?;
            Ok(Value::Object(out))
        }
        (kind, _) => Err(format!("protobuf: a field of type {kind} has another wire type")),
    }
}

fn time(micros: bool, bytes: &[u8]) -> Result<Value, String> {
    let seconds = wire::number(bytes, 1)?;
    let nanos = i32::try_from(wire::number(bytes, 2)?).unwrap_or_default();
    // The zero time of Go.
    if bytes.is_empty() || seconds <= -62_135_596_800 {
        return Ok(Value::Null);
    }
    let time = Timestamp::new(seconds, nanos).map_err(|error| error.to_string())?;
    let format = if micros { "%Y-%m-%dT%H:%M:%S.%6fZ" } else { "%Y-%m-%dT%H:%M:%SZ" };
    Ok(json!(time.strftime(format).to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field of bytes.
    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, u8::try_from(bytes.len()).unwrap()], bytes].concat()
    }

    fn body(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
        let meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
        [MAGIC, &field(1, &meta), &field(2, raw)].concat()
    }

    #[test]
    fn options_of_a_deletion_are_read_in_any_group() {
        for version in ["v1", "apps/v1", "example.com/v3"] {
            let options = decode(&body(version, "DeleteOptions", &[])).unwrap();
            assert_eq!(options, json!({"apiVersion": version, "kind": "DeleteOptions"}));
        }
    }

    #[test]
    fn a_config_map_is_read() {
        let metadata = [field(1, b"a"), field(3, b"default"), field(8, b"")].concat();
        let entry = [field(1, b"key"), field(2, b"value")].concat();
        let raw = [field(1, &metadata), field(2, &entry)].concat();
        assert_eq!(
            decode(&body("v1", "ConfigMap", &raw)).unwrap(),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}, "data": {"key": "value"}})
        );
    }

    #[test]
    fn broken_bodies_are_refused() {
        let cut = body("v1", "ConfigMap", &[0x0a, 0x7f]);
        for broken in [b"".as_slice(), b"k8s\0\xff", b"{}", &body("v1", "Nothing", b""), &cut] {
            assert!(decode(broken).is_err(), "{broken:?}");
        }
    }

    #[test]
    fn every_message_that_a_field_names_is_there() {
        for (name, message) in &tables().messages {
            for (field, kind) in message.values() {
                if let Some(inner) = kind.trim_start_matches(['*', '%']).strip_prefix('=') {
                    assert!(tables().messages.contains_key(inner), "{name}.{field}: {inner}");
                }
            }
        }
    }
}
