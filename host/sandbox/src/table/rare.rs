//! Cells of kinds that people seldom look at: certificates, addresses, drivers, devices, flow control.

use super::cells::Look;
use crate::schema::columns::human_duration;
use serde_json::{Value, json};

/// The texts of a list with commas between.
pub(super) fn joined(look: &Look<'_>, path: &str) -> Value {
    let texts: Vec<&str> = look.list(path).iter().filter_map(Value::as_str).collect();
    json!(texts.join(","))
}

pub(super) fn signing_request(look: &Look<'_>) -> Vec<Value> {
    let duration = look.at("spec.expirationSeconds").and_then(Value::as_i64).map(human_duration);
    vec![
        look.age(),
        look.or_none(&look.string("spec.signerName")),
        look.text("spec.username"),
        json!(duration.unwrap_or_else(|| "<none>".into())),
        json!(condition(look)),
    ]
}

/// Whether a certificate was granted, and whether it was made.
fn condition(look: &Look<'_>) -> String {
    let is = |name: &str| look.list("status.conditions").iter().any(|one| one["type"] == name);
    let mut text = match (is("Denied"), is("Approved")) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    }
    .to_owned();
    if is("Failed") {
        text.push_str(",Failed");
    }
    if !look.string("status.certificate").is_empty() {
        text.push_str(",Issued");
    }
    text
}

/// Whom an address belongs to.
pub(super) fn parent(look: &Look<'_>) -> Value {
    if look.at("spec.parentRef").is_none() {
        return json!("<none>");
    }
    let text = |field: &str| look.string(&format!("spec.parentRef.{field}"));
    let mut place = text("resource");
    if !text("group").is_empty() {
        place = format!("{place}.{}", text("group"));
    }
    let mut parts = vec![place.to_lowercase(), text("namespace"), text("name")];
    parts.retain(|part| !part.is_empty());
    json!(parts.join("/"))
}

pub(super) fn driver(look: &Look<'_>) -> Vec<Value> {
    let flag = |field: &str, default: bool| {
        json!(look.at(&format!("spec.{field}")).and_then(Value::as_bool).unwrap_or(default))
    };
    let requests: Option<Vec<&str>> = look
        .at("spec.tokenRequests")
        .and_then(Value::as_array)
        .map(|list| list.iter().filter_map(|request| request["audience"].as_str()).collect());
    let modes = joined(look, "spec.volumeLifecycleModes");
    vec![
        flag("attachRequired", true),
        flag("podInfoOnMount", false),
        flag("storageCapacity", false),
        json!(requests.map_or_else(|| "<unset>".to_owned(), |requests| requests.join(","))),
        flag("requiresRepublish", false),
        look.or_none(modes.as_str().unwrap_or_default()),
        look.age(),
    ]
}

/// How far a claim of devices is.
pub(super) fn claim_state(look: &Look<'_>) -> Value {
    let deleted = look.at("metadata.deletionTimestamp").is_some();
    let mut states = Vec::new();
    if deleted {
        states.push("deleted");
    }
    if look.at("status.allocation").is_some() {
        states.push("allocated");
        if !look.list("status.reservedFor").is_empty() {
            states.push("reserved");
        }
    } else if !deleted {
        states.push("pending");
    }
    json!(states.join(","))
}

pub(super) fn flow_schema(look: &Look<'_>) -> Vec<Value> {
    let dangling = look.list("status.conditions").iter().find(|one| one["type"] == "Dangling");
    vec![
        look.text("spec.priorityLevelConfiguration.name"),
        look.number("spec.matchingPrecedence"),
        look.or_none(&look.string("spec.distinguisherMethod.type")),
        look.age(),
        json!(dangling.and_then(|one| one["status"].as_str()).unwrap_or("?")),
    ]
}

pub(super) fn priority_level(look: &Look<'_>) -> Vec<Value> {
    let or_none = |path: &str| look.at(path).cloned().unwrap_or_else(|| json!("<none>"));
    vec![
        look.text("spec.type"),
        or_none("spec.limited.nominalConcurrencyShares"),
        or_none("spec.limited.limitResponse.queuing.queues"),
        or_none("spec.limited.limitResponse.queuing.handSize"),
        or_none("spec.limited.limitResponse.queuing.queueLengthLimit"),
        look.age(),
    ]
}
