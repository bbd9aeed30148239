//! Scenarios 42 to 88 of the specification have files of their own; these are the decisions one by one.

use evenkeel_sdk::check::{Check, Checked};
use evenkeel_sdk::{Action, FailureKind, act};
use expect_test::{Expect, expect};
use serde_json::{Value, json};

use crate::Kite;
use crate::kinds::{DataVolume, VirtualMachine};

/// What the platform and the tenant bring along.
const WORLD: &str = "
- {apiVersion: v1, kind: Namespace, metadata: {name: tenant-a}}
- {apiVersion: v1, kind: ConfigMap, metadata: {namespace: kite, name: kite-runtime-config}, data: {baseDomain: example.test}}
- {apiVersion: v1, kind: PersistentVolumeClaim, metadata: {namespace: kite, name: ubuntu-22.04}, spec: {resources: {requests: {storage: 4Gi}}}}
- {apiVersion: v1, kind: Secret, metadata: {namespace: tenant-a, name: vm-a-guest-login, uid: S1}, data: {passwordHash: JDYkc2FsdCQxMjM0NTY3OA==}}
- apiVersion: anacnu.com/v1
  kind: KiteVirtualMachine
  metadata: {namespace: tenant-a, name: vm-a, uid: U1, generation: 1, finalizers: [kite.anacnu.com/kite-vm-cleanup]}
  spec: {cpu: 2, memory: 4Gi, disk: 25Gi, image: ubuntu-22.04, sshId: alice}
";

const OWNER: &str = "ownerReferences: [{apiVersion: anacnu.com/v1, kind: KiteVirtualMachine, name: vm-a, uid: U1, controller: true}]";
const LABELS: &str = "labels: {kite.anacnu.com/managed-by: kite-controller, kite.anacnu.com/kite-vm-name: vm-a, kite.anacnu.com/kite-vm-namespace: tenant-a}";

fn world() -> Check {
    Check::of::<Kite>("virtual-machine").key("tenant-a/vm-a").given(WORLD)
}

/// The machine with other fields.
fn machine(metadata: &Value, spec: &Value, status: &Value) -> Value {
    let mut object = json!({
        "apiVersion": "anacnu.com/v1", "kind": "KiteVirtualMachine",
        "metadata": {"namespace": "tenant-a", "name": "vm-a", "uid": "U1", "generation": 1,
            "finalizers": ["kite.anacnu.com/kite-vm-cleanup"]},
        "spec": {"cpu": 2, "memory": "4Gi", "disk": "25Gi", "image": "ubuntu-22.04", "sshId": "alice"},
        "status": status,
    });
    for (part, fields) in [("metadata", metadata), ("spec", spec)] {
        for (key, value) in fields.as_object().unwrap() {
            object[part][key] = value.clone();
        }
    }
    object
}

fn with_spec(spec: Value) -> Check {
    world().object(machine(&json!({}), &spec, &json!({})))
}

/// Everything that R3 makes, there and owned.
fn parts() -> String {
    let part = |api: &str, kind: &str, name: &str, rest: &str| {
        format!(
            "- {{apiVersion: {api}, kind: {kind}, metadata: {{namespace: tenant-a, name: {name}, uid: {kind}-1, {OWNER}, {LABELS}}}, {rest}}}\n"
        )
    };
    [
        part(
            "cdi.kubevirt.io/v1beta1",
            "DataVolume",
            "vm-a-disk",
            "spec: {pvc: {resources: {requests: {storage: 25Gi}}}}, status: {phase: Succeeded}",
        ),
        part("v1", "Secret", "vm-a-cloud-init-userdata", "type: Opaque"),
        part(
            "kubevirt.io/v1",
            "VirtualMachine",
            "vm-a",
            "spec: {runStrategy: Halted}, status: {printableStatus: Stopped}",
        ),
        part("v1", "Service", "vps-access-vm-a", "spec: {}"),
        part("v1", "Service", "vps-web-vm-a", "spec: {}"),
    ]
    .concat()
}

fn check(run: Check, expected: Expect) {
    expected.assert_eq(&brief(&run.run()));
}

