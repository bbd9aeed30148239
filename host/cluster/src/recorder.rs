//! Kubernetes Events, combined as client-go combines them.
//!
//! The same Event again raises the count of the first. Many that differ in their message only become one that says so.
//! An object that has too many of either is heard less often.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use evenkeel_core::contract::{Event, EventType, Gvk, ObjectRef};
use evenkeel_core::limits::EVENT_MESSAGE_BYTES_MAX;
use http::Method;
use serde_json::json;
use tokio::time::Instant;

use crate::failure::{WriteError, text_seed};
use crate::limits::{
    EVENT_BURST, EVENT_REFILL, EVENT_SIMILAR_MAX, EVENT_SIMILAR_WITHIN, EVENTS_REMEMBERED_MAX,
};
use crate::rest::{Call, RestError, lock, resource_path};
use crate::shared::Shared;

/// What was published lately.
#[derive(Default)]
pub(crate) struct Recorder {
    memory: Mutex<Memory>,
}

#[derive(Default)]
struct Memory {
    /// Events that exist, so that a repeated one is counted.
    published: BTreeMap<Same, Published>,
    /// Messages by what is otherwise the same.
    similar: BTreeMap<Similar, Messages>,
    /// What is left of each object's allowance.
    allowances: BTreeMap<(ObjectRef, String), Allowance>,
    dropped: u64,
}

/// One object, of one life.
type Similar = (ObjectRef, String, bool, String);
type Same = (Similar, String);

struct Published {
    name: String,
    count: u64,
    at: Instant,
}

struct Messages {
    hashes: BTreeSet<u64>,
    since: Instant,
}

struct Allowance {
    left: f64,
    at: Instant,
}

/// As much of a message as the API server's own limit allows.
fn cut(message: &str) -> &str {
    message.get(..message.floor_char_boundary(EVENT_MESSAGE_BYTES_MAX)).unwrap_or_default()
}

/// What to send.
#[derive(Debug, PartialEq, Eq)]
enum Plan {
    /// A new Event of this name.
    Create { name: String, message: String },
    /// The Event of this name happened so many times.
    Count { name: String, message: String, count: u64 },
    /// Nothing: there were too many.
    Drop,
}

/// An Event as it is sent.
struct Sight {
    name: String,
    message: String,
    count: u64,
    time: String,
    /// Of the object it is about, where it is known.
    uid: String,
    /// Its revision, where it is known.
    version: Option<String>,
}

impl Recorder {
    /// Events dropped so far.
    pub(crate) fn dropped(&self) -> u64 {
        lock(&self.memory).dropped
    }
}

impl Memory {
    fn plan(&mut self, event: &Event, uid: &str, now: Instant, salt: i128) -> Plan {
        let warning = event.severity == EventType::Warning;
        let similar: Similar = (event.about.clone(), uid.to_owned(), warning, event.reason.clone());
        let told = cut(&event.message);
        let message = self.message(&similar, told, now);
        let (key, shown) = match &message {
            Some(combined) => ((similar, String::new()), cut(combined).to_owned()),
            None => ((similar, told.to_owned()), told.to_owned()),
        };
        if !self.allowed(&(event.about.clone(), uid.to_owned()), now) {
            self.dropped += 1;
            return Plan::Drop;
        }
        if let Some(published) = self.published.get_mut(&key) {
            published.count += 1;
            published.at = now;
            return Plan::Count { name: published.name.clone(), message: shown, count: published.count };
        }
        let name = event_name(&event.about, &format!("{key:?} {salt}"));
        forget_oldest(&mut self.published, |published| published.at);
        self.published.insert(key, Published { name: name.clone(), count: 1, at: now });
        Plan::Create { name, message: shown }
    }

    /// The message that stands for many, where there were too many different ones lately.
    fn message(&mut self, similar: &Similar, message: &str, now: Instant) -> Option<String> {
        forget_oldest(&mut self.similar, |messages| messages.since);
        let messages = self
            .similar
            .entry(similar.clone())
            .or_insert_with(|| Messages { hashes: BTreeSet::new(), since: now });
        if now.saturating_duration_since(messages.since) > EVENT_SIMILAR_WITHIN {
            messages.hashes.clear();
        }
        messages.since = now;
        messages.hashes.insert(text_seed(message));
        if messages.hashes.len() <= EVENT_SIMILAR_MAX {
            return None;
        }
        // Which ones they were no longer matters.
        messages.hashes.pop_first();
        Some(format!("(combined from similar events): {message}"))
    }

