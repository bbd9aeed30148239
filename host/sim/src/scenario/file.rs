//! What a scenario file says. Parsing does no more than that: kinds are resolved and objects checked when it runs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::Deserialize;
use serde_json::Value;

use super::checked;
use super::expected::Assertion;
use super::step::{STEPS_MAX, Step, expand};
use super::yaml;

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
    #[serde(default, deserialize_with = "checked::config")]
    pub config: Option<Value>,
    /// What the operator allows the plugin, in the words of a settings file; all that it asks for where absent.
    #[serde(default, deserialize_with = "checked::grant")]
    pub grant: Option<Value>,
    /// The outside world: a twin for each named provider, from a configuration in that twin's own words.
    #[serde(default)]
    pub providers: BTreeMap<String, Value>,
    /// Objects in place before the host starts, as they are written.
    #[serde(default, deserialize_with = "checked::named_objects")]
    pub given: Vec<Value>,
    /// More of them, by number.
    #[serde(default)]
    pub given_many: Option<GivenMany>,
    /// Rules that hold after each step.
    #[serde(default)]
    pub always: Vec<Assertion>,
    /// What happens, in order.
    #[serde(default)]
    pub steps: Vec<Step>,
}

/// Objects that differ in a number only.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct GivenMany {
    /// So many of each.
    pub times: u32,
    /// The objects, with `{n}` for the number, from 1.
    #[serde(deserialize_with = "checked::named_objects")]
    pub objects: Vec<Value>,
}

impl Scenario {
    /// Whether an expectation asks for texts in all that is put out.
    pub fn asks_about_text(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Expect(expect) if !expect.text_absent.is_empty()))
    }

    /// The CustomResourceDefinitions that it brings itself, given or in any of its steps.
    pub fn definitions(&self) -> Vec<&Value> {
        fn sent<'a>(step: &'a Step, all: &mut Vec<&'a Value>) {
            match step {
                Step::Apply(object) | Step::Create(object) | Step::Replace(object) => all.push(object),
                step => step.within().iter().for_each(|step| sent(step, all)),
            }
        }
        let mut all: Vec<&Value> = self.given.iter().collect();
        self.steps.iter().for_each(|step| sent(step, &mut all));
        all.retain(|object| object.get("kind").is_some_and(|kind| kind == "CustomResourceDefinition"));
        all
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
    /// It gives more objects than there may be.
    #[error("{path}: given-many: {reason}")]
    GivenMany {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// It tells no story.
    #[error("{path}: a scenario needs `scenario:` (one sentence) and at least one step")]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// It goes on for too long.
    #[error("{path}: step {step}: up to here the scenario comes to {steps} steps; it may have {STEPS_MAX}")]
    TooLong {
        /// The file.
        path: PathBuf,
        /// The step with which it becomes too many, from 1.
        step: usize,
        /// The steps with those of this one.
        steps: u64,
    },
}

/// Parses one file's text; `path` is for messages only.
pub fn parse(path: &Path, text: &str) -> Result<Scenario, FileError> {
    yaml::read_as(text).map_err(|error| {
        let told = || error.location().map_or((1, 1), |at| (at.line(), at.column()));
        let second = matches!(error.without_snippet(), serde_saphyr::Error::MultipleDocuments { .. });
        // The reader tells where the first ends.
        let (line, column) =
            second.then(|| second_document(text)).flatten().map_or_else(told, |line| (line, 1));
        FileError::Parse { path: path.to_owned(), line, column, message: message(&error) }
    })
}

/// The line in which a second document begins, after one that has something in it.
fn second_document(text: &str) -> Option<u64> {
    let mut begun = false;
    for (line, number) in text.lines().zip(1..) {
        let marks = line.split_whitespace().next() == Some("---") && line.starts_with('-');
        if marks && begun {
            return Some(number);
        }
        begun |= !marks && !is_blank(line) && !line.starts_with('%');
    }
    None
}

