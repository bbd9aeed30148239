//! Several hosts, one of which acts: each on a machine of its own, whose time can stand still.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use evenkeel_admin::leader::Leadership;
use evenkeel_cluster::election::{Election, ElectionOptions};
use evenkeel_core::lease::Timings;
use evenkeel_engine::clock::Clock;
use evenkeel_engine::plugin::PluginSettings;
use evenkeel_engine::{Host, HostOptions};
use evenkeel_sandbox::{Sandbox, WriteRecord};
use http::{HeaderValue, Request, header};
use kube::client::Body;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;
use tower::ServiceExt as _;

use crate::plugin::{Copier, config_map, sandbox};

/// The time of day, everywhere.
#[derive(Clone)]
struct Day(Arc<AtomicI64>);

impl Clock for Day {
    fn now(&self) -> jiff::Timestamp {
        let start: jiff::Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
        start + jiff::SignedDuration::from_millis(self.0.load(Ordering::SeqCst))
    }
}

/// One process on its own machine: its timers go on only while [`World::pass`] lets it run.
struct Machine {
    name: &'static str,
    runtime: Runtime,
    host: Host,
    leadership: Option<Leadership>,
    gate: Arc<Semaphore>,
    frozen: bool,
}

impl Machine {
    /// Its own time goes by.
    fn run(&self, millis: u64) {
        self.runtime.block_on(async { tokio::time::sleep(Duration::from_millis(millis)).await });
    }

    fn leads(&self) -> bool {
        self.leadership.as_ref().is_some_and(Leadership::may_write)
    }
}

struct World {
    sandbox: Sandbox,
    day: Day,
    machines: Vec<Machine>,
}

