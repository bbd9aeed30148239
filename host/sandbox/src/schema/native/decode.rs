//! Go's decoder: fields that a struct does not have are dropped and told, nulls are zero values, empty lists and maps are
//! not written again.

use base64::Engine as _;
use serde_json::{Map, Value};

use super::super::typed::Empty;
use super::quantity;
use crate::schema::builtin::{OBJECT_META, definition};
use crate::schema::path::{child, index};
use crate::schema::structural::{Additional, JsonType, Link, Schema};

/// Reads a body as its kind: returns `unknown field "…"` for each field that was dropped, or what cannot be read.
pub(super) fn decode(kind: &str, body: &mut Value, schema: &Schema) -> Result<Vec<String>, String> {
    let mut unknown = Vec::new();
    let at = Place { owner: kind.to_owned(), path: String::new(), fields: String::new() };
    walk(&at, body, schema, &mut unknown)?;
    if kind == "Secret" {
        merge_string_data(body);
    }
    Ok(unknown.into_iter().map(|path| format!("unknown field \"{path}\"")).collect())
}

/// Reads `metadata` of a custom resource, or of one inside another; returns the paths of unknown fields.
pub(crate) fn decode_metadata(object: &mut Value) -> Result<Vec<String>, String> {
    let mut unknown = Vec::new();
    if let Some(meta) = object.get_mut("metadata") {
        let at = Place { owner: "ObjectMeta".to_owned(), path: "metadata".to_owned(), fields: String::new() };
        walk(&at, meta, &definition(OBJECT_META), &mut unknown)?;
    }
    Ok(unknown)
}

/// Drops nulls, which Go's encoder never writes for fields of ours; looking for a field that is not there leaves them.
pub(super) fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// `stringData` is another way to write `data`, and never read again.
fn merge_string_data(secret: &mut Value) {
    let Some(fields) = secret.as_object_mut() else { return };
    let Some(Value::Object(texts)) = fields.remove("stringData") else { return };
    let data = fields.entry("data").or_insert_with(|| Value::Object(Map::new()));
    for (name, text) in texts {
        if let (Some(data), Some(text)) = (data.as_object_mut(), text.as_str()) {
            data.insert(name, Value::String(base64::engine::general_purpose::STANDARD.encode(text)));
        }
    }
}

/// Where the decoder is: in a field of which struct, by a path for people, and by Go's path of struct fields.
struct Place {
    owner: String,
    path: String,
    fields: String,
}

impl Place {
    fn field(&self, name: &str) -> Place {
        Place { owner: self.owner.clone(), path: child(&self.path, name), fields: child(&self.fields, name) }
    }

    /// An entry of a map, which Go does not count as a field.
    fn entry(&self, name: &str) -> Place {
        Place { owner: self.owner.clone(), path: child(&self.path, name), fields: self.fields.clone() }
    }

    fn item(&self, at: usize) -> Place {
        Place { owner: self.owner.clone(), path: index(&self.path, at), fields: self.fields.clone() }
    }

    fn mismatch(&self, value: &Value, wanted: &str) -> String {
        let found = match value {
            Value::Null => "null".to_owned(),
            Value::Bool(_) => "bool".to_owned(),
            Value::Number(number) if wanted.starts_with("int") => format!("number {number}"),
            Value::Number(_) => "number".to_owned(),
            Value::String(_) => "string".to_owned(),
            Value::Array(_) => "array".to_owned(),
            Value::Object(_) => "object".to_owned(),
        };
        let Place { owner, fields, .. } = self;
        if fields.is_empty() {
            return format!("json: cannot unmarshal {found} into Go value of type {wanted}");
        }
        format!("json: cannot unmarshal {found} into Go struct field {owner}.{fields} of type {wanted}")
    }
}

