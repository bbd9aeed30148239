//! Emptying a Node: which Pods go now, and which have to wait. A function of values alone.
//!
//! The contract has no eviction, so budgets are kept by their numbers: of the Pods of a PodDisruptionBudget no more are
//! deleted at a time than it says may be disrupted.

use std::collections::BTreeMap;

use evenkeel_sdk::{Action, act, reference, view};
use k8s_openapi::api::core::v1::Pod as CorePod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget as CoreBudget;
use k8s_openapi::api::storage::v1::VolumeAttachment as CoreAttachment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use serde::Deserialize;

use crate::words::listed;

/// A Pod, as far as its eviction depends on it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Pod {
    /// Its metadata.
    pub metadata: ObjectMeta,
    /// Whether it has ended.
    pub status: PodStatus,
}
view!(Pod as CorePod: "/metadata", "/status/phase");

/// How a Pod is.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodStatus {
    /// `Succeeded` and `Failed` have ended.
    pub phase: String,
}

/// A budget of disruptions.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Budget {
    /// Its metadata.
    pub metadata: ObjectMeta,
    /// For which Pods.
    pub spec: BudgetSpec,
    /// How many of them may be disrupted now.
    pub status: BudgetStatus,
}
view!(Budget as CoreBudget: "/metadata/name", "/metadata/namespace", "/spec/selector", "/status/disruptionsAllowed");

/// For which Pods a budget is.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct BudgetSpec {
    /// Of the budget's namespace; none matches none, an empty one all.
    pub selector: Option<LabelSelector>,
}

/// How many Pods may be disrupted now.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BudgetStatus {
    /// So many.
    pub disruptions_allowed: i32,
}

/// A volume that is attached to a Node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Attachment {
    /// Its metadata.
    pub metadata: ObjectMeta,
}
view!(Attachment as CoreAttachment: "/metadata/name", "/metadata/uid", "/metadata/deletionTimestamp");

impl Attachment {
    /// Its deletion, where that is not under way.
    pub fn deletion(&self) -> Option<Action> {
        if self.metadata.deletion_timestamp.is_some() {
            return None;
        }
        let place = reference::<Attachment>(self.metadata.name.as_deref().unwrap_or_default());
        Some(act::delete(place).uid(self.metadata.uid.clone().unwrap_or_default()).into())
    }
}

/// How far a Node is from being empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Pods to be deleted now.
    pub evict: Vec<Action>,
    /// Pods on their way out, as `namespace/name`.
    pub leaving: Vec<String>,
    /// Pods that a budget keeps for now, as `namespace/name`.
    pub kept: Vec<String>,
}

impl Plan {
    /// Whether nothing is left that had to go.
    pub fn is_done(&self) -> bool {
        self.evict.is_empty() && self.leaving.is_empty() && self.kept.is_empty()
    }

    /// Who is waited for, to follow a sentence; "" for nobody.
    pub fn waits_for(&self) -> String {
        let waits: Vec<String> = self.kept.iter().chain(&self.leaving).cloned().collect();
        if waits.is_empty() { String::new() } else { format!(": {} still there", listed(&waits)) }
    }
}

/// Which Pods of a Node go now. With `force` budgets do not count.
pub fn plan(pods: &[Pod], budgets: &[Budget], force: bool) -> Plan {
    let mut allowed: Vec<i32> = budgets.iter().map(|budget| budget.status.disruptions_allowed).collect();
    let mut plan = Plan::default();
    for pod in pods.iter().filter(|pod| is_moved(pod)) {
        let (namespace, name) = place(&pod.metadata);
        if pod.metadata.deletion_timestamp.is_some() {
            plan.leaving.push(format!("{namespace}/{name}"));
            continue;
        }
        let over: Vec<usize> =
            budgets.iter().enumerate().filter(|(_, budget)| covers(budget, pod)).map(|(at, _)| at).collect();
        let has_ended = matches!(pod.status.phase.as_str(), "Succeeded" | "Failed");
        let may_go =
            force || has_ended || over.iter().all(|&at| allowed.get(at).is_some_and(|&left| left > 0));
        if !may_go {
            plan.kept.push(format!("{namespace}/{name}"));
            continue;
        }
        if !has_ended {
            for at in over {
                if let Some(left) = allowed.get_mut(at) {
                    *left -= 1;
                }
            }
        }
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        plan.evict.push(act::delete(reference::<Pod>((namespace, name))).uid(uid).into());
    }
    plan
}

