//! Scenarios 42 to 49 and 57: what a clone waits for and what it is made of.

use evenkeel_sdk::Action;
use expect_test::expect;
use serde_json::Value;

use super::world::*;

/// The arguments of the clone that a pass asks for.
fn clone_of(world: World) -> Value {
    let checked = world.run();
    let operation = checked.performed.iter().find_map(|action| match action {
        Action::External(operation) => Some(operation),
        _ => None,
    });
    serde_json::from_str(&operation.expect("the pass asks for a clone").arguments).unwrap()
}

fn secret(data: &str) -> String {
    format!("{{apiVersion: v1, kind: Secret, metadata: {{namespace: ns, name: boot}}, data: {{{data}}}}}")
}

const BOOT: &str = "bootstrapRef: {name: boot}";

#[test]
fn a_clone_is_made_of_what_the_spec_says() {
    let spec = "cloneMode: fullClone, folder: /DC0/vm/f, datastore: ds0, resourcePool: /DC0/host/C0/Resources, numCPUs: 1, numCoresPerSocket: 1, memoryMiB: 4096, diskGiB: 20, customVMXKeys: {a.b: c}, network: {devices: [{networkName: net, dhcp4: true, macAddr: '00:50:56:aa:bb:01'}, {networkName: n2, dhcp4: true}]}";
    let arguments = clone_of(with("", spec, "").nowhere().placed());
    expect![[r#"
        {
          "cloneMode": "fullClone",
          "datacenter": "/DC0",
          "datastore": "ds0",
          "diskGib": 20,
          "extraConfig": {
            "a.b": "c"
          },
          "folder": "/DC0/vm/f",
          "instanceUuid": "u-1",
          "memoryMib": 4096,
          "name": "m-0",
          "nics": [
            {
              "mac": "00:50:56:aa:bb:01",
              "network": "net"
            },
            {
              "network": "n2"
            }
          ],
          "numCoresPerSocket": 1,
          "numCpus": 2,
          "owner": "ns/m-0/u-1",
          "resourcePool": "/DC0/host/C0/Resources",
          "sensitive": {
            "extraConfig": {}
          },
          "server": "vc",
          "template": "/DC0/vm/tpl"
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&arguments).unwrap());
}

#[test]
fn a_spec_that_says_little_gets_defaults() {
    let arguments = clone_of(with("", "numCPUs: 0, memoryMiB: 0, diskGiB: 0", "").nowhere().placed());
    assert_eq!(arguments["numCpus"], 2);
    assert_eq!(arguments["memoryMib"], 2048);
    for absent in ["diskGib", "numCoresPerSocket", "folder", "datastore", "resourcePool", "snapshot"] {
        assert_eq!(arguments.get(absent), None, "{absent}");
    }
}

#[test]
fn s42_a_device_that_gets_no_address_is_not_cloned() {
    with("", "network: {devices: [{networkName: net}]}", "").nowhere().check(expect![[r#"
        status
          VirtualMachineProvisioned False WaitingForStaticIPAllocation: network.devices[0] has neither DHCP nor addresses
    "#]]);
    with("", "network: {devices: [{networkName: net, skipIPAllocation: true}]}", "")
        .nowhere()
        .placed()
        .check(expect![[r#"
        notes that it begins
        u-1/clone/0
        status cloneMode=fullClone task=Clone taskRef=task-9
          VirtualMachineProvisioned False WaitingForClone
        event Normal TaskStarted: Clone: task-9
        again after 2s
    "#]]);
}

#[test]
fn s43_the_data_of_the_first_boot_is_waited_for() {
    with("", BOOT, "").nowhere().check(expect![[r#"
        status
          VirtualMachineProvisioned False WaitingForBootstrapData: Secret boot is not there yet
    "#]]);
    with("", BOOT, "").nowhere().given(&secret("other: YQ==")).check(expect![[r#"
        status
          VirtualMachineProvisioned False WaitingForBootstrapData: Secret boot has no key "value" yet
    "#]]);
    with("", BOOT, "").nowhere().given(&secret("value: YQ==, format: dG9tbA==")).check(expect![[r#"
        status
          VirtualMachineProvisioned False WaitingForBootstrapData: Secret boot: format has to be cloud-config or ignition
    "#]]);
}

#[test]
fn s44_user_data_that_looks_encoded_is_encoded_once() {
    // The Secret's value is the text dGVzdA==, and stands there encoded.
    let arguments = clone_of(with("", BOOT, "").nowhere().placed().given(&secret("value: ZEdWemRBPT0=")));
    assert_eq!(arguments["sensitive"]["extraConfig"]["guestinfo.userdata"], "ZEdWemRBPT0=");
    assert_eq!(arguments["sensitive"]["extraConfig"]["guestinfo.userdata.encoding"], "base64");
    assert_eq!(
        arguments["extraConfig"],
        serde_json::json!({}),
        "user data stands where it is struck out only"
    );
}

#[test]
fn s45_ignition_has_keys_of_its_own() {
    let boot = secret("value: e30=, format: aWduaXRpb24=");
    let arguments = clone_of(with("", BOOT, "").nowhere().placed().given(&boot));
    assert_eq!(
        arguments["sensitive"]["extraConfig"],
        serde_json::json!({"guestinfo.ignition.config.data": "e30=", "guestinfo.ignition.config.data.encoding": "base64"})
    );
}

const MISSING: &str = "{result: missing, missing: [{what: template, name: /DC0/vm/tpl, why: not-found}, {what: datastore, name: '', why: ambiguous}]}";

#[test]
fn s46_what_is_missing_is_named() {
    machine("").nowhere().answer("placement", "{}", MISSING).check(expect![[r#"
        status
          VirtualMachineProvisioned False NotProvisioned: template /DC0/vm/tpl not found; datastore is not given, and there are several
        event Warning NotProvisioned: template /DC0/vm/tpl not found; datastore is not given, and there are several
        again after 60s
    "#]]);
}

#[test]
fn s46_it_is_told_by_one_event() {
    let said = "conditions: [{type: VirtualMachineProvisioned, status: 'False', reason: NotProvisioned, message: 'template /DC0/vm/tpl not found; datastore is not given, and there are several'}]";
    let checked = machine(said).nowhere().answer("placement", "{}", MISSING).run();
    assert!(!told(&checked).contains("event"), "{checked}");
}

#[test]
fn s47_once_it_is_there_nothing_is_said_of_it_any_more() {
    let said = "conditions: [{type: VirtualMachineProvisioned, status: 'False', reason: NotProvisioned, message: template not found}]";
    machine(said).nowhere().placed().check(expect![[r#"
        notes that it begins
        u-1/clone/0
        status cloneMode=fullClone task=Clone taskRef=task-9
          VirtualMachineProvisioned False WaitingForClone
        event Normal TaskStarted: Clone: task-9
        again after 2s
    "#]]);
}

#[test]
fn s48_a_template_without_a_snapshot_is_copied() {
    let arguments = clone_of(machine("").nowhere().placed());
    assert_eq!(arguments["cloneMode"], "fullClone");
}

#[test]
fn a_linked_clone_hangs_on_the_snapshot_and_keeps_the_size_of_its_disk() {
    let snapshot = "{result: hit, placement: {template: {vm: vm-1, diskGiB: [10], snapshot: snapshot-3}}}";
    let world = || {
        with("", "snapshot: base, diskGiB: 20", "").nowhere().answer(
            "placement",
            "{snapshot: base}",
            snapshot,
        )
    };
    let arguments = clone_of(world());
    assert_eq!((&arguments["cloneMode"], &arguments["snapshot"]), (&"linkedClone".into(), &"base".into()));
    assert_eq!(arguments.get("diskGib"), None);
    world().check(expect![[r#"
        notes that it begins
        u-1/clone/0
        status cloneMode=linkedClone task=Clone taskRef=task-9
          VirtualMachineProvisioned False WaitingForClone
        event Warning DiskSizeIgnored: a linked clone keeps its template's disk: diskGiB 20 has no effect
        event Normal TaskStarted: Clone: task-9
        again after 2s
    "#]]);
}

#[test]
fn s49_a_disk_smaller_than_the_templates_cannot_be() {
    with("", "diskGiB: 5", "").nowhere().placed().check(expect![[r#"
        status failureMessage=diskGiB 5 is less than the template's 10 failureReason=InvalidConfiguration
          VirtualMachineProvisioned False NotProvisioned: diskGiB 5 is less than the template's 10
        event Warning NotProvisioned: diskGiB 5 is less than the template's 10
    "#]]);
}

#[test]
fn a_network_that_contradicts_itself_waits_for_its_edit() {
    with("", "network: {devices: [{networkName: net, dhcp6: true, gateway4: 10.0.0.1}]}", "").check(expect![
        [r#"
        status
          VirtualMachineProvisioned False NotProvisioned: network.devices[0]: gateway4 without an IPv4 address
        event Warning NotProvisioned: network.devices[0]: gateway4 without an IPv4 address
    "#]
    ]);
}

#[test]
fn s57_a_vm_that_vanished_is_cloned_anew_where_the_machine_says_so() {
    with(
        "annotations: {reconcilers.dev/recreate-missing-vm: 'true'}",
        "providerID: vsphere://b-1",
        "machineRef: vm-7, biosUUID: b-1, instanceUUID: u-1, ready: true, initialization: {provisioned: true}",
    )
    .nowhere()
    .placed()
    .check(expect![[r#"
        patches {"spec":{"providerID":null}}
        notes that it begins
        u-1/clone/0
        status cloneMode=fullClone initialization=true ready=false task=Clone taskRef=task-9
          VirtualMachineProvisioned False WaitingForClone
        event Normal TaskStarted: Clone: task-9
        again after 2s
    "#]]);
}