/// The actions without bodies, and of a status what a person looks at.
pub fn brief(checked: &Checked) -> String {
    let mut text = String::new();
    for line in checked.to_string().lines() {
        let Some(body) = line.strip_prefix("  ") else {
            text += &format!("{line}\n");
            continue;
        };
        let Ok(body) = serde_json::from_str::<Value>(body) else { continue };
        let Some(status) = body.get("status") else { continue };
        let word = |key: &str| status[key].as_str().unwrap_or("none").to_owned();
        text += &format!(
            "  {} {} generation={} domain={}",
            word("phase"),
            word("currentPowerState"),
            status["observedGeneration"],
            word("domain")
        );
        for condition in status["conditions"].as_array().unwrap() {
            let word = |key: &str| condition[key].as_str().unwrap_or_default();
            text +=
                &format!("\n    {} {}/{} {}", word("type"), word("status"), word("reason"), word("message"));
        }
        text.push('\n');
    }
    text
}

#[test]
fn a_new_machine_gets_its_parts_in_order() {
    expect![[r#"
        add-finalizer KiteVirtualMachine tenant-a/vm-a kite.anacnu.com/kite-vm-cleanup
        create DataVolume tenant-a/vm-a-disk controlled
          {"metadata":{"annotations":{"cdi.kubevirt.io/storage.deleteAfterCompletion":"false"},"labels":{"kite.anacnu.com/kite-vm-name":"vm-a","kite.anacnu.com/kite-vm-namespace":"tenant-a","kite.anacnu.com/managed-by":"kite-controller"}},"spec":{"pvc":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"25Gi"}}},"source":{"pvc":{"name":"ubuntu-22.04","namespace":"kite"}}}}
        apply Secret tenant-a/vm-a-cloud-init-userdata force controlled
          {"data":{"userdata":"I2Nsb3VkLWNvbmZpZwp7Imhvc3RuYW1lIjoidm0tYSIsImRpc2FibGVfcm9vdCI6dHJ1ZSwic3NoX2RlbGV0ZWtleXMiOnRydWUsInNzaF9wd2F1dGgiOnRydWUsInVzZXJzIjpbeyJuYW1lIjoiYWxpY2UiLCJncm91cHMiOlsiYWRtIiwic3VkbyJdLCJzaGVsbCI6Ii9iaW4vYmFzaCIsInN1ZG8iOlsiQUxMPShBTEwpIE5PUEFTU1dEOkFMTCJdLCJsb2NrX3Bhc3N3ZCI6ZmFsc2UsImhhc2hlZF9wYXNzd2QiOiIkNiRzYWx0JDEyMzQ1Njc4In1dLCJib290Y21kIjpbWyJzeXN0ZW1jdGwiLCJtYXNrIiwic3lzdGVtZC1uZXR3b3JrZC13YWl0LW9ubGluZS5zZXJ2aWNlIl0sWyJzeXN0ZW1jdGwiLCJtYXNrIiwiTmV0d29ya01hbmFnZXItd2FpdC1vbmxpbmUuc2VydmljZSJdXSwid3JpdGVfZmlsZXMiOlt7InBhdGgiOiIvdXNyL2xvY2FsL3NiaW4va2l0ZS1uZXR3b3JrLXJlc3RvcmUuc2giLCJwZXJtaXNzaW9ucyI6IjA3NTUiLCJjb250ZW50IjoiIyEvYmluL3NoXG4jIEJyaW5ncyB1cCB0aGUgZmlyc3QgbmV0d29yayBpbnRlcmZhY2UgdGhhdCBpcyBub3QgdGhlIGxvb3BiYWNrLCBhbmQgZ2V0cyBpdCBhbiBhZGRyZXNzLlxuc2V0IC11XG5mb3IgcGF0aCBpbiAvc3lzL2NsYXNzL25ldC8qOyBkb1xuICAgIGludGVyZmFjZT0kKGJhc2VuYW1lIFwiJHBhdGhcIilcbiAgICBbIFwiJGludGVyZmFjZVwiID0gbG8gXSAmJiBjb250aW51ZVxuICAgIFsgLWUgXCIkcGF0aC9kZXZpY2VcIiBdIHx8IGNvbnRpbnVlXG4gICAgaXAgbGluayBzZXQgXCIkaW50ZXJmYWNlXCIgdXBcbiAgICBpZiBjb21tYW5kIC12IGRoY2xpZW50ID4vZGV2L251bGwgMj4mMTsgdGhlblxuICAgICAgICBkaGNsaWVudCBcIiRpbnRlcmZhY2VcIlxuICAgIGVsaWYgY29tbWFuZCAtdiBuZXRwbGFuID4vZGV2L251bGwgMj4mMTsgdGhlblxuICAgICAgICBuZXRwbGFuIGFwcGx5XG4gICAgZWxzZVxuICAgICAgICBzeXN0ZW1jdGwgcmVzdGFydCBzeXN0ZW1kLW5ldHdvcmtkLnNlcnZpY2VcbiAgICBmaVxuICAgIGJyZWFrXG5kb25lXG4ifSx7InBhdGgiOiIvZXRjL3N5c3RlbWQvc3lzdGVtL2tpdGUtbmV0d29yay1yZXN0b3JlLnNlcnZpY2UiLCJwZXJtaXNzaW9ucyI6IjA2NDQiLCJjb250ZW50IjoiW1VuaXRdXG5EZXNjcmlwdGlvbj1CcmluZyB1cCB0aGUgbmV0d29yayBvZiBhIEtpdGUgbWFjaGluZVxuQWZ0ZXI9c3lzdGVtZC11ZGV2LXNldHRsZS5zZXJ2aWNlXG5XYW50cz1zeXN0ZW1kLXVkZXYtc2V0dGxlLnNlcnZpY2VcblxuW1NlcnZpY2VdXG5UeXBlPW9uZXNob3RcbkV4ZWNTdGFydD0vdXNyL2xvY2FsL3NiaW4va2l0ZS1uZXR3b3JrLXJlc3RvcmUuc2hcblJlbWFpbkFmdGVyRXhpdD15ZXNcblxuW0luc3RhbGxdXG5XYW50ZWRCeT1tdWx0aS11c2VyLnRhcmdldFxuIn1dLCJydW5jbWQiOltbInN5c3RlbWN0bCIsImRhZW1vbi1yZWxvYWQiXSxbInN5c3RlbWN0bCIsImVuYWJsZSIsIi0tbm93Iiwia2l0ZS1uZXR3b3JrLXJlc3RvcmUuc2VydmljZSJdXSwiZmluYWxfbWVzc2FnZSI6IlRoZSBLaXRlIG1hY2hpbmUgaXMgcmVhZHkuIn0K"},"metadata":{"labels":{"kite.anacnu.com/kite-vm-name":"vm-a","kite.anacnu.com/kite-vm-namespace":"tenant-a","kite.anacnu.com/managed-by":"kite-controller"}},"type":"Opaque"}
        apply VirtualMachine tenant-a/vm-a force controlled
          {"metadata":{"labels":{"kite.anacnu.com/kite-vm-name":"vm-a","kite.anacnu.com/kite-vm-namespace":"tenant-a","kite.anacnu.com/managed-by":"kite-controller"}},"spec":{"runStrategy":"Halted","template":{"metadata":{"labels":{"kite.anacnu.com/kite-vm-name":"vm-a","kite.anacnu.com/kite-vm-namespace":"tenant-a","kite.anacnu.com/managed-by":"kite-controller"}},"spec":{"domain":{"devices":{"disks":[{"disk":{"bus":"virtio"},"name":"rootdisk"},{"disk":{"bus":"virtio"},"name":"cloudinitdisk"}]},"resources":{"requests":{"cpu":"2","memory":"4Gi"}}},"volumes":[{"dataVolume":{"name":"vm-a-disk"},"name":"rootdisk"},{"cloudInitNoCloud":{"secretRef":{"name":"vm-a-cloud-init-userdata"}},"name":"cloudinitdisk"}]}}}}
        apply Service tenant-a/vps-access-vm-a force controlled
          {"metadata":{"labels":{"kite.anacnu.com/kite-vm-name":"vm-a","kite.anacnu.com/kite-vm-namespace":"tenant-a","kite.anacnu.com/managed-by":"kite-controller"}},"spec":{"ports":[{"name":"ssh","port":22,"protocol":"TCP","targetPort":22}],"selector":{"kite.anacnu.com/kite-vm-name":"vm-a","kite.anacnu.com/managed-by":"kite-controller"},"type":"ClusterIP"}}
        apply Service tenant-a/vps-web-vm-a force controlled
          {"metadata":{"labels":{"kite.anacnu.com/kite-vm-name":"vm-a","kite.anacnu.com/kite-vm-namespace":"tenant-a","kite.anacnu.com/managed-by":"kite-controller"}},"spec":{"ports":[{"name":"http","port":80,"protocol":"TCP","targetPort":80}],"selector":{"kite.anacnu.com/kite-vm-name":"vm-a","kite.anacnu.com/managed-by":"kite-controller"},"type":"ClusterIP"}}
        apply Ingress tenant-a/vm-a force controlled
          {"metadata":{"annotations":{"traefik.ingress.kubernetes.io/router.entrypoints":"websecure","traefik.ingress.kubernetes.io/router.tls":"true"},"labels":{"kite.anacnu.com/kite-vm-name":"vm-a","kite.anacnu.com/kite-vm-namespace":"tenant-a","kite.anacnu.com/managed-by":"kite-controller"}},"spec":{"ingressClassName":"traefik","rules":[{"host":"app.example.test","http":{"paths":[{"backend":{"service":{"name":"vps-web-vm-a","port":{"number":80}}},"path":"/","pathType":"Prefix"}]}}],"tls":[{"hosts":["app.example.test"]}]}}
        apply-status KiteVirtualMachine tenant-a/vm-a force
          {"status":{"cloudInitSecretName":"vm-a-cloud-init-userdata","conditions":[{"lastTransitionTime":"2026-01-01T00:00:00Z","message":"the machine is being set up","observedGeneration":1,"reason":"Provisioning","status":"False","type":"VirtualMachineReady"},{"lastTransitionTime":"2026-01-01T00:00:00Z","message":"all parts are applied","observedGeneration":1,"reason":"Applied","status":"True","type":"ResourcesApplied"},{"lastTransitionTime":"2026-01-01T00:00:00Z","message":"the domain is app.example.test","observedGeneration":1,"reason":"Assigned","status":"True","type":"DomainReady"}],"currentPowerState":"Off","dataVolumeName":"vm-a-disk","domain":"app.example.test","observedGeneration":1,"phase":"Provisioning","serviceName":"vps-access-vm-a","sshKeySecretName":"vm-a-ssh-key"}}
        requeue after 30s
    "#]].assert_eq(
        &world()
            .object(machine(&json!({"finalizers": []}), &json!({"domainPrefix": "app"}), &json!({})))
            .run()
            .to_string(),
    );
}

