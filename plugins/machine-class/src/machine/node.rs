//! A machine's Node: held by our finalizer, and dressed as the templates say.

use std::collections::BTreeMap;

use evenkeel_sdk::{Action, act, clean_message, reference};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{NodeCondition, Taint};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::update;
use crate::kinds::{Machine, MachineClass, Named, Node};
use crate::names;

/// What was last taken from the template, as upstream keeps it on the Node: from it follows what to take away again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct LastApplied {
    #[serde(rename = "Annotations", skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<String, String>,
    #[serde(rename = "Labels", skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, String>,
    #[serde(rename = "Taints", skip_serializing_if = "Vec::is_empty")]
    taints: Vec<Taint>,
}

/// The condition of a Node of which the machine goes.
const TERMINATING: &str = "Terminating";
/// The condition of a Node of which the machine is kept.
pub const PRESERVED: &str = "Preserved";
/// On a Node: the virtual capacity that was last taken from the class.
const LAST_CAPACITY: &str = "node.machine.sapcloud.io/last-applied-virtual-capacity";

/// What a machine's Node shall be besides what its template says.
#[derive(Clone, Debug, Default)]
pub struct Wishes {
    /// The cluster autoscaler leaves it alone.
    pub no_scale_down: bool,
    /// It takes no new Pods, as it is kept for somebody to look at.
    pub preserved: bool,
    /// It takes no new Pods, as those that it has leave. Nobody here takes that back.
    pub unschedulable: bool,
    /// Conditions that are others now than they were.
    pub conditions: Vec<NodeCondition>,
}

/// All that is to be so on the Node of a machine that lives. A Node that goes takes its machine along.
pub fn look_after(
    machine: &Machine,
    class: Option<&MachineClass>,
    node: &Node,
    wishes: &Wishes,
) -> Vec<Action> {
    if node.is_deleting() {
        return vec![act::delete(machine.reference()).uid(machine.uid()).into()];
    }
    let place = reference::<Node>(node.name());
    let mut actions = vec![act::add_finalizer(place, names::NODE_FINALIZER)];
    let template = &machine.spec.node_template;
    let wanted = LastApplied {
        annotations: template.metadata.annotations.clone(),
        labels: template.metadata.labels.clone(),
        taints: template.spec.taints.clone(),
    };
    let mut labels = wanted.labels.clone();
    labels.insert(names::MACHINE_NAME_LABEL.to_owned(), machine.name().to_owned());
    let mut annotations = wanted.annotations.clone();
    annotations.insert(names::LAST_APPLIED.to_owned(), json!(wanted).to_string());
    if wishes.no_scale_down {
        annotations.insert(names::NO_SCALE_DOWN.to_owned(), "true".to_owned());
    }
    if let Some(capacity) = capacity(class, node) {
        annotations.insert(LAST_CAPACITY.to_owned(), json!(capacity).to_string());
    }
    let dress = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": node.name(), "labels": labels, "annotations": annotations},
    });
    // Before the annotation that tells what the taints were.
    actions.extend(settings(node, taints(node, &wanted.taints, wishes.preserved), wishes.unschedulable));
    actions.push(act::apply(&dress).force().into());
    actions.extend(status(class, node, &wishes.conditions));
    actions
}

/// Says of a Node that its machine goes, and has it take no new Pods; none where all that is so.
pub fn part_with(class: &MachineClass, node: &Node, is_well: bool, now: Timestamp) -> Option<Vec<Action>> {
    let told = node.condition(TERMINATING).is_some_and(|condition| condition.status == "True");
    if node.spec.unschedulable && told {
        return None;
    }
    let reason = if is_well { "ScaleDown" } else { "Unhealthy" };
    let message = "The machine of this Node is being deleted";
    let terminating = condition(node, now, TERMINATING, true, reason, message);
    let mut actions: Vec<Action> = settings(node, None, true).into_iter().collect();
    actions.extend(status(Some(class), node, &[terminating]));
    Some(actions)
}

/// A condition of a Node; its time is that since which status and reason are so.
pub fn condition(
    node: &Node,
    now: Timestamp,
    type_: &str,
    holds: bool,
    reason: &str,
    message: &str,
) -> NodeCondition {
    let status = if holds { "True" } else { "False" };
    let same = node
        .condition(type_)
        .filter(|old| old.status == status && old.reason.as_deref() == Some(reason))
        .and_then(|old| old.last_transition_time.clone());
    let now = || Time(Timestamp::from_second(now.as_second()).unwrap_or(now));
    NodeCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(clean_message(message)),
        last_transition_time: Some(same.unwrap_or_else(now)),
        last_heartbeat_time: None,
    }
}

/// The resources that the Node has on paper, where it has or had any.
fn capacity<'c>(class: Option<&'c MachineClass>, node: &Node) -> Option<&'c BTreeMap<String, Quantity>> {
    let template = class.and_then(|class| class.node_template.as_ref());
    template
        .map(|template| &template.virtual_capacity)
        .filter(|capacity| node.annotation(LAST_CAPACITY).is_some() || !capacity.is_empty())
}

/// All of the Node's status that is this controller's: what is left out would be taken away, so conditions that are not new
/// stay as they are.
fn status(class: Option<&MachineClass>, node: &Node, new: &[NodeCondition]) -> Option<Action> {
    let conditions: Vec<&NodeCondition> = [TERMINATING, PRESERVED, update::CONDITION]
        .into_iter()
        .filter_map(|type_| {
            new.iter().find(|condition| condition.type_ == type_).or_else(|| node.condition(type_))
        })
        .collect();
    let mut status = json!({});
    if let Some(capacity) = capacity(class, node) {
        status["capacity"] = json!(capacity);
    }
    if !conditions.is_empty() {
        status["conditions"] = json!(conditions);
    }
    (status != json!({})).then(|| act::apply_status::<Node>(node.name(), &status).force().into())
}

