//! Waits for changes of what answers rested on, and tells which questions they belong to.
//!
//! One property collector of our own has one filter, over a list view of all that is watched. An object is in the view
//! before it is read for an answer, so no change falls in between. The view is changed by one call at a time, each for all
//! objects that came meanwhile: many askers cost few calls, and the server looks through one filter and not through many.
//! Where waiting does not work, what is watched is read again at intervals.
//!
//! What was read of an object that the view holds, and what was told of it since, is how it stands: whoever asks again is
//! answered from that, without a call. It is distrusted once a task on the object has ended, for the news of the task may
//! come before the news of what it did.

mod listing;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use evenkeel_core::contract::ExternalQuery;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::changes::Changes;

use self::listing::Listing;
use super::data::{Data, MoRef, Object};
use super::limits::{IDLE_OBJECTS_MAX, OBJECTS_PER_READ_MAX, VIEW_WAIT, WAIT, WAIT_PAUSE, WATCHED_MAX};
use super::properties::{Properties, Read, Reader, property_specs};
use super::session::Session;
use super::vcenter::{Call, CallError};
use super::view::{self, TASK_PATHS, VM_PATHS};

/// What is watched in one vCenter.
pub(crate) struct Watch {
    server: String,
    changes: Arc<Changes>,
    inner: Mutex<Inner>,
    standing: Mutex<Standing>,
    /// It stands otherwise. Those who wait are woken in the order in which they came, so that equal scenarios make equal journals.
    stands: Notify,
    /// There is something to watch, or something else to do.
    more: Notify,
    /// Whoever changes the view holds it.
    changing: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Inner {
    objects: BTreeMap<MoRef, Watched>,
    listing: Listing,
    /// Collectors and views that a broken connection left behind.
    left: Vec<Collector>,
}

/// A property collector, and the list view that its filter looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Collector {
    collector: MoRef,
    view: MoRef,
}

/// How it stands with the collector.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Standing {
    /// It is made as soon as there is something to watch.
    #[default]
    Coming,
    /// It is at work.
    Up(Collector),
    /// It does not work for now.
    Broken,
}

#[derive(Default)]
struct Watched {
    queries: BTreeSet<ExternalQuery>,
    /// What the last answer rested on, until it was told to hold no longer.
    answered: Option<Properties>,
    /// Answers under way.
    asking: usize,
    /// How it stands, as far as that is known without reading it again.
    known: Option<Properties>,
    /// What was told of it while answers were under way.
    early: Properties,
    /// It was told to be gone while answers were under way.
    gone: bool,
}

/// An answer under way that is to rest on an object.
pub(crate) struct Asking<'a> {
    watch: &'a Watch,
    object: &'a MoRef,
    query: &'a ExternalQuery,
    /// Changes of the object will be told.
    pub(crate) watched: bool,
}

impl Asking<'_> {
    /// Notes that somebody asks, where there is room for it.
    fn is_room(&self) -> bool {
        let mut inner = self.watch.lock();
        if inner.objects.len() >= WATCHED_MAX && !inner.objects.contains_key(self.object) {
            return false;
        }
        let watched = inner.objects.entry(self.object.clone()).or_default();
        watched.queries.insert(self.query.clone());
        watched.asking += 1;
        inner.listing.want(self.object);
        true
    }

    /// The answer rests on these properties.
    pub(crate) fn rests_on(self, properties: Properties) {
        let mut inner = self.watch.lock();
        let Some(watched) = inner.objects.get_mut(self.object) else { return };
        let outdated = watched.gone || differs(&properties, &watched.early);
        // An earlier answer that said otherwise has to be looked at again too, by whoever got that one.
        let outdates = watched.answered.as_ref().is_some_and(|earlier| *earlier != properties);
        watched.known = (self.watched && !watched.gone).then(|| {
            let mut known = properties.clone();
            known.extend(watched.early.clone());
            known
        });
        watched.answered = (!outdated).then_some(properties);
        if outdated || outdates {
            watched.tell(&self.watch.changes);
        }
    }

    /// The answer does not rest on the object after all.
    pub(crate) fn does_not_rest(self) {
        self.watch.release(self.object, self.query);
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let mut inner = self.watch.lock();
        let Some(watched) = inner.objects.get_mut(self.object) else { return };
        watched.asking = watched.asking.saturating_sub(1);
        if watched.asking == 0 {
            watched.early.clear();
            watched.gone = false;
        }
    }
}

