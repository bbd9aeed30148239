//! Machines on vcsim: the plugins as components, the host, HTTP and TLS, a vCenter's API, in real time.
//!
//! Each story plays on the embedded API server, and again on a real control plane. Skipped aloud where vcsim or the control
//! plane cannot be built.

mod classes;
mod ground;
mod machines;
mod numbers;
mod world;

use self::ground::Ground;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: `cargo test -- --ignored`"]
async fn every_story_holds_on_a_real_api_server_too() {
    let Some(ground) = Ground::real("the stories on a real API server").await else { return };
    // One after the other: each has a host, a vcsim and a namespace of its own.
    machines::life(&ground).await;
    machines::twenty_at_once(&ground).await;
    machines::wrong_password(&ground).await;
    machines::dropped_session(&ground).await;
    machines::killed_vcenter(&ground).await;
    machines::killed_host(&ground).await;
    classes::life(&ground).await;
    classes::held_until_the_last_machine_is_gone(&ground).await;
    classes::upstreams_machine_controller(&ground).await;
}
