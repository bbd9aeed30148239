//! From questions and operations to calls of the driver, and from what it says to answers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use evenkeel_core::contract::{ExternalQuery, Failure, FailureKind, Json, Operation};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::call::{self, Call, Collect, ListCall, Whose};
use super::driver::{Driver, DriverError, Progress};
use super::ledger::Ledger;
use super::orphans::Orphans;
use super::tokens::Tokens;
use crate::changes::Changes;
use crate::provider::{Caller, Provider, ProviderFuture};

/// The questions, then the operations.
const CALLS: &[&str] =
    &["status", "list", "operations", "create", "initialize", "delete", "collect", "token"];

/// How old a list of VMs may be: every machine that comes or goes has it asked for.
const LIST_AGE_MAX: Duration = Duration::from_secs(60);

/// The provider `machine` on a driver.
pub struct MachineProvider<D> {
    driver: D,
    ledger: Ledger,
    orphans: Orphans,
    tokens: Tokens,
    told: Arc<Told>,
    /// What was listed a moment ago, by the arguments.
    lists: Mutex<BTreeMap<Json, Listed>>,
}

/// When VMs were listed, and which.
type Listed = (Instant, BTreeMap<String, String>);

/// What is told to the host.
#[derive(Default)]
struct Told {
    changes: Changes,
    /// Questions whose answers somebody waits for, by the machines' UIDs; "" where they are about no machine.
    waited_for: Mutex<BTreeMap<String, BTreeSet<ExternalQuery>>>,
}

impl Told {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, BTreeSet<ExternalQuery>>> {
        self.waited_for.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A machine's status may be another one now.
    fn tell(&self, uid: &str) {
        self.lock().get(uid).into_iter().flatten().for_each(|query| self.changes.tell(query.clone()));
    }

    /// Nobody waits for a question any more; tells of which machine nobody waits for any.
    fn forget(&self, query: &ExternalQuery) -> Option<String> {
        let mut waited_for = self.lock();
        let uid = call::uid(&query.arguments);
        let queries = waited_for.get_mut(&uid)?;
        queries.remove(query);
        queries.is_empty().then(|| waited_for.remove(&uid)).flatten().map(|_| uid)
    }
}

impl<D: Driver> MachineProvider<D> {
    /// On this driver, with nothing known of earlier operations.
    pub fn new(driver: D) -> Self {
        let told = Arc::new(Told::default());
        let teller = Arc::clone(&told);
        driver.tells(Arc::new(move |uid| teller.tell(uid)));
        Self {
            driver,
            ledger: Ledger::default(),
            orphans: Orphans::default(),
            tokens: Tokens::random(),
            told,
            lists: Mutex::default(),
        }
    }

    /// With tokens that are the same in each run: where nobody joins with them.
    pub(super) fn with_counted_tokens(mut self) -> Self {
        self.tokens = Tokens::counted();
        self
    }

    /// With another shortest time than a minute between the first sight of an orphan and its end, for tests in real time.
    pub fn with_orphan_wait_min(mut self, wait: Duration) -> Self {
        self.orphans.wait_min = wait;
        self
    }

    /// Something has happened at the far end: every question that somebody waits for may be answered otherwise.
    pub(super) fn changed(&self) {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let waited_for = self.told.lock();
        waited_for.values().flatten().for_each(|query| self.told.changes.tell(query.clone()));
    }

    /// The driver.
    pub fn driver(&self) -> &D {
        &self.driver
    }

    /// As if these operations had been given before.
    pub(super) fn know(&self, uid: &str, key: &str) {
        self.ledger.begin(uid, key);
    }

    async fn ask(&self, query: &ExternalQuery) -> Result<Json, Failure> {
        let answer =
            match &*query.question {
                "status" => {
                    let call: Call = call::read("status", &query.arguments)?;
                    answer(self.driver.status(&call).await)
                }
                "list" => {
                    let call: ListCall = call::read("list", &query.arguments)?;
                    let suspected = self.orphans.of(&call.class.uid);
                    let listed = self.list(query, &call).await;
                    answer(listed.map(|machines| {
                        Progress::Done(json!({"machines": machines, "suspected": suspected}))
                    }))
                }
                "operations" => {
                    let whose: Whose = call::read("operations", &query.arguments)?;
                    json!({"operations": self.ledger.keys(&whose.uid)})
                }
                other => return Err(unknown("question", other)),
            };
        Ok(answer.to_string().into())
    }

    /// The VMs of a class; what was listed a moment ago is listed so still.
    async fn list(
        &self,
        query: &ExternalQuery,
        call: &ListCall,
    ) -> Result<BTreeMap<String, String>, DriverError> {
        let lists = || self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        let age_max = LIST_AGE_MAX.min(self.orphans.wait_min);
        let is_young = |listed: &Instant| listed.elapsed() < age_max;
        if let Some((_, machines)) = lists().get(&query.arguments).filter(|(listed, _)| is_young(listed)) {
            return Ok(machines.clone());
        }
        let machines = self.driver.list(call).await?;
        let mut lists = lists();
        lists.retain(|_, (listed, _)| is_young(listed));
        lists.insert(query.arguments.clone(), (Instant::now(), machines.clone()));
        Ok(machines)
    }

    async fn act(&self, caller: &Caller, operation: &Operation) -> Result<Option<Json>, Failure> {
        let answer = match &*operation.operation {
            name @ ("create" | "initialize" | "delete") => self.operate(name, operation).await?,
            "collect" => self.collect(caller, &call::read("collect", &operation.arguments)?).await,
            // Not remembered under its key: the plugin keeps it in a Secret, and another one does no harm.
            "token" => {
                let _: Whose = call::read("token", &operation.arguments)?;
                json!({"token": self.tokens.draw()?})
            }
            other => return Err(unknown("operation", other)),
        };
        Ok(Some(answer.to_string().into()))
    }

