//! What a scenario expects: the words below `expect`.

use std::collections::BTreeMap;

use evenkeel_core::contract::FailureKind;
use evenkeel_sandbox::schema::Expression;
use serde::Deserialize;
use serde_json::Value;

use super::checked;
use super::duration::HumanDuration;
use super::step::{Named, names_an_object};

/// What must be so.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Expect {
    /// Exactly these writes since the last look, in order.
    pub writes: Option<Vec<String>>,
    /// These writes since the last look, in this order, others between.
    pub writes_include: Option<Vec<String>>,
    /// None of these writes since the last look.
    pub writes_exclude: Option<Vec<String>>,
    /// No write since the last look, and none after two more resyncs.
    pub quiet: bool,
    /// Objects that are there with at least these fields.
    #[serde(deserialize_with = "checked::expected_objects")]
    pub objects: Vec<Value>,
    /// Objects that are not there.
    pub absent: Vec<ObjectName>,
    /// Fields that are not there.
    pub fields_absent: Vec<FieldsAbsent>,
    /// Rules that hold.
    pub assert: Vec<Assertion>,
    /// Events published since the start.
    pub events: Vec<ExpectedEvent>,
    /// Reasons of which no Event was published.
    pub no_events: Vec<String>,
    /// Texts that occur in no output: no written object, event, journal or log line.
    pub text_absent: Vec<String>,
    /// When the last pass of a key asked to be run again.
    pub requeue: Option<ExpectedRequeue>,
    /// How the last pass of a key failed.
    pub failed: Option<ExpectedFailure>,
    /// Calls of the plugin since the last look.
    pub calls: Option<ExpectedCalls>,
    /// What must be so in the outside world: for the twin of each named provider, in that twin's own words.
    pub provider: BTreeMap<String, Value>,
}

names_an_object! {
    /// An object named by kind and name.
    ObjectName {}
}

names_an_object! {
    /// Fields that are not there.
    FieldsAbsent {
        /// JSON pointers.
        #[serde(deserialize_with = "crate::scenario::checked::pointers")]
        pointers: Vec<String>,
    }
}

/// A rule in CEL that holds for an object, or for all objects of a kind.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Assertion {
    /// Needed where the kind alone is ambiguous.
    #[serde(default)]
    pub api_version: Option<String>,
    /// The kind.
    pub kind: String,
    /// The namespace; for a list every one where absent.
    #[serde(default)]
    pub namespace: Option<String>,
    /// The name. Where it is absent `self` is the list of the objects, in the order of their namespaces and names.
    #[serde(default)]
    pub name: Option<String>,
    /// The rule: `self` is the object or the list, `now` the time.
    pub that: Rule,
    /// What to say where it does not hold.
    #[serde(default)]
    pub message: Option<String>,
}

impl Assertion {
    /// What it is about, in words.
    pub fn about(&self) -> String {
        match (&self.name, &self.namespace) {
            (Some(name), namespace) => {
                let named = Named {
                    api_version: self.api_version.as_deref(),
                    kind: &self.kind,
                    namespace: namespace.as_deref(),
                    name,
                };
                named.to_string()
            }
            (None, Some(namespace)) => format!("all {} in {namespace}", self.kind),
            (None, None) => format!("all {}", self.kind),
        }
    }
}

/// What a rule may name.
pub const RULE_NAMES: [&str; 2] = ["self", "now"];

/// A rule that was compiled when the file was read, so that a mistake is told with its place.
#[derive(Clone, Debug)]
pub struct Rule {
    /// As it was written.
    pub text: String,
    /// As it runs.
    pub expression: Expression,
}

impl<'de> Deserialize<'de> for Rule {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        match Expression::compile(&text, &RULE_NAMES) {
            Ok(expression) => Ok(Self { text, expression }),
            Err(mistake) => Err(serde::de::Error::custom(format!("no rule in CEL: {mistake}"))),
        }
    }
}

/// Calls of the plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExpectedCalls {
    /// By all controllers together.
    Sum(u64),
    /// By each of these.
    ByController(BTreeMap<String, u64>),
}

impl<'de> Deserialize<'de> for ExpectedCalls {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Calls;

        impl<'de> serde::de::Visitor<'de> for Calls {
            type Value = ExpectedCalls;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a number, or a number for each controller")
            }

            fn visit_u64<E: serde::de::Error>(self, calls: u64) -> Result<ExpectedCalls, E> {
                Ok(ExpectedCalls::Sum(calls))
            }

            fn visit_i64<E: serde::de::Error>(self, calls: i64) -> Result<ExpectedCalls, E> {
                let negative = || E::invalid_value(serde::de::Unexpected::Signed(calls), &self);
                u64::try_from(calls).map(ExpectedCalls::Sum).map_err(|_| negative())
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<ExpectedCalls, A::Error> {
                let mut calls = BTreeMap::new();
                while let Some((controller, number)) = map.next_entry()? {
                    calls.insert(controller, number);
                }
                Ok(ExpectedCalls::ByController(calls))
            }
        }

        deserializer.deserialize_any(Calls)
    }
}

/// How a pass failed.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ExpectedFailure {
    /// The controller.
    pub controller: String,
    /// `name` or `namespace/name`.
    pub key: String,
    /// What kind of failure it is.
    #[serde(default)]
    pub kind: Option<FailureKind>,
    /// A part of its message.
    #[serde(default)]
    pub message: Option<String>,
}

/// An Event that was published.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ExpectedEvent {
    /// Its reason.
    pub reason: String,
    /// `Normal` or `Warning`.
    #[serde(default, rename = "type")]
    pub severity: Option<String>,
    /// `Kind name` or `Kind namespace/name`.
    #[serde(default)]
    pub about: Option<String>,
    /// A part of its message.
    #[serde(default)]
    pub message: Option<String>,
    /// How many of these there are, each counted once however often it happened; any number but none where absent.
    #[serde(default)]
    pub count: Option<usize>,
}

/// When a key is run again.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ExpectedRequeue {
    /// The controller.
    pub controller: String,
    /// `name` or `namespace/name`.
    pub key: String,
    /// After this long; `none` for not at all.
    pub after: RequeueAfter,
}

/// A time to wait, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequeueAfter(pub Option<HumanDuration>);

impl std::fmt::Display for RequeueAfter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(after) => after.fmt(f),
            None => f.write_str("none"),
        }
    }
}

impl<'de> Deserialize<'de> for RequeueAfter {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text == "none" {
            Ok(Self(None))
        } else {
            text.parse().map(|d| Self(Some(d))).map_err(serde::de::Error::custom)
        }
    }
}
