//! A machine that has its VM: its Node's health in its status, its template on its Node, and whatever is asked for of it
//! besides: an update in place, or that it is kept though it failed.

use std::time::Duration;

use evenkeel_sdk::{Action, Conclusion, Pass, Stop, act};
use jiff::Timestamp;
use serde_json::json;

use super::content::Content;
use super::node::{self, Wishes};
use super::owned::Owned;
use super::preservation::{self, By, Keeping};
use super::status::{Draft, Operation, State};
use super::update::{self, Stage};
use super::{emptying, token};
use crate::config::Config;
use crate::kinds::{Machine, Named, Node};
use crate::names;

mod judge;

/// Look after a machine and its Node.
pub fn reconcile(pass: &Pass, machine: &Machine, config: &Config) -> Result<Conclusion, Stop> {
    let now = pass.clock();
    let node = machine.node().filter(|_| config.nodes).map(|name| pass.get::<Node>(name).ask());
    let content = Content::read(pass, machine)?;
    let now = now.read()?;
    let node = match node {
        Some(question) => question.read()?.filter(|node| node.annotation(names::NOT_MANAGED).is_none()),
        None => None,
    };
    let mut draft = Draft::over(machine, now);
    let living = Living { pass, machine, config, now, node: node.as_ref() };
    let mut deeds = Deeds::new(config.long_retry.0);
    if config.nodes && machine.node().is_some() {
        deeds.again = living.judge(&mut draft)?;
    }
    living.update(&mut draft, &mut deeds)?;
    living.keep(&mut draft, &mut deeds)?;
    let mut end = Conclusion::new().requeue_after(deeds.again);
    end.extend(deeds.struck);
    end.extend(living.own(&draft)?);
    if let Some(node) = &node {
        let class = content.as_ref().map(|content| &content.class);
        end.extend(node::look_after(machine, class, node, &deeds.wishes));
    }
    end.extend(deeds.events);
    if content.is_none() && draft.current_phase() != "Failed" {
        // The VM runs on, but nobody could delete it: that is told before it matters.
        let message = format!(
            "MachineClass {} does not exist: the VM cannot be deleted without it",
            machine.spec.class.name
        );
        draft.operation(Operation::HealthCheck, State::Failed, "", &message);
        end.push(act::warning(machine.reference(), names::CLASS_MISSING, message));
    }
    end.push(draft.into_action());
    // What cannot be taken back comes after the word why.
    end.extend(deeds.evict);
    Ok(end)
}

/// A machine with its Node.
struct Living<'a> {
    pass: &'a Pass,
    machine: &'a Machine,
    config: &'a Config,
    now: Timestamp,
    node: Option<&'a Node>,
}

/// What is to be done besides.
struct Deeds {
    wishes: Wishes,
    /// Annotations that have been followed.
    struck: Vec<Action>,
    events: Vec<Action>,
    evict: Vec<Action>,
    /// When to look again at the latest.
    again: Duration,
}

impl Deeds {
    fn new(again: Duration) -> Self {
        let wishes = Wishes::default();
        Self { wishes, struck: Vec::new(), events: Vec::new(), evict: Vec::new(), again }
    }

    fn within(&mut self, wait: Duration) {
        self.again = self.again.min(wait);
    }
}

