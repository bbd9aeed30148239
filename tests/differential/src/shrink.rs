//! Makes a case that shows a difference as short as it gets.

use crate::arena::{Arena, Difference};
use crate::case::Case;
use serde_json::Value;
use std::time::Duration;

/// How many shorter cases are tried; each takes some tens of milliseconds.
const TRIES_MAX: usize = 300;
/// After this what was found is short enough: where the difference is one of the garbage collector, each try takes long.
const TIME_MAX: Duration = Duration::from_secs(90);

/// A case as short as it gets that still shows a difference, and which.
///
/// # Errors
/// Where a server cannot be reached.
pub async fn shrink(arena: &Arena, case: Case, found: Difference) -> anyhow::Result<(Case, Difference)> {
    let mut best = (case, found);
    let mut tries = TRIES_MAX;
    best.0.steps.truncate(best.1.step + 1);
    let end = tokio::time::Instant::now() + TIME_MAX;
    loop {
        let candidates = shorter(&best.0);
        let mut better = None;
        for candidate in candidates {
            if tries == 0 || tokio::time::Instant::now() > end {
                return Ok(best);
            }
            tries -= 1;
            if let Some(difference) = arena.run(&candidate).await? {
                better = Some((candidate, difference));
                break;
            }
        }
        match better {
            Some(found) => {
                best = found;
                best.0.steps.truncate(best.1.step + 1);
            }
            None => return Ok(best),
        }
    }
}

/// Cases that are a step or a part of a body shorter, the boldest first.
fn shorter(case: &Case) -> Vec<Case> {
    let mut out = Vec::new();
    let count = case.steps.len();
    for size in [count / 2, count / 4, 1] {
        let mut start = 0;
        while size > 0 && start + size < count {
            let mut fewer = case.clone();
            fewer.steps.drain(start..start + size);
            out.push(fewer);
            start += size;
        }
    }
    for (number, step) in case.steps.iter().enumerate() {
        for path in paths(&step.body, "") {
            let mut smaller = case.clone();
            remove(&mut smaller.steps[number].body, &path);
            out.push(smaller);
        }
    }
    out
}

/// Pointers to all that can be left out of a body, the largest parts first.
fn paths(value: &Value, at: &str) -> Vec<String> {
    let mut out = Vec::new();
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let path = format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
                if !matches!(path.as_str(), "/apiVersion" | "/kind" | "/metadata") {
                    out.push(path.clone());
                }
                out.extend(paths(value, &path));
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                let path = format!("{at}/{index}");
                out.push(path.clone());
                out.extend(paths(value, &path));
            }
        }
        _ => {}
    }
    out
}

fn remove(value: &mut Value, path: &str) {
    let Some((parent, last)) = path.rsplit_once('/') else { return };
    match value.pointer_mut(parent) {
        Some(Value::Object(fields)) => {
            fields.remove(&last.replace("~1", "/").replace("~0", "~"));
        }
        Some(Value::Array(items)) => {
            if let Ok(index) = last.parse::<usize>()
                && index < items.len()
            {
                items.remove(index);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_part_of_a_body_can_be_left_out_but_what_makes_it_an_object() {
        let body = json!({"kind": "X", "metadata": {"name": "a"}, "spec": {"list": [1, {"b": 2}]}});
        let found = paths(&body, "");
        assert_eq!(
            found,
            ["/metadata/name", "/spec", "/spec/list", "/spec/list/0", "/spec/list/1", "/spec/list/1/b"]
        );
        let mut left = body;
        remove(&mut left, "/spec/list/0");
        assert_eq!(left["spec"], json!({"list": [{"b": 2}]}));
    }
}
