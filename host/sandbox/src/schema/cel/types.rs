//! The types of CEL, as a schema declares them, with the sizes that estimates of cost rest on.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::schema::structural::{Additional, JsonType, Schema};

/// Longest request that the server takes: nothing in it is longer.
pub(super) const REQUEST_BYTES_MAX: u64 = 3 * 1024 * 1024;
/// A size that nothing limits.
pub(super) const UNBOUNDED: u64 = u64::MAX;

#[derive(Clone, Debug)]
pub(super) enum Type {
    Dyn,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Duration,
    Timestamp,
    List(Arc<Type>),
    Map(Arc<Type>, Arc<Type>),
    Object(Arc<Object>),
    Optional(Arc<Type>),
    /// The type of types.
    Kind,
    /// Types of the libraries, such as quantities.
    Library(&'static str),
    /// A type variable of a signature.
    Any(char),
    /// With the most elements (characters, items, entries) that a value can have.
    Sized(Arc<Type>, u64),
}

/// A struct: the fields that its schema names.
#[derive(Debug, Default)]
pub(super) struct Object {
    /// By their names in CEL, which escape what CEL cannot say.
    pub(super) fields: BTreeMap<String, (String, Type)>,
    pub(super) name: String,
}

impl Type {
    pub(super) fn list(item: Type) -> Type {
        Type::List(Arc::new(item))
    }

    pub(super) fn map(key: Type, value: Type) -> Type {
        Type::Map(Arc::new(key), Arc::new(value))
    }

    pub(super) fn optional(inner: Type) -> Type {
        Type::Optional(Arc::new(inner))
    }

    /// The type without its size.
    pub(super) fn plain(&self) -> &Type {
        match self {
            Type::Sized(inner, _) => inner.plain(),
            plain => plain,
        }
    }

    /// The most elements that a value can have.
    pub(super) fn size(&self) -> u64 {
        match self {
            Type::Sized(_, size) => *size,
            _ => UNBOUNDED,
        }
    }

    pub(super) fn sized(self, size: u64) -> Type {
        Type::Sized(Arc::new(self), size)
    }

    /// Whether a value of the one may stand where the other is asked for.
    pub(super) fn fits(&self, other: &Type) -> bool {
        match (self.plain(), other.plain()) {
            (Type::Dyn | Type::Any(_), _) | (_, Type::Dyn | Type::Any(_)) => true,
            (
                Type::Null,
                Type::Object(_) | Type::Optional(_) | Type::Library(_) | Type::Duration | Type::Timestamp,
            )
            | (
                Type::Object(_) | Type::Optional(_) | Type::Library(_) | Type::Duration | Type::Timestamp,
                Type::Null,
            ) => true,
            (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => a.fits(b),
            (Type::Map(a, b), Type::Map(c, d)) => a.fits(c) && b.fits(d),
            (Type::Object(a), Type::Object(b)) => a.name == b.name,
            (Type::Library(a), Type::Library(b)) => a == b,
            (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b),
        }
    }
}

impl std::fmt::Display for Type {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = match self {
            Type::Dyn => "dyn",
            Type::Null => "null",
            Type::Bool => "bool",
            Type::Int => "int",
            Type::Uint => "uint",
            Type::Double => "double",
            Type::Text => "string",
            Type::Bytes => "bytes",
            Type::Duration => "google.protobuf.Duration",
            Type::Timestamp => "google.protobuf.Timestamp",
            Type::List(item) => return write!(f, "list({item})"),
            Type::Map(key, value) => return write!(f, "map({key}, {value})"),
            Type::Object(object) => return f.write_str(&object.name),
            Type::Optional(inner) => return write!(f, "optional_type({inner})"),
            Type::Kind => "type",
            Type::Library(name) => return f.write_str(name),
            Type::Any(name) => return write!(f, "{name}"),
            Type::Sized(inner, _) => return write!(f, "{inner}"),
        };
        f.write_str(name)
    }
}

/// Names that CEL keeps for itself.
const RESERVED: [&str; 18] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
];

/// A field's name as rules write it; none if they cannot.
pub(super) fn escape(name: &str) -> Option<String> {
    if RESERVED.contains(&name) {
        return Some(format!("__{name}__"));
    }
    let mut out = String::new();
    let mut chars = name.chars().peekable();
    let mut first = true;
    while let Some(c) = chars.next() {
        match c {
            '_' if chars.peek() == Some(&'_') => {
                chars.next();
                out.push_str("__underscores__");
            }
            '.' => out.push_str("__dot__"),
            '-' => out.push_str("__dash__"),
            '/' => out.push_str("__slash__"),
            c if c == '_' || c.is_ascii_alphabetic() || (c.is_ascii_digit() && !first) => out.push(c),
            _ => return None,
        }
        first = false;
    }
    (!out.is_empty()).then_some(out)
}

