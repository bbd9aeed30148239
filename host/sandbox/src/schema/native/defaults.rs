//! Defaults of built-in kinds, as the functions of kube-apiserver set them, and the zero values that Go always writes.

use serde_json::{Map, Value, json};

use super::pods;
use super::quantity::Quantity;
use crate::schema::structural::{JsonType, Schema};

/// Fills in the defaults of a kind.
pub(super) fn apply(group: &str, kind: &str, body: &mut Value, schema: &Schema) {
    by_schema(body, schema);
    match (group, kind) {
        ("", "Namespace") => namespace(body),
        ("", "Service") => service(body),
        ("", "Secret") => set(body, "type", json!("Opaque")),
        ("", "PersistentVolumeClaim") => {
            claim_spec(&mut body["spec"]);
            set(&mut body["status"], "phase", json!("Pending"));
        }
        ("", "PersistentVolume") => {
            set(&mut body["status"], "phase", json!("Pending"));
            set(&mut body["spec"], "persistentVolumeReclaimPolicy", json!("Retain"));
            set(&mut body["spec"], "volumeMode", json!("Filesystem"));
        }
        ("", "Pod") => pods::pod(&mut body["spec"]),
        ("", "ReplicationController") => {
            pods::template(&mut body["spec"]["template"]);
            labels_of_template(body, true);
        }
        ("", "LimitRange") => items(&mut body["spec"], "limits").for_each(limit),
        ("", "Endpoints") => items(body, "subsets").for_each(|subset| {
            items(subset, "ports").for_each(|port| set(port, "protocol", json!("TCP")));
        }),
        ("networking.k8s.io", "NetworkPolicy") => network_policy(&mut body["spec"]),
        ("networking.k8s.io", "IngressClass") if body["spec"]["parameters"].is_object() => {
            set(&mut body["spec"]["parameters"], "scope", json!("Cluster"));
        }
        ("apps", "Deployment") => deployment(&mut body["spec"]),
        ("apps", "ReplicaSet") => {
            set(&mut body["spec"], "replicas", json!(1));
            pods::template(&mut body["spec"]["template"]);
        }
        ("apps", "DaemonSet") => daemon_set(&mut body["spec"]),
        ("apps", "StatefulSet") => stateful_set(&mut body["spec"]),
        ("batch", "Job") => {
            job(&mut body["spec"]);
            labels_of_template(body, false);
        }
        ("batch", "CronJob") => cron_job(&mut body["spec"]),
        ("policy", "PodDisruptionBudget") => {}
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => binding(body),
        ("storage.k8s.io", "StorageClass") => {
            set(body, "reclaimPolicy", json!("Delete"));
            set(body, "volumeBindingMode", json!("Immediate"));
        }
        ("storage.k8s.io", "CSIDriver") => csi_driver(&mut body["spec"]),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => crate::schema::crd::prepare(body),
        ("discovery.k8s.io", "EndpointSlice") => items(body, "ports").for_each(|port| {
            set(port, "name", json!(""));
            set(port, "protocol", json!("TCP"));
        }),
        ("scheduling.k8s.io", "PriorityClass") => {
            set(body, "preemptionPolicy", json!("PreemptLowerPriority"))
        }
        ("autoscaling", "HorizontalPodAutoscaler") => set(&mut body["spec"], "minReplicas", json!(1)),
        (
            "admissionregistration.k8s.io",
            "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration",
        ) => {
            let mutating = kind.starts_with('M');
            items(body, "webhooks").for_each(|webhook| admission(webhook, mutating));
        }
        _ => {}
    }
}

/// Fills in the structs and zero values that Go always writes.
pub(super) fn fill_zero(value: &mut Value, schema: &Schema) {
    let Value::Object(fields) = value else { return };
    for name in &schema.rules.required {
        // A list that must be there is there, as null; it is nobody's.
        if schema.property(name).is_some_and(|property| property.json_type() == Some(JsonType::Array)) {
            fields.entry(name.clone()).or_insert_with(|| Value::Array(Vec::new()));
        }
    }
    for (name, property) in schema.properties() {
        let Some(default) = property.default_value().filter(|_| !fields.contains_key(name)) else { continue };
        let zero = match default {
            Value::Object(content) => content.is_empty(),
            Value::String(text) => text.is_empty(),
            Value::Number(number) => number.as_f64() == Some(0.0),
            Value::Bool(flag) => !flag,
            Value::Null | Value::Array(_) => false,
        };
        if zero {
            let mut default = default.clone();
            fill_zero(&mut default, property);
            fields.insert(name.to_owned(), default);
        }
    }
}

