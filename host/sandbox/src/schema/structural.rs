//! A schema that is read once and then asked: OpenAPI v3 as Kubernetes uses it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use regex::Regex;
use serde_json::{Map, Value};

/// The type that a schema asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonType {
    /// A map of named fields.
    Object,
    /// A list.
    Array,
    /// Text.
    String,
    /// A whole number.
    Integer,
    /// Any number.
    Number,
    /// True or false.
    Boolean,
}

impl JsonType {
    /// The type of that OpenAPI name.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "object" => JsonType::Object,
            "array" => JsonType::Array,
            "string" => JsonType::String,
            "integer" => JsonType::Integer,
            "number" => JsonType::Number,
            "boolean" => JsonType::Boolean,
            _ => return None,
        })
    }

    /// The OpenAPI name.
    pub fn name(self) -> &'static str {
        match self {
            JsonType::Object => "object",
            JsonType::Array => "array",
            JsonType::String => "string",
            JsonType::Integer => "integer",
            JsonType::Number => "number",
            JsonType::Boolean => "boolean",
        }
    }
}

/// What is known of a value: its type, its parts, its rules and how it merges.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    /// `type`; none takes anything.
    pub(crate) ty: Option<JsonType>,
    pub(crate) format: Option<String>,
    pub(crate) nullable: bool,
    pub(crate) default: Option<Value>,
    pub(crate) properties: BTreeMap<String, Link>,
    pub(crate) additional: Additional,
    pub(crate) items: Option<Link>,
    pub(crate) rules: Arc<ValueRules>,
    pub(crate) all_of: Vec<Link>,
    pub(crate) any_of: Vec<Link>,
    pub(crate) one_of: Vec<Link>,
    pub(crate) not: Option<Link>,
    pub(crate) preserve_unknown: bool,
    /// Also true below a node that preserves unknown fields: what merging makes of fields that no schema names.
    pub(crate) merge_unknown: bool,
    pub(crate) embedded: bool,
    /// The root of a custom kind: it has `apiVersion`, `kind` and `metadata`, whether it says so or not.
    pub(crate) resource_root: bool,
    pub(crate) int_or_string: bool,
    /// The built-in `Quantity`, and the built-in `RawExtension`: known by their name, not by what they say.
    pub(crate) quantity: bool,
    pub(crate) raw_extension: bool,
    /// Fields of a built-in struct that Go leaves out when they hold the zero value.
    pub(crate) omitted: BTreeSet<String>,
    pub(crate) list_type: Option<String>,
    pub(crate) list_map_keys: Vec<String>,
    pub(crate) map_type: Option<String>,
    pub(crate) patch_strategy: Option<String>,
    pub(crate) patch_merge_key: Option<String>,
    /// `x-kubernetes-validations`, as written.
    pub(crate) validations: Vec<Value>,
}

/// `additionalProperties`.
#[derive(Clone, Debug, Default)]
pub(crate) enum Additional {
    /// Not written.
    #[default]
    Unset,
    /// `true` or `false`.
    Allowed(bool),
    /// Every further field is like this.
    Schema(Link),
}

/// The rules on a value itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct ValueRules {
    pub(crate) required: Vec<String>,
    pub(crate) enumeration: Vec<Value>,
    pub(crate) minimum: Option<f64>,
    pub(crate) maximum: Option<f64>,
    pub(crate) exclusive_minimum: bool,
    pub(crate) exclusive_maximum: bool,
    pub(crate) multiple_of: Option<f64>,
    pub(crate) min_length: Option<i64>,
    pub(crate) max_length: Option<i64>,
    pub(crate) min_items: Option<i64>,
    pub(crate) max_items: Option<i64>,
    pub(crate) min_properties: Option<i64>,
    pub(crate) max_properties: Option<i64>,
    pub(crate) unique_items: bool,
    /// The pattern as written, and compiled if it can be.
    pub(crate) pattern: Option<(String, Option<Regex>)>,
}

