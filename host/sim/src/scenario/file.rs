//! What a scenario file says. Parsing does no more than that: kinds are resolved and objects checked when it runs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use super::duration::HumanDuration;

/// Files of at most this size are read: a scenario is for people.
pub const SCENARIO_BYTES_MAX: u64 = 4 << 20;

/// How deep files may include each other.
pub const INCLUDE_DEPTH_MAX: usize = 8;

/// One scenario: a story with its expected outcome.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Scenario {
    /// What is shown, in one sentence.
    #[serde(default)]
    pub scenario: String,
    /// The specification and number that it comes from.
    #[serde(default)]
    pub spec: Option<String>,
    /// Files of the same folder whose `given` and settings come first.
    #[serde(default)]
    pub include: Vec<String>,
    /// Stand-ins whose kinds are served.
    #[serde(default)]
    pub installed: Option<Vec<String>>,
    /// Whether the stand-ins act by themselves.
    #[serde(default)]
    pub stages: Option<bool>,
    /// Only these controllers of the plugin run; all where it is absent.
    #[serde(default)]
    pub controllers: Option<Vec<String>>,
    /// Where virtual time starts, RFC 3339.
    #[serde(default)]
    pub clock: Option<String>,
    /// The plugin's config.
    #[serde(default)]
    pub config: Option<Value>,
    /// Objects in place before the host starts, as they are written.
    #[serde(default)]
    pub given: Vec<Value>,
    /// What happens, in order.
    #[serde(default)]
    pub steps: Vec<Step>,
}

/// One thing that happens; after each the host runs until it is idle.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// Server-side apply by a user, forced.
    Apply(Value),
    /// Create by a user.
    Create(Value),
    /// Replace by a user.
    Replace(Value),
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
    /// Everything is looked at again, so many times.
    Resync(u32),
    /// What must be so now.
    Expect(Box<Expect>),
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

/// An object named by kind and name.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ObjectName {
    /// Needed where the kind alone is ambiguous.
    #[serde(default)]
    pub api_version: Option<String>,
    /// The kind.
    pub kind: String,
    /// The namespace, none for cluster-scoped kinds.
    #[serde(default)]
    pub namespace: Option<String>,
    /// The name.
    pub name: String,
}

/// A merge patch by a user.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PatchStep {
    /// Needed where the kind alone is ambiguous.
    #[serde(default)]
    pub api_version: Option<String>,
    /// The kind.
    pub kind: String,
    /// The namespace.
    #[serde(default)]
    pub namespace: Option<String>,
    /// The name.
    pub name: String,
    /// The merge patch.
    pub merge: Value,
    /// As in `status`.
    #[serde(default)]
    pub subresource: Option<String>,
    /// The field manager, `user` where absent.
    #[serde(default)]
    pub manager: Option<String>,
}

/// A delete by a user.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct DeleteStep {
    /// Needed where the kind alone is ambiguous.
    #[serde(default)]
    pub api_version: Option<String>,
    /// The kind.
    pub kind: String,
    /// The namespace.
    #[serde(default)]
    pub namespace: Option<String>,
    /// The name.
    pub name: String,
    /// `background` where absent.
    #[serde(default)]
    pub propagation: Option<Propagation>,
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
    #[serde(default)]
    pub verb: Option<String>,
    /// The kind; any where absent.
    #[serde(default)]
    pub kind: Option<String>,
    /// The object's name; any where absent.
    #[serde(default)]
    pub name: Option<String>,
    /// HTTP status.
    pub code: u16,
    /// Kubernetes' reason; follows from the code where absent.
    #[serde(default)]
    pub reason: Option<String>,
    /// The server's message.
    #[serde(default)]
    pub message: Option<String>,
    /// How often; once where absent.
    #[serde(default)]
    pub times: Option<u32>,
    /// Whether the write is done all the same.
    #[serde(default)]
    pub effect: Effect,
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
    pub objects: Vec<Value>,
    /// Objects that are not there.
    pub absent: Vec<ObjectName>,
    /// Fields that are not there.
    pub fields_absent: Vec<FieldsAbsent>,
    /// Events published since the start.
    pub events: Vec<ExpectedEvent>,
    /// Reasons of which no Event was published.
    pub no_events: Vec<String>,
    /// Texts that occur in no output: no written object, event or journal line.
    pub text_absent: Vec<String>,
    /// When the last pass of a key asked to be run again.
    pub requeue: Option<ExpectedRequeue>,
    /// Calls of the plugin since the last look.
    pub calls: Option<u64>,
}