/// Writes times that are not there as null: in Go they are structs, which are never left out.
pub(super) fn fill_times(value: &mut Value, schema: &Schema) {
    match value {
        Value::Object(fields) => {
            for (name, link) in &schema.properties {
                let written = schema.omitted.contains(name) || schema.rules.required.contains(name);
                // Only this one is tagged to be left out as a struct.
                if written && link.is_time() && name != "creationTimestamp" && !fields.contains_key(name) {
                    fields.insert(name.clone(), Value::Null);
                }
            }
            for (name, field) in fields.iter_mut() {
                if let Some(field_schema) = schema.field(name) {
                    fill_times(field, field_schema);
                }
            }
        }
        Value::Array(items) => {
            if let Some(item_schema) = schema.item() {
                items.iter_mut().for_each(|item| fill_times(item, item_schema));
            }
        }
        _ => {}
    }
}

/// What the OpenAPI document calls a default: declared defaults, and what Go writes for fields that it never leaves out.
fn by_schema(value: &mut Value, schema: &Schema) {
    match value {
        Value::Object(fields) => {
            for (name, property) in schema.properties() {
                if let (Some(default), false) = (property.default_value(), fields.contains_key(name)) {
                    fields.insert(name.to_owned(), default.clone());
                }
            }
            for (name, field) in fields.iter_mut() {
                if let Some(field_schema) = schema.field(name) {
                    by_schema(field, field_schema);
                }
            }
        }
        Value::Array(items) => {
            if let Some(item_schema) = schema.item() {
                items.iter_mut().for_each(|item| by_schema(item, item_schema));
            }
        }
        _ => {}
    }
}

/// Sets a field that is not there, or empty.
pub(super) fn set(object: &mut Value, field: &str, value: Value) {
    let Some(fields) = object.as_object_mut() else { return };
    let empty = match fields.get(field) {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(_) => false,
    };
    if empty {
        fields.insert(field.to_owned(), value);
    }
}

/// The items of a list field, to be changed.
pub(super) fn items<'a>(object: &'a mut Value, field: &str) -> impl Iterator<Item = &'a mut Value> {
    object.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten()
}

fn namespace(body: &mut Value) {
    let name = body["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    if !name.is_empty() {
        let meta = &mut body["metadata"];
        if !meta["labels"].is_object() {
            meta["labels"] = Value::Object(Map::new());
        }
        meta["labels"]["kubernetes.io/metadata.name"] = Value::from(name);
    }
    set(&mut body["status"], "phase", json!("Active"));
}

fn service(body: &mut Value) {
    let ingress_mode = body["spec"]["type"] == "LoadBalancer";
    let spec = &mut body["spec"];
    set(spec, "sessionAffinity", json!("None"));
    if spec["sessionAffinity"] == "ClientIP" {
        if spec.pointer("/sessionAffinityConfig/clientIP/timeoutSeconds").is_none() {
            spec["sessionAffinityConfig"] = json!({"clientIP": {"timeoutSeconds": 10800}});
        }
    } else if let Some(fields) = spec.as_object_mut() {
        fields.remove("sessionAffinityConfig");
    }
    set(spec, "type", json!("ClusterIP"));
    items(spec, "ports").for_each(|port| {
        set(port, "protocol", json!("TCP"));
        if port["targetPort"].is_null() || port["targetPort"] == 0 || port["targetPort"] == "" {
            port["targetPort"] = port["port"].clone();
        }
    });
    let ty = spec["type"].as_str().unwrap_or_default().to_owned();
    let external_ips = spec["externalIPs"].as_array().is_some_and(|ips| !ips.is_empty());
    if matches!(ty.as_str(), "NodePort" | "LoadBalancer") || (ty == "ClusterIP" && external_ips) {
        set(spec, "externalTrafficPolicy", json!("Cluster"));
    }
    if matches!(ty.as_str(), "NodePort" | "LoadBalancer" | "ClusterIP") {
        set(spec, "internalTrafficPolicy", json!("Cluster"));
    }
    if ingress_mode {
        set(spec, "allocateLoadBalancerNodePorts", json!(true));
        items(&mut body["status"]["loadBalancer"], "ingress").for_each(|one| {
            if one["ip"].as_str().is_some_and(|ip| !ip.is_empty()) {
                set(one, "ipMode", json!("VIP"));
            }
        });
    }
}