/// The fields that others write, too, and of which nothing is taken back that they wrote.
fn settings(node: &Node, taints: Option<Vec<Taint>>, unschedulable: bool) -> Option<Action> {
    let mut spec = json!({});
    if let Some(taints) = taints {
        spec["taints"] = json!(taints);
    }
    if unschedulable && !node.spec.unschedulable {
        spec["unschedulable"] = true.into();
    }
    (spec != json!({})).then(|| act::patch(reference::<Node>(node.name()), &json!({"spec": spec})))
}

/// Whether it bears the taint of a Node that is kept.
pub fn is_tainted(node: &Node) -> bool {
    node.spec.taints.iter().any(|taint| taint.key == names::PRESERVED_TAINT)
}

/// The taints that the Node shall have, where they are others than it has. Server-side apply knows the list only as a
/// whole, and most of it belongs to others.
fn taints(node: &Node, wanted: &[Taint], preserved: bool) -> Option<Vec<Taint>> {
    let last =
        node.annotation(names::LAST_APPLIED).and_then(|text| serde_json::from_str::<LastApplied>(text).ok());
    let ours =
        Taint { key: names::PRESERVED_TAINT.to_owned(), effect: "NoSchedule".to_owned(), ..Taint::default() };
    let mut last = last.unwrap_or_default().taints;
    last.push(ours.clone());
    let mut wanted = wanted.to_vec();
    wanted.extend(preserved.then_some(ours));
    let same = |a: &Taint, b: &Taint| a.key == b.key && a.effect == b.effect;
    let is_in = |taint: &Taint, list: &[Taint]| list.iter().any(|other| same(taint, other));
    let stays = |taint: &&Taint| !is_in(taint, &wanted) && !is_in(taint, &last);
    let mut taints: Vec<Taint> = node.spec.taints.iter().filter(stays).cloned().collect();
    taints.extend(wanted.iter().map(|taint| {
        // One that is there keeps what it has besides, as the time since when.
        let there = node.spec.taints.iter().find(|other| same(taint, other) && taint.value == other.value);
        there.unwrap_or(taint).clone()
    }));
    let differs = taints.len() != node.spec.taints.len()
        || taints.iter().any(|taint| !node.spec.taints.contains(taint));
    differs.then_some(taints)
}

/// Takes a Node away for good: our finalizer off it, and the Node itself.
pub fn remove(node: &Node) -> Vec<Action> {
    let place = reference::<Node>(node.name());
    let mut actions = vec![];
    if node.bears(names::NODE_FINALIZER) {
        actions.push(act::remove_finalizer(place.clone(), names::NODE_FINALIZER));
    }
    let uid = node.metadata.uid.clone().unwrap_or_default();
    actions.push(act::delete(place).uid(uid).into());
    actions
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn list(text: &str) -> Vec<Taint> {
        let one = |word: &str| {
            let (key, effect) = word.split_once(':').expect("key:effect");
            Taint { key: key.to_owned(), effect: effect.to_owned(), ..Taint::default() }
        };
        text.split_whitespace().map(one).collect()
    }

    fn check(has: &str, last: &str, wanted: &str, expected: Expect) {
        let mut node = Node::default();
        node.spec.taints = list(has);
        let last = LastApplied { taints: list(last), ..LastApplied::default() };
        node.metadata.annotations = Some([(names::LAST_APPLIED.to_owned(), json!(last).to_string())].into());
        let shown = |taints: Vec<Taint>| {
            taints.iter().map(|taint| format!("{}:{}", taint.key, taint.effect)).collect::<Vec<_>>().join(" ")
        };
        let (wanted, preserved) = match wanted.strip_prefix("preserved") {
            Some(rest) => (rest, true),
            None => (wanted, false),
        };
        expected.assert_eq(&taints(&node, &list(wanted), preserved).map_or("as it is".to_owned(), shown));
    }

    #[test]
    fn taints_of_the_template_come_and_go_and_those_of_others_stay() {
        check("theirs:NoSchedule", "", "ours:NoExecute", expect!["theirs:NoSchedule ours:NoExecute"]);
        check("theirs:NoSchedule ours:NoExecute", "ours:NoExecute", "ours:NoExecute", expect!["as it is"]);
        check("theirs:NoSchedule ours:NoExecute", "ours:NoExecute", "", expect!["theirs:NoSchedule"]);
        check("ours:NoSchedule", "ours:NoSchedule", "ours:NoExecute", expect!["ours:NoExecute"]);
        check("theirs:NoSchedule", "gone:NoSchedule", "", expect!["as it is"]);
    }
    #[test]
    fn the_taint_of_a_node_that_is_kept_comes_and_goes_and_those_of_others_stay() {
        let kept = "theirs:NoSchedule node.machine.sapcloud.io/preserved:NoSchedule";
        check(
            "theirs:NoSchedule",
            "",
            "preserved",
            expect!["theirs:NoSchedule node.machine.sapcloud.io/preserved:NoSchedule"],
        );
        check(kept, "", "preserved", expect!["as it is"]);
        check(kept, "", "", expect!["theirs:NoSchedule"]);
    }
}
