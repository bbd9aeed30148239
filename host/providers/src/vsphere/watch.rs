//! Waits for changes of what answers rested on, and tells which questions they belong to.
//!
//! One property collector of our own holds a filter an object. A filter is made before its object is read for an
//! answer, so no change falls in between. Where waiting does not work, what is watched is read again at intervals.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use evenkeel_core::contract::ExternalQuery;
use tokio::sync::{Notify, watch};
use tokio::time::sleep;

use crate::changes::Changes;

use super::data::{Data, MoRef, Object};
use super::limits::{IDLE_FILTERS_MAX, WAIT, WAIT_PAUSE, WATCHED_MAX};
use super::properties::{Paths, Properties, Read, Reader, filter_spec};
use super::session::Session;
use super::vcenter::{Call, CallError};
use super::view::{TASK_PATHS, VM_PATHS};

/// What is watched in one vCenter.
pub(crate) struct Watch {
    server: String,
    changes: Arc<Changes>,
    inner: Mutex<Inner>,
    standing: watch::Sender<Standing>,
    /// There is something to watch, or something else to do.
    more: Notify,
}

#[derive(Default)]
struct Inner {
    objects: BTreeMap<MoRef, Watched>,
    /// Filters of the collector that nobody needs any more.
    idle_filters: usize,
}

/// How it stands with the collector.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Standing {
    /// It is made as soon as there is something to watch.
    #[default]
    Coming,
    /// It is at work.
    Up(MoRef),
    /// It does not work for now.
    Broken,
}

#[derive(Default)]
struct Watched {
    queries: BTreeSet<ExternalQuery>,
    /// What the last answer rested on.
    answered: Option<Properties>,
    /// What was told of it while an answer was under way.
    early: Properties,
    /// It was told to be gone while an answer was under way.
    gone: bool,
    /// The collector has a filter for it.
    filtered: bool,
}

