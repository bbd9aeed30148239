//! A VM's life over HTTP and TLS.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_providers::Provider;
use evenkeel_providers::vsphere::Vsphere;
use evenkeel_providers::vsphere::limits::CallLimits;
use evenkeel_providers::vsphere::tls::Trust;
use serde_json::json;
use tokio::time::Instant;

use crate::support::{World, login, owner, query, soap};

#[tokio::test]
async fn a_vm_is_cloned_configured_run_and_destroyed() {
    let Some(world) = World::start("a VM's life") else { return };
    live(&world).await;
}

/// The whole life of a VM, whatever the vCenter is spoken to in.
pub async fn live(world: &World) {
    let task = world.finish("clone", world.clone_arguments("m-0")).await;
    assert_eq!(task["state"], "success", "{task}");
    let vm = task["vm"].as_str().expect("a VM").to_owned();
    let seen = world.ask("vm", json!({"vm": vm})).await;
    let view = &seen["vm"];
    assert_eq!(
        (&view["name"], &view["power"], &view["owner"]),
        (&json!("m-0"), &json!("off"), &json!("ns/m-0/uid-m-0"))
    );
    assert_eq!(view["nics"][0]["network"], "VM Network");
    assert_eq!(
        (&view["nics"][1]["network"], &view["nics"][1]["mac"]),
        (&json!("DC0_DVPG0"), &json!("00:50:56:00:00:aa"))
    );
    assert!(view["nics"][0]["mac"].as_str().is_some_and(|mac| !mac.is_empty()), "{view}");

    let metadata = json!({"guestinfo.metadata": "e30=", "guestinfo.metadata.encoding": "base64"});
    let reconfigure = json!({"vm": vm, "owner": owner("m-0"), "extraConfig": metadata});
    assert_eq!(world.finish("reconfigure", reconfigure.clone()).await["state"], "success");
    assert_eq!(world.perform("reconfigure", reconfigure).await, json!({"result": "done"}));
    let on_vm = json!({"vm": vm, "owner": owner("m-0")});
    assert_eq!(world.finish("power-on", on_vm.clone()).await["state"], "success");
    let found = world
        .ask(
            "vm-by-uuid",
            json!({"datacenter": "/DC0", "kind": "instance", "uuid": crate::support::uuid("m-0")}),
        )
        .await;
    assert_eq!((&found["vm"]["vm"], &found["vm"]["power"]), (&json!(vm), &json!("on")));

    let destroyed = world.finish("destroy", on_vm.clone()).await;
    assert_eq!(
        (&destroyed["fault"]["type"], &destroyed["fault"]["existing"]),
        (&json!("InvalidPowerState"), &json!("poweredOn"))
    );
    assert_eq!(world.finish("power-off", on_vm.clone()).await["state"], "success");
    assert_eq!(world.finish("destroy", on_vm.clone()).await["state"], "success");
    assert_eq!(world.ask("vm", json!({"vm": vm})).await, json!({"result": "absent"}));
    assert_eq!(world.perform("destroy", on_vm).await, json!({"result": "done"}));
}

#[tokio::test]
async fn the_end_of_a_task_and_a_new_address_are_told_of_within_a_second() {
    let Some(world) = World::start("telling of changes") else { return };
    tell(&world).await;
}

/// A task's end and an address, told as they come.
pub async fn tell(world: &World) {
    let task = world.finish("clone", world.clone_arguments("m-0")).await;
    let vm = task["vm"].as_str().expect("a VM").to_owned();
    world.vcsim.control("task-delay?PowerOn=1500").expect("a delay");
    let started = Instant::now();
    assert_eq!(world.finish("power-on", json!({"vm": vm, "owner": owner("m-0")})).await["state"], "success");
    let took = started.elapsed();
    assert!(took > Duration::from_millis(1400) && took < Duration::from_millis(2500), "{took:?}");

    let of_vm = query("vm", json!({"vm": vm}));
    let seen = world.ask_query(&world.caller, of_vm.clone()).await;
    assert_eq!((&seen["watched"], &seen["vm"]["nics"][0]["ips"]), (&json!(true), &json!([])));
    let (before, told) = (world.told(&of_vm), Instant::now());
    world.vcsim.control(&format!("guest-ip?vm={vm}&card=0&ip=10.0.0.9&ip=fe80::1")).expect("an address");
    world.told_again(&of_vm, before).await;
    assert!(told.elapsed() < Duration::from_secs(1), "{:?}", told.elapsed());
    let seen = world.ask("vm", json!({"vm": vm})).await;
    assert_eq!(seen["vm"]["nics"][0]["ips"], json!(["10.0.0.9", "fe80::1"]));
}

#[tokio::test]
async fn a_server_is_trusted_by_its_authority_or_its_thumbprint_and_by_nothing_else() {
    let Some(world) = World::start("trust") else { return };
    let thumbprint =
        |sha1: bool| Trust::Thumbprint(world.vcsim.thumbprint(sha1).parse().expect("a thumbprint"));
    let wrong = Trust::Thumbprint("00".repeat(32).parse().expect("a thumbprint"));
    let ask = async |trust: &Trust| {
        let far_end = Arc::new(soap(&world.vcsim, trust));
        let vsphere = Vsphere::new().with("vc", far_end, Arc::new(login()), CallLimits::default());
        let query = evenkeel_core::contract::ExternalQuery {
            provider: "vsphere".into(),
            question: "vm".into(),
            arguments: r#"{"server": "vc", "vm": "vm-0"}"#.into(),
        };
        vsphere.answer(&world.caller, &query).await.expect("an answer").to_string()
    };
    assert_eq!(ask(&thumbprint(true)).await, r#"{"result":"absent"}"#);
    assert_eq!(ask(&thumbprint(false)).await, r#"{"result":"absent"}"#);
    let refused = ask(&wrong).await;
    assert!(refused.contains(r#""reason":"Unreachable""#) && refused.contains("not trusted"), "{refused}");
}