    fn allowed(&mut self, object: &(ObjectRef, String), now: Instant) -> bool {
        forget_oldest(&mut self.allowances, |allowance| allowance.at);
        let burst = f64::from(EVENT_BURST);
        let allowance = self.allowances.entry(object.clone()).or_insert(Allowance { left: burst, at: now });
        let passed = now.saturating_duration_since(allowance.at).as_secs_f64();
        allowance.left = (allowance.left + passed / EVENT_REFILL.as_secs_f64()).min(burst);
        allowance.at = now;
        let allowed = allowance.left >= 1.0;
        if allowed {
            allowance.left -= 1.0;
        }
        allowed
    }
}

/// Keeps a map within its bound.
fn forget_oldest<K: Ord + Clone, V>(map: &mut BTreeMap<K, V>, at: impl Fn(&V) -> Instant) {
    if map.len() < EVENTS_REMEMBERED_MAX {
        return;
    }
    if let Some(oldest) = map.iter().min_by_key(|(_, value)| at(value)).map(|(key, _)| key.clone()) {
        map.remove(&oldest);
    }
}

/// A name that is valid whatever the object is called, as client-go's: the object's name and a number.
fn event_name(about: &ObjectRef, seed: &str) -> String {
    let name: String = about
        .name
        .chars()
        .map(|c| if c.is_ascii_lowercase() || c.is_ascii_digit() || c == '.' { c } else { '-' })
        .take(230)
        .collect();
    let name = name.trim_matches(['-', '.']);
    let name = if name.is_empty() { "object" } else { name };
    format!("{name}.{:016x}", text_seed(seed))
}

fn events() -> Gvk {
    Gvk::new("", "v1", "Event")
}

impl Shared {
    /// Publishes an Event, or counts it. Returns whether it was sent.
    pub(crate) async fn publish(&self, event: &Event, user: Option<&str>) -> Result<bool, WriteError> {
        let seen = self.peek(&event.about);
        let uid = seen.as_ref().map(|seen| seen.head().uid.to_string()).unwrap_or_default();
        let version = seen.as_ref().map(|seen| seen.head().resource_version.to_string());
        let time = (self.options.clock)();
        let plan = lock(&self.recorder.memory).plan(event, &uid, Instant::now(), time.as_nanosecond());
        let sent = match plan {
            Plan::Drop => {
                tracing::debug!(object = %event.about, reason = event.reason, "too many Events, dropped");
                return Ok(false);
            }
            Plan::Create { name, message } => {
                let sight = Sight { name, message, count: 1, time: seconds(time), uid, version };
                self.create_event(event, &sight, user).await
            }
            Plan::Count { name, message, count } => {
                let sight = Sight { name, message, count, time: seconds(time), uid, version };
                match self.count_event(event, &sight, user).await {
                    // It has expired meanwhile.
                    Err(RestError::Status { code: 404, .. }) => self.create_event(event, &sight, user).await,
                    sent => sent,
                }
            }
        };
        sent.map(|()| true).map_err(|error| {
            let doing = format!("publish {} about {}", event.reason, event.about);
            WriteError::new(&events(), &doing, None, &error)
        })
    }