/// Fields that are not there.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct FieldsAbsent {
    /// Needed where the kind alone is ambiguous.
    #[serde(default)]
    pub api_version: Option<String>,
    /// The kind.
    pub kind: String,
    /// The namespace.
    #[serde(default)]
    pub namespace: Option<String>,
    /// The name.
    pub name: String,
    /// JSON pointers.
    pub pointers: Vec<String>,
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

/// Why a scenario file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        cause: std::io::Error,
    },
    /// It is too large.
    #[error("{path} has {bytes} bytes; a scenario file may have {SCENARIO_BYTES_MAX}")]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// It is no scenario.
    #[error("{path}:{line}:{column}: {message}")]
    Parse {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: u64,
        /// Column, from 1.
        column: u64,
        /// What is wrong.
        message: String,
    },
    /// It includes itself, or too deeply.
    #[error("{path} includes files more than {INCLUDE_DEPTH_MAX} deep: does one include itself?")]
    IncludeDepth {
        /// The file.
        path: PathBuf,
    },
    /// It includes a file outside its folder.
    #[error("{path} includes {include:?}: only names of files in the same folder may be included")]
    IncludePath {
        /// The file.
        path: PathBuf,
        /// The name given.
        include: String,
    },
    /// It tells no story.
    #[error("{path}: a scenario needs `scenario:` (one sentence) and at least one step")]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

/// Parses one file's text; `path` is for messages only.
pub fn parse(path: &Path, text: &str) -> Result<Scenario, FileError> {
    serde_saphyr::from_str(text).map_err(|error| {
        let (line, column) =
            error.location().map_or((1, 1), |at| (u64::from(at.line()), u64::from(at.column())));
        // The first line of the text is the error; the rest is a snippet, and starts with the place that we give ourselves.
        let text = error.to_string();
        let first = text.lines().next().unwrap_or_default();
        let message = first
            .split_once(": ")
            .filter(|_| first.starts_with("error: line"))
            .map_or(first, |(_, rest)| rest);
        let message = message
            .split_once(": ")
            .filter(|_| message.starts_with("line "))
            .map_or(message, |(_, rest)| rest);
        FileError::Parse { path: path.to_owned(), line, column, message: message.to_owned() }
    })
}

/// Reads a scenario with all that it includes.
pub fn load(path: &Path) -> Result<Scenario, FileError> {
    let scenario = load_part(path, 0)?;
    if scenario.scenario.trim().is_empty() || scenario.steps.is_empty() {
        return Err(FileError::Empty { path: path.to_owned() });
    }
    Ok(scenario)
}

fn load_part(path: &Path, depth: usize) -> Result<Scenario, FileError> {
    if depth > INCLUDE_DEPTH_MAX {
        return Err(FileError::IncludeDepth { path: path.to_owned() });
    }
    let read = |cause| FileError::Read { path: path.to_owned(), cause };
    let bytes = std::fs::metadata(path).map_err(read)?.len();
    if bytes > SCENARIO_BYTES_MAX {
        return Err(FileError::TooLarge { path: path.to_owned(), bytes });
    }
    let own = parse(path, &std::fs::read_to_string(path).map_err(read)?)?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut merged: Option<Scenario> = None;
    for include in &own.include {
        if include.contains(['/', '\\']) || include == ".." {
            return Err(FileError::IncludePath { path: path.to_owned(), include: include.clone() });
        }
        let part = load_part(&folder.join(include), depth + 1)?;
        merged = Some(match merged {
            Some(base) => merge(base, part),
            None => part,
        });
    }
    Ok(match merged {
        Some(base) => merge(base, own),
        None => own,
    })
}

