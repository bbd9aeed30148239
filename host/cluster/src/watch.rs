//! One watch: everything of a part of a kind, first listed, then followed.
//!
//! It never gives up. What it waits for (the kind to be served, a pause to pass, the next event) is a state, and each
//! state's end says the next. Two timers exist while it follows, and both are coarse: the end of the connection, and
//! silence for longer than a server that sends bookmarks would be silent.

mod follow;
mod lines;
mod list;
mod stream;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use evenkeel_core::contract::{Failure, FailureKind, Gvk};
use evenkeel_core::limits::RETRY_AFTER_MAX;
use evenkeel_core::object::CachedObject;
use tokio::time::{Instant, sleep};

pub(crate) use self::list::Page;
use crate::cache::KindCache;
use crate::discovery::Served;
use crate::failure::{failure, is_expired, pause, text_seed};
use crate::kinds::may_be_custom;
use crate::limits;
use crate::object;
use crate::rest::{Call, JSON, METADATA, RestError, lock, resource_path};
use crate::scope::{Depth, Scope};
use crate::shared::{Shared, read, write};

/// What a watch does now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchState {
    /// Asks whether the kind is served.
    Resolving,
    /// Waits for the kind to be served.
    Unserved,
    /// Fetches everything.
    Listing,
    /// Follows the changes.
    Following,
    /// Failed, and waits before it tries again.
    Waiting,
    /// Knows that there is nothing: its part is of a namespace, and the kind lies in none.
    Empty,
}

/// How a watch fares.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) state: WatchState,
    /// When anything last came from the API server, a bookmark included.
    pub(crate) heard: Option<Instant>,
    /// It stood still, and was listed anew, but no event or bookmark came since.
    pub(crate) stalled: bool,
    /// Why it waits.
    pub(crate) trouble: Option<Failure>,
    /// Since when it has been failing.
    pub(crate) failing_since: Option<Instant>,
    pub(crate) lists: u64,
    pub(crate) connections: u64,
    pub(crate) undecodable: u64,
}

impl Report {
    pub(crate) fn new() -> Self {
        Report {
            state: WatchState::Resolving,
            heard: None,
            stalled: false,
            trouble: None,
            failing_since: None,
            lists: 0,
            connections: 0,
            undecodable: 0,
        }
    }

    /// Whether the API server does not allow it.
    pub(crate) fn is_forbidden(&self) -> bool {
        self.trouble.as_ref().is_some_and(|trouble| trouble.kind == FailureKind::Denied)
    }
}

/// What it is to do next.
enum State {
    /// Find out under which path the kind is served.
    Resolve,
    /// Wait until it is.
    Unserved,
    /// Wait until the kind is another.
    Empty,
    /// Follow the changes, with all that there is as the first of them.
    Stream { path: String },
    /// Fetch everything; `paged` unless a page's token just expired.
    List { path: String, paged: bool },
    /// Follow the changes after a revision.
    Follow { path: String, revision: String },
    /// Wait, then go on.
    Wait { pause: Duration, then: Box<State> },
}

/// A watch under way.
pub(crate) struct Watch {
    shared: Arc<Shared>,
    kind: Arc<RwLock<KindCache>>,
    gvk: Gvk,
    scope: Scope,
    depth: Depth,
    report: Arc<Mutex<Report>>,
    /// Failures in a row.
    failures: u32,
    /// The server told of its progress, so that silence means something.
    bookmarks: bool,
    seed: u64,
}

impl Watch {
    pub(crate) fn new(
        shared: Arc<Shared>,
        gvk: Gvk,
        scope: Scope,
        depth: Depth,
        report: Arc<Mutex<Report>>,
    ) -> Self {
        let kind = shared.kind(&gvk);
        let seed = shared.options.seed ^ text_seed(&format!("{gvk} {scope}"));
        Watch { shared, kind, gvk, scope, depth, report, failures: 0, bookmarks: false, seed }
    }

    /// Runs until its task is ended.
    pub(crate) async fn run(mut self) {
        let mut state = State::Resolve;
        let mut told = false;
        loop {
            state = self.step(state).await;
            let forbidden = lock(&self.report).is_forbidden();
            if forbidden && !told {
                self.shared.forbidden(&self.gvk).await;
            }
            told = forbidden;
        }
    }

    /// The next state, after what this one asks for.
    async fn step(&mut self, state: State) -> State {
        match state {
            State::Resolve => self.resolve().await,
            State::Unserved => self.unserved().await,
            State::Empty => self.empty().await,
            State::Stream { path } => self.stream(path).await,
            State::List { path, paged } => self.list(path, paged).await,
            State::Follow { path, revision } => self.follow(path, revision).await,
            State::Wait { pause, then } => {
                sleep(pause).await;
                *then
            }
        }
    }

    async fn resolve(&mut self) -> State {
        self.enter(WatchState::Resolving);
        match self.shared.discovery.resolve(&self.shared.rest, &self.gvk).await {
            Ok(Served::Yes { plural, namespaced, verbs }) => {
                self.shared.come_served(&self.gvk).await;
                if let Some(missing) =
                    ["list", "watch"].iter().find(|verb| !verbs.iter().any(|has| has == *verb))
                {
                    let message =
                        format!("{} cannot be watched: the API server does not offer {missing}", self.gvk);
                    self.trouble(Failure::new(FailureKind::Invalid, message));
                    return State::Wait { pause: limits::UNSERVED_POLL, then: Box::new(State::Resolve) };
                }
                let namespace = self.scope.namespace();
                if namespace.is_some() && !namespaced {
                    return State::Empty;
                }
                self.anew(resource_path(&self.gvk, &plural, namespace, None, None))
            }
            Ok(Served::No) => {
                self.shared.gone_unserved(&self.gvk).await;
                State::Unserved
            }
            Err(error) => self.failed("find", &error, State::Resolve),
        }
    }

