//! The edge of a real cluster: every request of a scenario goes through here, so that it is known what is under way, what was
//! made, and what each watch has told; so that faults can be made; and so that the server's own UIDs and times are exchanged.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use evenkeel_engine::clock::{Clock, VirtualClock};
use evenkeel_sandbox::{ApiBody, Effect, Fault, Faults};
use http::{HeaderMap, Request, Response, StatusCode, header};
use http_body::Body;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::sync::{Notify, broadcast, mpsc};
use tokio::time::Instant;

use super::lens::Lens;
use super::owed::{Listed, owed};
use super::streams::{Streams, Subject, subject, versions};
use super::wire::{Reply, WireError};
use super::{Cluster, Place};
use crate::scenario::aim::Aim;

/// Lines of a watch that may wait to be read.
const LINES_MAX: usize = 1024;
/// Watches that may hear of a cut at once.
const CUTS_MAX: usize = 64;
/// So many turns a client has to take an answer in.
const TURNS_FOR_AN_ANSWER: u32 = 16;
/// Tells the host's Events, which nothing follows from.
const EVENTS: &str = "/api/v1/events";

/// One client's way to the cluster. Clones are the same client.
#[derive(Clone)]
pub(crate) struct Edge {
    shared: Arc<Shared>,
    client: u32,
}

struct Shared {
    cluster: Arc<Cluster>,
    clock: VirtualClock,
    state: Mutex<State>,
    changed: Notify,
    /// An answer came.
    answered: Notify,
    /// Plural of the kind whose watches end; of all where there is none.
    cuts: broadcast::Sender<Option<String>>,
}

#[derive(Default)]
struct State {
    lens: Lens,
    faults: Faults,
    streams: Streams,
    /// Collections that were written to, as paths.
    touched: BTreeSet<String>,
    /// What was made, be it there still or not.
    made: BTreeSet<Place>,
    in_flight: usize,
    /// Writes under way, by client.
    writing: BTreeMap<u32, usize>,
    /// Goes up with everything that comes and goes.
    activity: u64,
    /// Something happened since the cluster was last seen at rest.
    dirty: bool,
}

/// How the cluster stands.
pub(crate) enum Look {
    /// A watch has not told everything yet.
    Behind,
    /// Its own controllers still have this to do.
    Owed(Vec<String>),
    /// Nothing more will happen by itself.
    AtRest,
}

/// What a request is about, for good.
struct Errand {
    verb: &'static str,
    namespace: String,
    plural: String,
    name: String,
    subresource: String,
    collection: String,
}

impl Errand {
    fn of(request: &Request<Bytes>) -> Option<Self> {
        let aim = Aim::of(request)?;
        let mut name = aim.name.to_owned();
        if aim.verb == "create" && name.is_empty() {
            let body: Value = serde_json::from_slice(request.body()).unwrap_or_default();
            body["metadata"]["name"].as_str().unwrap_or_default().clone_into(&mut name);
        }
        Some(Self {
            verb: aim.verb,
            namespace: aim.namespace.to_owned(),
            plural: aim.plural.to_owned(),
            name,
            subresource: aim.subresource.to_owned(),
            collection: aim.collection(),
        })
    }

    fn writes(&self) -> bool {
        !matches!(self.verb, "get" | "list" | "watch")
    }
}

/// Counts a request as under way for as long as it lives.
struct Flight {
    shared: Arc<Shared>,
    /// Whose write it is.
    writer: Option<u32>,
}