impl Watch {
    pub(crate) fn new(server: &str, changes: Arc<Changes>) -> Self {
        Self {
            server: server.to_owned(),
            changes,
            inner: Mutex::default(),
            standing: watch::Sender::default(),
            more: Notify::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An answer to this question is about to rest on an object. Tells whether changes of it will be told.
    pub(crate) async fn begin(&self, session: &Session, object: &MoRef, query: &ExternalQuery) -> bool {
        {
            let mut inner = self.lock();
            if inner.objects.len() >= WATCHED_MAX && !inner.objects.contains_key(object) {
                return false;
            }
            let watched = inner.objects.entry(object.clone()).or_default();
            watched.queries.insert(query.clone());
            watched.answered = None;
            watched.early.clear();
            watched.gone = false;
        }
        self.more.notify_one();
        let Some(collector) = self.collector().await else { return false };
        if !self.lock().objects.get_mut(object).is_some_and(Watched::lacks_filter) {
            return true;
        }
        let added = add_filter(session, &collector, object).await;
        if let Err(error) = &added {
            tracing::debug!(server = self.server, %object, %error, "filter not made");
            if let Some(watched) = self.lock().objects.get_mut(object) {
                watched.filtered = false;
            }
        }
        added.is_ok()
    }

    /// The collector, as soon as it is known whether there is one.
    async fn collector(&self) -> Option<MoRef> {
        let mut standing = self.standing.subscribe();
        let known = standing.wait_for(|standing| *standing != Standing::Coming).await.ok()?;
        match &*known {
            Standing::Up(collector) => Some(collector.clone()),
            Standing::Coming | Standing::Broken => None,
        }
    }

    /// The answer rested on these properties.
    pub(crate) fn seen(&self, object: &MoRef, properties: Properties) {
        let mut inner = self.lock();
        let Some(watched) = inner.objects.get_mut(object) else { return };
        let early = std::mem::take(&mut watched.early);
        if watched.gone || differs(&properties, &early) {
            watched.tell(&self.changes);
        } else {
            watched.answered = Some(properties);
        }
    }

    /// This question does not rest on the object after all.
    pub(crate) fn release(&self, object: &MoRef, query: &ExternalQuery) {
        let mut inner = self.lock();
        let Some(watched) = inner.objects.get_mut(object) else { return };
        watched.queries.remove(query);
        if watched.queries.is_empty() {
            let filtered = watched.filtered;
            inner.objects.remove(object);
            inner.idle_filters += usize::from(filtered);
        }
    }

    /// Nobody asks this any more.
    pub(crate) fn forget(&self, query: &ExternalQuery) {
        let of_query: Vec<MoRef> = {
            let inner = self.lock();
            let resting = inner.objects.iter().filter(|(_, watched)| watched.queries.contains(query));
            resting.map(|(object, _)| object.clone()).collect()
        };
        for object in of_query {
            self.release(&object, query);
        }
    }

    /// Whether everything that is to be watched is, as far as that works.
    pub(crate) fn settled(&self) -> bool {
        let inner = self.lock();
        match &*self.standing.borrow() {
            Standing::Coming => inner.objects.is_empty(),
            Standing::Up(_) => inner.objects.values().all(|watched| watched.filtered),
            Standing::Broken => true,
        }
    }

    /// Objects watched now.
    pub(crate) fn len(&self) -> usize {
        self.lock().objects.len()
    }

    // ---- the loop ------------------------------------------------------------------------------------------------

    /// Watches for ever.
    pub(crate) async fn run(self: Arc<Self>, session: Arc<Session>, reader: Arc<Reader>) {
        let mut pause = WAIT_PAUSE.0;
        loop {
            while self.lock().objects.is_empty() {
                self.more.notified().await;
            }
            let ended = self.collect(&session).await;
            let worked = matches!(&*self.standing.borrow(), Standing::Up(_));
            let Err(error) = ended else {
                self.give_up_collector(Standing::Coming);
                continue;
            };
            tracing::debug!(server = self.server, %error, "waiting for changes failed, reading instead");
            self.give_up_collector(Standing::Broken);
            if worked {
                pause = WAIT_PAUSE.0;
                self.tell_all();
            }
            sleep(pause).await;
            pause = (pause * 2).min(WAIT_PAUSE.1);
            self.read_again(&reader).await;
        }
    }

    fn give_up_collector(&self, standing: Standing) {
        let mut inner = self.lock();
        inner.idle_filters = 0;
        inner.objects.values_mut().for_each(|watched| watched.filtered = false);
        drop(inner);
        self.standing.send_replace(standing);
    }

    /// Whoever counts on being told has to look from now on.
    fn tell_all(&self) {
        self.lock().objects.values().for_each(|watched| watched.tell(&self.changes));
    }

    /// Waits with one collector until it is to be made anew.
    async fn collect(&self, session: &Session) -> Result<(), CallError> {
        let content = session.content().await?;
        let made = session.call(&Call::new(&content.property_collector, "CreatePropertyCollector")).await?;
        let collector = made
            .reference()
            .cloned()
            .ok_or_else(|| CallError::BadAnswer("no property collector was made".to_owned()))?;
        self.add_filters(session, &collector).await?;
        let mut version =
            self.take(&session.call_waiting(&wait_call(&collector, "", Duration::ZERO), WAIT).await?);
        self.standing.send_replace(Standing::Up(collector.clone()));
        while self.lock().idle_filters <= IDLE_FILTERS_MAX {
            let call = wait_call(&collector, &version, WAIT);
            let next = self.take(&session.call_waiting(&call, WAIT).await?);
            if !next.is_empty() {
                version = next;
            }
        }
        session.call(&Call::new(&collector, "DestroyPropertyCollector")).await.map(|_| ())
    }

    /// Filters for all that has none.
    async fn add_filters(&self, session: &Session, collector: &MoRef) -> Result<(), CallError> {
        let bare: Vec<MoRef> = {
            let mut inner = self.lock();
            let bare = inner
                .objects
                .iter_mut()
                .filter_map(|(object, watched)| watched.lacks_filter().then_some(object));
            bare.cloned().collect()
        };
        for object in bare {
            match add_filter(session, collector, &object).await {
                Ok(()) => {}
                // It went meanwhile: whoever asked has to look.
                Err(error) if error.is_fault("ManagedObjectNotFound") => self.told(&object, None),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Takes updates in; tells the version that they lead to, "" where nothing came.
    fn take(&self, updates: &Data) -> String {
        for update in updates.items_of("filterSet").iter().flat_map(|filter| filter.items_of("objectSet")) {
            let Some(object) = update.get("obj").and_then(Data::reference) else { continue };
            let changed: Properties = update
                .items_of("changeSet")
                .iter()
                .filter_map(|change| Some((change.text_of("name").into_owned(), change.get("val")?.clone())))
                .collect();
            let left = update.text_of("kind") == "leave";
            self.told(object, Some(&changed).filter(|_| !left));
        }
        updates.text_of("version").into_owned()
    }

    /// An object has these properties now; none where it is gone.
    fn told(&self, object: &MoRef, now: Option<&Properties>) {
        let mut inner = self.lock();
        let Some(watched) = inner.objects.get_mut(object) else { return };
        match (&watched.answered, now) {
            (None, None) => watched.gone = true,
            (None, Some(now)) => watched.early.extend(now.clone()),
            (Some(answered), Some(now)) if !differs(answered, now) => {}
            (Some(_), _) => {
                // What it rested on no longer holds, and one word of it is enough.
                watched.answered = None;
                watched.tell(&self.changes);
            }
        }
    }

    /// Where waiting does not work: reads everything once, and tells what is otherwise.
    async fn read_again(&self, reader: &Reader) {
        let objects: Vec<MoRef> = self.lock().objects.keys().cloned().collect();
        for (kind, paths) in [("Task", TASK_PATHS), ("VirtualMachine", VM_PATHS)] {
            let of_kind: Vec<MoRef> = objects.iter().filter(|object| object.kind == kind).cloned().collect();
            let Ok(reads) = reader.read_all(&of_kind, paths).await else { return };
            for (object, read) in of_kind.iter().zip(reads) {
                match read {
                    Read::Found(properties) => self.told(object, Some(&properties)),
                    Read::Absent | Read::Refused(_) => self.told(object, None),
                }
            }
        }
    }
}

impl Watched {
    /// Whether it has no filter yet; whoever asks makes one.
    fn lacks_filter(&mut self) -> bool {
        !std::mem::replace(&mut self.filtered, true)
    }

    fn tell(&self, changes: &Changes) {
        self.queries.iter().for_each(|query| changes.tell(query.clone()));
    }
}

/// Whether something is told otherwise than an answer has it.
fn differs(answered: &Properties, told: &Properties) -> bool {
    told.iter().any(|(path, value)| answered.get(path) != Some(value))
}

fn wait_call(collector: &MoRef, version: &str, wait: Duration) -> Call {
    let options = Object::new("WaitOptions").with("maxWaitSeconds", seconds(wait));
    Call::new(collector, "WaitForUpdatesEx").with("version", version).with("options", options)
}

fn paths_of(object: &MoRef) -> Paths {
    if object.kind == "Task" { TASK_PATHS } else { VM_PATHS }
}

async fn add_filter(session: &Session, collector: &MoRef, object: &MoRef) -> Result<(), CallError> {
    let paths = BTreeMap::from([(object.kind.as_str(), paths_of(object).iter().copied().collect())]);
    let call = Call::new(collector, "CreateFilter")
        .with("spec", filter_spec(&paths, &BTreeSet::from([object])))
        .with("partialUpdates", false);
    session.call(&call).await.map(|_| ())
}

fn seconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX)
}
