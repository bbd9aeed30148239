//! Stages: when an object looks like this, after a while, do that.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::template::{Template, TemplateError};
use crate::schema::jsonpath::{JsonPath, JsonPathError};

/// Stages in the order in which they are tried: the first that fits an object is taken.
#[derive(Clone, Debug, Default)]
pub struct Stages {
    pub(super) stages: Vec<Stage>,
}

/// One stage.
#[derive(Clone, Debug)]
pub struct Stage {
    /// What it is, in a sentence.
    pub name: String,
    /// Kinds of objects that it is for.
    pub kind: KindRef,
    pub(super) when: Vec<Condition>,
    pub(super) after: Duration,
    pub(super) next: Vec<Step>,
}

/// A kind by its names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KindRef {
    /// As in `apps/v1`.
    pub api_version: String,
    /// As in `Deployment`.
    pub kind: String,
}

/// What must hold of the object, or of another one.
#[derive(Clone, Debug)]
pub(super) struct Condition {
    pub(super) of: Option<Other>,
    pub(super) subject: Subject,
    pub(super) test: Test,
}

#[derive(Clone, Debug)]
pub(super) enum Subject {
    /// The object as such.
    Whole,
    Path(JsonPath),
    Template(Template),
}

#[derive(Clone, Debug)]
pub(super) struct Other {
    pub(super) kind: KindRef,
    pub(super) namespace: Option<Template>,
    pub(super) name: Template,
}

#[derive(Clone, Debug)]
pub(super) enum Test {
    Present,
    Absent,
    In(Vec<Value>),
    NotIn(Vec<Value>),
    Has(Value),
    Lacks(Value),
}

/// One thing to do.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Merge into the status.
    Status(Template),
    /// Make another object, unless it is there.
    Create(Template),
    /// Delete the object itself, or another.
    Delete(Option<Other>),
    Finalizers {
        add: Vec<String>,
        remove: Vec<String>,
    },
    Event {
        warning: bool,
        reason: String,
        message: Template,
    },
    /// Merge into the object.
    Patch(Template),
}

