//! What came of scenarios, for people, programs and CI.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;

use super::expect::Difference;

/// What came of one scenario.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// The file.
    pub file: String,
    /// Its sentence; empty where the file could not be read.
    pub scenario: String,
    /// The specification and number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec: Option<String>,
    /// Why it could not be run at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What was otherwise than expected.
    pub failures: Vec<Failure>,
    /// Wall-clock time in microseconds.
    pub micros: u64,
}

/// An expectation that does not hold.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// The step, from 1.
    pub step: usize,
    /// What differs.
    #[serde(flatten)]
    pub difference: Difference,
}

impl Outcome {
    /// Whether everything was as expected.
    pub fn passed(&self) -> bool {
        self.error.is_none() && self.failures.is_empty()
    }
}

/// Whether to colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// With ANSI escapes.
    Always,
    /// Plain.
    Never,
}

/// For a person: a line a scenario, differences below it, a count at the end.
pub fn human(outcomes: &[Outcome], took: Duration, colour: Colour) -> String {
    let mut text = String::new();
    for outcome in outcomes {
        let mark = if outcome.passed() { paint("ok  ", "32", colour) } else { paint("FAIL", "31", colour) };
        let _ = match outcome.scenario.as_str() {
            "" => writeln!(text, "{mark} {}", outcome.file),
            sentence => writeln!(text, "{mark} {}: {sentence}", outcome.file),
        };
        if let Some(error) = &outcome.error {
            let _ = writeln!(text, "     {}", error.replace('\n', "\n     "));
        }
        for failure in &outcome.failures {
            let _ = writeln!(text, "     step {}: {}", failure.step, failure.difference.at);
            text.push_str(&diff(&failure.difference, colour));
        }
    }
    let passed = outcomes.iter().filter(|outcome| outcome.passed()).count();
    let _ = writeln!(text, "{passed} passed, {} failed in {} ms", outcomes.len() - passed, took.as_millis());
    text
}

/// Expected and actual, line by line.
fn diff(difference: &Difference, colour: Colour) -> String {
    let mut text = String::new();
    let lines = similar::TextDiff::from_lines(&difference.expected, &difference.actual);
    for change in lines.iter_all_changes() {
        let (sign, code) = match change.tag() {
            similar::ChangeTag::Delete => ("-", "31"),
            similar::ChangeTag::Insert => ("+", "32"),
            similar::ChangeTag::Equal => (" ", "0"),
        };
        let line = format!("       {sign} {}", change.value().trim_end_matches('\n'));
        let _ = writeln!(text, "{}", if code == "0" { line } else { paint(&line, code, colour) });
    }
    text
}

fn paint(text: &str, code: &str, colour: Colour) -> String {
    match colour {
        Colour::Always => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
        Colour::Never => text.to_owned(),
    }
}

/// For CI: JUnit's XML, a test case a scenario.
pub fn junit(outcomes: &[Outcome], took: Duration) -> String {
    let errors = outcomes.iter().filter(|outcome| outcome.error.is_some()).count();
    let failures = outcomes.iter().filter(|outcome| !outcome.passed()).count() - errors;
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"evenkeel\" tests=\"{}\" failures=\"{failures}\" errors=\"{errors}\" time=\"{:.3}\">\n",
        outcomes.len(),
        took.as_secs_f64()
    );
    for outcome in outcomes {
        let _ = write!(
            text,
            "  <testcase classname=\"{}\" name=\"{}\" time=\"{:.6}\"",
            escape(&outcome.file),
            // One that cannot be read has no sentence; a nameless case is dropped by some readers.
            escape(if outcome.scenario.is_empty() { &outcome.file } else { &outcome.scenario }),
            Duration::from_micros(outcome.micros).as_secs_f64()
        );
        if outcome.passed() {
            text.push_str("/>\n");
            continue;
        }
        text.push_str(">\n");
        if let Some(error) = &outcome.error {
            let _ = writeln!(text, "    <error>{}</error>", escape(error));
        }
        for failure in &outcome.failures {
            let d = &failure.difference;
            let body = format!("expected:\n{}\nactual:\n{}", d.expected, d.actual);
            let at = format!("step {}: {}", failure.step, d.at);
            let _ = writeln!(text, "    <failure message=\"{}\">{}</failure>", escape(&at), escape(&body));
        }
        text.push_str("  </testcase>\n");
    }
    text.push_str("</testsuite>\n");
    text
}

/// XML text; characters that XML 1.0 does not know become U+FFFD.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' | '\t' => escaped.push(c),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    fn outcomes() -> Vec<Outcome> {
        let ok = Outcome {
            file: "001-a.yaml".into(),
            scenario: "a user gets a namespace".into(),
            spec: None,
            error: None,
            failures: Vec::new(),
            micros: 1500,
        };
        let difference =
            Difference::new("writes", "create Namespace a\napply X a/b", "create Namespace a\napply <Y> a/b");
        let failed = Outcome {
            failures: vec![Failure { step: 2, difference }],
            file: "002-b.yaml".into(),
            ..ok.clone()
        };
        let broken =
            Outcome { error: Some("002-b.yaml:3:5: unknown".into()), scenario: String::new(), ..ok.clone() };
        vec![ok, failed, broken]
    }

    #[test]
    fn a_person_reads_a_line_a_scenario_and_a_diff() {
        expect![[r#"
            ok   001-a.yaml: a user gets a namespace
            FAIL 002-b.yaml: a user gets a namespace
                 step 2: writes
                     create Namespace a
                   - apply X a/b
                   + apply <Y> a/b
            FAIL 001-a.yaml
                 002-b.yaml:3:5: unknown
            1 passed, 2 failed in 20 ms
        "#]]
        .assert_eq(&human(&outcomes(), Duration::from_millis(20), Colour::Never));
    }

    #[test]
    fn ci_reads_junit() {
        expect![[r#"
            <?xml version="1.0" encoding="UTF-8"?>
            <testsuite name="evenkeel" tests="3" failures="1" errors="1" time="0.020">
              <testcase classname="001-a.yaml" name="a user gets a namespace" time="0.001500"/>
              <testcase classname="002-b.yaml" name="a user gets a namespace" time="0.001500">
                <failure message="step 2: writes">expected:
            create Namespace a
            apply X a/b
            actual:
            create Namespace a
            apply &lt;Y&gt; a/b</failure>
              </testcase>
              <testcase classname="001-a.yaml" name="001-a.yaml" time="0.001500">
                <error>002-b.yaml:3:5: unknown</error>
              </testcase>
            </testsuite>
        "#]]
        .assert_eq(&junit(&outcomes(), Duration::from_millis(20)));
    }

    #[test]
    fn characters_that_xml_does_not_know_are_replaced() {
        for (text, expected) in [
            ("a\u{0}b\u{1b}[0m\r", "a\u{fffd}b\u{fffd}[0m\u{fffd}"),
            ("\u{fffe}\u{ffff}\u{fffd}\u{1fffe}", "\u{fffd}\u{fffd}\u{fffd}\u{1fffe}"),
            ("<a href=\"b\">\n\t&", "&lt;a href=&quot;b&quot;&gt;\n\t&amp;"),
        ] {
            assert_eq!(escape(text), expected);
        }
    }
}
