//! R2: a namespace of Kite's that no user references goes, after a grace in which somebody may come back.
//!
//! A namespace is somebody's disks, so everything here errs on keeping it: a list of users that cannot be read fails
//! the pass, and the deletion only succeeds on the state that it was decided from.

use std::time::Duration;

use evenkeel_sdk::jiff::{SignedDuration, Timestamp};
use evenkeel_sdk::{Action, Conclusion, Pass, Stop, act, rfc3339};
use serde::Deserialize;
use serde_json::json;

use crate::api::KiteUser;
use crate::config::{NAMESPACE_KEYS, RuntimeConfig};
use crate::names;

mod view;

#[cfg(test)]
mod tests;

use view::Orphan;
pub use view::PRIMARY as VIEW;

/// A user who references the namespace.
#[derive(Deserialize)]
struct Referrer {
    metadata: ReferrerMeta,
}
evenkeel_sdk::view!(Referrer as KiteUser: "/metadata/deletionTimestamp", "/spec/namespace");

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReferrerMeta {
    deletion_timestamp: Option<String>,
}

/// Keep a namespace that is referenced, count down for one that is not, delete it at last.
pub fn reconcile(pass: &Pass) -> Result<Conclusion, Stop> {
    let Some(namespace) = pass.primary::<Orphan>()?.filter(Orphan::is_managed) else {
        return Ok(Conclusion::new());
    };
    let name = pass.name();
    let config = RuntimeConfig::ask(pass, NAMESPACE_KEYS);
    let referrers = pass.list::<Referrer>().field("/spec/namespace", name).ask();
    let clock = pass.clock();
    let (config, referrers, now) = (config.read()?, referrers.read()?, clock.read()?);

    let mut end = Conclusion::new();
    end.extend(config.complaint());
    if config.is_reserved_namespace(name) {
        let message =
            format!("{name} belongs to the platform: the label {} is ignored", names::MANAGED_BY_LABEL);
        return Ok(end.with(act::warning(pass.key().clone(), "ProtectedNamespace", message)));
    }
    // A user who is going away keeps nothing.
    if referrers.iter().any(|user| user.metadata.deletion_timestamp.is_none()) {
        end.extend(namespace.orphaned_since().map(|_| note_orphaned(pass, None)));
        return Ok(end);
    }
    if namespace.is_terminating() {
        return Ok(end);
    }
    if namespace.is_retained() {
        let message = format!("no user references {name}; the annotation {} keeps it", names::RETAIN);
        return Ok(end.with(act::normal(pass.key().clone(), "NamespaceRetained", message)));
    }
    let delete = act::delete(pass.key().clone()).uid(namespace.uid());
    if config.orphan_grace.is_zero() {
        return Ok(end.with(delete));
    }
    match age(namespace.orphaned_since(), now) {
        Some(age) if age >= config.orphan_grace => Ok(end.with(delete)),
        Some(age) => Ok(end.requeue_after(config.orphan_grace - age)),
        None => Ok(end.with(note_orphaned(pass, Some(now))).requeue_after(config.orphan_grace)),
    }
}

/// For how long the namespace has been without users; none where the note is missing, unreadable or of the future.
fn age(since: Option<&str>, now: Timestamp) -> Option<Duration> {
    let since: Timestamp = since?.parse().ok()?;
    let age: SignedDuration = now.duration_since(since);
    age.try_into().ok()
}

/// Notes since when the namespace is without users, or takes the note away. The host guards the patch by the state
/// that this pass saw.
fn note_orphaned(pass: &Pass, since: Option<Timestamp>) -> Action {
    let since = since.map(rfc3339);
    act::patch(
        pass.key().clone(),
        &json!({ "metadata": { "annotations": { names::ORPHANED_SINCE: since } } }),
    )
}