/// A way to a schema: it stands here, or it is a built-in definition that is read when first asked for (which keeps
/// start-up short, and is how a schema may contain itself).
#[derive(Clone, Debug)]
pub(crate) enum Link {
    Here(Arc<Schema>),
    Definition { name: Arc<str>, overlay: Arc<Overlay>, cell: Arc<OnceLock<Arc<Schema>>> },
}

/// What a field says on top of the definition it refers to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overlay {
    default: Option<Value>,
    map_type: Option<String>,
    patch_strategy: Option<String>,
}

impl Link {
    pub(crate) fn definition(name: &str) -> Link {
        Link::Definition { name: name.into(), overlay: Arc::default(), cell: Arc::default() }
    }

    /// Whether it is a point in time, which in Go is a struct.
    pub(crate) fn is_time(&self) -> bool {
        match self {
            Link::Here(_) => false,
            Link::Definition { name, .. } => {
                name.ends_with(".meta.v1.Time") || name.ends_with(".meta.v1.MicroTime")
            }
        }
    }

    /// The schema at the end of the way.
    pub(crate) fn get(&self) -> &Schema {
        match self {
            Link::Here(schema) => schema,
            Link::Definition { name, overlay, cell } => cell.get_or_init(|| {
                let found = super::builtin::definition(name);
                if overlay.default.is_none() && overlay.map_type.is_none() && overlay.patch_strategy.is_none()
                {
                    return found;
                }
                let mut schema = (*found).clone();
                schema.default.clone_from(&overlay.default);
                schema.patch_strategy.clone_from(&overlay.patch_strategy);
                if overlay.map_type.is_some() {
                    schema.map_type.clone_from(&overlay.map_type);
                }
                Arc::new(schema)
            }),
        }
    }
}

impl std::ops::Deref for Link {
    type Target = Schema;

    fn deref(&self) -> &Schema {
        self.get()
    }
}

impl Schema {
    /// Reads a schema. What it does not understand it leaves out: whether a CustomResourceDefinition may say it is checked
    /// elsewhere, with paths and words.
    pub fn parse(raw: &Value) -> Schema {
        parse_schema(raw, false)
    }

    /// The type it asks for.
    pub fn json_type(&self) -> Option<JsonType> {
        self.ty
    }

    /// The schema of a field that has a name of its own.
    pub fn property(&self, name: &str) -> Option<&Schema> {
        self.properties.get(name).map(Link::get)
    }

    /// Names and schemas of the named fields, sorted.
    pub fn properties(&self) -> impl Iterator<Item = (&str, &Schema)> {
        self.properties.iter().map(|(name, link)| (name.as_str(), link.get()))
    }

    /// The schema of fields that have no name of their own.
    pub fn additional(&self) -> Option<&Schema> {
        match &self.additional {
            Additional::Schema(link) => Some(link.get()),
            Additional::Unset | Additional::Allowed(_) => None,
        }
    }

    /// The schema of a field: by its name, else that of further fields.
    pub fn field(&self, name: &str) -> Option<&Schema> {
        // What a definition says of metadata only restricts names; how it merges is the same for all kinds.
        let meta = (self.embedded || self.resource_root).then(|| super::builtin::meta_field(name)).flatten();
        meta.or_else(|| self.property(name)).or_else(|| self.additional())
    }

    /// The schema of a list's items.
    pub fn item(&self) -> Option<&Schema> {
        self.items.as_ref().map(Link::get)
    }

    /// What the field has when nobody sets it.
    pub fn default_value(&self) -> Option<&Value> {
        self.default.as_ref()
    }

    /// Whether fields that no schema names are kept.
    pub fn preserves_unknown_fields(&self) -> bool {
        self.preserve_unknown
    }
}

pub(crate) fn parse_link(raw: &Value, merge_unknown: bool) -> Link {
    let reference = |raw: &Value| {
        raw.get("$ref").and_then(Value::as_str).and_then(|path| path.rsplit('/').next()).map(Arc::<str>::from)
    };
    let through_all_of = || match raw.get("allOf").and_then(Value::as_array).map(Vec::as_slice) {
        Some([only]) => reference(only),
        _ => None,
    };
    match reference(raw).or_else(through_all_of) {
        Some(name) => {
            let overlay = Overlay {
                default: raw.get("default").cloned(),
                map_type: text(raw, "x-kubernetes-map-type"),
                patch_strategy: text(raw, "x-kubernetes-patch-strategy"),
            };
            Link::Definition { name, overlay: Arc::new(overlay), cell: Arc::default() }
        }
        None => Link::Here(Arc::new(parse_schema(raw, merge_unknown))),
    }
}