impl Watch {
    pub(crate) fn new(server: &str, changes: Arc<Changes>) -> Self {
        Self {
            server: server.to_owned(),
            changes,
            inner: Mutex::default(),
            standing: Mutex::default(),
            stands: Notify::new(),
            more: Notify::new(),
            changing: tokio::sync::Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An answer to this question is about to rest on an object.
    pub(crate) async fn begin<'a>(
        &'a self,
        session: &Session,
        object: &'a MoRef,
        query: &'a ExternalQuery,
    ) -> Asking<'a> {
        let mut asking = Asking { watch: self, object, query, watched: false };
        if asking.is_room() {
            self.more.notify_one();
            // Whoever waits longer than this does without, and looks again by itself.
            asking.watched = timeout(VIEW_WAIT, self.list(session, object)).await.unwrap_or(false);
        }
        asking
    }

    /// Sees to it that the view holds an object; tells whether it does.
    async fn list(&self, session: &Session, object: &MoRef) -> bool {
        let held = || self.lock().listing.holds(object);
        if held() {
            return true;
        }
        let Some(collector) = self.collector().await else { return false };
        let _turn = self.changing.lock().await;
        if !held()
            && let Err(error) = self.change_view(session, &collector.view).await
        {
            tracing::debug!(server = self.server, %object, %error, "not watched");
        }
        held()
    }

