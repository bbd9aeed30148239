//! A machine's VM from its clone to its end.

use std::time::Duration;

use expect_test::expect;
use serde_json::json;

use crate::support::{World, clone_arguments, owner, word};

fn pretty(value: &serde_json::Value) -> String {
    serde_json::to_string_pretty(value).expect("JSON")
}

#[tokio::test(start_paused = true)]
async fn a_vm_is_cloned_configured_run_and_destroyed() {
    let world = World::new(json!(null));
    let vm = world.cloned().await;
    let answer = world.ask("vm", json!({"vm": vm})).await;
    expect![[r#"
        {
          "result": "hit",
          "vm": {
            "accessible": true,
            "biosUuid": "00000007-0002-4000-8000-000000000002",
            "extraConfig": {
              "reconcilers.owner": "ns/m-0/uid-m-0"
            },
            "guestStateChangeSupported": false,
            "host": "esx-01",
            "instanceUuid": "0f1b2c3d-1111-4222-8333-444455556666",
            "name": "m-0",
            "nics": [
              {
                "connected": false,
                "ips": [],
                "key": 4000,
                "mac": "00:50:56:00:02:00",
                "network": "DC0_DVPG0"
              },
              {
                "connected": false,
                "ips": [],
                "key": 4001,
                "mac": "00:50:56:00:00:aa",
                "network": "VM Network"
              }
            ],
            "owner": "ns/m-0/uid-m-0",
            "power": "off",
            "template": false,
            "toolsRunning": false,
            "vm": "vm-2"
          },
          "watched": true
        }"#]]
    .assert_eq(&pretty(&answer));

    let metadata = json!({"vm": vm, "owner": owner(), "extraConfig": {"guestinfo.metadata": "e30="}});
    assert_eq!(world.finish("reconfigure", metadata.clone()).await["state"], "success");
    assert_eq!(word(&world.perform("reconfigure", metadata).await), "done", "it has these values already");
    assert_eq!(world.finish("power-on", json!({"vm": vm, "owner": owner()})).await["state"], "success");
    assert_eq!(word(&world.perform("power-on", json!({"vm": vm, "owner": owner()})).await), "done");
    tokio::time::sleep(Duration::from_secs(11)).await;
    let answer = world.ask("vm", json!({"vm": vm})).await;
    assert_eq!(answer["vm"]["nics"][0]["ips"], json!(["10.0.7.4"]));

    let task = world.finish("destroy", json!({"vm": vm, "owner": owner()})).await;
    assert_eq!(task["fault"]["type"], "InvalidPowerState", "a running VM is not destroyed");
    assert_eq!(world.finish("power-off", json!({"vm": vm, "owner": owner()})).await["state"], "success");
    assert_eq!(world.finish("destroy", json!({"vm": vm, "owner": owner()})).await["state"], "success");
    assert_eq!(world.result_of("vm", json!({"vm": vm})).await, "absent");
    assert_eq!(word(&world.perform("destroy", json!({"vm": vm, "owner": owner()})).await), "done");
    world.expect(json!({"vms": [], "tasks-max": 1, "calls": [
        "clone m-0", "reconfigure vm-2", "power-on vm-2", "destroy vm-2", "power-off vm-2", "destroy vm-2",
    ]}));
}

#[tokio::test(start_paused = true)]
async fn a_vm_is_found_by_its_uuids_and_by_its_name_but_not_as_a_template() {
    let world = World::new(json!(null));
    let vm = world.cloned().await;
    let by = |kind: &str, uuid: &str| json!({"datacenter": "/DC0", "kind": kind, "uuid": uuid});
    let hit = world.ask("vm-by-uuid", by("instance", "0F1B2C3D-1111-4222-8333-444455556666")).await;
    assert_eq!(hit["vm"]["vm"], json!(vm));
    let bios = hit["vm"]["biosUuid"].as_str().expect("a BIOS UUID").to_owned();
    assert_eq!(world.result_of("vm-by-uuid", by("bios", &bios)).await, "hit");
    assert_eq!(world.result_of("vm-by-uuid", by("instance", &bios)).await, "absent");
    let template = "00000007-0001-4000-8000-000000000001";
    assert_eq!(world.result_of("vm-by-uuid", by("instance", template)).await, "absent");
    let elsewhere = json!({"datacenter": "/DC1", "kind": "bios", "uuid": bios});
    assert_eq!(
        world.result_of("vm-by-uuid", elsewhere).await,
        "absent",
        "a datacenter that is gone has no VMs"
    );
    assert_eq!(world.result_of("vm-by-name", json!({"datacenter": "/DC0", "name": "m-0"})).await, "hit");
    assert_eq!(world.result_of("vm-by-name", json!({"datacenter": "/DC0", "name": "tpl"})).await, "hit");
    let nested = json!({"datacenter": "/DC0", "folder": "/DC0/vm/team-a", "name": "m-0"});
    assert_eq!(world.result_of("vm-by-name", nested).await, "absent");
}

#[tokio::test(start_paused = true)]
async fn two_vms_of_one_uuid_are_ambiguous() {
    let uuid = "0f1b2c3d-1111-4222-8333-444455556666";
    let vm = |vm: &str| json!({"vm": vm, "path": format!("/DC0/vm/{vm}"), "instanceUuid": uuid});
    let world = World::new(json!({"servers": {"vc.example.test": {"vms": [vm("vm-12"), vm("vm-9")]}}}));
    let answer =
        world.ask("vm-by-uuid", json!({"datacenter": "/DC0", "kind": "instance", "uuid": uuid})).await;
    assert_eq!(
        (word(&answer), &answer["vms"][0]["vm"], &answer["vms"][1]["vm"]),
        ("ambiguous".into(), &json!("vm-9"), &json!("vm-12"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_placement_tells_what_is_missing_in_the_order_of_the_question() {
    let world = World::new(json!(null));
    let good = json!({"datacenter": "/DC0", "template": "tpl", "networks": ["DC0_DVPG0", "/DC0/network/VM Network"]});
    expect![[r#"
        {
          "placement": {
            "template": {
              "diskGiB": [
                10
              ],
              "name": "tpl",
              "snapshot": null,
              "vm": "vm-1"
            }
          },
          "result": "hit",
          "watched": false
        }"#]]
    .assert_eq(&pretty(&world.ask("placement", good).await));
    world.control(json!({"add": {"datastore": "/DC0/datastore/ds1"}}));
    let bad = json!({"datacenter": "/DC0", "template": "/DC0/vm/none", "folder": "tpl", "resourcePool": "nope",
        "networks": ["DC0_DVPG0", "nope"]});
    let answer = world.ask("placement", bad).await;
    let missing: Vec<String> =
        answer["missing"].as_array().expect("a list").iter().map(ToString::to_string).collect();
    expect![[r#"
        {"name":"/DC0/vm/none","what":"template","why":"not-found"}
        {"name":"tpl","what":"folder","why":"wrong-kind"}
        {"name":"","what":"datastore","why":"ambiguous"}
        {"name":"nope","what":"resourcePool","why":"not-found"}
        {"name":"nope","what":"network","why":"not-found"}"#]]
    .assert_eq(&missing.join("\n"));
    let snapshot = json!({"datacenter": "/DC0", "template": "tpl", "datastore": "ds0", "snapshot": "base"});
    assert_eq!(world.ask("placement", snapshot).await["missing"][0]["what"], "snapshot");
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_taken_ends_the_clone_in_a_duplicate_name() {
    let world =
        World::new(json!({"servers": {"vc.example.test": {"vms": [{"vm": "vm-7", "path": "/DC0/vm/m-0"}]}}}));
    let task = world.finish("clone", clone_arguments()).await;
    assert_eq!(task["fault"]["type"], "DuplicateName");
}

#[tokio::test(start_paused = true)]
async fn a_vm_of_somebody_else_is_left_alone_whatever_the_operation() {
    let strange = json!({"vm": "vm-7", "path": "/DC0/vm/x", "instanceUuid": "u-2", "biosUuid": "b-2", "owner": "ns/x/u-2"});
    let world = World::new(json!({"servers": {"vc.example.test": {"vms": [strange]}}}));
    let wrong = json!({"uid": "uid-m-0", "biosUuid": "b-1"});
    for operation in ["power-on", "power-off", "shutdown-guest", "destroy", "reconfigure"] {
        let outcome = world.perform(operation, json!({"vm": "vm-7", "owner": wrong})).await;
        assert_eq!(
            outcome,
            json!({"result": "not-ours", "message": "VM vm-7 (x) belongs to ns/x/u-2"}),
            "{operation}"
        );
    }
    world.expect(json!({"calls": []}));
    let by_bios = json!({"uid": "uid-m-0", "biosUuid": "B-2"});
    assert_eq!(word(&world.perform("power-on", json!({"vm": "vm-7", "owner": by_bios})).await), "task");
}
