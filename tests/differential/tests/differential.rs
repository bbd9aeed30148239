//! The sandbox answers as the real server does.

use evenkeel_differential::{
    Arena, Difference, Examples, compare_client_go, compare_kubectl, generate, hand_written, shrink,
};
use evenkeel_test_cluster::parts_or_skip;
use futures::StreamExt;
use tokio::sync::Mutex;

/// Generated sequences of a run.
const SEQUENCES: u64 = 2_000;
/// Sequences under way at once: most of them wait for a watch to end, or for the garbage collector.
const AT_ONCE: usize = 32;

/// One control plane at a time: each takes half a core to start.
static TURN: Mutex<()> = Mutex::const_new(());

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_case_written_by_hand_is_answered_alike() {
    let Some(parts) = parts_or_skip("the differential test") else { return };
    let _turn = TURN.lock().await;
    let arena = Arena::start(&parts).await.expect("both servers start");
    let mut differences = Vec::new();
    for (file, case) in hand_written().expect("the cases can be read") {
        if let Some(difference) = arena.run(&case).await.expect("both servers answer") {
            differences.push(format!("{file}: {}\n{}", case.case, difference.text));
        }
    }
    assert!(differences.is_empty(), "{} cases differ:\n{}", differences.len(), differences.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: `cargo test -- --ignored`"]
async fn every_generated_sequence_is_answered_alike() {
    let count = setting("EVENKEEL_SEQUENCES").unwrap_or(SEQUENCES);
    let Some(parts) = parts_or_skip("the differential test of generated sequences") else { return };
    let _turn = TURN.lock().await;
    let arena = Arena::start(&parts).await.expect("both servers start");
    let first = setting("EVENKEEL_SEED").unwrap_or(0);
    let arena = &arena;
    let mut runs =
        futures::stream::iter(first..first + count)
            .map(|seed| async move {
                (seed, arena.run(&generate::case(seed)).await.expect("both servers answer"))
            })
            .buffer_unordered(AT_ONCE);
    while let Some((seed, difference)) = runs.next().await {
        if let Some(difference) = difference {
            drop(runs);
            return tell(arena, seed, difference).await;
        }
    }
}

/// Fails with the shortest case that shows the difference.
async fn tell(arena: &Arena, seed: u64, difference: Difference) {
    let (case, difference) =
        shrink(arena, generate::case(seed), difference).await.expect("both servers answer");
    panic!("seed {seed} is answered differently. As a case:\n{}\n{}", case.to_text(), difference.text);
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: `cargo test -- --ignored`"]
async fn kubectl_prints_the_same_for_both() {
    let Some(parts) = parts_or_skip("the comparison of kubectl") else { return };
    let _turn = TURN.lock().await;
    let arena = Arena::start(&parts).await.expect("both servers start");
    let differences = compare_kubectl(&arena, &parts, "").await.expect("kubectl runs");
    assert!(differences.is_empty(), "{} scripts differ:\n{}", differences.len(), differences.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: `cargo test -- --ignored`"]
async fn the_examples_of_client_go_do_the_same_on_both() {
    let Some(parts) = parts_or_skip("the examples of client-go") else { return };
    let Some(examples) = Examples::build_or_skip().expect("they build") else { return };
    let _turn = TURN.lock().await;
    let arena = Arena::start(&parts).await.expect("both servers start");
    let [real, sandbox] = compare_client_go(&arena, &examples).await.expect("the examples run");
    assert_eq!(sandbox, real);
    for done in ["Created deployment", "Updated deployment", "Deleted deployment", "a new Pod is noticed"] {
        assert!(sandbox.contains(done), "{done}:\n{sandbox}");
    }
}