#[test]
fn a_pass_needs_two_rounds_more_at_most() {
    assert_eq!(with_spec(json!({"domainPrefix": "app"})).run().rounds, 3);
    assert_eq!(world().given(&parts()).run().rounds, 2);
}

#[test]
fn a_settled_machine_leaves_its_services_to_r5() {
    check(
        world().given(&parts()),
        expect![[r#"
        apply Secret tenant-a/vm-a-cloud-init-userdata force controlled
        apply VirtualMachine tenant-a/vm-a force controlled
        apply-status KiteVirtualMachine tenant-a/vm-a force
          Stopped Off generation=1 domain=none
            VirtualMachineReady True/Stopped the machine is off
            ResourcesApplied True/Applied all parts are applied
    "#]],
    );
}

#[test]
fn checks_come_in_their_order() {
    check(
        with_spec(json!({"cpu": 0, "image": "other"})),
        expect![[r#"
        apply-status KiteVirtualMachine tenant-a/vm-a force
          Failed Off generation=null domain=none
            VirtualMachineReady False/InvalidSpec spec.cpu: must be 1 to 128
            ResourcesApplied False/InvalidSpec spec.cpu: must be 1 to 128
    "#]],
    );
    check(
        with_spec(json!({"image": "other"})).unserved::<VirtualMachine>(),
        expect![[r#"
        apply-status KiteVirtualMachine tenant-a/vm-a force
          Failed Off generation=null domain=none
            VirtualMachineReady False/ImageNotAllowed the image other is not among the allowed ones
            ResourcesApplied False/ImageNotAllowed the image other is not among the allowed ones
    "#]],
    );
    check(
        world().unserved::<DataVolume>(),
        expect![[r#"
        apply-status KiteVirtualMachine tenant-a/vm-a force
          Failed Off generation=null domain=none
            VirtualMachineReady False/DependencyMissing CDI (cdi.kubevirt.io/v1beta1) is not installed
            ResourcesApplied False/DependencyMissing CDI (cdi.kubevirt.io/v1beta1) is not installed
        requeue after 60s
    "#]],
    );
    check(
        world().unserved::<VirtualMachine>().unserved::<DataVolume>(),
        expect![[r#"
        apply-status KiteVirtualMachine tenant-a/vm-a force
          Failed Off generation=null domain=none
            VirtualMachineReady False/DependencyMissing KubeVirt (kubevirt.io/v1) is not installed
            ResourcesApplied False/DependencyMissing KubeVirt (kubevirt.io/v1) is not installed
        requeue after 60s
    "#]],
    );
}

#[test]
fn a_part_of_somebody_else_is_left_alone() {
    check(
        world().given("{apiVersion: v1, kind: Service, metadata: {namespace: tenant-a, name: vps-web-vm-a}}"),
        expect![[r#"
            apply-status KiteVirtualMachine tenant-a/vm-a force
              Failed Off generation=null domain=none
                VirtualMachineReady False/ResourceConflict Service/vps-web-vm-a exists and is somebody else's
                ResourcesApplied False/ResourceConflict Service/vps-web-vm-a exists and is somebody else's
            requeue after 60s
        "#]],
    );
    let ingress =
        "{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {namespace: tenant-a, name: vm-a}}";
    check(
        with_spec(json!({"domainPrefix": "app"})).given(ingress),
        expect![[r#"
        apply-status KiteVirtualMachine tenant-a/vm-a force
          Failed Off generation=null domain=none
            VirtualMachineReady False/ResourceConflict Ingress/vm-a exists and is somebody else's
            ResourcesApplied False/ResourceConflict Ingress/vm-a exists and is somebody else's
        requeue after 60s
    "#]],
    );
    let text = brief(&world().given(ingress).run());
    assert!(
        text.contains("ResourcesApplied True/Applied"),
        "an Ingress is in the way only if one is wanted: {text}"
    );
}

#[test]
fn parts_of_an_earlier_machine_are_waited_for() {
    check(
        world().given(&parts().replace("U1", "U0")),
        expect![[r#"
        apply-status KiteVirtualMachine tenant-a/vm-a force
          Provisioning Off generation=null domain=none
            VirtualMachineReady False/Provisioning waiting until DataVolume/vm-a-disk of an earlier machine is gone
            ResourcesApplied False/PreviousInstanceTerminating waiting until DataVolume/vm-a-disk of an earlier machine is gone
        requeue after 5s
    "#]],
    );
}

#[test]
fn parts_of_an_older_kite_are_adopted() {
    let legacy = parts().replace(OWNER, "generation: 1");
    check(
        world().given(&legacy),
        expect![[r#"
        patch DataVolume tenant-a/vm-a-disk
        apply Secret tenant-a/vm-a-cloud-init-userdata force controlled
        apply VirtualMachine tenant-a/vm-a force controlled
        apply Service tenant-a/vps-access-vm-a force controlled
        apply Service tenant-a/vps-web-vm-a force controlled
        apply-status KiteVirtualMachine tenant-a/vm-a force
          Stopped Off generation=1 domain=none
            VirtualMachineReady True/Stopped the machine is off
            ResourcesApplied True/Applied all parts are applied
    "#]],
    );
}

#[test]
fn a_lost_disk_is_not_made_anew_unless_permitted() {
    let status = json!({"dataVolumePhase": "Succeeded"});
    check(
        world().object(machine(&json!({}), &json!({}), &status)),
        expect![[r#"
        apply-status KiteVirtualMachine tenant-a/vm-a force
          Failed Off generation=null domain=none
            VirtualMachineReady False/DiskLost the disk is gone; the annotation kite.anacnu.com/allow-disk-recreate=true permits a new and empty one
            ResourcesApplied False/DiskLost the disk is gone; the annotation kite.anacnu.com/allow-disk-recreate=true permits a new and empty one
    "#]],
    );
    let annotations = json!({"annotations": {"kite.anacnu.com/allow-disk-recreate": "true"}});
    let text = brief(&world().object(machine(&annotations, &json!({}), &status)).run());
    assert!(text.contains("create DataVolume tenant-a/vm-a-disk"), "{text}");
}

#[test]
fn a_claim_that_outlives_its_data_volume_is_the_disk() {
    let claim = |owners: &str| {
        format!(
            "{{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {{namespace: tenant-a, name: vm-a-disk, {LABELS}, ownerReferences: [{owners}]}}}}"
        )
    };
    let text = brief(&world().given(&claim("")).run());
    assert!(!text.contains("create DataVolume") && text.contains("ResourcesApplied True"), "{text}");
    check(world().given(&claim("{apiVersion: cdi.kubevirt.io/v1beta1, kind: DataVolume, name: vm-a-disk, uid: D1, controller: true}")), expect![[r#"
        apply-status KiteVirtualMachine tenant-a/vm-a force
          Provisioning Off generation=null domain=none
            VirtualMachineReady False/Provisioning waiting until PersistentVolumeClaim/vm-a-disk of the earlier disk is gone
            ResourcesApplied False/PreviousInstanceTerminating waiting until PersistentVolumeClaim/vm-a-disk of the earlier disk is gone
        requeue after 5s
    "#]]);
    check(
        world().given(
            "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {namespace: tenant-a, name: vm-a-disk}}",
        ),
        expect![[r#"
            apply-status KiteVirtualMachine tenant-a/vm-a force
              Failed Off generation=null domain=none
                VirtualMachineReady False/ResourceConflict PersistentVolumeClaim/vm-a-disk exists and is somebody else's
                ResourcesApplied False/ResourceConflict PersistentVolumeClaim/vm-a-disk exists and is somebody else's
            requeue after 60s
        "#]],
    );
}

#[test]
fn a_disk_waits_for_its_image_and_is_no_smaller() {
    let missing = "{apiVersion: v1, kind: ConfigMap, metadata: {namespace: kite, name: kite-runtime-config}, data: {goldenImageNamespace: images}}";
    check(
        world().given(missing),
        expect![[r#"
        apply-status KiteVirtualMachine tenant-a/vm-a force
          Provisioning Off generation=null domain=none
            VirtualMachineReady False/Provisioning waiting for the image ubuntu-22.04
            ResourcesApplied False/GoldenImageMissing waiting for the image ubuntu-22.04
        requeue after 30s
    "#]],
    );
    let unchecked = missing.replace("images}", "images, checkGoldenImage: 'false'}");
    assert!(brief(&world().given(&unchecked).run()).contains("create DataVolume"));
    check(
        with_spec(json!({"disk": "2Gi"})),
        expect![[r#"
        apply-status KiteVirtualMachine tenant-a/vm-a force
          Failed Off generation=null domain=none
            VirtualMachineReady False/InvalidSpec spec.disk: smaller than image
            ResourcesApplied False/InvalidSpec spec.disk: smaller than image
    "#]],
    );
}

#[test]
fn a_disk_keeps_its_size() {
    check(
        with_spec(json!({"disk": "50Gi"})).given(&parts()),
        expect![[r#"
        apply Secret tenant-a/vm-a-cloud-init-userdata force controlled
        apply VirtualMachine tenant-a/vm-a force controlled
        apply-status KiteVirtualMachine tenant-a/vm-a force
          Stopped Off generation=1 domain=none
            VirtualMachineReady True/Stopped the machine is off
            ResourcesApplied True/Applied all parts are applied; the disk keeps its size: disk resize is unsupported
    "#]],
    );
}

#[test]
fn a_cleared_prefix_takes_the_ingress_away() {
    let ingress = format!(
        "{{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {{namespace: tenant-a, name: vm-a, uid: I1, {OWNER}}}}}"
    );
    let text = brief(&world().given(&parts()).given(&ingress).run());
    assert!(text.contains("delete Ingress tenant-a/vm-a"), "{text}");
}

#[test]
fn somebody_else_s_power_switch_is_told_of() {
    let known = json!({"observedGeneration": 1});
    let started = parts().replace("runStrategy: Halted", "runStrategy: Always");
    let text = brief(&world().object(machine(&json!({}), &json!({}), &known)).given(&started).run());
    assert!(text.contains("PowerDriftCorrected"), "{text}");
    // The user's own change is none.
    let text =
        brief(&world().object(machine(&json!({"generation": 2}), &json!({}), &known)).given(&started).run());
    assert!(!text.contains("PowerDriftCorrected"), "{text}");
}

#[test]
fn the_old_power_switch_goes_in_one_step_with_the_new() {
    let running = parts().replace("runStrategy: Halted", "running: true");
    let text = world().given(&running).run().to_string();
    assert!(
        text.contains(r#""spec":{"runStrategy":"Halted","running":null}"#)
            || text.contains(r#""spec":{"running":null,"runStrategy":"Halted"}"#),
        "{text}"
    );
}

fn apply_vm() -> Action {
    act::apply(
        &json!({"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": {"name": "vm-a"}}),
    )
    .into()
}

#[test]
fn a_failure_is_told_before_the_next_try() {
    check(
        world().given(&parts()).failed(
            FailureKind::Transient,
            "500 InternalError: boom",
            Some(apply_vm()),
            1,
        ),
        expect![[r#"
            apply-status KiteVirtualMachine tenant-a/vm-a force
              Stopped Off generation=null domain=none
                VirtualMachineReady True/Stopped the machine is off
                ResourcesApplied False/ApplyFailed will be retried: apply VirtualMachine/vm-a: 500 InternalError: boom
            apply Secret tenant-a/vm-a-cloud-init-userdata force controlled
            apply VirtualMachine tenant-a/vm-a force controlled
            apply-status KiteVirtualMachine tenant-a/vm-a force
              Stopped Off generation=1 domain=none
                VirtualMachineReady True/Stopped the machine is off
                ResourcesApplied True/Applied all parts are applied
        "#]],
    );
}

#[test]
fn a_rejection_is_told_and_not_tried_at_once() {
    check(
        world().given(&parts()).failed(FailureKind::Invalid, "422 Invalid: no", Some(apply_vm()), 1),
        expect![[r#"
            apply-status KiteVirtualMachine tenant-a/vm-a force
              Failed Off generation=null domain=none
                VirtualMachineReady False/ApplyFailed apply VirtualMachine/vm-a: 422 Invalid: no
                ResourcesApplied False/ApplyFailed apply VirtualMachine/vm-a: 422 Invalid: no
            requeue after 60s
        "#]],
    );
}

#[test]
fn deletion_takes_the_guest_down_first() {
    let going = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
    check(
        world().object(machine(&going, &json!({}), &json!({}))).given(&parts()),
        expect![[r#"
        apply-status KiteVirtualMachine tenant-a/vm-a force
          Deleting Off generation=null domain=none
            VirtualMachineReady False/Deleting waiting for the virtual machine to go
        delete Service tenant-a/vps-access-vm-a uid Service-1
        delete Service tenant-a/vps-web-vm-a uid Service-1
        delete VirtualMachine tenant-a/vm-a uid VirtualMachine-1
        requeue after 5s
    "#]],
    );
}

#[test]
fn with_the_guest_gone_the_rest_goes() {
    let going = json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x/y", "kite.anacnu.com/kite-vm-cleanup"]});
    let rest = parts()
        .lines()
        .filter(|line| !line.contains("VirtualMachine, metadata"))
        .fold(String::new(), |all, line| all + line + "\n");
    check(
        world().object(machine(&going, &json!({}), &json!({}))).given(&rest),
        expect![[r#"
        apply-status KiteVirtualMachine tenant-a/vm-a force
          Deleting Off generation=null domain=none
            VirtualMachineReady False/Deleting removing the disk and the Secrets
        delete Service tenant-a/vps-access-vm-a uid Service-1
        delete Service tenant-a/vps-web-vm-a uid Service-1
        delete DataVolume tenant-a/vm-a-disk uid DataVolume-1
        delete Secret tenant-a/vm-a-cloud-init-userdata uid Secret-1
        delete Secret tenant-a/vm-a-guest-login uid S1
        remove-finalizer KiteVirtualMachine tenant-a/vm-a kite.anacnu.com/kite-vm-cleanup
    "#]],
    );
}

#[test]
fn an_instance_keeps_the_disk_while_it_lives() {
    let going = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
    let instance = format!(
        "{{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstance, metadata: {{namespace: tenant-a, name: vm-a, {LABELS}}}}}"
    );
    check(
        world().object(machine(&going, &json!({}), &json!({}))).given(&instance),
        expect![[r#"
        apply-status KiteVirtualMachine tenant-a/vm-a force
          Deleting Off generation=null domain=none
            VirtualMachineReady False/Deleting waiting for the virtual machine to go
        requeue after 5s
    "#]],
    );
}

#[test]
fn a_wish_to_be_deleted_becomes_a_deletion() {
    check(
        with_spec(json!({"delete": true})).given(&parts()),
        expect![[r#"
        apply-status KiteVirtualMachine tenant-a/vm-a force
          Deleting Off generation=null domain=none
            VirtualMachineReady False/Deleting waiting for the virtual machine to go
        delete KiteVirtualMachine tenant-a/vm-a uid U1
        delete Service tenant-a/vps-access-vm-a uid Service-1
        delete Service tenant-a/vps-web-vm-a uid Service-1
        delete VirtualMachine tenant-a/vm-a uid VirtualMachine-1
        requeue after 5s
    "#]],
    );
    let bare = machine(&json!({"finalizers": []}), &json!({"delete": true}), &json!({}));
    check(
        world().object(bare.clone()),
        expect![[r#"
        apply-status KiteVirtualMachine tenant-a/vm-a force
          Deleting Off generation=null domain=none
            VirtualMachineReady False/Deleting removing the disk and the Secrets
        delete KiteVirtualMachine tenant-a/vm-a uid U1
    "#]],
    );
    let text = brief(&world().object(bare).given(&parts()).run());
    assert!(text.starts_with("add-finalizer"), "{text}");
}

#[test]
fn what_is_somebody_else_s_stays_and_is_told_of() {
    let going = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
    let foreign =
        "{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {namespace: tenant-a, name: vm-a}}";
    check(
        world().object(machine(&going, &json!({}), &json!({}))).given(foreign),
        expect![[r#"
        apply-status KiteVirtualMachine tenant-a/vm-a force
          Deleting Off generation=null domain=none
            VirtualMachineReady False/Deleting removing the disk and the Secrets
        delete Secret tenant-a/vm-a-guest-login uid S1
        event Warning ForeignResourceKept about KiteVirtualMachine tenant-a/vm-a: VirtualMachine/vm-a is somebody else's and stays
        remove-finalizer KiteVirtualMachine tenant-a/vm-a kite.anacnu.com/kite-vm-cleanup
    "#]],
    );
}

#[test]
fn an_uninstalled_kubevirt_does_not_block_a_deletion() {
    let going = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
    check(
        world()
            .object(machine(&going, &json!({}), &json!({})))
            .unserved::<VirtualMachine>()
            .unserved::<crate::kinds::VirtualMachineInstance>(),
        expect![[r#"
            apply-status KiteVirtualMachine tenant-a/vm-a force
              Deleting Off generation=null domain=none
                VirtualMachineReady False/Deleting removing the disk and the Secrets
            delete Secret tenant-a/vm-a-guest-login uid S1
            remove-finalizer KiteVirtualMachine tenant-a/vm-a kite.anacnu.com/kite-vm-cleanup
        "#]],
    );
}

#[test]
fn a_namespace_that_goes_takes_the_machine_along() {
    let text = brief(
        &world()
            .given(
                "{apiVersion: v1, kind: Namespace, metadata: {name: tenant-a}, status: {phase: Terminating}}",
            )
            .given(&parts())
            .run(),
    );
    assert!(text.contains("Deleting") && !text.contains("apply V"), "{text}");
}

#[test]
fn a_password_shows_nowhere() {
    let secret = "{apiVersion: v1, kind: Secret, metadata: {namespace: tenant-a, name: vm-a-guest-login}, data: {passwordHash: Uzw=}}";
    for run in [
        with_spec(json!({"sshPassword": "S3cret!x"})),
        with_spec(json!({"sshPassword": "S3cret!x", "cpu": 0})).given(secret),
        with_spec(json!({"sshPassword": "S3cret!x:"})),
    ] {
        let checked = run.run();
        assert!(!checked.to_string().contains("S3cret!x"), "{checked}");
    }
}
