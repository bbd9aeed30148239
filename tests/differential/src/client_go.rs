//! The examples that come with client-go, run against an API server: a client that nobody here wrote, with its own ideas of
//! what a server answers.

use crate::arena::Arena;
use crate::server::Server;
use anyhow::{Context, bail};
use bytes::Bytes;
use evenkeel_sandbox::ListenOptions;
use evenkeel_test_cluster::{DEMAND, Process};
use http::Request;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use tokio::io::AsyncWriteExt;

/// Longest that an example may take; they wait for nothing but the server.
const EXAMPLE_MAX: Duration = Duration::from_secs(60);
/// Longest until something that an example does is seen.
const SEEN_MAX: Duration = Duration::from_secs(30);
/// After this a forgotten process is killed.
const LIMIT: Duration = Duration::from_secs(300);
const POLL: Duration = Duration::from_millis(100);
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/default/deployments/demo-deployment";
const PODS: &str = "/api/v1/namespaces/default/pods";
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases/example";

/// What the examples of client-go tell of the real server and of the sandbox.
///
/// # Errors
/// As [`Examples::run`], and where the sandbox cannot listen.
pub async fn compare_client_go(arena: &Arena, examples: &Examples) -> anyhow::Result<[String; 2]> {
    let listening =
        arena.sandbox.serve(ListenOptions::default()).await.context("the sandbox cannot listen")?;
    let folder = tempfile::tempdir()?;
    let kubeconfig = folder.path().join("kubeconfig");
    listening.write_kubeconfig(&kubeconfig)?;
    let [real, sandbox] = arena.servers();
    let first = examples.run(&real, &arena.plane.kubeconfig("admin")).await.context("on the real server")?;
    let second = examples.run(&sandbox, &kubeconfig).await.context("on the sandbox")?;
    Ok([first, second])
}

/// The built examples.
#[derive(Clone, Debug)]
pub struct Examples {
    folder: PathBuf,
}

impl Examples {
    /// Builds them from the module that the control plane is built from. Where there is no Go, says so aloud and gives nothing.
    ///
    /// # Errors
    /// Where they do not build, or Go is missing although a control plane is demanded.
    pub fn build_or_skip() -> anyhow::Result<Option<Examples>> {
        if Command::new("go").arg("version").stdout(Stdio::null()).status().is_err() {
            if std::env::var_os(DEMAND).is_some() {
                bail!("the examples of client-go need Go ({DEMAND} is set)");
            }
            eprintln!("\n!!! SKIPPED: the examples of client-go need Go: see https://go.dev/doc/install\n");
            return Ok(None);
        }
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let folder = here.join("../../target/client-go");
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let folder = folder.canonicalize()?;
        let names = [
            "create-update-delete-deployment",
            "dynamic-create-update-delete-deployment",
            "workqueue",
            "leader-election",
        ];
        for name in names {
            let status = Command::new("go")
                // The flags of the control plane, so that what both need is compiled once.
                .args(["build", "-p", "2", "-trimpath", "-ldflags", "-s -w", "-o"])
                .arg(folder.join(name))
                .arg(format!("k8s.io/client-go/examples/{name}"))
                .current_dir(here.join("../cluster/kubernetes"))
                .env("CGO_ENABLED", "0")
                .stdin(Stdio::null())
                .status()
                .context("cannot run go")?;
            if !status.success() {
                bail!("the example {name} of client-go does not build ({status})");
            }
        }
        Ok(Some(Examples { folder }))
    }

    /// Runs all of them; what they print, and what they leave on the server, in an order that does not depend on time.
    ///
    /// # Errors
    /// Where one of them does not run, does not end, or does not do what it is for.
    pub async fn run(&self, server: &Server, kubeconfig: &Path) -> anyhow::Result<String> {
        let mut told = String::new();
        for name in ["create-update-delete-deployment", "dynamic-create-update-delete-deployment"] {
            told.push_str(&format!("# {name}\n{}", self.deployment(name, kubeconfig).await?));
            seen(server, DEPLOYMENT, |status, _| status == 404).await.context("the Deployment stays")?;
        }
        told.push_str(&format!("# workqueue\n{}", self.workqueue(server, kubeconfig).await?));
        told.push_str(&format!("# leader-election\n{}", self.leader(server, kubeconfig).await?));
        Ok(told)
    }

