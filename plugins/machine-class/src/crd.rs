//! The definitions of the four kinds. A class has no `spec`, its fields stand at the top, so these are written out.
//!
//! As upstream's they hold no default, no enum and no rule: objects that an upstream controller took are taken here.

use serde_json::{Map, Value, json};

use crate::names::{GROUP, VERSION};

mod schema;
#[cfg(test)]
mod tests;

use schema::{any, boolean, integer, list, map, object, optional, quantity, string, time};

/// One kind of the family.
struct Definition {
    kind: &'static str,
    plural: &'static str,
    short: &'static str,
    about: &'static str,
    /// The fields besides `apiVersion`, `kind` and `metadata`.
    schema: Value,
    /// None where the kind has no status subresource.
    subresources: Option<Value>,
    columns: Value,
}

/// All four.
pub(crate) fn all() -> [Value; 4] {
    [machine_class(), machine(), machine_set(), machine_deployment()].map(definition)
}

fn definition(it: Definition) -> Value {
    let Definition { kind, plural, short, about, mut schema, subresources, columns } = it;
    schema["description"] = about.into();
    schema["properties"]["apiVersion"] = string();
    schema["properties"]["kind"] = string();
    schema["properties"]["metadata"] = json!({"type": "object"});
    let mut version = Map::new();
    version.insert("name".into(), VERSION.into());
    version.insert("served".into(), true.into());
    version.insert("storage".into(), true.into());
    version.insert("schema".into(), json!({"openAPIV3Schema": schema}));
    if columns != json!([]) {
        version.insert("additionalPrinterColumns".into(), columns);
    }
    if let Some(subresources) = subresources {
        version.insert("subresources".into(), subresources);
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{GROUP}")},
        "spec": {
            "group": GROUP,
            "names": {
                "kind": kind, "listKind": format!("{kind}List"), "plural": plural,
                "singular": kind.to_lowercase(), "shortNames": [short],
            },
            "scope": "Namespaced",
            "versions": [version],
        },
    })
}

fn machine_class() -> Definition {
    let secret = || object(&[("name", string()), ("namespace", string())]);
    let mut template = object(&[
        ("capacity", map(quantity())),
        ("virtualCapacity", map(quantity())),
        ("instanceType", string()),
        ("region", string()),
        ("zone", string()),
        ("architecture", string()),
    ]);
    template["required"] = json!(["capacity", "instanceType", "region", "zone"]);
    template["x-kubernetes-preserve-unknown-fields"] = true.into();
    let mut schema = object(&[
        ("provider", string()),
        ("providerSpec", any()),
        ("secretRef", secret()),
        ("credentialsSecretRef", secret()),
        ("nodeTemplate", template),
    ]);
    schema["required"] = json!(["providerSpec"]);
    Definition {
        kind: "MachineClass",
        plural: "machineclasses",
        short: "mcc",
        about: "What machines are made of: a driver, what it is told, and Secrets.",
        schema,
        subresources: None,
        columns: json!([]),
    }
}

fn machine() -> Definition {
    let current = object(&[
        ("phase", string()),
        ("timeoutActive", boolean()),
        ("lastUpdateTime", time()),
        ("preserveExpiryTime", optional(time())),
    ]);
    let mut status = object(&[
        ("currentStatus", current),
        ("lastOperation", last_operation()),
        ("lastKnownState", string()),
        ("conditions", list(condition())),
        ("addresses", list(object(&[("type", string()), ("address", string())]))),
    ]);
    status["description"] = "What the machine is.".into();
    Definition {
        kind: "Machine",
        plural: "machines",
        short: "mc",
        about: "A VM that becomes a Node.",
        schema: object(&[("spec", machine_spec()), ("status", status)]),
        subresources: Some(json!({"status": {}})),
        columns: json!([
            {"name": "Status", "type": "string", "jsonPath": ".status.currentStatus.phase"},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
            {"name": "Node", "type": "string", "jsonPath": ".metadata.labels.node"},
            {"name": "ProviderID", "type": "string", "jsonPath": ".spec.providerID", "priority": 1},
        ]),
    }
}

fn class_reference() -> Value {
    object(&[("apiGroup", string()), ("kind", string()), ("name", string())])
}

fn machine_spec() -> Value {
    object(&[
        ("class", class_reference()),
        ("providerID", string()),
        ("nodeTemplate", object(&[("metadata", any()), ("spec", any())])),
        ("creationTimeout", string()),
        ("healthTimeout", string()),
        ("drainTimeout", string()),
        ("inPlaceUpdateTimeout", string()),
        ("machinePreserveTimeout", string()),
        ("disableHealthTimeout", boolean()),
        ("maxEvictRetries", integer()),
        ("nodeConditions", string()),
    ])
}