impl World {
    fn new(names: &[&'static str]) -> Self {
        let day = Day(Arc::default());
        let clock = day.clone();
        let sandbox = sandbox(move || clock.now());
        let mut world = Self { sandbox, day, machines: vec![] };
        names.iter().for_each(|name| world.start(name));
        world
    }

    fn start(&mut self, name: &'static str) {
        let runtime =
            Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
        let (host, leadership, gate) = runtime.block_on(start(&self.sandbox, name, self.day.clone()));
        self.machines.push(Machine {
            name,
            runtime,
            host,
            leadership: Some(leadership),
            gate,
            frozen: false,
        });
    }

    fn machine(&mut self, name: &str) -> &mut Machine {
        self.machines.iter_mut().find(|machine| machine.name == name).expect("a machine of that name")
    }

    /// Time goes by, for the machines that are not frozen. At no moment may two of them write.
    fn pass(&mut self, millis: i64) {
        for _ in 0..millis / 50 {
            self.day.0.fetch_add(50, Ordering::SeqCst);
            for machine in self.machines.iter().filter(|machine| !machine.frozen) {
                machine.run(50);
            }
            let leading: Vec<_> = self.machines.iter().filter(|one| !one.frozen && one.leads()).collect();
            assert!(
                leading.len() <= 1,
                "two lead: {:?}",
                leading.iter().map(|one| one.name).collect::<Vec<_>>()
            );
        }
    }

    fn put(&self, name: &str) {
        self.sandbox.put(config_map(name, "plain")).expect("an object");
    }

    /// What the hosts wrote besides the Lease, as `HOST VERB NAME`.
    fn writes(&self) -> Vec<String> {
        let all = self.sandbox.writes(0);
        let of_plugins = all.iter().filter(|write| write.kind != "Lease" && write.code < 300);
        of_plugins
            .map(|WriteRecord { user_agent, verb, name, .. }| format!("{user_agent} {verb} {name}"))
            .collect()
    }

    fn lease(&self) -> serde_json::Value {
        self.sandbox.get("coordination.k8s.io/v1", "Lease", "a", "evenkeel").expect("a Lease")["spec"].clone()
    }
}

async fn start(sandbox: &Sandbox, name: &'static str, day: Day) -> (Host, Leadership, Arc<Semaphore>) {
    let service = sandbox.service();
    let service = tower::service_fn(move |mut request: Request<Body>| {
        request.headers_mut().insert(header::USER_AGENT, HeaderValue::from_static(name));
        let service = service.clone();
        async move { Ok::<_, Infallible>(service.oneshot(request).await.expect("it cannot fail")) }
    });
    let client = kube::Client::new(service, "default");
    let clock = day.clone();
    let options = ElectionOptions {
        namespace: "a".into(),
        name: "evenkeel".into(),
        identity: format!("{name}_1"),
        timings: Timings::default(),
        seed: u64::from(name.as_bytes()[0]),
        clock: Arc::new(move || clock.now()),
        on_request: None,
    };
    let election = Election::start(client.clone(), options).expect("sound timings");
    let options =
        HostOptions { clock: Arc::new(day), fence: Some(election.fence()), ..HostOptions::new(client) };
    let host = Host::start(options).expect("a host");
    let copier = Copier::new();
    let gate = copier.gate.clone();
    host.load(copier, PluginSettings::default()).await.expect("a plugin that loads");
    let leadership = Leadership::follow(host.clone(), election);
    (host, leadership, gate)
}

#[test]
fn one_acts_and_the_other_keeps_its_caches_warm() {
    let mut world = World::new(&["one"]);
    world.pass(1_000);
    world.start("two");
    world.put("x");
    world.pass(30_000);
    assert_eq!(world.writes(), ["one apply copy-x"]);
    let standby = &world.machine("two").host;
    let status = standby.status();
    assert!(status.ready && standby.idle(), "{status:#?}");
    let cached: Vec<_> =
        standby.cluster().stats().kinds.iter().map(|one| (one.gvk.to_string(), one.objects)).collect();
    assert_eq!(
        cached,
        [("ConfigMap".to_owned(), 2), ("Pod".to_owned(), 0)],
        "what it may list, though nobody asked yet"
    );
    assert_eq!(world.lease()["holderIdentity"], "one_1");
}

#[test]
fn when_the_one_that_acts_dies_the_other_takes_over_within_the_lease() {
    let mut world = World::new(&["one", "two"]);
    world.put("x");
    world.pass(10_000);
    assert_eq!(world.writes(), ["one apply copy-x"]);
    world.machine("one").frozen = true; // As good as dead: nothing of it runs any more.
    world.put("y");
    let mut waited = 0;
    while !world.machine("two").leads() {
        world.pass(500);
        waited += 500;
        assert!(waited <= 18_000, "nobody took over");
    }
    assert!(waited >= 12_000, "after {waited} ms, while the other might have written");
    world.pass(1_000);
    assert_eq!(
        world.writes(),
        ["one apply copy-x", "two apply copy-y"],
        "and what is as it should be is not written"
    );
    assert_eq!(world.lease()["leaseTransitions"], 1);
}

#[test]
fn one_that_wakes_up_in_the_middle_of_a_pass_does_not_write() {
    let mut world = World::new(&["one", "two"]);
    world.pass(3_000);
    assert!(world.machine("one").leads());
    // Both plugins stand in the middle of a call, so that nobody has written `x` when the first one goes on.
    for name in ["one", "two"] {
        world.machine(name).gate.forget_permits(1);
    }
    world.put("x");
    world.pass(1_000);
    assert_eq!(world.machine("one").host.status().queue.running, 1, "the pass is under way");
    world.machine("one").frozen = true;
    world.pass(30_000);
    assert!(world.machine("two").leads());
    // It goes on where it stood; its own timers did not move, only the time of day did.
    let one = world.machine("one");
    one.gate.add_permits(1);
    one.run(1);
    assert_eq!(world.writes(), [""; 0]);
    world.machine("one").frozen = false;
    world.pass(5_000);
    assert_eq!(world.writes(), [""; 0]);
    assert!(!world.machine("one").host.leads(), "it has noticed");
    world.machine("two").gate.add_permits(1);
    world.pass(5_000);
    assert_eq!(world.writes(), ["two apply copy-x"]);
}

#[test]
fn one_that_cannot_reach_the_lease_ceases_to_act_and_acts_again_later() {
    let mut world = World::new(&["one"]);
    world.pass(3_000);
    let refuse = evenkeel_sandbox::Fault {
        kind: Some("leases".into()),
        code: 500,
        reason: "InternalError".into(),
        message: "boom".into(),
        times: 10_000,
        ..evenkeel_sandbox::Fault::default()
    };
    world.sandbox.fail_next(refuse);
    world.pass(12_000);
    assert!(!world.machine("one").leads());
    world.put("x");
    world.pass(3_000);
    assert_eq!(world.writes(), [""; 0]);
    world.sandbox.clear_faults();
    world.pass(5_000);
    assert_eq!(world.writes(), ["one apply copy-x"]);
}

#[test]
fn one_that_is_told_to_end_finishes_its_passes_and_hands_over() {
    let mut world = World::new(&["one", "two"]);
    world.pass(3_000);
    world.machine("one").gate.forget_permits(1);
    world.put("x");
    world.pass(1_000);
    let one = world.machine("one");
    let (leadership, host, gate) =
        (one.leadership.take().expect("it follows"), one.host.clone(), one.gate.clone());
    let finished = one.runtime.block_on(async {
        let ends = leadership.shut_down(&host, Duration::from_secs(10));
        let goes_on = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            gate.add_permits(1);
        };
        tokio::join!(ends, goes_on).0
    });
    assert!(finished);
    assert_eq!(world.writes(), ["one apply copy-x"], "the pass under way was finished");
    assert_eq!(world.lease()["holderIdentity"], serde_json::Value::Null);
    world.machine("one").frozen = true;
    world.put("y");
    world.pass(3_000);
    assert!(world.machine("two").leads(), "within one pause");
    assert_eq!(world.writes(), ["one apply copy-x", "two apply copy-y"]);
}
