//! A Machine that goes: its Node emptied, its VM deleted, its Node deleted, itself released.
//!
//! All of it needs the class' content and its Secrets, but no finalizer on the class, and no class that stays. Each pass goes
//! as far as it can; `lastOperation.description` begins with the step that is due, in upstream's words.

use std::time::Duration;

use evenkeel_sdk::{Action, Conclusion, Pass, Stop, act};
use jiff::Timestamp;

use super::content::Content;
use super::drain::Attachment;
use super::driver::{self, Call, Class, DriverError, Outcome, UnderWay};
use super::status::{Draft, Operation, State};
use super::{emptying, health, node, token};
use crate::config::Config;
use crate::kinds::{Machine, Named, Node};
use crate::{names, orphans};

/// Upstream's retry while the VM's state cannot be had.
const STATUS_RETRY: Duration = Duration::from_secs(180);

const GETTING_STATUS: &str = "Machine deletion process initiated. Getting VM Status";
const DRAIN: &str = "Initiate node drain";
const DETACH: &str = "Delete Volume Attachments";
const DELETE_VM: &str = "Initiate VM deletion";

/// Take the machine's Node and VM away, and release the machine.
pub fn reconcile(pass: &Pass, machine: &Machine, config: &Config) -> Result<Conclusion, Stop> {
    if !machine.bears(names::FINALIZER) {
        // Others hold it.
        return Ok(Conclusion::new());
    }
    // Whatever holds the machine up, nobody joins in its name any more.
    if let Some(retired) = token::retire(pass, machine)? {
        return Ok(Conclusion::from(retired).requeue_after(config.short_retry.0));
    }
    let now = pass.clock();
    let content = Content::read(pass, machine)?;
    let going = Going { pass, machine, config, now: now.read()? };
    match &content {
        None => going.without_class(),
        Some(content) if !content.missing_secrets.is_empty() => Ok(going.without_secrets(content)),
        Some(content) => going.go(content),
    }
}

/// A machine on its way out.
struct Going<'a> {
    pass: &'a Pass,
    machine: &'a Machine,
    config: &'a Config,
    now: Timestamp,
}

