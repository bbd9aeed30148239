//! Memory of cached objects, against the dynamic objects that kube's reflector holds.
//!
//! The first thousands of objects pay for what is there once; only the second half counts.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use evenkeel_cluster::{Cluster, ClusterOptions, Depth, Scope};
use evenkeel_core::contract::Gvk;
use http::{Request, Response};
use kube::client::Body;
use kube::core::DynamicObject;
use serde_json::{Value, json};

use crate::Scale;
use crate::child::{self, Figures, number};
use crate::measure::Memory;

/// Objects of one answer to a list.
const PAGE: usize = 500;

pub fn run(scale: Scale) -> anyhow::Result<()> {
    let objects = scale.pick(1_000_usize, 10_000).to_string();
    let ours = child::part("cache-of-the-host", &[&objects])?;
    let theirs = child::part("cache-of-kube", &[&objects])?;
    let ([ours, size, told], [theirs]) = (&ours[..], &theirs[..]) else {
        anyhow::bail!("other figures: {ours:?} {theirs:?}")
    };
    println!("  {objects} objects of {size:.0} bytes on the wire");
    println!("  the host's cache: {ours:.2} KiB an object (it says {told:.2}; goal: 3.6)");
    println!(
        "  dynamic objects of kube in a map: {theirs:.2} KiB (trial: 14.4 in a reflector); ratio {:.2}",
        theirs / ours
    );
    Ok(())
}
/// The host's cache, filled by a watch: KiB an object, bytes of one on the wire, and what the cache says that it takes.
pub fn of_the_host(arguments: &[String]) -> anyhow::Result<Figures> {
    let objects = number(arguments, 0)?;
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    tokio.block_on(async {
        let api = tower::service_fn(move |request: Request<Body>| answer(request, objects));
        let options = ClusterOptions::new(Arc::new(jiff::Timestamp::now));
        let cluster = Cluster::new(kube::Client::new(api, "default"), options);
        let before = filled(&cluster, "first", objects).await?;
        let after = filled(&cluster, "second", objects).await?;
        let told: usize = cluster.stats().kinds.iter().map(|kind| kind.bytes).sum();
        let told = told as f64 / 1024.0 / (2 * objects) as f64;
        Ok(vec![kib_each(before, after, objects), object("first", 0).len() as f64, told])
    })
}

/// Has a namespace watched, and returns the memory once it is in the cache.
async fn filled(cluster: &Cluster, namespace: &str, objects: usize) -> anyhow::Result<Memory> {
    let scope = Scope::Namespace(namespace.into());
    cluster.want(&deployment(), scope.clone(), Depth::Whole);
    let patience = Duration::from_secs(300);
    tokio::time::timeout(patience, cluster.settled(&deployment(), &scope, Depth::Whole)).await?;
    let memory = Memory::now();
    let stats = cluster.stats().kinds;
    let cached = stats.iter().filter(|kind| kind.gvk == deployment()).map(|kind| kind.objects).sum::<usize>();
    ensure!(cached % objects == 0 && cached > 0, "{cached} objects are cached");
    Ok(memory)
}

/// The same objects as kube reads them, in a map by their place.
pub fn of_kube(arguments: &[String]) -> anyhow::Result<Figures> {
    let objects = number(arguments, 0)?;
    let mut store: HashMap<(String, String), Arc<DynamicObject>> = HashMap::new();
    let mut fill = |namespace: &str| -> anyhow::Result<Memory> {
        for at in 0..objects {
            let object: DynamicObject = serde_json::from_str(&object(namespace, at))?;
            let place = (namespace.to_owned(), object.metadata.name.clone().context("a name")?);
            store.insert(place, Arc::new(object));
        }
        Ok(Memory::now())
    };
    let (before, after) = (fill("first")?, fill("second")?);
    Ok(vec![kib_each(before, after, objects)])
}

fn kib_each(before: Memory, after: Memory, objects: usize) -> f64 {
    after.private.saturating_sub(before.private) as f64 / 1024.0 / objects as f64
}

fn deployment() -> Gvk {
    Gvk::new("apps", "v1", "Deployment")
}

