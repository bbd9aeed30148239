//! What a scenario lays in the way of requests to come, and what is said of it where none came.

use super::expect::Difference;
use super::report::Failure;
use super::step::{BeforeStep, FailStep};

/// A fault, or requests of users before a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Laid {
    /// The number of its step.
    step: usize,
    /// The word of its step.
    word: &'static str,
    /// The request that it is laid for, in words.
    request: String,
    /// How often it may strike.
    times: u32,
}

impl Laid {
    /// By a step `fail`.
    pub(super) fn fail(step: usize, fail: &FailStep) -> Self {
        let FailStep { verb, kind, name, times, .. } = fail;
        let request = words([verb, kind, name]).unwrap_or_else(|| "any request".to_owned());
        Self { step, word: "fail", request, times: times.unwrap_or(1) }
    }

    /// By a step `before`.
    pub(super) fn before(step: usize, before: &BeforeStep) -> Self {
        let BeforeStep { verb, kind, name, .. } = before;
        let request = words([verb, kind, name]).unwrap_or_else(|| "any write".to_owned());
        Self { step, word: "before", request, times: 1 }
    }

    /// What is said where nothing came to it: it tested nothing, and its words may be mistaken.
    pub(super) fn unspent(&self) -> Failure {
        let Self { step, word, request, times } = self;
        let difference = Difference::new(
            *word,
            format!("strikes when it comes: {request}"),
            format!("none came up to the end: it struck 0 of {times} times"),
        );
        Failure { step: *step, difference }
    }
}

fn words(parts: [&Option<String>; 3]) -> Option<String> {
    let words: Vec<&str> = parts.into_iter().flatten().map(String::as_str).collect();
    (!words.is_empty()).then(|| words.join(" "))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::step::Step;
    use super::*;

    fn told(step: Value) -> String {
        let laid = match serde_json::from_value(step).expect("a step") {
            Step::Fail(fail) => Laid::fail(3, &fail),
            Step::Before(before) => Laid::before(4, &before),
            other => panic!("{other:?} lays nothing"),
        };
        let Failure { step, difference } = laid.unspent();
        format!("step {step}: {}: {} but {}", difference.at, difference.expected, difference.actual)
    }

    #[test]
    fn what_never_struck_is_told_with_its_step_what_it_waited_for_and_how_often_it_might_have() {
        for (step, expected) in [
            (
                json!({"fail": {"verb": "apply", "kind": "ConfigMap", "name": "a", "code": 500}}),
                "step 3: fail: strikes when it comes: apply ConfigMap a but none came up to the end: it struck 0 of 1 times",
            ),
            (
                json!({"fail": {"code": 500, "times": 1000}}),
                "step 3: fail: strikes when it comes: any request but none came up to the end: it struck 0 of 1000 times",
            ),
            (
                json!({"before": {"kind": "Pod", "do": []}}),
                "step 4: before: strikes when it comes: Pod but none came up to the end: it struck 0 of 1 times",
            ),
            (
                json!({"before": {"do": []}}),
                "step 4: before: strikes when it comes: any write but none came up to the end: it struck 0 of 1 times",
            ),
        ] {
            assert_eq!(told(step), expected);
        }
    }
}