impl Flight {
    fn begin(shared: &Arc<Shared>, writer: Option<u32>) -> Self {
        let mut state = shared.state();
        state.in_flight += 1;
        state.activity += 1;
        if let Some(writer) = writer {
            *state.writing.entry(writer).or_default() += 1;
        }
        Self { shared: Arc::clone(shared), writer }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.in_flight -= 1;
        state.activity += 1;
        if let Some(writing) = self.writer.and_then(|writer| state.writing.get_mut(&writer)) {
            *writing -= 1;
        }
        drop(state);
        self.shared.changed.notify_one();
        self.shared.answered.notify_waiters();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Virtual time as objects show it.
    fn now(&self) -> String {
        self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }

    /// Waits until no write of a client is under way, and it has had time to take the answer in.
    ///
    /// A server tells of a write whenever it comes to that, before its answer or after. The sandbox's answer always comes first;
    /// so does this one, or a client would now and then see its own write as a change by somebody else.
    async fn answers_first(&self, client: u32) {
        loop {
            let answered = self.answered.notified();
            if self.state().writing.get(&client).is_none_or(|writing| *writing == 0) {
                break;
            }
            answered.await;
        }
        for _ in 0..TURNS_FOR_AN_ANSWER {
            tokio::task::yield_now().await;
        }
    }

    /// One line of a watch as the client is to see it; none where it is not to see it.
    fn line(&self, subject: &Subject, line: &[u8]) -> Option<Bytes> {
        let Ok(mut event) = serde_json::from_slice::<Value>(line) else {
            return Some(Bytes::copy_from_slice(line));
        };
        // Those tell of real minutes, of which the client knows nothing: it would take the virtual hours between two for silence.
        let first = event.pointer("/object/metadata/annotations/k8s.io~1initial-events-end").is_some();
        if event["type"] == "BOOKMARK" && !first {
            return None;
        }
        let now = self.now();
        let mut state = self.state();
        state.streams.told(subject, &event);
        state.lens.inward(&mut event["object"], &now);
        state.activity += 1;
        state.dirty = true;
        drop(state);
        self.changed.notify_one();
        let mut text = event.to_string();
        text.push('\n');
        Some(text.into())
    }
}

impl Edge {
    pub(super) fn new(cluster: Arc<Cluster>, clock: VirtualClock) -> Self {
        let (cuts, _) = broadcast::channel(CUTS_MAX);
        let state = Mutex::default();
        Self {
            shared: Arc::new(Shared {
                cluster,
                clock,
                state,
                changed: Notify::new(),
                answered: Notify::new(),
                cuts,
            }),
            client: 0,
        }
    }

    /// The way of another client to the same cluster.
    pub(crate) fn of_client(&self, client: u32) -> Self {
        Self { shared: Arc::clone(&self.shared), client }
    }

    /// Makes the next requests fail that match; its kind is a plural.
    pub(crate) fn fail(&self, fault: Fault) {
        self.shared.state().faults.add(fault);
    }

    /// Ends watches of a kind, by its plural, or all.
    pub(crate) fn cut(&self, plural: Option<String>) {
        // Nobody may be watching.
        let _ = self.shared.cuts.send(plural);
    }

    /// A given object was put in place.
    pub(super) fn place(&self, given: &Value, real: &Value) {
        let now = self.shared.now();
        self.shared.state().lens.place(given, real, &now);
    }

    pub(super) fn with_lens<T>(&self, what: impl FnOnce(&Lens) -> T) -> T {
        what(&self.shared.state().lens)
    }

    /// Something was made past the edge.
    pub(super) fn note_made(&self, place: Place) {
        let mut state = self.shared.state();
        state.dirty = true;
        state.touched.insert(place.collection.clone());
        state.made.insert(place);
    }

    /// What was made so far, be it there still or not.
    pub(super) fn made(&self) -> BTreeSet<Place> {
        self.shared.state().made.clone()
    }

    /// Collections that were written to, as paths.
    pub(super) fn touched(&self) -> BTreeSet<String> {
        self.shared.state().touched.clone()
    }

    /// Goes up with everything that comes and goes.
    pub(crate) fn activity(&self) -> u64 {
        self.shared.state().activity
    }

    /// Whether an answer is waited for.
    pub(crate) fn busy(&self) -> bool {
        self.shared.state().in_flight > 0
    }

    /// Waits until something came or went.
    pub(crate) async fn changed(&self) {
        self.shared.changed.notified().await;
    }

    /// Whether something happened since the cluster was last seen at rest.
    pub(crate) fn dirty(&self) -> bool {
        self.shared.state().dirty
    }

    /// The cluster was seen at rest, unless there was any activity past this.
    pub(crate) fn rested(&self, activity: u64) -> bool {
        let mut state = self.shared.state();
        let still = state.activity == activity;
        state.dirty = !still;
        still
    }

    /// Lets real time pass.
    pub(crate) async fn pause(&self, by: Duration) {
        self.shared.cluster.wire.pause(by).await;
    }

    /// Something as it is shown; none where it is not there.
    pub(super) async fn read(&self, target: &str) -> Result<Option<Value>, WireError> {
        let mut found = self.shared.cluster.wire.get(target).await?;
        if let Some(found) = &mut found {
            let now = self.shared.now();
            self.shared.state().lens.inward(found, &now);
        }
        Ok(found)
    }