    /// Creates, updates, lists and deletes a Deployment, and asks a person to press Return in between.
    async fn deployment(&self, name: &str, kubeconfig: &Path) -> anyhow::Result<String> {
        let mut child = tokio::process::Command::new(self.folder.join(name))
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot run {name}"))?;
        // It takes all that there is at its first question, and finds the end at the others: that counts as Return, too.
        if let Some(mut input) = child.stdin.take() {
            input.write_all(b"\n").await.ok();
        }
        let output = tokio::time::timeout(EXAMPLE_MAX, child.wait_with_output())
            .await
            .with_context(|| format!("{name} does not end"))??;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            bail!("{name} failed:\n{text}{}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(text)
    }

    /// Watches Pods through an informer and says what happens to them.
    async fn workqueue(&self, server: &Server, kubeconfig: &Path) -> anyhow::Result<String> {
        let log = self.folder.join("workqueue.log");
        let arguments = [format!("--kubeconfig={}", kubeconfig.display())];
        let _running = Process::start(&self.folder.join("workqueue"), &arguments, &log, LIMIT)?;
        let mut told = String::new();
        let mut say = |line: &str| told.push_str(&format!("{line}\n"));
        // A Pod that it believes in from the start, and that is not there.
        logged(&log, "Pod default/mypod does not exist anymore").await?;
        say("a Pod that is not there is noticed");
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "example"},
            "spec": {"containers": [{"name": "main", "image": "img"}]}});
        send(server, "POST", PODS, &pod).await?;
        logged(&log, "Sync/Add/Update for Pod example").await?;
        say("a new Pod is noticed");
        let options = json!({"gracePeriodSeconds": 0});
        send(server, "DELETE", &format!("{PODS}/example"), &options).await?;
        logged(&log, "Pod default/example does not exist anymore").await?;
        say("a Pod that goes is noticed");
        Ok(told)
    }

    /// Takes a Lease and renews it.
    async fn leader(&self, server: &Server, kubeconfig: &Path) -> anyhow::Result<String> {
        let log = self.folder.join("leader-election.log");
        let arguments = [
            format!("--kubeconfig={}", kubeconfig.display()),
            "--lease-lock-name=example".into(),
            "--lease-lock-namespace=default".into(),
            "--id=one".into(),
        ];
        let _running = Process::start(&self.folder.join("leader-election"), &arguments, &log, LIMIT)?;
        let held = |lease: &Value| lease["spec"]["holderIdentity"] == "one";
        let first = seen(server, LEASE, |status, lease| status == 200 && held(lease)).await?;
        let renewed = |lease: &Value| held(lease) && lease["spec"]["renewTime"] != first["spec"]["renewTime"];
        seen(server, LEASE, |_, lease| renewed(lease)).await.context("the Lease is not renewed")?;
        send(server, "DELETE", LEASE, &Value::Null).await?;
        Ok("the Lease is taken and renewed\n".into())
    }
}

async fn send(server: &Server, method: &str, path: &str, body: &Value) -> anyhow::Result<(u16, Value)> {
    let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
    let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    let answer = server.send(request.body(body)?).await?;
    Ok((answer.status, serde_json::from_slice(&answer.body).unwrap_or_default()))
}

/// Looks at an object until it is as it should be.
async fn seen(server: &Server, path: &str, right: impl Fn(u16, &Value) -> bool) -> anyhow::Result<Value> {
    let end = tokio::time::Instant::now() + SEEN_MAX;
    loop {
        let (status, object) = send(server, "GET", path, &Value::Null).await?;
        if right(status, &object) {
            return Ok(object);
        }
        if tokio::time::Instant::now() > end {
            bail!("{path} is not as it should be: {status} {object}");
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Waits for a line of a log.
async fn logged(log: &Path, line: &str) -> anyhow::Result<()> {
    let end = tokio::time::Instant::now() + SEEN_MAX;
    loop {
        let text = std::fs::read_to_string(log).unwrap_or_default();
        if text.contains(line) {
            return Ok(());
        }
        if tokio::time::Instant::now() > end {
            bail!("the example does not say {line:?}:\n{text}");
        }
        tokio::time::sleep(POLL).await;
    }
}