/// What is wrong, in our own words where the reader's tell a programmer what to call.
fn message(error: &serde_saphyr::Error) -> String {
    use serde_saphyr::Error::{DuplicateMappingKey, MultipleDocuments};
    match error.without_snippet() {
        MultipleDocuments { .. } => {
            "a second document begins: a file is one scenario, so put it into a file of its own".to_owned()
        }
        DuplicateMappingKey { key: Some(key), .. } => {
            format!("{key:?} stands twice in the same map: take one of them away")
        }
        DuplicateMappingKey { key: None, .. } => "a key stands twice in the same map".to_owned(),
        // The first line of the text is the error; the rest is a snippet, and starts with the place that we give ourselves.
        _ => checked::without_place(&error.to_string()).to_owned(),
    }
}

/// Reads a scenario with all that it includes.
pub fn load(path: &Path) -> Result<Scenario, FileError> {
    let scenario = load_part(path, 0)?;
    if scenario.scenario.trim().is_empty() || scenario.steps.is_empty() {
        return Err(FileError::Empty { path: path.to_owned() });
    }
    let mut steps: u64 = 0;
    for (index, step) in scenario.steps.iter().enumerate() {
        steps = steps.saturating_add(step.turns());
        if steps > STEPS_MAX {
            return Err(FileError::TooLong { path: path.to_owned(), step: index + 1, steps });
        }
    }
    Ok(scenario)
}

/// Whether there is nothing but comments in a text.
fn is_blank(text: &str) -> bool {
    let text = text.trim_start_matches('\u{feff}');
    text.lines().map(str::trim).all(|line| line.is_empty() || line == "---" || line.starts_with('#'))
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
    let text = std::fs::read_to_string(path).map_err(read)?;
    if depth == 0 && is_blank(&text) {
        return Err(FileError::Empty { path: path.to_owned() });
    }
    let mut own = if depth == 0 { parse(path, &text)? } else { parse_part(path, text)? };
    if let Some(GivenMany { times, objects }) = own.given_many.take() {
        let wrong = |reason| FileError::GivenMany { path: path.to_owned(), reason };
        own.given.extend(expand(times, &objects).map_err(wrong)?);
    }
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

/// Parses a file that others include; what was parsed before is not parsed again, since most of a suite may include the same file.
fn parse_part(path: &Path, text: String) -> Result<Scenario, FileError> {
    static KEPT: Mutex<BTreeMap<String, Scenario>> = Mutex::new(BTreeMap::new());
    const KEPT_MAX: usize = 256;
    let kept = || KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = kept().get(&text) {
        return Ok(known.clone());
    }
    // Errors name the file, so each file has its own.
    let parsed = parse(path, &text)?;
    let mut kept = kept();
    if kept.len() >= KEPT_MAX {
        kept.clear();
    }
    kept.insert(text, parsed.clone());
    Ok(parsed)
}

/// `over` on top of `base`: settings replace, given objects of the same identity replace, the rest is added.
fn merge(base: Scenario, over: Scenario) -> Scenario {
    let replaced: BTreeSet<_> = over.given.iter().map(identity).collect();
    let mut given: Vec<Value> =
        base.given.into_iter().filter(|object| !replaced.contains(&identity(object))).collect();
    given.extend(over.given);
    let mut steps = base.steps;
    steps.extend(over.steps);
    let mut always = base.always;
    always.extend(over.always);
    let mut providers = base.providers;
    providers.extend(over.providers);
    Scenario {
        scenario: over.scenario,
        spec: over.spec.or(base.spec),
        include: over.include,
        installed: over.installed.or(base.installed),
        stages: over.stages.or(base.stages),
        controllers: over.controllers.or(base.controllers),
        clock: over.clock.or(base.clock),
        config: over.config.or(base.config),
        grant: over.grant.or(base.grant),
        providers,
        given,
        given_many: None,
        always,
        steps,
    }
}

fn identity(object: &Value) -> [String; 4] {
    ["/apiVersion", "/kind", "/metadata/namespace", "/metadata/name"]
        .map(|pointer| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned())
}

/// All scenario files at `paths`: files as they are, folders by their `*.yaml` in order; files that only serve to be
/// included (no steps) are left out of folders. What cannot be read is a scenario with an error: whoever runs it is told so,
/// and of the others what comes of them.
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
            if entry.extension().is_some_and(|ext| ext == "yaml" || ext == "yml") {
                inside.push(entry);
            }
        }
        inside.sort();
        found.extend(inside.into_iter().filter(|file| is_told(file)));
    }
    Ok(found)
}

