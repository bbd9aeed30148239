//! What happens in a scenario: the words of its steps.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::checked;
use super::duration::HumanDuration;
use super::expected::Expect;
use super::kinds::{KindError, KindInfo, Kinds};

/// One thing that happens; after each the host runs until it is idle.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// Server-side apply by a user, forced.
    Apply(#[serde(deserialize_with = "checked::named_object")] Value),
    /// Create by a user.
    Create(#[serde(deserialize_with = "checked::object")] Value),
    /// Replace by a user.
    Replace(#[serde(deserialize_with = "checked::named_object")] Value),
    /// A merge patch by a user.
    Patch(PatchStep),
    /// A delete by a user.
    Delete(DeleteStep),
    /// Virtual time passes.
    Advance(HumanDuration),
    /// The host stops and starts again with nothing remembered.
    Restart(RestartTarget),
    /// Open watches end.
    CutWatches(CutStep),
    /// Kinds of these stand-ins appear.
    Install(Vec<String>),
    /// Kinds of these stand-ins vanish.
    Uninstall(Vec<String>),
    /// The plugin is replaced by itself under another digest.
    Swap(SwapTarget),
    /// A request of the host will fail.
    Fail(FailStep),
    /// What users do just before the host sends a certain write.
    Before(BeforeStep),
    /// A request of a user that the API server refuses.
    Refused(RefusedStep),
    /// Steps that happen so many times.
    Repeat(RepeatStep),
    /// Something happens in the outside world: a command to the twin of each named provider.
    Provider(BTreeMap<String, Value>),
    /// Everything is looked at again, so many times.
    Resync(u32),
    /// What must be so now.
    Expect(Box<Expect>),
}

/// So many steps may a scenario have, those of each turn of a `repeat` and each turn of a `resync` counted: the host runs to its
/// rest after each.
pub const STEPS_MAX: u64 = 10_000;

impl Step {
    /// The steps that it holds.
    pub fn within(&self) -> &[Step] {
        match self {
            Self::Before(before) => &before.steps,
            Self::Repeat(repeat) => &repeat.steps,
            Self::Refused(refused) => std::slice::from_ref(&*refused.step),
            _ => &[],
        }
    }

    /// How many steps it comes to; at least one, so that many of nothing are many.
    pub fn turns(&self) -> u64 {
        match self {
            Self::Resync(times) => u64::from(*times).max(1),
            Self::Repeat(repeat) => sum(repeat.steps.iter().map(Self::turns)).max(1),
            _ => 1,
        }
    }
}

/// As [`Step::turns`], for a step as it is written: what is too much is not even read.
fn written_turns(step: &Value) -> u64 {
    if let Some(repeat) = step.get("repeat") {
        let times = repeat.get("times").and_then(Value::as_u64).unwrap_or(1);
        let steps = repeat.get("steps").and_then(Value::as_array).into_iter().flatten();
        return times.saturating_mul(sum(steps.map(written_turns))).max(1);
    }
    step.get("resync").and_then(Value::as_u64).unwrap_or(1).max(1)
}

fn sum(turns: impl Iterator<Item = u64>) -> u64 {
    turns.fold(0, u64::saturating_add)
}

/// What `restart` starts anew.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RestartTarget {
    /// The host.
    Host,
}

/// What `swap` replaces.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SwapTarget {
    /// The plugin.
    Plugin,
}

/// An object by what tells it apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named<'a> {
    /// Needed where the kind alone is ambiguous.
    pub api_version: Option<&'a str>,
    /// The kind.
    pub kind: &'a str,
    /// The namespace, none for cluster-scoped kinds.
    pub namespace: Option<&'a str>,
    /// The name.
    pub name: &'a str,
}

impl<'a> Named<'a> {
    /// What tells a whole object apart.
    pub fn of(object: &'a Value) -> Self {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        Self {
            api_version: text("/apiVersion"),
            kind: text("/kind").unwrap_or_default(),
            namespace: text("/metadata/namespace"),
            name: text("/metadata/name").unwrap_or_default(),
        }
    }

    /// The kind that is meant.
    pub fn kind<'k>(&self, kinds: &'k Kinds) -> Result<&'k KindInfo, KindError> {
        kinds.find(self.api_version, self.kind)
    }
}

