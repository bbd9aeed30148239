//! The agent with a power switch: it ends, without a word to anybody, when the n-th durable step is made.
//!
//! `evenkeel-test-device ROOT SPEC COMPONENT CACHE CUT AHEAD once|stay [REBOOT…]`: CUT is the step, 0 for none, and AHEAD how many
//! seconds after the first run's its clock stands; one that stays has the machine's. Exit code 0 in effect, 1 failed and rolled
//! back, 3 the power went, 4 it went while the device waited for its next try, 5 the machine reboots: whatever reboots it makes a
//! file `down` in the root. The number of steps is told on stderr.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context;
use evenkeel_agent::{AgentOptions, Settled, run};
use evenkeel_engine::clock::{Clock, SystemClock};
use evenkeel_providers::device::linux::steps::Steps;
use evenkeel_runtime::{Runtime, RuntimeOptions};
use jiff::{SignedDuration, Timestamp};

/// What a power cut ends with.
const CUT: i32 = 3;
/// What it ends with once there is nothing to do for a while: whoever tests starts a later run instead of waiting.
const WAITS: i32 = 4;
/// What it ends with when the machine goes down.
const REBOOTS: i32 = 5;
/// Between two looks whether one of those is so.
const LOOK: Duration = Duration::from_millis(50);

/// When the first run of those that end by themselves is. Their clock stands still, so that the same run writes the same.
const EPOCH: &str = "2026-01-01T00:00:00Z";

/// A clock that stands still.
struct Held(Timestamp);

impl Clock for Held {
    fn now(&self) -> Timestamp {
        self.0
    }
}

/// Ends the process once an update waits for its next try, or the machine goes down.
async fn end_when_idle(root: PathBuf, clock: Arc<dyn Clock>, made: Arc<AtomicU64>) {
    let state = root.join("var/lib/flightctl/update-state.json");
    loop {
        tokio::time::sleep(LOOK).await;
        let code = if root.join("down").exists() {
            REBOOTS
        } else if waits(&std::fs::read(&state).unwrap_or_default(), &*clock) {
            WAITS
        } else {
            continue;
        };
        eprintln!("steps: {}", made.load(Ordering::SeqCst));
        std::process::exit(code);
    }
}

/// Whether the state tells of a next try that is still to come.
fn waits(state: &[u8], clock: &dyn Clock) -> bool {
    let state: serde_json::Value = serde_json::from_slice(state).unwrap_or_default();
    let next = state.pointer("/update/nextTry").and_then(serde_json::Value::as_str);
    next.and_then(|next| next.parse::<Timestamp>().ok()).is_some_and(|next| next > clock.now())
}

fn main() -> anyhow::Result<std::process::ExitCode> {
    let mut words = std::env::args().skip(1);
    let mut next = |what: &str| words.next().with_context(|| format!("no {what} is given"));
    let (root, spec) = (PathBuf::from(next("root")?), PathBuf::from(next("spec")?));
    let (component, cache) = (next("component")?, PathBuf::from(next("cache")?));
    let (cut, ahead): (u64, i64) = (next("cut")?.parse()?, next("clock")?.parse()?);
    let once = next("manner")? == "once";
    let reboot: Vec<String> = words.collect();
    let made = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&made);
    let in_store = AtomicU64::new(0);
    let steps = Steps::told(move |what| {
        let of_store = u64::from(what.starts_with("store: "));
        let in_store = in_store.fetch_add(of_store, Ordering::SeqCst) + of_store;
        let number = count.fetch_add(1, Ordering::SeqCst) + 1;
        if number == cut {
            eprintln!("the power goes at step {number}: {what}\nsteps of the store: {in_store}");
            // No destructor runs, and nothing is flushed.
            std::process::exit(CUT);
        }
    });
    let runtime =
        Runtime::new(RuntimeOptions { cache_dir: Some(cache), concurrency: 8, ..RuntimeOptions::default() })?;
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let clock: Arc<dyn Clock> = if once {
        Arc::new(Held(EPOCH.parse::<Timestamp>()?.checked_add(SignedDuration::from_secs(ahead))?))
    } else {
        Arc::new(SystemClock)
    };
    let settled = tokio.block_on(async {
        if once {
            tokio::spawn(end_when_idle(root.clone(), Arc::clone(&clock), Arc::clone(&made)));
        }
        let plugin = runtime.load(&std::fs::read(&component)?).await?;
        let options = AgentOptions {
            data_dir: root.join("var/lib/evenkeel"),
            root,
            name: "device".to_owned(),
            spec: Some(spec),
            once,
            reboot,
            plugin,
            config: serde_json::json!({"source": "management"}),
            management: None,
            port: None,
            clock,
            steps,
        };
        run(options, std::future::pending()).await
    })?;
    eprintln!("steps: {}", made.load(Ordering::SeqCst));
    Ok(match settled {
        Some(Settled::Updated { .. }) | None => std::process::ExitCode::SUCCESS,
        Some(Settled::Failed { message }) => {
            eprintln!("failed: {message}");
            std::process::ExitCode::from(1)
        }
    })
}
