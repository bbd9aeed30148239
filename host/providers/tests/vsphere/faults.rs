//! What goes wrong, and that nothing is started twice or lost for it.

use std::sync::Arc;

use evenkeel_core::contract::Operation;
use evenkeel_providers::Provider;
use evenkeel_providers::vsphere::Vsphere;
use evenkeel_providers::vsphere::credentials::Login;
use evenkeel_providers::vsphere::limits::CallLimits;
use evenkeel_providers::vsphere::simulated::{ServerConfig, Simulated};
use expect_test::expect;
use serde_json::{Value, json};

use crate::support::{SERVER, World, caller, clone_arguments, owner, word};

fn by_uuid() -> Value {
    json!({"datacenter": "/DC0", "kind": "instance", "uuid": "0f1b2c3d-1111-4222-8333-444455556666"})
}

#[tokio::test(start_paused = true)]
async fn an_operation_is_started_once_under_its_key() {
    let world = World::new(json!(null));
    let first = world.perform_as("k", "clone", clone_arguments()).await;
    let again = world.perform_as("k", "clone", clone_arguments()).await;
    assert_eq!((&first, word(&first)), (&again, "task".into()));
    world.expect(json!({"calls": ["clone m-0"]}));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_timed_out_after_it_took_effect_is_not_made_again() {
    let world = World::new(json!(null));
    world.control(json!({"fault": {"method": "clone", "reason": "Timeout", "effect": "written"}}));
    let outcome = world.perform_as("k", "clone", clone_arguments()).await;
    assert_eq!(
        outcome,
        json!({"result": "unknown", "reason": "Timeout", "message": "vCenter vc.example.test: no answer in time"})
    );
    // It is found while it runs, by the template's tasks.
    assert_eq!(
        world.perform_as("k", "clone", clone_arguments()).await,
        json!({"result": "task", "task": "task-1"})
    );
    world.expect(json!({"calls": ["clone m-0"]}));
}

#[tokio::test(start_paused = true)]
async fn a_clone_that_ended_before_anybody_looked_is_found_by_its_uuid() {
    let world = World::new(json!(null));
    world.control(json!({"fault": {"method": "clone", "reason": "Unreachable", "effect": "written"}}));
    assert_eq!(word(&world.perform_as("k", "clone", clone_arguments()).await), "unknown");
    world.control(json!({"finish-tasks": {}}));
    assert_eq!(
        world.perform_as("k", "clone", clone_arguments()).await,
        json!({"result": "done", "vm": "vm-2"})
    );
    world.expect(json!({"calls": ["clone m-0"]}));
}

#[tokio::test(start_paused = true)]
async fn a_restarted_host_finds_what_is_under_way() {
    let vm = json!({"vm": "vm-7", "path": "/DC0/vm/m-0", "owner": "ns/m-0/uid-m-0", "biosUuid": "b-1"});
    let config: ServerConfig = serde_json::from_value(json!({"vms": [vm]})).expect("a good configuration");
    let vcenter = Arc::new(Simulated::start(&config, 1));
    let on = Operation {
        key: "k".into(),
        provider: "vsphere".into(),
        operation: "power-on".into(),
        arguments: json!({"server": SERVER, "vm": "vm-7", "owner": owner()}).to_string().into(),
    };
    // Each process has a provider of its own, which knows nothing of what the one before did.
    let perform = async || {
        let login = Login { user: "u".into(), password: "p".into() };
        let far_end = Arc::<Simulated>::clone(&vcenter);
        let vsphere = Vsphere::new().with(SERVER, far_end, Arc::new(login), CallLimits::unpaced());
        vsphere.perform(&caller("m-0"), &on).await.expect("an outcome").expect("an answer").to_string()
    };
    assert_eq!(perform().await, r#"{"result":"task","task":"task-1"}"#);
    assert_eq!(perform().await, r#"{"result":"task","task":"task-1"}"#, "it is the one under way");
    tokio::time::sleep(std::time::Duration::from_secs(4)).await;
    assert_eq!(perform().await, r#"{"result":"done"}"#, "and it is done");
}

#[tokio::test(start_paused = true)]
async fn clones_that_start_at_once_take_each_its_own_task() {
    let world = World::new(json!(null));
    let machines: Vec<_> = (0..50).map(|number| caller(&format!("m-{number}"))).collect();
    let clones = machines.iter().map(async |caller| {
        let mut arguments = clone_arguments();
        arguments["name"] = json!(caller.object.name);
        arguments["server"] = json!(SERVER);
        let operation = Operation {
            key: "k".into(),
            provider: "vsphere".into(),
            operation: "clone".into(),
            arguments: arguments.to_string().into(),
        };
        world
            .twin
            .provider()
            .perform(caller, &operation)
            .await
            .expect("an outcome")
            .expect("an answer")
            .to_string()
    });
    let mut tasks = futures::future::join_all(clones).await;
    tasks.sort();
    tasks.dedup();
    assert_eq!(tasks.len(), 50, "{tasks:?}");
}

#[tokio::test(start_paused = true)]
async fn a_refused_call_leaves_the_key_free() {
    let world = World::new(json!(null));
    let vm = world.cloned().await;
    world.control(
        json!({"fault": {"method": "power-on", "fault": {"type": "NoPermission", "message": "No."}}}),
    );
    let outcome = world.perform_as("k", "power-on", json!({"vm": vm, "owner": owner()})).await;
    assert_eq!(outcome, json!({"result": "fault", "fault": {"type": "NoPermission", "message": "No."}}));
    assert_eq!(word(&world.perform_as("k", "power-on", json!({"vm": vm, "owner": owner()})).await), "task");
}

#[tokio::test(start_paused = true)]
async fn a_lookup_that_fails_is_unknown_and_never_absent() {
    let world = World::new(json!(null));
    let mut seen = Vec::new();
    for reason in ["Unreachable", "Timeout", "BadAnswer", "NotAuthenticated", "NoPermission", "Fault"] {
        world.control(json!({"fault": {"method": "vm-by-uuid", "reason": reason}}));
        seen.push(world.ask("vm-by-uuid", by_uuid()).await.to_string());
    }
    expect![[r#"
        {"message":"vCenter vc.example.test: connection refused","reason":"Unreachable","result":"unknown"}
        {"message":"vCenter vc.example.test: no answer in time","reason":"Timeout","result":"unknown"}
        {"message":"vCenter vc.example.test: the answer is no XML","reason":"BadAnswer","result":"unknown"}
        {"message":"vCenter vc.example.test: the session could not be renewed","reason":"NotAuthenticated","result":"unknown"}
        {"message":"vCenter vc.example.test: NoPermission: Permission to perform this operation was denied.","reason":"NoPermission","result":"unknown"}
        {"message":"vCenter vc.example.test: SystemError: A general system error occurred.","reason":"Fault","result":"unknown"}"#]]
    .assert_eq(&seen.join("\n"));
    assert_eq!(world.result_of("vm-by-uuid", by_uuid()).await, "absent");
}

#[tokio::test(start_paused = true)]
async fn a_session_that_was_dropped_is_renewed_and_nobody_notices() {
    let world = World::new(json!(null));
    assert_eq!(world.result_of("vm-by-uuid", by_uuid()).await, "absent");
    world.control(json!({"drop-session": {}}));
    assert_eq!(world.result_of("vm-by-uuid", by_uuid()).await, "absent");
    let counts = world.twin.provider().counts();
    assert_eq!(counts["vc.example.test"]["Login"].calls, 2);
}

#[tokio::test(start_paused = true)]
async fn a_wrong_password_is_tried_once_and_then_left_alone_for_a_while() {
    let world = World::new(json!(null));
    world.control(json!({"login": {"works": false}}));
    for _ in 0..5 {
        assert_eq!(world.ask("vm-by-uuid", by_uuid()).await["reason"], "InvalidLogin");
    }
    assert_eq!(world.twin.provider().counts()["vc.example.test"]["Login"].calls, 1);
    world.control(json!({"login": {"works": true}}));
    tokio::time::sleep(std::time::Duration::from_secs(31)).await;
    assert_eq!(world.result_of("vm-by-uuid", by_uuid()).await, "absent");
}

#[tokio::test(start_paused = true)]
async fn a_full_datastore_fails_the_task() {
    let world = World::new(json!(null));
    world.control(json!({"datastore-full": {"path": "/DC0/datastore/ds0"}}));
    let task = world.finish("clone", clone_arguments()).await;
    assert_eq!(
        task["fault"],
        json!({"type": "NoDiskSpace", "message": "Insufficient disk space on datastore 'ds0'."})
    );
}

#[tokio::test(start_paused = true)]
async fn arguments_that_do_not_fit_are_refused_without_their_values() {
    let world = World::new(json!(null));
    let mut arguments = clone_arguments();
    arguments["sensitive"] = json!({"extraConfig": {"guestinfo.userdata": 5}});
    let refused = world.try_perform("k", "clone", arguments).await.expect_err("a number is no text");
    assert!(refused.message.starts_with("arguments of clone: a value does not fit"), "{}", refused.message);
    let unknown = world.try_perform("k", "power-on", json!({"vm": "vm-1", "owner": owner(), "x": 1})).await;
    assert!(unknown.expect_err("an unknown member").message.contains("unknown field `x`"));
    let none = world.try_perform("k", "format", json!({})).await.expect_err("no such operation");
    assert_eq!(none.message, "vsphere has no operation \"format\"");
    let server = world.twin.provider();
    let query = evenkeel_core::contract::ExternalQuery {
        provider: "vsphere".into(),
        question: "vm".into(),
        arguments: r#"{"server": "other", "vm": "vm-1"}"#.into(),
    };
    let answer =
        evenkeel_providers::Provider::answer(server, &world.caller, &query).await.expect("an answer");
    assert_eq!(
        &*answer,
        r#"{"result":"unknown","reason":"NotConfigured","message":"the host knows no vCenter named \"other\""}"#
    );
}
