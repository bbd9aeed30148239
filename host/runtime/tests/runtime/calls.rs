//! Calls: limits, traps, replies that are no replies, and that nothing is left of a call.

use std::time::Duration;

use evenkeel_core::contract::{Conclusion, Failure, FailureKind, Request, Step};
use evenkeel_core::guest::CallError;
use evenkeel_runtime::Limits;
use expect_test::{Expect, expect};
use tokio::time::Instant;

use crate::guests::{Guest, request, that};
use crate::{load, runtime};

/// Short limits, so that running into one does not take long.
fn tight() -> Limits {
    Limits { memory: 1 << 20, time: Duration::from_millis(50), reply: 10_000, ..Limits::default() }
}

async fn call(guest: &Guest, limits: Limits, request: &Request) -> Result<Result<Step, Failure>, CallError> {
    let plugin = load(guest, limits).await.expect("the guest is taken");
    let reply = plugin.reconcile(request).await?;
    Ok(reply.outcome.map(|reply| reply.step))
}

/// One line a call: the label of what went wrong and the sentence for a person, or the reply.
async fn check(guest: &Guest, expected: Expect) {
    let said = match call(guest, tight(), &request()).await {
        Err(error) => format!("{}: {error}", error.label()),
        Ok(Err(failure)) => format!("{:?}: {}", failure.kind, failure.message),
        Ok(Ok(step)) => format!("{step:?}"),
    };
    expected.assert_eq(&said);
}

/// `finish`, to be run again after this long.
fn after(millis: u64) -> Step {
    Step::Finish(Conclusion { requeue_after: Some(millis), ..Conclusion::default() })
}

