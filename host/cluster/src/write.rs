//! The host's writes: one request each, and its answer into the cache.

use std::sync::Arc;

use bytes::Bytes;
use evenkeel_core::admit::Write;
use evenkeel_core::contract::{Event, Failure, FailureKind, ObjectRef, Propagation};
use evenkeel_core::object::CachedObject;
use http::Method;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::Cluster;
use crate::discovery::Served;
use crate::failure::WriteError;
use crate::object;
use crate::rest::{Call, RestError, resource_path};
use crate::scope::{Depth, Place};
use crate::shared::{Shared, read, write};

/// The part of an answer that says whether the object is still there.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Remains<'a> {
    kind: String,
    metadata: RemainsMetadata,
    /// Of a `Status`.
    details: Option<RemainsDetails>,
    #[serde(borrow)]
    spec: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct RemainsMetadata {
    uid: String,
    deletion_grace_period_seconds: Option<i64>,
    finalizers: Option<Vec<String>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RemainsDetails {
    uid: String,
}

/// A Namespace keeps its own finalizers here.
#[derive(Deserialize, Default)]
#[serde(default)]
struct NamespaceSpec {
    finalizers: Option<Vec<String>>,
}

impl<'a> Remains<'a> {
    fn of(text: &'a str) -> Self {
        // What is no object at all holds nothing either.
        serde_json::from_str(text).unwrap_or_default()
    }

    /// Nothing holds it any more: whoever deletes it, or asks for the last finalizer to go, ends it.
    fn held_by_nothing(&self) -> bool {
        let none = |finalizers: Option<&Vec<String>>| finalizers.is_none_or(Vec::is_empty);
        let spec = self.spec.filter(|_| self.kind == "Namespace");
        let spec: NamespaceSpec =
            spec.and_then(|spec| serde_json::from_str(spec.get()).ok()).unwrap_or_default();
        none(self.metadata.finalizers.as_ref())
            && none(spec.finalizers.as_ref())
            && self.metadata.deletion_grace_period_seconds.unwrap_or(0) == 0
    }
}

impl Cluster {
    /// Carries out a write. The answer is in the cache, and told, when this returns; it is none where the object is gone
    /// now, and for an Event.
    ///
    /// After a conflict, and where the object turns out not to be there, the cache is brought up to date first, so that
    /// a retry at once is one on fresh state.
    pub async fn write(&self, write: &Write) -> Result<Option<Arc<CachedObject>>, WriteError> {
        self.write_as(write, None).await
    }

    /// As [`Cluster::write`], in the name of a user that the host may impersonate: the API server refuses what that user
    /// may not do.
    pub async fn write_as(
        &self,
        write: &Write,
        user: Option<&str>,
    ) -> Result<Option<Arc<CachedObject>>, WriteError> {
        match write {
            Write::Create { object, body, manager } => {
                let request = Request::new("create", object, Some(manager), body, user);
                self.shared.send_write(request).await
            }
            Write::Apply { object, body, manager, force, subresource } => {
                let mut request = Request::new("apply", object, Some(manager), body, user);
                request.force = *force;
                request.subresource = *subresource;
                self.shared.send_write(request).await
            }
            Write::Patch { object, body, manager, subresource } => {
                let mut request = Request::new("patch", object, Some(manager), body, user);
                request.subresource = *subresource;
                self.shared.send_write(request).await
            }
            Write::Delete { object, uid, resource_version, propagation } => {
                let options = delete_options(uid.as_deref(), resource_version.as_deref(), *propagation);
                self.shared.delete(object, uid.as_deref(), options, user).await
            }
            Write::Publish(event) => self.publish_as(event, user).await.map(|_| None),
        }
    }

    /// Publishes an Event, or counts it. Returns whether it was sent: of an object that has too many none is.
    pub async fn publish_as(&self, event: &Event, user: Option<&str>) -> Result<bool, WriteError> {
        self.shared.publish(event, user).await
    }
}

/// A write with a body that answers with the object.
struct Request<'a> {
    verb: &'static str,
    object: &'a ObjectRef,
    manager: Option<&'a str>,
    body: &'a str,
    force: bool,
    subresource: Option<&'a str>,
    /// In whose name; none for the host's own.
    user: Option<&'a str>,
}

impl<'a> Request<'a> {
    fn new(
        verb: &'static str,
        object: &'a ObjectRef,
        manager: Option<&'a str>,
        body: &'a str,
        user: Option<&'a str>,
    ) -> Self {
        Request { verb, object, manager, body, force: false, subresource: None, user }
    }

    /// What it does, in words.
    fn doing(&self) -> String {
        match self.subresource {
            Some(subresource) => format!("{} {} of {}", self.verb, subresource, self.object),
            None => format!("{} {}", self.verb, self.object),
        }
    }

