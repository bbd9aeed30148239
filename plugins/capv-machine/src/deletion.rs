//! A machine that goes: its VM is switched off, then destroyed, and only then its object goes.

use evenkeel_sdk::{Conclusion, ConditionStatus, Stop};

use crate::api::{Operation, PowerOffMode};
use crate::draft::Draft;
use crate::machine::{Turn, let_go, poll};
use crate::operate::Order;
use crate::reasons::{self, condition};
use crate::seam::{Outcome, Power, Vm};
use crate::timing::{GUEST_SHUTDOWN_SECONDS, SLOW, since, time};

/// What becomes of a guest that is to shut down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guest {
    /// It is asked to.
    Ask,
    /// It has been asked, and gets its time.
    Wait,
    /// It is not waited for any longer, or cannot be asked.
    SwitchOff,
    /// It cannot be asked, and nothing else may be done.
    Stuck,
}

impl Turn<'_> {
    /// Takes the VM away.
    pub fn remove(&self, draft: &mut Draft<'_>, vm: &Vm, watched: bool) -> Result<Conclusion, Stop> {
        draft.status.power_state = Some(vm.power.as_str().to_owned());
        match vm.power {
            // A suspended VM can be destroyed as it is.
            Power::Off | Power::Suspended => {
                if draft.status.guest_shutdown_at.is_some() {
                    draft.set(condition::SOFT_POWER_OFF, ConditionStatus::True, reasons::SUCCEEDED, "");
                }
                draft.deletes("the VM is being destroyed");
                self.order(draft, &Order::of_vm(self, Operation::Destroy, &vm.vm), Vec::new())
            }
            Power::On => self.switch_off(draft, vm, watched),
        }
    }

    fn switch_off(&self, draft: &mut Draft<'_>, vm: &Vm, watched: bool) -> Result<Conclusion, Stop> {
        match self.guest(draft, vm) {
            Guest::Ask => self.ask_guest(draft, vm, watched),
            Guest::Wait => {
                self.shuts_down(draft);
                Ok(draft.end(self.guest_poll(draft, watched)))
            }
            Guest::SwitchOff => {
                if self.power_off_mode() == PowerOffMode::TrySoft {
                    let message = "the guest does not shut down: the VM is switched off";
                    draft.set(condition::SOFT_POWER_OFF, ConditionStatus::False, reasons::FAILED, message);
                }
                self.power_off(draft, vm)
            }
            Guest::Stuck => {
                let message = "the guest cannot be asked to shut down: VMware Tools do not run";
                draft.set(condition::SOFT_POWER_OFF, ConditionStatus::False, reasons::FAILED, message);
                self.say(draft, reasons::event::SOFT_POWER_OFF_FAILED, message);
                Ok(draft.end(poll(watched, SLOW)))
            }
        }
    }

    fn power_off(&self, draft: &mut Draft<'_>, vm: &Vm) -> Result<Conclusion, Stop> {
        draft.deletes("the VM is being switched off");
        self.order(draft, &Order::of_vm(self, Operation::PowerOff, &vm.vm), Vec::new())
    }

    /// What becomes of the guest.
    fn guest(&self, draft: &Draft<'_>, vm: &Vm) -> Guest {
        let mode = self.power_off_mode();
        let can_ask = vm.tools_running && vm.guest_state_change_supported;
        match (mode, time(draft.status.guest_shutdown_at.as_deref())) {
            (PowerOffMode::Hard, _) => Guest::SwitchOff,
            (PowerOffMode::TrySoft, Some(asked)) if since(asked, self.now) >= self.patience() => {
                Guest::SwitchOff
            }
            (PowerOffMode::Soft | PowerOffMode::TrySoft, Some(_)) => Guest::Wait,
            (PowerOffMode::Soft | PowerOffMode::TrySoft, None) if can_ask => Guest::Ask,
            (PowerOffMode::Soft, None) => Guest::Stuck,
            (PowerOffMode::TrySoft, None) => Guest::SwitchOff,
        }
    }

    fn ask_guest(&self, draft: &mut Draft<'_>, vm: &Vm, watched: bool) -> Result<Conclusion, Stop> {
        let order = Order::of_vm(self, Operation::ShutdownGuest, &vm.vm);
        match self.outcome(draft, &order, Vec::new())? {
            Outcome::Done { .. } | Outcome::Task { .. } => {
                draft.status.guest_shutdown_at = Some(draft.stamp());
                crate::machine::count(&mut draft.status);
                self.shuts_down(draft);
                Ok(draft.end(self.guest_poll(draft, watched)))
            }
            // It cannot be asked after all, and nothing was done: switching it off is this pass's one step.
            Outcome::Fault { fault } if self.power_off_mode() == PowerOffMode::TrySoft => {
                let message = format!("the guest cannot be asked to shut down: {}", fault.type_);
                draft.set(condition::SOFT_POWER_OFF, ConditionStatus::False, reasons::FAILED, &message);
                self.power_off(draft, vm)
            }
            Outcome::Fault { fault } => {
                let message = format!("the guest cannot be asked to shut down: {}", fault.type_);
                crate::machine::count(&mut draft.status);
                draft.set(condition::SOFT_POWER_OFF, ConditionStatus::False, reasons::FAILED, &message);
                self.say(draft, reasons::event::SOFT_POWER_OFF_FAILED, &message);
                Ok(draft.end(Some(SLOW)))
            }
            outcome @ (Outcome::Absent
            | Outcome::Missing { .. }
            | Outcome::NotOurs { .. }
            | Outcome::Unknown(_)) => self.conclude(draft, Operation::ShutdownGuest, outcome),
        }
    }

    fn shuts_down(&self, draft: &mut Draft<'_>) {
        let message = "the guest is shutting down";
        draft.set(condition::SOFT_POWER_OFF, ConditionStatus::False, reasons::IN_PROGRESS, message);
        draft.deletes(message);
    }

    /// When to look at a guest again that is shutting down: its patience runs out without a change.
    fn guest_poll(&self, draft: &Draft<'_>, watched: bool) -> Option<std::time::Duration> {
        let asked = time(draft.status.guest_shutdown_at.as_deref())?;
        let left = self.patience().saturating_sub(since(asked, self.now));
        match (self.power_off_mode(), watched) {
            (PowerOffMode::TrySoft, true) => Some(left),
            (PowerOffMode::TrySoft, false) => Some(left.min(SLOW)),
            (PowerOffMode::Soft | PowerOffMode::Hard, _) => poll(watched, SLOW),
        }
    }

    fn patience(&self) -> std::time::Duration {
        let given = self.machine.spec.guest_soft_power_off_timeout_seconds;
        let seconds = given.and_then(|seconds| u32::try_from(seconds).ok()).unwrap_or(GUEST_SHUTDOWN_SECONDS);
        std::time::Duration::from_secs(u64::from(seconds))
    }

    /// There is no VM: the machine's object goes, unless a clone may still come of which nothing is to be seen yet.
    pub fn release(&self, draft: &mut Draft<'_>) -> Result<Conclusion, Stop> {
        let clone = draft.status.task.as_ref().filter(|task| task.operation == Operation::Clone);
        let begun = clone.map(|task| time(Some(&task.started_at)));
        let taken = draft.status.name_taken_since.is_some();
        let begun = match (begun, taken) {
            (None, false) => None,
            (Some(begun), _) => Some(begun),
            (None, true) => Some(None),
        };
        if let Some(begun) = begun
            && let Some(wait) = self.may_still_come(draft, begun)?
        {
            draft.deletes("a clone that was begun earlier is awaited");
            return Ok(draft.end(Some(wait)));
        }
        // The status goes with the object; what has happened is told nevertheless.
        let mut end = Conclusion::new();
        end.extend(draft.events().iter().cloned());
        Ok(end.with(let_go(self.id)))
    }
}