    async fn create_event(&self, event: &Event, sight: &Sight, user: Option<&str>) -> Result<(), RestError> {
        let namespace = event_namespace(event);
        let about = &event.about;
        let Sight { name, message, count, time, uid, version } = sight;
        let mut involved = json!({
            "apiVersion": about.gvk.api_version(), "kind": about.gvk.kind, "name": about.name,
        });
        for (field, value) in [
            ("namespace", about.namespace.as_deref()),
            ("uid", Some(&**uid)),
            ("resourceVersion", version.as_deref()),
        ] {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                involved[field] = value.into();
            }
        }
        let body = json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": { "name": name, "namespace": namespace },
            "involvedObject": involved,
            "type": severity(event.severity), "reason": event.reason, "message": message,
            "count": count, "firstTimestamp": time, "lastTimestamp": time,
            "source": { "component": self.options.reporter },
            "reportingComponent": self.options.reporter, "reportingInstance": self.options.reporter_instance,
        });
        let path = resource_path(&events(), "events", Some(namespace), None, None);
        let call = Call::write("create", Method::POST, path, body.to_string().into());
        let call = call.with("fieldManager", self.options.manager.clone()).in_name_of(user);
        match self.rest.text(call).await {
            // Written before, and the answer was lost.
            Ok(_) | Err(RestError::Status { code: 409, .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn count_event(&self, event: &Event, sight: &Sight, user: Option<&str>) -> Result<(), RestError> {
        let Sight { name, message, count, time, uid: _, version: _ } = sight;
        let path = resource_path(&events(), "events", Some(event_namespace(event)), Some(name), None);
        let body = json!({ "count": count, "message": message, "lastTimestamp": time });
        let mut call = Call::write("patch", Method::PATCH, path, body.to_string().into());
        call.content_type = "application/merge-patch+json";
        let call = call.with("fieldManager", self.options.manager.clone()).in_name_of(user);
        self.rest.text(call).await.map(|_| ())
    }
}

/// Events about cluster-scoped objects live here.
fn event_namespace(event: &Event) -> &str {
    event.about.namespace.as_deref().unwrap_or("default")
}

fn severity(severity: EventType) -> &'static str {
    match severity {
        EventType::Normal => "Normal",
        EventType::Warning => "Warning",
    }
}

fn seconds(time: jiff::Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn event(name: &str, message: &str) -> Event {
        Event {
            about: ObjectRef::new(Gvk::new("", "v1", "ConfigMap"), Some("a"), name),
            severity: EventType::Normal,
            reason: "Synced".into(),
            message: message.into(),
        }
    }

    fn plan(memory: &mut Memory, at: Instant, message: &str) -> Plan {
        memory.plan(&event("b", message), "uid", at, 0)
    }

    #[tokio::test(start_paused = true)]
    async fn no_message_is_longer_than_the_api_server_takes() {
        let mut memory = Memory::default();
        for number in 0..2 * EVENT_SIMILAR_MAX {
            let long = format!("{number}{}", "ö".repeat(EVENT_MESSAGE_BYTES_MAX));
            let sent = match plan(&mut memory, Instant::now(), &long) {
                Plan::Create { message, .. } | Plan::Count { message, .. } => message,
                Plan::Drop => continue,
            };
            assert!((EVENT_MESSAGE_BYTES_MAX - 1..=EVENT_MESSAGE_BYTES_MAX).contains(&sent.len()));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_same_event_again_is_counted() {
        let mut memory = Memory::default();
        let now = Instant::now();
        let Plan::Create { name, .. } = plan(&mut memory, now, "done") else {
            panic!("the first is created")
        };
        let again = plan(&mut memory, now, "done");
        assert_eq!(again, Plan::Count { name, message: "done".into(), count: 2 });
        assert!(matches!(plan(&mut memory, now, "done otherwise"), Plan::Create { .. }));
    }

    #[tokio::test(start_paused = true)]
    async fn many_similar_events_become_one() {
        let mut memory = Memory::default();
        let now = Instant::now();
        for number in 0..EVENT_SIMILAR_MAX {
            assert!(matches!(plan(&mut memory, now, &format!("try {number}")), Plan::Create { .. }));
        }
        let Plan::Create { message, name } = plan(&mut memory, now, "try 10") else { panic!("one for all") };
        assert_eq!(message, "(combined from similar events): try 10");
        let next = plan(&mut memory, now, "try 11");
        let message = "(combined from similar events): try 11".into();
        assert_eq!(next, Plan::Count { name, message, count: 2 });
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_with_too_many_events_is_heard_less() {
        let mut memory = Memory::default();
        let now = Instant::now();
        for _ in 0..EVENT_BURST {
            assert_ne!(plan(&mut memory, now, "done"), Plan::Drop);
        }
        assert_eq!(plan(&mut memory, now, "done"), Plan::Drop);
        assert_ne!(memory.plan(&event("other", "done"), "uid", now, 0), Plan::Drop);
        let later = now + EVENT_REFILL + Duration::from_secs(1);
        assert_ne!(plan(&mut memory, later, "done"), Plan::Drop);
        assert_eq!(plan(&mut memory, later, "done"), Plan::Drop);
    }

    #[tokio::test(start_paused = true)]
    async fn memory_of_events_is_bounded() {
        let mut memory = Memory::default();
        let now = Instant::now();
        for number in 0..EVENTS_REMEMBERED_MAX + 10 {
            let _ = memory.plan(&event(&format!("n{number}"), "done"), "uid", now, 0);
        }
        assert!(memory.published.len() <= EVENTS_REMEMBERED_MAX);
        assert!(memory.similar.len() <= EVENTS_REMEMBERED_MAX);
        assert!(memory.allowances.len() <= EVENTS_REMEMBERED_MAX);
    }

    #[test]
    fn an_event_of_an_object_with_an_odd_name_has_a_valid_one() {
        for (name, start) in [("b", "b."), ("system:node", "system-node."), ("::", "object."), ("-a-", "a.")]
        {
            let about = ObjectRef::new(Gvk::new("", "v1", "X"), None, name);
            let event = event_name(&about, "seed");
            assert!(event.starts_with(start), "{event}");
            assert_eq!(event.len(), start.len() + 16);
        }
    }
}
