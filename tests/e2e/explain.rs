//! `evenkeel explain` on a host that runs.

use crate::host::HostOptions;
use crate::kite;
use crate::world::{World, evenkeel, program};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: `cargo test -- --ignored`"]
async fn a_running_host_says_why_it_did_what_it_did() {
    let Some(world) = World::start("explain on a running host").await else { return };
    kite::configure(&world).await;
    let host = world.host("host", HostOptions::default());
    host.ready().await;
    kite::create(&world, "ann").await;
    kite::all_ready(&world, 1).await;
    kite::at_rest(&world, &host).await;

    let address = host.address().expect("its address");
    let text = evenkeel(&["explain", "kiteuser", "ann", "--host", &address]);
    for part in ["kite-user of KiteUser", "did create Namespace", "did apply ResourceQuota", "Now: it waits."]
    {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
    // What wrote an object can be asked for by the object as well, and one word narrows it down.
    let policy = ["explain", "NetworkPolicy", "tenant-isolation-egress", "--host", &address, "--last=1"];
    let text = evenkeel(&[&policy[..], &["--namespace=tenant-ann"]].concat());
    assert!(text.contains("did apply NetworkPolicy"), "{text}");
    let none = program().args(policy).arg("--namespace=elsewhere").output().expect("it ends");
    assert_eq!(none.status.code(), Some(1), "nothing was found: {}", String::from_utf8_lossy(&none.stdout));

    // Nobody there, and somebody else there.
    let port = world.plane.address().port();
    for (address, want) in [
        ("127.0.0.1:1", "nobody listens at 127.0.0.1:1".to_owned()),
        (&*format!("127.0.0.1:{port}"), "answer".into()),
    ] {
        let output =
            program().args(["explain", "KiteUser", "ann", "--host", address]).output().expect("it ends");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(&want), "{said}");
    }
}
