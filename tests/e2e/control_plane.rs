//! A control plane that fails: an API server that ends and comes back, an etcd that stands still.

use std::time::Duration;

use tokio::time::sleep;

use crate::host::HostOptions;
use crate::kite;
use crate::world::World;

const USERS: usize = 100;
/// How long etcd stands still.
const STANDSTILL: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: `cargo test -- --ignored`"]
async fn an_api_server_that_restarts_and_an_etcd_that_stands_still_cost_nothing_but_time() {
    let Some(mut world) = World::start("a control plane that fails").await else { return };
    kite::configure(&world).await;
    let mut host = world.host("host", HostOptions::default());
    host.ready().await;
    kite::create(&world, "quiet").await;
    kite::all_ready(&world, 1).await;

    // The API server dies while users come, and is back on the same data.
    kite::create_all(&world, 0..USERS / 2).await;
    let server = world.plane.part("kube-apiserver").expect("an API server");
    server.kill();
    sleep(Duration::from_secs(2)).await;
    world.plane.part("kube-apiserver").expect("an API server").start_again().await.expect("it starts");
    world.plane.ready().await.expect("it is ready");
    kite::create_all(&world, USERS / 2..USERS).await;
    kite::all_ready(&world, USERS + 1).await;

    // Etcd stands still, so that nothing can be read or written; the host lives through it and says what is wrong.
    world.plane.part("etcd").expect("etcd").freeze();
    let quiet = tokio::time::timeout(STANDSTILL, kite::create(&world, "late"));
    assert!(quiet.await.is_err(), "nothing is taken while etcd stands still");
    let (alive, text) = host.page("/livez").await.expect("the host answers");
    assert_eq!(alive, 200, "a restart of the host would mend nothing: {text}");
    world.plane.part("etcd").expect("etcd").thaw();
    world.plane.ready().await.expect("it is well again");
    kite::create(&world, "late").await;
    let took = kite::all_ready(&world, USERS + 2).await;
    host.ready().await;
    kite::at_rest(&world, &host).await;
    kite::assert_all_like(&kite::state(&world).await, "quiet", USERS + 2);
    assert!(host.process().runs(), "it is the same process");
    eprintln!("after etcd: all ready in {took:?}");
}
