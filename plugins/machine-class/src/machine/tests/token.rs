//! Bootstrap tokens: made before the VM, and taken away when nobody is to join with them any more.

use evenkeel_sdk::Action;

use super::*;

/// User data `join <<BOOTSTRAP_TOKEN>>`.
const WANTS_TOKEN: &str = "{apiVersion: v1, kind: Secret, metadata: {namespace: shoot, name: s1}, data: {userData: am9pbiA8PEJPT1RTVFJBUF9UT0tFTj4+}}";
/// The id that follows from the UID `U1`.
const ID: &str = "dmc2pe";
/// The secret half that is there, and the one that is drawn.
const THERE: &str = "fedcba9876543210";
const DRAWN: &str = "0123456789abcdef";

const NOTED: Given =
    Given { metadata: ", annotations: {evenkeel.dev/bootstrap-token: dmc2pe}", spec: "", status: NEW };

/// The Secret of the token, of a machine, valid until then.
fn secret(of: &str, until: &str) -> String {
    use base64::Engine;
    let base64 = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    format!(
        "{{apiVersion: v1, kind: Secret, metadata: {{namespace: kube-system, name: bootstrap-token-{ID}, uid: S1, annotations: {{evenkeel.dev/machine-uid: {of}}}}}, data: {{token-secret: {}, expiration: {}}}}}",
        base64(THERE),
        base64(until)
    )
}

fn makes(machine: &Given) -> Check {
    with_class(machine, "")
        .given(WANTS_TOKEN)
        .answers("machine", "status", "{}", &failed("NotFound"))
        .performs("machine", "token", &format!("{{token: {DRAWN}}}"))
        .performs("machine", "create", DONE)
        .performs("machine", "initialize", &failed("Unimplemented"))
}

/// The user data that the driver was told when it made the VM.
fn told(check: Check) -> String {
    use base64::Engine;
    let run = check.run();
    let made = run.performed.iter().find_map(|action| match action {
        Action::External(it) if it.operation == "create" => Some(&it.arguments),
        _ => None,
    });
    let arguments: serde_json::Value =
        serde_json::from_str(made.expect("a VM is made")).expect("arguments are JSON");
    let text = arguments["sensitive"]["secretData"]["userData"].as_str().expect("user data");
    let bytes = base64::engine::general_purpose::STANDARD.decode(text).expect("base64");
    String::from_utf8(bytes).expect("text")
}