impl std::fmt::Display for Named<'_> {
    /// `Kind name`, or `Kind namespace/name`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.kind, self.name),
            None => write!(f, "{} {}", self.kind, self.name),
        }
    }
}

/// A part of a scenario that names an object and says something of it. The four fields that name it are written out by this
/// macro and not taken in by `serde(flatten)`, which reads them without their types and forgets the place of a mistake.
macro_rules! names_an_object {
    ($(#[$about:meta])* $part:ident { $($(#[$meta:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$about])*
        #[derive(Clone, Debug, serde::Deserialize)]
        #[serde(deny_unknown_fields, rename_all = "camelCase")]
        pub struct $part {
            /// Needed where the kind alone is ambiguous.
            #[serde(default)]
            pub api_version: Option<String>,
            /// The kind.
            pub kind: String,
            /// The namespace, none for cluster-scoped kinds.
            #[serde(default)]
            pub namespace: Option<String>,
            /// The name.
            #[serde(deserialize_with = "crate::scenario::checked::name")]
            pub name: String,
            $($(#[$meta])* pub $field: $type,)*
        }

        impl $part {
            /// The object that it names.
            pub fn named(&self) -> $crate::scenario::step::Named<'_> {
                $crate::scenario::step::Named {
                    api_version: self.api_version.as_deref(),
                    kind: &self.kind,
                    namespace: self.namespace.as_deref(),
                    name: &self.name,
                }
            }
        }
    };
}
pub(super) use names_an_object;

names_an_object! {
    /// A merge patch by a user.
    PatchStep {
        /// The merge patch.
        merge: Value,
        /// As in `status`.
        #[serde(default)]
        subresource: Option<String>,
        /// The field manager, `user` where absent.
        #[serde(default)]
        manager: Option<String>,
    }
}

names_an_object! {
    /// A delete by a user.
    DeleteStep {
        /// `background` where absent.
        #[serde(default)]
        propagation: Option<Propagation>,
    }
}

/// What becomes of dependents.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Propagation {
    /// Collected after.
    Background,
    /// Collected before.
    Foreground,
    /// Left alone.
    Orphan,
}

/// Which watches end.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct CutStep {
    /// Only those of this kind.
    #[serde(default)]
    pub kind: Option<String>,
}

/// A request that will fail.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct FailStep {
    /// The write, by its verb as in `writes`; any where absent. `get` and `list` are possible too.
    #[serde(default, deserialize_with = "checked::verb")]
    pub verb: Option<String>,
    /// The kind; any where absent.
    #[serde(default)]
    pub kind: Option<String>,
    /// The object's name; any where absent.
    #[serde(default)]
    pub name: Option<String>,
    /// HTTP status.
    #[serde(deserialize_with = "checked::code")]
    pub code: u16,
    /// Kubernetes' reason; follows from the code where absent.
    #[serde(default)]
    pub reason: Option<String>,
    /// The server's message.
    #[serde(default)]
    pub message: Option<String>,
    /// How often; once where absent.
    #[serde(default, deserialize_with = "checked::times")]
    pub times: Option<u32>,
    /// Whether the write is done all the same.
    #[serde(default)]
    pub effect: Effect,
}

/// What users do just before the next write of a name is sent.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct BeforeStep {
    /// The write, by its verb as in `writes`; any where absent. Those that change finalizers are patches, like `patch`.
    #[serde(default, deserialize_with = "checked::write_verb")]
    pub verb: Option<String>,
    /// The kind; any where absent.
    #[serde(default)]
    pub kind: Option<String>,
    /// Needed where the kind alone is ambiguous.
    #[serde(default)]
    pub api_version: Option<String>,
    /// The object's name; any where absent. A creation has none in its request.
    #[serde(default)]
    pub name: Option<String>,
    /// Steps that are requests of a user.
    #[serde(rename = "do")]
    pub steps: Vec<Step>,
}

