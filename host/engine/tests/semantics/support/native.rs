//! Plugins that are native functions: the same contract, without a component.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel_core::contract::{
    Action, Answer, Apply, Conclusion, Controller, Deletion, Failure, Finalizer, GetQuery, Gvk, Json,
    ListQuery, Manifest, ObjectRef, Permission, Propagation, Query, Reply, Request, Step, Verb,
};
use evenkeel_core::guest::{CallError, CallStats, Guest, GuestFuture, GuestReply};
use serde_json::Value;

/// What a native reconciler returns: a conclusion, or why the call ends before it has one.
pub type Outcome = Result<Conclusion, Stop>;

/// Why a call ends without a conclusion.
pub enum Stop {
    Ask(Vec<Query>),
    Perform(Vec<Action>),
    Fail(Failure),
    Die(CallError),
}

/// One call, as the reconciler sees it.
pub struct Call<'a>(pub &'a Request);

impl Call<'_> {
    pub fn primary(&self) -> Option<Value> {
        self.0.primary.as_ref().map(parse)
    }

    fn answer(&self, query: Query) -> Result<&Answer, Stop> {
        let found = self.0.observations.iter().find(|observation| observation.query == query);
        found.map(|observation| &observation.answer).ok_or(Stop::Ask(vec![query]))
    }

    pub fn get(&self, object: &ObjectRef) -> Result<Option<Value>, Stop> {
        self.view(object, &[])
    }

    pub fn view(&self, object: &ObjectRef, view: &[&str]) -> Result<Option<Value>, Stop> {
        let view = view.iter().map(|pointer| (*pointer).to_owned()).collect();
        match self.answer(Query::Get(GetQuery { object: object.clone(), view }))? {
            Answer::Object(object) => Ok(object.as_ref().map(parse)),
            other => panic!("{object}: {other:?}"),
        }
    }

    /// None where the kind is not served.
    pub fn get_if_served(&self, object: &ObjectRef) -> Result<Option<Option<Value>>, Stop> {
        match self.answer(Query::Get(GetQuery { object: object.clone(), view: vec![] }))? {
            Answer::Object(object) => Ok(Some(object.as_ref().map(parse))),
            Answer::Unserved => Ok(None),
            other => panic!("{object}: {other:?}"),
        }
    }

    pub fn list(&self, query: ListQuery) -> Result<Vec<Value>, Stop> {
        match self.answer(Query::List(query))? {
            Answer::Objects(objects) => Ok(objects.iter().map(parse).collect()),
            other => panic!("{other:?}"),
        }
    }

    pub fn now(&self) -> Result<String, Stop> {
        match self.answer(Query::Clock)? {
            Answer::Time(time) => Ok(time.clone()),
            other => panic!("{other:?}"),
        }
    }
}

pub fn parse(json: &Json) -> Value {
    serde_json::from_str(json).expect("the host hands out valid JSON")
}