    /// How all that there is comes in.
    fn anew(&self, path: String) -> State {
        match self.shared.streams.load(Ordering::Relaxed) {
            true => State::Stream { path },
            false => State::List { path, paged: true },
        }
    }

    async fn unserved(&mut self) -> State {
        self.enter(WatchState::Unserved);
        self.shared.look_for_kinds();
        loop {
            // Before the look, so that nothing comes between the two.
            let change = self.shared.discovery.change();
            if self.shared.discovery.known(&self.gvk).is_none_or(|served| served.is_yes()) {
                self.failures = 0;
                return State::Resolve;
            }
            change.await;
        }
    }

    /// What lies in no namespace has no part in one: there is nothing to ask the API server for.
    async fn empty(&mut self) -> State {
        self.enter(WatchState::Empty);
        // No watch ends when the kind goes, as there is none.
        if may_be_custom(&self.gvk.group) {
            self.shared.look_for_kinds();
        }
        let relist = read(&self.kind).relist(&self.scope, self.depth);
        let changed = write(&self.kind).listed(relist, None);
        self.shared.tell(changed).await;
        self.shared.synced(&self.gvk, &self.scope).await;
        loop {
            // Before the look, so that nothing comes between the two.
            let change = self.shared.discovery.change();
            match self.shared.discovery.known(&self.gvk) {
                Some(Served::Yes { namespaced: false, .. }) => {}
                Some(Served::Yes { namespaced: true, .. } | Served::No) | None => return State::Resolve,
            }
            change.await;
        }
    }

    /// The collection is not there: the kind went away, or its API server lags behind what it says of itself.
    async fn collection_gone(&mut self, error: &RestError) -> State {
        match self.shared.recheck(|gvk, _| *gvk == self.gvk).await {
            Ok(()) => match self.shared.discovery.known(&self.gvk) {
                Some(Served::No) => State::Unserved,
                Some(Served::Yes { .. }) | None => self.failed("list", error, State::Resolve),
            },
            Err(error) => self.failed("find", &error, State::Resolve),
        }
    }

    /// What a failed request leads to.
    fn failed(&mut self, doing: &str, error: &RestError, then: State) -> State {
        let failure = failure(&self.gvk, &format!("{doing} {} in {}", self.gvk, self.scope), None, error);
        tracing::warn!(kind = %self.gvk, scope = %self.scope, error = %failure.message, "watch failed");
        let told = failure.retry_after.map(Duration::from_millis);
        self.trouble(failure);
        self.wait(told, then)
    }

    /// A pause that grows with the failures in a row.
    fn wait(&mut self, told: Option<Duration>, then: State) -> State {
        // One that says "at once" would be asked without end, and one that says a century would never be asked again.
        let told = told.filter(|told| !told.is_zero()).map(|told| told.min(RETRY_AFTER_MAX));
        let pause = told.unwrap_or_else(|| pause(self.failures, self.seed, limits::WATCH_PAUSE_MAX));
        self.failures = self.failures.saturating_add(1);
        State::Wait { pause, then: Box::new(then) }
    }

    fn trouble(&self, failure: Failure) {
        let mut report = lock(&self.report);
        report.state = WatchState::Waiting;
        report.trouble = Some(failure);
        report.failing_since.get_or_insert_with(Instant::now);
    }

    fn enter(&self, state: WatchState) {
        lock(&self.report).state = state;
    }

    /// A request was answered. One that stood still may do so again: that it is answered is no sign of life.
    fn connected(&self) {
        let mut report = lock(&self.report);
        report.heard = Some(Instant::now());
        report.trouble = None;
        report.failing_since = None;
    }

    /// Something came on the line: the watch is alive.
    fn heard(&self) {
        self.connected();
        lock(&self.report).stalled = false;
    }

    fn call(&self, verb: &'static str, path: &str, accept: &'static str) -> Call {
        let call = Call::read(verb, path.to_owned(), accept);
        let name = match &self.scope {
            Scope::Object(object) => Some(&*object.name),
            Scope::Named(names) => names.only(),
            Scope::All | Scope::Namespace(_) => None,
        };
        match name {
            Some(name) => call.with("fieldSelector", format!("metadata.name={name}")),
            None => call,
        }
    }

    /// Whether an object is one of those that the watch is of: the API server knows no patterns of names.
    fn is_of(&self, object: &CachedObject) -> bool {
        match &self.scope {
            Scope::Named(names) => names.contains(object.head().namespace.as_deref(), &object.head().name),
            Scope::All | Scope::Namespace(_) | Scope::Object(_) => true,
        }
    }

    /// An object as the API server wrote it; one that cannot be read is told and left out.
    fn decode(&self, raw: &str) -> Option<Arc<CachedObject>> {
        match object::parse(&self.gvk, raw, self.depth) {
            Ok(object) => Some(Arc::new(object)),
            Err(error) => {
                lock(&self.report).undecodable += 1;
                tracing::error!(kind = %self.gvk, %error, "an object of the API server cannot be read");
                None
            }
        }
    }

    fn accept(&self) -> &'static str {
        match self.depth {
            Depth::Metadata => METADATA,
            Depth::Whole => JSON,
        }
    }
}

/// Whether what the watch wanted to go on from is no longer kept.
fn expired(error: &RestError) -> bool {
    match error {
        RestError::Status { code, status, .. } => is_expired(*code, status),
        RestError::Timeout { .. }
        | RestError::Connection(_)
        | RestError::TooLarge { .. }
        | RestError::Decode(_)
        | RestError::Request(_)
        | RestError::NotLeading { .. } => false,
    }
}
