//! `--update`: puts what happened into a scenario file, in the place of what was expected.
//!
//! What can be replaced is a list of texts (`writes`), a number (`calls`), a time (`requeue`), and a field of an expected
//! object. Only these places change; comments and everything else stay as a person wrote them. A change after which the file
//! would read as anything else than what was meant is not made.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::ops::Range;
use std::path::Path;

use serde_json::Value;

use super::file::{self, FileError};
use super::report::Outcome;
use super::yaml::{self, Edit};

/// Why a file was not updated.
#[derive(Debug, thiserror::Error)]
pub enum UpdateError {
    /// It cannot be read or written.
    #[error("cannot read or write the file")]
    Io(#[from] std::io::Error),
    /// It is no scenario any more.
    #[error(transparent)]
    File(#[from] FileError),
    /// Each change would be right, and all of them together would not.
    #[error("the changed file would not say what happened: it is left as it was, change it by hand")]
    Otherwise,
}

/// What became of the differences in one file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Updated {
    /// Places that say now what happened.
    pub written: usize,
    /// Differences that are left for a person.
    pub left: usize,
}

/// Rewrites what differed and can be rewritten. The file is as it was, or has all the changes.
pub fn rewrite(path: &Path, outcome: &Outcome) -> Result<Updated, UpdateError> {
    if outcome.failures.is_empty() {
        return Ok(Updated::default());
    }
    let text = std::fs::read_to_string(path)?;
    // The steps of included files come first, and are not in this one.
    let own = file::parse(path, &text)?.steps.len();
    let included = file::load(path)?.steps.len().saturating_sub(own);
    let (new, updated) = with_what_happened(&text, included, outcome).ok_or(UpdateError::Otherwise)?;
    if updated.written > 0 {
        file::parse(path, &new).map_err(|_| UpdateError::Otherwise)?;
        replace(path, &new)?;
    }
    Ok(updated)
}

/// Puts a text in the place of a file's, at once and with the file's permissions. A link stays one.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let path = path.canonicalize()?;
    // What may not be written is not replaced either.
    let permissions = OpenOptions::new().write(true).open(&path)?.metadata()?.permissions();
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new().prefix(".update-").tempfile_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.as_file().set_permissions(permissions)?;
    file.as_file().sync_all()?;
    file.persist(&path).map_err(|error| error.error)?;
    Ok(())
}

/// What should stand at a place, and the changes that make it so.
struct Change<'a> {
    path: Vec<String>,
    value: &'a Value,
    edits: Vec<Edit>,
}

/// The text with what happened; none where it would read as something else.
fn with_what_happened(text: &str, included: usize, outcome: &Outcome) -> Option<(String, Updated)> {
    let document = yaml::read(text);
    let mut changes: Vec<Change<'_>> = Vec::new();
    let mut left = 0;
    for failure in &outcome.failures {
        let change = failure.difference.fix.as_ref().and_then(|fix| {
            let index = failure.step.checked_sub(included + 1)?;
            let mut path = vec!["steps".to_owned(), index.to_string(), "expect".to_owned()];
            path.extend(fix.path.iter().cloned());
            let edits = document.as_ref()?.replacement(&path, &fix.value)?;
            let change = Change { path, value: &fix.value, edits };
            with_changes(text, std::slice::from_ref(&change)).map(|_| change)
        });
        match change {
            // Two differences of one place: the second is looked at when the first is gone.
            Some(change) if !changes.iter().any(|other| collide(other, &change)) => changes.push(change),
            _ => left += 1,
        }
    }
    let new = if changes.is_empty() { text.to_owned() } else { with_changes(text, &changes)? };
    Some((new, Updated { written: changes.len(), left }))
}

/// The text with these changes; none where it does not read as the same but for them, or would lose a comment.
fn with_changes(text: &str, changes: &[Change<'_>]) -> Option<String> {
    let edits = changes.iter().flat_map(|change| change.edits.iter().cloned()).collect();
    let new = yaml::with(text, edits);
    let mut wanted: Value = yaml::read_as(text).ok()?;
    for Change { path, value, .. } in changes {
        *place(&mut wanted, path)? = (*value).clone();
    }
    let same = yaml::read_as::<Value>(&new).is_ok_and(|read| read == wanted)
        && yaml::read(&new)?.comments() == yaml::read(text)?.comments();
    same.then_some(new)
}

fn place<'v>(value: &'v mut Value, path: &[String]) -> Option<&'v mut Value> {
    path.iter().try_fold(value, |at, part| match at {
        Value::Array(items) => items.get_mut(part.parse::<usize>().ok()?),
        Value::Object(fields) => fields.get_mut(part),
        _ => None,
    })
}