    /// Whether everything was told, and nothing more will happen by itself.
    pub(crate) async fn look(&self) -> Result<Look, WireError> {
        let (watched, touched) = {
            let state = self.shared.state();
            (state.streams.watched(), state.touched.clone())
        };
        let mut subjects: BTreeSet<String> = touched.into_iter().filter(|path| path != EVENTS).collect();
        subjects.extend(watched);
        subjects.insert("/api/v1/namespaces".to_owned());
        let lists = subjects.iter().map(|subject| async move {
            let list = self.shared.cluster.wire.get(subject).await?;
            Ok::<_, WireError>(list.map(|list| (subject, list)))
        });
        let lists: Vec<(&String, Value)> =
            futures::future::try_join_all(lists).await?.into_iter().flatten().collect();
        {
            let state = self.shared.state();
            if !lists.iter().all(|(subject, list)| state.streams.up_to_date(subject, &versions(list))) {
                return Ok(Look::Behind);
            }
        }
        let left = owed(&lists.into_iter().filter_map(|(path, list)| listed(path, list)).collect::<Vec<_>>());
        Ok(if left.is_empty() { Look::AtRest } else { Look::Owed(left) })
    }

    /// Answers a request of this client.
    pub(crate) async fn answer(&self, request: Request<Bytes>) -> Response<ApiBody> {
        let errand = Errand::of(&request);
        let writer = errand.as_ref().filter(|errand| errand.writes()).map(|_| self.client);
        let flight = Flight::begin(&self.shared, writer);
        let fault = errand.as_ref().and_then(|errand| self.fault(errand));
        if let Some(fault) = fault.as_ref().filter(|fault| fault.effect == Effect::None) {
            return failed(fault);
        }
        let own = (self.client, subject(request.uri()));
        let (further, lasts) = (asks(&request, "continue").is_some(), asks(&request, "timeoutSeconds"));
        let anew = asks(&request, "resourceVersion").is_none_or(|version| version == "0");
        let answered = match self.shared.cluster.wire.send(self.outward(request)).await {
            Ok(reply) => reply,
            Err(error) => return unreachable_cluster(&error),
        };
        let watch = errand.as_ref().is_some_and(|errand| errand.verb == "watch");
        let response = if watch && answered.status.is_success() {
            let lasts = lasts.and_then(|seconds| seconds.parse().ok()).map(Duration::from_secs);
            self.watch(answered, own, anew, lasts)
        } else {
            self.whole(answered, errand.as_ref(), own, further).await
        };
        drop(flight);
        match fault {
            Some(fault) if response.status().is_success() => failed(&fault),
            _ => response,
        }
    }

    fn fault(&self, errand: &Errand) -> Option<Fault> {
        self.shared.state().faults.hit(&evenkeel_sandbox::Aim {
            verb: errand.verb,
            kind: &errand.plural,
            plural: &errand.plural,
            subresource: &errand.subresource,
            namespace: &errand.namespace,
            name: &errand.name,
        })
    }

    fn outward(&self, request: Request<Bytes>) -> Request<Bytes> {
        let (parts, body) = request.into_parts();
        let Ok(mut value) = serde_json::from_slice::<Value>(&body) else {
            return Request::from_parts(parts, body);
        };
        self.shared.state().lens.outward(&mut value);
        Request::from_parts(parts, value.to_string().into())
    }

