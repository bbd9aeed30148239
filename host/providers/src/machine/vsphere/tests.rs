//! The driver on the simulated vCenter.

use std::sync::Arc;

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::*;
use crate::twins::{Twin, make};

const UID: &str = "0b7b2f6e-54a1-4d0c-9d53-0d6a3f4c8e11";

fn call(spec: Value, state: Option<&str>) -> Call {
    let arguments = json!({
        "machine": {"namespace": "shoot", "name": "m1", "uid": UID},
        "class": {"name": "a", "provider": "vsphere", "providerSpec": spec},
        "sensitive": {"secretData": {"userData": "I2Nsb3VkLWNvbmZpZw=="}},
        "lastKnownState": state,
    });
    serde_json::from_value(arguments).expect("a call")
}

fn small() -> Value {
    json!({
        "server": "vc.example.test", "datacenter": "/DC0", "template": "/DC0/vm/tpl",
        "networks": ["/DC0/network/VM Network"], "numCpus": 2, "memoryMib": 2048,
    })
}

/// Runs calls (`create`, `status`, `delete`), each with the state of the one before; lines that begin with `{` are commands to the
/// vCenter.
fn check(spec: &Value, script: &str, expected: Expect) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    let text = runtime.block_on(async {
        let twin: Arc<dyn Twin> = make("vsphere", &json!({}), 1).expect("a vCenter");
        let driver = VsphereDriver::new(twin.as_provider());
        let (mut text, mut state) = (String::new(), None);
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
            if line.starts_with('{') {
                twin.control(&serde_json::from_str(line).expect("a command")).expect("it is understood");
                continue;
            }
            let call = call(spec.clone(), state.as_deref());
            let outcome = match line {
                "create" => driver
                    .create(&call)
                    .await
                    .map(|vm| (format!("{} {}", vm.provider_id, vm.node_name), vm.last_known_state)),
                "status" => {
                    Driver::status(&driver, &call).await.map(|vm| (vm.node_name, vm.last_known_state))
                }
                _ => driver.delete(&call).await.map(|state| ("gone".to_owned(), state)),
            };
            match outcome {
                Ok((said, told)) => {
                    state = told.or(state);
                    text += &format!("{line}: {said}\n");
                }
                Err(error) => {
                    text += &format!("{line}: {error}\n");
                    state = error.last_known_state.or(state);
                }
            }
        }
        text + &format!("{:?}\n", twin.expect(&json!({"vms": []})))
    });
    expected.assert_eq(&text);
}

#[test]
fn a_machine_becomes_a_vm_and_goes_with_it() {
    check(
        &small(),
        "status\ncreate\ncreate\nstatus\ndelete\ndelete\nstatus",
        expect![[r#"
        status: machine codes error: code = [NotFound] message = [there is no VM that runs]
        create: vsphere:///0b7b2f6e-54a1-4d0c-9d53-0d6a3f4c8e11 m1
        create: vsphere:///0b7b2f6e-54a1-4d0c-9d53-0d6a3f4c8e11 m1
        status: m1
        delete: gone
        delete: gone
        status: machine codes error: code = [NotFound] message = [there is no VM that runs]
        Ok(())
    "#]],
    );
}

#[test]
fn a_clone_that_failed_is_tried_again_as_another_one() {
    check(
        &small(),
        r#"
        {"fail-task": {"operation": "clone", "fault": {"type": "NoCompatibleHost", "message": "No host is compatible."}, "times": 1}}
        create
        create
        delete
        "#,
        expect![[r#"
            create: machine codes error: code = [ResourceExhausted] message = [NoCompatibleHost: No host is compatible.]
            create: vsphere:///0b7b2f6e-54a1-4d0c-9d53-0d6a3f4c8e11 m1
            delete: gone
            Ok(())
        "#]],
    );
}

#[test]
fn a_class_that_names_what_is_not_there_is_at_fault() {
    let mut spec = small();
    spec["template"] = "/DC0/vm/none".into();
    check(
        &spec,
        "create",
        expect![[r#"
        create: machine codes error: code = [FailedPrecondition] message = [not there: template /DC0/vm/none]
        Ok(())
    "#]],
    );
    check(
        &json!({"server": "vc.example.test"}),
        "create",
        expect![[r#"
        create: machine codes error: code = [InvalidArgument] message = [providerSpec: missing field `datacenter`]
        Ok(())
    "#]],
    );
}

#[test]
fn a_vcenter_that_lets_nobody_in_is_told_from_one_that_does_not_answer() {
    check(
        &small(),
        "{\"login\": {\"works\": false}}\n{\"drop-session\": {}}\ncreate",
        expect![[r#"
        create: machine codes error: code = [Unauthenticated] message = [vCenter vc.example.test: the user name or the password is wrong]
        Ok(())
    "#]],
    );
    check(
        &small(),
        r#"
        {"fault": {"method": "*", "reason": "Unreachable", "message": "no way", "times": 9}}
        create
        "#,
        expect![[r#"
            create: machine codes error: code = [Unavailable] message = [vCenter vc.example.test: no way]
            Ok(())
        "#]],
    );
}
