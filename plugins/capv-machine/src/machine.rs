//! One pass of a machine: what is in the way, its task, its VM, and which way it goes from there.

use std::time::Duration;

use evenkeel_sdk::{Action, Conclusion, ConditionStatus, Failure, FailureKind, Pass, Stop, act};
use jiff::Timestamp;

use crate::api::{Operation, PowerOffMode, VSphereMachine, VSphereMachineStatus};
use crate::config::Config;
use crate::draft::Draft;
use crate::gate::{Gate, gate};
use crate::identity::Identity;
use crate::lookup::{Found, find};
use crate::reasons::{self, condition};
use crate::seam::{self, TaskAnswer, Why};
use crate::task::{self, Verdict, judge};
use crate::timing::{PERSON, SLOW, time, until};
use crate::validity::{Invalid, invalid};

/// What is read of a machine. Of its status only what it has to remember: what it tells runs no pass.
pub const VIEW: &[&str] = &[
    "/metadata/uid",
    "/metadata/generation",
    "/metadata/deletionTimestamp",
    "/metadata/finalizers",
    "/metadata/annotations/cluster.x-k8s.io~1paused",
    "/metadata/annotations/capv.infrastructure.reconcilers.dev~1maintenance",
    "/metadata/annotations/reconcilers.dev~1recreate-missing-vm",
    "/spec",
    "/status/machineRef",
    "/status/instanceUUID",
    "/status/biosUUID",
    "/status/taskRef",
    "/status/task",
    "/status/retryAfter",
    "/status/retry",
    "/status/nameTakenSince",
    "/status/guestShutdownAt",
    "/status/failureReason",
];

/// A pass under way.
pub struct Turn<'p> {
    /// What is asked and answered.
    pub pass: &'p Pass,
    /// The object.
    pub machine: &'p VSphereMachine,
    /// Which machine it is.
    pub id: &'p Identity,
    /// The operator's settings.
    pub config: &'p Config,
    /// The pass's time.
    pub now: Timestamp,
    /// Whether the object is being deleted.
    pub is_deleting: bool,
}

/// Bring a machine's VM about, or take it away, one step a pass.
pub fn reconcile(pass: &Pass) -> Result<Conclusion, Stop> {
    let Some(machine) = pass.primary::<VSphereMachine>()? else { return Ok(Conclusion::new()) };
    let id = Identity::of(&machine);
    let config: Config = pass.config()?;
    let is_deleting = machine.metadata.deletion_timestamp.is_some();
    let now = match gate(&machine) {
        Gate::Ignore => return Ok(Conclusion::new()),
        Gate::Finalize => {
            return Ok(Conclusion::new().with(act::add_finalizer(id.reference(), crate::names::FINALIZER)));
        }
        Gate::Pause | Gate::Go => pass.now()?,
    };
    let mut draft = Draft::over(&machine, &id, now);
    if gate(&machine) == Gate::Pause {
        draft.set(
            condition::PAUSED,
            ConditionStatus::True,
            reasons::PAUSED,
            "nothing is done about the machine",
        );
        return Ok(draft.end(None));
    }
    draft.set(condition::PAUSED, ConditionStatus::False, reasons::NOT_PAUSED, "");
    Turn { pass, machine: &machine, id: &id, config: &config, now, is_deleting }.run(&mut draft)
}

