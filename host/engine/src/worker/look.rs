//! The course of one look at a key.

use std::collections::BTreeSet;
use std::sync::Arc;

use evenkeel_cluster::{Depth, Lookup, Need};
use evenkeel_core::admit::{Circumstances, Verdict, admit};
use evenkeel_core::contract::{Action, Conclusion, Failure, ObjectRef, Observation, Query, Reply, Request};
use evenkeel_core::grant::Denial;
use evenkeel_core::guest::GuestReply;
use evenkeel_core::memo::{AnswerHash, Digest};
use evenkeel_core::object::CachedObject;
use evenkeel_core::pass::{Effect, Pass};
use evenkeel_core::query::Prepared;
use evenkeel_core::record::{End, Trigger, shows_secrets};
use evenkeel_core::target::ActionTarget;
use tokio::time::Instant;
use tracing::Instrument;

use super::act::need;
use super::world::Written;
use super::{Close, Concluded, Counted, Ended, Failed, Waiting, drift};
use crate::answers::{Answered, Seen, look, primary_depth, want};
use crate::doubt::Doubt;
use crate::keys::{Basis, Kept};
use crate::limits::PASSES_BEFORE_RELEARNING;
use crate::notes::Notes;
use crate::paused::is_paused;
use crate::provider::Caller;
use crate::settle;
use crate::shared::Shared;
use crate::state::Taken;

/// A look under way.
pub(crate) struct Look<'a> {
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) taken: &'a Taken,
    /// The primary as the pass is shown it.
    pub(crate) primary: Option<Arc<CachedObject>>,
    /// What the pass was answered, in order.
    pub(super) answered: Vec<Answered>,
    /// Whether answers were given in advance.
    padded: bool,
    /// Questions to providers that the previous pass put, and that this one was not answered in advance.
    left_open: Vec<Arc<Prepared>>,
    pub(super) written: Written,
    /// Actions carried out that leave something to look after.
    pub(super) kept: Vec<Kept>,
    /// Questions that nobody put, but whose answers wake the key.
    pub(super) extras: Vec<Arc<Prepared>>,
    /// Objects that were applied or created, so that they are not pruned.
    pub(super) made: BTreeSet<ObjectRef>,
    /// Whether the action that had failed before was carried out.
    pub(super) cured: bool,
    pub(super) counted: Counted,
    pub(super) notes: Notes,
    started: Instant,
}

/// Why a look goes no further.
pub(crate) enum Stop {
    /// A watch has yet to be in step.
    Wait(Box<Need>),
    /// What it rested on has changed.
    Stale,
    /// It woke too often.
    Slowed,
    /// It failed.
    Fail(Box<Failed>),
}

impl<'a> Look<'a> {
    pub(super) fn new(shared: &'a Arc<Shared>, taken: &'a Taken) -> Self {
        Self {
            shared,
            taken,
            primary: None,
            answered: Vec::new(),
            padded: false,
            left_open: Vec::new(),
            written: Written::default(),
            kept: Vec::new(),
            extras: Vec::new(),
            made: BTreeSet::new(),
            cured: false,
            counted: Counted::default(),
            notes: Notes::begin(shared),
            started: Instant::now(),
        }
    }

