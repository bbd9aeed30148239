//! Two hosts, of which one acts: killed, paused, told to end.

use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::host::{HostOptions, HostProcess};
use crate::kite;
use crate::world::{World, until};

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/evenkeel-system/leases/evenkeel";
/// The Lease itself, and what two tries in a row may add.
const FAILOVER_MAX: Duration = Duration::from_secs(20);
/// What a hand-over may take on a machine that does other things too; two seconds on a quiet one.
const HANDOVER_MAX: Duration = Duration::from_secs(6);
const ELECTS: HostOptions = HostOptions { elects: true, talkative: false };

async fn holder(world: &World) -> String {
    world.get(LEASE).await["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned()
}

/// Waits until a host acts, by what it says of itself.
async fn leads(host: &HostProcess) -> Duration {
    until("it leads", async || match host.page("/readyz").await {
        Some((_, text)) if text.contains("election: leads") => Ok(()),
        Some((_, text)) => Err(text),
        None => Err("no answer".into()),
    })
    .await
}

/// Waits until a host could take over: caches filled, plugin compiled, somebody else acting.
async fn stands_by(host: &HostProcess) {
    until("it stands by", async || match host.page("/readyz").await {
        Some((200, text)) if text.contains("stands by for") => Ok(()),
        Some((_, text)) => Err(text),
        None => Err("no answer".into()),
    })
    .await;
}

async fn two_hosts(world: &World) -> (HostProcess, HostProcess) {
    kite::configure(world).await;
    let one = world.host("one", ELECTS);
    leads(&one).await;
    let two = world.host("two", ELECTS);
    stands_by(&two).await;
    kite::create(world, "quiet").await;
    kite::all_ready(world, 1).await;
    (one, two)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: `cargo test -- --ignored`"]
async fn when_the_leader_is_killed_the_other_one_acts_once_its_lease_has_run_out() {
    let Some(world) = World::start("a leader that is killed").await else { return };
    let (mut one, two) = two_hosts(&world).await;
    one.process().kill();
    kite::create(&world, "meanwhile").await;
    let took = leads(&two).await;
    let acted = kite::all_ready(&world, 2).await;
    assert!(took < FAILOVER_MAX, "fail-over took {took:?}");
    eprintln!("after kill -9 the other one leads in {took:?}, and has acted {acted:?} later");

    // Told to end, it hands over to one that has just come, without a wait for the Lease.
    let mut two = two;
    one.crash().await;
    stands_by(&one).await;
    let began = Instant::now();
    two.process().terminate();
    leads(&one).await;
    let took = began.elapsed();
    let code = two.process().ended(Duration::from_secs(15)).await.expect("it ends by itself");
    assert_eq!(code, Some(0), "its passes were finished");
    assert!(took < HANDOVER_MAX, "handing over took {took:?}");
    eprintln!("at SIGTERM the other one leads in {took:?}");
    kite::create(&world, "later").await;
    kite::all_ready(&world, 3).await;
    kite::at_rest(&world, &one).await;
    kite::assert_all_like(&kite::state(&world).await, "quiet", 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: `cargo test -- --ignored`"]
async fn a_leader_that_is_paused_past_its_lease_writes_nothing_when_it_goes_on() {
    let Some(world) = World::start("a leader that is paused").await else { return };
    let (mut one, two) = two_hosts(&world).await;
    // It stops while it has much to do, so that passes stand in the middle.
    kite::create_all(&world, 0..100).await;
    one.process().freeze();
    leads(&two).await;
    kite::all_ready(&world, 101).await;
    kite::at_rest(&world, &two).await;
    let of_two = holder(&world).await;
    let before = kite::state(&world).await;
    let revisions = revisions(&world).await;
    one.process().thaw();
    sleep(Duration::from_secs(5)).await;
    stands_by(&one).await;
    assert_eq!(holder(&world).await, of_two, "it has not taken the Lease back");
    assert_eq!(self::revisions(&world).await, revisions, "nobody wrote anything");
    assert_eq!(kite::state(&world).await, before);
    kite::assert_all_like(&before, "quiet", 101);
}

/// The revision of every user and namespace.
async fn revisions(world: &World) -> Vec<Value> {
    let mut found = Vec::new();
    for kind in ["/apis/anacnu.com/v1/kiteusers", "/api/v1/namespaces", "/api/v1/resourcequotas"] {
        let objects = world.list(kind).await;
        found.extend(objects.into_iter().map(|object| object["metadata"]["resourceVersion"].clone()));
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: `cargo test -- --ignored`"]
async fn a_host_that_is_told_to_end_ends_in_time_though_nobody_answers_it() {
    let Some(mut world) = World::start("a host that is told to end").await else { return };
    kite::configure(&world).await;
    let mut host = world.host("host", ELECTS);
    leads(&host).await;
    // It stands still while they come. The API server falls silent when it has begun with them, and has much to do.
    host.process().freeze();
    kite::create_all(&world, 0..300).await;
    host.process().thaw();
    until("it has begun", async || {
        let begun = world.get(&kite::path(&kite::name(0))).await["metadata"]["finalizers"].is_array();
        if begun { Ok(()) } else { Err("it has not".into()) }
    })
    .await;
    world.plane.part("kube-apiserver").expect("an API server").freeze();
    sleep(Duration::from_secs(1)).await;
    let began = Instant::now();
    host.process().terminate();
    let code = host.process().ended(Duration::from_secs(30)).await.expect("it ends by itself");
    eprintln!("with an API server that stands still it ends in {:?}, with {code:?}", began.elapsed());
    // 1 where passes were cut off; their calls may have been given up before.
    assert!(matches!(code, Some(0 | 1)), "{code:?}");
    world.plane.part("kube-apiserver").expect("an API server").thaw();
    host.crash().await;
    kite::all_ready(&world, 300).await;
}
