//! `--update`: puts the writes that happened into a scenario file, in the place of those expected.
//!
//! Only the lines of a `writes:` list change; comments and everything else stay as a person wrote them.

use std::path::Path;

use super::report::Outcome;

/// Why a file was not updated.
#[derive(Debug, thiserror::Error)]
pub enum UpdateError {
    /// It cannot be read or written.
    #[error("cannot read or write the file")]
    Io(#[from] std::io::Error),
    /// The step has no `writes:` list in block form.
    #[error("step {0} has no `writes:` list with an item a line, which is the form that can be updated")]
    Form(usize),
}

/// Rewrites the lists of writes that differed. Other differences are left for a person.
pub fn rewrite(path: &Path, outcome: &Outcome) -> Result<(), UpdateError> {
    let mut text = std::fs::read_to_string(path)?;
    for failure in outcome.failures.iter().filter(|failure| failure.difference.at == "writes") {
        let actual: Vec<&str> = failure.difference.actual.lines().collect();
        text = with_writes(&text, failure.step, &actual).ok_or(UpdateError::Form(failure.step))?;
    }
    Ok(std::fs::write(path, text)?)
}

/// The text with the `writes:` list of one step replaced.
fn with_writes(text: &str, step: usize, actual: &[&str]) -> Option<String> {
    let lines: Vec<&str> = text.lines().collect();
    let steps = lines.iter().position(|line| line.trim_end() == "steps:")?;
    let item = lines[steps + 1..]
        .iter()
        .find(|line| line.trim_start().starts_with("- "))
        .map(|line| indent(line))?;
    let begins: Vec<usize> = (steps + 1..lines.len())
        .filter(|index| indent(lines[*index]) == item && lines[*index].trim_start().starts_with("- "))
        .collect();
    let begin = *begins.get(step.checked_sub(1)?)?;
    let end = begins.get(step).copied().unwrap_or(lines.len());
    let head = (begin..end).find(|index| ["writes:", "writes: []"].contains(&lines[*index].trim()))?;
    let deep = indent(lines[head]);
    let list_end = (head + 1..end)
        .find(|index| !lines[*index].trim_start().starts_with("- ") || indent(lines[*index]) < deep)
        .unwrap_or(end);
    let mut updated: Vec<String> = lines[..head].iter().map(|line| (*line).to_owned()).collect();
    let pad = " ".repeat(deep);
    if actual.is_empty() {
        updated.push(format!("{pad}writes: []"));
    } else {
        updated.push(format!("{pad}writes:"));
        updated.extend(actual.iter().map(|line| format!("{pad}  - {line}")));
    }
    updated.extend(lines[list_end..].iter().map(|line| (*line).to_owned()));
    Some(updated.join("\n") + "\n")
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    const FILE: &str = "scenario: a\nsteps:\n  # first\n  - advance: 1s\n  - expect:\n      writes:\n        - a\n        - b\n      quiet: true\n";

    #[test]
    fn only_the_list_changes() {
        expect![[r#"
            scenario: a
            steps:
              # first
              - advance: 1s
              - expect:
                  writes:
                    - c
                  quiet: true
        "#]]
        .assert_eq(&with_writes(FILE, 2, &["c"]).unwrap_or_default());
    }

    #[test]
    fn an_empty_list_says_so_and_may_grow_again() {
        let empty = with_writes(FILE, 2, &[]).unwrap_or_default();
        assert!(empty.contains("      writes: []\n      quiet"), "{empty}");
        assert!(with_writes(&empty, 2, &["x"]).unwrap_or_default().contains("        - x\n      quiet"));
    }

    #[test]
    fn a_step_without_a_list_is_left_alone() {
        assert_eq!(with_writes(FILE, 1, &["c"]), None);
        assert_eq!(with_writes(FILE, 9, &["c"]), None);
    }
}
