//! What kind of failure an API error is: the one place that decides it.

use std::time::Duration;

use evenkeel_core::contract::{Failure, FailureKind, Gvk};

use crate::limits;
use crate::rest::{RestError, Status};

/// What admission says where the status of a ResourceQuota has a limit, and not yet how much of it is used.
const QUOTA_UNCOUNTED: &str = "status unknown for quota";

/// Why a write failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", failure.message)]
pub struct WriteError {
    /// Its kind, a sentence, and the time to wait.
    pub failure: Failure,
    /// HTTP status code; none where no answer came, so that the write may have been done.
    pub code: Option<u16>,
    /// The API server's reason, as in `AlreadyExists`; "" where it gave none.
    pub reason: String,
}

impl WriteError {
    /// Of a request about an object of this kind. `doing` says what was tried, as in `apply ConfigMap a/b`.
    pub(crate) fn new(gvk: &Gvk, doing: &str, manager: Option<&str>, error: &RestError) -> Self {
        let reason = match error {
            RestError::Status { status, .. } => status.reason.clone(),
            RestError::Timeout { .. }
            | RestError::Connection(_)
            | RestError::TooLarge { .. }
            | RestError::Decode(_)
            | RestError::Request(_)
            | RestError::NotLeading { .. } => String::new(),
        };
        WriteError { failure: failure(gvk, doing, manager, error), code: error.code(), reason }
    }
}

/// The failure that an error of a request is.
pub(crate) fn failure(gvk: &Gvk, doing: &str, manager: Option<&str>, error: &RestError) -> Failure {
    let (kind, why, retry_after) = match error {
        RestError::Status { code, status, retry_after } => {
            (kind_of(gvk, *code, status), why(gvk, *code, manager, status), *retry_after)
        }
        RestError::Timeout { .. } | RestError::Connection(_) | RestError::NotLeading { .. } => {
            (FailureKind::Transient, chain(error), None)
        }
        RestError::TooLarge { .. } | RestError::Decode(_) => (FailureKind::Transient, chain(error), None),
        RestError::Request(_) => (FailureKind::Invalid, chain(error), None),
    };
    let retry_after = retry_after.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
    Failure { kind, message: format!("cannot {doing}: {why}"), retry_after }
}

/// Whether a watch should ask for everything anew: what it wanted to go on from is no longer kept.
pub(crate) fn is_expired(code: u16, status: &Status) -> bool {
    let too_large = status.causes().iter().any(|cause| cause.reason == "ResourceVersionTooLarge");
    code == 410 || status.reason == "Expired" || status.reason == "Gone" || too_large
}

fn kind_of(gvk: &Gvk, code: u16, status: &Status) -> FailureKind {
    match code {
        // A token that just expired is renewed by the client.
        401 => FailureKind::Transient,
        // While a namespace goes away, nothing new may be put in it; that passes.
        403 if has_cause(status, "NamespaceTerminating") => FailureKind::Transient,
        // A quota limits what its controller has not counted yet: it learns of new kinds each 30 s. The text alone tells that from
        // one that is used up.
        403 if status.message.contains(QUOTA_UNCOUNTED) => FailureKind::Transient,
        403 => FailureKind::Denied,
        404 => FailureKind::NotFound,
        // Admission could not charge a quota that others charge, too: nothing of ours has changed, so there is nothing new to look at.
        409 if is_about(status, "resourcequotas") && &*gvk.kind != "ResourceQuota" => FailureKind::Transient,
        // Both `AlreadyExists` and `Conflict`.
        409 => FailureKind::Conflict,
        408 | 410 | 425 | 429 => FailureKind::Transient,
        400..=499 => FailureKind::Invalid,
        // Everything from 500, and what no API server should say: 1xx and 3xx.
        _ => FailureKind::Transient,
    }
}

fn is_about(status: &Status, plural: &str) -> bool {
    status.details.as_ref().is_some_and(|details| details.kind == plural)
}

fn has_cause(status: &Status, reason: &str) -> bool {
    status.causes().iter().any(|cause| cause.reason == reason)
}

