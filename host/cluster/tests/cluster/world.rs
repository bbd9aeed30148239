//! An embedded Kubernetes, a cluster on it, and somebody else who uses it too.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use evenkeel_cluster::{CacheEvent, Cluster, ClusterOptions, Depth, ListLookup, Lookup, Scope};
use evenkeel_core::contract::{Gvk, ListQuery, ObjectRef};
use evenkeel_core::object::CachedObject;
use evenkeel_sandbox::{ApiBody, Cut, Fault, Sandbox, SandboxOptions};
use http::{Method, Request};
use http_body_util::{BodyExt, StreamBody};
use kube::client::Body;
use serde_json::Value;
use tokio::sync::mpsc;
use tower::ServiceExt;

pub struct World {
    pub sandbox: Sandbox,
    pub cluster: Cluster,
    /// Odd while watches are frozen.
    freezes: Arc<AtomicU64>,
    /// Questions for what `example.com` serves that get an answer from before its definition.
    belated: Arc<AtomicU64>,
    feed: mpsc::Receiver<CacheEvent>,
    user: kube::Client,
}

impl World {
    pub fn new() -> World {
        Self::with(|_| {})
    }

    /// A world whose cluster has other options.
    pub fn with(set: impl FnOnce(&mut ClusterOptions)) -> World {
        let start = tokio::time::Instant::now();
        let clock = Arc::new(move || {
            let base: jiff::Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
            base + start.elapsed()
        });
        let sandbox = Sandbox::new(SandboxOptions::new(clock.clone()));
        let freezes = Arc::new(AtomicU64::new(0));
        let belated = Arc::new(AtomicU64::new(0));
        let mut options = ClusterOptions::new(clock);
        set(&mut options);
        let cluster = Cluster::new(disturbed(&sandbox, &freezes, &belated), options);
        let feed = cluster.events().expect("the first to ask");
        let user = kube::Client::new(sandbox.service(), "default");
        World { sandbox, cluster, freezes, belated, feed, user }
    }

    /// Everything that can happen without time passing has happened.
    pub async fn settle(&mut self) -> String {
        let mut told = String::new();
        loop {
            tokio::time::sleep(Duration::from_micros(1)).await;
            let before = told.len();
            while let Ok(event) = self.feed.try_recv() {
                let _ = writeln!(told, "{}", show_event(&event));
            }
            if told.len() == before {
                return told;
            }
        }
    }

    pub async fn pass(&mut self, time: Duration) -> String {
        let mut told = self.settle().await;
        tokio::time::sleep(time).await;
        told.push_str(&self.settle().await);
        told
    }

    /// Wants a kind in every namespace and waits for its first list.
    pub async fn watch(&mut self, kind: &str) -> String {
        self.cluster.want(&gvk(kind), Scope::All, Depth::Whole);
        self.settle().await
    }

    /// What somebody else does, as in `POST /api/v1/namespaces`.
    pub async fn user(&self, request: &str, body: Value) -> Value {
        let (method, path) = request.split_once(' ').expect("method and path");
        let content = match method {
            "APPLY" => "application/apply-patch+yaml",
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let method = if method == "APPLY" { Method::PATCH } else { method.parse().expect("a method") };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", content)
            .body(Body::from(body.to_string().into_bytes()))
            .expect("a request");
        let response = self.user.send(request).await.expect("an answer");
        let ok = response.status().is_success();
        let body = response.into_body().collect().await.expect("a body").to_bytes();
        let answer: Value = serde_json::from_slice(&body).expect("JSON");
        assert!(ok, "{path}: {answer}");
        answer
    }

    /// Somebody else applies a ConfigMap: `a/x colour=red`.
    pub async fn config_map(&self, text: &str) {
        let mut words = text.split_whitespace();
        let (namespace, name) = words.next().and_then(|place| place.split_once('/')).expect("namespace/name");
        let data: serde_json::Map<String, Value> = words
            .filter_map(|word| word.split_once('='))
            .map(|(key, value)| (key.to_owned(), value.into()))
            .collect();
        let labels = data.clone();
        let body = serde_json::json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": name, "namespace": namespace, "labels": labels }, "data": data,
        });
        let path =
            format!("APPLY /api/v1/namespaces/{namespace}/configmaps/{name}?fieldManager=user&force=true");
        self.user(&path, body).await;
    }

    pub async fn namespace(&self, name: &str) {
        self.user("POST /api/v1/namespaces", serde_json::json!({ "metadata": { "name": name } })).await;
    }

    /// The watches become dead lines, and so does each that begins before [`World::thaw`].
    pub fn freeze(&self) {
        let before = self.freezes.fetch_add(1, Ordering::SeqCst);
        assert!(before.is_multiple_of(2), "they are frozen already");
    }

    /// New watches work again; dead ones stay dead.
    pub fn thaw(&self) {
        let before = self.freezes.fetch_add(1, Ordering::SeqCst);
        assert!(!before.is_multiple_of(2), "they are not frozen");
    }

    /// The API server serves `example.com` only after so many questions for it, as a real one takes its time.
    pub fn serve_belatedly(&self, questions: u64) {
        self.belated.store(questions, Ordering::SeqCst);
    }

    /// Drops the cluster and returns whether everything that could tell something has ended.
    pub async fn drop_cluster(mut self) -> bool {
        drop(self.cluster);
        let ended = async { while self.feed.recv().await.is_some() {} };
        tokio::time::timeout(Duration::from_secs(3600), ended).await.is_ok()
    }

    pub fn cut(&self) {
        self.sandbox.cut_watches(&Cut::default());
    }

    pub fn fail(&self, verb: &str, kind: &str, code: u16, reason: &str, times: u32) {
        self.sandbox.fail_next(Fault {
            verb: Some(verb.into()),
            kind: Some(kind.into()),
            code,
            reason: reason.into(),
            message: format!("{reason} on demand"),
            times,
            ..Fault::default()
        });
    }

    /// What the cache says, as in `x colour=red` or `absent`.
    pub fn get(&self, place: &str) -> String {
        match self.cluster.get(&config_map(place)) {
            Lookup::Unserved => "unserved".into(),
            Lookup::NotSynced => "not synced".into(),
            Lookup::Absent => "absent".into(),
            Lookup::Found(object) => show(&object),
        }
    }

    /// All ConfigMaps of the cache that match a label selector.
    pub fn list(&self, labels: &str) -> String {
        match self.cluster.list(&all("ConfigMap", labels)) {
            ListLookup::Unserved => "unserved".into(),
            ListLookup::NotSynced => "not synced".into(),
            ListLookup::Found(objects) => {
                objects.iter().map(|object| show(object)).collect::<Vec<_>>().join(", ")
            }
        }
    }

    /// Lists that a watch of ConfigMaps made so far.
    pub fn lists(&self) -> u64 {
        let health = self.cluster.health();
        health.watches.iter().filter(|watch| &*watch.gvk.kind == "ConfigMap").map(|watch| watch.lists).sum()
    }
}

