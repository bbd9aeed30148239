//! Hosts that are killed.

use std::time::Duration;

use tokio::time::sleep;

use crate::host::HostOptions;
use crate::kite;
use crate::world::World;

/// Users that converge meanwhile.
const USERS: usize = 500;
/// How often the host is killed.
const KILLS: usize = 8;
/// Where the moments come from; another one may be given in `EVENKEEL_SEED`.
const SEED: u64 = 8;

/// Moments that a seed gives.
struct Chance(u64);

impl Chance {
    fn of_run() -> Self {
        let seed = std::env::var("EVENKEEL_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(SEED);
        eprintln!("seed {seed}");
        Self(seed)
    }

    fn millis(&mut self, from: u64, to: u64) -> Duration {
        // Knuth's generator; its high bits are the good ones.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Duration::from_millis(from + (self.0 >> 33) % (to - from))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: `cargo test -- --ignored`"]
async fn a_host_that_is_killed_again_and_again_leaves_what_an_undisturbed_one_leaves() {
    let Some(world) = World::start("hosts that are killed").await else { return };
    kite::configure(&world).await;
    let mut host = world.host("host", HostOptions::default());
    host.ready().await;
    kite::create(&world, "quiet").await;
    kite::all_ready(&world, 1).await;

    let mut chance = Chance::of_run();
    let kills = async {
        for _ in 0..KILLS {
            sleep(chance.millis(300, 3_000)).await;
            host.crash().await;
        }
    };
    tokio::join!(kite::create_all(&world, 0..USERS), kills);
    let took = kite::all_ready(&world, USERS + 1).await;
    kite::at_rest(&world, &host).await;
    kite::assert_all_like(&kite::state(&world).await, "quiet", USERS + 1);
    eprintln!(
        "{USERS} users through {KILLS} kills: ready {took:?} after the last one, {:.0} MiB",
        host.memory().await
    );
}
