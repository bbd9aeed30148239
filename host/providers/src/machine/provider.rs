//! From questions and operations to calls of the driver, and from what it says to answers.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use evenkeel_core::contract::{ExternalQuery, Failure, FailureKind, Json, Operation};
use serde::Serialize;
use serde_json::{Value, json};

use super::call::{self, Call, ListCall, Whose};
use super::driver::{Driver, DriverError};
use super::ledger::Ledger;
use crate::changes::Changes;
use crate::provider::{Caller, Provider, ProviderFuture};

/// The questions, then the operations.
const CALLS: &[&str] = &["status", "list", "operations", "create", "initialize", "delete"];

/// The provider `machine` on a driver.
pub struct MachineProvider<D> {
    driver: D,
    ledger: Ledger,
    told: Option<Told>,
}

/// What is told where the driver's far end says when something has happened to it.
#[derive(Default)]
struct Told {
    changes: Changes,
    /// Questions whose answers somebody waits for.
    waited_for: Mutex<BTreeSet<ExternalQuery>>,
}

impl<D: Driver> MachineProvider<D> {
    /// On this driver, with nothing known of earlier operations.
    pub fn new(driver: D) -> Self {
        Self { driver, ledger: Ledger::default(), told: None }
    }

    /// The same on a far end that says when something has happened to it: see [`MachineProvider::changed`].
    pub(super) fn telling(driver: D) -> Self {
        Self { told: Some(Told::default()), ..Self::new(driver) }
    }

    /// Something has happened at the far end: every question that somebody waits for may be answered otherwise.
    pub(super) fn changed(&self) {
        let Some(Told { changes, waited_for }) = &self.told else { return };
        let waited_for = waited_for.lock().unwrap_or_else(PoisonError::into_inner);
        waited_for.iter().for_each(|query| changes.tell(query.clone()));
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
        let answer = match &*query.question {
            "status" => {
                let call: Call = call::read("status", &query.arguments)?;
                answer(self.driver.status(&call).await)
            }
            "list" => {
                let call: ListCall = call::read("list", &query.arguments)?;
                answer(self.driver.list(&call).await.map(|machines| json!({"machines": machines})))
            }
            "operations" => {
                let whose: Whose = call::read("operations", &query.arguments)?;
                json!({"operations": self.ledger.keys(&whose.uid)})
            }
            other => return Err(unknown("question", other)),
        };
        Ok(answer.to_string().into())
    }

    async fn act(&self, operation: &Operation) -> Result<Option<Json>, Failure> {
        let name = &*operation.operation;
        if !matches!(name, "create" | "initialize" | "delete") {
            return Err(unknown("operation", name));
        }
        let call: Call = call::read(name, &operation.arguments)?;
        let uid = &call.machine.uid;
        let turn = self.ledger.begin(uid, &operation.key);
        // Deletion and creation of one machine never run at once.
        let _alone = turn.lock().await;
        let answer = match name {
            "create" => answer(self.driver.create(&call).await),
            "initialize" => answer(self.driver.initialize(&call).await),
            _ => {
                let outcome = self.driver.delete(&call).await;
                if outcome.is_ok() {
                    self.ledger.end(uid);
                }
                answer(outcome.map(|state| json!({"lastKnownState": state.unwrap_or_default()})))
            }
        };
        Ok(Some(answer.to_string().into()))
    }
}

impl<D: Driver> Provider for MachineProvider<D> {
    fn answer<'a>(&'a self, _: &'a Caller, query: &'a ExternalQuery) -> ProviderFuture<'a, Json> {
        if let Some(Told { waited_for, changes: _ }) = &self.told {
            waited_for.lock().unwrap_or_else(PoisonError::into_inner).insert(query.clone());
        }
        Box::pin(self.ask(query))
    }

    fn perform<'a>(&'a self, _: &'a Caller, operation: &'a Operation) -> ProviderFuture<'a, Option<Json>> {
        Box::pin(self.act(operation))
    }

    fn changes(&self) -> Option<&Changes> {
        self.told.as_ref().map(|told| &told.changes)
    }

    fn forget(&self, query: &ExternalQuery) {
        if let Some(Told { waited_for, changes: _ }) = &self.told {
            waited_for.lock().unwrap_or_else(PoisonError::into_inner).remove(query);
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
fn answer<T: Serialize>(outcome: Result<T, DriverError>) -> Value {
    match outcome.map(|done| serde_json::to_value(done)) {
        Ok(Ok(Value::Object(mut fields))) => {
            fields.insert("result".to_owned(), "done".into());
            Value::Object(fields)
        }
        // What a driver says serializes to an object.
        Ok(Ok(_) | Err(_)) => json!({"result": "done"}),
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
