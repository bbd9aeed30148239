//! The sandbox answers as the real server does.

use evenkeel_differential::{Arena, Difference, compare_kubectl, generate, hand_written, shrink};
use evenkeel_test_cluster::parts_or_skip;
use futures::StreamExt;
use tokio::sync::Mutex;

/// Sequences under way at once.
const AT_ONCE: usize = 4;

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
async fn every_generated_sequence_is_answered_alike() {
    // Some differences are known and open (README): until they are mended the run is asked for, not a matter of course.
    let Some(count) = setting("EVENKEEL_SEQUENCES") else {
        eprintln!("\n!!! NOT RUN: generated sequences; set EVENKEEL_SEQUENCES=2000 to run them\n");
        return;
    };
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
async fn kubectl_prints_the_same_for_both() {
    let Some(parts) = parts_or_skip("the comparison of kubectl") else { return };
    let _turn = TURN.lock().await;
    let arena = Arena::start(&parts).await.expect("both servers start");
    let differences = compare_kubectl(&arena, &parts, "").await.expect("kubectl runs");
    assert!(differences.is_empty(), "{} scripts differ:\n{}", differences.len(), differences.join("\n"));
}
