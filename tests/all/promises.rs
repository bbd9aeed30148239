//! What must hold, and what bad input must not do: each line of the two tables in `host/ARCHITECTURE.md` names tests.

use std::collections::BTreeSet;
use std::fs;

use crate::tidy::sources;

/// Every test of the checkout, by its name.
fn tests() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (_, text) in sources() {
        let mut marked = false;
        for line in text.lines().map(str::trim) {
            if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
                marked = true;
            } else if let Some((_, rest)) = line.split_once("fn ")
                && marked
            {
                found.extend(rest.split_once('(').map(|(name, _)| name.to_owned()));
                marked = false;
            }
        }
    }
    found
}

/// The lines of a section's table: what is promised, and the tests that hold it.
fn promises(section: &str) -> Vec<(String, Vec<String>)> {
    let path = crate::scenarios::root().join("host/ARCHITECTURE.md");
    let text = fs::read_to_string(path).expect("the architecture");
    let lines = text.lines().skip_while(|line| *line != section).skip(1);
    let rows = lines.take_while(|line| !line.starts_with("## ")).filter(|line| line.starts_with("| "));
    rows.skip(1)
        .map(|row| {
            let (promise, tests) = row.trim_matches(['|', ' ']).split_once(" | ").expect("two columns");
            let tests = tests.split(", ").map(|name| name.trim_matches('`').to_owned());
            (promise.to_owned(), tests.collect())
        })
        .collect()
}

fn check(section: &str, lines_min: usize) {
    let (tests, promises) = (tests(), promises(section));
    assert!(promises.len() >= lines_min, "{section}: {} lines", promises.len());
    let faults: Vec<String> = promises
        .iter()
        .flat_map(|(promise, names)| names.iter().map(move |name| (promise, name)))
        .filter(|(_, name)| !tests.contains(*name))
        .map(|(promise, name)| format!("{promise}: there is no test {name}"))
        .collect();
    assert!(faults.is_empty(), "\n  {}\n", faults.join("\n  "));
}

#[test]
fn each_promise_is_held_by_tests_that_there_are() {
    check("## What must hold", 20);
}

#[test]
fn each_sort_of_bad_input_has_tests_that_there_are() {
    check("## Bad input", 10);
}
