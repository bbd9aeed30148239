//! One peer's turn.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use evenkeel_test_cluster::audit::{Audit, Counts, since, sum};
use evenkeel_test_cluster::{Client, ControlPlane, Parts, PlaneOptions, Process, Program, User};
use http::Request;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::kernel::usage;
use crate::load::{self, Converged};
use crate::peer::{Peer, root};

/// How long a peer must have asked for nothing to count as quiet.
const QUIET: Duration = Duration::from_secs(3);
/// Between two looks at what it has asked for: what it takes to be quiet is told no finer.
const LOOK: Duration = Duration::from_millis(10);
/// How long rest is looked at.
const REST: Duration = Duration::from_secs(20);
/// Longer than anything here takes.
pub(crate) const LIMIT: Duration = Duration::from_secs(1800);

/// What a part of a round took.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// Wall time, the wait for quiet left out.
    pub wall: Duration,
    /// Processor time.
    pub cpu: Duration,
    /// Processor time of the API server.
    pub server_cpu: Duration,
    /// Requests by verb.
    pub requests: Counts,
    /// The most memory that was resident so far, in MiB.
    pub peak_mib: u64,
}

/// All that was measured of a peer.
#[derive(Clone)]
pub struct Round {
    /// From the start of its process until it is quiet: the caches of native controllers are filled here.
    pub start: Part,
    pub converge: Part,
    pub each: Converged,
    pub storm: Part,
    pub restart: Part,
    pub rest: Part,
}

struct Turn {
    peer: Peer,
    audit: Audit,
    process: Process,
    /// The API server's process.
    server: u32,
}

/// Runs a peer on a control plane of its own.
pub async fn run(
    peer: Peer,
    program: &Path,
    parts: &Parts,
    users: usize,
    storm: usize,
    all_controllers: bool,
) -> anyhow::Result<Round> {
    let folder = tempfile::Builder::new().prefix("evenkeel-peers-").tempdir()?;
    let (audit, flags) = Audit::in_folder(folder.path(), &[peer.name()])?;
    let options = PlaneOptions {
        users: vec![User::new(peer.name(), &["system:masters"])],
        apiserver: flags,
        controllers: vec![],
        limit: LIMIT,
    };
    let mut plane = ControlPlane::start(parts, &options).await?;
    let admin = plane.client("admin")?;
    prepare(&plane, parts, &admin).await?;
    let start = peer.start(program, &plane.kubeconfig(peer.name()), folder.path(), all_controllers)?;
    let program = Program {
        path: start.path,
        arguments: start.arguments,
        environment: start.environment,
        log: folder.path().join("log"),
        limit: LIMIT,
    };
    let server = plane.part("kube-apiserver")?.id();
    let (began, server_cpu) = (Instant::now(), usage(server)?.cpu);
    let mut turn = Turn { peer, audit, process: Process::of(program)?, server };
    let mark = Mark { cpu: Duration::ZERO, server_cpu, requests: Counts::new() };
    let quiet_since = turn.quiet().await?;
    let start = turn.part(mark, quiet_since.saturating_duration_since(began)).await?;
    eprintln!("{}: has its watches", peer.name());

    let mark = turn.mark()?;
    let each = load::users(&admin, users, 1).await.with_context(|| turn.words())?;
    let converge = turn.part(mark, each.all).await?;
    eprintln!("{}: all is ready after {:.1} s", peer.name(), converge.wall.as_secs_f64());
    let (mark, began) = (turn.mark()?, Instant::now());
    load::storm(&admin, users, storm).await?;
    let storm = turn.part(mark, began.elapsed()).await?;

    eprintln!("{}: starts again", peer.name());
    turn.process.terminate();
    turn.process.ended(Duration::from_secs(30)).await?;
    let (mark, began) = (turn.mark_after(Duration::ZERO)?, Instant::now());
    turn.process.start_again().await?;
    let quiet_since = turn.quiet().await?;
    let restart = turn.part(mark, quiet_since.saturating_duration_since(began)).await?;
    turn.show_reads()?;
    let mark = turn.mark()?;
    sleep(REST).await;
    let rest = turn.part(mark, REST).await?;
    Ok(Round { start, converge, each, storm, restart, rest })
}

/// What was used and asked for so far.
struct Mark {
    cpu: Duration,
    server_cpu: Duration,
    requests: Counts,
}

impl Turn {
    fn mark(&self) -> anyhow::Result<Mark> {
        self.mark_after(self.usage()?.cpu)
    }

    /// The same where the process has used so much; one that does not run cannot be asked.
    fn mark_after(&self, cpu: Duration) -> anyhow::Result<Mark> {
        let requests = self.audit.counts(self.peer.name())?;
        Ok(Mark { cpu, server_cpu: usage(self.server)?.cpu, requests })
    }

    /// What came since a mark, once it is quiet.
    async fn part(&mut self, mark: Mark, wall: Duration) -> anyhow::Result<Part> {
        self.quiet().await?;
        let now = self.mark()?;
        Ok(Part {
            wall,
            cpu: now.cpu.saturating_sub(mark.cpu),
            server_cpu: now.server_cpu.saturating_sub(mark.server_cpu),
            requests: since(&mark.requests, &now.requests),
            peak_mib: self.usage()?.peak_mib,
        })
    }

    /// What it asked for so far but for writes, so that who asks for more than another one is not left to be guessed.
    fn show_reads(&self) -> anyhow::Result<()> {
        for asked in self.audit.requests(self.peer.name())? {
            if ["get", "list", "watch"].contains(&asked.verb.as_str()) {
                eprintln!("  {} {}", asked.verb, asked.uri);
            }
        }
        Ok(())
    }

    fn usage(&self) -> anyhow::Result<crate::kernel::Usage> {
        usage(self.process.id()).with_context(|| self.words())
    }

    /// Who failed, and what it said last.
    fn words(&self) -> String {
        format!("{}: {}", self.peer.name(), self.process.last_words())
    }

    /// Waits until it asks for nothing more; says since when.
    async fn quiet(&mut self) -> anyhow::Result<Instant> {
        let (mut last, mut changed) = (0, Instant::now());
        let began = Instant::now();
        loop {
            let counts = self.audit.counts(self.peer.name())?;
            // Before its first watch it gets ready, silently: it may compile.
            let (requests, watches) = (sum(&counts), counts.contains_key("watch"));
            if requests != last {
                (last, changed) = (requests, Instant::now());
            }
            if watches && changed.elapsed() >= QUIET {
                return Ok(changed);
            }
            if !self.process.runs() {
                bail!("it has ended: {}", self.words());
            }
            if began.elapsed() > Duration::from_secs(300) {
                bail!("{} is never quiet", self.peer.name());
            }
            sleep(LOOK).await;
        }
    }
}

/// Kite's kinds, and the platform's namespace with its configuration.
pub(crate) async fn prepare(plane: &ControlPlane, parts: &Parts, admin: &Client) -> anyhow::Result<()> {
    let crds = root().join("plugins/kite/crds");
    let output = Command::new(parts.program("kubectl"))
        .args(["apply", "--server-side", "-f"])
        .arg(&crds)
        .env("KUBECONFIG", plane.kubeconfig("admin"))
        .output()?;
    if !output.status.success() {
        bail!("kubectl: {}", String::from_utf8_lossy(&output.stderr));
    }
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kite"}});
    let body = Bytes::from(namespace.to_string());
    let request =
        Request::post("/api/v1/namespaces").header("content-type", "application/json").body(body)?;
    admin.send(request).await?;
    // Until its kinds are served everywhere.
    sleep(Duration::from_secs(2)).await;
    Ok(())
}