pub(crate) fn text(raw: &Value, field: &str) -> Option<String> {
    raw.get(field).and_then(Value::as_str).map(str::to_owned)
}

pub(crate) fn flag(raw: &Value, field: &str) -> bool {
    raw.get(field).and_then(Value::as_bool).unwrap_or(false)
}

fn texts(raw: &Value, field: &str) -> Vec<String> {
    list(raw, field).filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

fn list<'a>(raw: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    raw.get(field).and_then(Value::as_array).into_iter().flatten()
}

fn parse_schema(raw: &Value, merge_unknown: bool) -> Schema {
    let preserve_unknown = flag(raw, "x-kubernetes-preserve-unknown-fields");
    let below = merge_unknown || preserve_unknown;
    let links = |field: &str| list(raw, field).map(|one| parse_link(one, below)).collect::<Vec<_>>();
    let empty = Map::new();
    let properties = raw.get("properties").and_then(Value::as_object).unwrap_or(&empty);
    Schema {
        ty: raw.get("type").and_then(Value::as_str).and_then(JsonType::parse),
        format: text(raw, "format"),
        nullable: flag(raw, "nullable"),
        default: raw.get("default").filter(|default| !default.is_null()).cloned(),
        properties: properties.iter().map(|(name, one)| (name.clone(), parse_link(one, below))).collect(),
        additional: match raw.get("additionalProperties") {
            None | Some(Value::Null) => Additional::Unset,
            Some(Value::Bool(allowed)) => Additional::Allowed(*allowed),
            Some(schema) => Additional::Schema(parse_link(schema, below)),
        },
        items: raw.get("items").filter(|items| items.is_object()).map(|items| parse_link(items, below)),
        rules: Arc::new(parse_rules(raw)),
        all_of: links("allOf"),
        any_of: links("anyOf"),
        one_of: links("oneOf"),
        not: raw.get("not").filter(|not| not.is_object()).map(|not| parse_link(not, below)),
        preserve_unknown,
        merge_unknown: below,
        embedded: flag(raw, "x-kubernetes-embedded-resource"),
        resource_root: false,
        int_or_string: flag(raw, "x-kubernetes-int-or-string"),
        quantity: false,
        raw_extension: false,
        omitted: BTreeSet::new(),
        list_type: text(raw, "x-kubernetes-list-type"),
        list_map_keys: texts(raw, "x-kubernetes-list-map-keys"),
        map_type: text(raw, "x-kubernetes-map-type"),
        patch_strategy: text(raw, "x-kubernetes-patch-strategy"),
        patch_merge_key: text(raw, "x-kubernetes-patch-merge-key"),
        validations: list(raw, "x-kubernetes-validations").cloned().collect(),
    }
}

fn parse_rules(raw: &Value) -> ValueRules {
    let float = |field: &str| raw.get(field).and_then(Value::as_f64);
    let int = |field: &str| raw.get(field).and_then(Value::as_i64);
    ValueRules {
        required: texts(raw, "required"),
        enumeration: list(raw, "enum").cloned().collect(),
        minimum: float("minimum"),
        maximum: float("maximum"),
        exclusive_minimum: flag(raw, "exclusiveMinimum"),
        exclusive_maximum: flag(raw, "exclusiveMaximum"),
        multiple_of: float("multipleOf"),
        min_length: int("minLength"),
        max_length: int("maxLength"),
        min_items: int("minItems"),
        max_items: int("maxItems"),
        min_properties: int("minProperties"),
        max_properties: int("maxProperties"),
        unique_items: flag(raw, "uniqueItems"),
        pattern: text(raw, "pattern").map(|pattern| {
            let compiled = Regex::new(&pattern).ok();
            (pattern, compiled)
        }),
    }
}
