//! What a record of the journal says, in the words of scenario files.

use std::time::Duration;

use evenkeel_core::contract::{Action, Failure, ObjectRef};
use evenkeel_core::record::{DeedOutcome, DeedRecord, End, PassRecord};
use evenkeel_core::target::verb;

use super::duration::HumanDuration;

/// What the host sent, in order: `verb Kind namespace/name`. What it left out is not there; what failed is marked so.
pub fn writes(record: &PassRecord) -> Vec<String> {
    record.deeds.iter().filter_map(|deed| line(record, deed)).collect()
}

fn line(record: &PassRecord, deed: &DeedRecord) -> Option<String> {
    let (word, about) = match &deed.action {
        Action::Publish(_) => ("event".to_owned(), deed.object.as_ref()),
        // The outside world knows no objects; what asked for it does.
        Action::External(operation) => (format!("external {}", operation.operation), Some(&record.key)),
        action => (verb(action).to_owned(), deed.object.as_ref()),
    };
    let line = match about {
        Some(about) => format!("{word} {about}"),
        None => word,
    };
    match &deed.outcome {
        DeedOutcome::Done => Some(line),
        DeedOutcome::Skipped { .. } => None,
        DeedOutcome::Failed { .. } => Some(format!("{line} (failed)")),
    }
}

/// Calls of the plugin in it.
pub fn calls(record: &PassRecord) -> u64 {
    u64::try_from(record.calls.len()).unwrap_or(u64::MAX)
}

/// Everything in it that the plugin or the host put out, as one text: no input.
pub fn outputs(record: &PassRecord) -> String {
    let log: Vec<_> = record.calls.iter().map(|call| (&call.reply, &call.log)).collect();
    let replies: Vec<String> = log
        .iter()
        .map(|(reply, log)| match reply {
            // Questions are put out, answers are taken in.
            evenkeel_core::record::CallReply::Asked { queries, .. } => format!("{queries:?} {log:?}"),
            other => format!("{other:?} {log:?}"),
        })
        .collect();
    format!("{replies:?} {:?} {:?}", record.deeds, record.end)
}

/// The controller.
pub fn controller(record: &PassRecord) -> &str {
    &record.controller
}

/// The key as scenario files write it: `name` or `namespace/name`.
pub fn key(record: &PassRecord) -> String {
    place(&record.key)
}

fn place(object: &ObjectRef) -> String {
    match &object.namespace {
        Some(namespace) => format!("{namespace}/{}", object.name),
        None => object.name.to_string(),
    }
}

/// After how long the record's pass is to be run again.
pub fn requeue_after(record: &PassRecord) -> Option<HumanDuration> {
    match &record.end {
        End::Concluded { requeue_after } => {
            requeue_after.map(|millis| HumanDuration(Duration::from_millis(millis)))
        }
        _ => None,
    }
}

/// How the record's pass failed.
pub fn failure(record: &PassRecord) -> Option<&Failure> {
    match &record.end {
        End::Failed { failure, .. } => Some(failure),
        _ => None,
    }
}

/// Whether the record says when its key is to be run again: one that stands leaves that to the one before.
pub fn concludes(record: &PassRecord) -> bool {
    matches!(record.end, End::Concluded { .. })
}

/// What it is about, for messages.
pub fn title(record: &PassRecord) -> String {
    format!("{} of {} at {}", record.controller, record.key, record.time)
}
