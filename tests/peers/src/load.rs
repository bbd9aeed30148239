//! What happens on the cluster: users that come, and statuses that change.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use evenkeel_test_cluster::Client;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::Request;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::team;

const USERS: &str = "/apis/anacnu.com/v1/kiteusers";
/// Requests that are under way at once.
const AT_ONCE: usize = 4;
/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(600);

async fn send(client: &Client, method: &str, path: &str, body: &Value) -> anyhow::Result<()> {
    let content = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let request = Request::builder().method(method).uri(path).header("content-type", content);
    let answer = client.send(request.body(Bytes::from(body.to_string()))?).await?;
    if !answer.status.is_success() {
        bail!("{method} {path}: {} {}", answer.status, String::from_utf8_lossy(&answer.body));
    }
    Ok(())
}

fn name(number: usize) -> String {
    format!("user-{number:05}")
}

/// How long it took until everything was applied.
#[derive(Clone)]
pub struct Converged {
    /// From the first user to the last one ready.
    pub all: Duration,
    /// Of each user, from the API server's word that it is there to the status that says that it is ready; in order.
    pub each: Vec<Duration>,
}

/// Creates users, of so many teams in turn, and waits until each is ready.
pub async fn users(client: &Client, count: usize, teams: usize) -> anyhow::Result<Converged> {
    let began = Instant::now();
    let ready = async {
        let mut ready = BTreeMap::new();
        // A watch that ends is opened again, and begins with all that is there.
        while ready.len() < count {
            until_ready(client, count, &mut ready).await?;
        }
        anyhow::Ok(ready)
    };
    let made = stream::iter(0..count)
        .map(|number| async move {
            let name = name(number);
            let user = json!({
                "apiVersion": "anacnu.com/v1", "kind": "KiteUser",
                "metadata": {"name": name, "labels": {"team": team::name(number % teams)}},
                "spec": {"username": name, "namespace": format!("tenant-{name}")},
            });
            send(client, "POST", USERS, &user).await?;
            anyhow::Ok((name, Instant::now()))
        })
        .buffer_unordered(AT_ONCE)
        .try_collect::<Vec<_>>();
    let (ready, made) = tokio::time::timeout(PATIENCE, async { tokio::try_join!(ready, made) })
        .await
        .context("it never converged")??;
    let mut each: Vec<Duration> = made
        .iter()
        .filter_map(|(name, made)| Some(ready.get(name)?.saturating_duration_since(*made)))
        .collect();
    each.sort_unstable();
    Ok(Converged { all: began.elapsed(), each })
}

/// Notes when each user is seen ready for the first time, until so many are or the watch ends.
async fn until_ready(
    client: &Client,
    count: usize,
    ready: &mut BTreeMap<String, Instant>,
) -> anyhow::Result<()> {
    let watch = Request::get(format!("{USERS}?watch=1")).body(Bytes::new())?;
    let (status, _, mut lines) = client.open(watch).await?;
    if !status.is_success() {
        bail!("users cannot be watched: {status}");
    }
    while ready.len() < count {
        let Some(line) = lines.next().await? else { return Ok(()) };
        let event: Value = serde_json::from_slice(&line)?;
        let object = &event["object"];
        if event["type"] == "ERROR" {
            bail!("the watch of users failed: {object}");
        }
        if object["status"]["phase"] == "Ready" {
            let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            ready.entry(name).or_insert_with(Instant::now);
        }
    }
    Ok(())
}

/// Has the statuses of quotas change, as the quota controller does with each pod: nothing of it concerns a user's reconciler.
pub async fn storm(client: &Client, users: usize, changes: usize) -> anyhow::Result<()> {
    stream::iter(0..changes)
        .map(|number| async move {
            let path = format!(
                "/api/v1/namespaces/tenant-{}/resourcequotas/kite-user-quota-policy/status",
                name(number % users)
            );
            let used = json!({"status": {"used": {"requests.cpu": (number / users + 1).to_string()}}});
            send(client, "PATCH", &path, &used).await
        })
        .buffer_unordered(AT_ONCE)
        .try_collect::<Vec<()>>()
        .await?;
    Ok(())
}
