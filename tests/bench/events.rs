//! What the host does where nothing is to be done: events that change nothing a pass rests on, and sweeps.
//!
//! Half of what an event costs is the stream, its parsing and the cache. The same events go to a cluster without a host
//! behind it, in turns with the host; what the host takes more is its own: finding the keys, the queue, the look.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, ensure};
use evenkeel_cluster::{Cluster, ClusterOptions, Depth, Scope};
use evenkeel_core::contract::Gvk;
use evenkeel_engine::observe::{LookOutcome, LookReport, Observer};
use evenkeel_engine::plugin::PluginSettings;
use evenkeel_engine::{Host, HostOptions};
use evenkeel_sandbox::Sandbox;
use serde_json::{Value, json};

use crate::Scale;
use crate::hold::{Held, Hold};
use crate::measure::{at, each, micros, now, processor_time};
use crate::product::{Totals, kite, multi, runtime, sandbox, settle};
use crate::story::{namespace, platform, user};

/// Rounds of each measurement; the best is told, as the others were disturbed.
const ROUNDS: usize = 5;
/// Between two looks at how far it is.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(600);

pub fn run(scale: Scale) -> anyhow::Result<()> {
    let users = scale.pick(200, 5_000);
    let runtime = runtime()?;
    let guest = kite(&runtime)?;
    multi()?.block_on(async {
        let sandbox = sandbox(&*guest, platform().into_iter().chain((0..users).map(user)))?;
        let hold = Hold::default();
        let api = Held { api: sandbox.service(), hold: hold.clone() };
        let looks = Arc::new(Looks::default());
        let observer: Arc<dyn Observer> = looks.clone();
        let options = HostOptions::new(kube::Client::new(api, "default"));
        let host = Host::start(HostOptions { observer: Some(observer), ..options })?;
        host.load(Arc::clone(&guest), PluginSettings::default()).await?;
        until_there(&host, &sandbox, users).await?;
        let alone = Alone::watching(&sandbox).await?;

        let events = |touch: Touch| Events {
            host: &host,
            alone: &alone,
            sandbox: &sandbox,
            hold: &hold,
            users,
            touch,
        };
        for (what, touch) in [
            ("an event that concerns nobody", used as Touch),
            ("an event beside what was applied, in the same map", limited as Touch),
        ] {
            let found = events(touch).measure().await?;
            ensure!(found.looks == 0, "{} looks for {what}", found.looks);
            println!("  {what}: {} (goal: under 10 µs)", found.in_words());
        }

        let mut best = Rate::WORST;
        looks.forget();
        for _ in 0..ROUNDS {
            best = best.better(Rate::of(&host, None, || host.resync()).await?.0);
        }
        println!("  a look to the memo hit, in a sweep over everything: {}", best.in_words());
        println!("    of that, from the queue to the memo hit: {}", looks.in_words());
        host.shutdown(Duration::from_secs(5)).await;
        Ok(())
    })
}

/// Waits until each user has a quota, and the host nothing to do: on a busy machine it may seem so before its first list
/// is in.
async fn until_there(host: &Host, sandbox: &Sandbox, users: usize) -> anyhow::Result<()> {
    let has_quota =
        |index: &usize| sandbox.get("v1", "ResourceQuota", &namespace(*index), kite::names::QUOTA).is_some();
    let all = async {
        let mut there = 0;
        while there < users {
            settle(host).await;
            there += (there..users).take_while(has_quota).count();
        }
    };
    tokio::time::timeout(PATIENCE, all).await.context("not every user has a quota")
}

/// How long each look took that ended in a memo hit.
#[derive(Default)]
struct Looks(Mutex<Vec<Duration>>);

impl Observer for Looks {
    fn looked(&self, look: &LookReport<'_>) {
        if look.outcome == LookOutcome::Stands {
            self.times().push(look.worked);
        }
    }
}

impl Looks {
    fn times(&self) -> MutexGuard<'_, Vec<Duration>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forget(&self) {
        self.times().clear();
    }

    fn in_words(&self) -> String {
        let mut times = std::mem::take(&mut *self.times());
        times.sort();
        format!("p5 {}, p50 {} by the clock", micros(at(&times, 0.05)), micros(at(&times, 0.5)))
    }
}

/// What somebody does to a user's quota, which Kite applied.
type Touch = fn(&mut Value, usize);

/// A cluster's quota controller counts anew what is used, all day long. That is no business of who applied the quota.
fn used(quota: &mut Value, round: usize) {
    quota["status"] = json!({"hard": quota["spec"]["hard"], "used": {"requests.cpu": round.to_string()}});
}

/// Somebody limits one more thing in it: Kite's own limits are as they were.
fn limited(quota: &mut Value, round: usize) {
    quota["spec"]["hard"]["pods"] = json!(round.to_string());
}

/// A cluster that nobody is behind.
struct Alone {
    cluster: Cluster,
    hold: Hold,
}

