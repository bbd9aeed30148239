//! The driver on the simulated vCenter.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::*;
use crate::twins::{Twin, make};

const UID: &str = "0b7b2f6e-54a1-4d0c-9d53-0d6a3f4c8e11";

fn call(spec: Value, state: Option<&str>) -> Call {
    let arguments = json!({
        "machine": {"namespace": "shoot", "name": "m1", "uid": UID},
        "class": {"name": "a", "uid": "C-a", "provider": "vsphere", "providerSpec": spec},
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

/// What a call came to, and what it wants to be told again.
fn said<T>(
    progress: Progress<T>,
    done: impl FnOnce(T) -> (String, Option<String>),
) -> (String, Option<String>) {
    match progress {
        Progress::Done(it) => done(it),
        Progress::UnderWay(UnderWay { message, watched, last_known_state }) => {
            (format!("{message}, {}", if watched { "watched" } else { "not watched" }), last_known_state)
        }
    }
}

/// A driver that notes whom it tells of.
fn driver_of(twin: &Arc<dyn Twin>, told: &Arc<Mutex<Vec<String>>>) -> VsphereDriver {
    let (driver, told) = (VsphereDriver::new(twin.as_provider()), Arc::clone(told));
    Driver::tells(&driver, Arc::new(move |uid| told.lock().expect("no panic").push(uid.to_owned())));
    driver
}

/// Runs calls (`create`, `status`, `delete`, `list`), each with the state of the one before; `wait` lets seconds pass, and shows
/// what is told meanwhile; `restart` is a driver that knows nothing. Lines that begin with `{` are commands to the vCenter.
fn check(spec: &Value, script: &str, expected: Expect) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    let text = runtime.block_on(async {
        let twin: Arc<dyn Twin> = make("vsphere", &json!({}), 1).expect("a vCenter");
        let told = Arc::new(Mutex::new(Vec::new()));
        let mut driver = driver_of(&twin, &told);
        let (mut text, mut state) = (String::new(), None);
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
            if line.starts_with('{') {
                twin.control(&serde_json::from_str(line).expect("a command")).expect("it is understood");
                continue;
            }
            if let Some(seconds) = line.strip_prefix("wait ") {
                tokio::time::sleep(Duration::from_secs(seconds.parse().expect("seconds"))).await;
                let told = std::mem::take(&mut *told.lock().expect("no panic"));
                text += &format!("{line}: told {}\n", told.len());
                assert!(told.iter().all(|uid| uid == UID), "{told:?}");
                continue;
            }
            if line == "restart" {
                driver = driver_of(&twin, &told);
                continue;
            }
            let call = call(spec.clone(), state.as_deref());
            let outcome = match line {
                "create" => driver.create(&call).await.map(|progress| {
                    said(progress, |vm| (format!("{} {}", vm.provider_id, vm.node_name), vm.last_known_state))
                }),
                "status" => driver
                    .status(&call)
                    .await
                    .map(|progress| said(progress, |vm| (vm.node_name, vm.last_known_state))),
                "list" => {
                    let call = ListCall { class: call.class, sensitive: call.sensitive };
                    driver.list(&call).await.map(|machines| (format!("{machines:?}"), None))
                }
                _ => driver
                    .delete(&call)
                    .await
                    .map(|progress| said(progress, |state| ("gone".to_owned(), state))),
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
        "status\ncreate\ncreate\nstatus\nwait 10\nstatus\nwait 21\nstatus\ncreate\nwait 4\nstatus\ndelete\nwait 4\nstatus\ndelete\nwait 4\nstatus\ndelete\nstatus",
        expect![[r#"
            status: machine codes error: code = [NotFound] message = [there is no VM]
            create: task-1 is under way, watched
            create: task-1 is under way, watched
            status: task-1 is under way, watched
            wait 10: told 1
            status: task-1 is under way, watched
            wait 21: told 1
            status: machine codes error: code = [NotFound] message = [VM vm-2 is off, task-1 has ended]
            create: task-2 is under way, watched
            wait 4: told 1
            status: m1
            delete: task-3 is under way, watched
            wait 4: told 1
            status: machine codes error: code = [NotFound] message = [VM vm-2 is off, task-3 has ended]
            delete: task-4 is under way, watched
            wait 4: told 1
            status: machine codes error: code = [NotFound] message = [there is no VM, task-4 has ended]
            delete: gone
            status: machine codes error: code = [NotFound] message = [there is no VM, task-4 has ended]
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
        wait 31
        status
        create
        create
        wait 31
        create
        wait 4
        create
        "#,
        expect![[r#"
            create: task-1 is under way, watched
            wait 31: told 1
            status: machine codes error: code = [NotFound] message = [there is no VM, task-1 has ended]
            create: machine codes error: code = [ResourceExhausted] message = [NoCompatibleHost: No host is compatible.]
            create: task-2 is under way, watched
            wait 31: told 1
            create: task-3 is under way, watched
            wait 4: told 1
            create: vsphere:///0b7b2f6e-54a1-4d0c-9d53-0d6a3f4c8e11 m1
            Err(["vCenter has 1 VMs [vm-2 (m1)], not 0"])
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

#[test]
fn a_vm_that_is_being_made_goes_once_it_is_there() {
    check(
        &small(),
        "create\ndelete\nrestart\ndelete\nwait 31\ndelete\nwait 3\ndelete",
        expect![[r#"
            create: task-1 is under way, watched
            delete: task-1 is under way, watched
            delete: task-1 is under way, watched
            wait 31: told 1
            delete: task-2 is under way, watched
            wait 3: told 1
            delete: gone
            Ok(())
        "#]],
    );
}

#[test]
fn a_deletion_that_failed_is_tried_again_as_another_one_and_never_taken_for_done() {
    check(
        &small(),
        r#"
        create
        wait 31
        create
        wait 4
        delete
        wait 4
        {"fail-task": {"operation": "destroy", "fault": {"type": "FileLocked", "message": "Locked."}, "times": 1}}
        delete
        wait 3
        delete
        delete
        wait 3
        delete
        "#,
        expect![[r#"
            create: task-1 is under way, watched
            wait 31: told 1
            create: task-2 is under way, watched
            wait 4: told 1
            delete: task-3 is under way, watched
            wait 4: told 1
            delete: task-4 is under way, watched
            wait 3: told 1
            delete: machine codes error: code = [Internal] message = [FileLocked: Locked.]
            delete: task-5 is under way, watched
            wait 3: told 1
            delete: gone
            Ok(())
        "#]],
    );
}

#[test]
fn a_driver_that_was_restarted_takes_up_what_is_under_way() {
    check(
        &small(),
        "create\nrestart\ncreate\nstatus\nwait 31\ncreate\nwait 4\nstatus",
        expect![[r#"
            create: task-1 is under way, watched
            create: task-1 is under way, watched
            status: task-1 is under way, watched
            wait 31: told 1
            create: task-2 is under way, watched
            wait 4: told 1
            status: m1
            Err(["vCenter has 1 VMs [vm-2 (m1)], not 0"])
        "#]],
    );
}

#[test]
fn the_vms_of_a_class_are_listed_and_a_copy_of_one_is_none_of_them() {
    let vm = |id: &str, path: &str, uuid: &str, owner: &str, group: &str| {
        let add = json!({"add-vm": {"vm": id, "path": path, "instanceUuid": uuid, "biosUuid": id, "owner": owner,
            "extraConfig": {"reconcilers.group": group}}});
        add.to_string()
    };
    let (ninth, eighth) = ("99999999-54a1-4d0c-9d53-0d6a3f4c8e11", "88888888-54a1-4d0c-9d53-0d6a3f4c8e11");
    let script = [
        "create\nwait 31\nlist".to_owned(),
        vm(
            "vm-70",
            "/DC0/vm/copy",
            "11111111-54a1-4d0c-9d53-0d6a3f4c8e11",
            &format!("shoot/m1/{UID}"),
            "C-a",
        ),
        vm("vm-71", "/DC0/vm/m9", ninth, &format!("shoot/m9/{ninth}"), "C-a"),
        vm("vm-72", "/DC0/vm/m8", eighth, &format!("shoot/m8/{eighth}"), "C-other"),
        "list".to_owned(),
    ];
    check(
        &small(),
        &script.join("\n"),
        expect![[r#"
        create: task-1 is under way, watched
        wait 31: told 1
        list: {"vsphere:///0b7b2f6e-54a1-4d0c-9d53-0d6a3f4c8e11": "m1"}
        list: {"vsphere:///0b7b2f6e-54a1-4d0c-9d53-0d6a3f4c8e11": "m1", "vsphere:///99999999-54a1-4d0c-9d53-0d6a3f4c8e11": "m9"}
        Err(["vCenter has 4 VMs [vm-2 (m1), vm-70 (copy), vm-71 (m9), vm-72 (m8)], not 0"])
    "#]],
    );
}
