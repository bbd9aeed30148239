//! From a Machine without a VM to one that waits for its Node.

use std::ops::ControlFlow;
use std::time::Duration;

use evenkeel_sdk::{Conclusion, Meta, Pass, Stop};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node as CoreNode;

use super::content::Content;
use super::driver::{Call, Class, DriverError, Outcome, UnderWay, Vm};
use super::gate::{self, Refusal};
use super::owned::Owned;
use super::preservation::{self, Keeping};
use super::status::{Draft, Operation, State};
use super::token::{self, Standing};
use super::user_data;
use crate::config::Config;
use crate::duration::GoDuration;
use crate::kinds::{Machine, Named};
use crate::{names, orphans};

/// Upstream's medium retry: a VM that has no name yet is asked about again.
const NAMELESS_RETRY: Duration = Duration::from_secs(180);
/// How long a machine may take to join unless it says otherwise.
pub(super) const CREATION_TIMEOUT: GoDuration = GoDuration::seconds(20 * 60);

/// Find the machine's VM, or have one made.
pub fn reconcile(pass: &Pass, machine: &Machine, config: &Config) -> Result<Conclusion, Stop> {
    let now = pass.clock();
    let content = Content::read(pass, machine)?;
    let now = now.read()?;
    let content = match gate::may_have_vm(machine, content.as_ref(), config) {
        Ok(content) => content,
        Err(refusal) => return refuse(pass, machine, config, &refusal, now),
    };
    let making = Making { pass, machine, config, now, content, call: Call::of(machine, content) };
    match making.call.status(pass)? {
        Outcome::Done(vm) => making.adopt(vm, None),
        Outcome::UnderWay(it) => Ok(making.waits(&it)),
        Outcome::Failed(error) if matches!(error.class(), Class::NotFound | Class::Unimplemented) => {
            if machine.spec.provider_id.is_empty() {
                making.make()
            } else {
                making.adopt(known(machine), None)
            }
        }
        Outcome::Failed(error) => Ok(making.failed(&error)),
    }
}

/// What the machine itself says of its VM.
fn known(machine: &Machine) -> Vm {
    Vm {
        provider_id: machine.spec.provider_id.clone(),
        node_name: machine.node().unwrap_or_default().to_owned(),
        ..Vm::default()
    }
}

/// Says why there is no VM. What only a change of the input can help fails the pass as invalid.
fn refuse(
    pass: &Pass,
    machine: &Machine,
    config: &Config,
    refusal: &Refusal,
    now: Timestamp,
) -> Result<Conclusion, Stop> {
    let mut draft = Draft::over(machine, now);
    draft.operation(Operation::Create, State::Failed, "", &refusal.message());
    let status = draft.into_action();
    if refusal.is_invalid() {
        pass.perform(vec![status])?;
        return Err(Stop::invalid(refusal.message()));
    }
    let mut end = Conclusion::new().with(status);
    end.extend(refusal.actions(machine));
    Ok(match refusal.again_after(config) {
        Some(wait) => end.requeue_after(wait),
        None => end,
    })
}

/// A VM in the making.
struct Making<'a> {
    pass: &'a Pass,
    machine: &'a Machine,
    config: &'a Config,
    now: Timestamp,
    content: &'a Content,
    call: Call<'a>,
}

impl<'a> Making<'a> {
    fn make(&self) -> Result<Conclusion, Stop> {
        let telling = match self.telling()? {
            ControlFlow::Continue(call) => call,
            ControlFlow::Break(end) => return Ok(end),
        };
        let vm = match telling.create(self.pass)? {
            Outcome::Done(vm) => vm,
            Outcome::UnderWay(it) => return Ok(self.waits(&it)),
            Outcome::Failed(error) => return Ok(self.failed(&error)),
        };
        if self.config.nodes && !vm.node_name.is_empty() && vm.node_name != self.machine.name() {
            // A VM that joins under the name of a Node that is there would inherit the identity of a dead one.
            let stale = self.pass.get::<Meta<CoreNode>>(vm.node_name.as_str()).read()?;
            if stale.is_some() {
                return self.give_up_stale(&vm.node_name);
            }
        }
        self.adopt(vm, Some(&telling))
    }