impl Alone {
    async fn watching(sandbox: &Sandbox) -> anyhow::Result<Self> {
        let hold = Hold::default();
        let api = Held { api: sandbox.service(), hold: hold.clone() };
        let options = ClusterOptions::new(Arc::new(jiff::Timestamp::now));
        let cluster = Cluster::new(kube::Client::new(api, "default"), options);
        let mut feed = cluster.events().context("its feed")?;
        tokio::spawn(async move { while feed.recv().await.is_some() {} });
        cluster.want(&quotas(), Scope::All, Depth::Whole);
        tokio::time::timeout(PATIENCE, cluster.settled(&quotas(), &Scope::All, Depth::Whole)).await?;
        Ok(Self { cluster, hold })
    }

    /// What it takes until these events, which wait at its door, are in its cache and read.
    async fn takes(&self, burst: &Burst) -> Rate {
        let (began, used) = (now(), processor_time());
        self.hold.open();
        burst.is_cached(&self.cluster).await;
        while self.cluster.unread() > 0 {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        let used = processor_time().saturating_sub(used);
        Rate {
            processor: each(used, burst.events),
            clock: each(began.elapsed(), burst.events),
            count: burst.events,
        }
    }
}

fn quotas() -> Gvk {
    Gvk::new("", "v1", "ResourceQuota")
}

/// One event for each user.
struct Events<'a> {
    host: &'a Host,
    alone: &'a Alone,
    sandbox: &'a Sandbox,
    hold: &'a Hold,
    users: usize,
    touch: Touch,
}

/// What events cost.
struct Found {
    /// In all.
    whole: Rate,
    /// Of that, until they are in the cache.
    cached: Rate,
    /// The most looks in a round.
    looks: u64,
}

impl Events<'_> {
    /// The best of some rounds, and the looks in each.
    async fn measure(self) -> anyhow::Result<Found> {
        let mut found = Found { whole: Rate::WORST, cached: Rate::WORST, looks: 0 };
        for round in 0..ROUNDS {
            // All events wait at the door, so that the API's own work is not measured.
            self.hold.close();
            self.alone.hold.close();
            for index in 0..self.users {
                let quota = self.sandbox.get("v1", "ResourceQuota", &namespace(index), kite::names::QUOTA);
                let mut quota: Value = quota.context("a user's quota")?;
                (self.touch)(&mut quota, round);
                self.sandbox.put(quota)?;
            }
            let burst = Burst { events: self.users as u64, revision: self.sandbox.revision() };
            found.cached = found.cached.better(self.alone.takes(&burst).await);
            let (rate, looks) = Rate::of(self.host, Some(burst), || self.hold.open()).await?;
            found.whole = found.whole.better(rate);
            found.looks = found.looks.max(looks);
        }
        Ok(found)
    }
}

impl Found {
    fn in_words(&self) -> String {
        let own = self.whole.processor.saturating_sub(self.cached.processor);
        format!(
            "{} of the host's own\n    in all {}\n    stream, parsing and cache {}",
            micros(own),
            self.whole.in_words(),
            self.cached.in_words()
        )
    }
}

/// Events that wait at the door.
struct Burst {
    events: u64,
    /// Of the last of them.
    revision: u64,
}

impl Burst {
    /// Waits until the last of them is in a cache.
    async fn is_cached(&self, cluster: &Cluster) {
        while cluster.revision(&quotas()) < self.revision {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

/// How fast something went that needed no call.
#[derive(Clone, Copy)]
struct Rate {
    /// Processor time of the whole process, each.
    processor: Duration,
    /// By the clock, each.
    clock: Duration,
    count: u64,
}

impl Rate {
    const WORST: Self = Self { processor: Duration::MAX, clock: Duration::MAX, count: 0 };

    fn better(self, other: Self) -> Self {
        if other.processor < self.processor { other } else { self }
    }

    /// Of what `begin` sets off, an event where they are counted, else a look; and the looks. The plugin must not be
    /// called, and nothing be written.
    async fn of(host: &Host, burst: Option<Burst>, begin: impl FnOnce()) -> anyhow::Result<(Self, u64)> {
        let before = Totals::of(host);
        let (began, used) = (now(), processor_time());
        begin();
        if let Some(burst) = &burst {
            // Until the last of them is in the cache the host may seem to have nothing to do.
            burst.is_cached(host.cluster()).await;
        }
        let ended = settle(host).await;
        let used = processor_time().saturating_sub(used);
        let Totals { passes: _, calls, elided: looks, sent, failures } = Totals::of(host).since(before);
        ensure!(
            calls == 0 && sent == 0 && failures == 0,
            "{calls} calls, {sent} writes, {failures} failures"
        );
        let count = burst.map_or(looks, |burst| burst.events);
        let processor = each(used, count);
        Ok((Self { processor, clock: each(ended - began, count), count }, looks))
    }

    fn in_words(&self) -> String {
        let Self { processor, clock, count } = self;
        format!("{} of processor, {} by the clock ({count} in a row)", micros(*processor), micros(*clock))
    }
}
