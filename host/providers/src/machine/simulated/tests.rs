//! The provider on the simulated cloud: calls as a plugin makes them, answers as it gets them.

use std::time::Duration;

use evenkeel_core::contract::{ExternalQuery, Gvk, ObjectRef, Operation};
use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::MachineTwin;
use crate::provider::{Caller, Provider};
use crate::twins::Twin;

/// Runs commands, one a line: `status m1`, `create m1`, `list CLASS`, `collect {ORPHANS}`, `wait SECONDS`, `control {…}`,
/// `expect {…}`. Prints what came of each.
fn check(config: Value, script: &str, expected: Expect) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    let text = runtime.block_on(async {
        let twin = MachineTwin::new(&config).expect("a configuration");
        let mut text = String::new();
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (word, rest) = line.split_once(' ').expect("a word and the rest");
            let outcome = match word {
                "wait" => {
                    tokio::time::sleep(Duration::from_secs(rest.parse().expect("seconds"))).await;
                    "so be it".to_owned()
                }
                "control" => format!("{:?}", twin.control(&serde_json::from_str(rest).expect("a command"))),
                "expect" => format!("{:?}", twin.expect(&serde_json::from_str(rest).expect("a wish"))),
                call => run(&*twin.as_provider(), call, rest).await,
            };
            text += &format!("{line}\n  {outcome}\n");
        }
        text + &format!("invariants {:?}\n", twin.invariants())
    });
    expected.assert_eq(&text);
}

fn class(uid: &str) -> Value {
    json!({"name": "a", "uid": uid, "provider": "sim", "providerSpec": {}})
}

async fn run(provider: &dyn Provider, call: &str, machine: &str) -> String {
    let object =
        ObjectRef::new(Gvk::new("machine.sapcloud.io", "v1alpha1", "Machine"), Some("shoot"), machine);
    let caller = Caller { plugin: "machine-class".into(), object, uid: Some(format!("U-{machine}")) };
    let arguments = json!({
        "machine": {"namespace": "shoot", "name": machine, "uid": format!("U-{machine}")},
        "class": class("a"),
        "sensitive": {"secretData": {"user": "Z29vZA=="}},
    });
    let name = "machine".into();
    let outcome = match call {
        "create" | "initialize" | "delete" | "token" => {
            let arguments = if call == "token" { json!({"uid": format!("U-{machine}")}) } else { arguments };
            let operation = Operation {
                key: format!("{call}/U-{machine}"),
                provider: name,
                operation: call.into(),
                arguments: arguments.to_string().into(),
            };
            provider.perform(&caller, &operation).await.map(|answer| answer.unwrap_or_default())
        }
        "collect" => {
            let orphans: Value = serde_json::from_str(machine).expect("orphans");
            let operation = Operation {
                key: "collect/C".into(),
                provider: name,
                operation: call.into(),
                arguments: json!({"class": class("C"), "sensitive": arguments["sensitive"], "orphans": orphans, "waitSeconds": 900})
                    .to_string()
                    .into(),
            };
            provider.perform(&caller, &operation).await.map(|answer| answer.unwrap_or_default())
        }
        question => {
            let arguments = match question {
                "operations" => json!({"uid": format!("U-{machine}")}),
                "list" => json!({"class": class(machine), "sensitive": arguments["sensitive"]}),
                _ => arguments,
            };
            let query = ExternalQuery {
                provider: name,
                question: question.into(),
                arguments: arguments.to_string().into(),
            };
            provider.answer(&caller, &query).await
        }
    };
    match outcome {
        Ok(answer) => answer.to_string(),
        Err(failure) => format!("{:?}: {}", failure.kind, failure.message),
    }
}