/// `io.k8s.api.core.v1.ServicePort` is `v1.ServicePort` in Go.
fn go_name(link: Option<&Link>, schema: &Schema) -> String {
    if let Some(Link::Definition { name, .. }) = link {
        let mut parts = name.rsplit('.');
        let (kind, package) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        if schema.ty == Some(JsonType::Object) {
            return format!("{package}.{kind}");
        }
    }
    match schema.ty {
        Some(JsonType::Object) => {
            let value = match &schema.additional {
                Additional::Schema(link) => go_name(Some(link), link),
                Additional::Unset | Additional::Allowed(_) => "interface {}".to_owned(),
            };
            format!("map[string]{value}")
        }
        Some(JsonType::Array) => {
            let item = schema.items.as_ref().map_or_else(String::new, |link| go_name(Some(link), link));
            format!("[]{item}")
        }
        Some(JsonType::String) if schema.format.as_deref() == Some("byte") => "[]uint8".to_owned(),
        Some(JsonType::String) | None => "string".to_owned(),
        Some(JsonType::Boolean) => "bool".to_owned(),
        Some(JsonType::Integer) => schema.format.clone().unwrap_or_else(|| "int64".to_owned()),
        Some(JsonType::Number) => "float64".to_owned(),
    }
}

fn struct_name(link: &Link) -> Option<String> {
    match link {
        Link::Definition { name, .. } => name.rsplit('.').next().map(str::to_owned),
        Link::Here(_) => None,
    }
}

fn walk(at: &Place, value: &mut Value, schema: &Schema, unknown: &mut Vec<String>) -> Result<(), String> {
    if schema.quantity {
        return quantity::normalise(value);
    }
    let Some(ty) = schema.ty else { return Ok(()) };
    let wanted = || go_name(None, schema);
    match (ty, &mut *value) {
        (_, Value::Null) => Ok(()),
        (JsonType::Object, Value::Object(fields)) => walk_fields(at, fields, schema, unknown),
        (JsonType::Array, Value::Array(items)) => {
            let Some(link) = &schema.items else { return Ok(()) };
            for (number, item) in items.iter_mut().enumerate() {
                if item.is_null() && link.ty == Some(JsonType::Object) {
                    *item = Value::Object(Map::new());
                }
                let mut place = at.item(number);
                place.owner = struct_name(link).unwrap_or(place.owner);
                walk_named(&place, item, link, unknown)?;
            }
            Ok(())
        }
        (JsonType::String, Value::String(text)) if schema.format.as_deref() == Some("byte") => {
            match base64::engine::general_purpose::STANDARD.decode(&*text) {
                Ok(_) => Ok(()),
                Err(
                    base64::DecodeError::InvalidByte(offset, _)
                    | base64::DecodeError::InvalidLastSymbol(offset, _),
                ) => Err(format!("illegal base64 data at input byte {offset}")),
                Err(_) => Err(format!(
                    "illegal base64 data at input byte {}",
                    text.len().saturating_sub(text.len() % 4)
                )),
            }
        }
        (JsonType::String, Value::String(text)) if schema.format.as_deref() == Some("date-time") => {
            match text.parse::<jiff::Timestamp>() {
                Ok(_) => Ok(()),
                Err(_) => Err(format!(
                    "parsing time \"{text}\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"{text}\" as \"2006\""
                )),
            }
        }
        (JsonType::String, Value::String(_))
        | (JsonType::Boolean, Value::Bool(_))
        | (JsonType::Number, Value::Number(_)) => Ok(()),
        (JsonType::Integer, Value::Number(number)) if in_range(number.as_i64(), schema) => Ok(()),
        (_, other) => Err(at.mismatch(other, &wanted())),
    }
}

/// A time with exactly six digits below the second, as Go's layout wants it.
fn micro_time(text: &str) -> Result<(), String> {
    let refuse = |rest: &str, part: &str| {
        Err(format!(
            "parsing time \"{text}\" as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse \"{rest}\" as \"{part}\""
        ))
    };
    if text.parse::<jiff::Timestamp>().is_err() {
        return refuse(text, "2006");
    }
    let below = text.get(SECONDS..).unwrap_or_default();
    let digits = below.strip_prefix('.').unwrap_or_default().bytes().take_while(u8::is_ascii_digit).count();
    match digits {
        0..6 => refuse(below, ".000000"),
        6 => Ok(()),
        _ => refuse(&below[7..], "Z07:00"),
    }
}