fn claim_spec(spec: &mut Value) {
    set(spec, "volumeMode", json!("Filesystem"));
}

fn limit(item: &mut Value) {
    if item["type"] != "Container" {
        return;
    }
    let copy = |item: &mut Value, from: &str, to: &str| {
        let source = item[from].as_object().cloned().unwrap_or_default();
        if source.is_empty() {
            return;
        }
        if !item[to].is_object() {
            item[to] = Value::Object(Map::new());
        }
        for (name, value) in source {
            if item[to].get(&name).is_none() {
                item[to][&name] = value;
            }
        }
    };
    copy(item, "max", "default");
    copy(item, "default", "defaultRequest");
    copy(item, "min", "defaultRequest");
}

fn network_policy(spec: &mut Value) {
    for direction in ["ingress", "egress"] {
        items(spec, direction).for_each(|rule| {
            items(rule, "ports").for_each(|port| set(port, "protocol", json!("TCP")));
        });
    }
    if spec.is_object() && spec["policyTypes"].as_array().is_none_or(Vec::is_empty) {
        let egress = spec["egress"].as_array().is_some_and(|rules| !rules.is_empty());
        spec["policyTypes"] = if egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
    }
}

fn deployment(spec: &mut Value) {
    pods::template(&mut spec["template"]);
    set(spec, "replicas", json!(1));
    set(&mut spec["strategy"], "type", json!("RollingUpdate"));
    if spec["strategy"]["type"] == "RollingUpdate" {
        let strategy = &mut spec["strategy"];
        set(strategy, "rollingUpdate", json!({}));
        set(&mut strategy["rollingUpdate"], "maxUnavailable", json!("25%"));
        set(&mut strategy["rollingUpdate"], "maxSurge", json!("25%"));
    }
    set(spec, "revisionHistoryLimit", json!(10));
    set(spec, "progressDeadlineSeconds", json!(600));
}

fn daemon_set(spec: &mut Value) {
    pods::template(&mut spec["template"]);
    set(&mut spec["updateStrategy"], "type", json!("RollingUpdate"));
    if spec["updateStrategy"]["type"] == "RollingUpdate" {
        let strategy = &mut spec["updateStrategy"];
        set(strategy, "rollingUpdate", json!({}));
        set(&mut strategy["rollingUpdate"], "maxUnavailable", json!(1));
        set(&mut strategy["rollingUpdate"], "maxSurge", json!(0));
    }
    set(spec, "revisionHistoryLimit", json!(10));
}

fn stateful_set(spec: &mut Value) {
    pods::template(&mut spec["template"]);
    set(spec, "podManagementPolicy", json!("OrderedReady"));
    let strategy = &mut spec["updateStrategy"];
    if strategy["type"].as_str().unwrap_or_default().is_empty() {
        set(strategy, "type", json!("RollingUpdate"));
        set(strategy, "rollingUpdate", json!({}));
    }
    if strategy["type"] == "RollingUpdate" && strategy["rollingUpdate"].is_object() {
        set(&mut strategy["rollingUpdate"], "partition", json!(0));
    }
    set(spec, "persistentVolumeClaimRetentionPolicy", json!({}));
    let retention = &mut spec["persistentVolumeClaimRetentionPolicy"];
    set(retention, "whenDeleted", json!("Retain"));
    set(retention, "whenScaled", json!("Retain"));
    set(spec, "replicas", json!(1));
    set(spec, "revisionHistoryLimit", json!(10));
    items(spec, "volumeClaimTemplates").for_each(|claim| {
        set(claim, "apiVersion", json!("v1"));
        set(claim, "kind", json!("PersistentVolumeClaim"));
        claim_spec(&mut claim["spec"]);
        set(&mut claim["status"], "phase", json!("Pending"));
    });
}