    async fn operate(&self, name: &str, operation: &Operation) -> Result<Value, Failure> {
        let call: Call = call::read(name, &operation.arguments)?;
        let uid = &call.machine.uid;
        if uid.is_empty() {
            return Err(Failure::new(FailureKind::Invalid, format!("{name} is told no UID")));
        }
        let turn = self.ledger.begin(uid, &operation.key);
        // Deletion and creation of one machine never run at once.
        let _alone = turn.lock().await;
        Ok(match name {
            "create" => answer(self.driver.create(&call).await),
            "initialize" => answer(self.driver.initialize(&call).await),
            _ => {
                let outcome = self.driver.delete(&call).await;
                if matches!(outcome, Ok(Progress::Done(_))) {
                    self.ledger.end(uid);
                }
                answer(outcome.map(|progress| match progress {
                    Progress::Done(state) => {
                        Progress::Done(json!({"lastKnownState": state.unwrap_or_default()}))
                    }
                    Progress::UnderWay(under_way) => Progress::UnderWay(under_way),
                }))
            }
        })
    }

    /// Has VMs deleted that no machine owns. One is deleted only when it was told of before, a whole wait ago, and in every
    /// call since.
    async fn collect(&self, caller: &Caller, collect: &Collect) -> Value {
        let class = &collect.class.uid;
        let ids = collect.orphans.keys().collect();
        let seen = self.orphans.seen(class, &ids, Duration::from_secs(collect.wait_seconds));
        let namespace = caller.object.namespace.as_deref().unwrap_or_default();
        let mut said = Vec::new();
        for (id, (left, suspect)) in seen {
            if !left.is_zero() {
                said.push(json!({"providerID": id, "state": "waits", "seconds": left.as_secs().max(1)}));
                continue;
            }
            let machine = collect.orphans.get(&id).cloned().unwrap_or_default();
            let call = collect.deletion(namespace, &id, &machine, suspect.last_known_state);
            said.push(match self.driver.delete(&call).await {
                Ok(Progress::Done(_)) => {
                    self.orphans.gone(class, &id);
                    json!({"providerID": id, "state": "deleted"})
                }
                Ok(Progress::UnderWay(under_way)) => {
                    self.orphans.note(class, &id, under_way.last_known_state);
                    json!({"providerID": id, "state": "going"})
                }
                Err(error) => {
                    self.orphans.note(class, &id, error.last_known_state.clone());
                    json!({"providerID": id, "state": "failed", "message": error.to_string()})
                }
            });
        }
        self.lists.lock().unwrap_or_else(PoisonError::into_inner).clear();
        json!({"result": "done", "orphans": said})
    }
}

impl<D: Driver> Provider for MachineProvider<D> {
    fn answer<'a>(&'a self, _: &'a Caller, query: &'a ExternalQuery) -> ProviderFuture<'a, Json> {
        self.told.lock().entry(call::uid(&query.arguments)).or_default().insert(query.clone());
        Box::pin(self.ask(query))
    }

    fn perform<'a>(
        &'a self,
        caller: &'a Caller,
        operation: &'a Operation,
    ) -> ProviderFuture<'a, Option<Json>> {
        Box::pin(self.act(caller, operation))
    }

    fn changes(&self) -> Option<&Changes> {
        Some(&self.told.changes)
    }

    fn forget(&self, query: &ExternalQuery) {
        if let Some(uid) = self.told.forget(query) {
            self.driver.forget(&uid);
        }
    }

    fn calls(&self) -> &'static [&'static str] {
        CALLS
    }

    fn is_trouble(&self, answer: &str) -> bool {
        serde_json::from_str::<Value>(answer).is_ok_and(|answer| answer["result"] == "failed")
    }
}

fn unknown(what: &str, name: &str) -> Failure {
    let name: String = name.chars().take(64).collect();
    Failure::new(FailureKind::Invalid, format!("the provider machine has no {what} {name:?}"))
}

/// What the driver said, in the words of the seam.
fn answer<T: Serialize>(outcome: Result<Progress<T>, DriverError>) -> Value {
    let said = |result: &str, fields: serde_json::Result<Value>| match fields {
        Ok(Value::Object(mut fields)) => {
            fields.insert("result".to_owned(), result.into());
            Value::Object(fields)
        }
        // What a driver says serializes to an object.
        Ok(_) | Err(_) => json!({"result": result}),
    };
    match outcome {
        Ok(Progress::Done(done)) => said("done", serde_json::to_value(done)),
        Ok(Progress::UnderWay(under_way)) => said("under-way", serde_json::to_value(under_way)),
        Err(error) => {
            let mut answer = json!({
                "result": "failed",
                "code": error.code.to_string(),
                "kind": kind(error.code.kind()),
                "message": error.to_string(),
            });
            if let Some(seconds) = error.code.retry_after_seconds() {
                answer["retryAfterSeconds"] = seconds.into();
            }
            if let Some(state) = error.last_known_state {
                answer["lastKnownState"] = state.into();
            }
            answer
        }
    }
}

fn kind(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::Transient => "transient",
        FailureKind::Invalid => "invalid",
        FailureKind::Denied => "denied",
        FailureKind::Conflict => "conflict",
        FailureKind::NotFound => "not-found",
    }
}