    /// The call with all that a VM is told when it is made, a token to join with where its user data asks for one; or what
    /// comes first.
    fn telling(&self) -> Result<ControlFlow<Conclusion, Call<'a>>, Stop> {
        if !user_data::wants_token(&self.content.secret_data) {
            return Ok(ControlFlow::Continue(Call::of(self.machine, self.content)));
        }
        Ok(match token::ensure(self.pass, self.machine, self.config, self.now)? {
            Standing::Ready(token) => {
                ControlFlow::Continue(Call::joining_with(self.machine, self.content, &token))
            }
            // The change runs the next pass, here and below.
            Standing::ToBeNoted(id) => {
                ControlFlow::Break(Conclusion::from(Owned::of(self.machine).token(&id).into_action()))
            }
            Standing::ToBeMade(actions) => {
                let mut end = Conclusion::new();
                end.extend(actions);
                ControlFlow::Break(end.requeue_after(self.config.short_retry.0))
            }
            Standing::Taken(name) => {
                let refusal = Refusal::TokenTaken(name);
                ControlFlow::Break(refuse(self.pass, self.machine, self.config, &refusal, self.now)?)
            }
        })
    }

    fn give_up_stale(&self, node: &str) -> Result<Conclusion, Stop> {
        if let Outcome::Failed(error) = self.call.delete(self.pass)?
            && error.class() != Class::NotFound
        {
            return Ok(self.failed(&error));
        }
        let mut draft = Draft::over(self.machine, self.now);
        self.give_up(&mut draft);
        let message = format!("VM uses an old node object: Node {node} was there before the VM");
        draft.operation(Operation::Create, State::Failed, "", &message);
        Ok(Conclusion::from(draft.into_action()).requeue_after(self.config.long_retry.0))
    }

    /// Takes the VM for the machine's own, and has it initialised where that is due; `made` is the call that made it just
    /// now, if one did.
    fn adopt(&self, vm: Vm, made: Option<&Call<'_>>) -> Result<Conclusion, Stop> {
        if vm.provider_id.is_empty() || (vm.node_name.is_empty() && self.config.nodes) {
            let mut draft = Draft::over(self.machine, self.now);
            let message = "the VM has no name yet: it is asked about again";
            draft.operation(Operation::Create, State::Processing, "", message);
            return Ok(Conclusion::from(draft.into_action()).requeue_after(NAMELESS_RETRY));
        }
        let initialized = match made {
            Some(call) => self.initialize(&vm, call)?,
            None if vm.uninitialized => match self.telling()? {
                ControlFlow::Continue(call) => self.initialize(&vm, &call)?,
                ControlFlow::Break(first) => ControlFlow::Break(first),
            },
            None => ControlFlow::Continue(()),
        };
        if let ControlFlow::Break(end) = initialized {
            return Ok(end);
        }
        let mut draft = Draft::over(self.machine, self.now);
        draft.last_known_state(vm.last_known_state.clone());
        if self.config.nodes {
            draft.phase("Pending", true);
            let message = format!("Creating machine {} on the provider", self.machine.name());
            draft.operation(Operation::Create, State::Processing, "", &message);
        } else {
            draft.phase("Available", false);
            let message = format!("Created machine {} on the provider", self.machine.name());
            draft.operation(Operation::Create, State::Successful, "", &message);
            draft.fields().addresses.clone_from(&vm.addresses);
        }
        // What binds the machine to its VM first: should the rest be lost, it is found again.
        Ok(Conclusion::new()
            .with(self.owned(&vm).into_action())
            .with(draft.into_action())
            .requeue_after(self.config.short_retry.0))
    }

    /// Has the VM initialised; what there is to conclude where that has not come to its end.
    fn initialize(&self, vm: &Vm, call: &Call<'_>) -> Result<ControlFlow<Conclusion>, Stop> {
        let attempt = Owned::of(self.machine).attempt();
        Ok(match call.initialize(self.pass, attempt)? {
            Outcome::Done(_) => ControlFlow::Continue(()),
            Outcome::UnderWay(it) => ControlFlow::Break(self.waits(&it).with(self.owned(vm).into_action())),
            Outcome::Failed(error) if error.class() == Class::Unimplemented => ControlFlow::Continue(()),
            Outcome::Failed(error) => {
                let end = self.failed(&error).requeue_after(self.config.short_retry.0);
                ControlFlow::Break(end.with(self.owned(vm).next_attempt().into_action()))
            }
        })
    }

    /// The cloud is at it, and nobody waits here: its end runs the next pass. What takes longer than a machine may take to
    /// join has failed.
    fn waits(&self, it: &UnderWay) -> Conclusion {
        let left = time_left(self.machine, self.now);
        if left.is_zero() {
            let message =
                format!("machine codes error: code = [DeadlineExceeded] message = [{}]", it.message);
            return self.failed(&DriverError {
                code: "DeadlineExceeded".to_owned(),
                message,
                last_known_state: it.last_known_state.clone(),
            });
        }
        let mut draft = Draft::over(self.machine, self.now);
        let message = format!("Creating machine {} on the provider", self.machine.name());
        draft.operation(Operation::Create, State::Processing, "", &message);
        if let Some(state) = &it.last_known_state {
            draft.last_known_state(state.clone());
        }
        let again = it.again_after(self.config.short_retry.0, self.config.long_retry.0);
        Conclusion::from(draft.into_action()).requeue_after(again.min(left))
    }

    /// The fields of the Machine itself that are this controller's.
    fn owned<'v>(&'v self, vm: &'v Vm) -> Owned<'v> {
        Owned::of(self.machine).vm(&vm.provider_id, &vm.node_name)
    }

    /// The machine has failed. Where somebody wants to look at it that is said in one, or its set would be faster.
    fn give_up(&self, draft: &mut Draft<'_>) {
        draft.phase("Failed", false);
        let verdict = preservation::of_machine(self.machine, None, draft.current_phase(), self.now);
        if let Keeping::Until { time, .. } = verdict.keeping {
            draft.kept_until(Some(time));
        }
    }

    fn failed(&self, error: &DriverError) -> Conclusion {
        let (short, long) = (self.config.short_retry.0, self.config.long_retry.0);
        let mut draft = Draft::over(self.machine, self.now);
        let left = time_left(self.machine, self.now);
        if left.is_zero() {
            self.give_up(&mut draft);
        } else {
            draft.phase("CrashLoopBackOff", false);
        }
        draft.operation(Operation::Create, State::Failed, &error.code, &error.description());
        match (&error.last_known_state, error.keeps_state()) {
            (Some(state), _) => draft.last_known_state(state.clone()),
            (None, true) => {}
            (None, false) => draft.last_known_state(String::new()),
        }
        // One that failed for good is not tried again, its set replaces it; but its token has to go.
        let has_token = self.machine.annotation(names::BOOTSTRAP_TOKEN).is_some();
        let wait = if !left.is_zero() {
            error.again_after(short, long).min(left)
        } else if has_token {
            short
        } else {
            long
        };
        let mut end = Conclusion::from(draft.into_action()).requeue_after(wait);
        end.extend(orphans::search(self.machine, error));
        end
    }
}

/// How much of the machine's creation timeout is left.
pub(super) fn time_left(machine: &Machine, now: Timestamp) -> Duration {
    let timeout = machine.spec.creation_timeout.unwrap_or(CREATION_TIMEOUT).0;
    let Some(created) = &machine.metadata.creation_timestamp else { return timeout };
    until(created.0, timeout, now)
}

/// How long it is until `since + timeout`; nothing once that is past.
pub(super) fn until(since: Timestamp, timeout: Duration, now: Timestamp) -> Duration {
    let passed = now.duration_since(since).max(SignedDuration::ZERO).unsigned_abs();
    timeout.saturating_sub(passed)
}
