//! Scenarios 23 to 41, 80 to 82, 87 and 88: metadata, power, addresses.

use evenkeel_sdk::Action;
use expect_test::{Expect, expect};
use serde_json::Value;

use super::world::*;
use crate::metadata::of_vm;

const HAS_VM: &str = "machineRef: vm-7, instanceUUID: u-1, operations: 2";
const MAC: &str = "00:50:56:aa:bb:01";

fn check(vm: &Value, expected: Expect) {
    machine(HAS_VM).by_reference(vm).check(expected);
}

fn of(network: &str, vm: &Value, expected: Expect) {
    with("", &format!("network: {{{network}}}"), HAS_VM).by_reference(vm).check(expected);
}

/// The pairs that a pass has written into the VM.
fn reconfigured(world: World) -> std::collections::BTreeMap<String, String> {
    let checked = world.run();
    let operation = checked.performed.iter().find_map(|action| match action {
        Action::External(operation) => Some(operation),
        _ => None,
    });
    let operation = operation.expect("the pass reconfigures");
    assert_eq!(operation.operation, "reconfigure");
    let arguments: Value = serde_json::from_str(&operation.arguments).unwrap();
    serde_json::from_value(arguments["extraConfig"].clone()).unwrap()
}

#[test]
fn s23_a_vm_whose_metadata_is_right_is_switched_on() {
    check(
        &vm(""),
        expect![[r#"
        u-1/power-on/2
        status machineRef=vm-7 task=PowerOn taskRef=task-9
          VirtualMachineProvisioned False PoweringOn
        event Normal TaskStarted: PowerOn: task-9
        again after 2s
    "#]],
    );
}

#[test]
fn s24_other_metadata_is_written_and_nothing_else() {
    check(
        &vm("extraConfig: {guestinfo.metadata: aW5zdGFuY2UtaWQ6IHg=, guestinfo.metadata.encoding: base64}"),
        expect![[r#"
        u-1/reconfigure/2/9d2b30b35bab
        status machineRef=vm-7 task=Reconfigure taskRef=task-9
          VirtualMachineProvisioned False Reconfiguring
        event Normal TaskStarted: Reconfigure: task-9
        again after 2s
    "#]],
    );
    let pairs = reconfigured(machine(HAS_VM).by_reference(&vm("extraConfig: {}")));
    assert_eq!(pairs.keys().collect::<Vec<_>>(), ["guestinfo.metadata", "guestinfo.metadata.encoding"]);
}

#[test]
fn s25_a_running_vm_gets_its_metadata_and_stays_on() {
    check(
        &vm("power: 'on', extraConfig: {}"),
        expect![[r#"
        u-1/reconfigure/2/9d2b30b35bab
        status machineRef=vm-7 task=Reconfigure taskRef=task-9
          VirtualMachineProvisioned False Reconfiguring
        event Normal TaskStarted: Reconfigure: task-9
        again after 2s
    "#]],
    );
}

#[test]
fn s28_metadata_that_is_no_base64_is_written_anew() {
    check(
        &vm("extraConfig: {guestinfo.metadata: '%%%', guestinfo.metadata.encoding: base64}"),
        expect![[r#"
        u-1/reconfigure/2/9d2b30b35bab
        status machineRef=vm-7 task=Reconfigure taskRef=task-9
          VirtualMachineProvisioned False Reconfiguring
        event Normal TaskStarted: Reconfigure: task-9
        again after 2s
    "#]],
    );
}

#[test]
fn s29_s30_a_running_vm_without_an_address_is_waited_for() {
    check(
        &running(""),
        expect![[r#"
        status machineRef=vm-7
          VirtualMachineProvisioned False WaitingForIPAllocation: network.devices[0] has not all of its addresses yet
        again after 10s
    "#]],
    );
    check(
        &running("fe80::250:56ff:feaa:bb01"),
        expect![[r#"
        status machineRef=vm-7
          VirtualMachineProvisioned False WaitingForIPAllocation: network.devices[0] has not all of its addresses yet
        again after 10s
    "#]],
    );
    check(
        &running("127.0.0.1"),
        expect![[r#"
        status machineRef=vm-7
          VirtualMachineProvisioned False WaitingForIPAllocation: network.devices[0] has not all of its addresses yet
        again after 10s
    "#]],
    );
}

#[test]
fn s31_a_running_vm_with_its_address_is_ready() {
    check(
        &running("10.0.0.5"),
        expect![[r#"
        patches {"spec":{"providerID":"vsphere://b-1"}}
        status addresses=10.0.0.5,m-0 biosUUID=b-1 initialization=true machineRef=vm-7 ready=true
          VirtualMachineProvisioned True Provisioned
        event Normal Provisioned: vm-7 is ready
    "#]],
    );
}

#[test]
fn s31_a_machine_that_is_ready_has_nothing_written_again() {
    let status = "machineRef: vm-7, instanceUUID: u-1, biosUUID: b-1, ready: true, initialization: {provisioned: true}";
    with("", "providerID: vsphere://b-1", status).by_reference(&running("10.0.0.5")).check(expect![[r#"
        status addresses=10.0.0.5,m-0 biosUUID=b-1 initialization=true machineRef=vm-7 ready=true
          VirtualMachineProvisioned True Provisioned
    "#]]);
}

#[test]
fn s32_without_a_bios_uuid_there_is_no_provider_id() {
    let mut vm = running("10.0.0.5");
    vm["biosUuid"] = "".into();
    check(
        &vm,
        expect![[r#"
        status addresses=10.0.0.5,m-0 machineRef=vm-7
          VirtualMachineProvisioned False WaitingForBIOSUUID: vCenter has not given the VM a BIOS UUID yet
        again after 10s
    "#]],
    );
}

const TWO: &str = "devices: [{networkName: net, dhcp4: true}, {networkName: net, dhcp4: true}]";
const MAC2: &str = "00:50:56:aa:bb:02";

fn two_cards(network: &str, first: &str, second: &str) -> Value {
    vm(&format!(
        "power: 'on', nics: [{{mac: '{MAC}', network: net, connected: true, ips: [{first}]}}, {{mac: '{MAC2}', network: net, connected: true, ips: [{second}]}}], extraConfig: {}",
        metadata(&format!("{{{network}}}"), &[MAC, MAC2])
    ))
}

#[test]
fn s33_a_device_that_is_skipped_is_not_waited_for() {
    let network =
        "devices: [{networkName: net, dhcp4: true}, {networkName: net, dhcp4: true, skipIPAllocation: true}]";
    of(
        network,
        &two_cards(network, "10.0.0.5", ""),
        expect![[r#"
        patches {"spec":{"providerID":"vsphere://b-1"}}
        status addresses=10.0.0.5,m-0 biosUUID=b-1 initialization=true machineRef=vm-7 ready=true
          VirtualMachineProvisioned True Provisioned
        event Normal Provisioned: vm-7 is ready
    "#]],
    );
}

#[test]
fn s34_each_device_is_waited_for() {
    of(
        TWO,
        &two_cards(TWO, "10.0.0.5", ""),
        expect![[r#"
        status addresses=10.0.0.5,m-0 machineRef=vm-7
          VirtualMachineProvisioned False WaitingForIPAllocation: network.devices[1] has not all of its addresses yet
        again after 10s
    "#]],
    );
}

fn one_card(network: &str, ip: &str) -> Value {
    let mut vm = running(ip);
    vm["extraConfig"] = serde_json::from_str(&metadata(&format!("{{{network}}}"), &[MAC])).unwrap();
    vm
}

#[test]
fn s35_s36_a_static_address_has_to_be_reported() {
    let network = "devices: [{networkName: net, ipAddrs: [10.0.0.11/24]}]";
    of(
        network,
        &one_card(network, "10.0.0.99"),
        expect![[r#"
        status addresses=10.0.0.99,m-0 machineRef=vm-7
          VirtualMachineProvisioned False WaitingForIPAllocation: network.devices[0] has not all of its addresses yet
        again after 10s
    "#]],
    );
    of(
        network,
        &one_card(network, "10.0.0.11"),
        expect![[r#"
        patches {"spec":{"providerID":"vsphere://b-1"}}
        status addresses=10.0.0.11,m-0 biosUUID=b-1 initialization=true machineRef=vm-7 ready=true
          VirtualMachineProvisioned True Provisioned
        event Normal Provisioned: vm-7 is ready
    "#]],
    );
}

#[test]
fn s37_both_families_are_waited_for_where_both_are_asked_for() {
    let network = "devices: [{networkName: net, dhcp4: true, dhcp6: true}]";
    of(
        network,
        &one_card(network, "10.0.0.5"),
        expect![[r#"
        status addresses=10.0.0.5,m-0 machineRef=vm-7
          VirtualMachineProvisioned False WaitingForIPAllocation: network.devices[0] has not all of its addresses yet
        again after 10s
    "#]],
    );
}

#[test]
fn s38_a_mac_address_counts_in_any_case() {
    let mut vm = running("10.0.0.5");
    vm["nics"][0]["mac"] = MAC.to_uppercase().into();
    check(
        &vm,
        expect![[r#"
        patches {"spec":{"providerID":"vsphere://b-1"}}
        status addresses=10.0.0.5,m-0 biosUUID=b-1 initialization=true machineRef=vm-7 ready=true
          VirtualMachineProvisioned True Provisioned
        event Normal Provisioned: vm-7 is ready
    "#]],
    );
}

#[test]
fn s39_a_card_that_has_not_appeared_is_waited_for() {
    of(
        TWO,
        &vm(""),
        expect![[r#"
        status machineRef=vm-7
          VirtualMachineProvisioned False WaitingForNetworkAddress: the VM has 1 of 2 network cards
        again after 2s
    "#]],
    );
}

#[test]
fn s40_a_card_too_many_is_shown_and_not_rendered() {
    let vm = vm(&format!("nics: [{{mac: '{MAC}', network: net}}, {{mac: '{MAC2}', network: n2}}]"));
    check(
        &vm,
        expect![[r#"
        u-1/power-on/2
        status machineRef=vm-7 task=PowerOn taskRef=task-9
          VirtualMachineProvisioned False PoweringOn
        event Normal TaskStarted: PowerOn: task-9
        again after 2s
    "#]],
    );
    let status = machine(HAS_VM).by_reference(&vm).run().to_string();
    assert!(status.contains(MAC2), "{status}");
}

#[test]
fn s41_a_card_without_a_mac_address_is_waited_for() {
    check(
        &vm("nics: [{mac: '', network: net}], extraConfig: {}"),
        expect![[r#"
        status machineRef=vm-7
          VirtualMachineProvisioned False WaitingForNetworkAddress: network card 0 has no MAC address yet
        again after 2s
    "#]],
    );
}

const READY: &str = "machineRef: vm-7, instanceUUID: u-1, biosUUID: b-1, operations: 3, ready: true, initialization: {provisioned: true}, conditions: [{type: VirtualMachineProvisioned, status: 'True', reason: Provisioned}]";

fn ready(vm: &Value, expected: Expect) {
    with("", "providerID: vsphere://b-1", READY).by_reference(vm).check(expected);
}

#[test]
fn s80_a_machine_that_somebody_switched_off_is_switched_on_and_stays_ready() {
    ready(
        &vm(""),
        expect![[r#"
        u-1/power-on/3
        status biosUUID=b-1 initialization=true machineRef=vm-7 ready=true task=PowerOn taskRef=task-9
          VirtualMachineProvisioned False PoweringOn
        event Normal TaskStarted: PowerOn: task-9
        again after 2s
    "#]],
    );
}

#[test]
fn s81_another_address_is_shown() {
    ready(
        &running("10.0.0.77"),
        expect![[r#"
        status addresses=10.0.0.77,m-0 biosUUID=b-1 initialization=true machineRef=vm-7 ready=true
          VirtualMachineProvisioned True Provisioned
    "#]],
    );
}

#[test]
fn a_ready_machine_that_loses_its_address_says_so_and_stays_provisioned() {
    ready(
        &running(""),
        expect![[r#"
        status biosUUID=b-1 initialization=true machineRef=vm-7 ready=true
          VirtualMachineProvisioned False WaitingForIPAllocation: network.devices[0] has not all of its addresses yet
        again after 10s
    "#]],
    );
}

#[test]
fn s82_a_suspended_vm_is_resumed() {
    check(
        &vm("power: suspended"),
        expect![[r#"
        u-1/power-on/2
        status machineRef=vm-7 task=PowerOn taskRef=task-9
          VirtualMachineProvisioned False PoweringOn
        event Normal TaskStarted: PowerOn: task-9
        again after 2s
    "#]],
    );
}

#[test]
fn s87_routes_of_the_machine_are_told_to_each_card() {
    let network = "{devices: [{networkName: net, dhcp4: true}, {networkName: net, dhcp4: true}], routes: [{to: default, via: 10.0.0.1}]}";
    let world = with("", &format!("network: {network}"), HAS_VM).by_reference(&two_cards(TWO, "", ""));
    let document = of_vm(&reconfigured(world)).unwrap();
    let routes: Vec<_> =
        document.network.ethernets.iter().map(|(id, card)| (id.as_str(), card.routes.len())).collect();
    assert_eq!(routes, [("id0", 1), ("id1", 1)]);
}

#[test]
fn s88_a_quote_in_a_domain_stays_a_quote() {
    let network = "{devices: [{networkName: net, dhcp4: true, searchDomains: ['a\"b']}]}";
    let world = with("", &format!("network: {network}"), HAS_VM).by_reference(&vm(""));
    let document = of_vm(&reconfigured(world)).unwrap();
    assert_eq!(document.network.ethernets["id0"].nameservers.search, ["a\"b"]);
}

#[test]
fn the_same_metadata_has_the_same_key_and_other_metadata_another() {
    let key = |network: &str| {
        let world = with("", &format!("network: {network}"), HAS_VM).by_reference(&vm("extraConfig: {}"));
        told(&world.run()).lines().next().unwrap().to_owned()
    };
    let one = key("{devices: [{networkName: net, dhcp4: true}]}");
    assert_eq!(one, key("{devices: [{networkName: net, dhcp4: true}]}"));
    assert_ne!(one, key("{devices: [{networkName: net, dhcp4: true, mtu: 9000}]}"));
}

#[test]
fn a_vm_that_is_watched_is_not_polled() {
    let hit = serde_json::json!({"result": "hit", "vm": running(""), "watched": true}).to_string();
    machine(HAS_VM).answer("vm", "{}", &hit).check(expect![[r#"
        status machineRef=vm-7
          VirtualMachineProvisioned False WaitingForIPAllocation: network.devices[0] has not all of its addresses yet
    "#]]);
}

#[test]
fn what_is_so_already_is_looked_at_again() {
    machine(HAS_VM).by_reference(&vm("")).outcome("power-on", "{result: done}").check(expect![[r#"
        u-1/power-on/2
        status machineRef=vm-7
          VirtualMachineProvisioned False PoweringOn
        again after 2s
    "#]]);
}

#[test]
fn a_vm_that_is_gone_when_it_is_to_be_changed_is_looked_up_again() {
    machine(HAS_VM).by_reference(&vm("")).outcome("power-on", "{result: absent}").check(expect![[r#"
        u-1/power-on/2
        status
          VirtualMachineProvisioned False PoweringOn
        again after 2s
    "#]]);
}

#[test]
fn a_vm_that_the_host_finds_not_ours_is_left_alone() {
    machine(HAS_VM)
        .by_reference(&vm(""))
        .outcome("power-on", "{result: not-ours, message: vm-7 is another machine's}")
        .check(expect![[r#"
            u-1/power-on/2
            status machineRef=vm-7
              VirtualMachineProvisioned False NotOurs: vm-7 is another machine's
            event Warning NotOurs: vm-7 is another machine's
            again after 60s
        "#]]);
}