fn why(gvk: &Gvk, code: u16, manager: Option<&str>, status: &Status) -> String {
    if has_cause(status, "FieldManagerConflict") {
        return field_conflict(manager, status);
    }
    if &*gvk.kind == "Secret" && gvk.group.is_empty() {
        // The message may quote a value.
        return format!("{} ({code}){}", or(&status.reason, "refused"), fields(status));
    }
    let message = or(&status.message, or(&status.reason, "no reason given"));
    let mut short: String = message.chars().take(limits::MESSAGE_CHARS_MAX).collect();
    if short.len() < message.len() {
        short.push('…');
    }
    format!("{short} ({code})")
}

/// Names both sides and the fields, in the order of the server.
fn field_conflict(manager: Option<&str>, status: &Status) -> String {
    let mut sides: Vec<(&str, Vec<&str>)> = Vec::new();
    for cause in status.causes().iter().filter(|cause| cause.reason == "FieldManagerConflict") {
        // `conflict with "kubectl" using v1 at …`: the text has no other structure.
        let other = cause.message.split('"').nth(1).unwrap_or(&cause.message);
        match sides.iter_mut().find(|(name, _)| *name == other) {
            Some((_, fields)) => fields.push(&cause.field),
            None => sides.push((other, vec![&cause.field])),
        }
    }
    let ours = manager.unwrap_or("this request");
    let theirs: Vec<String> =
        sides.into_iter().map(|(name, fields)| format!("{name} owns {}", fields.join(", "))).collect();
    format!("{ours} is in conflict with another field manager: {}", theirs.join("; "))
}

fn fields(status: &Status) -> String {
    let names: Vec<&str> =
        status.causes().iter().map(|cause| cause.field.as_str()).filter(|field| !field.is_empty()).collect();
    if names.is_empty() { String::new() } else { format!(" at {}", names.join(", ")) }
}

fn or<'a>(text: &'a str, other: &'a str) -> &'a str {
    if text.is_empty() { other } else { text }
}

/// The error and all that caused it, in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let more = cause.to_string();
        // Some of the layers below print their cause themselves.
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        next = cause.source();
    }
    text
}

/// The pause before the next try after this many failures in a row: doubled each time, with jitter from a seed.
pub(crate) fn pause(failures: u32, seed: u64, most: Duration) -> Duration {
    let doubled = Duration::from_millis(100).saturating_mul(1 << failures.min(16)).min(most);
    let jitter = mix(seed ^ u64::from(failures)) % 256;
    // Between three quarters and the whole of it.
    doubled.mul_f64(0.75 + f64::from(u32::try_from(jitter).unwrap_or(0)) / 1024.0)
}