impl Living<'_> {
    /// The Machine's own fields. One that waits for its Node no longer has no use for its token.
    fn own(&self, draft: &Draft<'_>) -> Result<Vec<Action>, Stop> {
        let owned = Owned::of(self.machine);
        if draft.current_phase() == "Pending" {
            return Ok(vec![owned.into_action()]);
        }
        let mut actions: Vec<Action> = token::retire(self.pass, self.machine)?.into_iter().collect();
        let had_token = self.machine.annotation(names::BOOTSTRAP_TOKEN).is_some();
        if had_token || !self.machine.spec.provider_id.is_empty() {
            actions.push(owned.without_token().into_action());
        }
        Ok(actions)
    }

    /// Goes a step on with an update in place, where one is wanted.
    fn update(&self, draft: &mut Draft<'_>, deeds: &mut Deeds) -> Result<(), Stop> {
        let Some(node) = self.node else { return Ok(()) };
        let seen = update::Seen::on(node);
        // Whoever takes the label away calls it off.
        let Some(mut stage) = seen.by_labels().filter(|_| seen.candidate) else { return Ok(()) };
        if seen.stage == Some(stage) {
            stage = self.update_further(node, stage, draft, deeds)?;
        }
        if seen.stage != Some(stage) {
            let why = node.annotation(names::UPDATE_FAILED_REASON).unwrap_or("nobody said why");
            let (reason, message) = (stage.reason(), stage.message(why));
            let condition = node::condition(node, self.now, update::CONDITION, true, &reason, &message);
            deeds.wishes.conditions.push(condition);
            deeds.within(self.config.short_retry.0);
        }
        Ok(())
    }

    /// The stage that is reached without a word of anybody.
    fn update_further(
        &self,
        node: &Node,
        stage: Stage,
        draft: &mut Draft<'_>,
        deeds: &mut Deeds,
    ) -> Result<Stage, Stop> {
        match stage {
            Stage::SelectedForUpdate if update::is_possible_in(draft.current_phase()) => {}
            Stage::DrainSuccessful => {
                deeds.wishes.unschedulable = true;
                return Ok(Stage::ReadyForUpdate);
            }
            Stage::ReadyForUpdate => {
                deeds.wishes.unschedulable = true;
                return Ok(stage);
            }
            Stage::CandidateForUpdate
            | Stage::SelectedForUpdate
            | Stage::UpdateSuccessful
            | Stage::UpdateFailed => return Ok(stage),
        }
        deeds.wishes.unschedulable = true;
        if !node.spec.unschedulable {
            // First that no more come, then who is there.
            deeds.within(self.config.short_retry.0);
            return Ok(stage);
        }
        let since = node.condition(update::CONDITION).and_then(|it| it.last_transition_time.as_ref());
        let force = emptying::is_forced(self.machine, node, since.map(|time| time.0), self.now);
        let name = self.machine.name();
        if let Some(plan) = emptying::plan(self.pass, node, force)? {
            let message = format!("Machine {name} is emptied for an update in place{}", plan.waits_for());
            draft.operation(Operation::DrainNode, State::Processing, "", &message);
            deeds.evict.extend(plan.evict);
            deeds.within(self.config.short_retry.0);
            return Ok(stage);
        }
        draft.phase("InPlaceUpdating", false);
        let message = format!("Machine {name} is being updated in place");
        draft.operation(Operation::InPlaceUpdate, State::Processing, "", &message);
        Ok(Stage::DrainSuccessful)
    }

    /// Keeps the machine though it failed, where somebody wants that, and until its time has come.
    fn keep(&self, draft: &mut Draft<'_>, deeds: &mut Deeds) -> Result<(), Stop> {
        let verdict = preservation::of_machine(self.machine, self.node, draft.current_phase(), self.now);
        match verdict.keeping {
            Keeping::No => {
                draft.kept_until(None);
                self.keep_node_no_more(deeds);
            }
            Keeping::Until { time, by } => {
                draft.kept_until(Some(time));
                deeds.within(time.duration_since(self.now).unsigned_abs());
                if let Some(node) = self.node {
                    self.keep_node(node, time, by, draft.current_phase(), deeds)?;
                }
            }
        }
        let nothing = json!({"metadata": {"annotations": {names::PRESERVE: null}}});
        if verdict.strike_machine {
            deeds.struck.push(act::patch(self.machine.reference(), &nothing));
        }
        if let Some(node) = self.node.filter(|_| verdict.strike_node) {
            deeds.struck.push(act::patch(node.reference(), &nothing));
        }
        if let Some(value) = verdict.unknown {
            let message = format!(
                "annotation {} is {value:?}: it may be now, when-failed, auto-preserved or false, and nothing is changed until it is",
                names::PRESERVE
            );
            deeds.events.push(act::warning(self.machine.reference(), names::PRESERVE_UNKNOWN, message));
        }
        Ok(())
    }

    fn keep_node_no_more(&self, deeds: &mut Deeds) {
        let Some(node) = self.node else { return };
        if node.condition(node::PRESERVED).is_some_and(|condition| condition.status != "False") {
            let message = "The machine of this Node is kept no longer";
            let condition =
                node::condition(node, self.now, node::PRESERVED, false, "PreservationStopped", message);
            deeds.wishes.conditions.push(condition);
        }
    }

    /// The Node of a machine that is kept stays, and that of a failed one is emptied. Once, for whoever looks at it then may
    /// bring Pods of their own.
    fn keep_node(
        &self,
        node: &Node,
        until: Timestamp,
        by: By,
        phase: &str,
        deeds: &mut Deeds,
    ) -> Result<(), Stop> {
        let has_failed = phase == "Failed";
        let was_kept = node.condition(node::PRESERVED).is_some_and(|condition| condition.status == "True");
        let was_emptied = was_kept && self.machine.phase() == "Failed";
        deeds.wishes.no_scale_down = true;
        deeds.wishes.preserved = has_failed;
        let is_done = !has_failed || was_emptied || self.is_emptied(node, deeds)?;
        let reason = match by {
            By::User => "PreservedByUser",
            By::Controller => "PreservedByController",
        };
        let until = evenkeel_sdk::rfc3339(until);
        let message = match (has_failed, is_done) {
            (false, _) => format!("The machine of this Node is kept until {until}"),
            (true, true) => {
                format!("The machine of this Node failed and is kept until {until}; its Pods have left")
            }
            (true, false) => {
                format!("The machine of this Node failed and is kept until {until}; its Pods leave")
            }
        };
        let condition = node::condition(node, self.now, node::PRESERVED, is_done, reason, &message);
        if node.condition(node::PRESERVED) != Some(&condition) {
            deeds.wishes.conditions.push(condition);
        }
        Ok(())
    }

    /// Moves the Pods off a Node that is kept; whether none is left that has to go.
    fn is_emptied(&self, node: &Node, deeds: &mut Deeds) -> Result<bool, Stop> {
        deeds.within(self.config.short_retry.0);
        if !node::is_tainted(node) {
            // First that no more come, then who is there.
            return Ok(false);
        }
        let since = self.machine.status.current_status.last_update_time.as_deref();
        let since = since.and_then(|time| time.parse().ok());
        let force = emptying::is_forced(self.machine, node, since, self.now);
        let plan = emptying::plan(self.pass, node, force)?;
        let is_empty = plan.is_none();
        deeds.evict.extend(plan.into_iter().flat_map(|plan| plan.evict));
        Ok(is_empty)
    }
}
