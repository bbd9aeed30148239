//! How fast both servers are on the same machine, through the same client over TLS.

use crate::arena::Arena;
use crate::server::Server;
use anyhow::{Context, bail};
use bytes::Bytes;
use evenkeel_sandbox::{ListenOptions, Sandbox, SandboxOptions};
use evenkeel_test_cluster::Client;
use futures::{StreamExt, TryStreamExt};
use http::Request;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::Instant;

const READS: usize = 4_000;
const WRITES: usize = 2_000;
/// Requests under way at once.
const AT_ONCE: usize = 8;
const WATCHERS: usize = 100;
const EVENTS: usize = 100;
const OBJECTS: usize = 10_000;
/// The body of a request without one.
static NOTHING: Value = Value::Null;
const CONFIGS: &str = "/api/v1/namespaces/default/configmaps";

/// Measures both servers and prints a table. Nothing is compared with a goal: 0 is returned.
///
/// # Errors
/// Where a server does not answer as it must.
pub async fn measure(arena: &Arena) -> anyhow::Result<usize> {
    let began = Instant::now();
    let sandbox = Sandbox::new(SandboxOptions::default());
    let listening = sandbox.serve(ListenOptions::default()).await.context("the sandbox cannot listen")?;
    let start = began.elapsed();
    let embedded = client_of(&listening.kubeconfig, listening.address)?;
    let [real, _] = arena.servers();
    let mut rows = vec![(
        "start until ready, ms".to_owned(),
        arena.started.as_secs_f64() * 1e3,
        start.as_secs_f64() * 1e3,
    )];
    let embedded = Server::Real(embedded);
    let (left, right) = (speeds(&real).await?, speeds(&embedded).await?);
    rows.extend(left.into_iter().zip(right).map(|((name, real), (_, embedded))| (name, real, embedded)));
    let before = memory(&[std::process::id()])?;
    fill(&embedded, OBJECTS).await?;
    let grown = memory(&[std::process::id()])? - before;
    let plane = arena.plane.process_ids();
    let idle = memory(&plane)?;
    fill(&real, OBJECTS).await?;
    let full = memory(&plane)?;
    rows.push((format!("memory more with {OBJECTS} objects, MiB"), full - idle, grown));
    rows.push((format!("memory in all with {OBJECTS} objects, MiB"), full, memory(&[std::process::id()])?));
    println!("{:<48}{:>16}{:>12}", "", "kube-apiserver", "sandbox");
    for (name, real, embedded) in rows {
        println!("{name:<48}{real:>16.0}{embedded:>12.0}");
    }
    Ok(0)
}

/// What is measured of one server.
async fn speeds(server: &Server) -> anyhow::Result<Vec<(String, f64)>> {
    send(server, "POST", CONFIGS, "application/json", &config("read", 0)).await?;
    let read = format!("{CONFIGS}/read");
    let reads = rate(READS, |_| send(server, "GET", &read, "", &NOTHING)).await?;
    let applies = rate(WRITES, |number| async move {
        let name = format!("applied-{}", number % 200);
        let path = format!("{CONFIGS}/{name}?fieldManager=speed&force=true");
        send(server, "PATCH", &path, "application/apply-patch+yaml", &config(&name, number)).await
    })
    .await?;
    let fan_out = fan_out(server).await?;
    Ok(vec![
        (format!("reads a second, {AT_ONCE} at once"), reads),
        (format!("applies a second, {AT_ONCE} at once"), applies),
        (format!("events a second to {WATCHERS} watchers in all"), fan_out),
    ])
}

/// Requests a second.
async fn rate<F, T>(count: usize, request: impl Fn(usize) -> F) -> anyhow::Result<f64>
where
    F: Future<Output = anyhow::Result<T>>,
{
    let began = Instant::now();
    let all = futures::stream::iter(0..count).map(request).buffer_unordered(AT_ONCE);
    all.try_for_each(|_| std::future::ready(Ok(()))).await?;
    Ok(rate_of(count, began.elapsed()))
}

#[allow(clippy::cast_precision_loss)] // Far below the point where it matters.
fn rate_of(count: usize, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64()
}