type Body = Box<dyn Fn(&Call<'_>) -> Outcome + Send + Sync>;

/// A plugin made of closures, one a controller; it keeps the requests that it was given.
pub struct Native {
    manifest: Manifest,
    digest: String,
    bodies: BTreeMap<String, Body>,
    calls: AtomicU64,
    requests: Mutex<Vec<Request>>,
}

impl Native {
    pub fn new(name: &str) -> Self {
        let manifest = Manifest {
            name: name.into(),
            version: "1.0.0".into(),
            summary: "A plugin for a test.".into(),
            controllers: vec![],
            permissions: vec![],
            providers: vec![],
            crds: vec![],
            config_schema: None,
        };
        Self {
            manifest,
            digest: "sha256:1".into(),
            bodies: BTreeMap::new(),
            calls: AtomicU64::new(0),
            requests: Mutex::default(),
        }
    }

    pub fn digest(mut self, digest: &str) -> Self {
        self.digest = digest.into();
        self
    }

    pub fn manifest(mut self, change: impl FnOnce(&mut Manifest)) -> Self {
        change(&mut self.manifest);
        self
    }

    pub fn controller(
        mut self,
        name: &str,
        primary: Gvk,
        body: impl Fn(&Call<'_>) -> Outcome + Send + Sync + 'static,
    ) -> Self {
        self.manifest.controllers.push(Controller {
            name: name.into(),
            primary,
            labels: String::new(),
            view: vec![],
            resync: None,
        });
        self.bodies.insert(name.into(), Box::new(body));
        self
    }

    pub fn may(mut self, gvk: Gvk, verbs: &[Verb]) -> Self {
        self.manifest.permissions.push(Permission { gvk, verbs: verbs.to_vec(), names: vec![] });
        self
    }

    /// Everything that there is to do with a kind.
    pub fn may_all(self, gvk: Gvk) -> Self {
        use Verb::*;
        self.may(gvk, &[Get, List, Create, Apply, ApplyStatus, Patch, Delete, Finalize, Publish])
    }

    pub fn build(self) -> Arc<Self> {
        Arc::new(self)
    }

    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().expect("no panic holds it").clone()
    }
}

impl Guest for Native {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn digest(&self) -> &str {
        &self.digest
    }

    fn reconcile<'a>(&'a self, request: &'a Request) -> GuestFuture<'a> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.requests.lock().expect("no panic holds it").push(request.clone());
        let body = self.bodies.get(&request.controller).expect("a controller of the manifest");
        let outcome = match body(&Call(request)) {
            Ok(conclusion) => Ok(Step::Finish(conclusion)),
            Err(Stop::Ask(queries)) => Ok(Step::Observe(queries)),
            Err(Stop::Perform(actions)) => Ok(Step::Perform(actions)),
            Err(Stop::Fail(failure)) => Err(failure),
            Err(Stop::Die(error)) => return Box::pin(async move { Err(error) }),
        };
        let outcome = outcome.map(|step| Reply { step, log: vec![] });
        Box::pin(async move { Ok(GuestReply { outcome, stats: CallStats::default() }) })
    }
}

/// Takes as many seconds for each call as it says.
pub struct Slow(pub Arc<Native>, pub u64);

impl Guest for Slow {
    fn manifest(&self) -> &Manifest {
        Guest::manifest(&*self.0)
    }

    fn digest(&self) -> &str {
        Guest::digest(&*self.0)
    }

    fn reconcile<'a>(&'a self, request: &'a Request) -> GuestFuture<'a> {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_secs(self.1)).await;
            self.0.reconcile(request).await
        })
    }
}

// ---- words for conclusions ---------------------------------------------------------------------------------------

pub fn done(actions: Vec<Action>) -> Outcome {
    Ok(Conclusion { actions, prune: vec![], requeue_after: None })
}

pub fn apply(object: Value) -> Action {
    Action::Apply(Apply { object: object.to_string().into(), force: false, controlled: false })
}

pub fn apply_forced(object: Value) -> Action {
    Action::Apply(Apply { object: object.to_string().into(), force: true, controlled: false })
}

pub fn apply_controlled(object: Value) -> Action {
    Action::Apply(Apply { object: object.to_string().into(), force: false, controlled: true })
}

pub fn apply_status(object: Value) -> Action {
    Action::ApplyStatus(Apply { object: object.to_string().into(), force: false, controlled: false })
}

pub fn apply_status_forced(object: Value) -> Action {
    Action::ApplyStatus(Apply { object: object.to_string().into(), force: true, controlled: false })
}

pub fn create(object: Value) -> Action {
    Action::Create(Apply { object: object.to_string().into(), force: false, controlled: false })
}

pub fn delete(object: &ObjectRef) -> Action {
    Action::Delete(Deletion { object: object.clone(), uid: None, propagation: Propagation::Background })
}

pub fn add_finalizer(object: &ObjectRef, name: &str) -> Action {
    Action::AddFinalizer(Finalizer { object: object.clone(), name: name.into() })
}

pub fn remove_finalizer(object: &ObjectRef, name: &str) -> Action {
    Action::RemoveFinalizer(Finalizer { object: object.clone(), name: name.into() })
}
