//! Stories of stand-ins on paused time.

use super::*;
use crate::{Sandbox, SandboxOptions};
use expect_test::{Expect, expect};

/// A cluster with the stand-ins, on paused time.
struct World {
    sandbox: Sandbox,
    _running: Running,
    start: Instant,
}

impl World {
    async fn new() -> World {
        let start = Instant::now();
        let clock: Clock = Arc::new(move || {
            let seconds = i64::try_from(start.elapsed().as_secs()).unwrap_or_default();
            Timestamp::from_second(1_767_225_600 + seconds).unwrap_or(Timestamp::UNIX_EPOCH)
        });
        let sandbox = Sandbox::new(SandboxOptions::new(clock.clone()));
        let running = super::super::start(sandbox.service(), Stages::builtin(), clock);
        let world = World { sandbox, _running: running, start };
        for project in super::super::PROJECTS {
            for definition in super::super::crds(project).expect("known") {
                world.post(DEFINITIONS, &definition).await;
            }
        }
        world
    }

    async fn send(&self, method: Method, path: &str, content_type: &str, body: &Value) -> Value {
        let answer = self.sandbox.service().send(request(method, path, content_type, body)).await;
        answer.expect("the sandbox answers").json().await
    }

    async fn post(&self, path: &str, body: &Value) {
        let answer = self.send(Method::POST, path, "application/json", body).await;
        assert_ne!(answer["kind"], "Status", "{answer}");
    }

    async fn get(&self, path: &str) -> Value {
        self.send(Method::GET, path, "", &Value::Null).await
    }

    /// Watches fields of an object for a while; each change is a line.
    async fn story(&self, path: &str, fields: &[&str], seconds: u64) -> String {
        let mut lines = Vec::new();
        let mut last = String::new();
        for _ in 0..seconds * 2 {
            tokio::time::sleep(Duration::from_millis(500)).await;
            let object = self.get(path).await;
            let shown: Vec<String> = fields
                .iter()
                .map(|field| object.pointer(field).map_or("-".to_owned(), |value| value.to_string()))
                .collect();
            let shown = if object["kind"] == "Status" { "gone".to_owned() } else { shown.join(" ") };
            if shown != last {
                lines.push(format!("{}s {shown}", self.start.elapsed().as_secs()));
                last = shown;
            }
        }
        lines.join("\n")
    }
}

fn volume(behaviour: &str) -> Value {
    json!({
        "apiVersion": "cdi.kubevirt.io/v1beta1",
        "kind": "DataVolume",
        "metadata": {"name": "disk", "namespace": "default", "annotations": {super::super::KNOB: behaviour}},
        "spec": {
            "source": {"http": {"url": "http://images/a"}},
            "pvc": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}},
        },
    })
}

fn machine(behaviour: &str) -> Value {
    json!({
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": {"name": "vm", "namespace": "default", "annotations": {super::super::KNOB: behaviour}},
        "spec": {"runStrategy": "Always", "template": {
            "metadata": {"labels": {"app": "vm"}},
            "spec": {"domain": {}, "volumes": [{"name": "root", "dataVolume": {"name": "disk"}}]},
        }},
    })
}

const VOLUMES: &str = "/apis/cdi.kubevirt.io/v1beta1/namespaces/default/datavolumes";
const MACHINES: &str = "/apis/kubevirt.io/v1/namespaces/default/virtualmachines";

async fn check_volume(behaviour: &str, expect: Expect) {
    let world = World::new().await;
    world.post(VOLUMES, &volume(behaviour)).await;
    let story = world.story(&format!("{VOLUMES}/disk"), &["/status/phase", "/status/progress"], 60).await;
    expect.assert_eq(&story);
}

