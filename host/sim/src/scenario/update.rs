//! `--update`: puts what happened into a scenario file, in the place of what was expected.
//!
//! What can be replaced is a list of texts (`writes`), a number (`calls`), a time (`requeue`), and a field of an expected
//! object. Only these places change; comments and everything else stay as a person wrote them.

use std::ops::Range;
use std::path::Path;

use super::file::{self, FileError};
use super::report::Outcome;
use super::yaml;

/// Why a file was not updated.
#[derive(Debug, thiserror::Error)]
pub enum UpdateError {
    /// It cannot be read or written.
    #[error("cannot read or write the file")]
    Io(#[from] std::io::Error),
    /// It is no scenario any more.
    #[error(transparent)]
    File(#[from] FileError),
}

/// What became of the differences in one file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Updated {
    /// Places that say now what happened.
    pub written: usize,
    /// Differences that are left for a person.
    pub left: usize,
}

/// Rewrites what differed and can be rewritten.
pub fn rewrite(path: &Path, outcome: &Outcome) -> Result<Updated, UpdateError> {
    if outcome.failures.is_empty() {
        return Ok(Updated::default());
    }
    let text = std::fs::read_to_string(path)?;
    // The steps of included files come first, and are not in this one.
    let own = file::parse(path, &text)?.steps.len();
    let included = file::load(path)?.steps.len().saturating_sub(own);
    let (new, updated) = with_what_happened(&text, included, outcome);
    if updated.written > 0 {
        std::fs::write(path, new)?;
    }
    Ok(updated)
}

fn with_what_happened(text: &str, included: usize, outcome: &Outcome) -> (String, Updated) {
    let placed = yaml::read(text);
    let mut edits: Vec<(Range<usize>, String)> = Vec::new();
    let mut left = 0;
    for failure in &outcome.failures {
        let edit = failure.difference.fix.as_ref().and_then(|fix| {
            let index = failure.step.checked_sub(included + 1)?;
            let mut path = vec!["steps".to_owned(), index.to_string(), "expect".to_owned()];
            path.extend(fix.path.iter().cloned());
            placed.as_ref()?.replacement(text, &path, &fix.value)
        });
        match edit {
            // Two differences of one place: the second is looked at when the first is gone.
            Some((range, _)) if edits.iter().any(|(other, _)| overlap(other, &range)) => left += 1,
            Some(edit) => edits.push(edit),
            None => left += 1,
        }
    }
    edits.sort_by_key(|(range, _)| std::cmp::Reverse(range.start));
    let mut new = text.to_owned();
    for (range, replacement) in &edits {
        new.replace_range(range.clone(), replacement);
    }
    (new, Updated { written: edits.len(), left })
}

fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
}

#[cfg(test)]
mod tests {
    use super::super::expect::Difference;
    use super::super::report::Failure;
    use super::*;
    use expect_test::expect;
    use serde_json::json;

    const FILE: &str = "scenario: a\nsteps:\n  # first\n  - advance: 1s\n  - expect:\n      writes:\n        - a\n        - b\n      calls: 2\n      quiet: true\n";

    fn outcome(differences: Vec<Difference>) -> Outcome {
        let failures = differences.into_iter().map(|difference| Failure { step: 5, difference }).collect();
        Outcome { file: "a.yaml".into(), scenario: "a".into(), spec: None, error: None, failures, micros: 0 }
    }

    #[test]
    fn what_differed_is_put_in_and_the_rest_stays() {
        let outcome = outcome(vec![
            Difference::new("writes", "a\nb", "c").fixed_by(["writes"], json!(["c"])),
            Difference::new("calls of the plugin", "2", "3").fixed_by(["calls"], json!(3)),
            Difference::new("ConfigMap a", "nothing", "there"),
        ]);
        // Three steps come from an included file.
        let (text, updated) = with_what_happened(FILE, 3, &outcome);
        expect![[r#"
            scenario: a
            steps:
              # first
              - advance: 1s
              - expect:
                  writes:
                    - c
                  calls: 3
                  quiet: true
        "#]]
        .assert_eq(&text);
        assert_eq!(updated, Updated { written: 2, left: 1 });
    }

    #[test]
    fn a_step_of_an_included_file_is_left_alone() {
        let outcome = outcome(vec![Difference::new("writes", "a", "c").fixed_by(["writes"], json!(["c"]))]);
        let (text, updated) = with_what_happened(FILE, 9, &outcome);
        assert_eq!((text.as_str(), updated), (FILE, Updated { written: 0, left: 1 }));
    }
}
