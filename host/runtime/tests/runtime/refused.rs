//! Components that are not taken, each with its reason.

use std::time::Duration;

use evenkeel_runtime::{Limits, LoadError};
use expect_test::{Expect, expect};

use crate::guests::{Guest, contract, that};
use crate::{chain, load, runtime};

async fn check(wasm: &[u8], expected: Expect) {
    check_within(wasm, Limits { time: Duration::from_millis(50), ..Limits::default() }, expected).await;
}

async fn check_within(wasm: &[u8], limits: Limits, expected: Expect) {
    let said = match runtime(limits).load(wasm).await {
        Ok(plugin) => format!("taken: {}", plugin.manifest().name),
        Err(error) => chain(&error),
    };
    expected.assert_eq(&said);
}

#[tokio::test]
async fn a_guest_that_keeps_the_contract_is_taken() {
    check(&Guest::default().build(), expect!["taken: trial"]).await;
}

#[tokio::test]
async fn bytes_that_are_no_component_are_named() {
    check(b"", expect!["this is no WebAssembly component"]).await;
    check(b"#!/bin/sh\n", expect!["this is no WebAssembly component"]).await;
    check(&Guest::default().module(), expect!["this is a WebAssembly module, not a component"]).await;
}

#[tokio::test]
async fn compiled_code_is_refused() {
    let engine = wasmtime::Engine::default();
    let code = engine.precompile_component(&Guest::default().build()).expect("it compiles");
    check(&code, expect!["this is compiled code; only the WebAssembly component itself is taken"]).await;
}

#[tokio::test]
async fn a_component_cut_off_anywhere_is_refused() {
    let whole = Guest::default().build();
    let runtime = runtime(Limits::default());
    for length in 0..whole.len() {
        let refused = runtime.load(whole.get(..length).unwrap_or_default()).await;
        // Cut right before a custom section (its id is 0) it is whole: names are no part of what runs.
        let whole_still = whole.get(length) == Some(&0);
        assert!(refused.is_err() || whole_still, "the first {length} of {} bytes were taken", whole.len());
    }
}

#[tokio::test]
async fn damaged_bytes_never_harm_the_host() {
    let whole = Guest::default().build();
    let runtime = runtime(Limits { time: Duration::from_millis(20), ..Limits::default() });
    for at in (8..whole.len()).step_by(whole.len() / 150 + 1) {
        let mut damaged = whole.clone();
        damaged.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 0x55);
        // Whether it is still a plugin does not matter; that this returns does.
        let _ = runtime.load(&damaged).await;
    }
    assert!(runtime.load(&whole).await.is_ok());
}

#[tokio::test]
async fn a_component_larger_than_allowed_is_refused_before_anything_else() {
    let limits = Limits { component: 100, ..Limits::default() };
    let outcome = load(&Guest::default(), limits).await;
    assert!(matches!(outcome, Err(LoadError::TooLarge { limit: 100, .. })), "{outcome:?}");
}

#[tokio::test]
async fn a_component_of_another_world_is_refused_with_what_it_exports() {
    let other = r#"(component
        (core module $m (func (export "f")))
        (core instance $i (instantiate $m))
        (func $f (canon lift (core func $i "f")))
        (instance $run (export "run" (func $f)))
        (export "wasi:cli/run@0.2.9" (instance $run)))"#;
    check(
        &wat::parse_str(other).expect("it parses"),
        expect![
            "the component does not export evenkeel:reconciler/guest@0.1.0; it exports wasi:cli/run@0.2.9"
        ],
    )
    .await;
    check(
        &wat::parse_str("(component)").expect("it parses"),
        expect!["the component does not export evenkeel:reconciler/guest@0.1.0; it exports nothing"],
    )
    .await;
}

#[tokio::test]
async fn imports_are_refused_by_name() {
    let imports = r#"(component
        (import "wasi:clocks/monotonic-clock@0.2.9" (instance (export "now" (func (result u64)))))
        (import "help" (func)))"#;
    check(
        &wat::parse_str(imports).expect("it parses"),
        expect!["the component imports wasi:clocks/monotonic-clock@0.2.9, help; a plugin imports nothing"],
    )
    .await;
}

#[tokio::test]
async fn instructions_that_differ_between_processors_are_refused() {
    let relaxed = that("(drop (i8x16.relaxed_swizzle (v128.const i64x2 0 0) (v128.const i64x2 0 0)))");
    let outcome = runtime(Limits::default()).load(&relaxed.build()).await;
    let said = outcome.map(|_| ()).map_err(|error| chain(&error)).expect_err("they are refused");
    assert!(said.contains("relaxed SIMD"), "{said}");
}

#[tokio::test]
async fn another_shape_of_a_type_is_refused_at_load() {
    let other = contract().replace("controlled: bool,", "controlled: bool,\n    dry: bool,");
    let outcome = runtime(Limits::default()).load(&Guest::default().build_against(&other)).await;
    assert!(matches!(outcome, Err(LoadError::OtherTypes { .. })), "{outcome:?}");
}

#[tokio::test]
async fn a_patch_version_is_taken_and_the_next_minor_one_is_not() {
    check(&Guest::default().build_version("0.1.3"), expect!["taken: trial"]).await;
    check(
        &Guest::default().build_version("0.2.0"),
        expect!["the component does not export evenkeel:reconciler/guest@0.1.0; it exports evenkeel:reconciler/guest@0.2.0"],
    )
    .await;
}

#[tokio::test]
async fn a_guest_that_cannot_describe_itself_is_refused() {
    let describes = |body: &str| Guest { describe: body.to_owned(), ..Guest::default() }.build();
    check(&describes("unreachable"), expect!["the component cannot describe itself: the plugin trapped: wasm `unreachable` instruction executed in describe"]).await;
    check(
        &describes("(loop $l (br $l)) unreachable"),
        expect!["the component cannot describe itself: the plugin did not answer within 50ms"],
    )
    .await;
    check(&describes("(i32.store offset=4 (i32.const 64) (i32.const -1)) i32.const 64"), expect!["the component cannot describe itself: the plugin's reply is not valid: string pointer/length out of bounds of memory"]).await;
}

#[tokio::test]
async fn a_guest_that_misbehaves_when_it_starts_is_refused() {
    let starts = |body: &str| that("").with(&format!("(func $start {body}) (start $start)")).build();
    check(&starts("unreachable"), expect!["the component cannot describe itself: the plugin trapped: wasm `unreachable` instruction executed in start"]).await;
    check(
        &starts("(loop $l (br $l))"),
        expect!["the component cannot describe itself: the plugin did not answer within 50ms"],
    )
    .await;
    check(&starts("(drop (memory.grow (i32.const 2000)))"), expect!["taken: trial"]).await;
}

#[tokio::test]
async fn a_guest_that_begins_with_too_much_is_refused() {
    let memory = Guest { pages: 1025, ..Guest::default() };
    check(&memory.build(), expect!["cannot keep the compiled component: module memory does not fit in pooling allocator requirements: memory index 0 is unsupported in this pooling allocator configuration: memory has a minimum byte size of 67174400 which exceeds the limit of 0x4000000 bytes"]).await;
    check(&that("").with("(table 20001 funcref)").build(), expect!["cannot keep the compiled component: module table does not fit in pooling allocator requirements: table index 0 has a minimum element size of 20001 which exceeds the limit of 20000"]).await;
    let tables = "(table 1 funcref)".repeat(17);
    check(&that("").with(&tables).build(), expect!["cannot keep the compiled component: module table does not fit in pooling allocator requirements: defined tables count of 17 exceeds the per-instance limit of 1"]).await;
}
