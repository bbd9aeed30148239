//! Scenarios 107 to 114 of the specification have files of their own; these are the decisions one by one.

use evenkeel_sdk::FailureKind;
use evenkeel_sdk::act;
use evenkeel_sdk::check::Check;
use expect_test::{Expect, expect};
use serde_json::{Value, json};

use crate::Kite;
use crate::identity::Identity;
use crate::render::service::{Which, service};

fn id() -> Identity {
    Identity { namespace: "tenant-a".into(), name: "vm-a".into(), uid: "U1".into() }
}

fn right(which: Which) -> Value {
    let mut object = service(&id(), which);
    object["metadata"]["ownerReferences"] = json!([id().owner()]);
    object
}

fn machine(status: &Value) -> Value {
    json!({
        "apiVersion": "anacnu.com/v1", "kind": "KiteVirtualMachine",
        "metadata": {"namespace": "tenant-a", "name": "vm-a", "uid": "U1", "generation": 1},
        "spec": {"cpu": 2, "memory": "4Gi", "disk": "25Gi", "image": "ubuntu-22.04", "sshId": "alice"},
        "status": status,
    })
}

/// A pass of the web Service, which `edit` changes; none takes it away.
fn pass(edit: Option<fn(&mut Value)>) -> Check {
    let pass = Check::of::<Kite>("vm-service")
        .key("tenant-a/vps-web-vm-a")
        .given("{apiVersion: v1, kind: Namespace, metadata: {name: tenant-a}}")
        .object(machine(&json!({})))
        .object(right(Which::Ssh));
    let Some(edit) = edit else { return pass };
    let mut web = right(Which::Web);
    edit(&mut web);
    pass.object(web)
}

fn check(pass: Check, expected: Expect) {
    expected.assert_eq(&crate::machine::tests::brief(&pass.run()));
}

