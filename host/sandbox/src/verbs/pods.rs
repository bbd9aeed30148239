//! What admission that is on by default adds to a new Pod: tolerations of broken nodes for a while, and its priority.

use crate::error::ApiError;
use crate::turn::{Target, Turn};
use serde_json::{Value, json};

/// How long a Pod stays on a node that is not ready or cannot be reached.
const TOLERATION_SECONDS: i64 = 300;
/// Taints of such nodes.
const BROKEN: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
/// Classes that every cluster has.
const SYSTEM_CLASSES: [(&str, i64); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

impl Turn<'_> {
    /// Fills in a new Pod; refuses a class that does not exist, and a priority that is not that of its class.
    pub(crate) fn admit_pod(&self, target: &Target, pod: &mut Value) -> Result<(), ApiError> {
        if !pod["spec"].is_object() {
            return Ok(());
        }
        tolerate(&mut pod["spec"]);
        self.prioritise(target, pod)
    }

    fn prioritise(&self, target: &Target, pod: &mut Value) -> Result<(), ApiError> {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let forbidden = |why: String| Err(ApiError::forbidden(target.resource.subject(), &name, &why));
        let spec = &mut pod["spec"];
        let wanted = spec["priorityClassName"].as_str().unwrap_or_default().to_owned();
        let class = match wanted.is_empty() {
            true => self.classes().into_iter().find(|class| class["globalDefault"] == true),
            false => {
                let Some(class) = self.class(&wanted) else {
                    return forbidden(format!("no PriorityClass with name {wanted} was found"));
                };
                Some(class)
            }
        };
        let computed = class.as_ref().and_then(|class| class["value"].as_i64()).unwrap_or_default();
        if let Some(given) = spec["priority"].as_i64().filter(|given| *given != computed) {
            return forbidden(format!(
                "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed \
                 {computed} from the given PriorityClass name"
            ));
        }
        let policy = class.as_ref().and_then(|class| class["preemptionPolicy"].as_str());
        let policy = policy.unwrap_or("PreemptLowerPriority");
        if let Some(given) = spec["preemptionPolicy"].as_str().filter(|given| *given != policy) {
            return forbidden(format!(
                "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission controller \
                 computed {policy} from the given PriorityClass name"
            ));
        }
        if let (Some(class), true) = (&class, wanted.is_empty()) {
            spec["priorityClassName"] = class["metadata"]["name"].clone();
        }
        spec["priority"] = json!(computed);
        spec["preemptionPolicy"] = json!(policy);
        Ok(())
    }

    fn classes(&self) -> Vec<Value> {
        let resource = self.state.registry.find("scheduling.k8s.io", "priorityclasses");
        let table = resource.and_then(|resource| self.state.store.table(resource.table));
        table.into_iter().flat_map(|table| table.objects.values()).map(|stored| stored.value()).collect()
    }

    fn class(&self, name: &str) -> Option<Value> {
        let found = self.classes().into_iter().find(|class| class["metadata"]["name"] == name);
        found.or_else(|| {
            let (_, value) = SYSTEM_CLASSES.iter().find(|(known, _)| *known == name)?;
            Some(json!({"metadata": {"name": name}, "value": value}))
        })
    }
}

/// Says of a new Pod with scheduling gates that no scheduler takes it yet.
pub(crate) fn hold_back(pod: &mut Value, now: &str) {
    let gated = pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty());
    if gated {
        pod["status"]["conditions"] = json!([{
            "type": "PodScheduled",
            "status": "False",
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
            "lastProbeTime": null,
            "lastTransitionTime": now,
        }]);
    }
}

fn tolerate(spec: &mut Value) {
    let given = spec["tolerations"].as_array().cloned().unwrap_or_default();
    let text = |one: &Value, key: &str| one[key].as_str().unwrap_or_default().to_owned();
    let tolerates = |key: &str| {
        given.iter().any(|one| {
            let (own, effect) = (text(one, "key"), text(one, "effect"));
            (own.is_empty() || own == key) && (effect.is_empty() || effect == "NoExecute")
        })
    };
    let added: Vec<Value> = BROKEN
        .iter()
        .filter(|key| !tolerates(key))
        .map(|key| {
            json!({"effect": "NoExecute", "key": key, "operator": "Exists", "tolerationSeconds": TOLERATION_SECONDS})
        })
        .collect();
    let all = [given, added].concat();
    if !all.is_empty() {
        spec["tolerations"] = Value::Array(all);
    }
}