fn last_operation() -> Value {
    object(&[
        ("description", string()),
        ("errorCode", string()),
        ("lastUpdateTime", time()),
        ("state", string()),
        ("type", string()),
    ])
}

fn condition() -> Value {
    object(&[
        ("type", string()),
        ("status", string()),
        ("reason", string()),
        ("message", string()),
        ("lastHeartbeatTime", optional(time())),
        ("lastTransitionTime", optional(time())),
        ("lastUpdateTime", optional(time())),
    ])
}

/// What sets and deployments have in common: how many machines, which, and of what.
fn replicas() -> Vec<(&'static str, Value)> {
    vec![
        ("replicas", integer()),
        ("selector", any()),
        ("template", object(&[("metadata", any()), ("spec", machine_spec())])),
        ("minReadySeconds", integer()),
        ("autoPreserveFailedMachineMax", integer()),
    ]
}

fn set_condition() -> Value {
    let names = ["type", "status", "reason", "message", "lastUpdateTime", "lastTransitionTime"];
    let fields = names.map(|name| (name, if name.ends_with("Time") { optional(time()) } else { string() }));
    object(&fields)
}

fn failed_machines() -> Value {
    list(object(&[
        ("name", string()),
        ("providerID", string()),
        ("ownerRef", string()),
        ("lastOperation", last_operation()),
    ]))
}

fn scaled() -> Option<Value> {
    Some(json!({
        "status": {},
        "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
    }))
}

fn machine_set() -> Definition {
    let mut spec = replicas();
    spec.push(("machineClass", class_reference()));
    let status = object(&[
        ("replicas", integer()),
        ("fullyLabeledReplicas", integer()),
        ("readyReplicas", integer()),
        ("availableReplicas", integer()),
        ("observedGeneration", integer()),
        ("machineSetCondition", list(set_condition())),
        ("lastOperation", last_operation()),
        ("failedMachines", failed_machines()),
        ("preservedFailedReplicas", integer()),
        ("autoPreserveFailedMachineCount", integer()),
    ]);
    Definition {
        kind: "MachineSet",
        plural: "machinesets",
        short: "mcs",
        about: "So many machines of one template.",
        schema: object(&[("spec", object(&spec)), ("status", status)]),
        subresources: scaled(),
        columns: json!([
            {"name": "Desired", "type": "integer", "jsonPath": ".spec.replicas"},
            {"name": "Current", "type": "integer", "jsonPath": ".status.replicas"},
            {"name": "Ready", "type": "integer", "jsonPath": ".status.readyReplicas"},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ]),
    }
}

fn machine_deployment() -> Definition {
    let rolling = || vec![("maxUnavailable", quantity()), ("maxSurge", quantity())];
    let mut in_place = rolling();
    in_place.push(("orchestrationType", string()));
    let mut spec = replicas();
    spec.extend([
        (
            "strategy",
            object(&[
                ("type", string()),
                ("rollingUpdate", object(&rolling())),
                ("inPlaceUpdate", object(&in_place)),
            ]),
        ),
        ("revisionHistoryLimit", integer()),
        ("paused", boolean()),
        ("progressDeadlineSeconds", integer()),
        ("rollbackTo", object(&[("revision", integer())])),
    ]);
    let mut spec = object(&spec);
    spec["required"] = json!(["template"]);
    let status = object(&[
        ("replicas", integer()),
        ("updatedReplicas", integer()),
        ("readyReplicas", integer()),
        ("availableReplicas", integer()),
        ("unavailableReplicas", integer()),
        ("observedGeneration", integer()),
        ("collisionCount", integer()),
        ("conditions", list(set_condition())),
        ("failedMachines", failed_machines()),
    ]);
    Definition {
        kind: "MachineDeployment",
        plural: "machinedeployments",
        short: "mcd",
        about: "Machines that are replaced one after the other when their template changes.",
        schema: object(&[("spec", spec), ("status", status)]),
        subresources: scaled(),
        columns: json!([
            {"name": "Ready", "type": "integer", "jsonPath": ".status.readyReplicas"},
            {"name": "Desired", "type": "integer", "jsonPath": ".spec.replicas"},
            {"name": "Up-to-date", "type": "integer", "jsonPath": ".status.updatedReplicas"},
            {"name": "Available", "type": "integer", "jsonPath": ".status.availableReplicas"},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ]),
    }
}
