//! From the record of a pass to a span, in the JSON of OTLP.

use evenkeel_core::record::{DeedOutcome, End, PassRecord};
use serde_json::{Value, json};

use super::Service;

/// Identifiers that no other span has.
pub(super) struct Ids {
    state: u64,
}

impl Ids {
    /// From a seed that no other process has.
    pub(super) fn of(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next one; never 0, which stands for none.
    fn next(&mut self) -> u64 {
        loop {
            // SplitMix64: every state gives another number.
            self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            let mixed = mixed ^ (mixed >> 31);
            if mixed != 0 {
                return mixed;
            }
        }
    }
}

/// The span of a pass, in a trace of its own.
pub(super) fn of(record: &PassRecord, ids: &mut Ids) -> Value {
    let start = nanoseconds(&record.time);
    let end = start.saturating_add(u128::from(record.micros) * 1_000);
    let (high, low) = (ids.next(), ids.next());
    let mut attributes = vec![
        text("evenkeel.plugin", &record.plugin),
        text("evenkeel.plugin.version", &record.version),
        text("evenkeel.controller", &record.controller),
        text("evenkeel.object.kind", &record.key.gvk.to_string()),
        text("evenkeel.object.name", &record.key.name),
        text("evenkeel.trigger", &record.trigger.to_string()),
        text("evenkeel.outcome", outcome(&record.end)),
        number("evenkeel.calls", record.calls.len()),
    ];
    if let Some(namespace) = &record.key.namespace {
        attributes.push(text("k8s.namespace.name", namespace));
    }
    for (name, count) in ["evenkeel.actions.sent", "evenkeel.actions.skipped", "evenkeel.actions.failed"]
        .into_iter()
        .zip(deeds(record))
    {
        attributes.push(number(name, count));
    }
    let status = match &record.end {
        End::Failed { failure, .. } => json!({"code": 2, "message": failure.message}),
        _ => json!({}),
    };
    json!({
        "traceId": format!("{high:016x}{low:016x}"), "spanId": format!("{:016x}", ids.next()),
        "name": "pass", "kind": 1,
        "startTimeUnixNano": start.to_string(), "endTimeUnixNano": end.to_string(),
        "attributes": attributes, "status": status,
    })
}

/// The body of a request with these spans.
pub(super) fn request(service: &Service, spans: Vec<Value>) -> String {
    let mut attributes = vec![text("service.name", "evenkeel"), text("service.version", &service.version)];
    if !service.instance.is_empty() {
        attributes.push(text("service.instance.id", &service.instance));
    }
    json!({"resourceSpans": [{
        "resource": {"attributes": attributes},
        "scopeSpans": [{"scope": {"name": "evenkeel"}, "spans": spans}],
    }]})
    .to_string()
}

/// Actions that were sent, that would have changed nothing, and that failed.
fn deeds(record: &PassRecord) -> [usize; 3] {
    let mut counts = [0; 3];
    for deed in &record.deeds {
        let place = match deed.outcome {
            DeedOutcome::Done => 0,
            DeedOutcome::Skipped { .. } => 1,
            DeedOutcome::Failed { .. } => 2,
        };
        counts[place] += 1;
    }
    counts
}

fn outcome(end: &End) -> &'static str {
    match end {
        End::Concluded { .. } => "concluded",
        End::Stands => "stands",
        End::Failed { .. } => "failed",
        End::Stale => "stale",
        End::Waiting { .. } => "waiting",
        End::Slowed { .. } => "slowed",
        End::Paused => "paused",
    }
}

/// Nanoseconds since 1970; 0 for a time that cannot be read.
fn nanoseconds(time: &str) -> u128 {
    let time = time.parse::<jiff::Timestamp>().map(jiff::Timestamp::as_nanosecond);
    time.ok().and_then(|nanoseconds| nanoseconds.try_into().ok()).unwrap_or(0)
}

fn text(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

fn number(key: &str, value: usize) -> Value {
    // Whole numbers are text in this JSON, as they may have 64 bits.
    json!({"key": key, "value": {"intValue": value.to_string()}})
}