impl Going<'_> {
    /// Nobody can tell how to delete the VM. One that never was needs nobody; another one is held until the class is back, or
    /// somebody takes the VM upon them.
    fn without_class(&self) -> Result<Conclusion, Stop> {
        let provider_id = &self.machine.spec.provider_id;
        let class = &self.machine.spec.class.name;
        // What a driver wants to be told again it said when it began.
        let is_begun = !self.machine.status.last_known_state.is_empty();
        if provider_id.is_empty() && self.machine.phase().is_empty() && !is_begun {
            match driver::known_operations(self.pass, self.machine)? {
                Ok(known) if !known.iter().any(|key| key.starts_with("create/")) => return self.release(),
                Ok(_) => {}
                Err(failure) => {
                    let message = format!(
                        "MachineClass {class} does not exist, and the provider cannot tell whether there is a VM: {}",
                        failure.message
                    );
                    return Ok(self.held(names::CLASS_MISSING, &message));
                }
            }
        }
        let abandoned = self.machine.annotation(names::ABANDON_VM);
        if !provider_id.is_empty() && abandoned == Some(provider_id) {
            let message =
                format!("VM {provider_id} is left to its fate: annotation {} says so", names::ABANDON_VM);
            let warning = act::warning(self.machine.reference(), names::VM_ABANDONED, message);
            let mut end = Conclusion::new().with(warning);
            end.extend(self.release()?.actions().iter().cloned());
            return Ok(end);
        }
        let vm = if provider_id.is_empty() { "a VM that may exist" } else { provider_id };
        let message = format!("MachineClass {class} does not exist: without it {vm} cannot be deleted");
        Ok(self.held(names::CLASS_MISSING, &message))
    }

    fn without_secrets(&self, content: &Content) -> Conclusion {
        let message = format!(
            "Secret {} does not exist: without it the VM cannot be deleted",
            content.missing_secrets.join(" and ")
        );
        self.held(names::SECRET_MISSING, &message)
    }

    /// Says why nothing can be done, and looks again at growing intervals: what is missing runs the pass when it appears.
    fn held(&self, reason: &str, message: &str) -> Conclusion {
        let last = &self.machine.status.last_operation;
        let since = last.last_update_time.as_deref().and_then(|time| time.parse::<Timestamp>().ok());
        let mut draft = Draft::over(self.machine, self.now);
        if !self.machine.phase().is_empty() {
            // One without a phase was never begun: it stays to be seen as that.
            draft.phase("Terminating", false);
        }
        draft.operation(Operation::Delete, State::Failed, "", message);
        let waited = match since {
            Some(since) if last.description == message => self.now.duration_since(since).unsigned_abs(),
            _ => Duration::ZERO,
        };
        let wait =
            waited.clamp(self.config.short_retry.0, self.config.long_retry.0.max(self.config.short_retry.0));
        Conclusion::new()
            .with(draft.into_action())
            .with(act::warning(self.machine.reference(), reason, message))
            .requeue_after(wait)
    }

    fn go(&self, content: &Content) -> Result<Conclusion, Stop> {
        let call = Call::of(self.machine, content);
        if self.machine.phase() != "Terminating" {
            let mut draft = self.draft();
            draft.operation(Operation::Delete, State::Processing, "", GETTING_STATUS);
            self.pass.perform(vec![draft.into_action()])?;
        }
        let node_name = match call.status(self.pass)? {
            Outcome::Done(vm) => vm.node_name,
            Outcome::UnderWay(it) => return Ok(self.waits(GETTING_STATUS, &it)),
            Outcome::Failed(error) => match error.class() {
                // Leftovers of a VM that is gone are looked for all the same.
                Class::NotFound | Class::Unimplemented => String::new(),
                Class::Transient => return Ok(self.stuck(GETTING_STATUS, &error, self.config.short_retry.0)),
                Class::Exhausted | Class::Invalid | Class::Denied | Class::Other => {
                    return Ok(self.stuck(GETTING_STATUS, &error, STATUS_RETRY));
                }
            },
        };
        let node = self.node(&node_name)?;
        if let Some(node) = &node {
            let is_well = health::is_well(node, self.machine);
            if let Some(farewell) = node::part_with(&content.class, node, is_well, self.now) {
                // Before its Pods are looked at, that none comes after.
                let mut end = Conclusion::from(self.step(DRAIN));
                end.extend(farewell);
                return Ok(end.requeue_after(self.config.short_retry.0));
            }
            if let Some(wait) = self.empty(node)? {
                return Ok(wait);
            }
        }
        match call.delete(self.pass)? {
            Outcome::Done(_) => {}
            Outcome::UnderWay(it) => return Ok(self.waits(DELETE_VM, &it)),
            Outcome::Failed(error) if error.class() == Class::NotFound => {}
            Outcome::Failed(error) => {
                let wait = match error.class() {
                    Class::Transient => self.config.short_retry.0,
                    _ => self.config.long_retry.0,
                };
                return Ok(self.stuck(DELETE_VM, &error, wait));
            }
        }
        Ok(self.end(node.as_ref()))
    }

    /// The machine's Node: by the label, by the Node's own link back, or by what the driver says.
    fn node(&self, told: &str) -> Result<Option<Node>, Stop> {
        if !self.config.nodes {
            return Ok(None);
        }
        let link = format!("{}={}", names::MACHINE_NAME_LABEL, self.machine.name());
        let node = match self.machine.node() {
            Some(name) => self.pass.get::<Node>(name).read()?,
            None => {
                let linked = self.pass.list::<Node>().labels(&link).read()?.into_iter().next();
                if linked.is_none() && !told.is_empty() {
                    self.pass.get::<Node>(told).read()?
                } else {
                    linked
                }
            }
        };
        Ok(node.filter(|node| node.annotation(names::NOT_MANAGED).is_none()))
    }

    /// Empties the Node; none once it is, otherwise what is to be done meanwhile.
    fn empty(&self, node: &Node) -> Result<Option<Conclusion>, Stop> {
        let since = self.machine.metadata.deletion_timestamp.as_ref().map(|time| time.0);
        let force = emptying::is_forced(self.machine, node, since, self.now);
        let again = self.config.short_retry.0;
        if let Some(plan) = emptying::plan(self.pass, node, force)? {
            let mut end = Conclusion::from(self.step(&format!("{DRAIN}{}", plan.waits_for())));
            end.extend(plan.evict);
            return Ok(Some(end.requeue_after(again)));
        }
        if force {
            // Nobody detaches them in an orderly way any more.
            let attached = self.pass.list::<Attachment>().field("/spec/nodeName", node.name()).read()?;
            if !attached.is_empty() {
                let mut end = Conclusion::from(self.step(DETACH));
                end.extend(attached.iter().filter_map(Attachment::deletion));
                return Ok(Some(end.requeue_after(again)));
            }
        }
        Ok(None)
    }

    /// The last step: the VM is gone.
    fn end(&self, node: Option<&Node>) -> Conclusion {
        let mut end = Conclusion::new();
        if let Some(node) = node {
            end.extend(node::remove(node));
        }
        end.with(act::remove_finalizer(self.machine.reference(), names::FINALIZER))
    }

    /// Lets a machine go whose VM is nobody's business here.
    fn release(&self) -> Result<Conclusion, Stop> {
        let node = self.node("")?;
        Ok(self.end(node.as_ref()))
    }

    fn draft(&self) -> Draft<'_> {
        let mut draft = Draft::over(self.machine, self.now);
        draft.phase("Terminating", false);
        draft.kept_until(None);
        draft
    }

    fn step(&self, description: &str) -> Action {
        let mut draft = self.draft();
        draft.operation(Operation::Delete, State::Processing, "", description);
        draft.into_action()
    }

    /// A step that the cloud is at: its end runs the next pass.
    fn waits(&self, step: &str, it: &UnderWay) -> Conclusion {
        let mut draft = self.draft();
        draft.operation(Operation::Delete, State::Processing, "", step);
        if let Some(state) = &it.last_known_state {
            draft.last_known_state(state.clone());
        }
        let again = it.again_after(self.config.short_retry.0, self.config.long_retry.0);
        Conclusion::from(draft.into_action()).requeue_after(again)
    }

    /// A step that the driver failed.
    fn stuck(&self, step: &str, error: &DriverError, wait: Duration) -> Conclusion {
        let mut draft = self.draft();
        let message = format!("{step}. {}", error.description());
        draft.operation(Operation::Delete, State::Failed, &error.code, &message);
        if let Some(state) = &error.last_known_state {
            draft.last_known_state(state.clone());
        }
        let mut end = Conclusion::from(draft.into_action()).requeue_after(wait);
        end.extend(orphans::search(self.machine, error));
        end
    }
}