    fn call(&self, path: String) -> Call {
        let body = Bytes::copy_from_slice(self.body.as_bytes());
        let method = if self.verb == "create" { Method::POST } else { Method::PATCH };
        let mut call = Call::write(self.verb, method, path, body).in_name_of(self.user);
        match self.verb {
            // JSON is YAML; API servers know the older of the two names everywhere.
            "apply" => call.content_type = "application/apply-patch+yaml",
            "patch" => call.content_type = "application/merge-patch+json",
            _ => {}
        }
        if let Some(manager) = self.manager {
            call = call.with("fieldManager", manager);
        }
        if self.force {
            call = call.with("force", "true");
        }
        // The server would read each body once more for warnings, which nobody sees here. An apply of a field that the schema lacks
        // is refused all the same.
        call.with("fieldValidation", "Ignore")
    }
}

impl Shared {
    async fn send_write(&self, request: Request<'_>) -> Result<Option<Arc<CachedObject>>, WriteError> {
        let object = request.object;
        let gvk = &object.gvk;
        let doing = request.doing();
        let told = |error: &RestError| WriteError::new(gvk, &doing, request.manager, error);
        let name = (request.verb != "create").then_some(&*object.name);
        let path = self.path(object, name, request.subresource, &doing).await?;
        match self.rest.written(request.call(path)).await {
            Ok(text) => self.absorb(object, &text).await.map_err(|error| told(&error)),
            Err(error) => {
                self.stale(object, &error).await;
                Err(told(&error))
            }
        }
    }

    /// An error that says that the cache is behind brings it up to date.
    async fn stale(&self, object: &ObjectRef, error: &RestError) {
        let behind = match error.code() {
            Some(404) => self.peek(object).is_some(),
            Some(409) => self.is_covered(object),
            Some(_) | None => false,
        };
        if behind && let Err(error) = self.refresh(object).await {
            tracing::debug!(%object, error = %crate::failure::chain(&error), "cannot look at it again");
        }
    }

    /// The path of an object, or of its collection.
    pub(crate) async fn path(
        &self,
        object: &ObjectRef,
        name: Option<&str>,
        subresource: Option<&str>,
        doing: &str,
    ) -> Result<String, WriteError> {
        let gvk = &object.gvk;
        match self.discovery.resolve(&self.rest, gvk).await {
            Ok(Served::Yes { plural, namespaced, verbs: _ }) => {
                let namespace = object.namespace.as_deref().filter(|_| namespaced);
                Ok(resource_path(gvk, &plural, namespace, name, subresource))
            }
            Ok(Served::No) => {
                let message = format!("cannot {doing}: the API server does not serve {gvk} {}", gvk.version);
                let failure = Failure::new(FailureKind::NotFound, message);
                Err(WriteError { failure, code: None, reason: "Unserved".into() })
            }
            Err(error) => Err(WriteError::new(gvk, doing, None, &error)),
        }
    }

    /// Takes in what the API server answered to a write; none where the object ended with it.
    async fn absorb(&self, object: &ObjectRef, text: &str) -> Result<Option<Arc<CachedObject>>, RestError> {
        let parsed = object::parse(&object.gvk, text, Depth::Whole);
        let parsed = Arc::new(parsed.map_err(|cause| RestError::Decode(cause.into()))?);
        if parsed.head().deleting && Remains::of(text).held_by_nothing() {
            self.bury(object, &parsed.head().uid).await;
            return Ok(None);
        }
        self.keep(object, text, parsed.clone()).await;
        Ok(Some(parsed))
    }

    /// Puts an object, read from this text, into the cache if a watch covers it: what nobody watches would never leave
    /// it again. Returns whether it was news.
    pub(crate) async fn keep(&self, object: &ObjectRef, text: &str, new: Arc<CachedObject>) -> bool {
        let Some(kind) = self.known_kind(&object.gvk) else { return false };
        let place = Place::of(object);
        let change = {
            let mut kind = write(&kind);
            match kind.covering(&place) {
                Some(Depth::Whole) => kind.put(new, Depth::Whole),
                Some(Depth::Metadata) => object::parse(&object.gvk, text, Depth::Metadata)
                    .ok()
                    .and_then(|new| kind.put(Arc::new(new), Depth::Metadata)),
                None => None,
            }
        };
        let news = change.is_some();
        self.tell(change).await;
        news
    }

    /// The object with this UID is gone.
    pub(crate) async fn bury(&self, object: &ObjectRef, uid: &str) -> bool {
        let Some(kind) = self.known_kind(&object.gvk) else { return false };
        let change = write(&kind).remove(&Place::of(object), uid);
        let news = change.is_some();
        self.tell(change).await;
        news
    }

    /// Whether a watch covers an object.
    pub(crate) fn is_covered(&self, object: &ObjectRef) -> bool {
        let kind = self.known_kind(&object.gvk);
        kind.is_some_and(|kind| read(&kind).covering(&Place::of(object)).is_some())
    }

    /// What is cached of an object.
    pub(crate) fn peek(&self, object: &ObjectRef) -> Option<Arc<CachedObject>> {
        let kind = self.known_kind(&object.gvk)?;
        read(&kind).peek(&Place::of(object)).cloned()
    }

