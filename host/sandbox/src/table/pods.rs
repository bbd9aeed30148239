//! The row of a pod, whose status is told from its containers.

use super::cells::Look;
use serde_json::{Value, json};

/// What the containers tell.
struct Story {
    reason: String,
    ready: usize,
    total: usize,
    restarts: i64,
    last_restart: Option<String>,
}

pub(super) fn cells(look: &Look<'_>) -> Vec<Value> {
    let mut story = Story {
        reason: first(&[look.string("status.reason"), look.string("status.phase")]),
        ready: 0,
        total: look.list("spec.containers").len(),
        restarts: 0,
        last_restart: None,
    };
    let conditions = look.list("status.conditions");
    let gated =
        conditions.iter().any(|one| one["type"] == "PodScheduled" && one["reason"] == "SchedulingGated");
    if gated {
        story.reason = "SchedulingGated".into();
    }
    let initializing = story.init_containers(look);
    let has = |kind: &str| conditions.iter().any(|one| one["type"] == kind && one["status"] == "True");
    if !initializing || has("Initialized") {
        story.containers(look, has("Ready"));
    }
    let deleting = look.at("metadata.deletionTimestamp").is_some();
    if deleting && look.string("status.reason") == "NodeLost" {
        story.reason = "Unknown".into();
    } else if deleting && !matches!(look.string("status.phase").as_str(), "Succeeded" | "Failed") {
        story.reason = "Terminating".into();
    }
    let restarts = match &story.last_restart {
        Some(time) if story.restarts != 0 => format!("{} ({} ago)", story.restarts, look.since(time)),
        _ => story.restarts.to_string(),
    };
    let ip = look.list("status.podIPs").first().map(|ip| ip["ip"].as_str().unwrap_or_default().to_owned());
    vec![
        json!(format!("{}/{}", story.ready, story.total)),
        json!(story.reason),
        json!(restarts),
        look.age(),
        look.or_none(&ip.unwrap_or_default()),
        look.or_none(&look.string("spec.nodeName")),
        look.or_none(&look.string("status.nominatedNodeName")),
        gates(look),
    ]
}

fn first(texts: &[String]) -> String {
    texts.iter().find(|text| !text.is_empty()).cloned().unwrap_or_default()
}

fn gates(look: &Look<'_>) -> Value {
    let gates = look.list("spec.readinessGates");
    if gates.is_empty() {
        return json!("<none>");
    }
    let conditions = look.list("status.conditions");
    let open = gates.iter().filter(|gate| {
        let condition = conditions.iter().find(|one| one["type"] == gate["conditionType"]);
        condition.is_some_and(|one| one["status"] == "True")
    });
    json!(format!("{}/{}", open.count(), gates.len()))
}

/// Why a container ended, as one word.
fn ended(state: &Value) -> String {
    let reason = state["reason"].as_str().unwrap_or_default();
    match state["signal"].as_i64().unwrap_or_default() {
        _ if !reason.is_empty() => reason.to_owned(),
        0 => format!("ExitCode:{}", state["exitCode"].as_i64().unwrap_or_default()),
        signal => format!("Signal:{signal}"),
    }
}

impl Story {
    fn count(&mut self, status: &Value) {
        self.restarts += status["restartCount"].as_i64().unwrap_or_default();
        if let Some(time) = status["lastState"]["terminated"]["finishedAt"].as_str()
            && self.last_restart.as_deref().is_none_or(|last| last < time)
        {
            self.last_restart = Some(time.to_owned());
        }
    }

    /// Looks at the init containers; true while they are at work.
    fn init_containers(&mut self, look: &Look<'_>) -> bool {
        let specs = look.list("spec.initContainers");
        let stays =
            |name: &Value| specs.iter().any(|one| one["name"] == *name && one["restartPolicy"] == "Always");
        self.total += specs.iter().filter(|one| one["restartPolicy"] == "Always").count();
        for (index, status) in look.list("status.initContainerStatuses").iter().enumerate() {
            self.count(status);
            let state = &status["state"];
            let terminated = &state["terminated"];
            if terminated["exitCode"] == 0 {
                continue;
            }
            if stays(&status["name"]) && status["started"] == true {
                self.ready += usize::from(status["ready"] == true);
                continue;
            }
            let waiting = state["waiting"]["reason"].as_str().unwrap_or_default();
            self.reason = if !terminated.is_null() {
                format!("Init:{}", ended(terminated))
            } else if !waiting.is_empty() && waiting != "PodInitializing" {
                format!("Init:{waiting}")
            } else {
                format!("Init:{index}/{}", specs.len())
            };
            return true;
        }
        false
    }

    fn containers(&mut self, look: &Look<'_>, pod_ready: bool) {
        let (mut running, mut failed) = (false, None);
        self.restarts = 0;
        self.last_restart = None;
        for status in look.list("status.containerStatuses").iter().rev() {
            self.count(status);
            let state = &status["state"];
            let waiting = state["waiting"]["reason"].as_str().unwrap_or_default();
            if !waiting.is_empty() {
                self.reason = waiting.to_owned();
            } else if !state["terminated"].is_null() {
                self.reason = ended(&state["terminated"]);
                if state["terminated"]["exitCode"] != 0 {
                    failed = Some(self.reason.clone());
                }
            } else if status["ready"] == true && !state["running"].is_null() {
                running = true;
                self.ready += 1;
            }
        }
        if self.reason == "Completed" {
            self.reason = match failed {
                _ if running && pod_ready => "Running".into(),
                Some(failed) => failed,
                None if running => "NotReady".into(),
                None => "Completed".into(),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pod: Value) -> String {
        let look = Look { object: &pod, now: "2026-01-01T00:01:00Z".parse().unwrap() };
        let cells: Vec<String> =
            cells(&look).iter().take(3).map(|cell| cell.as_str().unwrap().to_owned()).collect();
        cells.join(" ")
    }

    #[test]
    fn the_status_is_told_from_the_containers() {
        let pod = |status: Value| json!({"spec": {"containers": [{}, {}]}, "status": status});
        assert_eq!(check(pod(json!({"phase": "Pending"}))), "0/2 Pending 0");
        let crash = json!({"waiting": {"reason": "CrashLoopBackOff"}});
        let last = json!({"terminated": {"finishedAt": "2026-01-01T00:00:00Z"}});
        let statuses = json!([{"state": crash, "restartCount": 3, "lastState": last}, {"ready": true, "state": {"running": {}}}]);
        let crashed = pod(json!({"phase": "Running", "containerStatuses": statuses}));
        assert_eq!(check(crashed), "1/2 CrashLoopBackOff 3 (60s ago)");
        let done = json!([{"state": {"terminated": {"reason": "Completed", "exitCode": 0}}}]);
        assert_eq!(check(pod(json!({"phase": "Succeeded", "containerStatuses": done}))), "0/2 Completed 0");
        let mut going = pod(json!({"phase": "Running"}));
        going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:30Z");
        assert_eq!(check(going), "0/2 Terminating 0");
    }
}
