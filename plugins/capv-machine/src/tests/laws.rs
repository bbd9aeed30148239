//! What holds whatever the object says of itself and whatever vCenter answers.

use evenkeel_sdk::check::Checked;
use evenkeel_sdk::{Action, Operation};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::world::*;

/// One of many situations, most of which no vCenter would ever be in.
#[derive(Clone, Debug)]
struct Situation {
    deleted: bool,
    paused: bool,
    recreate: bool,
    provider_id: bool,
    machine_ref: bool,
    /// What the task in flight is for, and how old it is in seconds.
    task: Option<(&'static str, i64)>,
    /// The clone that was begun and whose task was never noted.
    begun: bool,
    name_taken: bool,
    retry_after: bool,
    task_answer: &'static str,
    by_reference: VmIs,
    by_uuid: VmIs,
    by_name: VmIs,
    placement: &'static str,
    outcome: &'static str,
    mode: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum VmIs {
    Absent,
    Unknown,
    Ours(&'static str, Metadata),
    Foreign(&'static str),
    Inaccessible,
    Template,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Metadata {
    Right,
    Wrong,
}

const TASKS: &[&str] = &[
    "queued",
    "running",
    "success",
    "success-vm",
    "error",
    "duplicate",
    "busy",
    "weird",
    "absent",
    "unknown",
];
const OUTCOMES: &[&str] = &[
    "{result: task, task: task-9}",
    "{result: done}",
    "{result: absent}",
    "{result: fault, fault: {type: DuplicateName, message: taken}}",
    "{result: fault, fault: {type: NoPermission, message: no}}",
    "{result: not-ours, message: no}",
    UNREACHABLE,
];
const OPERATIONS: &[&str] = &["Clone", "Reconfigure", "PowerOn", "PowerOff", "Destroy"];

fn a_vm() -> impl Strategy<Value = VmIs> {
    let power = prop::sample::select(&["on", "off", "suspended"]);
    prop_oneof![
        Just(VmIs::Absent),
        Just(VmIs::Unknown),
        Just(VmIs::Inaccessible),
        Just(VmIs::Template),
        (power.clone(), prop::sample::select(&[Metadata::Right, Metadata::Wrong]))
            .prop_map(|(power, metadata)| VmIs::Ours(power, metadata)),
        power.prop_map(VmIs::Foreign),
    ]
}

fn situation() -> impl Strategy<Value = Situation> {
    let flags = any::<(bool, bool, bool, bool, bool, bool)>();
    let task = prop::option::of((prop::sample::select(OPERATIONS), prop::sample::select(&[5_i64, 1200])));
    let answers = (prop::sample::select(TASKS), a_vm(), a_vm(), a_vm());
    let ends = (
        prop::sample::select(&[
            "{result: hit, placement: {template: {diskGiB: [10]}}}",
            UNREACHABLE,
            "{result: missing, missing: []}",
        ]),
        prop::sample::select(OUTCOMES),
        prop::sample::select(&["hard", "soft", "trySoft"]),
    );
    // Paused and waiting are told quickly: most situations go past them.
    (flags, task, answers, ends, 0..8_u8, 0..8_u8).prop_map(|(flags, task, answers, ends, pause, wait)| {
        let (deleted, recreate, provider_id, machine_ref, begun, name_taken) = flags;
        let (task_answer, by_reference, by_uuid, by_name) = answers;
        let (placement, outcome, mode) = ends;
        Situation {
            deleted,
            paused: pause == 0,
            recreate,
            provider_id,
            machine_ref,
            task,
            begun: begun && task.is_none(),
            name_taken,
            retry_after: wait == 0,
            task_answer,
            by_reference,
            by_uuid,
            by_name,
            placement,
            outcome,
            mode,
        }
    })
}

fn answer(is: VmIs) -> String {
    let hit = |vm: Value| json!({"result": "hit", "vm": vm}).to_string();
    match is {
        VmIs::Absent => ABSENT.to_owned(),
        VmIs::Unknown => UNREACHABLE.to_owned(),
        VmIs::Inaccessible => hit(vm("accessible: false, instanceUuid: '', owner: null")),
        VmIs::Template => hit(vm("template: true")),
        VmIs::Foreign(power) => {
            hit(vm(&format!("power: '{power}', instanceUuid: u-2, biosUuid: b-2, owner: ns/m-0/u-2")))
        }
        VmIs::Ours(power, metadata) => {
            let extra = if metadata == Metadata::Right { "" } else { ", extraConfig: {}" };
            hit(vm(&format!("power: '{power}', toolsRunning: true, guestStateChangeSupported: true{extra}")))
        }
    }
}

impl Situation {
    fn run(&self) -> Checked {
        let mut metadata = Vec::new();
        let mut annotations = Vec::new();
        if self.deleted {
            metadata.push("deletionTimestamp: '2026-01-01T11:00:00Z'".to_owned());
        }
        if self.paused {
            annotations.push("cluster.x-k8s.io/paused: ''");
        }
        if self.recreate {
            annotations.push("reconcilers.dev/recreate-missing-vm: 'true'");
        }
        metadata.push(format!("annotations: {{{}}}", annotations.join(", ")));
        let mut spec = vec![format!("powerOffMode: {}", self.mode)];
        if self.provider_id {
            spec.push("providerID: vsphere://b-1".to_owned());
        }
        let mut status = vec!["operations: 7".to_owned()];
        if self.machine_ref {
            status.push("machineRef: vm-7".to_owned());
        }
        if let Some((operation, age)) = self.task {
            let started = if age < 30 { JUST_NOW } else { LONG_AGO };
            status.push(format!("taskRef: task-1, task: {{operation: {operation}, startedAt: '{started}'}}"));
        }
        if self.begun {
            status.push(format!("task: {{operation: Clone, startedAt: '{LONG_AGO}'}}"));
        }
        if self.name_taken {
            status.push(format!("nameTakenSince: '{LONG_AGO}'"));
        }
        if self.retry_after {
            status.push(
                "retryAfter: '2026-01-01T12:00:30Z', retry: {operation: Destroy, failures: 1}".to_owned(),
            );
        }
        let task = match self.task_answer {
            "absent" => ABSENT.to_owned(),
            "unknown" => UNREACHABLE.to_owned(),
            "success-vm" => "{result: hit, task: {state: success, vm: vm-7}}".to_owned(),
            "error" => "{result: hit, task: {state: error, fault: {type: A, message: b}}}".to_owned(),
            "duplicate" => "{result: hit, task: {state: error, fault: {type: DuplicateName}}}".to_owned(),
            "busy" => "{result: hit, task: {state: error, fault: {type: TaskInProgress}}}".to_owned(),
            state => format!("{{result: hit, task: {{state: {state}}}}}"),
        };
        let mut world = with(&metadata.join(", "), &spec.join(", "), &status.join(", "))
            .answer("task", "{}", &task)
            .answer("vm", "{}", &answer(self.by_reference))
            .answer("vm-by-uuid", "{}", &answer(self.by_uuid))
            .answer("vm-by-name", "{}", &answer(self.by_name))
            .answer("placement", "{}", self.placement);
        for operation in crate::seam::OPERATIONS {
            world = world.outcome(operation, self.outcome);
        }
        world.run()
    }

    /// The VM that a lookup leads to, where it leads to one of ours.
    fn found(&self, asks_by_reference: bool) -> Option<(&'static str, Metadata)> {
        match (asks_by_reference, self.by_reference, self.by_uuid) {
            (true, VmIs::Ours(power, metadata), _) => Some((power, metadata)),
            (true, VmIs::Absent | VmIs::Foreign(_) | VmIs::Template, VmIs::Ours(power, metadata)) => {
                Some((power, metadata))
            }
            (false, _, VmIs::Ours(power, metadata)) => Some((power, metadata)),
            _ => None,
        }
    }

    fn is_settled(&self) -> bool {
        self.task.is_none_or(|(_, age)| match self.task_answer {
            "queued" | "running" | "weird" | "unknown" => false,
            "absent" => age >= 30,
            _ => true,
        })
    }
}

fn operations(checked: &Checked) -> Vec<&Operation> {
    let all = checked.performed.iter();
    all.filter_map(|action| match action {
        Action::External(operation) => Some(operation),
        _ => None,
    })
    .collect()
}

/// The last status that a pass writes.
fn written(checked: &Checked) -> Option<Value> {
    let end = checked.end.as_ref().map(|end| end.actions.as_slice()).unwrap_or_default();
    let all = checked.performed.iter().chain(end);
    let mut statuses = all.filter_map(|action| match action {
        Action::ApplyStatus(apply) => Some(apply),
        _ => None,
    });
    statuses.next_back().map(|apply| serde_json::from_str::<Value>(&apply.object).unwrap()["status"].clone())
}

fn lets_go(checked: &Checked) -> bool {
    let end = checked.end.as_ref().map(|end| end.actions.as_slice()).unwrap_or_default();
    end.iter().any(|action| matches!(action, Action::RemoveFinalizer(_)))
}

type Law = fn(&Situation, &Checked) -> bool;

/// Each law with the sentence that it is.
const LAWS: &[(&str, Law)] = &[
    ("a pass takes one step at most", one_step),
    ("nothing is started while a task may be in flight, or while the machine is paused", one_task),
    ("only our own VM is touched, and only as its state allows", own_vm),
    ("an object goes only when its VM is found nowhere", nothing_left),
    ("what nobody knows changes no reference", unknown_is_unknown),
    ("a machine that waits looks again", looks_again),
];

fn one_step(situation: &Situation, checked: &Checked) -> bool {
    let words: Vec<_> = operations(checked).iter().map(|it| it.operation.as_str()).collect();
    // A guest that would not listen was not touched.
    let refused = words == ["shutdown-guest", "power-off"] && situation.outcome.contains("fault");
    words.len() <= 1 || refused
}

fn one_task(situation: &Situation, checked: &Checked) -> bool {
    let may_act = !situation.paused && situation.is_settled();
    may_act || (operations(checked).is_empty() && !lets_go(checked))
}

fn own_vm(situation: &Situation, checked: &Checked) -> bool {
    let from_task = situation.task.is_some() && situation.task_answer == "success-vm";
    let found = situation.found(situation.machine_ref || from_task);
    let deleted = situation.deleted;
    operations(checked).iter().all(|operation| match (operation.operation.as_str(), found) {
        ("clone", found) => !deleted && found.is_none() && (!situation.provider_id || situation.recreate),
        ("reconfigure", Some((_, metadata))) => !deleted && metadata == Metadata::Wrong,
        ("power-on", Some((power, metadata))) => !deleted && power != "on" && metadata == Metadata::Right,
        ("power-off" | "shutdown-guest", Some((power, _))) => deleted && power == "on",
        ("destroy", Some((power, _))) => deleted && power != "on",
        _ => false,
    })
}

fn nothing_left(situation: &Situation, checked: &Checked) -> bool {
    let leads_nowhere = matches!(situation.by_reference, VmIs::Absent | VmIs::Foreign(_) | VmIs::Template);
    let is_gone = situation.by_uuid == VmIs::Absent && (!situation.machine_ref || leads_nowhere);
    !lets_go(checked) || (situation.deleted && situation.is_settled() && is_gone)
}

fn unknown_is_unknown(situation: &Situation, checked: &Checked) -> bool {
    let task = situation.task.is_some() && situation.task_answer == "unknown";
    let vm = situation.task.is_none() && situation.machine_ref && situation.by_reference == VmIs::Unknown;
    let asks = !situation.paused && !(situation.retry_after);
    if !(asks && (task || vm)) {
        return true;
    }
    let status = written(checked).expect("it says that vCenter cannot be asked");
    checked.end.is_err()
        && status.get("taskRef").is_some() == situation.task.is_some()
        && status.get("machineRef").is_some() == situation.machine_ref
}

/// Nothing here is watched: what is not looked at again has to be done, paused, gone, or has failed and is retried.
fn looks_again(situation: &Situation, checked: &Checked) -> bool {
    let Ok(end) = &checked.end else { return true };
    let status = written(checked).unwrap_or_default();
    let is_done = status["ready"] == true && status["conditions"].to_string().contains("\"Provisioned\"");
    end.requeue_after.is_some() || is_done || situation.paused || lets_go(checked)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn the_laws_hold_in_any_situation(situation in situation()) {
        let checked = situation.run();
        for (law, holds) in LAWS {
            prop_assert!(holds(&situation, &checked), "{law}:\n{checked}");
        }
    }
}