/// Events that reach watchers in a second, all watchers together.
async fn fan_out(server: &Server) -> anyhow::Result<f64> {
    let version = send(server, "GET", CONFIGS, "", &NOTHING).await?;
    let version = version["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
    let last = format!("event-{}", EVENTS - 1);
    let began = Instant::now();
    let watchers = (0..WATCHERS).map(|_| {
        let (server, needle) = (server.clone(), format!("\"name\":\"{last}\""));
        let path = format!("{CONFIGS}?watch=1&timeoutSeconds=120&resourceVersion={version}");
        tokio::spawn(async move {
            let request = Request::get(path).body(Bytes::new())?;
            let raw = server.watch(request, |line| String::from_utf8_lossy(line).contains(&needle)).await?;
            anyhow::Ok(raw.body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count())
        })
    });
    let watchers: Vec<_> = watchers.collect();
    for number in 0..EVENTS {
        send(server, "POST", CONFIGS, "application/json", &config(&format!("event-{number}"), number))
            .await?;
    }
    for watcher in watchers {
        let seen = watcher.await??;
        if seen < EVENTS {
            bail!("a watcher saw {seen} of {EVENTS} events");
        }
    }
    Ok(rate_of(WATCHERS * EVENTS, began.elapsed()))
}

async fn fill(server: &Server, count: usize) -> anyhow::Result<()> {
    let make = |number: usize| async move {
        let body = config(&format!("filled-{number}"), number);
        send(server, "POST", CONFIGS, "application/json", &body).await
    };
    rate(count, make).await.map(|_| ())
}

fn config(name: &str, number: usize) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"app": "speed"}},
        "data": {"number": number.to_string(), "text": "x".repeat(400)}})
}

async fn send(server: &Server, method: &str, path: &str, kind: &str, body: &Value) -> anyhow::Result<Value> {
    let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
    let mut request = Request::builder().method(method).uri(path);
    if !kind.is_empty() {
        request = request.header("content-type", kind);
    }
    let answer = server.send(request.body(body)?).await?;
    if answer.status >= 300 {
        bail!("{method} {path}: {} {}", answer.status, String::from_utf8_lossy(&answer.body));
    }
    Ok(serde_json::from_slice(&answer.body)?)
}

/// A client by what a kubeconfig of the sandbox holds.
fn client_of(kubeconfig: &str, address: std::net::SocketAddr) -> anyhow::Result<Client> {
    use base64::Engine as _;
    let config: Value = serde_saphyr::from_str(kubeconfig).context("the sandbox's kubeconfig")?;
    let ca = config["clusters"][0]["cluster"]["certificate-authority-data"].as_str().unwrap_or_default();
    let ca = base64::engine::general_purpose::STANDARD.decode(ca).context("the sandbox's CA")?;
    let token = config["users"][0]["user"]["token"].as_str().context("the sandbox's token")?;
    Client::new(address, &ca, token)
}

/// Resident memory in MiB of processes and those in their groups, as Linux tells it.
fn memory(groups: &[u32]) -> anyhow::Result<f64> {
    let mut pages = 0;
    for entry in std::fs::read_dir("/proc")? {
        let path: PathBuf = entry?.path();
        let Ok(stat) = std::fs::read_to_string(path.join("stat")) else { continue };
        // After the name, which may hold anything: state, parent, group.
        let Some((before, rest)) = stat.rsplit_once(')') else { continue };
        let id: u32 = before.split(' ').next().and_then(|id| id.parse().ok()).unwrap_or_default();
        let group: u32 =
            rest.split_whitespace().nth(2).and_then(|group| group.parse().ok()).unwrap_or_default();
        if groups.contains(&id) || groups.contains(&group) && id != std::process::id() {
            let Ok(statm) = std::fs::read_to_string(path.join("statm")) else { continue };
            pages += statm.split(' ').nth(1).and_then(|pages| pages.parse::<u32>().ok()).unwrap_or_default();
        }
    }
    Ok(f64::from(pages) * 4096.0 / (1024.0 * 1024.0))
}