/// `over` on top of `base`: settings replace, given objects of the same identity replace, the rest is added.
fn merge(base: Scenario, over: Scenario) -> Scenario {
    let replaced: BTreeSet<_> = over.given.iter().map(identity).collect();
    let mut given: Vec<Value> =
        base.given.into_iter().filter(|object| !replaced.contains(&identity(object))).collect();
    given.extend(over.given);
    let mut steps = base.steps;
    steps.extend(over.steps);
    Scenario {
        scenario: over.scenario,
        spec: over.spec.or(base.spec),
        include: over.include,
        installed: over.installed.or(base.installed),
        stages: over.stages.or(base.stages),
        controllers: over.controllers.or(base.controllers),
        clock: over.clock.or(base.clock),
        config: over.config.or(base.config),
        given,
        steps,
    }
}

fn identity(object: &Value) -> [String; 4] {
    ["/apiVersion", "/kind", "/metadata/namespace", "/metadata/name"]
        .map(|pointer| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned())
}

/// All scenario files at `paths`: files as they are, folders by their `*.yaml` in order; files that only serve to be
/// included (no steps) are left out of folders.
pub fn discover(paths: &[PathBuf]) -> Result<Vec<PathBuf>, FileError> {
    let mut found = Vec::new();
    for path in paths {
        let read = |cause| FileError::Read { path: path.clone(), cause };
        if !std::fs::metadata(path).map_err(read)?.is_dir() {
            found.push(path.clone());
            continue;
        }
        let mut inside = Vec::new();
        for entry in std::fs::read_dir(path).map_err(read)? {
            let entry = entry.map_err(read)?.path();
            if entry.is_file() && entry.extension().is_some_and(|ext| ext == "yaml" || ext == "yml") {
                inside.push(entry);
            }
        }
        inside.sort();
        for file in inside {
            let text = std::fs::read_to_string(&file)
                .map_err(|cause| FileError::Read { path: file.clone(), cause })?;
            // A file that does not parse is a scenario with an error, not one to skip.
            if parse(&file, &text).map_or(true, |part| !part.steps.is_empty() || !part.scenario.is_empty()) {
                found.push(file);
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text is refused with a message that begins so.
    fn refused(text: &str, begins: &str) {
        let error = parse(Path::new("a.yaml"), text).expect_err("it is refused").to_string();
        assert!(error.starts_with(begins), "{error}");
    }

    #[test]
    fn a_typing_error_in_a_step_is_told_with_line_and_column() {
        refused("scenario: a\nsteps:\n  - aply: {}\n", "a.yaml:3:5: unknown variant `aply`");
    }

    #[test]
    fn a_typing_error_in_an_expectation_is_told_with_line_and_column() {
        refused("scenario: a\nsteps:\n  - expect: {writs: []}\n", "a.yaml:3:14: unknown field `writs`");
    }

    #[test]
    fn a_step_is_one_thing() {
        refused("scenario: a\nsteps:\n  - {advance: 1s, resync: 2}\n", "a.yaml:3:");
    }

    #[test]
    fn a_duration_without_a_unit_is_refused() {
        refused("scenario: a\nsteps:\n  - advance: fast\n", "a.yaml:");
    }

    #[test]
    fn the_short_steps_read_as_they_are_written() {
        let text = "scenario: a\nsteps: [{advance: 30s}, {restart: host}, {cut-watches: {}}, {resync: 2}]\n";
        let scenario = parse(Path::new("a.yaml"), text).expect("it reads");
        assert!(matches!(
            scenario.steps.as_slice(),
            [Step::Advance(_), Step::Restart(RestartTarget::Host), Step::CutWatches(_), Step::Resync(2)]
        ));
    }
}