/// An API server that serves Deployments: made as they are asked for, so that only the cache holds them.
async fn answer(request: Request<Body>, objects: usize) -> Result<Response<Body>, Infallible> {
    // Taken out, as the body cannot be held over a wait.
    let uri = request.into_parts().0.uri;
    let parameter = |name: &str| {
        let mut parts = uri.query().unwrap_or_default().split('&').filter_map(|part| part.split_once('='));
        parts.find(|(key, _)| *key == name).map(|(_, value)| value.to_owned())
    };
    if parameter("watch").is_some() {
        // Nothing changes.
        return std::future::pending().await;
    }
    let namespace = uri.path().split('/').nth(5).unwrap_or_default();
    let text = if namespace.is_empty() {
        json!({"kind": "APIResourceList", "groupVersion": "apps/v1", "resources": [{"name": "deployments",
            "singularName": "deployment", "kind": "Deployment", "namespaced": true, "verbs": ["get", "list", "watch"]}]})
        .to_string()
    } else {
        let from: usize = parameter("continue").and_then(|text| text.parse().ok()).unwrap_or(0);
        let items: Vec<_> = (from..objects.min(from + PAGE)).map(|at| object(namespace, at)).collect();
        let next = if from + PAGE < objects { (from + PAGE).to_string() } else { String::new() };
        format!(
            r#"{{"kind":"DeploymentList","apiVersion":"apps/v1","metadata":{{"resourceVersion":"1000000","continue":"{next}"}},"items":[{}]}}"#,
            items.join(",")
        )
    };
    Ok(Response::new(Body::from(text.into_bytes())))
}

/// About 3 KB on the wire, with the metadata that an object in use has.
fn object(namespace: &str, at: usize) -> String {
    let name = format!("shop-frontend-{at}");
    let labels = json!({"app.kubernetes.io/name": "shop-frontend", "app.kubernetes.io/instance": name,
        "app.kubernetes.io/version": "1.14.2", "app.kubernetes.io/managed-by": "helm"});
    let container = json!({"name": "web", "image": format!("registry.example.test/shop/frontend:1.14.{}", at % 90),
        "imagePullPolicy": "IfNotPresent", "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "env": [{"name": "SHOP", "value": name}, {"name": "LOG", "value": "info"},
            {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": name, "key": "password"}}}],
        "resources": {"limits": {"cpu": "500m", "memory": "256Mi"}, "requests": {"cpu": "50m", "memory": "128Mi"}},
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": "http", "scheme": "HTTP"}, "periodSeconds": 10},
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"});
    let time = "2026-01-01T00:00:00Z";
    let condition = |type_: &str, reason: &str| {
        json!({"type": type_, "status": "True", "reason": reason, "message": "The ReplicaSet has successfully progressed.",
            "lastUpdateTime": time, "lastTransitionTime": time})
    };
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "uid": format!("0b5cbbd4-0000-4000-8000-{at:012}"),
            "resourceVersion": (at + 1).to_string(), "generation": 3, "creationTimestamp": time, "labels": labels,
            "annotations": {"deployment.kubernetes.io/revision": "3", "meta.helm.sh/release-name": name},
            "managedFields": managed_fields(time)},
        "spec": {"replicas": 2, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
            "selector": {"matchLabels": {"app.kubernetes.io/instance": name}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container], "dnsPolicy": "ClusterFirst",
                "restartPolicy": "Always", "schedulerName": "default-scheduler", "terminationGracePeriodSeconds": 30}}},
        "status": {"observedGeneration": 3, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2, "availableReplicas": 2,
            "conditions": [condition("Available", "MinimumReplicasAvailable"),
                condition("Progressing", "NewReplicaSetAvailable")]}})
    .to_string()
}

fn managed_fields(time: &str) -> Value {
    let spec = json!({"f:replicas": {}, "f:selector": {}, "f:strategy": {"f:type": {}}, "f:template": {"f:spec": {
        "f:containers": {"k:{\"name\":\"web\"}": {".": {}, "f:image": {}, "f:name": {}, "f:ports": {}, "f:env": {}}}}}});
    let status =
        json!({"f:availableReplicas": {}, "f:conditions": {}, "f:observedGeneration": {}, "f:replicas": {}});
    json!([
        {"manager": "helm", "operation": "Update", "apiVersion": "apps/v1", "time": time, "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": {"f:labels": {}, "f:annotations": {}}, "f:spec": spec}},
        {"manager": "kube-controller-manager", "operation": "Update", "apiVersion": "apps/v1", "time": time,
            "fieldsType": "FieldsV1", "subresource": "status", "fieldsV1": {"f:status": status}},
    ])
}
