//! One host with many plugins beside as many native controllers, each of which looks after the users of one team.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use evenkeel_test_cluster::audit::{Audit, Counts, since, sum};
use evenkeel_test_cluster::{ControlPlane, Parts, PlaneOptions, Process, Program, User};
use tokio::time::{Instant, sleep};

use crate::kernel::usage;
use crate::load::{self, Converged};
use crate::peer::Peer;
use crate::round::{LIMIT, prepare};
use crate::table::{at, millis, requests, seconds};
use crate::team;

/// How long rest is looked at.
const REST: Duration = Duration::from_secs(20);
/// How long nobody must have asked for anything to count as quiet.
const QUIET: Duration = Duration::from_secs(3);

/// All that was measured of one side.
struct Side {
    name: &'static str,
    processes: usize,
    /// Until all watches were there.
    start: Part,
    converge: Part,
    each: Converged,
    storm: Part,
    rest: Part,
}

/// What something took, of all processes together.
struct Part {
    cpu: Duration,
    requests: Counts,
    /// In the end.
    memory_kib: u64,
}

/// Which part of a side a row is about.
type PartOf = fn(&Side) -> &Part;

/// Measures both sides, each on a control plane of its own.
pub async fn run(
    parts: &Parts,
    evenkeel: &Path,
    teams: usize,
    users: usize,
    storm: usize,
) -> anyhow::Result<String> {
    // It builds Kite's component, too.
    Peer::Evenkeel.program(evenkeel)?;
    let native = Peer::KubeRs.program(evenkeel)?;
    team::compile(teams).await?;
    let load = Load { teams, users, storm };
    let host =
        |_: usize| (std::env::current_exe().unwrap_or_default(), vec![team::HOST.into(), teams.to_string()]);
    let ours = side(parts, Peer::Evenkeel, 1, &host, &load).await?;
    let theirs = side(parts, Peer::KubeRs, teams, &|_| (native.clone(), vec![]), &load).await?;
    Ok(table(&[ours, theirs], &load))
}

struct Load {
    teams: usize,
    users: usize,
    storm: usize,
}

type Command<'c> = &'c dyn Fn(usize) -> (std::path::PathBuf, Vec<String>);

async fn side(
    parts: &Parts,
    peer: Peer,
    processes: usize,
    command: Command<'_>,
    load: &Load,
) -> anyhow::Result<Side> {
    eprintln!("{}: runs", peer.name());
    let folder = tempfile::Builder::new().prefix("evenkeel-peers-").tempdir()?;
    let (audit, flags) = Audit::in_folder(folder.path(), &[peer.name()])?;
    let options = PlaneOptions {
        users: vec![User::new(peer.name(), &["system:masters"])],
        apiserver: flags,
        controllers: vec![],
        limit: LIMIT,
    };
    let plane = ControlPlane::start(parts, &options).await?;
    let admin = plane.client("admin")?;
    prepare(&plane, parts, &admin).await?;
    let kubeconfig = plane.kubeconfig(peer.name()).display().to_string();
    let mut crowd = Crowd { peer, audit, processes: Vec::new() };
    let mark = (Duration::ZERO, Counts::new());
    for number in 0..processes {
        let (path, arguments) = command(number);
        let environment =
            vec![("KUBECONFIG".into(), kubeconfig.clone()), ("KITE_USERS".into(), team::selector(number))];
        let log = folder.path().join(format!("log-{number}"));
        crowd.processes.push(Process::of(Program { path, arguments, environment, log, limit: LIMIT })?);
    }
    let start = crowd.part(mark).await?;
    let mark = crowd.mark()?;
    let each = load::users(&admin, load.users, load.teams).await?;
    let converge = crowd.part(mark).await?;
    let mark = crowd.mark()?;
    load::storm(&admin, load.users, load.storm).await?;
    let storm = crowd.part(mark).await?;
    let mark = crowd.mark()?;
    sleep(REST).await;
    let rest = crowd.part(mark).await?;
    Ok(Side { name: peer.name(), processes, start, converge, each, storm, rest })
}

/// The processes of one side.
struct Crowd {
    peer: Peer,
    audit: Audit,
    processes: Vec<Process>,
}

type Mark = (Duration, Counts);

impl Crowd {
    fn mark(&self) -> anyhow::Result<Mark> {
        Ok((self.usage()?.0, self.audit.counts(self.peer.name())?))
    }

    /// What came since a mark, once it is quiet.
    async fn part(&mut self, (cpu, counts): Mark) -> anyhow::Result<Part> {
        self.quiet().await?;
        let (used, memory_kib) = self.usage()?;
        let requests = since(&counts, &self.audit.counts(self.peer.name())?);
        Ok(Part { cpu: used.saturating_sub(cpu), requests, memory_kib })
    }

    /// Processor time so far, and memory now.
    fn usage(&self) -> anyhow::Result<(Duration, u64)> {
        let mut sums = (Duration::ZERO, 0);
        for process in &self.processes {
            let usage = usage(process.id())
                .with_context(|| format!("{} has ended: {}", self.peer.name(), process.last_words()))?;
            sums = (sums.0 + usage.cpu, sums.1 + usage.share_kib);
        }
        Ok(sums)
    }

    /// Waits until nobody asks for anything more.
    async fn quiet(&mut self) -> anyhow::Result<()> {
        let (mut last, mut changed, began) = (0, Instant::now(), Instant::now());
        loop {
            let counts = self.audit.counts(self.peer.name())?;
            let (requests, watches) = (sum(&counts), counts.contains_key("watch"));
            if requests != last {
                (last, changed) = (requests, Instant::now());
            }
            if watches && changed.elapsed() >= QUIET {
                return Ok(());
            }
            if began.elapsed() > LIMIT {
                bail!("{} is never quiet", self.peer.name());
            }
            sleep(Duration::from_millis(200)).await;
        }
    }
}

/// A table with a column a side.
fn table(sides: &[Side], load: &Load) -> String {
    let mut text = String::from("| |");
    for Side { name, processes, .. } in sides {
        let plugins = if *processes == 1 { format!("1 with {} plugins", load.teams) } else { String::new() };
        let _ =
            write!(text, " {name}: {} |", if plugins.is_empty() { processes.to_string() } else { plugins });
    }
    let _ = writeln!(text, "\n|---|{}", "---|".repeat(sides.len()));
    let mut row = |what: String, cell: &dyn Fn(&Side) -> String| {
        let cells: String = sides.iter().map(|side| format!(" {} |", cell(side))).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| {what} |{cells}");
    };
    let users = load.users;
    row(format!("{users} users to Ready, wall"), &|side| seconds(side.each.all));
    row("from event to applied, p50 / p99".into(), &|side| {
        format!("{} / {}", millis(at(&side.each.each, 50)), millis(at(&side.each.each, 99)))
    });
    let parts: [(String, PartOf); 4] = [
        ("start".into(), |side| &side.start),
        (format!("{users} users"), |side| &side.converge),
        (format!("{} changes of quotas' status", load.storm), |side| &side.storm),
        ("20 s of rest".into(), |side| &side.rest),
    ];
    for (what, part) in parts {
        row(format!("{what}, processor"), &|side| seconds(part(side).cpu));
        row(format!("{what}, requests"), &|side| requests(&part(side).requests));
        row(format!("{what}, memory in the end"), &|side| format!("{} MiB", part(side).memory_kib / 1024));
    }
    text
}
