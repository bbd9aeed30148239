//! What each watch has told its client, so that it can be seen whether it is up to date.
//!
//! A real server tells of a change some time after the change. Whoever looked at the host before that would see it at rest, and
//! would be wrong. So each watch's objects are kept, by nothing but their versions, and compared with a list taken afresh.

use std::collections::BTreeMap;

use serde_json::Value;

/// An object of one collection, by namespace and name; its UID and version.
pub(super) type Versions = BTreeMap<(String, String), (String, String)>;

/// A watch, or a list before it: whose, and of what (path and selectors).
pub(super) type Subject = (u32, String);

/// What clients know.
#[derive(Debug, Default)]
pub(super) struct Streams {
    known: BTreeMap<Subject, Versions>,
    open: BTreeMap<Subject, u32>,
}

/// What a request for a list or a watch is about: its path and what selects, without what only says how to answer.
pub(super) fn subject(uri: &http::Uri) -> String {
    let mut selects: Vec<&str> = uri
        .query()
        .unwrap_or_default()
        .split('&')
        .filter(|pair| pair.starts_with("labelSelector=") || pair.starts_with("fieldSelector="))
        .collect();
    selects.sort_unstable();
    match selects.is_empty() {
        true => uri.path().to_owned(),
        false => format!("{}?{}", uri.path(), selects.join("&")),
    }
}

/// What tells an object and its version apart.
fn version(object: &Value) -> Option<((String, String), (String, String))> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let name = text("/metadata/name");
    let (uid, version) = (text("/metadata/uid"), text("/metadata/resourceVersion"));
    (!name.is_empty()).then(|| ((text("/metadata/namespace"), name), (uid, version)))
}

/// The objects of a list.
pub(super) fn versions(list: &Value) -> Versions {
    list["items"].as_array().into_iter().flatten().filter_map(version).collect()
}

impl Streams {
    /// A client was answered with a list, or with a further page of one.
    pub(super) fn listed(&mut self, subject: Subject, list: &Value, further: bool) {
        let known = self.known.entry(subject).or_default();
        if !further {
            known.clear();
        }
        known.extend(versions(list));
    }

    /// A client watches, from a version on that it has, or from the beginning.
    pub(super) fn opened(&mut self, subject: Subject, anew: bool) {
        if anew {
            self.known.remove(&subject);
        }
        *self.open.entry(subject).or_default() += 1;
    }

    /// Its watch ended.
    pub(super) fn closed(&mut self, subject: &Subject) {
        if let Some(open) = self.open.get_mut(subject) {
            *open -= 1;
            if *open == 0 {
                self.open.remove(subject);
            }
        }
    }

    /// A client was told of a change.
    pub(super) fn told(&mut self, subject: &Subject, event: &Value) {
        let Some((key, version)) = version(&event["object"]) else { return };
        let known = self.known.entry(subject.clone()).or_default();
        match event["type"].as_str() {
            Some("ADDED" | "MODIFIED") => {
                known.insert(key, version);
            }
            Some("DELETED") => {
                known.remove(&key);
            }
            _ => {}
        }
    }

    /// What is watched now.
    pub(super) fn watched(&self) -> Vec<String> {
        let mut watched: Vec<String> = self.open.keys().map(|(_, subject)| subject.clone()).collect();
        watched.sort_unstable();
        watched.dedup();
        watched
    }

    /// Whether everybody who watches this knows just these objects.
    pub(super) fn up_to_date(&self, subject: &str, now: &Versions) -> bool {
        let empty = Versions::new();
        self.open
            .keys()
            .filter(|(_, watched)| watched == subject)
            .all(|own| self.known.get(own).unwrap_or(&empty) == now)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(name: &str, version: &str) -> Value {
        json!({"metadata": {"namespace": "a", "name": name, "uid": "u", "resourceVersion": version}})
    }

    #[test]
    fn a_watch_is_up_to_date_once_it_was_told_of_what_a_fresh_list_has() {
        let mut streams = Streams::default();
        let own = (1, "/api/v1/pods".to_owned());
        streams.listed(own.clone(), &json!({"items": [object("x", "1"), object("y", "2")]}), false);
        streams.opened(own.clone(), false);
        let now = versions(&json!({"items": [object("x", "3")]}));
        assert!(!streams.up_to_date("/api/v1/pods", &now));
        streams.told(&own, &json!({"type": "MODIFIED", "object": object("x", "3")}));
        assert!(!streams.up_to_date("/api/v1/pods", &now), "y is still known");
        streams.told(&own, &json!({"type": "DELETED", "object": object("y", "4")}));
        assert!(streams.up_to_date("/api/v1/pods", &now));
        streams.opened((2, "/api/v1/pods".to_owned()), true);
        assert!(!streams.up_to_date("/api/v1/pods", &now), "another client knows nothing yet");
        streams.closed(&(2, "/api/v1/pods".to_owned()));
        assert!(streams.up_to_date("/api/v1/pods", &now));
    }

    #[test]
    fn what_only_says_how_to_answer_makes_no_other_subject() {
        let uri = "/api/v1/pods?watch=true&labelSelector=a&resourceVersion=5&fieldSelector=b".parse();
        assert_eq!(subject(&uri.expect("an address")), "/api/v1/pods?fieldSelector=b&labelSelector=a");
    }
}