/// Whether a Pod has to leave a Node that goes: those of DaemonSets and mirrors of files go with it.
fn is_moved(pod: &Pod) -> bool {
    const MIRROR: &str = "kubernetes.io/config.mirror";
    let owners = pod.metadata.owner_references.as_deref().unwrap_or_default();
    let of_daemon_set =
        owners.iter().any(|owner| owner.controller == Some(true) && owner.kind == "DaemonSet");
    let mirror = pod.metadata.annotations.as_ref().is_some_and(|notes| notes.contains_key(MIRROR));
    !of_daemon_set && !mirror
}

fn place(metadata: &ObjectMeta) -> (&str, &str) {
    (metadata.namespace.as_deref().unwrap_or_default(), metadata.name.as_deref().unwrap_or_default())
}

fn covers(budget: &Budget, pod: &Pod) -> bool {
    let Some(selector) = &budget.spec.selector else { return false };
    let none = BTreeMap::new();
    let labels = pod.metadata.labels.as_ref().unwrap_or(&none);
    budget.metadata.namespace == pod.metadata.namespace && selects(selector, labels)
}

fn selects(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    let equal = selector.match_labels.iter().flatten().all(|(key, value)| labels.get(key) == Some(value));
    let none = Vec::new();
    equal
        && selector.match_expressions.iter().flatten().all(|term| {
            let values = term.values.as_ref().unwrap_or(&none);
            let value = labels.get(&term.key);
            match term.operator.as_str() {
                "In" => value.is_some_and(|value| values.contains(value)),
                "NotIn" => value.is_none_or(|value| !values.contains(value)),
                "Exists" => value.is_some(),
                "DoesNotExist" => value.is_none(),
                // An operator of a later Kubernetes: to keep the Pod is the safe side.
                _ => true,
            }
        })
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(pods: &str, budgets: &str, force: bool, expected: Expect) {
        let pods: Vec<Pod> = serde_saphyr::from_str(pods).expect("Pods");
        let budgets: Vec<Budget> = serde_saphyr::from_str(budgets).expect("budgets");
        let plan = plan(&pods, &budgets, force);
        let evicted: Vec<String> = plan
            .evict
            .iter()
            .map(|action| match action {
                Action::Delete(deletion) => deletion.object.name.clone(),
                other => format!("{other:?}"),
            })
            .collect();
        expected.assert_eq(&format!("evict {evicted:?} leaving {:?} kept {:?}", plan.leaving, plan.kept));
    }

    const THREE: &str = "
- {metadata: {namespace: n, name: a, labels: {app: x}}}
- {metadata: {namespace: n, name: b, labels: {app: x}}}
- {metadata: {namespace: n, name: c}}
";
    const ONE_AT_A_TIME: &str = "[{metadata: {namespace: n}, spec: {selector: {matchLabels: {app: x}}}, status: {disruptionsAllowed: 1}}]";

    #[test]
    fn of_a_budget_no_more_go_at_a_time_than_it_allows() {
        check(THREE, ONE_AT_A_TIME, false, expect![[r#"evict ["a", "c"] leaving [] kept ["n/b"]"#]]);
    }

    #[test]
    fn by_force_all_go() {
        check(THREE, ONE_AT_A_TIME, true, expect![[r#"evict ["a", "b", "c"] leaving [] kept []"#]]);
    }

    #[test]
    fn a_budget_of_another_namespace_or_without_a_selector_keeps_nobody() {
        let other = "[{metadata: {namespace: m}, spec: {selector: {}}}, {metadata: {namespace: n}}]";
        check(THREE, other, false, expect![[r#"evict ["a", "b", "c"] leaving [] kept []"#]]);
        let all = "[{metadata: {namespace: n}, spec: {selector: {}}}]";
        check(THREE, all, false, expect![[r#"evict [] leaving [] kept ["n/a", "n/b", "n/c"]"#]]);
    }

    #[test]
    fn daemons_and_mirrors_stay_and_those_that_ended_need_no_budget() {
        let pods = "
- {metadata: {namespace: n, name: daemon, ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: d, uid: u, controller: true}]}}
- {metadata: {namespace: n, name: mirror, annotations: {kubernetes.io/config.mirror: x}}}
- {metadata: {namespace: n, name: ended, labels: {app: x}}, status: {phase: Succeeded}}
- {metadata: {namespace: n, name: leaving, deletionTimestamp: '2026-01-01T00:00:00Z'}}
";
        let none_allowed = ONE_AT_A_TIME.replace("disruptionsAllowed: 1", "disruptionsAllowed: 0");
        check(pods, &none_allowed, false, expect![[r#"evict ["ended"] leaving ["n/leaving"] kept []"#]]);
    }
}