fn collide(a: &Change<'_>, b: &Change<'_>) -> bool {
    let within = a.path.starts_with(&b.path) || b.path.starts_with(&a.path);
    within || a.edits.iter().any(|(one, _)| b.edits.iter().any(|(other, _)| overlap(one, other)))
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
        let (text, updated) = with_what_happened(FILE, 3, &outcome).expect("it reads as what was meant");
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
        let (text, updated) = with_what_happened(FILE, 9, &outcome).expect("nothing changes");
        assert_eq!((text.as_str(), updated), (FILE, Updated { written: 0, left: 1 }));
    }

    /// What becomes of a file with this first step when this is found there, and how often.
    fn updated(step: &str, found: Vec<Difference>) -> (String, Updated) {
        let before = "scenario: a\nsteps:\n";
        let text = format!("{before}{step}");
        let failures = found.into_iter().map(|difference| Failure { step: 1, difference }).collect();
        let (new, updated) =
            with_what_happened(&text, 0, &Outcome { failures, ..outcome(vec![]) }).expect("it is as meant");
        (new.strip_prefix(before).unwrap_or(&new).to_owned(), updated)
    }

    #[test]
    fn what_would_read_as_something_else_is_left_alone() {
        let calls = || Difference::new("calls of the plugin", "2", "3").fixed_by(["calls"], json!(3));
        let writes = || Difference::new("writes", "a", "c").fixed_by(["writes"], json!(["c"]));
        for (step, found) in [
            // Another place has the same value by an alias.
            (
                "- expect: {calls: &n 2, requeue: {controller: a, key: b, after: 1s}}\n- expect: {calls: *n}\n",
                calls(),
            ),
            ("- expect: {writes: &w [a]}\n- expect: {writes: *w}\n", writes()),
            ("- expect:\n    writes: [a, # why\n      b]\n", writes()),
            ("- expect:\n    writes: |\n      a\n", writes()),
        ] {
            assert_eq!(
                updated(step, vec![found]),
                (step.to_owned(), Updated { written: 0, left: 1 }),
                "{step}"
            );
        }
    }

    #[test]
    fn the_same_place_changes_once() {
        let found = || Difference::new("calls of the plugin", "2", "3").fixed_by(["calls"], json!(3));
        let (new, told) = updated("- expect: {calls: 2} # why\n", vec![found(), found()]);
        assert_eq!((new.as_str(), told), ("- expect: {calls: 3} # why\n", Updated { written: 1, left: 1 }));
    }

    #[test]
    fn a_file_keeps_its_permissions_and_a_link_stays_one() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};

        let folder = tempfile::tempdir().expect("a folder");
        let (file, link) = (folder.path().join("a.yaml"), folder.path().join("b.yaml"));
        let text = "# why\r\nscenario: a\r\nsteps:\r\n  - expect:\r\n      calls: 2 # so\r\n";
        std::fs::write(&file, text).expect("a file");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).expect("permissions");
        symlink(&file, &link).expect("a link");
        let found = Difference::new("calls of the plugin", "2", "3").fixed_by(["calls"], json!(3));
        let outcome = Outcome { failures: vec![Failure { step: 1, difference: found }], ..outcome(vec![]) };
        assert_eq!(rewrite(&link, &outcome).expect("it is written"), Updated { written: 1, left: 0 });
        assert_eq!(std::fs::read_to_string(&file).expect("the file"), text.replace("calls: 2", "calls: 3"));
        assert_eq!(std::fs::metadata(&file).expect("the file").permissions().mode() & 0o777, 0o640);
        assert!(std::fs::symlink_metadata(&link).expect("the link").is_symlink());
        assert_eq!(
            std::fs::read_dir(folder.path()).expect("the folder").count(),
            2,
            "nothing is left behind"
        );
    }
}
