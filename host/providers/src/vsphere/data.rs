//! What goes over the wire to and from a vCenter, in the shape that both of its protocols share.
//!
//! Members keep their order: SOAP servers want the schema's.

use std::borrow::Cow;
use std::fmt;

/// A managed object: its type and its id, as in `VirtualMachine` and `vm-71`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MoRef {
    /// Managed object type.
    pub kind: String,
    /// Managed object id, unique in its vCenter.
    pub id: String,
}

impl MoRef {
    /// From its parts.
    pub fn new(kind: &str, id: &str) -> Self {
        Self { kind: kind.to_owned(), id: id.to_owned() }
    }

    /// The number in the id, by which objects are ordered as they were made; ids without one come last.
    pub fn number(&self) -> u64 {
        self.id.rsplit('-').next().and_then(|number| number.parse().ok()).unwrap_or(u64::MAX)
    }
}

impl fmt::Display for MoRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.id)
    }
}

/// A value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Data {
    /// A boolean in a field whose type both sides know.
    Bool(bool),
    /// A number in a field whose type both sides know.
    Int(i64),
    /// Text, an enum's word, or any leaf as SOAP has it.
    Text(String),
    /// A leaf that carries its type, for fields that may hold any.
    Typed {
        /// `string`, `int`, …, or an enum's name.
        kind: String,
        /// The value as text.
        text: String,
    },
    /// A managed object.
    Ref(MoRef),
    /// A data object.
    Object(Object),
    /// An array.
    List(Vec<Data>),
}

/// A data object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Object {
    /// Its type's name; "" where the field says it.
    pub kind: String,
    /// Its members, in the order of the schema.
    pub members: Vec<(String, Data)>,
}

impl Object {
    /// Without members.
    pub fn new(kind: &str) -> Self {
        Self { kind: kind.to_owned(), members: Vec::new() }
    }

    /// With one member more.
    pub fn with(mut self, name: &str, value: impl Into<Data>) -> Self {
        self.members.push((name.to_owned(), value.into()));
        self
    }

    /// With one member more, where there is a value.
    pub fn maybe<T: Into<Data>>(self, name: &str, value: Option<T>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// A member.
    pub fn get(&self, name: &str) -> Option<&Data> {
        self.members.iter().find(|(member, _)| member == name).map(|(_, value)| value)
    }
}

impl Data {
    /// Text for a field that may hold any type.
    pub fn any_text(text: &str) -> Self {
        Self::Typed { kind: "string".to_owned(), text: text.to_owned() }
    }

    /// A leaf's text; none for anything else.
    pub fn text(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Bool(value) => Some(Cow::Owned(value.to_string())),
            Self::Int(value) => Some(Cow::Owned(value.to_string())),
            Self::Text(text) | Self::Typed { text, .. } => Some(Cow::Borrowed(text)),
            Self::Ref(_) | Self::Object(_) | Self::List(_) => None,
        }
    }

    /// A whole number.
    pub fn int(&self) -> Option<i64> {
        self.text()?.trim().parse().ok()
    }

    /// A boolean; SOAP has `1` and `0`, too.
    pub fn bool(&self) -> Option<bool> {
        match self.text()?.trim() {
            "true" | "1" => Some(true),
            "false" | "0" => Some(false),
            _ => None,
        }
    }

    /// A managed object.
    pub fn reference(&self) -> Option<&MoRef> {
        match self {
            Self::Ref(reference) => Some(reference),
            Self::Bool(_)
            | Self::Int(_)
            | Self::Text(_)
            | Self::Typed { .. }
            | Self::Object(_)
            | Self::List(_) => None,
        }
    }

    /// A data object.
    pub fn object(&self) -> Option<&Object> {
        match self {
            Self::Object(object) => Some(object),
            Self::Bool(_)
            | Self::Int(_)
            | Self::Text(_)
            | Self::Typed { .. }
            | Self::Ref(_)
            | Self::List(_) => None,
        }
    }

    /// A member of a data object.
    pub fn get(&self, name: &str) -> Option<&Data> {
        self.object()?.get(name)
    }

    /// A member's text, "" where there is none.
    pub fn text_of(&self, name: &str) -> Cow<'_, str> {
        self.get(name).and_then(Self::text).unwrap_or_default()
    }

    /// The elements: an array of one looks like its element in SOAP.
    pub fn items(&self) -> &[Data] {
        match self {
            Self::List(items) => items,
            Self::Text(text) if text.is_empty() => &[],
            Self::Bool(_)
            | Self::Int(_)
            | Self::Text(_)
            | Self::Typed { .. }
            | Self::Ref(_)
            | Self::Object(_) => std::slice::from_ref(self),
        }
    }

    /// The elements of a member, none where there is no such member.
    pub fn items_of(&self, name: &str) -> &[Data] {
        self.get(name).map(Self::items).unwrap_or_default()
    }
}

impl From<bool> for Data {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for Data {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<&str> for Data {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<String> for Data {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl From<MoRef> for Data {
    fn from(value: MoRef) -> Self {
        Self::Ref(value)
    }
}

impl From<&MoRef> for Data {
    fn from(value: &MoRef) -> Self {
        Self::Ref(value.clone())
    }
}

impl From<Object> for Data {
    fn from(value: Object) -> Self {
        Self::Object(value)
    }
}

impl<T: Into<Data>> From<Vec<T>> for Data {
    fn from(value: Vec<T>) -> Self {
        Self::List(value.into_iter().map(Into::into).collect())
    }
}