/// A request that is refused.
#[derive(Clone, Debug)]
pub struct RefusedStep {
    /// The request, as a step.
    pub step: Box<Step>,
    /// The HTTP status of the refusal; any where absent.
    pub code: Option<u16>,
    /// A part of what the server says.
    pub message: Option<String>,
}

impl<'de> Deserialize<'de> for RefusedStep {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Written {
            #[serde(default)]
            apply: Option<Value>,
            #[serde(default)]
            create: Option<Value>,
            #[serde(default)]
            replace: Option<Value>,
            #[serde(default)]
            patch: Option<PatchStep>,
            #[serde(default)]
            delete: Option<DeleteStep>,
            #[serde(default)]
            code: Option<u16>,
            #[serde(default)]
            message: Option<String>,
        }
        let Written { apply, create, replace, patch, delete, code, message } =
            Written::deserialize(deserializer)?;
        let requests = [
            apply.map(Step::Apply),
            create.map(Step::Create),
            replace.map(Step::Replace),
            patch.map(Step::Patch),
            delete.map(Step::Delete),
        ];
        let mut requests = requests.into_iter().flatten();
        match (requests.next(), requests.next()) {
            (Some(step), None) => {
                match &step {
                    Step::Apply(object) | Step::Replace(object) => checked::is_named(object),
                    // What is wrong with its name may be what is tested.
                    Step::Create(object) => checked::is_object(object),
                    _ => Ok(()),
                }
                .map_err(serde::de::Error::custom)?;
                Ok(Self { step: Box::new(step), code, message })
            }
            _ => Err(serde::de::Error::custom(
                "one request is refused: apply, create, replace, patch or delete",
            )),
        }
    }
}

/// A write of the host by its words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteName {
    /// The verb; any where absent.
    pub verb: Option<String>,
    /// The object's name; any where absent.
    pub name: Option<String>,
}

/// How often steps may be repeated: each runs the host to its rest.
pub const REPEAT_MAX: u32 = 10_000;

/// Steps that happen several times, the number of the turn in the place of `{n}`.
#[derive(Clone, Debug)]
pub struct RepeatStep {
    /// The steps of each turn, one after another.
    pub steps: Vec<Step>,
}

impl<'de> Deserialize<'de> for RepeatStep {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Written {
            times: u32,
            steps: Vec<Value>,
        }
        let Written { times, steps } = Written::deserialize(deserializer)?;
        let all = u64::from(times).saturating_mul(sum(steps.iter().map(written_turns)));
        if all > STEPS_MAX {
            let told = format!("repeat: its turns come to {all} steps; a scenario may have {STEPS_MAX}");
            return Err(serde::de::Error::custom(told));
        }
        let expanded = expand(times, &steps).map_err(serde::de::Error::custom)?;
        let steps = expanded.into_iter().map(serde_json::from_value).collect::<Result<_, _>>();
        Ok(Self { steps: steps.map_err(serde::de::Error::custom)? })
    }
}

/// So many copies of values, with the number of the copy, from 1, in the place of `{n}` in every text.
pub fn expand(times: u32, values: &[Value]) -> Result<Vec<Value>, String> {
    if times > REPEAT_MAX {
        return Err(format!("times: {times} is more than {REPEAT_MAX}"));
    }
    let mut expanded = Vec::new();
    for turn in 1..=times {
        let number = turn.to_string();
        expanded.extend(values.iter().map(|value| numbered(value, &number)));
    }
    Ok(expanded)
}

fn numbered(value: &Value, number: &str) -> Value {
    match value {
        Value::String(text) => text.replace("{n}", number).into(),
        Value::Array(items) => items.iter().map(|item| numbered(item, number)).collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| (key.replace("{n}", number), numbered(value, number)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        other => other.clone(),
    }
}

/// Whether a failing request takes effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// It does not.
    #[default]
    None,
    /// It does; only the answer is lost.
    Written,
}