fn job(spec: &mut Value) {
    if !spec.is_object() {
        return;
    }
    pods::template(&mut spec["template"]);
    if spec["completions"].is_null() && spec["parallelism"].is_null() {
        spec["completions"] = json!(1);
    }
    if spec["completions"].is_null() {
        spec.as_object_mut().map(|fields| fields.remove("completions"));
    }
    if spec["parallelism"].is_null() {
        spec["parallelism"] = json!(1);
    }
    let per_index = spec.get("backoffLimitPerIndex").is_some_and(|limit| !limit.is_null());
    set(spec, "backoffLimit", if per_index { json!(i32::MAX) } else { json!(6) });
    set(spec, "completionMode", json!("NonIndexed"));
    set(spec, "suspend", json!(false));
    let policy = spec.get("podFailurePolicy").is_some_and(Value::is_object);
    set(spec, "podReplacementPolicy", json!(if policy { "Failed" } else { "TerminatingOrFailed" }));
    set(spec, "manualSelector", json!(false));
}

fn cron_job(spec: &mut Value) {
    set(spec, "concurrencyPolicy", json!("Allow"));
    set(spec, "suspend", json!(false));
    set(spec, "successfulJobsHistoryLimit", json!(3));
    set(spec, "failedJobsHistoryLimit", json!(1));
    if let Some(template) = spec.pointer_mut("/jobTemplate/spec/template") {
        pods::template(template);
    }
}

fn labels_of_template(body: &mut Value, selector: bool) {
    let labels = body["spec"]["template"]["metadata"]["labels"].clone();
    if labels.as_object().is_none_or(|labels| labels.is_empty()) {
        return;
    }
    if selector && body["spec"]["selector"].as_object().is_none_or(Map::is_empty) {
        body["spec"]["selector"] = labels.clone();
    }
    if body["metadata"]["labels"].as_object().is_none_or(Map::is_empty) {
        body["metadata"]["labels"] = labels;
    }
}

fn binding(body: &mut Value) {
    const RBAC: &str = "rbac.authorization.k8s.io";
    set(&mut body["roleRef"], "apiGroup", json!(RBAC));
    items(body, "subjects").for_each(|subject| {
        if matches!(subject["kind"].as_str(), Some("User" | "Group")) {
            set(subject, "apiGroup", json!(RBAC));
        }
    });
}

fn csi_driver(spec: &mut Value) {
    set(spec, "attachRequired", json!(true));
    set(spec, "podInfoOnMount", json!(false));
    set(spec, "storageCapacity", json!(false));
    set(spec, "fsGroupPolicy", json!("ReadWriteOnceWithFSType"));
    if spec["volumeLifecycleModes"].as_array().is_none_or(Vec::is_empty) && spec.is_object() {
        spec["volumeLifecycleModes"] = json!(["Persistent"]);
    }
    set(spec, "requiresRepublish", json!(false));
    set(spec, "seLinuxMount", json!(false));
}

fn admission(webhook: &mut Value, mutating: bool) {
    set(webhook, "failurePolicy", json!("Fail"));
    set(webhook, "matchPolicy", json!("Equivalent"));
    set(webhook, "namespaceSelector", json!({}));
    set(webhook, "objectSelector", json!({}));
    set(webhook, "timeoutSeconds", json!(10));
    if mutating {
        set(webhook, "reinvocationPolicy", json!("Never"));
    }
    items(webhook, "rules").for_each(|rule| set(rule, "scope", json!("*")));
    if let Some(service) = webhook.pointer_mut("/clientConfig/service").filter(|service| service.is_object())
    {
        set(service, "port", json!(443));
    }
}

/// The larger amounts of what a container may take become its requests, where it says none.
pub(super) fn requests_from_limits(container: &mut Value) {
    let Some(limits) = container.pointer("/resources/limits").and_then(Value::as_object).cloned() else {
        return;
    };
    if limits.is_empty() {
        return;
    }
    let resources = &mut container["resources"];
    if !resources["requests"].is_object() {
        resources["requests"] = Value::Object(Map::new());
    }
    for (name, amount) in limits {
        if resources["requests"].get(&name).is_none() {
            let known = amount.as_str().and_then(Quantity::parse).map(|amount| amount.to_string());
            resources["requests"][&name] = known.map_or(amount, Value::String);
        }
    }
}
