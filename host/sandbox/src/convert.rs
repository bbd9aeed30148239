//! The one conversion between versions that is more than a name: Events of core and of `events.k8s.io`.

use serde_json::{Map, Value};

/// Field names of core's Event and of the newer one.
const NAMES: &[(&str, &str)] = &[
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

/// A core Event as one of `events.k8s.io`.
pub(crate) fn event_to_events(event: &mut Value) {
    rename(event, |name| NAMES.iter().find(|(core, _)| *core == name).map(|(_, new)| *new));
}

/// An Event of `events.k8s.io` as one of core.
pub(crate) fn event_to_core(event: &mut Value) {
    rename(event, |name| NAMES.iter().find(|(_, new)| *new == name).map(|(core, _)| *core));
}

fn rename(event: &mut Value, to: impl Fn(&str) -> Option<&'static str>) {
    let Some(fields) = event.as_object_mut() else { return };
    let old: Map<String, Value> = std::mem::take(fields);
    fields.extend(old.into_iter().map(|(name, value)| (to(&name).map_or(name, str::to_owned), value)));
}