#[test]
fn right_services_are_in_sync() {
    check(
        pass(Some(|_| {})),
        expect![[r#"
        apply-status KiteVirtualMachine tenant-a/vm-a force
          none none generation=null domain=none
            ServicesReady True/InSync both Services are as they should be
    "#]],
    );
    // What the server fills in is nobody's drift.
    check(
        pass(Some(|web| web["spec"]["clusterIP"] = "10.0.0.1".into())),
        expect![[r#"
        apply-status KiteVirtualMachine tenant-a/vm-a force
          none none generation=null domain=none
            ServicesReady True/InSync both Services are as they should be
    "#]],
    );
}

#[test]
fn each_field_is_put_right() {
    check(
        pass(Some(|web| web["spec"]["ports"][0]["targetPort"] = 8080.into())),
        expect![[r#"
        apply Service tenant-a/vps-web-vm-a force
        event Normal Repaired about KiteVirtualMachine tenant-a/vm-a: the Service vps-web-vm-a was changed and is put right: spec.ports
        apply-status KiteVirtualMachine tenant-a/vm-a force
          none none generation=null domain=none
            ServicesReady True/Repaired the Service vps-web-vm-a was changed and is put right: spec.ports
    "#]],
    );
    check(
        pass(Some(|web| web["spec"]["ports"][0]["name"] = "x".into())),
        expect![[r#"
        apply Service tenant-a/vps-web-vm-a force
        event Normal Repaired about KiteVirtualMachine tenant-a/vm-a: the Service vps-web-vm-a was changed and is put right: spec.ports
        apply-status KiteVirtualMachine tenant-a/vm-a force
          none none generation=null domain=none
            ServicesReady True/Repaired the Service vps-web-vm-a was changed and is put right: spec.ports
    "#]],
    );
    check(
        pass(Some(|web| web["spec"]["type"] = "NodePort".into())),
        expect![[r#"
        apply Service tenant-a/vps-web-vm-a force
        event Normal Repaired about KiteVirtualMachine tenant-a/vm-a: the Service vps-web-vm-a was changed and is put right: spec.type
        apply-status KiteVirtualMachine tenant-a/vm-a force
          none none generation=null domain=none
            ServicesReady True/Repaired the Service vps-web-vm-a was changed and is put right: spec.type
    "#]],
    );
    check(
        pass(Some(|web| web["spec"]["selector"]["kite.anacnu.com/kite-vm-name"] = "vm-b".into())),
        expect![[r#"
            apply Service tenant-a/vps-web-vm-a force
            event Normal Repaired about KiteVirtualMachine tenant-a/vm-a: the Service vps-web-vm-a was changed and is put right: spec.selector
            apply-status KiteVirtualMachine tenant-a/vm-a force
              none none generation=null domain=none
                ServicesReady True/Repaired the Service vps-web-vm-a was changed and is put right: spec.selector
        "#]],
    );
    check(
        pass(Some(|web| web["metadata"]["ownerReferences"] = json!([]))),
        expect![[r#"
        apply Service tenant-a/vps-web-vm-a force
        event Normal Repaired about KiteVirtualMachine tenant-a/vm-a: the Service vps-web-vm-a was changed and is put right: metadata.ownerReferences
        apply-status KiteVirtualMachine tenant-a/vm-a force
          none none generation=null domain=none
            ServicesReady True/Repaired the Service vps-web-vm-a was changed and is put right: metadata.ownerReferences
    "#]],
    );
    check(
        pass(None),
        expect![[r#"
        apply Service tenant-a/vps-web-vm-a force
        event Normal Repaired about KiteVirtualMachine tenant-a/vm-a: the Service vps-web-vm-a was missing and is made again
        apply-status KiteVirtualMachine tenant-a/vm-a force
          none none generation=null domain=none
            ServicesReady True/Repaired the Service vps-web-vm-a was missing and is made again
    "#]],
    );
}

#[test]
fn what_an_apply_cannot_take_away_is_told() {
    check(
        pass(Some(|web| web["spec"]["selector"]["app"] = "mine".into())),
        expect![[r#"
        apply-status KiteVirtualMachine tenant-a/vm-a force
          none none generation=null domain=none
            ServicesReady False/ForeignFields fields of somebody else that an apply cannot take away: vps-web-vm-a spec.selector.app
    "#]],
    );
    check(
        pass(Some(|web| {
            web["spec"]["ports"].as_array_mut().unwrap().push(json!({"name": "x", "port": 443}))
        })),
        expect![[r#"
            apply-status KiteVirtualMachine tenant-a/vm-a force
              none none generation=null domain=none
                ServicesReady False/ForeignFields fields of somebody else that an apply cannot take away: vps-web-vm-a spec.ports 443/TCP
        "#]],
    );
}

#[test]
fn a_repair_stays_to_be_read() {
    let repaired = json!({"conditions": [{"type": "ServicesReady", "status": "True", "reason": "Repaired", "message": "so"}]});
    check(
        pass(Some(|_| {})).object(machine(&repaired)),
        expect![[r#"
        apply-status KiteVirtualMachine tenant-a/vm-a force
          none none generation=null domain=none
            ServicesReady True/Repaired so
    "#]],
    );
}

#[test]
fn what_is_said_already_is_not_said_again() {
    let said = json!({"conditions": [{"type": "ServicesReady", "status": "True", "reason": "InSync", "observedGeneration": 1}]});
    check(
        pass(Some(|_| {})).object(machine(&said)),
        expect![[r#"
        nothing to do
    "#]],
    );
}

#[test]
fn a_sibling_that_is_wrong_is_left_to_its_own_pass() {
    let mut ssh = right(Which::Ssh);
    ssh["spec"]["type"] = "NodePort".into();
    check(
        pass(Some(|_| {})).object(ssh),
        expect![[r#"
        nothing to do
    "#]],
    );
}

#[test]
fn a_machine_that_goes_or_is_invalid_has_nothing_put_right() {
    let edit: Option<fn(&mut Value)> = Some(|web| web["spec"]["type"] = "NodePort".into());
    let mut going = machine(&json!({}));
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    check(
        pass(edit).object(going),
        expect![[r#"
        nothing to do
    "#]],
    );
    let mut invalid = machine(&json!({}));
    invalid["spec"]["cpu"] = 0.into();
    check(
        pass(edit).object(invalid),
        expect![[r#"
        nothing to do
    "#]],
    );
}

#[test]
fn a_service_of_somebody_else_is_left_alone() {
    check(
        pass(Some(|web| web["metadata"]["labels"]["kite.anacnu.com/kite-vm-namespace"] = "tenant-b".into())),
        expect![[r#"
            nothing to do
        "#]],
    );
    check(
        pass(Some(|web| web["metadata"]["ownerReferences"][0]["uid"] = "U0".into())),
        expect![[r#"
        nothing to do
    "#]],
    );
}

#[test]
fn a_rejected_repair_is_told_and_tried_later() {
    let edit: Option<fn(&mut Value)> = Some(|web| web["spec"]["type"] = "NodePort".into());
    let action = act::apply(&right(Which::Web)).into();
    check(
        pass(edit).failed(FailureKind::Invalid, "422 Invalid: nodePort", Some(action), 1),
        expect![[r#"
        apply-status KiteVirtualMachine tenant-a/vm-a force
          none none generation=null domain=none
            ServicesReady False/ApplyFailed apply Service/vps-web-vm-a: 422 Invalid: nodePort
        requeue after 60s
    "#]],
    );
}