/// Length of a time up to its seconds.
const SECONDS: usize = "2006-01-02T15:04:05".len();

fn in_range(number: Option<i64>, schema: &Schema) -> bool {
    match (number, schema.format.as_deref()) {
        (Some(number), Some("int32")) => i32::try_from(number).is_ok(),
        (number, _) => number.is_some(),
    }
}

/// A value that has a type with a name: mistakes tell that name.
fn walk_named(at: &Place, value: &mut Value, link: &Link, unknown: &mut Vec<String>) -> Result<(), String> {
    let schema = link.get();
    let mistaken = match (schema.ty, &*value) {
        (Some(JsonType::Object), Value::Object(_) | Value::Null) => false,
        (Some(JsonType::Object), _) => !schema.quantity,
        _ => false,
    };
    if mistaken {
        return Err(at.mismatch(value, &go_name(Some(link), schema)));
    }
    if let (Link::Definition { name, .. }, Value::String(text)) = (link, &*value)
        && name.ends_with(".MicroTime")
    {
        return micro_time(text);
    }
    walk(at, value, schema, unknown)
}

fn walk_fields(
    at: &Place,
    fields: &mut Map<String, Value>,
    schema: &Schema,
    unknown: &mut Vec<String>,
) -> Result<(), String> {
    let open = match schema.additional {
        Additional::Unset => schema.properties.is_empty(),
        Additional::Allowed(allowed) => allowed,
        Additional::Schema(_) => false,
    };
    let mut failed = None;
    fields.retain(|name, field| {
        let (place, link) = match (schema.properties.get(name), &schema.additional) {
            (Some(link), _) => (at.field(name), link),
            (None, Additional::Schema(link)) => (at.entry(name), link),
            (None, _) => {
                if !open {
                    unknown.push(child(&at.path, name));
                }
                return open;
            }
        };
        if field.is_null() && (link.ty.is_some() || link.quantity) {
            // The zero value of an entry is written, that of a field is not.
            return match (&schema.additional, link.ty) {
                (Additional::Schema(_), Some(JsonType::String)) => {
                    *field = Value::from("");
                    true
                }
                _ => false,
            };
        }
        // Inside of a struct its fields are named after it.
        let owner = struct_name(link).filter(|_| field.is_object()).unwrap_or_else(|| at.owner.clone());
        let result = walk_named(&Place { owner, ..place }, field, link, unknown);
        if failed.is_none() {
            failed = result.err();
        }
        !left_out(field, name, link, schema)
    });
    failed.map_or(Ok(()), Err)
}

/// Finds the empty lists and maps that [`decode`] takes away.
pub(super) fn empties(path: &str, pointer: &str, value: &Value, schema: &Schema, found: &mut Vec<Empty>) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                let link = match (schema.properties.get(name), &schema.additional) {
                    (Some(link), _) | (None, Additional::Schema(link)) => link,
                    (None, _) => continue,
                };
                let at = child(path, name);
                let pointer = format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"));
                if (field.is_array() || field.is_object()) && left_out(field, name, link, schema) {
                    found.push(Empty { path: at, pointer, value: field.clone() });
                } else {
                    empties(&at, &pointer, field, link, found);
                }
            }
        }
        Value::Array(items) => {
            let Some(link) = &schema.items else { return };
            for (number, item) in items.iter().enumerate() {
                empties(&index(path, number), &format!("{pointer}/{number}"), item, link, found);
            }
        }
        _ => {}
    }
}

/// Whether Go's encoder leaves a field out: the zero value of a field that is tagged so.
fn left_out(field: &Value, name: &str, link: &Link, schema: &Schema) -> bool {
    if !schema.omitted.contains(name) || link.ty.is_none() {
        return false;
    }
    match field {
        Value::String(text) => text.is_empty(),
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::Array(items) => items.is_empty(),
        // Structs are written, however empty.
        Value::Object(fields) => fields.is_empty() && matches!(link.additional, Additional::Schema(_)),
        Value::Null => false,
    }
}