    /// An answer that comes at once.
    async fn whole(
        &self,
        mut reply: Reply,
        errand: Option<&Errand>,
        own: Subject,
        further: bool,
    ) -> Response<ApiBody> {
        let body = match reply.whole().await {
            Ok(body) => body,
            Err(error) => return unreachable_cluster(&error),
        };
        let Ok(mut value) = serde_json::from_slice::<Value>(&body) else {
            return respond(reply.status, &reply.headers, ApiBody::whole(body));
        };
        let now = self.shared.now();
        let mut state = self.shared.state();
        if let Some(errand) = errand {
            if errand.verb == "list" && reply.status.is_success() {
                state.streams.listed(own, &value, further);
            }
            if errand.writes() {
                state.dirty = true;
                state.touched.insert(errand.collection.clone());
            }
            if reply.status == StatusCode::CREATED && errand.subresource.is_empty() {
                state.made.insert(Place {
                    collection: errand.collection.clone(),
                    namespace: errand.namespace.clone(),
                    name: value["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
                });
            }
        }
        state.lens.inward(&mut value, &now);
        drop(state);
        respond(reply.status, &reply.headers, ApiBody::whole(value.to_string()))
    }

    /// An answer that goes on. It ends when the server ends it, when it is cut, or when it has lasted as long in virtual time as it
    /// was to last in the server's.
    fn watch(&self, reply: Reply, own: Subject, anew: bool, lasts: Option<Duration>) -> Response<ApiBody> {
        self.shared.state().streams.opened(own.clone(), anew);
        let (lines, read) = mpsc::channel(LINES_MAX);
        let plural = own.1.split('?').next().unwrap_or_default().rsplit('/').next().unwrap_or_default();
        let pump = Pump {
            open: Open { shared: Arc::clone(&self.shared), subject: own.clone() },
            cuts: self.shared.cuts.subscribe(),
            plural: plural.to_owned(),
            until: lasts.map(|lasts| Instant::now() + lasts),
            lines,
        };
        tokio::spawn(pump.run(reply.frames));
        let body = futures::stream::unfold(read, |mut read| async move {
            let line = read.recv().await?;
            Some((line, read))
        });
        respond(reply.status, &reply.headers, ApiBody::stream(body))
    }
}

/// Counts a watch as open for as long as it lives.
struct Open {
    shared: Arc<Shared>,
    subject: Subject,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.shared.state().streams.closed(&self.subject);
    }
}

/// Hands the lines of one watch on.
struct Pump {
    open: Open,
    cuts: broadcast::Receiver<Option<String>>,
    plural: String,
    until: Option<Instant>,
    lines: mpsc::Sender<Bytes>,
}

impl Pump {
    async fn run(mut self, mut frames: mpsc::Receiver<Result<Bytes, String>>) {
        let mut rest = BytesMut::new();
        loop {
            tokio::select! {
                biased;
                cut = self.cuts.recv() => match cut {
                    Ok(kind) if kind.as_ref().is_some_and(|kind| *kind != self.plural) => {}
                    _ => return,
                },
                () = self.lines.closed() => return,
                frame = frames.recv() => {
                    let Some(Ok(frame)) = frame else { return };
                    self.open.shared.answers_first(self.open.subject.0).await;
                    rest.extend_from_slice(&frame);
                    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                        let line = rest.split_to(end + 1);
                        let Some(line) = self.open.shared.line(&self.open.subject, &line) else { continue };
                        if self.lines.send(line).await.is_err() {
                            return;
                        }
                    }
                }
                () = until(self.until) => return,
            }
        }
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// A parameter of a request.
fn asks<B>(request: &Request<B>, name: &str) -> Option<String> {
    let query = request.uri().query()?;
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find(|(key, value)| *key == name && !value.is_empty()).map(|(_, value)| value.to_owned())
}

/// The objects of a whole collection; none where it is a part of one.
fn listed(path: &str, list: Value) -> Option<Listed> {
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let group = match parts.as_slice() {
        ["api", _, _] => "",
        ["apis", group, _, _] => group,
        _ => return None,
    };
    let kind = list["kind"].as_str()?.strip_suffix("List")?.to_owned();
    let Value::Object(mut fields) = list else { return None };
    let objects = match fields.remove("items") {
        Some(Value::Array(objects)) => objects,
        _ => Vec::new(),
    };
    (!path.contains('?')).then(|| Listed { group: group.to_owned(), kind, objects })
}

fn respond(status: StatusCode, headers: &HeaderMap, body: ApiBody) -> Response<ApiBody> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    // The rest is about the connection, which ended here.
    for name in [header::CONTENT_TYPE, header::RETRY_AFTER, header::WARNING] {
        for value in headers.get_all(&name) {
            response.headers_mut().append(&name, value.clone());
        }
    }
    response
}

fn status(code: u16, reason: &str, message: &str) -> Response<ApiBody> {
    let body = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code});
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    let code = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    respond(code, &headers, ApiBody::whole(body.to_string()))
}

fn failed(fault: &Fault) -> Response<ApiBody> {
    status(fault.code, &fault.reason, &fault.message)
}

fn unreachable_cluster(error: &WireError) -> Response<ApiBody> {
    status(503, "ServiceUnavailable", &super::chain(error))
}

impl<B> tower::Service<Request<B>> for Edge
where
    B: Body + Send + 'static,
    B::Data: Send,
{
    type Response = Response<ApiBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let edge = self.clone();
        let (parts, body) = request.into_parts();
        let body = Box::pin(body);
        Box::pin(async move {
            let Ok(body) = body.collect().await else {
                return Ok(status(400, "BadRequest", "the body of the request could not be read"));
            };
            Ok(edge.answer(Request::from_parts(parts, body.to_bytes())).await)
        })
    }
}