/// Spreads the bits of a number.
pub(crate) fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// A number that stands for a text, the same in each process.
pub(crate) fn text_seed(text: &str) -> u64 {
    text.bytes().fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
    })
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(kind: &str, code: u16, body: &str, expect: Expect) {
        let status: Status = serde_json::from_str(body).expect("a status");
        let error = RestError::from_status(code, status, None);
        let gvk = Gvk::new("", "v1", kind);
        let error = WriteError::new(&gvk, &format!("apply {kind} a/b"), Some("evenkeel/kite/user"), &error);
        let wait = error.failure.retry_after.map(|ms| format!(", after {ms} ms")).unwrap_or_default();
        expect.assert_eq(&format!("{:?}{wait}: {}", error.failure.kind, error.failure.message));
    }

    #[test]
    fn a_field_conflict_names_both_managers_and_the_fields() {
        check(
            "ConfigMap",
            409,
            r#"{"reason":"Conflict","message":"Apply failed with 2 conflicts: …","details":{"causes":[
                {"reason":"FieldManagerConflict","message":"conflict with \"kubectl\" using v1","field":".data.a"},
                {"reason":"FieldManagerConflict","message":"conflict with \"other\" using v1","field":".data.c"},
                {"reason":"FieldManagerConflict","message":"conflict with \"kubectl\" using v1","field":".data.b"}]}}"#,
            expect![
                "Conflict: cannot apply ConfigMap a/b: evenkeel/kite/user is in conflict with another field manager: kubectl owns .data.a, .data.b; other owns .data.c"
            ],
        );
    }

    #[test]
    fn a_name_that_is_taken_is_a_conflict() {
        check(
            "ConfigMap",
            409,
            r#"{"reason":"AlreadyExists","message":"configmaps \"b\" already exists"}"#,
            expect![[r#"Conflict: cannot apply ConfigMap a/b: configmaps "b" already exists (409)"#]],
        );
    }

    #[test]
    fn an_invalid_secret_is_told_without_its_values() {
        check(
            "Secret",
            422,
            r#"{"reason":"Invalid","message":"data[x]: Invalid value: \"S3cret!x\"","details":{"causes":[
                {"reason":"FieldValueInvalid","message":"Invalid value: \"S3cret!x\"","field":"data[x]"}]}}"#,
            expect!["Invalid: cannot apply Secret a/b: Invalid (422) at data[x]"],
        );
    }

    #[test]
    fn a_namespace_that_goes_away_passes_but_a_missing_right_does_not() {
        check(
            "ConfigMap",
            403,
            r#"{"reason":"Forbidden","message":"being terminated","details":{"causes":[{"reason":"NamespaceTerminating"}]}}"#,
            expect!["Transient: cannot apply ConfigMap a/b: being terminated (403)"],
        );
        check(
            "ConfigMap",
            403,
            r#"{"reason":"Forbidden","message":"User \"x\" cannot patch"}"#,
            expect![[r#"Denied: cannot apply ConfigMap a/b: User "x" cannot patch (403)"#]],
        );
    }

    #[test]
    fn a_quota_that_is_not_counted_yet_passes_but_one_that_is_used_up_does_not() {
        check(
            "ConfigMap",
            403,
            r#"{"reason":"Forbidden","message":"configmaps \"b\" is forbidden: status unknown for quota: q, resources: configmaps"}"#,
            expect![[
                r#"Transient: cannot apply ConfigMap a/b: configmaps "b" is forbidden: status unknown for quota: q, resources: configmaps (403)"#
            ]],
        );
        check(
            "ConfigMap",
            403,
            r#"{"reason":"Forbidden","message":"exceeded quota: q, requested: configmaps=1, used: configmaps=2, limited: configmaps=2"}"#,
            expect![
                "Denied: cannot apply ConfigMap a/b: exceeded quota: q, requested: configmaps=1, used: configmaps=2, limited: configmaps=2 (403)"
            ],
        );
    }

    #[test]
    fn a_quota_that_others_charge_too_is_waited_for_and_its_own_conflict_is_one() {
        let modified = r#"{"reason":"Conflict","message":"the object has been modified","details":{"name":"q","kind":"resourcequotas"}}"#;
        check(
            "ConfigMap",
            409,
            modified,
            expect!["Transient: cannot apply ConfigMap a/b: the object has been modified (409)"],
        );
        check(
            "ResourceQuota",
            409,
            modified,
            expect!["Conflict: cannot apply ResourceQuota a/b: the object has been modified (409)"],
        );
    }

    #[test]
    fn a_busy_server_says_how_long_to_wait() {
        check(
            "ConfigMap",
            429,
            r#"{"reason":"TooManyRequests","message":"slow down","details":{"retryAfterSeconds":3}}"#,
            expect!["Transient, after 3000 ms: cannot apply ConfigMap a/b: slow down (429)"],
        );
    }

    #[test]
    fn each_code_has_its_kind() {
        use FailureKind::*;
        for (code, kind) in [
            (400, Invalid),
            (401, Transient),
            (403, Denied),
            (404, NotFound),
            (405, Invalid),
            (408, Transient),
            (409, Conflict),
            (410, Transient),
            (413, Invalid),
            (415, Invalid),
            (422, Invalid),
            (429, Transient),
            (500, Transient),
            (503, Transient),
            (504, Transient),
            (302, Transient),
        ] {
            assert_eq!(kind_of(&Gvk::new("", "v1", "Pod"), code, &Status::default()), kind, "{code}");
        }
    }

    #[test]
    fn pauses_grow_to_the_most_and_not_beyond() {
        let most = Duration::from_secs(30);
        let pauses: Vec<Duration> = (0..20).map(|failures| pause(failures, 7, most)).collect();
        assert!(pauses[0] < Duration::from_millis(101));
        assert!(pauses.iter().all(|pause| *pause <= most));
        assert!(pauses[19] > Duration::from_secs(22));
    }
}