impl Turn<'_> {
    fn run(&self, draft: &mut Draft<'_>) -> Result<Conclusion, Stop> {
        if self.is_deleting {
            draft.deletes("");
        }
        if let Some(wait) = held(&draft.status, self.now, self.is_deleting) {
            self.keep_condition(draft);
            return Ok(draft.end(Some(wait)));
        }
        draft.status.retry_after = None;
        if !self.config.allows(&self.machine.spec.server) {
            let message = format!("vCenter {} is not for this plugin", self.machine.spec.server);
            // Other settings or another spec run it again; time alone does not help.
            let failure = Failure { kind: FailureKind::Invalid, message: message.clone(), retry_after: None };
            return Err(
                self.fail(draft, &Why { reason: "Denied".to_owned(), message, failure: Some(failure) })
            );
        }
        if let Some(end) = self.settle(draft)? {
            return Ok(end);
        }
        if !self.is_deleting
            && let Some(wrong) = invalid(&self.machine.spec)
        {
            return Ok(self.refuse(draft, wrong));
        }
        let machine_ref = draft.status.machine_ref.clone();
        match find(self.pass, &self.machine.spec, self.id, machine_ref.as_deref(), self.is_deleting)? {
            Found::Unknown(why) => Err(self.fail(draft, &why)),
            found => {
                draft.set(condition::VCENTER, ConditionStatus::True, reasons::AVAILABLE, "");
                self.go_on(draft, found)
            }
        }
    }

    fn go_on(&self, draft: &mut Draft<'_>, found: Found) -> Result<Conclusion, Stop> {
        match found {
            Found::Vm { vm, watched } => {
                self.adopt(draft, &vm.vm);
                if self.is_deleting {
                    self.remove(draft, &vm, watched)
                } else {
                    self.provision(draft, &vm, watched)
                }
            }
            Found::Absent | Found::Lost if self.is_deleting => {
                draft.status.machine_ref = None;
                self.release(draft)
            }
            Found::Absent => {
                if draft.status.machine_ref.take().is_some() {
                    draft.warn(
                        reasons::event::VM_GONE,
                        "the VM is gone before it was ready: it is cloned anew",
                    );
                }
                self.clone_vm(draft)
            }
            Found::Lost => self.miss(draft),
            Found::Inaccessible { watched } => {
                self.say(draft, reasons::VM_INACCESSIBLE, "vCenter cannot read the VM's configuration");
                Ok(draft.end(poll(watched, SLOW)))
            }
            Found::Ambiguous(vms) => {
                let message = match vms.as_slice() {
                    [vm] => format!("{vm} was found by the machine's UUID and is another one's"),
                    vms => {
                        format!("{} have the machine's UUID, and not one of them its marker", vms.join(", "))
                    }
                };
                self.say(draft, reasons::AMBIGUOUS_VM, &message);
                Ok(draft.end(Some(PERSON)))
            }
            Found::Unknown(why) => Err(self.fail(draft, &why)),
        }
    }

    /// The task, if there is one: whether the pass ends with it.
    fn settle(&self, draft: &mut Draft<'_>) -> Result<Option<Conclusion>, Stop> {
        let Some(task_ref) = draft.status.task_ref.clone() else { return Ok(None) };
        let question = serde_json::json!({"server": self.machine.spec.server, "task": task_ref});
        let answer: TaskAnswer = seam::ask(self.pass, "task", &question)?;
        let verdict = judge(draft.status.task.as_ref(), &answer, self.now, self.config);
        if !matches!(verdict, Verdict::Unknown(_)) {
            draft.set(condition::VCENTER, ConditionStatus::True, reasons::AVAILABLE, "");
        }
        let operation = draft.status.task.as_ref().map(|task| task.operation);
        match verdict {
            Verdict::Unknown(why) => return Err(self.fail(draft, &why)),
            Verdict::Strange(state) => {
                draft.set(condition::VCENTER, ConditionStatus::True, reasons::AVAILABLE, "");
                let message = format!("{task_ref} is in the state {state:?}, which nobody knows");
                self.say(draft, reasons::TASK_STATE_UNKNOWN, &message);
                let why = Why { reason: "Fault".to_owned(), message, failure: None };
                return Err(draft.retry_later(self.pass, &why));
            }
            Verdict::Wait { again_after, is_long } => {
                self.wait_for_task(draft, &task_ref, operation, is_long);
                return Ok(Some(draft.end(again_after)));
            }
            Verdict::Succeeded { vm } => {
                draft.status.retry = None;
                draft.status.machine_ref = vm.or_else(|| draft.status.machine_ref.take());
            }
            Verdict::Forgotten => {
                if self.is_deleting && operation == Some(Operation::Clone) {
                    // Whether it made a VM is looked up, and its name is watched for one that is still to come.
                    draft.status.task_ref = None;
                    return Ok(None);
                }
            }
            Verdict::Failed(failure) => {
                draft.status.task_ref = None;
                draft.status.task = None;
                return Ok(self.failed(draft, operation, failure));
            }
        }
        draft.status.task_ref = None;
        draft.status.task = None;
        Ok(None)
    }

    fn wait_for_task(
        &self,
        draft: &mut Draft<'_>,
        task_ref: &str,
        operation: Option<Operation>,
        is_long: bool,
    ) {
        let operation = operation.map_or("Task", Operation::as_str);
        if is_long {
            let message = format!("{operation} takes long: {task_ref} is still in flight");
            if self.is_deleting {
                if !draft.said(condition::PROVISIONED, reasons::DELETING, &message) {
                    draft.warn(reasons::TASK_TAKES_LONG, &message);
                }
                draft.deletes(&message);
            } else {
                draft.is_stuck(reasons::TASK_TAKES_LONG, &message);
            }
        } else if self.is_deleting {
            // Whoever started it has said more of it.
            let said = draft.old(condition::PROVISIONED).filter(|old| old.reason == reasons::DELETING);
            let message = said.map(|old| old.message.clone()).filter(|message| !message.is_empty());
            draft.deletes(&message.unwrap_or_else(|| format!("{operation} is in flight")));
        }
    }

    /// What a failed operation leads to: whether the pass ends with it.
    pub fn failed(
        &self,
        draft: &mut Draft<'_>,
        operation: Option<Operation>,
        failure: task::Failure,
    ) -> Option<Conclusion> {
        let operation = operation.unwrap_or(Operation::Reconfigure);
        let before = draft.status.retry.as_ref().filter(|retry| retry.operation == operation);
        let before = before.map_or(0, |retry| retry.failures);
        match failure {
            task::Failure::Forgiven => {
                draft.status.retry = None;
                None
            }
            task::Failure::NameTaken => {
                draft.status.name_taken_since.get_or_insert(evenkeel_sdk::rfc3339(self.now));
                draft.name_taken_now = true;
                None
            }
            task::Failure::Busy => Some(self.retry(draft, operation, before, crate::timing::BUSY)),
            task::Failure::Real(message) => {
                draft.warn(reasons::TASK_FAILED, &message);
                if self.is_deleting && !matches!(operation, Operation::Destroy | Operation::PowerOff) {
                    // Nothing that has to be right before the VM goes.
                    return None;
                }
                self.say_quietly(draft, reasons::TASK_FAILED, &message);
                let failures = before.saturating_add(1);
                Some(self.retry(draft, operation, failures, self.config.back_off(failures)))
            }
        }
    }

    fn retry(
        &self,
        draft: &mut Draft<'_>,
        operation: Operation,
        failures: u32,
        wait: Duration,
    ) -> Conclusion {
        draft.status.retry = Some(crate::api::Retry { operation, failures });
        draft.status.retry_after = Some(evenkeel_sdk::rfc3339(crate::timing::after(self.now, wait)));
        draft.end(Some(wait))
    }

    fn refuse(&self, draft: &mut Draft<'_>, wrong: Invalid) -> Conclusion {
        match wrong {
            Invalid::ForGood(message) => self.fail_for_good(draft, &message),
            Invalid::UntilEdited(message) => {
                draft.is_stuck(reasons::NOT_PROVISIONED, &message);
                draft.end(None)
            }
        }
    }

    /// Gives the machine up: no retry can put right what its spec asks for.
    pub fn fail_for_good(&self, draft: &mut Draft<'_>, message: &str) -> Conclusion {
        draft.status.failure_reason = Some(reasons::INVALID_CONFIGURATION.to_owned());
        draft.status.failure_message = Some(evenkeel_sdk::clean_message(message));
        draft.is_stuck(reasons::NOT_PROVISIONED, message);
        draft.end(None)
    }

    /// Says what the machine waits for; one that goes away keeps saying that it does.
    pub fn say(&self, draft: &mut Draft<'_>, reason: &str, message: &str) {
        if self.is_deleting {
            draft.is_stuck_as(reasons::DELETING, reason, message)
        } else {
            draft.is_stuck(reason, message)
        }
    }

    fn say_quietly(&self, draft: &mut Draft<'_>, reason: &str, message: &str) {
        if self.is_deleting { draft.deletes(message) } else { draft.waits(reason, message) }
    }

    /// While something is waited for, the machine goes on saying what it said.
    fn keep_condition(&self, draft: &mut Draft<'_>) {
        let said = draft.old(condition::PROVISIONED).filter(|old| old.reason == reasons::DELETING);
        if let Some(message) = said.filter(|_| self.is_deleting).map(|old| old.message.clone()) {
            draft.deletes(&message);
        }
    }

    /// Ends a pass that could not learn what it has to know.
    pub fn fail(&self, draft: &mut Draft<'_>, why: &Why) -> Stop {
        draft.fail(self.pass, why)
    }

    /// The VM is this machine's: its id is kept.
    fn adopt(&self, draft: &mut Draft<'_>, vm: &str) {
        let status = &mut draft.status;
        let was = status.machine_ref.replace(vm.to_owned());
        status.name_taken_since = None;
        if status.task.as_ref().is_some_and(|task| task.operation == Operation::Clone) {
            // One that was asked for, and whose task was never noted, has come to something.
            status.task = None;
            count(status);
        }
        if was.as_deref().is_some_and(|was| was != vm) {
            draft.tell(reasons::event::VM_FOUND, &format!("the VM is {vm} now"));
        }
    }

    /// How its VM is switched off.
    pub fn power_off_mode(&self) -> PowerOffMode {
        self.machine.spec.power_off_mode.unwrap_or_default()
    }
}

/// Counts an operation that came to something, so that the next one is another.
pub fn count(status: &mut VSphereMachineStatus) {
    status.operations = Some(status.operations.unwrap_or_default().saturating_add(1));
}

/// When to look again; not at all where a change wakes the machine.
pub fn poll(watched: bool, wait: Duration) -> Option<Duration> {
    (!watched).then_some(wait)
}

/// How long nothing is tried yet, after a failure. A machine that goes waits only for what its end needs.
fn held(status: &VSphereMachineStatus, now: Timestamp, is_deleting: bool) -> Option<Duration> {
    let wait = until(time(status.retry_after.as_deref())?, now)?;
    let operation = status.retry.as_ref().map(|retry| retry.operation);
    let counts = !is_deleting || matches!(operation, Some(Operation::Destroy | Operation::PowerOff));
    counts.then_some(wait)
}

/// Removes this controller's finalizer: the machine's object goes.
pub fn let_go(id: &Identity) -> Action {
    act::remove_finalizer(id.reference(), crate::names::FINALIZER)
}