/// A declared type, and the fewest bytes that a value takes up in a request.
pub(super) struct Declared {
    pub(super) ty: Type,
    pub(super) bytes_min: u64,
}

fn limit(value: Option<i64>) -> Option<u64> {
    value.map(|value| u64::try_from(value).unwrap_or(0))
}

/// The type that rules see of a schema; none where it is not shown to them.
pub(super) fn declare(schema: &Schema, path: &str) -> Option<Declared> {
    let rules = &schema.rules;
    let simple = |ty: Type, bytes_min: u64| Some(Declared { ty, bytes_min });
    if schema.int_or_string {
        let size = limit(rules.max_length).map_or(REQUEST_BYTES_MAX - 2, |max| max.saturating_mul(4));
        return simple(Type::Dyn.sized(size), 1);
    }
    let ty = match schema.ty {
        None if schema.resource_root || schema.embedded => JsonType::Object,
        other => other?,
    };
    match ty {
        JsonType::Array => {
            let item = declare(schema.item()?, &format!("{path}.@items"))?;
            let most = (REQUEST_BYTES_MAX - 2) / (item.bytes_min + 1);
            let size = limit(rules.max_items).unwrap_or(most);
            simple(Type::list(item.ty).sized(size), 2)
        }
        JsonType::Object => declare_object(schema, path),
        JsonType::String => {
            let whole = REQUEST_BYTES_MAX - 2;
            let length = limit(rules.max_length);
            match schema.format.as_deref() {
                Some("byte") => simple(Type::Bytes.sized(length.unwrap_or(whole)), 2),
                Some("duration") => simple(Type::Duration.sized(32), 4),
                Some("date") => simple(Type::Timestamp.sized(12), 12),
                Some("date-time") => simple(Type::Timestamp.sized(37), 22),
                _ => {
                    let of_enum = rules.enumeration.iter().filter_map(|one| one.as_str()).map(str::len).max();
                    let size = match (length, of_enum) {
                        (Some(length), _) => length.saturating_mul(4),
                        (None, Some(longest)) => u64::try_from(longest).unwrap_or(whole),
                        (None, None) => whole,
                    };
                    simple(Type::Text.sized(size), 2)
                }
            }
        }
        JsonType::Boolean => simple(Type::Bool, 4),
        JsonType::Number => simple(Type::Double, 1),
        JsonType::Integer => simple(Type::Int, 1),
    }
}

fn declare_object(schema: &Schema, path: &str) -> Option<Declared> {
    if let Additional::Schema(link) = &schema.additional {
        let value = declare(link, &format!("{path}.@values"))?;
        let most = (REQUEST_BYTES_MAX - 2) / (value.bytes_min + 6);
        let size = limit(schema.rules.max_properties).unwrap_or(most);
        return Some(Declared { ty: Type::map(Type::Text, value.ty).sized(size), bytes_min: 2 });
    }
    let mut object = Object { fields: BTreeMap::new(), name: path.to_owned() };
    let mut bytes_min = 2u64;
    for (name, property) in schema.properties() {
        let meta = schema.resource_root || schema.embedded;
        if meta && matches!(name, "apiVersion" | "kind" | "metadata") {
            continue;
        }
        let Some(declared) = declare(property, &format!("{path}.{name}")) else { continue };
        if schema.rules.required.iter().any(|one| one == name) && property.default.is_none() {
            bytes_min += u64::try_from(name.len()).unwrap_or_default() + declared.bytes_min + 4;
        }
        if let Some(escaped) = escape(name) {
            object.fields.insert(escaped, (name.to_owned(), declared.ty));
        }
    }
    if schema.resource_root || schema.embedded {
        let text = || Type::Text.sized(REQUEST_BYTES_MAX - 2);
        let names = ["name", "generateName"].map(|name| (name.to_owned(), (name.to_owned(), text())));
        let meta = Object { fields: BTreeMap::from(names), name: format!("{path}.metadata") };
        for name in ["apiVersion", "kind"] {
            object.fields.insert(name.to_owned(), (name.to_owned(), text()));
        }
        object.fields.insert("metadata".to_owned(), ("metadata".to_owned(), Type::Object(Arc::new(meta))));
    }
    Some(Declared { ty: Type::Object(Arc::new(object)), bytes_min })
}