    fn standing(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How it stands from now on; how it stood before.
    fn stand(&self, standing: Standing) -> Standing {
        let before = std::mem::replace(&mut *self.standing(), standing);
        self.stands.notify_waiters();
        before
    }

    /// The collector, as soon as it is known whether there is one.
    async fn collector(&self) -> Option<Collector> {
        loop {
            let stands = self.stands.notified();
            match &*self.standing() {
                Standing::Up(collector) => return Some(collector.clone()),
                Standing::Broken => return None,
                Standing::Coming => {}
            }
            stands.await;
        }
    }

    /// How an object stands, for an answer to this question, where it need not be read for that.
    pub(crate) fn known(&self, object: &MoRef, query: &ExternalQuery) -> Option<Properties> {
        if !matches!(&*self.standing(), Standing::Up(_)) {
            return None;
        }
        let mut inner = self.lock();
        if !inner.listing.holds(object) {
            return None;
        }
        let watched = inner.objects.get_mut(object)?;
        let known = watched.known.clone()?;
        watched.queries.insert(query.clone());
        watched.answered = Some(known.clone());
        Some(known)
    }

    /// Something was done to an object, and what is known of it may be from before.
    pub(crate) fn distrust(&self, object: &MoRef) {
        if let Some(watched) = self.lock().objects.get_mut(object) {
            watched.known = None;
        }
    }

    /// This question does not rest on the object after all.
    fn release(&self, object: &MoRef, query: &ExternalQuery) {
        let mut inner = self.lock();
        let Some(watched) = inner.objects.get_mut(object) else { return };
        watched.queries.remove(query);
        if watched.queries.is_empty() {
            inner.objects.remove(object);
            inner.listing.release(object);
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
        match &*self.standing() {
            Standing::Coming => inner.objects.is_empty(),
            Standing::Up(_) => inner.listing.is_full(),
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
            let Err(error) = self.collect(&session).await;
            tracing::debug!(server = self.server, %error, "waiting for changes failed, reading instead");
            if self.give_up_collector() {
                pause = WAIT_PAUSE.0;
                self.tell_all();
            }
            sleep(pause).await;
            pause = (pause * 2).min(WAIT_PAUSE.1);
            self.read_again(&reader).await;
        }
    }

    /// Tells whether there was one.
    fn give_up_collector(&self) -> bool {
        let mut inner = self.lock();
        inner.listing.renew(None);
        inner.objects.values_mut().for_each(|watched| watched.known = None);
        match self.stand(Standing::Broken) {
            Standing::Up(collector) => {
                inner.left.push(collector);
                true
            }
            Standing::Coming | Standing::Broken => false,
        }
    }

    /// Whoever counts on being told has to look from now on.
    fn tell_all(&self) {
        self.lock().objects.values().for_each(|watched| watched.tell(&self.changes));
    }

    /// Waits with one collector until that fails.
    async fn collect(&self, session: &Session) -> Result<Infallible, CallError> {
        let left = std::mem::take(&mut self.lock().left);
        for collector in left {
            // Its session may have gone, and it with that.
            let _ = session.call(&Call::new(&collector.collector, "DestroyPropertyCollector")).await;
            let _ = session.call(&Call::new(&collector.view, "DestroyView")).await;
        }
        let collector = make_collector(session).await?;
        self.lock().listing.renew(Some(collector.view.clone()));
        {
            let _turn = self.changing.lock().await;
            self.change_view(session, &collector.view).await?;
        }
        let first = wait_call(&collector.collector, "", Duration::ZERO);
        let mut version = self.take(&session.call_waiting(&first, WAIT).await?);
        self.stand(Standing::Up(collector.clone()));
        loop {
            let call = wait_call(&collector.collector, &version, WAIT);
            let next = self.take(&session.call_waiting(&call, WAIT).await?);
            if !next.is_empty() {
                version = next;
            }
            if self.lock().listing.idle() > IDLE_OBJECTS_MAX {
                let _turn = self.changing.lock().await;
                self.change_view(session, &collector.view).await?;
            }
        }
    }

    /// Brings the view to what is wanted; only who holds the turn calls it.
    async fn change_view(&self, session: &Session, view: &MoRef) -> Result<(), CallError> {
        loop {
            let Some(change) = self.lock().listing.change(OBJECTS_PER_READ_MAX) else { return Ok(()) };
            let references = |objects: &BTreeSet<MoRef>| Data::List(objects.iter().map(Data::from).collect());
            let call = Call::new(view, "ModifyListView")
                .with("add", references(&change.add))
                .with("remove", references(&change.remove));
            let unresolved = session.call(&call).await?;
            self.lock().listing.changed(view, change);
            for object in unresolved.items().iter().filter_map(Data::reference) {
                // It went meanwhile: whoever asked has to look.
                self.told(object, None);
            }
        }
    }

    /// Takes updates in; tells the version that they lead to, "" where nothing came.
    fn take(&self, updates: &Data) -> String {
        for update in updates.items_of("filterSet").iter().flat_map(|filter| filter.items_of("objectSet")) {
            let Some(object) = update.get("obj").and_then(Data::reference) else { continue };
            let changed = update.items_of("changeSet").iter();
            let changed: News =
                changed.map(|one| (one.text_of("name").into_owned(), one.get("val").cloned())).collect();
            let left = update.text_of("kind") == "leave";
            self.told(object, Some(&changed).filter(|_| !left));
        }
        updates.text_of("version").into_owned()
    }

    /// An object has these properties now; none where it is gone.
    fn told(&self, object: &MoRef, now: Option<&News>) {
        let mut inner = self.lock();
        let Some(watched) = inner.objects.get_mut(object) else { return };
        if watched.asking > 0 {
            match now {
                Some(now) => watched.early.extend(set(now)),
                None => watched.gone = true,
            }
        }
        match (now, &mut watched.known) {
            (Some(now), Some(known)) => {
                known.extend(set(now));
                known.retain(|path, _| now.get(path) != Some(&None));
            }
            (None, known) => *known = None,
            (Some(_), None) => {}
        }
        let holds = |answered: &Properties| now.is_some_and(|now| !outdates(answered, now));
        if watched.answered.as_ref().is_some_and(|answered| !holds(answered)) {
            // What was answered no longer holds, and one word of it is enough.
            watched.answered = None;
            watched.tell(&self.changes);
        }
        if object.kind == "Task"
            && let Some(task) = watched.known.clone().filter(view::has_ended)
        {
            // What it did may be told later than that it is done.
            for touched in view::touched_by(&task) {
                if let Some(touched) = inner.objects.get_mut(touched) {
                    touched.known = None;
                }
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
                    Read::Found(properties) => {
                        let news = properties.into_iter().map(|(path, value)| (path, Some(value))).collect();
                        self.told(object, Some(&news));
                    }
                    Read::Absent | Read::Refused(_) => self.told(object, None),
                }
            }
        }
    }
}

impl Watched {
    fn tell(&self, changes: &Changes) {
        self.queries.iter().for_each(|query| changes.tell(query.clone()));
    }
}

/// What is told of an object: properties by path, none where one is unset.
type News = BTreeMap<String, Option<Data>>;

/// The properties of the news that are set.
fn set(news: &News) -> impl Iterator<Item = (String, Data)> {
    news.iter().filter_map(|(path, value)| Some((path.clone(), value.clone()?)))
}

/// Whether something is told otherwise than an answer has it.
fn differs(answered: &Properties, told: &Properties) -> bool {
    told.iter().any(|(path, value)| answered.get(path) != Some(value))
}

/// The same of news, where a property may be unset.
fn outdates(answered: &Properties, news: &News) -> bool {
    news.iter().any(|(path, value)| answered.get(path) != value.as_ref())
}

fn wait_call(collector: &MoRef, version: &str, wait: Duration) -> Call {
    let options = Object::new("WaitOptions").with("maxWaitSeconds", seconds(wait));
    Call::new(collector, "WaitForUpdatesEx").with("version", version).with("options", options)
}

async fn make_collector(session: &Session) -> Result<Collector, CallError> {
    let content = session.content().await?;
    let made = async |call: Call, what: &str| {
        let made = session.call(&call).await?;
        let made = made.reference().cloned();
        made.ok_or_else(|| CallError::BadAnswer(format!("{what} was asked for, and none was made")))
    };
    let call = Call::new(&content.property_collector, "CreatePropertyCollector");
    let collector = made(call, "a property collector").await?;
    let view = made(Call::new(&content.view_manager, "CreateListView"), "a list view").await?;
    let call =
        Call::new(&collector, "CreateFilter").with("spec", view_spec(&view)).with("partialUpdates", false);
    made(call, "a filter").await?;
    Ok(Collector { collector, view })
}

/// Tasks and VMs that a list view holds.
fn view_spec(view: &MoRef) -> Object {
    let of = |paths: &[&'static str]| paths.iter().copied().collect();
    let paths = BTreeMap::from([("Task", of(TASK_PATHS)), ("VirtualMachine", of(VM_PATHS))]);
    let members =
        Object::new("TraversalSpec").with("type", "ListView").with("path", "view").with("skip", false);
    let objects =
        Object::new("ObjectSpec").with("obj", view).with("skip", true).with("selectSet", vec![members]);
    Object::new("PropertyFilterSpec")
        .with("propSet", property_specs(&paths))
        .with("objectSet", vec![objects])
        .with("reportMissingObjectsInResults", true)
}

fn seconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(question: &str) -> ExternalQuery {
        ExternalQuery { provider: "vsphere".into(), question: question.into(), arguments: "{}".into() }
    }

    fn power(word: &str) -> Properties {
        Properties::from([("runtime.powerState".to_owned(), Data::from(word))])
    }

    fn news(properties: &Properties) -> News {
        properties.iter().map(|(path, value)| (path.clone(), Some(value.clone()))).collect()
    }

    /// Somebody asks twice, and between the two comes what the steps do; tells the questions that are to be asked again.
    fn told(between: impl FnOnce(&Watch, &MoRef, &Properties, &Properties)) -> Vec<String> {
        let (watch, vm) = (Watch::new("vc", Arc::default()), MoRef::new("VirtualMachine", "vm-1"));
        let (first, off, on) = (query("first"), power("off"), power("on"));
        let asking = Asking { watch: &watch, object: &vm, query: &first, watched: true };
        assert!(asking.is_room());
        asking.rests_on(off.clone());
        between(&watch, &vm, &off, &on);
        let mut told = Vec::new();
        watch.changes.hand_out(|queries| told.extend(queries.iter().map(|query| query.question.clone())));
        told
    }

    fn ask_second(watch: &Watch, vm: &MoRef, meanwhile: impl FnOnce(), seen: &Properties) {
        let second = query("second");
        let asking = Asking { watch, object: vm, query: &second, watched: true };
        assert!(asking.is_room());
        meanwhile();
        asking.rests_on(seen.clone());
    }

    #[test]
    fn a_second_answer_that_says_the_same_tells_nobody() {
        assert_eq!(told(|watch, vm, off, _| ask_second(watch, vm, || (), off)), [""; 0]);
    }

    #[test]
    fn a_change_that_comes_during_a_second_question_is_told_to_whoever_asked_first() {
        let told = told(|watch, vm, _, on| ask_second(watch, vm, || watch.told(vm, Some(&news(on))), on));
        assert!(told.contains(&"first".to_owned()), "{told:?}");
    }

    #[test]
    fn a_second_answer_that_is_ahead_of_the_news_tells_whoever_asked_first() {
        let told = told(|watch, vm, _, on| ask_second(watch, vm, || (), on));
        assert!(told.contains(&"first".to_owned()), "{told:?}");
    }

    #[test]
    fn a_second_answer_that_is_behind_the_news_is_asked_for_again() {
        let told = told(|watch, vm, off, on| ask_second(watch, vm, || watch.told(vm, Some(&news(on))), off));
        assert!(told.contains(&"second".to_owned()), "{told:?}");
    }

    #[test]
    fn a_second_question_that_fails_leaves_the_first_answer_watched() {
        let told = told(|watch, vm, _, on| {
            let second = query("second");
            let asking = Asking { watch, object: vm, query: &second, watched: true };
            assert!(asking.is_room());
            drop(asking);
            watch.told(vm, Some(&news(on)));
        });
        assert!(told.contains(&"first".to_owned()), "{told:?}");
    }

    /// A VM that was read as off while its collector is at work.
    fn read_once() -> (Watch, MoRef) {
        let (watch, vm) = (Watch::new("vc", Arc::default()), MoRef::new("VirtualMachine", "vm-1"));
        let (collector, view) = (MoRef::new("PropertyCollector", "c"), MoRef::new("ListView", "v"));
        let first = query("first");
        let asking = Asking { watch: &watch, object: &vm, query: &first, watched: true };
        assert!(asking.is_room());
        {
            let mut inner = watch.lock();
            inner.listing.renew(Some(view.clone()));
            let change = inner.listing.change(10).expect("something to add");
            inner.listing.changed(&view, change);
        }
        watch.stand(Standing::Up(Collector { collector, view }));
        asking.rests_on(power("off"));
        (watch, vm)
    }

    #[test]
    fn what_was_read_and_told_is_known_without_another_call() {
        let (watch, vm) = read_once();
        assert_eq!(watch.known(&vm, &query("second")), Some(power("off")));
        watch.told(&vm, Some(&news(&power("on"))));
        assert_eq!(watch.known(&vm, &query("second")), Some(power("on")));
        let unset = News::from([("runtime.powerState".to_owned(), None)]);
        watch.told(&vm, Some(&unset));
        assert_eq!(watch.known(&vm, &query("second")), Some(Properties::new()));
    }

    #[test]
    fn whoever_was_answered_from_what_is_known_is_told_of_the_next_change() {
        let (watch, vm) = read_once();
        watch.known(&vm, &query("second"));
        watch.told(&vm, Some(&news(&power("on"))));
        let mut told = Vec::new();
        watch.changes.hand_out(|queries| told.extend(queries.iter().map(|query| query.question.clone())));
        assert_eq!(told, ["first", "second"]);
    }

    #[test]
    fn nothing_is_known_of_an_object_that_went_or_was_acted_upon_or_without_a_collector() {
        for forget in [
            (|watch: &Watch, vm: &MoRef| watch.told(vm, None)) as fn(&Watch, &MoRef),
            |watch, vm| watch.distrust(vm),
            |watch, _| {
                watch.give_up_collector();
            },
        ] {
            let (watch, vm) = read_once();
            forget(&watch, &vm);
            assert_eq!(watch.known(&vm, &query("second")), None);
        }
    }
}
