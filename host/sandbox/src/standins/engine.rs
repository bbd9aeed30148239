//! Runs stages: keeps copies of the objects, finds for each the first stage that fits, waits, acts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::agenda::Agenda;
use super::client::{Service, request};
use super::stages::{Condition, KindRef, Other, Stages, Step, Subject, Test};
use super::template::Template;
use crate::Clock;

/// How long to wait before a watch that broke is started again.
const WATCH_AGAIN: Duration = Duration::from_secs(1);
/// Changes that may wait to be looked at.
const CHANGES_MAX: usize = 1024;
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const MERGE_PATCH: &str = "application/merge-patch+json";

/// Stages at work. They stop when this is dropped, or at [`Running::stop`].
#[derive(Debug)]
pub struct Running {
    task: JoinHandle<()>,
}

impl Running {
    /// Stops them.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Starts stages against an API, on the current tokio runtime. Kinds that are not served yet are waited for.
pub fn start(service: impl Service, stages: Stages, clock: Clock) -> Running {
    let task = tokio::spawn(run(Arc::new(service), stages, clock));
    Running { task }
}

/// Kind, namespace, name.
type Id = (KindRef, String, String);

/// What a watch says.
enum Change {
    /// All objects of a kind, from a list: what is not among them is gone.
    All(KindRef, Vec<Value>),
    Now(KindRef, Value),
    Gone(KindRef, Value),
}

struct Engine {
    service: Arc<dyn Service>,
    stages: Stages,
    clock: Clock,
    plurals: BTreeMap<KindRef, String>,
    kinds: BTreeSet<KindRef>,
    objects: BTreeMap<Id, Value>,
    /// Who looks at an object from another namespace, be it there or not.
    onlookers: BTreeMap<Id, BTreeSet<Id>>,
    waiting: Agenda<Id>,
    /// The stage that was carried out last and how things looked then: it is not repeated on the same view.
    done: BTreeMap<Id, (usize, Value)>,
}

async fn run(service: Arc<dyn Service>, stages: Stages, clock: Clock) {
    let (sender, mut changes) = mpsc::channel(CHANGES_MAX);
    let mut watches = tokio::task::JoinSet::new();
    let kinds = stages.kinds();
    for kind in &kinds {
        watches.spawn(watch(service.clone(), kind.clone(), sender.clone()));
    }
    drop(sender);
    let mut engine = Engine {
        service,
        stages,
        clock,
        plurals: BTreeMap::new(),
        kinds,
        objects: BTreeMap::new(),
        onlookers: BTreeMap::new(),
        waiting: Agenda::default(),
        done: BTreeMap::new(),
    };
    loop {
        let due = engine.waiting.next().cloned();
        tokio::select! {
            // Changes first: a stage that no longer fits is not carried out.
            biased;
            change = changes.recv() => match change {
                Some(change) => engine.take(change),
                None => return,
            },
            () = sleep_until(due.as_ref().map(|(at, _)| *at)) => {
                if let Some((_, id)) = due {
                    engine.carry_out(&id).await;
                }
            }
        }
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// The path of a group and version.
fn base(api_version: &str) -> String {
    if api_version.contains('/') { format!("/apis/{api_version}") } else { format!("/api/{api_version}") }
}

/// The plural of a kind, if it is served.
async fn plural(service: &dyn Service, kind: &KindRef) -> Option<String> {
    let answer = service.send(request(Method::GET, &base(&kind.api_version), "", &Value::Null)).await?;
    if !answer.is_success() {
        return None;
    }
    let list = answer.json().await;
    let found = list["resources"].as_array()?.iter().find(|one| {
        one["kind"] == kind.kind.as_str() && !one["name"].as_str().unwrap_or_default().contains('/')
    })?;
    found["name"].as_str().map(str::to_owned)
}

/// Tells all changes of a kind, for ever.
async fn watch(service: Arc<dyn Service>, kind: KindRef, changes: mpsc::Sender<Change>) {
    loop {
        let Some(plural) = plural(&*service, &kind).await else {
            wait_for_definitions(&*service).await;
            continue;
        };
        if follow(&*service, &kind, &plural, &changes).await.is_none() {
            tokio::time::sleep(WATCH_AGAIN).await;
        }
        if changes.is_closed() {
            return;
        }
    }
}

/// Lists, then watches until the watch ends; none if not even the list could be had.
async fn follow(
    service: &dyn Service,
    kind: &KindRef,
    plural: &str,
    changes: &mpsc::Sender<Change>,
) -> Option<()> {
    let path = format!("{}/{plural}", base(&kind.api_version));
    let answer = service.send(request(Method::GET, &path, "", &Value::Null)).await?;
    if !answer.is_success() {
        return None;
    }
    let mut list = answer.json().await;
    let version = list["metadata"]["resourceVersion"].as_str().unwrap_or("0").to_owned();
    let items = list["items"].as_array_mut().map(std::mem::take).unwrap_or_default();
    changes.send(Change::All(kind.clone(), items)).await.ok()?;
    let path = format!("{path}?watch=true&resourceVersion={version}&allowWatchBookmarks=true");
    let mut stream = service.send(request(Method::GET, &path, "", &Value::Null)).await?;
    if !stream.is_success() {
        return None;
    }
    while let Some(mut event) = stream.line().await {
        let object = event["object"].take();
        let change = match event["type"].as_str() {
            Some("ADDED" | "MODIFIED") => Change::Now(kind.clone(), object),
            Some("DELETED") => Change::Gone(kind.clone(), object),
            Some("BOOKMARK") => continue,
            _ => return Some(()),
        };
        changes.send(change).await.ok()?;
    }
    Some(())
}

/// Waits until some definition changes: the kind that is missing may be served after it.
async fn wait_for_definitions(service: &dyn Service) {
    let list = match service.send(request(Method::GET, DEFINITIONS, "", &Value::Null)).await {
        Some(answer) if answer.is_success() => answer.json().await,
        _ => return tokio::time::sleep(WATCH_AGAIN).await,
    };
    let version = list["metadata"]["resourceVersion"].as_str().unwrap_or("0");
    let path = format!("{DEFINITIONS}?watch=true&resourceVersion={version}");
    match service.send(request(Method::GET, &path, "", &Value::Null)).await {
        Some(mut stream) if stream.is_success() => {
            stream.line().await;
        }
        _ => tokio::time::sleep(WATCH_AGAIN).await,
    }
}

fn id_of(kind: &KindRef, object: &Value) -> Id {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    (kind.clone(), text("namespace"), text("name"))
}

impl Engine {
    fn take(&mut self, change: Change) {
        match change {
            Change::All(kind, objects) => {
                let mut concerned: BTreeSet<Id> = self.objects.keys().cloned().collect();
                self.objects.retain(|id, _| id.0 != kind);
                self.objects.extend(objects.into_iter().map(|object| (id_of(&kind, &object), object)));
                concerned.extend(self.objects.keys().cloned());
                self.choose(concerned);
            }
            Change::Now(kind, object) => {
                let id = id_of(&kind, &object);
                self.objects.insert(id.clone(), object);
                self.choose(self.concerned_by(id));
            }
            Change::Gone(kind, object) => {
                let id = id_of(&kind, &object);
                self.objects.remove(&id);
                self.choose(self.concerned_by(id));
            }
        }
    }

    /// Whose stage may be another one since this object changed: its own, its neighbours', its onlookers'.
    fn concerned_by(&self, id: Id) -> BTreeSet<Id> {
        let mut concerned = self.onlookers.get(&id).cloned().unwrap_or_default();
        concerned.extend(self.neighbours(&id.1).map(|(neighbour, _)| neighbour.clone()));
        concerned.insert(id);
        concerned
    }

    /// All objects of a namespace.
    fn neighbours(&self, namespace: &str) -> impl Iterator<Item = (&Id, &Value)> {
        self.kinds.iter().flat_map(move |kind| {
            let from = (kind.clone(), namespace.to_owned(), String::new());
            self.objects.range(from..).take_while(move |(id, _)| id.0 == *kind && id.1 == namespace)
        })
    }

    /// Finds the stage that each of these objects waits for. A stage that it waited for already goes on from then.
    fn choose(&mut self, concerned: BTreeSet<Id>) {
        let now = Instant::now();
        for id in concerned {
            let Some(object) = self.objects.get(&id) else {
                self.waiting.remove(&id);
                self.done.remove(&id);
                self.onlookers.retain(|_, onlookers| {
                    onlookers.remove(&id);
                    !onlookers.is_empty()
                });
                continue;
            };
            let (stage, elsewhere) = (self.next_stage(&id, object), self.elsewhere(&id, object));
            for seen in elsewhere {
                self.onlookers.entry(seen).or_default().insert(id.clone());
            }
            match (stage, self.waiting.get(&id)) {
                (Some((stage, _)), Some((same, _))) if same == stage => {}
                (Some((stage, after)), _) => self.waiting.set(&id, stage, now + after),
                (None, _) => drop(self.waiting.remove(&id)),
            }
        }
    }

    /// The stage that an object waits for, and how long; none where it waits for nothing or has just done so.
    fn next_stage(&self, id: &Id, object: &Value) -> Option<(usize, Duration)> {
        let index = self.fitting(id, object)?;
        let stage = self.stages.stages.get(index).filter(|stage| !stage.next.is_empty())?;
        let done = self.done.get(id).is_some_and(|(done, view)| *done == index && *view == self.view(id));
        (!done).then_some((index, stage.after))
    }

    /// The objects of other namespaces that an object's stages look at.
    fn elsewhere(&self, id: &Id, object: &Value) -> Vec<Id> {
        let now = (self.clock)();
        let stages = self.stages.stages.iter().filter(|stage| stage.kind == id.0);
        let others = stages.flat_map(|stage| &stage.when).filter_map(|condition| condition.of.as_ref());
        others
            .filter(|other| other.namespace.is_some())
            .filter_map(|other| {
                let (namespace, name) = self.place(other, object, now)?;
                (namespace != id.1).then(|| (other.kind.clone(), namespace, name))
            })
            .collect()
    }

    fn fitting(&self, id: &Id, object: &Value) -> Option<usize> {
        self.stages
            .stages
            .iter()
            .position(|stage| stage.kind == id.0 && stage.when.iter().all(|one| self.holds(one, object)))
    }

    /// What decides about an object: itself and its namespace's other objects that stages look at.
    fn view(&self, id: &Id) -> Value {
        let seen = |object: &Value| json!([object["metadata"]["uid"], object["metadata"]["resourceVersion"]]);
        Value::Array(self.neighbours(&id.1).map(|(_, object)| seen(object)).collect())
    }

    fn holds(&self, condition: &Condition, object: &Value) -> bool {
        let now = (self.clock)();
        let nothing = Value::Null;
        let about = match &condition.of {
            None => object,
            Some(other) => self.other(other, object, now).unwrap_or(&nothing),
        };
        let found: Option<Value> = match &condition.subject {
            Subject::Whole => (!about.is_null()).then(|| about.clone()),
            Subject::Path(path) => path.first(about).filter(|value| !value.is_null()).cloned(),
            Subject::Template(template) => template.fill(about, now),
        };
        // A value that is not there counts as the empty text in lists.
        let value = found.clone().unwrap_or_else(|| Value::from(""));
        match &condition.test {
            Test::Present => found.is_some(),
            Test::Absent => found.is_none(),
            Test::In(list) => list.contains(&value),
            Test::NotIn(list) => !list.contains(&value),
            Test::Has(item) => value.as_array().is_some_and(|items| items.contains(item)),
            Test::Lacks(item) => !value.as_array().is_some_and(|items| items.contains(item)),
        }
    }

    fn place(&self, other: &Other, object: &Value, now: Timestamp) -> Option<(String, String)> {
        let own = || object["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
        let namespace =
            other.namespace.as_ref().map_or_else(|| Some(own()), |template| template.text(object, now))?;
        Some((namespace, other.name.text(object, now)?))
    }

    fn other(&self, other: &Other, object: &Value, now: Timestamp) -> Option<&Value> {
        let (namespace, name) = self.place(other, object, now)?;
        self.objects.get(&(other.kind.clone(), namespace, name))
    }

    /// Carries out the stage that an object waits for.
    async fn carry_out(&mut self, id: &Id) {
        let Some(index) = self.waiting.remove(id) else { return };
        let (Some(object), Some(stage)) =
            (self.objects.get(id).cloned(), self.stages.stages.get(index).cloned())
        else {
            return;
        };
        self.done.insert(id.clone(), (index, self.view(id)));
        tracing::debug!(stage = %stage.name, name = %id.2, "stand-in acts");
        for step in &stage.next {
            self.step(step, id, &object).await;
        }
    }

    async fn path(&mut self, kind: &KindRef, namespace: &str) -> Option<String> {
        if !self.plurals.contains_key(kind) {
            let found = plural(&*self.service, kind).await?;
            self.plurals.insert(kind.clone(), found);
        }
        let plural = self.plurals.get(kind)?;
        let base = base(&kind.api_version);
        Some(if namespace.is_empty() {
            format!("{base}/{plural}")
        } else {
            format!("{base}/namespaces/{namespace}/{plural}")
        })
    }

    async fn send(&self, method: Method, path: &str, content_type: &str, body: &Value) {
        let answer = self.service.send(request(method, path, content_type, body)).await;
        if let Some(answer) = answer.filter(|answer| !answer.is_success()) {
            let status = answer.json().await;
            tracing::debug!(path, reason = %status["message"], "a stand-in's request was refused");
        }
    }

    async fn step(&mut self, step: &Step, id: &Id, object: &Value) {
        let now = (self.clock)();
        let Some(collection) = self.path(&id.0, &id.1).await else { return };
        let own = format!("{collection}/{}", id.2);
        let manager = "fieldManager=stand-in";
        match step {
            Step::Status(template) => {
                let Some(status) = template.fill(object, now) else { return };
                let body = json!({"status": status});
                self.send(Method::PATCH, &format!("{own}/status?{manager}"), MERGE_PATCH, &body).await;
            }
            Step::Patch(template) => {
                let Some(body) = template.fill(object, now) else { return };
                self.send(Method::PATCH, &format!("{own}?{manager}"), MERGE_PATCH, &body).await;
            }
            Step::Create(template) => self.create(template, object, now).await,
            Step::Delete(None) => self.send(Method::DELETE, &own, "", &Value::Null).await,
            Step::Delete(Some(other)) => {
                let Some((namespace, name)) = self.place(other, object, now) else { return };
                let Some(collection) = self.path(&other.kind, &namespace).await else { return };
                self.send(Method::DELETE, &format!("{collection}/{name}"), "", &Value::Null).await;
            }
            Step::Finalizers { add, remove } => {
                let known = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
                let mut names: Vec<String> =
                    known.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect();
                names.retain(|name| !remove.contains(name));
                names.extend(add.iter().filter(|name| !names.contains(name)).cloned().collect::<Vec<_>>());
                let body = json!({"metadata": {
                    "resourceVersion": object["metadata"]["resourceVersion"],
                    "finalizers": names,
                }});
                self.send(Method::PATCH, &format!("{own}?{manager}"), MERGE_PATCH, &body).await;
            }
            Step::Event { warning, reason, message } => {
                self.event(*warning, reason, message, id, object, now).await;
            }
        }
    }

    async fn create(&mut self, template: &Template, object: &Value, now: Timestamp) {
        let Some(body) = template.fill(object, now) else { return };
        let text =
            |pointer: &str| body.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let kind = KindRef { api_version: text("/apiVersion"), kind: text("/kind") };
        let Some(collection) = self.path(&kind, &text("/metadata/namespace")).await else { return };
        self.send(Method::POST, &format!("{collection}?fieldManager=stand-in"), "application/json", &body)
            .await;
    }

    async fn event(
        &mut self,
        warning: bool,
        reason: &str,
        message: &Template,
        id: &Id,
        object: &Value,
        now: Timestamp,
    ) {
        let time = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let namespace = if id.1.is_empty() { "default" } else { &id.1 };
        let body = json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": format!("{}.", id.2), "namespace": namespace},
            "involvedObject": {
                "apiVersion": id.0.api_version, "kind": id.0.kind, "namespace": id.1, "name": id.2,
                "uid": object["metadata"]["uid"],
            },
            "type": if warning { "Warning" } else { "Normal" },
            "reason": reason,
            "message": message.text(object, now).unwrap_or_default(),
            "source": {"component": "stand-in"},
            "firstTimestamp": time,
            "lastTimestamp": time,
            "count": 1,
        });
        let path = format!("/api/v1/namespaces/{namespace}/events");
        self.send(Method::POST, &path, "application/json", &body).await;
    }
}

impl Stages {
    /// Every kind that a stage is for, or looks at.
    fn kinds(&self) -> BTreeSet<KindRef> {
        let looked_at = |stage: &super::Stage| -> Vec<KindRef> {
            stage.when.iter().filter_map(|one| one.of.as_ref().map(|other| other.kind.clone())).collect()
        };
        self.iter().flat_map(|stage| std::iter::once(stage.kind.clone()).chain(looked_at(stage))).collect()
    }
}

#[cfg(test)]
mod tests;
