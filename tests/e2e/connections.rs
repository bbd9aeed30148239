//! Lines to the API server that break and that are slow.

use std::time::Duration;

use tokio::time::sleep;

use crate::host::HostOptions;
use crate::kite;
use crate::proxy::Proxy;
use crate::world::World;

const USERS: usize = 100;
/// How often every connection is cut, once a second.
const CUTS: usize = 15;
/// How long each piece of an answer is held back.
const SLOW: Duration = Duration::from_millis(300);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: `cargo test -- --ignored`"]
async fn connections_that_are_cut_every_second_and_answers_that_are_slow_change_nothing_in_the_end() {
    let Some(world) = World::start("lines that break").await else { return };
    kite::configure(&world).await;
    let proxy = Proxy::to(world.plane.address()).await;
    let host = world.host_through("host", proxy.port(), HostOptions::default());
    host.ready().await;
    kite::create(&world, "quiet").await;
    kite::all_ready(&world, 1).await;

    let cuts = async {
        for _ in 0..CUTS {
            sleep(Duration::from_secs(1)).await;
            proxy.cut();
        }
    };
    tokio::join!(kite::create_all(&world, 0..USERS), cuts);
    let took = kite::all_ready(&world, USERS + 1).await;
    host.ready().await;
    kite::at_rest(&world, &host).await;
    kite::assert_all_like(&kite::state(&world).await, "quiet", USERS + 1);
    eprintln!("{USERS} users through {CUTS} cuts: ready {took:?} later, {} connections", proxy.connections());

    // Nothing is missed where everything comes late, and a user who goes while a line is cut goes whole.
    proxy.slow(SLOW);
    kite::create_all(&world, USERS..USERS + 10).await;
    let took = kite::all_ready(&world, USERS + 11).await;
    eprintln!("10 users over a line that holds each piece back for {SLOW:?}: {took:?}");
    proxy.slow(Duration::ZERO);
    kite::at_rest(&world, &host).await;
    kite::assert_all_like(&kite::state(&world).await, "quiet", USERS + 11);
}
