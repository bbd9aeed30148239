//! Scenario files against a small native plugin: what each step does, and what each expectation finds.

mod copier;
mod expectations;
mod repetition;
mod steps;

use std::fs;
use std::sync::Arc;

use evenkeel_core::guest::Guest;
use evenkeel_sim::scenario::report::Outcome;
use evenkeel_sim::scenario::run;

use self::copier::Copier;

/// An original, which has its copy.
const GIVEN: &str = "given: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: default, \
                     labels: {copy: 'yes'}}, data: {text: hello}}]\n";

/// What came of a scenario with an original and these steps.
fn outcome(text: &str) -> Outcome {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.yaml");
    fs::write(&file, format!("scenario: a\n{text}")).expect("a file");
    let guest: Arc<dyn Guest> = Arc::new(Copier::default());
    let mut outcome = run::run_file(&file, &guest);
    outcome.error = outcome.error.map(|error| error.replace(&folder.path().display().to_string(), ""));
    outcome
}

/// What was found, a line a difference.
fn found(text: &str) -> String {
    let outcome = outcome(text);
    assert_eq!(outcome.error, None);
    let lines = outcome.failures.iter().map(|failure| {
        let d = &failure.difference;
        format!("step {}: {}: {} but {}\n", failure.step, d.at, d.expected, d.actual)
    });
    lines.collect()
}

/// The scenario holds.
fn holds(text: &str) {
    assert_eq!(found(text), "", "{text}");
}

/// The scenario cannot be run, for this reason.
fn refused(text: &str) -> String {
    outcome(text).error.expect("it is refused")
}