/// A stages file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StagesError {
    /// Not YAML, or not stages.
    #[error("{file}:{line}:{column}: {message}")]
    Syntax {
        /// The file's name, as given.
        file: String,
        /// From 1.
        line: u64,
        /// From 1.
        column: u64,
        /// What is wrong.
        message: String,
    },
    /// A path that cannot be read.
    #[error("{file}: stage {stage:?}")]
    Path {
        /// The file's name, as given.
        file: String,
        /// The stage's name.
        stage: String,
        /// What is wrong with the path.
        #[source]
        cause: JsonPathError,
    },
    /// A template that cannot be read.
    #[error("{file}: stage {stage:?}")]
    Template {
        /// The file's name, as given.
        file: String,
        /// The stage's name.
        stage: String,
        /// What is wrong with the template.
        #[source]
        cause: TemplateError,
    },
    /// A stage that says something twice, or nothing.
    #[error("{file}: stage {stage:?}: {what}")]
    Meaning {
        /// The file's name, as given.
        file: String,
        /// The stage's name.
        stage: String,
        /// What is wrong.
        what: &'static str,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    stages: Vec<RawStage>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawStage {
    name: String,
    kind: KindRef,
    #[serde(default)]
    when: Vec<RawCondition>,
    #[serde(default)]
    after: Option<String>,
    next: Vec<RawStep>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct RawCondition {
    of: Option<RawOther>,
    path: Option<String>,
    is: Option<Presence>,
    #[serde(rename = "in")]
    one_of: Option<Vec<Value>>,
    not_in: Option<Vec<Value>>,
    has: Option<Value>,
    lacks: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Presence {
    Present,
    Absent,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawOther {
    api_version: String,
    kind: String,
    namespace: Option<String>,
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum RawStep {
    Status(Value),
    Create(Value),
    Delete(Option<RawOther>),
    Finalizers(RawFinalizers),
    Event(RawEvent),
    Patch(Value),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFinalizers {
    #[serde(default)]
    add: Vec<String>,
    #[serde(default)]
    remove: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEvent {
    #[serde(rename = "type")]
    kind: EventType,
    reason: String,
    message: String,
}

#[derive(Deserialize)]
enum EventType {
    Normal,
    Warning,
}

impl Stages {
    /// The stages of our own stand-ins: KubeVirt's and CDI's.
    pub fn builtin() -> Stages {
        let mut all = Stages::default();
        for (name, text) in [
            ("cdi.stages.yaml", include_str!("cdi.stages.yaml")),
            ("kubevirt.stages.yaml", include_str!("kubevirt.stages.yaml")),
        ] {
            match Stages::parse(name, text) {
                Ok(stages) => all = all.and(stages),
                Err(error) => unreachable!("our own stages are read by a test: {error}"),
            }
        }
        all
    }

    /// Reads a stages file.
    pub fn parse(file: &str, text: &str) -> Result<Stages, StagesError> {
        let raw: RawFile = serde_saphyr::from_str(text).map_err(|error| {
            let place = error.location();
            StagesError::Syntax {
                file: file.to_owned(),
                line: place.as_ref().map_or(1, serde_saphyr::Location::line),
                column: place.as_ref().map_or(1, serde_saphyr::Location::column),
                message: first_line(&error.to_string()),
            }
        })?;
        let stages = raw.stages.into_iter().map(|stage| read_stage(file, stage)).collect::<Result<_, _>>()?;
        Ok(Stages { stages })
    }

    /// These, then those: of two that fit, the earlier is taken.
    #[must_use]
    pub fn and(mut self, later: Stages) -> Stages {
        self.stages.extend(later.stages);
        self
    }

    /// All stages, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Stage> {
        self.stages.iter()
    }
}

/// The message without the place (which we show ourselves) and without the picture of the lines around it.
fn first_line(message: &str) -> String {
    let line = message.lines().find(|line| !line.trim().is_empty()).unwrap_or(message).trim();
    let line = line.strip_prefix("error: ").unwrap_or(line);
    match line.split_once(": ") {
        Some((place, message)) if place.starts_with("line ") && place.contains(" column ") => {
            message.to_owned()
        }
        _ => line.to_owned(),
    }
}

fn read_stage(file: &str, raw: RawStage) -> Result<Stage, StagesError> {
    let reader = Reader { file, stage: &raw.name };
    let when = raw.when.into_iter().map(|one| reader.condition(one)).collect::<Result<_, _>>()?;
    let next = raw.next.into_iter().map(|one| reader.step(one)).collect::<Result<_, _>>()?;
    let after = match raw.after.as_deref() {
        None => Duration::ZERO,
        Some(text) => reader.duration(text)?,
    };
    Ok(Stage { kind: raw.kind, when, after, next, name: raw.name })
}

struct Reader<'a> {
    file: &'a str,
    stage: &'a str,
}

impl Reader<'_> {
    fn meaning(&self, what: &'static str) -> StagesError {
        StagesError::Meaning { file: self.file.to_owned(), stage: self.stage.to_owned(), what }
    }

    fn template(&self, value: &Value) -> Result<Template, StagesError> {
        Template::parse(value).map_err(|cause| StagesError::Template {
            file: self.file.to_owned(),
            stage: self.stage.to_owned(),
            cause,
        })
    }

    fn text(&self, text: &str) -> Result<Template, StagesError> {
        self.template(&Value::from(text))
    }

    fn duration(&self, text: &str) -> Result<Duration, StagesError> {
        let unsure = || self.meaning("`after` is a duration such as `2s`, `500ms` or `1m`");
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let number: u64 = number.parse().map_err(|_| unsure())?;
        match unit {
            "ms" => Ok(Duration::from_millis(number)),
            "s" => Ok(Duration::from_secs(number)),
            "m" => Ok(Duration::from_secs(number.saturating_mul(60))),
            "h" => Ok(Duration::from_secs(number.saturating_mul(3600))),
            _ => Err(unsure()),
        }
    }

    fn other(&self, raw: RawOther) -> Result<Other, StagesError> {
        Ok(Other {
            kind: KindRef { api_version: raw.api_version, kind: raw.kind },
            namespace: raw.namespace.map(|text| self.text(&text)).transpose()?,
            name: self.text(&raw.name)?,
        })
    }

    fn condition(&self, raw: RawCondition) -> Result<Condition, StagesError> {
        let subject = match raw.path {
            None if raw.of.is_some() => Subject::Whole,
            None => return Err(self.meaning("a condition needs a `path`, or another object (`of`)")),
            Some(text) if text.contains("{{") => Subject::Template(self.text(&text)?),
            Some(text) => Subject::Path(JsonPath::parse(&text).map_err(|cause| StagesError::Path {
                file: self.file.to_owned(),
                stage: self.stage.to_owned(),
                cause,
            })?),
        };
        let mut tests = Vec::new();
        tests.extend(raw.is.map(|presence| match presence {
            Presence::Present => Test::Present,
            Presence::Absent => Test::Absent,
        }));
        tests.extend(raw.one_of.map(Test::In));
        tests.extend(raw.not_in.map(Test::NotIn));
        tests.extend(raw.has.map(Test::Has));
        tests.extend(raw.lacks.map(Test::Lacks));
        if tests.len() > 1 {
            return Err(self.meaning("a condition has one of `is`, `in`, `not-in`, `has` and `lacks`"));
        }
        let test = tests
            .pop()
            .ok_or_else(|| self.meaning("a condition needs `is`, `in`, `not-in`, `has` or `lacks`"))?;
        Ok(Condition { of: raw.of.map(|other| self.other(other)).transpose()?, subject, test })
    }

    fn step(&self, raw: RawStep) -> Result<Step, StagesError> {
        Ok(match raw {
            RawStep::Status(value) => Step::Status(self.template(&value)?),
            RawStep::Create(value) => Step::Create(self.template(&value)?),
            RawStep::Patch(value) => Step::Patch(self.template(&value)?),
            RawStep::Delete(other) => Step::Delete(other.map(|other| self.other(other)).transpose()?),
            RawStep::Finalizers(RawFinalizers { add, remove }) => Step::Finalizers { add, remove },
            RawStep::Event(RawEvent { kind, reason, message }) => Step::Event {
                warning: matches!(kind, EventType::Warning),
                reason,
                message: self.text(&message)?,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(text: &str, expect: Expect) {
        let shown = match Stages::parse("my.stages.yaml", text) {
            Ok(stages) => format!("{} stages", stages.stages.len()),
            Err(error) => {
                let mut shown = error.to_string();
                let mut cause = std::error::Error::source(&error);
                while let Some(error) = cause {
                    shown.push_str(&format!(": {error}"));
                    cause = error.source();
                }
                shown
            }
        };
        expect.assert_eq(&shown);
    }

    #[test]
    fn our_own_stages_are_read() {
        assert!(Stages::builtin().iter().count() > 20);
    }

    #[test]
    fn a_mistake_is_shown_with_its_place() {
        check(
            "stages:\n- name: a\n  kind: {apiVersion: v1, kind: Pod}\n  wen: []\n  next: []\n",
            expect!["my.stages.yaml:4:3: unknown field `wen`, expected one of name, kind, when, after, next"],
        );
        check(
            "stages:\n- name: a\n  kind: {apiVersion: v1, kind: Pod}\n  next:\n  - jump: {}\n",
            expect![
                "my.stages.yaml:5:5: unknown variant `jump`, expected one of status, create, delete, finalizers, event, patch"
            ],
        );
        check("stages: [\n", expect!["my.stages.yaml:1:9: unclosed bracket '['"]);
    }

    #[test]
    fn a_stage_that_means_nothing_is_named() {
        let stage = |when: &str| {
            format!(
                "stages:\n- name: a\n  kind: {{apiVersion: v1, kind: Pod}}\n  when: [{when}]\n  next: []\n"
            )
        };
        check(
            &stage("{path: .a}"),
            expect![[
                r#"my.stages.yaml: stage "a": a condition needs `is`, `in`, `not-in`, `has` or `lacks`"#
            ]],
        );
        check(
            &stage("{path: .a, is: absent, in: [b]}"),
            expect![[
                r#"my.stages.yaml: stage "a": a condition has one of `is`, `in`, `not-in`, `has` and `lacks`"#
            ]],
        );
        check(
            &stage("{path: '.a[', is: absent}"),
            expect![[r#"my.stages.yaml: stage "a": expected an index at character 3 of ".a[""#]],
        );
        check(
            &stage("{path: '{{ .a', is: absent}"),
            expect![[r#"my.stages.yaml: stage "a": a hole is not closed in "{{ .a""#]],
        );
        check(&stage("{path: .a, is: absent}"), expect!["1 stages"]);
    }
}