/// The sandbox's service, of which the watches can become dead lines: nothing comes, not even their end. It may also be
/// behind with what it says of the kinds that it serves.
fn disturbed(sandbox: &Sandbox, freezes: &Arc<AtomicU64>, belated: &Arc<AtomicU64>) -> kube::Client {
    let service = sandbox.service();
    let (freezes, belated) = (freezes.clone(), belated.clone());
    let service = tower::service_fn(move |mut request: Request<Body>| {
        let watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let less = |left: u64| left.checked_sub(1);
        if request.uri().path() == "/apis/example.com/v1"
            && belated.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok()
        {
            *request.uri_mut() = "/apis/nowhere.example.com/v1".parse().expect("a path");
        }
        let service = service.clone();
        let freezes = watch.then(|| freezes.clone());
        async move {
            let answer = service.oneshot(request).await;
            answer.map(|response| response.map(|body| line(body, freezes)))
        }
    });
    kube::Client::new(service, "default")
}

/// A body that is swallowed from the first freeze of its life on.
fn line(
    body: ApiBody,
    freezes: Option<Arc<AtomicU64>>,
) -> impl http_body::Body<Data = bytes::Bytes, Error = Infallible> + Send + 'static {
    let now = |freezes: &Arc<AtomicU64>| freezes.load(Ordering::SeqCst);
    let born = freezes.as_ref().map(now).unwrap_or_default();
    let frames = futures::stream::unfold((body, freezes), move |(mut body, freezes)| async move {
        let frame = body.frame().await;
        let dead = freezes.as_ref().is_some_and(|freezes| now(freezes) != born || !born.is_multiple_of(2));
        if dead {
            std::future::pending::<()>().await;
        }
        frame.map(|frame| (frame, (body, freezes)))
    });
    StreamBody::new(Box::pin(frames))
}

pub fn gvk(kind: &str) -> Gvk {
    match kind.split_once('.') {
        Some((kind, group)) => Gvk::new(group, "v1", kind),
        None => Gvk::new("", "v1", kind),
    }
}

pub fn config_map(place: &str) -> ObjectRef {
    let (namespace, name) = place.split_once('/').expect("namespace/name");
    ObjectRef::new(gvk("ConfigMap"), Some(namespace), name)
}

pub fn all(kind: &str, labels: &str) -> ListQuery {
    ListQuery {
        gvk: gvk(kind),
        namespace: None,
        labels: labels.into(),
        fields: vec![],
        controlled_by: None,
        view: vec![],
    }
}

/// Its place and its data.
pub fn show(object: &CachedObject) -> String {
    let value: Value = serde_json::from_str(object.json()).expect("JSON");
    let mut text = match &object.head().namespace {
        Some(namespace) => format!("{namespace}/{}", object.head().name),
        None => object.head().name.to_string(),
    };
    if let Some(data) = value["data"].as_object() {
        for (key, value) in data {
            let _ = write!(text, " {key}={}", value.as_str().unwrap_or_default());
        }
    }
    if object.head().deleting {
        text.push_str(" (deleting)");
    }
    text
}

fn show_event(event: &CacheEvent) -> String {
    match event {
        CacheEvent::Changed(change) => match (&change.old, &change.new) {
            (None, Some(new)) => format!("+ {} {}", change.gvk.kind, show(new)),
            (Some(_), Some(new)) => format!("~ {} {}", change.gvk.kind, show(new)),
            (Some(old), None) => format!("- {} {}", change.gvk.kind, show(old)),
            (None, None) => "nothing".into(),
        },
        CacheEvent::Synced { gvk, scope } => format!("synced {gvk} in {scope}"),
        CacheEvent::Forbidden { gvk } => format!("forbidden {gvk}"),
        CacheEvent::Serving { gvk, served } => format!("serving {gvk}: {served}"),
    }
}
