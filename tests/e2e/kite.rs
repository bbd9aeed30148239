//! Kite's users, and all that hangs on them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use futures::{StreamExt as _, stream};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::host::HostProcess;
use crate::world::{World, until};

const USERS: &str = "/apis/anacnu.com/v1/kiteusers";
const MANAGED: &str = "labelSelector=kite.anacnu.com/managed-by=kite-controller";
/// Everything that Kite's user controllers make, and the users.
const KINDS: [&str; 4] =
    [USERS, "/api/v1/namespaces", "/apis/networking.k8s.io/v1/networkpolicies", "/api/v1/resourcequotas"];
/// Requests that are under way at once.
const AT_ONCE: usize = 8;
/// How long nothing may be written before it counts as rest.
const REST: Duration = Duration::from_secs(3);

/// A user's name, from its number.
pub fn name(number: usize) -> String {
    format!("user-{number:05}")
}

/// The path of a user.
pub fn path(name: &str) -> String {
    format!("{USERS}/{name}")
}

/// The platform's configuration: what a user leaves behind goes at once.
pub async fn configure(world: &World) {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kite"}});
    world.must("POST", "/api/v1/namespaces", &namespace).await;
    let config = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kite-runtime-config"},
        "data": {"orphanNamespaceGraceSeconds": "0"},
    });
    world.must("POST", "/api/v1/namespaces/kite/configmaps", &config).await;
}

/// Creates a user, and tries again where the API server is away.
pub async fn create(world: &World, name: &str) {
    let user = json!({
        "apiVersion": "anacnu.com/v1", "kind": "KiteUser", "metadata": {"name": name},
        "spec": {"username": name, "namespace": format!("tenant-{name}")},
    });
    insist(world, "POST", USERS, &user, 409).await;
}

/// Deletes a user, and tries again where the API server is away.
pub async fn delete(world: &World, name: &str) {
    insist(world, "DELETE", &path(name), &Value::Null, 404).await;
}

async fn insist(world: &World, method: &str, path: &str, body: &Value, done: u16) {
    until(&format!("{method} {path} is taken"), async || match world.send(method, path, body).await {
        Ok(answer) if answer.status.is_success() || answer.status.as_u16() == done => Ok(()),
        Ok(answer) => Err(answer.status.to_string()),
        Err(error) => Err(format!("{error:#}")),
    })
    .await;
}

/// Creates many users.
pub async fn create_all(world: &World, numbers: std::ops::Range<usize>) {
    stream::iter(numbers)
        .for_each_concurrent(AT_ONCE, |number| async move { create(world, &name(number)).await })
        .await;
}

/// Waits until there are so many users, all of them ready.
pub async fn all_ready(world: &World, count: usize) -> Duration {
    until(&format!("{count} users are ready"), async || {
        let Ok(answer) = world.send("GET", USERS, &Value::Null).await else {
            return Err("the API server is away".to_owned());
        };
        let list: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let users = list["items"].as_array().cloned().unwrap_or_default();
        let waiting: Vec<&Value> = users.iter().filter(|user| user["status"]["phase"] != "Ready").collect();
        match waiting.first() {
            None if users.len() == count => Ok(()),
            None => Err(format!("{} users", users.len())),
            Some(first) => Err(format!("{} of {} wait, the first is {first}", waiting.len(), users.len())),
        }
    })
    .await
}

/// Waits until nothing is written any more, by what the API server and the host say, and holds both to it: the writes
/// that the host counts, and the revision of each object.
pub async fn at_rest(world: &World, host: &HostProcess) {
    until("the host is at rest", async || {
        let before = (revisions(world).await, sent(host).await);
        sleep(REST).await;
        let after = (revisions(world).await, sent(host).await);
        if before == after { Ok(()) } else { Err(format!("{} writes, then {}", before.1, after.1)) }
    })
    .await;
}

/// Actions that the host sent so far, those that came to nothing included; renewals of its Lease are none.
pub async fn sent(host: &HostProcess) -> f64 {
    let mut sum = 0.0;
    for result in ["sent", "conflict", "failed"] {
        sum += host.sum("evenkeel_actions_total", &[&format!("result=\"{result}\"")]).await;
    }
    sum
}

async fn revisions(world: &World) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for object in everything(world).await {
        let text =
            |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        found.insert(text("/metadata/uid"), text("/metadata/resourceVersion"));
    }
    found
}

/// Users and all that Kite made.
async fn everything(world: &World) -> Vec<Value> {
    let mut found = Vec::new();
    for kind in KINDS {
        let selector = if kind == USERS { "" } else { MANAGED };
        found.extend(world.list(&format!("{kind}?{selector}")).await);
    }
    found
}

/// All that is there, by user, in a form in which one user's things are like another's. What belongs to no user stands
/// under its own name.
pub async fn state(world: &World) -> BTreeMap<String, String> {
    let mut by_user: BTreeMap<String, String> = BTreeMap::new();
    for object in everything(world).await {
        let metadata = &object["metadata"];
        let is_user = metadata.get("namespace").is_none() && object["spec"].get("namespace").is_some();
        let named = metadata["namespace"].as_str().or(metadata["name"].as_str()).unwrap_or_default();
        let user = if is_user { named } else { named.strip_prefix("tenant-").unwrap_or(named) }.to_owned();
        let text = normal(&object).replace(&user, "USER");
        // Writing to a string cannot fail.
        let _ = writeln!(by_user.entry(user).or_default(), "{text}");
    }
    for (user, text) in &mut by_user {
        // The namespace tells for whom it was made, as NAME/UID.
        if let Some((before, rest)) = text.clone().split_once("created-for\":\"USER/")
            && let Some((_, after)) = rest.split_once('"')
        {
            *text = format!("{before}created-for\":\"USER/UID\"{after}");
        }
        assert!(!text.is_empty(), "{user}");
    }
    by_user
}

/// An object without what differs from one run to another: revisions, times, identities. Who manages which fields stays.
fn normal(object: &Value) -> String {
    let mut object = object.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for member in ["uid", "resourceVersion", "creationTimestamp"] {
            metadata.remove(member);
        }
        if let Some(managers) = metadata.get_mut("managedFields").and_then(Value::as_array_mut) {
            for manager in managers.iter_mut() {
                manager.as_object_mut().and_then(|manager| manager.remove("time"));
            }
            // The API server has them in the order of their times.
            managers.sort_by_cached_key(Value::to_string);
        }
    }
    let conditions = object.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten() {
        condition.as_object_mut().and_then(|condition| condition.remove("lastTransitionTime"));
    }
    object.to_string()
}

/// Holds every user to one that came about in quiet, and the whole to so many of them: nothing is orphaned.
pub fn assert_all_like(state: &BTreeMap<String, String>, quiet: &str, count: usize) {
    let model = state.get(quiet).unwrap_or_else(|| panic!("{quiet} is not there"));
    for (user, text) in state {
        assert_eq!(text, model, "{user} differs from {quiet}");
    }
    assert_eq!(state.len(), count, "{:?}", state.keys().collect::<Vec<_>>());
}