    async fn delete(
        &self,
        object: &ObjectRef,
        uid: Option<&str>,
        options: Bytes,
        user: Option<&str>,
    ) -> Result<Option<Arc<CachedObject>>, WriteError> {
        let doing = format!("delete {object}");
        let told = |error: &RestError| WriteError::new(&object.gvk, &doing, None, error);
        let path = self.path(object, Some(&object.name), None, &doing).await?;
        let call = Call::write("delete", Method::DELETE, path, options).in_name_of(user);
        // Who is meant if the answer does not say: the one known when the request left.
        let known = self.peek(object).map(|known| known.head().uid.to_string());
        let meant = uid.map(str::to_owned).or(known).unwrap_or_default();
        match self.rest.written(call).await {
            Ok(text) => {
                let remains = Remains::of(&text);
                if remains.kind == "Status" || remains.held_by_nothing() {
                    let told = remains.details.map_or(remains.metadata.uid, |details| details.uid);
                    let uid = Some(told).filter(|uid| !uid.is_empty()).unwrap_or(meant);
                    self.bury_known(object, &uid).await;
                    return Ok(None);
                }
                self.absorb(object, &text).await.map_err(|error| told(&error))
            }
            // Gone already: that is what was asked for.
            Err(RestError::Status { code: 404, .. }) => {
                self.bury_known(object, &meant).await;
                Ok(None)
            }
            Err(error) => {
                self.stale(object, &error).await;
                Err(told(&error))
            }
        }
    }

    /// As [`Shared::bury`], but an unknown UID means nobody.
    async fn bury_known(&self, object: &ObjectRef, uid: &str) {
        if !uid.is_empty() {
            self.bury(object, uid).await;
        }
    }
}

fn delete_options(uid: Option<&str>, resource_version: Option<&str>, propagation: Propagation) -> Bytes {
    let policy = match propagation {
        Propagation::Background => "Background",
        Propagation::Foreground => "Foreground",
        Propagation::Orphan => "Orphan",
    };
    let mut options = json!({ "kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": policy });
    let mut preconditions = serde_json::Map::new();
    preconditions.extend(uid.map(|uid| ("uid".to_owned(), uid.into())));
    preconditions.extend(resource_version.map(|version| ("resourceVersion".to_owned(), version.into())));
    if !preconditions.is_empty() {
        options["preconditions"] = Value::Object(preconditions);
    }
    options.to_string().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_says_whether_the_object_is_still_there() {
        for (text, ended) in [
            (r#"{"kind":"ConfigMap","metadata":{"deletionTimestamp":"x"}}"#, true),
            (r#"{"kind":"ConfigMap","metadata":{"deletionTimestamp":"x","finalizers":["a"]}}"#, false),
            (r#"{"kind":"Pod","metadata":{"deletionTimestamp":"x","deletionGracePeriodSeconds":30}}"#, false),
            (r#"{"kind":"Pod","metadata":{"deletionTimestamp":"x","deletionGracePeriodSeconds":0}}"#, true),
            (r#"{"kind":"Namespace","metadata":{},"spec":{"finalizers":["kubernetes"]}}"#, false),
            (r#"{"kind":"Odd","metadata":{"finalizers":null},"spec":"text"}"#, true),
            (r#"{"kind":"Odd","metadata":{"finalizers":["a"]},"spec":{"finalizers":"text"}}"#, false),
        ] {
            assert_eq!(Remains::of(text).held_by_nothing(), ended, "{text}");
        }
    }

    #[test]
    fn a_write_is_one_request_that_asks_for_no_more_than_it_needs() {
        let gvk = evenkeel_core::contract::Gvk::new("", "v1", "ConfigMap");
        let object = ObjectRef::new(gvk, Some("n"), "c");
        let sent = |verb, force| {
            let mut request = Request::new(verb, &object, Some("m"), "{}", Some("u"));
            request.force = force;
            let call = request.call("/p".to_owned());
            let query: Vec<String> =
                call.query.iter().map(|(name, value)| format!("{name}={value}")).collect();
            assert_eq!((&*call.body, call.user.as_deref()), (&b"{}"[..], Some("u")));
            format!("{} {} {}", call.method, call.content_type, query.join("&"))
        };
        for (verb, force, expected) in [
            ("create", false, "POST application/json fieldManager=m&fieldValidation=Ignore"),
            ("apply", false, "PATCH application/apply-patch+yaml fieldManager=m&fieldValidation=Ignore"),
            (
                "apply",
                true,
                "PATCH application/apply-patch+yaml fieldManager=m&force=true&fieldValidation=Ignore",
            ),
            ("patch", false, "PATCH application/merge-patch+json fieldManager=m&fieldValidation=Ignore"),
        ] {
            assert_eq!(sent(verb, force), expected);
        }
    }

    #[test]
    fn a_delete_carries_what_it_was_decided_on() {
        let options = delete_options(Some("u"), Some("7"), Propagation::Foreground);
        let options: Value = serde_json::from_slice(&options).expect("JSON");
        assert_eq!(options["preconditions"], json!({"uid": "u", "resourceVersion": "7"}));
        assert_eq!(options["propagationPolicy"], "Foreground");
    }
}
