//! Conditions of a status: who reads them waits on them, so they change only when something did.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Longest message, in bytes: more belongs into a log.
const MESSAGE_BYTES_MAX: usize = 1024;

/// One observation about an object, as kubectl and `kubectl wait` read it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What it is about, in PascalCase.
    #[serde(rename = "type")]
    pub type_: String,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// Why, as one PascalCase word.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Why, as one sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The generation of the object that was looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "int64"))]
    pub observed_generation: Option<i64>,
    /// When `status` last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub last_transition_time: Option<String>,
}

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not.
    False,
    /// Nobody can tell.
    #[serde(other)]
    Unknown,
}

/// The conditions that this controller owns, computed over those that the object has.
///
/// Only what is [set](Conditions::set) is applied: server-side apply keeps the conditions of other controllers, and
/// the order that the list has.
#[derive(Clone, Debug)]
pub struct Conditions<'o> {
    old: &'o [Condition],
    now: Timestamp,
    generation: Option<i64>,
    set: Vec<Condition>,
}

impl<'o> Conditions<'o> {
    /// Over the object's present conditions, at the pass's time and for the object's generation.
    pub fn over(old: &'o [Condition], now: Timestamp, generation: Option<i64>) -> Self {
        Self { old, now, generation, set: Vec::new() }
    }

    /// Sets one. `lastTransitionTime` stays as it is unless the status changes.
    pub fn set(&mut self, type_: &str, status: ConditionStatus, reason: &str, message: &str) {
        let since = self.old.iter().find(|old| old.type_ == type_ && old.status == status);
        let since = since.and_then(|old| old.last_transition_time.clone());
        let condition = Condition {
            type_: type_.to_owned(),
            status,
            reason: reason.to_owned(),
            message: clean_message(message),
            observed_generation: self.generation,
            last_transition_time: Some(since.unwrap_or_else(|| rfc3339(self.now))),
        };
        match self.set.iter_mut().find(|set| set.type_ == type_) {
            Some(set) => *set = condition,
            None => self.set.push(condition),
        }
    }

    /// Keeps one as it is: for a pass that has nothing new to say about it, but owns it.
    pub fn keep(&mut self, type_: &str) {
        if let Some(old) = self.old.iter().find(|old| old.type_ == type_) {
            self.set.push(old.clone());
        }
    }

    /// Those that were set, in the order that the object has them, new ones last.
    pub fn finish(self) -> Vec<Condition> {
        let Self { old, mut set, .. } = self;
        set.sort_by_key(|set| old.iter().position(|old| old.type_ == set.type_).unwrap_or(usize::MAX));
        set
    }
}

/// A message fit for a status or an event: one line, control characters as spaces, at most 1024 bytes.
pub fn clean_message(message: &str) -> String {
    let mut clean: String = message.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let mut end = clean.len().min(MESSAGE_BYTES_MAX);
    while !clean.is_char_boundary(end) {
        end -= 1;
    }
    clean.truncate(end);
    clean
}

/// RFC 3339 in UTC to the second, as Kubernetes writes times.
pub fn rfc3339(time: Timestamp) -> String {
    // Without its fraction a time is in the range that it was in.
    Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(old: &str, set: &[(&str, ConditionStatus, &str)], expected: Expect) {
        let old: Vec<Condition> = serde_json::from_str(old).unwrap();
        let mut conditions = Conditions::over(&old, "2026-01-02T00:00:00.5Z".parse().unwrap(), Some(3));
        for (type_, status, reason) in set {
            conditions.set(type_, *status, reason, "said\nso");
        }
        let lines: Vec<_> = conditions.finish().iter().map(|c| serde_json::to_string(c).unwrap()).collect();
        expected.assert_eq(&lines.join("\n"));
    }

    const READY_SINCE_JANUARY: &str = r#"[{"type": "Other", "status": "maybe"}, {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]"#;

    #[test]
    fn a_new_condition_begins_now() {
        check(
            "[]",
            &[("Ready", ConditionStatus::True, "Fine")],
            expect![[
                r#"{"type":"Ready","status":"True","reason":"Fine","message":"said so","observedGeneration":3,"lastTransitionTime":"2026-01-02T00:00:00Z"}"#
            ]],
        );
    }

    #[test]
    fn another_reason_alone_keeps_the_time() {
        check(
            READY_SINCE_JANUARY,
            &[("Ready", ConditionStatus::True, "Better")],
            expect![[
                r#"{"type":"Ready","status":"True","reason":"Better","message":"said so","observedGeneration":3,"lastTransitionTime":"2026-01-01T00:00:00Z"}"#
            ]],
        );
    }

    #[test]
    fn another_status_takes_the_time_and_the_order_stays() {
        check(
            READY_SINCE_JANUARY,
            &[("New", ConditionStatus::Unknown, "A"), ("Ready", ConditionStatus::False, "B")],
            expect![[r#"
                {"type":"Ready","status":"False","reason":"B","message":"said so","observedGeneration":3,"lastTransitionTime":"2026-01-02T00:00:00Z"}
                {"type":"New","status":"Unknown","reason":"A","message":"said so","observedGeneration":3,"lastTransitionTime":"2026-01-02T00:00:00Z"}"#]],
        );
    }

    #[test]
    fn a_long_message_is_cut_at_a_character() {
        assert_eq!(clean_message(&"ä".repeat(600)).len(), 1024);
        assert_eq!(clean_message(&format!("x{}", "ä".repeat(600))).len(), 1023);
    }
}