#[test]
fn a_machine_notes_its_token_before_there_is_one() {
    let run = makes(&new()).run();
    expect![[r#"
        apply Machine shoot/m1 force
          {"metadata":{"annotations":{"evenkeel.dev/bootstrap-token":"dmc2pe","machinepriority.machine.sapcloud.io":"3"}}}
    "#]].assert_eq(&run.to_string());
}

#[test]
fn a_token_is_made_before_the_vm_that_joins_with_it() {
    check(
        makes(&NOTED),
        expect![[r#"
        first external token of machine as token/U1
        create Secret kube-system/bootstrap-token-dmc2pe
        requeue after 5s
    "#]],
    );
}

#[test]
fn a_token_is_valid_for_the_time_that_a_machine_may_take_to_join() {
    use base64::Engine;
    let hasty = Given { spec: ", creationTimeout: 7m", ..NOTED };
    let run = makes(&hasty).config("{bootstrapGroups: ['system:bootstrappers:shoot']}").run();
    let end = run.end.expect("it concludes");
    let made = end.actions.iter().find_map(|action| match action {
        Action::Create(it) => Some(&it.object),
        _ => None,
    });
    let secret: serde_json::Value =
        serde_json::from_str(made.expect("a Secret is made")).expect("an object is JSON");
    let mut text = format!("{} {}\n", secret["type"], secret["metadata"]);
    for (key, value) in secret["data"].as_object().expect("data") {
        let bytes = base64::engine::general_purpose::STANDARD
            .decode(value.as_str().expect("base64"))
            .expect("base64");
        text += &format!("{key}: {}\n", String::from_utf8(bytes).expect("text"));
    }
    expect![[r#"
        "bootstrap.kubernetes.io/token" {"annotations":{"evenkeel.dev/machine-uid":"U1"},"name":"bootstrap-token-dmc2pe","namespace":"kube-system"}
        auth-extra-groups: system:bootstrappers:shoot
        description: machine shoot/m1 joins with it
        expiration: 2026-01-01T00:07:00Z
        token-id: dmc2pe
        token-secret: 0123456789abcdef
        usage-bootstrap-authentication: true
        usage-bootstrap-signing: true
    "#]].assert_eq(&text);
}

#[test]
fn a_token_that_is_there_is_joined_with() {
    let there = || makes(&NOTED).given(&secret("U1", "2026-01-01T00:05:00Z"));
    check(
        there(),
        expect![[r#"
        first external create of machine as create/U1
        first external initialize of machine as initialize/U1/0
        apply Machine shoot/m1 force
        apply-status Machine shoot/m1 force
          Pending Create/Processing Creating machine m1 on the provider
        requeue after 5s
    "#]],
    );
    assert_eq!(told(there()), format!("join {ID}.{THERE}"));
}

#[test]
fn a_token_that_has_run_out_makes_room_for_another() {
    let late = || makes(&NOTED).given(&secret("U1", "2026-01-01T00:00:00Z"));
    let run = late().run();
    assert!(
        run.performed
            .iter()
            .all(|action| !matches!(action, Action::External(it) if it.operation == "create"))
    );
    check(
        late(),
        expect![[r#"
        first external token of machine as token/U1
        delete Secret kube-system/bootstrap-token-dmc2pe uid S1
        create Secret kube-system/bootstrap-token-dmc2pe
        requeue after 5s
    "#]],
    );
}

#[test]
fn a_token_of_somebody_else_is_left_alone_and_said() {
    check(
        makes(&NOTED).given(&secret("U2", "2026-01-01T00:05:00Z")),
        expect![[r#"
        apply-status Machine shoot/m1 force
          - Create/Failed Secret kube-system/bootstrap-token-dmc2pe, which is to be the machine's bootstrap token, is somebody else's
        requeue after 600s
    "#]],
    );
}

#[test]
fn only_the_calls_that_make_a_vm_are_told_the_token() {
    let there = || makes(&NOTED).given(&secret("U1", "2026-01-01T00:05:00Z"));
    let run = there().performs("machine", "create", &failed("Internal")).run();
    let text = format!("{:?}{:?}", run.end, run.log);
    assert!(!text.contains(THERE), "{text}");
    // `status` was asked with the placeholder: the answer of the check is for the arguments as they are.
    let asked = there().answers(
        "machine",
        "status",
        "{sensitive: {secretData: {userData: am9pbiA8PEJPT1RTVFJBUF9UT0tFTj4+}}}",
        DONE,
    );
    check(
        asked,
        expect![[r#"
        apply Machine shoot/m1 force
        apply-status Machine shoot/m1 force
          Pending Create/Processing Creating machine m1 on the provider
        requeue after 5s
    "#]],
    );
}

#[test]
fn a_machine_that_has_joined_has_no_token_any_more() {
    let pending = Given {
        metadata: ", labels: {node: m1}, annotations: {evenkeel.dev/bootstrap-token: dmc2pe}",
        spec: HAS_VM.spec,
        status: "{currentStatus: {phase: Pending, lastUpdateTime: '2025-12-31T23:55:00Z'}}",
    };
    let node =
        |status: &str| node(&format!(", status: {{conditions: [{{type: Ready, status: '{status}'}}]}}"));
    let waits = |status: &str| {
        with_class(&pending, "").given(&node(status)).given(&secret("U1", "2026-01-01T00:05:00Z"))
    };
    check(
        waits("False"),
        expect![[r#"
        apply Machine shoot/m1 force
        add-finalizer Node m1 node.machine.sapcloud.io/machine-controller
        apply Node m1 force
        apply-status Machine shoot/m1 force
          Pending -/- -
        requeue after 600s
    "#]],
    );
    let run = waits("True").run();
    expect![[r#"
        delete Secret kube-system/bootstrap-token-dmc2pe uid S1
        apply Machine shoot/m1 force
          {"metadata":{"annotations":{"machinepriority.machine.sapcloud.io":"3"},"labels":{"node":"m1"}},"spec":{"providerID":"sim:///vm-1"}}
        add-finalizer Node m1 node.machine.sapcloud.io/machine-controller
        apply Node m1 force
          {"metadata":{"annotations":{"node.machine.sapcloud.io/last-applied-anno-labels-taints":"{}"},"labels":{"node.gardener.cloud/machine-name":"m1"}}}
        apply-status Machine shoot/m1 force
          {"status":{"conditions":[{"status":"True","type":"Ready"}],"currentStatus":{"lastUpdateTime":"2026-01-01T00:00:00Z","phase":"Running"},"lastOperation":{"description":"Machine m1 successfully joined the cluster","lastUpdateTime":"2026-01-01T00:00:00Z","state":"Successful","type":"Create"}}}
        requeue after 600s
    "#]].assert_eq(&run.to_string());
    check(
        waits("False").at("2026-01-01T00:10:00Z"),
        expect![[r#"
        delete Secret kube-system/bootstrap-token-dmc2pe uid S1
        apply Machine shoot/m1 force
        add-finalizer Node m1 node.machine.sapcloud.io/machine-controller
        apply Node m1 force
        apply-status Machine shoot/m1 force
          Failed Create/Failed Machine m1 failed to join the cluster in 20m
        requeue after 600s
    "#]],
    );
    check(
        waits("True").given(&secret("U2", "2026-01-01T00:05:00Z")),
        expect![[r#"
        apply Machine shoot/m1 force
        add-finalizer Node m1 node.machine.sapcloud.io/machine-controller
        apply Node m1 force
        apply-status Machine shoot/m1 force
          Running Create/Successful Machine m1 successfully joined the cluster
        requeue after 600s
    "#]],
    );
}

#[test]
fn a_machine_that_goes_loses_its_token_first() {
    let leaving = goes(&NOTED, "none").given(&secret("U1", "2026-01-01T00:05:00Z")).answers(
        "machine",
        "operations",
        "{}",
        "{operations: [create/U1]}",
    );
    check(
        leaving,
        expect![[r#"
        delete Secret kube-system/bootstrap-token-dmc2pe uid S1
        requeue after 5s
    "#]],
    );
}
