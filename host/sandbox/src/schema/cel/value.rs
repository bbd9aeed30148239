//! Values while an expression is evaluated.

use std::cmp::Ordering;
use std::net::IpAddr;
use std::rc::Rc;

use base64::Engine as _;
use jiff::Timestamp;
use serde_json::Value as Json;

use super::types::{Object, Type};
use crate::schema::field_error::float_text;
use crate::schema::formats;
use crate::schema::native::quantity::Quantity;

/// A value; texts and objects are borrowed from the object under validation where they can be.
#[derive(Clone, Debug)]
pub(super) enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(Rc<str>),
    Bytes(Rc<[u8]>),
    List(Rc<Vec<Value<'a>>>),
    Map(Rc<Vec<(Value<'a>, Value<'a>)>>),
    Object(&'a Json, &'a Object),
    /// Nanoseconds.
    Duration(i64),
    Time(Timestamp),
    Type(&'static str),
    Optional(Option<Rc<Value<'a>>>),
    Quantity(Quantity),
    Url(Rc<Url>),
    Ip(IpAddr),
    Cidr(IpAddr, u8),
    Format(&'static str),
    Semver(u64, u64, u64, Rc<str>),
}

/// The parts of a URL.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(super) struct Url {
    pub(super) text: String,
    pub(super) scheme: String,
    pub(super) host: String,
    pub(super) path: String,
    pub(super) query: String,
}

impl<'a> Value<'a> {
    /// A JSON value as rules see it.
    pub(super) fn of(json: &'a Json, ty: &'a Type) -> Value<'a> {
        match (json, ty.plain()) {
            (Json::Null, _) => Value::Null,
            (Json::Bool(flag), _) => Value::Bool(*flag),
            (Json::Number(number), Type::Double) => Value::Double(number.as_f64().unwrap_or_default()),
            (Json::Number(number), _) => match number.as_i64() {
                Some(int) => Value::Int(int),
                None => match number.as_f64() {
                    #[allow(clippy::cast_possible_truncation)]
                    // Whole, and the schema says that it is an integer.
                    Some(float) if matches!(ty.plain(), Type::Int) => Value::Int(float as i64),
                    float => Value::Double(float.unwrap_or_default()),
                },
            },
            (Json::String(text), Type::Bytes) => {
                let bytes = base64::engine::general_purpose::STANDARD.decode(text).unwrap_or_default();
                Value::Bytes(bytes.into())
            }
            (Json::String(text), Type::Duration) => {
                Value::Duration(formats::parse_duration(text).unwrap_or_default())
            }
            (Json::String(text), Type::Timestamp) => match parse_time(text) {
                Some(time) => Value::Time(time),
                None => Value::text(text),
            },
            (Json::String(text), _) => Value::text(text),
            (Json::Array(items), Type::List(item)) => {
                Value::List(Rc::new(items.iter().map(|one| Value::of(one, item)).collect()))
            }
            (Json::Array(items), _) => {
                Value::List(Rc::new(items.iter().map(|one| Value::of(one, &Type::Dyn)).collect()))
            }
            (Json::Object(_), Type::Object(object)) => Value::Object(json, object),
            (Json::Object(fields), Type::Map(_, value)) => Value::Map(Rc::new(
                fields.iter().map(|(key, one)| (Value::text(key), Value::of(one, value))).collect(),
            )),
            (Json::Object(fields), _) => Value::Map(Rc::new(
                fields.iter().map(|(key, one)| (Value::text(key), Value::of(one, &Type::Dyn))).collect(),
            )),
        }
    }

    pub(super) fn text(text: &str) -> Value<'a> {
        Value::Text(text.into())
    }

    /// The name of its type.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Value::Null => "null_type",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::Uint(_) => "uint",
            Value::Double(_) => "double",
            Value::Text(_) => "string",
            Value::Bytes(_) => "bytes",
            Value::List(_) => "list",
            Value::Map(_) | Value::Object(..) => "map",
            Value::Duration(_) => "google.protobuf.Duration",
            Value::Time(_) => "google.protobuf.Timestamp",
            Value::Type(_) => "type",
            Value::Optional(_) => "optional_type",
            Value::Quantity(_) => "kubernetes.Quantity",
            Value::Url(_) => "kubernetes.URL",
            Value::Ip(_) => "net.IP",
            Value::Cidr(..) => "net.CIDR",
            Value::Format(_) => "kubernetes.NamedFormat",
            Value::Semver(..) => "kubernetes.Semver",
        }
    }

    /// A field that is there.
    pub(super) fn field(&self, name: &str) -> Option<Value<'a>> {
        match self {
            Value::Object(json, object) => {
                let (real, ty) = object.fields.get(name)?;
                json.get(real).map(|found| Value::of(found, ty))
            }
            Value::Map(entries) => entries
                .iter()
                .find(|(key, _)| matches!(key, Value::Text(text) if &**text == name))
                .map(|(_, v)| v.clone()),
            _ => None,
        }
    }

    /// The keys and values of a map.
    pub(super) fn entries(&self) -> Vec<(Value<'a>, Value<'a>)> {
        match self {
            Value::Map(entries) => entries.to_vec(),
            Value::Object(json, object) => object
                .fields
                .iter()
                .filter_map(|(name, (real, ty))| Some((Value::text(name), Value::of(json.get(real)?, ty))))
                .collect(),
            _ => Vec::new(),
        }
    }

    /// Equal in the sense of CEL: numbers by what they are worth, maps whatever their order.
    pub(super) fn same(&self, other: &Value<'_>) -> bool {
        match (self, other) {
            (Value::Null, Value::Null) => true,
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::Text(a), Value::Text(b)) => a == b,
            (Value::Bytes(a), Value::Bytes(b)) => a == b,
            (Value::Duration(a), Value::Duration(b)) => a == b,
            (Value::Time(a), Value::Time(b)) => a == b,
            (Value::Type(a), Value::Type(b)) | (Value::Format(a), Value::Format(b)) => a == b,
            (Value::Quantity(a), Value::Quantity(b)) => a.nanos() == b.nanos(),
            (Value::Url(a), Value::Url(b)) => a == b,
            (Value::Ip(a), Value::Ip(b)) => a == b,
            (Value::Cidr(a, n), Value::Cidr(b, m)) => a == b && n == m,
            (Value::Semver(..), Value::Semver(..)) => self.order(other) == Some(Ordering::Equal),
            (Value::Optional(None), Value::Optional(None)) => true,
            (Value::Optional(Some(a)), Value::Optional(Some(b))) => a.same(b),
            (Value::Object(a, _), Value::Object(b, _)) => a == b,
            (Value::List(a), Value::List(b)) => {
                a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| a.same(b))
            }
            (Value::Map(_) | Value::Object(..), Value::Map(_) | Value::Object(..)) => {
                let (a, b) = (self.entries(), other.entries());
                a.len() == b.len()
                    && a.iter().all(|(key, value)| {
                        b.iter()
                            .find(|(other, _)| key.same(other))
                            .is_some_and(|(_, other)| value.same(other))
                    })
            }
            (a, b) if a.is_number() && b.is_number() => a.order(b) == Some(Ordering::Equal),
            _ => false,
        }
    }

    fn is_number(&self) -> bool {
        matches!(self, Value::Int(_) | Value::Uint(_) | Value::Double(_))
    }

    /// Their order, if they have one.
    pub(super) fn order(&self, other: &Value<'_>) -> Option<Ordering> {
        #[allow(clippy::cast_precision_loss)] // As cel-go compares whole numbers with floats.
        let float = |value: &Value<'_>| match value {
            Value::Int(int) => Some(*int as f64),
            Value::Uint(uint) => Some(*uint as f64),
            Value::Double(double) => Some(*double),
            _ => None,
        };
        match (self, other) {
            (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
            (Value::Int(a), Value::Int(b)) => Some(a.cmp(b)),
            (Value::Uint(a), Value::Uint(b)) => Some(a.cmp(b)),
            (Value::Int(a), Value::Uint(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
            (Value::Uint(a), Value::Int(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
            (Value::Text(a), Value::Text(b)) => Some(a.cmp(b)),
            (Value::Bytes(a), Value::Bytes(b)) => Some(a.cmp(b)),
            (Value::Duration(a), Value::Duration(b)) => Some(a.cmp(b)),
            (Value::Time(a), Value::Time(b)) => Some(a.cmp(b)),
            (Value::Quantity(a), Value::Quantity(b)) => Some(a.nanos().cmp(&b.nanos())),
            (Value::Semver(a, b, c, pre), Value::Semver(d, e, f, other)) => {
                let core = (a, b, c).cmp(&(d, e, f));
                Some(core.then_with(|| match (pre.is_empty(), other.is_empty()) {
                    (true, true) => Ordering::Equal,
                    (true, false) => Ordering::Greater,
                    (false, true) => Ordering::Less,
                    (false, false) => pre.cmp(other),
                }))
            }
            _ => float(self)?.partial_cmp(&float(other)?),
        }
    }

    /// As `string()` writes it.
    pub(super) fn shown(&self) -> String {
        match self {
            Value::Null => "null".to_owned(),
            Value::Bool(flag) => flag.to_string(),
            Value::Int(int) => int.to_string(),
            Value::Uint(uint) => uint.to_string(),
            Value::Double(double) => float_text(*double),
            Value::Text(text) => text.to_string(),
            Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Value::List(items) => {
                format!("[{}]", items.iter().map(Value::shown).collect::<Vec<_>>().join(", "))
            }
            Value::Map(_) | Value::Object(..) => {
                let mut entries: Vec<String> = self
                    .entries()
                    .iter()
                    .map(|(key, value)| format!("{}: {}", key.shown(), value.shown()))
                    .collect();
                entries.sort();
                format!("{{{}}}", entries.join(", "))
            }
            Value::Duration(nanos) => {
                let (seconds, rest) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
                if rest == 0 {
                    format!("{seconds}s")
                } else {
                    let fraction = format!("{:09}", rest.abs());
                    format!("{seconds}.{}s", fraction.trim_end_matches('0'))
                }
            }
            Value::Time(time) => time.to_string(),
            Value::Type(name) | Value::Format(name) => (*name).to_owned(),
            Value::Optional(None) => "optional.none()".to_owned(),
            Value::Optional(Some(inner)) => format!("optional({})", inner.shown()),
            Value::Quantity(quantity) => quantity.to_string(),
            Value::Url(url) => url.text.clone(),
            Value::Ip(ip) => ip.to_string(),
            Value::Cidr(ip, length) => format!("{ip}/{length}"),
            Value::Semver(major, minor, patch, pre) if pre.is_empty() => format!("{major}.{minor}.{patch}"),
            Value::Semver(major, minor, patch, pre) => format!("{major}.{minor}.{patch}-{pre}"),
        }
    }
}

/// A time or a date.
pub(super) fn parse_time(text: &str) -> Option<Timestamp> {
    text.parse::<Timestamp>().ok().or_else(|| {
        let date: jiff::civil::Date = text.parse().ok()?;
        date.to_zoned(jiff::tz::TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
    })
}