    /// What is left of it besides how it ended.
    pub(super) fn close(self, ended: &Ended) -> Close {
        let primary_gone = self.primary.is_none();
        let micros = u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX);
        let record = self.end(ended).and_then(|end| self.notes.close(self.taken, end, micros));
        Close { record, counted: self.counted, primary_gone }
    }

    /// How it ended, for the journal; what is said every time is said once.
    fn end(&self, ended: &Ended) -> Option<End> {
        let again = |waiting: bool| (!waiting).then_some(());
        Some(match ended {
            Ended::NotOurs | Ended::StillRejected => return None,
            Ended::Paused => again(self.taken.was_paused).map(|()| End::Paused)?,
            Ended::Waiting(waiting) => End::Waiting { gvk: waiting.need.gvk.clone() },
            Ended::Slowed => {
                let until =
                    self.shared.state().keys.get(self.taken.key).and_then(|entry| entry.slowed_until)?;
                let millis = until.saturating_sub(self.shared.now()).as_millis();
                End::Slowed { millis: u64::try_from(millis).unwrap_or(u64::MAX) }
            }
            Ended::Stale { queries: _ } => End::Stale,
            Ended::Stands => End::Stands,
            Ended::Concluded(concluded) => End::Concluded { requeue_after: concluded.requeue_after },
            Ended::Failed(failed) => End::Failed {
                failure: failed.failure.clone(),
                count: self.taken.failures.saturating_add(1),
                retry: settle::retry_in_words(self.shared, self.taken, failed),
            },
        })
    }

    /// What core says of an action: whether it goes to the API server, and as what.
    pub(crate) fn admit(&self, target: &ActionTarget<'_>, seen: Option<&CachedObject>) -> Verdict {
        let circumstances = Circumstances {
            manager: &self.taken.plan().manager,
            primary: self.primary.as_deref(),
            seen,
            answered: &self.shared.normalised(),
        };
        admit(target, &circumstances)
    }

    pub(super) async fn run(&mut self) -> Ended {
        self.primary = match self.look_for_primary() {
            Ok(primary) => primary,
            Err(need) => return Ended::Waiting(Waiting { need, queries: None }),
        };
        match &self.primary {
            Some(primary) if !self.taken.loaded.looks_after(self.taken.plan(), primary) => {
                return Ended::NotOurs;
            }
            Some(primary) if is_paused(primary) => return Ended::Paused,
            None if self.taken.last_seen.is_none() && !self.taken.asked_for() => return Ended::NotOurs,
            Some(_) | None => {}
        }
        if self.stands_at_a_glance() {
            return Ended::Stands;
        }
        if let Err(need) = self.answer_in_advance().await {
            return Ended::Waiting(Waiting { need, queries: None });
        }
        let basis = self.basis_in_advance();
        if self.taken.remembers(&basis) {
            return match drift::repair(self).await {
                Ok(()) => Ended::Stands,
                Err(stop) => self.ended(stop),
            };
        }
        if self.taken.rejected == Some(basis) {
            return Ended::StillRejected;
        }
        if !self.shared.may_run(self.taken) {
            return Ended::Slowed;
        }
        // Whatever is logged on the way, by whichever part, says whose pass it was.
        let span = tracing::error_span!(
            "pass",
            plugin = self.taken.loaded.name(),
            controller = self.taken.plan().spec.name,
            object = %self.taken.object,
        );
        match self.pass().instrument(span).await {
            Ok(ended) => ended,
            Err(stop) => self.ended(stop),
        }
    }

    /// Whether the remembered conclusion stands because nothing has changed but objects that it applied, and these are as
    /// it left them. Where one has drifted, or where a change may concern what the pass was answered, the whole is looked
    /// at.
    fn stands_at_a_glance(&self) -> bool {
        let Doubt::Objects(changed) = &self.taken.doubt else { return false };
        let Some(memo) = self.taken.memo_in_force() else { return false };
        if changed.is_empty() || !memo.prune.is_empty() || changed.iter().any(|one| self.may_rest_on(one)) {
            return false;
        }
        let mut kept = memo.kept.iter().filter(|kept| changed.contains(&kept.object));
        kept.all(|kept| matches!(drift::drifted(self, kept), Ok(None)))
    }

    /// Whether an answer may be about this object.
    fn may_rest_on(&self, object: &ObjectRef) -> bool {
        *object == self.taken.object
            || self.taken.learned.iter().any(|query| match query.query() {
                Query::Get(get) => get.object == *object,
                Query::List(list) => list.gvk == object.gvk,
                Query::External(_) => true,
                Query::Clock => false,
            })
    }

    /// The primary as the caches show it now.
    pub(super) fn look_for_primary(&self) -> Result<Option<Arc<CachedObject>>, Box<Need>> {
        let depth = primary_depth(&self.taken.plan().spec);
        match self.shared.cluster.get_at(&self.taken.object, depth) {
            Lookup::Found(primary) => Ok(Some(primary)),
            Lookup::Absent => Ok(None),
            Lookup::Unserved | Lookup::NotSynced => Err(need(&self.taken.object, depth)),
        }
    }

    /// Answers the queries that the previous pass put.
    ///
    /// What somebody outside would have to be asked for is left open where the plugin is called anyway, for it asks for
    /// what it needs; and where only objects have changed, none of which the pass rests on.
    async fn answer_in_advance(&mut self) -> Result<(), Box<Need>> {
        // A sweep is for what was missed.
        let doubts = self.taken.resync_due || self.taken.trigger == Trigger::Resync;
        self.answered.reserve(self.taken.learned.len());
        for query in self.taken.learned.iter() {
            let seen = match query.query() {
                Query::External(external) => {
                    if doubts {
                        self.shared.providers.doubt(external);
                    }
                    let Some(answer) = self.shared.providers.standing(external) else {
                        self.left_open.push(Arc::clone(query));
                        continue;
                    };
                    Seen::External(Ok(answer))
                }
                Query::Get(_) | Query::List(_) | Query::Clock => self.answer(query).await?,
            };
            self.answered.push(Answered::new(Arc::clone(query), seen));
        }
        if self.taken.look_outside
            && !self.left_open.is_empty()
            && self.taken.standing(&self.near()).is_some()
        {
            for query in std::mem::take(&mut self.left_open) {
                let seen = self.answer(&query).await?;
                self.answered.push(Answered::new(query, seen));
            }
        }
        self.padded = !self.answered.is_empty();
        Ok(())
    }

    async fn answer(&self, query: &Prepared) -> Result<Seen, Box<Need>> {
        let shared = self.shared;
        match query.query() {
            Query::Clock => Ok(Seen::Time(shared.clock.now().to_string())),
            Query::External(query) => {
                let answer = shared.providers.answer(&self.caller(), query).await;
                Ok(Seen::External(answer.map_err(Failure::cut)))
            }
            Query::Get(_) | Query::List(_) => match look(&shared.cluster, query.query()) {
                Some(Ok(seen)) => Ok(seen),
                Some(Err(need)) => {
                    // Its watch may have been given up since.
                    want(&shared.cluster, &self.taken.loaded.grant, query.query());
                    Err(need)
                }
                None => Ok(Seen::Unserved),
            },
        }
    }

    /// The basis before the plugin is called.
    fn basis_in_advance(&self) -> Basis {
        if self.left_open.is_empty() || self.taken.look_outside {
            return self.basis();
        }
        // Nobody said that anything outside has changed.
        self.taken.standing(&self.near()).unwrap_or_else(|| self.basis())
    }

    fn basis(&self) -> Basis {
        let near = self.near();
        // Most passes ask no provider.
        let asks = self.answered.iter().any(is_external);
        Basis { near, whole: if asks { self.digest(|_| true) } else { near } }
    }

    /// Of what the host knows by itself.
    fn near(&self) -> Digest {
        self.digest(|answered| !is_external(answered))
    }

    fn digest(&self, counts: impl Fn(&Answered) -> bool) -> Digest {
        let plan = self.taken.plan();
        let primary = AnswerHash::object(self.primary.as_deref(), &plan.view);
        let answers = self.answered.iter().filter(|answered| counts(answered));
        let answers = answers.map(|answered| (&*answered.query, answered.hash));
        plan.digester.digest(&self.taken.object, primary, answers)
    }

    // ---- the pass ------------------------------------------------------------------------------------------------

    async fn pass(&mut self) -> Result<Ended, Stop> {
        self.forget_what_may_not_be_told();
        let mut pass = Pass::start(self.request());
        self.notes.asked_first(pass.request());
        loop {
            let reply = self.call(pass.request()).await?;
            match pass.step(reply, &self.shared.limits).map_err(|error| self.stop(error.failure()))? {
                Effect::Observe(queries) => {
                    let observations = self.observe(queries).await?;
                    pass.observed(observations);
                }
                Effect::Perform(actions) => {
                    let performed = self.perform(&actions).await?;
                    pass.performed(performed);
                }
                Effect::Finish(conclusion) => return self.conclude(conclusion).await,
            }
        }
    }

    /// Answers that were learned under another grant are not given; nor are any, once in a while, where some of them
    /// may be to questions that are no longer asked.
    fn forget_what_may_not_be_told(&mut self) {
        let many = self.answered.len() > self.shared.limits.queries_max;
        if many || self.taken.padded_for.is_some_and(|passes| passes >= PASSES_BEFORE_RELEARNING) {
            self.answered.clear();
            self.left_open.clear();
            self.padded = false;
        }
        let grant = &self.taken.loaded.grant;
        self.answered.retain(|answered| grant.allows_query(answered.query.query()).is_ok());
    }

    fn request(&self) -> Request {
        let taken = self.taken;
        let observed = |answered: &Answered| Observation {
            query: answered.query.query().clone(),
            answer: answered.seen.answer(),
        };
        // Another plugin may have all of it watched; this one is shown no more than it asked for.
        let whole = primary_depth(&taken.plan().spec) == Depth::Whole;
        let json = |object: &Arc<CachedObject>| {
            if whole { Arc::clone(object.json()) } else { object.metadata_json() }
        };
        Request {
            controller: taken.plan().spec.name.clone(),
            key: taken.object.clone(),
            primary: self.primary.as_ref().map(json),
            last_seen: taken.last_seen.as_ref().filter(|_| self.primary.is_none()).map(json),
            observations: self.answered.iter().map(observed).collect(),
            performed: vec![],
            last_failure: taken.failure.as_deref().cloned(),
            config: Arc::clone(&taken.loaded.settings.config),
        }
    }

    async fn call(&mut self, request: &Request) -> Result<Reply, Stop> {
        self.counted.calls += 1;
        match self.taken.loaded.guest.reconcile(request).await {
            Ok(GuestReply { outcome: Ok(reply), stats }) => {
                self.notes.replied(self.taken, &reply, stats);
                Ok(reply)
            }
            Ok(GuestReply { outcome: Err(failure), stats }) => {
                let failure = failure.cut();
                self.notes.gave_up(&failure, stats);
                Err(self.stop(failure))
            }
            Err(error) => {
                let error = if shows_secrets(request) { error.without_words() } else { error };
                self.notes.died(&error);
                let mut failed = self.failed(error.failure());
                failed.fault = Some(error);
                Err(Stop::Fail(Box::new(failed)))
            }
        }
    }

    /// Answers what the plugin asks; who asks is noted first, so that no change in between is missed.
    async fn observe(&mut self, queries: Vec<Arc<Prepared>>) -> Result<Vec<Observation>, Stop> {
        let grant = &self.taken.loaded.grant;
        for query in &queries {
            grant.allows_query(query.query()).map_err(|denial| self.denied(&denial))?;
        }
        self.note_dependencies(&queries);
        for query in &queries {
            want(&self.shared.cluster, grant, query.query());
        }
        let mut observations = Vec::with_capacity(queries.len());
        for query in &queries {
            let seen = match self.answer(query).await {
                Ok(seen) => seen,
                Err(need) => {
                    // Run again once it is known, with all of these asked in advance.
                    self.answered
                        .extend(queries.iter().map(|query| Answered::new(Arc::clone(query), Seen::Unserved)));
                    return Err(Stop::Wait(need));
                }
            };
            observations.push(Observation { query: query.query().clone(), answer: seen.answer() });
            self.answered.push(Answered::new(Arc::clone(query), seen));
        }
        self.notes.observed(&observations);
        Ok(observations)
    }

    /// Has changes of all that this pass asks and acts on wake the key from now on.
    pub(super) fn note_dependencies(&self, more: &[Arc<Prepared>]) {
        // What may be asked yet is not to be forgotten by its provider meanwhile.
        let mut queries = self.queries_so_far();
        queries.extend(more.iter().cloned());
        self.shared.state().depend(self.taken, queries, self.extras.clone());
        self.shared.forget_unasked();
    }

    /// Who providers are asked by.
    pub(super) fn caller(&self) -> Caller {
        Caller {
            plugin: self.taken.loaded.name().to_owned(),
            object: self.taken.object.clone(),
            uid: self.primary.as_ref().map(|primary| primary.head().uid.clone()),
        }
    }

    async fn conclude(&mut self, conclusion: Conclusion) -> Result<Ended, Stop> {
        // What the pass saw, before it changes any of it.
        let basis = self.basis();
        self.carry_out(&conclusion.actions, &conclusion.prune).await?;
        let Conclusion { actions: _, prune, requeue_after } = conclusion;
        let timely = self.answered.iter().any(|answered| *answered.query.query() == Query::Clock);
        Ok(Ended::Concluded(Box::new(Concluded {
            basis,
            queries: self.queries(),
            padded: self.padded,
            extras: std::mem::take(&mut self.extras),
            kept: std::mem::take(&mut self.kept),
            made: if prune.is_empty() { BTreeSet::new() } else { std::mem::take(&mut self.made) },
            prune,
            requeue_after,
            timely,
            told: self.taken.failure.is_some(),
            cured: self.cured || self.taken.failure.as_ref().is_some_and(|failure| failure.action.is_none()),
        })))
    }

    // ---- ends ----------------------------------------------------------------------------------------------------

    pub(super) fn queries(&self) -> Vec<Arc<Prepared>> {
        self.answered.iter().map(|answered| Arc::clone(&answered.query)).collect()
    }

    /// What was asked, and what a pass that goes no further did not come to ask.
    fn queries_so_far(&self) -> Vec<Arc<Prepared>> {
        let mut queries = self.queries();
        queries.extend(self.left_open.iter().filter(|open| !self.was_asked(open)).cloned());
        queries
    }

    fn was_asked(&self, query: &Prepared) -> bool {
        self.answered.iter().any(|answered| answered.query.id() == query.id())
    }

    fn failed(&self, failure: Failure) -> Failed {
        let (basis, queries) = (Some(self.basis()), self.queries_so_far());
        Failed { failure, action: None, queries, basis, fault: None, denied: false }
    }

    pub(super) fn stop(&self, failure: Failure) -> Stop {
        Stop::Fail(Box::new(self.failed(failure)))
    }

    pub(super) fn stop_at(&self, action: &Action, failure: Failure) -> Stop {
        Stop::Fail(Box::new(Failed { action: Some(action.clone()), ..self.failed(failure) }))
    }

    pub(super) fn denied(&self, denial: &Denial) -> Stop {
        Stop::Fail(Box::new(Failed { denied: true, ..self.failed(denial.failure()) }))
    }

    pub(super) fn denied_at(&self, action: &Action, denial: &Denial) -> Stop {
        Stop::Fail(Box::new(Failed {
            denied: true,
            action: Some(action.clone()),
            ..self.failed(denial.failure())
        }))
    }

    fn ended(&self, stop: Stop) -> Ended {
        match stop {
            Stop::Wait(need) => Ended::Waiting(Waiting { need, queries: Some(self.queries_so_far()) }),
            Stop::Stale => Ended::Stale { queries: self.queries_so_far() },
            Stop::Slowed => Ended::Slowed,
            Stop::Fail(failed) => Ended::Failed(failed),
        }
    }
}

/// Whether an answer came from a provider.
fn is_external(answered: &Answered) -> bool {
    matches!(answered.seen, Seen::External(_))
}