#[test]
fn a_vm_is_made_once_found_and_deleted_with_its_disk() {
    check(
        json!({}),
        r#"
        status m1
        create m1
        create m1
        status m1
        list a
        operations m1
        expect {"leftovers": ["disk-of-vm-1"]}
        delete m1
        delete m1
        operations m1
        expect {"vms": [], "leftovers": [], "calls": ["create shoot/m1", "create shoot/m1", "delete shoot/m1", "delete shoot/m1"]}
        "#,
        expect![[r#"
            status m1
              {"code":"NotFound","kind":"not-found","message":"machine codes error: code = [NotFound] message = [there is no such VM]","result":"failed"}
            create m1
              {"addresses":[{"address":"10.0.0.2","type":"InternalIP"}],"nodeName":"m1","providerID":"sim:///vm-1","result":"done"}
            create m1
              {"addresses":[{"address":"10.0.0.2","type":"InternalIP"}],"nodeName":"m1","providerID":"sim:///vm-1","result":"done"}
            status m1
              {"addresses":[{"address":"10.0.0.2","type":"InternalIP"}],"nodeName":"m1","providerID":"sim:///vm-1","result":"done"}
            list a
              {"machines":{"sim:///vm-1":"m1"},"result":"done","suspected":[]}
            operations m1
              {"operations":["create/U-m1"]}
            expect {"leftovers": ["disk-of-vm-1"]}
              Ok(())
            delete m1
              {"lastKnownState":"","result":"done"}
            delete m1
              {"lastKnownState":"","result":"done"}
            operations m1
              {"operations":[]}
            expect {"vms": [], "leftovers": [], "calls": ["create shoot/m1", "create shoot/m1", "delete shoot/m1", "delete shoot/m1"]}
              Ok(())
            invariants []
        "#]],
    );
}

#[test]
fn what_was_done_although_its_answer_was_lost_is_found_again() {
    check(
        json!({"nodeNames": "generated"}),
        r#"
        control {"fault": {"call": "create", "code": "DeadlineExceeded", "effect": "written"}}
        create m1
        create m1
        control {"fault": {"call": "*", "code": "ResourceExhausted", "message": "full"}}
        create m2
        create m2
        expect {"vms": [{"machine": "shoot/m1", "nodeName": "vm-1"}, {"machine": "shoot/m2"}]}
        "#,
        expect![[r#"
            control {"fault": {"call": "create", "code": "DeadlineExceeded", "effect": "written"}}
              Ok(())
            create m1
              {"code":"DeadlineExceeded","kind":"transient","message":"machine codes error: code = [DeadlineExceeded] message = [the cloud has a bad day]","result":"failed"}
            create m1
              {"addresses":[{"address":"10.0.0.2","type":"InternalIP"}],"nodeName":"vm-1","providerID":"sim:///vm-1","result":"done"}
            control {"fault": {"call": "*", "code": "ResourceExhausted", "message": "full"}}
              Ok(())
            create m2
              {"code":"ResourceExhausted","kind":"transient","message":"machine codes error: code = [ResourceExhausted] message = [full]","result":"failed","retryAfterSeconds":600}
            create m2
              {"addresses":[{"address":"10.0.0.3","type":"InternalIP"}],"nodeName":"vm-2","providerID":"sim:///vm-2","result":"done"}
            expect {"vms": [{"machine": "shoot/m1", "nodeName": "vm-1"}, {"machine": "shoot/m2"}]}
              Ok(())
            invariants []
        "#]],
    );
}

#[test]
fn wrong_credentials_are_told_from_missing_vms() {
    check(
        json!({"credentials": {"user": "other"}}),
        r#"
        create m1
        control {"credentials": {"user": "good"}}
        create m1
        "#,
        expect![[r#"
            create m1
              {"code":"Unauthenticated","kind":"denied","message":"machine codes error: code = [Unauthenticated] message = [the cloud does not know these credentials]","result":"failed"}
            control {"credentials": {"user": "good"}}
              Ok(())
            create m1
              {"addresses":[{"address":"10.0.0.2","type":"InternalIP"}],"nodeName":"m1","providerID":"sim:///vm-1","result":"done"}
            invariants []
        "#]],
    );
}

#[test]
fn a_vm_that_vanishes_leaves_its_disks_until_it_is_deleted() {
    check(
        json!({"vms": [{"machine": "shoot/m1", "uid": "U-m1", "providerID": "sim:///vm-7", "leftovers": ["d"]}]}),
        r#"
        control {"remove-vm": "sim:///vm-7"}
        control {"remove-vm": "sim:///vm-7"}
        status m1
        expect {"vms": [], "leftovers": ["d"]}
        delete m1
        expect {"leftovers": []}
        "#,
        expect![[r#"
            control {"remove-vm": "sim:///vm-7"}
              Ok(())
            control {"remove-vm": "sim:///vm-7"}
              Err(Missing("VM \"sim:///vm-7\""))
            status m1
              {"code":"NotFound","kind":"not-found","message":"machine codes error: code = [NotFound] message = [there is no such VM]","result":"failed"}
            expect {"vms": [], "leftovers": ["d"]}
              Ok(())
            delete m1
              {"lastKnownState":"","result":"done"}
            expect {"leftovers": []}
              Ok(())
            invariants []
        "#]],
    );
}

#[test]
fn a_vm_that_has_to_be_initialised_says_so() {
    check(
        json!({"initialize": "needed"}),
        r#"
        create m1
        initialize m1
        status m1
        "#,
        expect![[r#"
            create m1
              {"addresses":[{"address":"10.0.0.2","type":"InternalIP"}],"nodeName":"m1","providerID":"sim:///vm-1","result":"done","uninitialized":true}
            initialize m1
              {"addresses":[{"address":"10.0.0.2","type":"InternalIP"}],"nodeName":"m1","providerID":"sim:///vm-1","result":"done"}
            status m1
              {"addresses":[{"address":"10.0.0.2","type":"InternalIP"}],"nodeName":"m1","providerID":"sim:///vm-1","result":"done"}
            invariants []
        "#]],
    );
}

#[test]
fn several_vms_of_one_machine_are_nobodys_guess() {
    check(
        json!({"vms": [
            {"machine": "shoot/m1", "uid": "U-m1", "providerID": "sim:///vm-7"},
            {"machine": "shoot/m1", "uid": "U-m1", "providerID": "sim:///vm-8"},
        ]}),
        "status m1\ndelete m1\nexpect {\"vms\": []}",
        expect![[r#"
            status m1
              {"code":"OutOfRange","kind":"invalid","message":"machine codes error: code = [OutOfRange] message = [several VMs: sim:///vm-7, sim:///vm-8]","result":"failed"}
            delete m1
              {"code":"OutOfRange","kind":"invalid","message":"machine codes error: code = [OutOfRange] message = [several VMs: sim:///vm-7, sim:///vm-8]","result":"failed"}
            expect {"vms": []}
              Err(["vms: expected [], found [{\"initialized\":true,\"machine\":\"shoot/m1\",\"nodeName\":\"m1\",\"providerID\":\"sim:///vm-7\",\"uid\":\"U-m1\"},{\"initialized\":true,\"machine\":\"shoot/m1\",\"nodeName\":\"m1\",\"providerID\":\"sim:///vm-8\",\"uid\":\"U-m1\"}]"])
            invariants []
        "#]],
    );
}

#[test]
fn what_is_not_known_is_refused_by_name() {
    check(
        json!({}),
        "stutas m1\ncontrol {\"explode\": 1}",
        expect![[r#"
        stutas m1
          Invalid: the provider machine has no question "stutas"
        control {"explode": 1}
          Err(NotUnderstood { what: "machine", cause: "unknown variant `explode`, expected one of `fault`, `credentials`, `remove-vm`, `add-vm`" })
        invariants []
    "#]],
    );
}

#[test]
fn what_takes_its_time_is_under_way_until_then() {
    check(
        json!({"taskSeconds": 30}),
        "create m1\nstatus m1\nwait 31\nstatus m1\ndelete m1\nstatus m1\nwait 31\nstatus m1\ndelete m1\nexpect {\"vms\": [], \"leftovers\": []}",
        expect![[r#"
            create m1
              {"message":"sim:///vm-1 is being made","result":"under-way","watched":false}
            status m1
              {"message":"sim:///vm-1 is being made","result":"under-way","watched":false}
            wait 31
              so be it
            status m1
              {"addresses":[{"address":"10.0.0.2","type":"InternalIP"}],"nodeName":"m1","providerID":"sim:///vm-1","result":"done"}
            delete m1
              {"message":"sim:///vm-1 is being deleted","result":"under-way","watched":false}
            status m1
              {"message":"sim:///vm-1 is being deleted","result":"under-way","watched":false}
            wait 31
              so be it
            status m1
              {"code":"NotFound","kind":"not-found","message":"machine codes error: code = [NotFound] message = [there is no such VM]","result":"failed"}
            delete m1
              {"lastKnownState":"","result":"done"}
            expect {"vms": [], "leftovers": []}
              Ok(())
            invariants []
        "#]],
    );
}

#[test]
fn an_orphan_goes_when_it_was_one_for_long_enough_and_ever_since() {
    check(
        json!({"vms": [
            {"machine": "shoot/m1", "uid": "U-m1", "providerID": "sim:///vm-7", "class": "C", "leftovers": ["disk-of-vm-7", "disk-of-vm-8"]},
            {"machine": "shoot/m1", "uid": "U-m1", "providerID": "sim:///vm-8", "class": "C"},
            {"machine": "shoot/m1", "uid": "U-m1", "providerID": "sim:///vm-9", "class": "other"},
        ]}),
        r#"
        list C
        collect {"sim:///vm-8": "m1"}
        list C
        wait 600
        collect {}
        collect {"sim:///vm-8": "m1"}
        wait 600
        collect {"sim:///vm-8": "m1"}
        wait 300
        control {"fault": {"call": "delete", "code": "Unavailable"}}
        collect {"sim:///vm-8": "m1"}
        collect {"sim:///vm-8": "m1"}
        list C
        expect {"vms": [{"providerID": "sim:///vm-7"}, {"providerID": "sim:///vm-9"}], "leftovers": ["disk-of-vm-7"]}
        "#,
        expect![[r#"
            list C
              {"machines":{"sim:///vm-7":"m1","sim:///vm-8":"m1"},"result":"done","suspected":[]}
            collect {"sim:///vm-8": "m1"}
              {"orphans":[{"providerID":"sim:///vm-8","seconds":900,"state":"waits"}],"result":"done"}
            list C
              {"machines":{"sim:///vm-7":"m1","sim:///vm-8":"m1"},"result":"done","suspected":["sim:///vm-8"]}
            wait 600
              so be it
            collect {}
              {"orphans":[],"result":"done"}
            collect {"sim:///vm-8": "m1"}
              {"orphans":[{"providerID":"sim:///vm-8","seconds":900,"state":"waits"}],"result":"done"}
            wait 600
              so be it
            collect {"sim:///vm-8": "m1"}
              {"orphans":[{"providerID":"sim:///vm-8","seconds":300,"state":"waits"}],"result":"done"}
            wait 300
              so be it
            control {"fault": {"call": "delete", "code": "Unavailable"}}
              Ok(())
            collect {"sim:///vm-8": "m1"}
              {"orphans":[{"message":"machine codes error: code = [Unavailable] message = [the cloud has a bad day]","providerID":"sim:///vm-8","state":"failed"}],"result":"done"}
            collect {"sim:///vm-8": "m1"}
              {"orphans":[{"providerID":"sim:///vm-8","state":"deleted"}],"result":"done"}
            list C
              {"machines":{"sim:///vm-7":"m1"},"result":"done","suspected":[]}
            expect {"vms": [{"providerID": "sim:///vm-7"}, {"providerID": "sim:///vm-9"}], "leftovers": ["disk-of-vm-7"]}
              Ok(())
            invariants []
        "#]],
    );
}

#[test]
fn a_token_is_another_one_each_time_and_no_operation_that_a_vm_may_come_of() {
    check(
        json!({}),
        r#"
        token m1
        token m1
        operations m1
        "#,
        expect![[r#"
            token m1
              {"token":"5ne3rvlo565dtk4p"}
            token m1
              {"token":"zc0vgbk88fkemwpy"}
            operations m1
              {"operations":[]}
            invariants []
        "#]],
    );
}