/// Whether a file of a folder is a scenario, or would be one if it could be read.
fn is_told(file: &Path) -> bool {
    match std::fs::metadata(file) {
        // A link that leads nowhere, or a folder on the way that may not be entered.
        Err(_) => true,
        Ok(about) if !about.is_file() => false,
        Ok(about) if about.len() > SCENARIO_BYTES_MAX => true,
        Ok(_) => std::fs::read_to_string(file).map_or(true, |text| {
            is_blank(&text)
                || parse(file, &text).map_or(true, |part| !part.steps.is_empty() || !part.scenario.is_empty())
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::step::RestartTarget;
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
    fn a_rule_that_is_no_cel_is_told_with_line_and_column() {
        refused(
            "scenario: a\nsteps:\n  - expect:\n      assert:\n        - {kind: Pod, that: \"self.size( > 1\"}\n",
            "a.yaml:5:29: no rule in CEL: 1:12: Syntax error",
        );
        refused(
            "scenario: a\nsteps:\n  - expect: {assert: [{kind: Pod, that: \"pods.size() > 1\"}]}\n",
            "a.yaml:3:41: no rule in CEL: 1:1: undeclared reference to 'pods'",
        );
    }

    #[test]
    fn steps_are_repeated_with_their_number() {
        let text =
            "scenario: a\nsteps: [{repeat: {times: 2, steps: [{delete: {kind: Pod, name: 'p{n}'}}]}}]\n";
        let scenario = parse(Path::new("a.yaml"), text).expect("it reads");
        let [Step::Repeat(repeat)] = scenario.steps.as_slice() else { panic!("one step") };
        let names: Vec<&str> = repeat
            .steps
            .iter()
            .map(|step| match step {
                Step::Delete(delete) => delete.name.as_str(),
                _ => "another step",
            })
            .collect();
        assert_eq!(names, ["p1", "p2"]);
    }

    /// A file with this text in a folder of its own, and what comes of it.
    fn loaded(text: &str) -> Result<Scenario, String> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.yaml");
        std::fs::write(&path, text).expect("a file");
        load(&path).map_err(|error| error.to_string().replace(&format!("{}/", folder.path().display()), ""))
    }

    #[test]
    fn a_second_document_and_a_key_that_stands_twice_are_told_in_our_words() {
        for (text, line, words) in [
            (
                "# why\n---\nscenario: a\nsteps: [{resync: 1}]\n--- # more\nscenario: b\n",
                5,
                "a second document begins: a file is one scenario, so put it into a file of its own",
            ),
            (
                "scenario: a\nsteps: [{resync: 1}]\nscenario: b\n",
                3,
                "\"scenario\" stands twice in the same map: take one of them away",
            ),
        ] {
            let error = parse(Path::new("a.yaml"), text).expect_err("it is refused");
            let FileError::Parse { line: at, message, .. } = error else { panic!("{error}") };
            assert_eq!((at, message.as_str()), (line, words));
        }
    }

    #[test]
    fn a_scenario_goes_on_for_so_many_steps_and_no_more() {
        refused(
            "scenario: a\nsteps:\n  - repeat: {times: 101, steps: [{repeat: {times: 100, steps: [{resync: 1}]}}]}\n",
            "a.yaml:3:",
        );
        refused("scenario: a\nsteps:\n  - repeat: {times: 2, steps: [{resync: 5001}]}\n", "a.yaml:3:");
        for (steps, expected) in [
            ("{resync: 10000}", None),
            (
                "{resync: 10000}, {advance: 1s}",
                Some("a.yaml: step 2: up to here the scenario comes to 10001 steps; it may have 10000"),
            ),
            (
                "{advance: 1s}, {resync: 4294967295}",
                Some("a.yaml: step 2: up to here the scenario comes to 4294967296 steps; it may have 10000"),
            ),
            ("{repeat: {times: 100, steps: [{repeat: {times: 50, steps: [{resync: 2}]}}]}}", None),
            // Many of nothing are many.
            (
                "{repeat: {times: 5000, steps: [{resync: 0}]}}, {repeat: {times: 5001, steps: [{advance: 1s}]}}",
                Some("a.yaml: step 2: up to here the scenario comes to 10001 steps; it may have 10000"),
            ),
        ] {
            let error = loaded(&format!("scenario: a\nsteps: [{steps}]\n")).err();
            assert_eq!(error.as_deref(), expected, "{steps}");
        }
    }

    #[test]
    fn a_definition_of_the_scenarios_own_is_found_in_whatever_step_brings_it() {
        let crd = |name: &str| format!("{{kind: CustomResourceDefinition, metadata: {{name: {name}}}}}");
        let text = format!(
            "scenario: a\ngiven: [{}, {{kind: Pod, metadata: {{name: p}}}}]\nsteps:\n  - create: {}\n  - before: {{do: \
             [{{apply: {}}}]}}\n  - repeat: {{times: 2, steps: [{{replace: {}}}]}}\n  - refused: {{create: {}}}\n",
            crd("a"),
            crd("b"),
            crd("c"),
            crd("'d{n}'"),
            crd("e")
        );
        let scenario = parse(Path::new("a.yaml"), &text).expect("it reads");
        let names: Vec<&str> = scenario
            .definitions()
            .iter()
            .filter_map(|crd| crd.pointer("/metadata/name").and_then(Value::as_str))
            .collect();
        assert_eq!(names, ["a", "b", "c", "d1", "d2", "e"]);
    }

    #[test]
    fn a_file_that_cannot_be_read_is_one_that_fails_and_no_reason_to_skip_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let large = "#".repeat(usize::try_from(SCENARIO_BYTES_MAX).expect("it fits") + 1);
        for (name, bytes) in [
            ("001.yaml", &b"scenario: a\nsteps: [{resync: 1}]\n"[..]),
            ("002-empty.yaml", &b""[..]),
            ("003-comment.yaml", &b"---\n# to be written\n"[..]),
            ("004-no-text.yaml", &b"scenario: \xff\n"[..]),
            ("005-large.yaml", large.as_bytes()),
            ("006-mistaken.yml", &b"scenari: a\n"[..]),
            ("base.yaml", &b"given: []\n"[..]),
            ("README.md", &b"Scenarios.\n"[..]),
        ] {
            std::fs::write(at(name), bytes).expect("a file");
        }
        std::os::unix::fs::symlink(at("nowhere"), at("007-dangling.yaml")).expect("a link");
        std::fs::create_dir(at("folder.yaml")).expect("a folder");
        let found = discover(&[folder.path().to_owned()]).expect("the folder can be read");
        let mut told = String::new();
        for path in &found {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let outcome = load(path).map_or_else(|error| error.to_string(), |_| "a scenario".to_owned());
            told.push_str(&format!(
                "{name}: {}\n",
                outcome.replace(&format!("{}/", folder.path().display()), "")
            ));
        }
        expect_test::expect![[r#"
            001.yaml: a scenario
            002-empty.yaml: 002-empty.yaml: a scenario needs `scenario:` (one sentence) and at least one step
            003-comment.yaml: 003-comment.yaml: a scenario needs `scenario:` (one sentence) and at least one step
            004-no-text.yaml: cannot read 004-no-text.yaml
            005-large.yaml: 005-large.yaml has 4194305 bytes; a scenario file may have 4194304
            006-mistaken.yml: 006-mistaken.yml:1:1: unknown field `scenari`, expected one of scenario, spec, include, installed, stages, controllers, clock, config, grant, providers, given, given-many, always, steps
            007-dangling.yaml: cannot read 007-dangling.yaml
        "#]]
        .assert_eq(&told);
    }

    #[test]
    fn repetitions_are_limited_and_hold_steps() {
        refused("scenario: a\nsteps:\n  - repeat: {times: 20000, steps: []}\n", "a.yaml:3:");
        refused("scenario: a\nsteps:\n  - repeat: {times: 1, steps: [{aply: {}}]}\n", "a.yaml:3:");
    }

    #[test]
    fn calls_are_a_number_or_one_for_each_controller() {
        let calls = |text: &str| {
            let text = format!("scenario: a\nsteps: [{{expect: {{calls: {text}}}}}]\n");
            let scenario = parse(Path::new("a.yaml"), &text).expect("it reads");
            match scenario.steps.as_slice() {
                [Step::Expect(expect)] => format!("{:?}", expect.calls),
                _ => "another step".to_owned(),
            }
        };
        assert_eq!(calls("3"), "Some(Sum(3))");
        assert_eq!(calls("{a: 1}"), r#"Some(ByController({"a": 1}))"#);
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