#[tokio::test]
async fn a_reply_arrives() {
    check(&that(""), expect![[r#"Finish(Conclusion { actions: [], prune: [], requeue_after: None })"#]])
        .await;
}

#[tokio::test]
async fn a_failure_of_the_guests_own_arrives() {
    let fails = that(
        "(i32.store8 (i32.const 256) (i32.const 1)) (i32.store8 (i32.const 264) (i32.const 2))
         (i32.store (i32.const 268) (i32.const 26)) (i32.store (i32.const 272) (i32.const 11))",
    );
    let outcome = call(&fails, tight(), &request()).await;
    assert_eq!(outcome, Ok(Err(Failure::new(FailureKind::Denied, "does little"))));
}

#[tokio::test]
async fn a_trap_names_the_function() {
    check(
        &that("unreachable"),
        expect!["trap: the plugin trapped: wasm `unreachable` instruction executed in reconcile"],
    )
    .await;
    let deeper = that("call $kite::plan::render")
        .with("(func $kite::plan::render (drop (i32.div_u (i32.const 1) (i32.const 0))))");
    check(&deeper, expect!["trap: the plugin trapped: integer divide by zero in kite::plan::render"]).await;
}

#[tokio::test]
async fn a_panic_is_told_with_its_place_and_its_words() {
    let note =
        r#"(data (i32.const 8192) "evenkeel-panic:\00\22\00\00\00panicked at src/plan.rs:12:5:\nboom")"#;
    check(&that("unreachable").with(note), expect!["trap: the plugin panicked at src/plan.rs:12:5: boom"])
        .await;
    // What traps otherwise has not panicked, whatever lies in its memory.
    let divides = that("(drop (i32.div_u (i32.const 1) (i32.const 0)))").with(note);
    check(&divides, expect!["trap: the plugin trapped: integer divide by zero in reconcile"]).await;
}

#[tokio::test]
async fn a_loop_ends_at_the_deadline() {
    check(&that("(loop $l (br $l))"), expect!["deadline: the plugin did not answer within 50ms"]).await;
}

#[tokio::test]
async fn the_deadline_is_kept_to_a_few_ticks() {
    let limits = Limits { time: Duration::from_millis(200), ..tight() };
    let plugin = load(&that("(loop $l (br $l))"), limits).await.expect("the guest is taken");
    let started = Instant::now();
    let outcome = plugin.reconcile(&request()).await;
    let took = started.elapsed();
    assert_eq!(outcome, Err(CallError::Deadline { limit: limits.time }));
    assert!(took >= limits.time, "cut off early, after {took:?}");
    // Time in which the guest had no turn does not count, so a busy machine takes longer.
    assert!(took < limits.time * 10, "cut off late, after {took:?}");
}

#[tokio::test]
async fn a_guest_that_takes_all_memory_is_told_from_one_that_panics() {
    let greedy = that("(loop $l (br_if $l (i32.ne (i32.const -1) (memory.grow (i32.const 1))))) unreachable");
    check(&greedy, expect!["memory: the plugin wanted more than its 1048576 bytes of memory"]).await;
    // Being refused is no crime by itself.
    let modest = that("(drop (memory.grow (i32.const 1000)))");
    check(&modest, expect![[r#"Finish(Conclusion { actions: [], prune: [], requeue_after: None })"#]]).await;
}

#[tokio::test]
async fn a_table_cannot_grow_without_end() {
    let greedy = that(
        "(loop $l (br_if $l (i32.ne (i32.const -1) (table.grow $t (ref.null func) (i32.const 1000))))) unreachable",
    )
    .with("(table $t 1 funcref)");
    check(&greedy, expect!["memory: the plugin wanted more than its 1048576 bytes of memory"]).await;
}

#[tokio::test]
async fn a_request_that_does_not_fit_in_memory_ends_the_call_only() {
    let large = Request { primary: Some("x".repeat(2 << 20).into()), ..request() };
    let outcome = call(&that(""), tight(), &large).await;
    assert!(matches!(outcome, Err(CallError::Memory { .. })), "{outcome:?}");
}

#[tokio::test]
async fn endless_recursion_exhausts_the_stack() {
    let native = that("call $deep").with("(func $deep (call $deep))");
    check(&native, expect!["stack: the plugin exhausted its stack in deep"]).await;
    // Compiled languages keep locals in memory below the data, and run out of that first.
    let shadow = that("call $deep").with(
        "(global $sp (mut i32) (i32.const 4096))
         (func $deep
           (global.set $sp (i32.sub (global.get $sp) (i32.const 64)))
           (i32.store (global.get $sp) (i32.const 0))
           (call $deep))",
    );
    check(&shadow, expect!["stack: the plugin exhausted its stack in deep"]).await;
    // A wild pointer is something else.
    check(
        &that("(i32.store (i32.const -8) (i32.const 0))"),
        expect!["trap: the plugin trapped: out of bounds memory access in reconcile"],
    )
    .await;
}

#[tokio::test]
async fn a_huge_reply_is_refused_before_the_host_copies_it() {
    // A log of one line with 100,000 bytes of text.
    let text = that(
        "(i32.store (i32.const 304) (i32.const 512)) (i32.store (i32.const 308) (i32.const 1))
         (i32.store (i32.const 516) (i32.const 0)) (i32.store (i32.const 520) (i32.const 100000))",
    );
    check(&text, expect!["reply-too-large: the plugin's reply is larger than 10000 bytes"]).await;
    // Many lines that all have the same little text.
    let lines =
        that("(i32.store (i32.const 304) (i32.const 4096)) (i32.store (i32.const 308) (i32.const 8000))");
    check(&lines, expect!["reply-too-large: the plugin's reply is larger than 10000 bytes"]).await;
}

#[tokio::test]
async fn a_reply_that_is_no_value_of_the_contract_is_refused() {
    let log = |pointer: &str, length: &str| {
        that(&format!(
            "(i32.store (i32.const 304) (i32.const {pointer})) (i32.store (i32.const 308) (i32.const {length}))"
        ))
    };
    check(
        &log("-8", "1"),
        expect![
            "invalid-reply: the plugin's reply is not valid: list pointer/length out of bounds of memory"
        ],
    )
    .await;
    check(
        &log("512", "-1"),
        expect![
            "invalid-reply: the plugin's reply is not valid: list pointer/length out of bounds of memory"
        ],
    )
    .await;
    check(
        &log("513", "1"),
        expect!["invalid-reply: the plugin's reply is not valid: list pointer is not aligned"],
    )
    .await;
    // Line one: level debug, text of two bytes at 600 that are no UTF-8.
    let words = log("512", "1").with(
        r#"(data (i32.const 512) "\00\00\00\00\58\02\00\00\02\00\00\00") (data (i32.const 600) "\ff\fe")"#,
    );
    check(
        &words,
        expect![
            "invalid-reply: the plugin's reply is not valid: invalid utf-8 sequence of 1 bytes from index 0"
        ],
    )
    .await;
    let level = log("512", "1").with(r#"(data (i32.const 512) "\09")"#);
    check(&level, expect!["invalid-reply: the plugin's reply is not valid: unexpected discriminant: 9"])
        .await;
    check(
        &that("(i32.store8 (i32.const 264) (i32.const 3))"),
        expect!["invalid-reply: the plugin's reply is not valid: unexpected discriminant: 3"],
    )
    .await;
    check(
        &Guest { reconcile: "i32.const -4".into(), ..Guest::default() },
        expect!["invalid-reply: the plugin's reply is not valid: return pointer not aligned"],
    )
    .await;
}

/// Counts its calls in a global and in memory, and asks to be run again after that many milliseconds.
fn counts() -> Guest {
    that(
        "(global.set $calls (i64.add (global.get $calls) (i64.const 1)))
         (i64.store (i32.const 1024) (i64.add (i64.load (i32.const 1024)) (i64.const 10)))
         (i32.store8 (i32.const 288) (i32.const 1))
         (i64.store (i32.const 296) (i64.add (global.get $calls) (i64.load (i32.const 1024))))",
    )
    .with("(global $calls (mut i64) (i64.const 0))")
}

#[tokio::test]
async fn nothing_is_left_of_a_call() {
    let plugin = load(&counts(), tight()).await.expect("the guest is taken");
    for _ in 0..50 {
        let reply = plugin.reconcile(&request()).await.expect("it answers");
        assert_eq!(reply.outcome.map(|reply| reply.step), Ok(after(11)));
    }
}

#[tokio::test]
async fn nothing_is_left_in_a_slot_for_another_plugin() {
    let runtime = runtime(tight());
    let writes = that("(memory.fill (i32.const 8192) (i32.const 0x5a) (i32.const 100000))");
    let reads = that(
        "(i32.store8 (i32.const 288) (i32.const 1))
         (i64.store (i32.const 296) (i64.or (i64.load (i32.const 8192)) (i64.load (i32.const 100000))))",
    );
    let writes = runtime.load(&writes.build()).await.expect("the guest is taken");
    let reads = runtime.load(&reads.build()).await.expect("the guest is taken");
    for _ in 0..20 {
        writes.reconcile(&request()).await.expect("it answers");
        let reply = reads.reconcile(&request()).await.expect("it answers");
        assert_eq!(reply.outcome.map(|reply| reply.step), Ok(after(0)));
    }
}

#[tokio::test]
async fn a_plugin_that_trapped_answers_the_next_call() {
    // It traps where the controller's name is longer than five bytes.
    let guest = that("(if (i32.gt_u (i32.load offset=4 (local.get 0)) (i32.const 5)) (then unreachable))");
    let plugin = load(&guest, tight()).await.expect("the guest is taken");
    let bad = Request { controller: "long-name".into(), ..request() };
    for _ in 0..20 {
        assert!(matches!(plugin.reconcile(&bad).await, Err(CallError::Trap { .. })));
        assert!(plugin.reconcile(&request()).await.is_ok());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_calls_at_once_wait_for_their_turn() {
    let plugin = load(&counts(), tight()).await.expect("the guest is taken");
    let calls: Vec<_> = (0..100)
        .map(|_| {
            let plugin = plugin.clone();
            tokio::spawn(async move { plugin.reconcile(&request()).await })
        })
        .collect();
    for call in calls {
        let reply = call.await.expect("no panic").expect("it answers");
        assert_eq!(reply.outcome.map(|reply| reply.step), Ok(after(11)));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn others_get_a_turn_while_a_guest_loops() {
    let limits = Limits { time: Duration::from_secs(2), ..tight() };
    let runtime = runtime(limits);
    let spins = runtime.load(&that("(loop $l (br $l))").build()).await.expect("the guest is taken");
    let answers = runtime.load(&that("").build()).await.expect("the guest is taken");
    let spinning = tokio::spawn(async move { spins.reconcile(&request()).await });
    tokio::task::yield_now().await;
    // One worker for both: each of these is called between two ticks of the other. (Not on the thread that blocks on the
    // test itself: tokio gives that a turn only after dozens of others.)
    let answered = tokio::spawn(async move {
        for _ in 0..10 {
            assert!(answers.reconcile(&request()).await.is_ok());
        }
    });
    assert!(answered.await.is_ok());
    assert!(!spinning.is_finished());
    assert!(matches!(spinning.await, Ok(Err(CallError::Deadline { .. }))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_plugin_is_not_blamed_for_the_time_that_others_took() {
    let limits = Limits { time: Duration::from_millis(100), ..tight() };
    let plugin = load(&that("(loop $l (br $l))"), limits).await.expect("the guest is taken");
    // Begun on the worker itself, which looks for work from elsewhere only after dozens of turns.
    let all = tokio::spawn(async move {
        let started = Instant::now();
        let calls: Vec<_> = (0..4)
            .map(|_| {
                let plugin = plugin.clone();
                tokio::spawn(async move { plugin.reconcile(&request()).await })
            })
            .collect();
        for call in calls {
            assert_eq!(call.await.expect("no panic"), Err(CallError::Deadline { limit: limits.time }));
            // One worker for four of them, and each had the whole of its time.
            let took = started.elapsed();
            assert!(took >= limits.time * 3, "cut off after {took:?}");
        }
    });
    assert!(all.await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plugin_that_hangs_leaves_some_slots_to_the_others() {
    let runtime = runtime(Limits { time: Duration::from_secs(2), ..tight() });
    let hangs = runtime.load(&that("(loop $l (br $l))").build()).await.expect("the guest is taken");
    let answers = runtime.load(&that("").build()).await.expect("the guest is taken");
    // Far more calls than the runtime has slots, all of them at once.
    let calls: Vec<_> = (0..40)
        .map(|_| {
            let hangs = hangs.clone();
            tokio::spawn(async move { hangs.reconcile(&request()).await })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(50)).await;
    for _ in 0..10 {
        assert!(answers.reconcile(&request()).await.is_ok());
    }
    assert!(!calls.iter().any(tokio::task::JoinHandle::is_finished), "nobody had to give a slot back");
    calls.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn a_call_that_nobody_waits_for_gives_its_slot_back() {
    let limits = Limits { time: Duration::from_secs(600), ..tight() };
    let plugin = load(&that("(loop $l (br $l))"), limits).await.expect("the guest is taken");
    for _ in 0..20 {
        let request = request();
        tokio::select! {
            biased;
            _ = plugin.reconcile(&request) => unreachable!("it loops"),
            () = tokio::task::yield_now() => {}
        }
    }
}

#[tokio::test]
async fn the_same_request_has_the_same_answer() {
    // Adds up every byte of its memory, the request in it included, and some arithmetic on not-a-number.
    let guest = that(
        "(local $at i32) (local $sum i64)
         (f64.store (i32.const 2048) (f64.div (f64.const 0) (f64.const 0)))
         (f64.store (i32.const 2056) (f64.sqrt (f64.const -1)))
         (loop $l
           (local.set $sum (i64.add (i64.mul (local.get $sum) (i64.const 31)) (i64.load8_u (local.get $at))))
           (local.set $at (i32.add (local.get $at) (i32.const 1)))
           (br_if $l (i32.lt_u (local.get $at) (i32.const 16384))))
         (i32.store8 (i32.const 288) (i32.const 1))
         (i64.store (i32.const 296) (local.get $sum))",
    );
    let plugin = load(&guest, tight()).await.expect("the guest is taken");
    let first = plugin.reconcile(&request()).await.expect("it answers").outcome;
    for _ in 0..100 {
        assert_eq!(plugin.reconcile(&request()).await.expect("it answers").outcome, first);
    }
    // And in another process's runtime, which is another engine here.
    let again = load(&guest, tight()).await.expect("the guest is taken");
    assert_eq!(again.reconcile(&request()).await.expect("it answers").outcome, first);
}

#[tokio::test]
async fn every_nan_has_the_same_bits() {
    // Processors hand the payload of an operand on, each in its own way; the contract has one NaN.
    let adds = that(
        "(f32.store (i32.const 8192) (f32.add (f32.load (i32.const 8196)) (f32.const 1)))
         (if (i32.ne (i32.load (i32.const 8192)) (i32.const 0x7fc00000)) (then unreachable))",
    );
    let payload = r#"(data (i32.const 8196) "\56\34\a2\7f")"#;
    check(
        &adds.with(payload),
        expect![[r#"Finish(Conclusion { actions: [], prune: [], requeue_after: None })"#]],
    )
    .await;
}

#[tokio::test]
async fn the_cost_of_a_call_is_told() {
    let plugin =
        load(&that("(drop (memory.grow (i32.const 3)))"), tight()).await.expect("the guest is taken");
    let reply = plugin.reconcile(&request()).await.expect("it answers");
    assert_eq!(reply.stats.memory, 5 * 65_536);
}