#[tokio::test(start_paused = true)]
async fn a_volume_imports_with_progress() {
    check_volume(
        "none",
        expect![[r#"
            0s - -
            1s "ImportScheduled" "N/A"
            3s "ImportInProgress" "0.00%"
            5s "ImportInProgress" "25.00%"
            7s "ImportInProgress" "50.00%"
            9s "ImportInProgress" "75.00%"
            11s "Succeeded" "100.0%""#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_is_told_to_fail_fails() {
    check_volume(
        "fail",
        expect![[r#"
            0s - -
            1s "ImportScheduled" "N/A"
            3s "ImportInProgress" "0.00%"
            5s "ImportInProgress" "25.00%"
            7s "ImportInProgress" "50.00%"
            9s "Failed" "50.00%""#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_volumes_claim_is_made_and_bound() {
    let world = World::new().await;
    world.post(VOLUMES, &volume("none")).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let claim = world.get("/api/v1/namespaces/default/persistentvolumeclaims/disk").await;
    let shown = format!("{} {}", claim["spec"], claim["status"]);
    expect![[r#"{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"2Gi"}},"volumeMode":"Filesystem"} {"accessModes":["ReadWriteOnce"],"capacity":{"storage":"2Gi"},"phase":"Bound"}"#]].assert_eq(&shown);
}

#[tokio::test(start_paused = true)]
async fn a_clone_waits_for_an_image_in_another_namespace() {
    let world = World::new().await;
    let mut clone = volume("none");
    clone["spec"]["source"] = json!({"pvc": {"namespace": "kube-public", "name": "image"}});
    world.post(VOLUMES, &clone).await;
    let (path, fields) = (format!("{VOLUMES}/disk"), ["/status/phase"]);
    let mut story = vec![world.story(&path, &fields, 5).await];
    let image = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "image"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    world.post("/api/v1/namespaces/kube-public/persistentvolumeclaims", &image).await;
    story.push(world.story(&path, &fields, 5).await);
    expect![[r#"
        0s "Pending"
        5s "Pending"
        6s "CloneScheduled"
        8s "CloneInProgress""#]]
    .assert_eq(&story.join("\n"));
}

#[tokio::test(start_paused = true)]
async fn a_machine_waits_for_its_disk_starts_stops_and_goes() {
    let world = World::new().await;
    world.post(MACHINES, &machine("none")).await;
    let path = format!("{MACHINES}/vm");
    let fields = ["/status/printableStatus", "/status/ready"];
    let mut story = vec![world.story(&path, &fields, 5).await];
    world.post(VOLUMES, &volume("none")).await;
    story.push(world.story(&path, &fields, 40).await);
    let halt = json!({"spec": {"runStrategy": "Halted"}});
    world.send(Method::PATCH, &path, MERGE_PATCH, &halt).await;
    story.push(world.story(&path, &fields, 10).await);
    world.send(Method::PATCH, &path, MERGE_PATCH, &json!({"spec": {"runStrategy": "Always"}})).await;
    story.push(world.story(&path, &fields, 10).await);
    world.send(Method::DELETE, &path, "", &Value::Null).await;
    story.push(world.story(&path, &fields, 10).await);
    expect![[r#"
        0s "ErrorPvcNotFound" false
        ---
        5s "Provisioning" false
        16s "Starting" false
        19s "Running" true
        ---
        45s "Stopping" false
        47s "Stopped" false
        ---
        55s "Starting" false
        58s "Running" true
        ---
        65s "Terminating" true
        67s gone"#]]
    .assert_eq(&story.join("\n---\n"));
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_crashes_backs_off_and_tries_again() {
    let world = World::new().await;
    world.post(VOLUMES, &volume("none")).await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    world.post(MACHINES, &machine("fail")).await;
    let fields = ["/status/printableStatus", "/status/startFailure/consecutiveFailCount"];
    expect![[r#"
            20s "Starting" -
            23s "CrashLoopBackOff" 1
            35s "Starting" 1
            38s "CrashLoopBackOff" 2
            50s "Starting" 2
            53s "CrashLoopBackOff" 3"#]]
    .assert_eq(&world.story(&format!("{MACHINES}/vm"), &fields, 40).await);
}
