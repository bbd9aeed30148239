//! A machine's Node: held by our finalizer, and dressed as the templates say.

use std::collections::BTreeMap;

use evenkeel_sdk::{Action, act, reference};
use k8s_openapi::api::core::v1::Taint;
use serde::{Deserialize, Serialize};
use serde_json::json;

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

/// On a Node: the virtual capacity that was last taken from the class.
const LAST_CAPACITY: &str = "node.machine.sapcloud.io/last-applied-virtual-capacity";

/// All that is to be so on the Node of a machine that lives. A Node that goes takes its machine along.
pub fn look_after(machine: &Machine, class: Option<&MachineClass>, node: &Node) -> Vec<Action> {
    if node.is_deleting() {
        return vec![act::delete(machine.reference()).uid(machine.uid()).into()];
    }
    let place = reference::<Node>(node.name());
    let mut actions = vec![act::add_finalizer(place.clone(), names::NODE_FINALIZER)];
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
    let capacity =
        class.and_then(|class| class.node_template.as_ref()).map(|template| &template.virtual_capacity);
    let had_capacity = node.annotation(LAST_CAPACITY).is_some();
    let capacity = capacity.filter(|capacity| had_capacity || !capacity.is_empty());
    if let Some(capacity) = capacity {
        annotations.insert(LAST_CAPACITY.to_owned(), json!(capacity).to_string());
    }
    let dress = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": node.name(), "labels": labels, "annotations": annotations},
    });
    // Before the annotation that tells what they were.
    actions.extend(
        taints(node, &wanted.taints).map(|taints| act::patch(place, &json!({"spec": {"taints": taints}}))),
    );
    actions.push(act::apply(&dress).force().into());
    if let Some(capacity) = capacity {
        actions.push(act::apply_status::<Node>(node.name(), &json!({"capacity": capacity})).force().into());
    }
    actions
}

/// The taints that the Node shall have, where they are others than it has. Server-side apply knows the list only as a
/// whole, and most of it belongs to others.
fn taints(node: &Node, wanted: &[Taint]) -> Option<Vec<Taint>> {
    let last =
        node.annotation(names::LAST_APPLIED).and_then(|text| serde_json::from_str::<LastApplied>(text).ok());
    let last = last.unwrap_or_default().taints;
    let same = |a: &Taint, b: &Taint| a.key == b.key && a.effect == b.effect;
    let is_in = |taint: &Taint, list: &[Taint]| list.iter().any(|other| same(taint, other));
    let stays = |taint: &&Taint| !is_in(taint, wanted) && !is_in(taint, &last);
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
        expected.assert_eq(&taints(&node, &list(wanted)).map_or("as it is".to_owned(), shown));
    }

    #[test]
    fn taints_of_the_template_come_and_go_and_those_of_others_stay() {
        check("theirs:NoSchedule", "", "ours:NoExecute", expect!["theirs:NoSchedule ours:NoExecute"]);
        check("theirs:NoSchedule ours:NoExecute", "ours:NoExecute", "ours:NoExecute", expect!["as it is"]);
        check("theirs:NoSchedule ours:NoExecute", "ours:NoExecute", "", expect!["theirs:NoSchedule"]);
        check("ours:NoSchedule", "ours:NoSchedule", "ours:NoExecute", expect!["ours:NoExecute"]);
        check("theirs:NoSchedule", "gone:NoSchedule", "", expect!["as it is"]);
    }
}
