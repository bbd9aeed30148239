//! Failure kinds, back-off, last failure, bad plugins.

use evenkeel_core::contract::{Failure, FailureKind, Query, Verb};
use evenkeel_core::guest::CallError;
use serde_json::json;

use crate::support::*;

/// Fails as its spec says: `kind` is the failure, `retryAfter` milliseconds, until `mended` is set.
fn failing() -> Native {
    Native::new("demo")
        .controller("fail", widget_kind(), |call| {
            let Some(primary) = call.primary() else { return done(vec![]) };
            let kind = match primary["spec"]["fail"].as_str() {
                Some("transient") => FailureKind::Transient,
                Some("invalid") => FailureKind::Invalid,
                Some("denied") => FailureKind::Denied,
                Some("conflict") => FailureKind::Conflict,
                Some("not-found") => FailureKind::NotFound,
                _ => return done(vec![]),
            };
            let retry_after = primary["spec"]["retryAfter"].as_u64();
            Err(Stop::Fail(Failure { kind, message: "it does not work".into(), retry_after }))
        })
        .manifest(|manifest| manifest.controllers[0].view = vec!["/spec".into()])
        .may_all(widget_kind())
}

fn broken(kind: &str) -> serde_json::Value {
    let mut object = widget("w");
    object["spec"] = json!({"fail": kind});
    object
}

async fn calls_after(kind: &str, seconds: &[u64]) -> Vec<u64> {
    let plugin = failing().build();
    let world = World::with(plugin.clone()).await;
    world.apply(broken(kind)).await;
    let mut calls = Vec::new();
    for seconds in seconds {
        world.advance(*seconds).await;
        calls.push(plugin.calls());
    }
    calls
}

#[tokio::test(start_paused = true)]
async fn a_transient_failure_is_retried_ever_more_slowly_up_to_five_minutes() {
    let calls = calls_after("transient", &[1, 3_600, 3_600]).await;
    assert!(calls[0] >= 3, "quick at first: {calls:?}");
    let an_hour = calls[2] - calls[1];
    assert!((8..=24).contains(&an_hour), "about every five minutes in the end: {calls:?}");
}

#[tokio::test(start_paused = true)]
async fn an_invalid_input_waits_until_it_changes() {
    let plugin = failing().build();
    let world = World::with(plugin.clone()).await;
    world.apply(broken("invalid")).await;
    world.advance(3_600).await;
    let before = plugin.calls();
    world.advance(3_600).await;
    assert_eq!(plugin.calls(), before);
    world.merge(&widget_ref("w"), json!({"spec": {"fail": null}})).await;
    world.settle().await;
    // Once told of the failure, and once without it.
    assert_eq!(plugin.calls(), before + 2);
    assert_eq!(world.controller("fail").failing, 0);
}

#[tokio::test(start_paused = true)]
async fn a_sweep_does_not_try_again_what_was_rejected() {
    let plugin = failing().build();
    let world = World::with(plugin.clone()).await;
    world.apply(broken("invalid")).await;
    world.settle().await;
    let before = plugin.calls();
    world.host().resync();
    world.settle().await;
    assert_eq!(plugin.calls(), before, "the same input is rejected again");
}

#[tokio::test(start_paused = true)]
async fn a_conflict_is_retried_at_once_and_then_backed_off() {
    let plugin = failing().build();
    let world = World::with(plugin.clone()).await;
    world.apply(broken("conflict")).await;
    world.settle().await;
    let at_once = plugin.calls();
    assert!((2..=8).contains(&at_once), "{at_once}");
    world.advance(3_600).await;
    assert!(plugin.calls() < at_once + 40, "{}", plugin.calls());
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_honoured() {
    let plugin = failing().build();
    let world = World::with(plugin.clone()).await;
    let mut object = broken("transient");
    object["spec"]["retryAfter"] = json!(60_000);
    world.apply(object).await;
    world.advance(50).await;
    assert_eq!(plugin.calls(), 1);
    world.advance(15).await;
    assert_eq!(plugin.calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_retry_after_without_end_is_cut_to_something_that_ends() {
    let plugin = failing().build();
    let world = World::with(plugin.clone()).await;
    let mut object = broken("transient");
    object["spec"]["retryAfter"] = json!(u64::MAX);
    world.apply(object).await;
    world.advance(2 * 3_600).await;
    assert!(plugin.calls() >= 2);
}

#[tokio::test(start_paused = true)]
async fn a_success_clears_the_back_off() {
    let plugin = failing().build();
    let world = World::with(plugin.clone()).await;
    world.apply(broken("transient")).await;
    world.advance(3_600).await;
    world.merge(&widget_ref("w"), json!({"spec": {"fail": null}})).await;
    world.settle().await;
    let before = plugin.calls();
    world.merge(&widget_ref("w"), json!({"spec": {"fail": "transient"}})).await;
    world.advance(1).await;
    assert!(plugin.calls() >= before + 3, "quick again");
}

#[tokio::test(start_paused = true)]
async fn the_next_pass_is_told_how_the_last_one_failed_and_how_often() {
    let plugin = failing().build();
    let world = World::with(plugin.clone()).await;
    world.apply(broken("transient")).await;
    world.advance(1).await;
    let counts: Vec<_> = plugin
        .requests()
        .iter()
        .map(|request| request.last_failure.as_ref().map(|last| last.count))
        .collect();
    assert_eq!(counts[..3], [None, Some(1), Some(2)]);
    world.merge(&widget_ref("w"), json!({"spec": {"fail": null}})).await;
    world.settle().await;
    world.merge(&widget_ref("w"), json!({"spec": {"later": 1}})).await;
    world.settle().await;
    assert_eq!(plugin.requests().pop().expect("a call").last_failure, None);
}

/// Applies `target`, and says in its status whether it was told that this failed.
fn telling() -> Native {
    Native::new("demo")
        .controller("tell", widget_kind(), |call| {
            let Some(primary) = call.primary() else { return done(vec![]) };
            let target = apply(json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"namespace": "a", "name": "target"}}));
            match &call.0.last_failure {
                None => done(vec![target, apply_status(status_of(&primary, json!({"phase": "Ready"})))]),
                Some(last) => {
                    let mut actions =
                        vec![apply_status(status_of(&primary, json!({"phase": last.failure.message})))];
                    // What was refused for good is not tried again.
                    if !matches!(last.failure.kind, FailureKind::Invalid | FailureKind::Denied) {
                        actions.push(target);
                    }
                    done(actions)
                }
            }
        })
        .manifest(|manifest| manifest.controllers[0].view = vec!["/spec".into()])
        .may_all(config_map_kind())
        .may_all(widget_kind())
}

#[tokio::test(start_paused = true)]
async fn once_the_failed_action_works_the_pass_runs_again_without_the_failure() {
    let world = World::with(telling().build()).await;
    world.fail_next("apply", "target", 500, "InternalError", 2);
    world.apply(widget("w")).await;
    world.advance(5).await;
    assert_eq!(world.object(&widget_ref("w")).await.expect("w")["status"], json!({"phase": "Ready"}));
}

#[tokio::test(start_paused = true)]
async fn a_rejected_action_is_told_once_at_once_and_then_waits_for_another_input() {
    let plugin = telling().build();
    let world = World::with(plugin.clone()).await;
    world.fail_next("apply", "target", 422, "Invalid", 100);
    world.apply(widget("w")).await;
    world.settle().await;
    let status = world.object(&widget_ref("w")).await.expect("w")["status"]["phase"].to_string();
    assert!(status.contains("422"), "{status}");
    let before = plugin.calls();
    world.advance(3_600).await;
    assert_eq!(plugin.calls(), before);
}

#[tokio::test(start_paused = true)]
async fn what_the_api_server_forbids_is_tried_again_for_nobody_tells_when_it_is_allowed() {
    let plugin = failing_to_write().may(config_map_kind(), &[Verb::Apply, Verb::Get]).build();
    let world = World::with(plugin.clone()).await;
    // Each try is sent twice, as what is forbidden might have been a server's that had just started.
    world.fail_next("apply", "target", 403, "Forbidden", 12);
    world.apply(widget("w")).await;
    world.settle().await;
    assert_eq!(world.last_failure("write", "w").expect("a failure").kind, FailureKind::Denied);
    assert_eq!(world.plugin("demo").denied, [""; 0], "the grant is not to blame");
    world.advance(60).await;
    assert!(world.object(&config_map("target")).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn what_the_grant_lacks_is_denied_and_shows_on_the_plugins_status() {
    let plugin = failing_to_write().build();
    let world = World::with(plugin.clone()).await;
    world.apply(widget("w")).await;
    world.settle().await;
    assert_eq!(world.last_failure("write", "w").expect("a failure").kind, FailureKind::Denied);
    let denied = world.plugin("demo").denied;
    assert!(denied.iter().any(|line| line.contains("ConfigMap")), "{denied:?}");
    let before = plugin.calls();
    world.advance(3_600).await;
    assert_eq!(plugin.calls(), before, "it waits for another grant");
    // The next version asks for it, and the operator allows it.
    let next =
        failing_to_write().digest("sha256:2").may(config_map_kind(), &[Verb::Apply, Verb::Get]).build();
    world.load_allowed(next).await.expect("allowed by name");
    world.settle().await;
    assert!(world.object(&config_map("target")).await.is_some());
    assert_eq!(world.plugin("demo").denied, [""; 0]);
}

fn failing_to_write() -> Native {
    Native::new("demo")
        .controller("write", widget_kind(), |call| match call.primary() {
            Some(_) => done(vec![apply(json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"namespace": "a", "name": "target"}}))]),
            None => done(vec![]),
        })
        .may_all(widget_kind())
}

fn dying(name: &'static str) -> Native {
    Native::new("demo")
        .controller("die", widget_kind(), move |call| match call.primary() {
            Some(primary) if name == "*" || primary["metadata"]["name"] == name => {
                Err(Stop::Die(CallError::Trap { reason: "unreachable".into(), frames: vec![] }))
            }
            Some(primary) => done(vec![apply_status(status_of(&primary, json!({"fine": true})))]),
            None => done(vec![]),
        })
        .may_all(widget_kind())
}

#[tokio::test(start_paused = true)]
async fn a_trap_costs_that_pass_only_and_is_retried() {
    let world = World::with(dying("bad").build()).await;
    for name in ["bad", "good"] {
        world.apply(widget(name)).await;
    }
    world.advance(1).await;
    assert_eq!(world.object(&widget_ref("good")).await.expect("good")["status"], json!({"fine": true}));
    let failure = world.last_failure("die", "bad").expect("a failure");
    assert_eq!(failure.kind, FailureKind::Transient);
    assert!(failure.message.contains("trapped"), "{}", failure.message);
    assert!(world.controller("die").faults >= 3);
    assert!(world.is_active("demo"));
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_dies_on_many_keys_is_held_and_says_so() {
    let plugin = dying("*").build();
    let world = World::with(plugin.clone()).await;
    for number in 0..20 {
        world.apply(widget(&format!("w{number}"))).await;
    }
    world.advance(10).await;
    let reason = world.held("demo").expect("it is held");
    assert!(reason.contains("trapped"), "{reason}");
    let before = plugin.calls();
    world.advance(3_600).await;
    assert_eq!(plugin.calls(), before);
    world.load(dying("nobody").digest("sha256:2").build()).await;
    world.settle().await;
    assert!(world.is_active("demo"));
    assert_eq!(world.object(&widget_ref("w7")).await.expect("w7")["status"], json!({"fine": true}));
}

#[tokio::test(start_paused = true)]
async fn a_new_version_that_dies_on_many_keys_is_rolled_back() {
    let world = World::with(dying("nobody").build()).await;
    for number in 0..20 {
        world.apply(widget(&format!("w{number}"))).await;
    }
    world.settle().await;
    world.load(dying("*").digest("sha256:2").build()).await;
    world.advance(10).await;
    let plugin = world.plugin("demo");
    assert_eq!(plugin.digest, "sha256:1");
    let refused = plugin.refused.expect("the other one");
    assert_eq!(refused.digest, "sha256:2");
    assert!(refused.reason.contains("trapped"), "{}", refused.reason);
    assert!(world.is_active("demo"));
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_asks_in_a_circle_fails_its_pass() {
    let plugin = Native::new("demo")
        .controller("circle", widget_kind(), |call| match call.primary() {
            Some(_) => Err(Stop::Ask(vec![Query::Clock])),
            None => done(vec![]),
        })
        .may_all(widget_kind())
        .build();
    let world = World::with(plugin.clone()).await;
    world.apply(widget("w")).await;
    world.settle().await;
    assert!(plugin.calls() <= 64);
    assert!(world.last_failure("circle", "w").is_some());
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_asks_for_ever_more_is_cut_off() {
    let plugin = Native::new("demo")
        .controller("more", widget_kind(), |call| {
            if call.primary().is_none() {
                return done(vec![]);
            }
            let next = format!("more-{}", call.0.observations.len());
            call.get(&config_map(&next))?;
            panic!("it was never asked before");
        })
        .may_all(config_map_kind())
        .may_all(widget_kind())
        .build();
    let world = World::with(plugin.clone()).await;
    world.apply(widget("w")).await;
    world.settle().await;
    let failure = world.last_failure("more", "w").expect("a failure");
    assert!(failure.message.contains("16"), "{}", failure.message);
}

#[tokio::test(start_paused = true)]
async fn objects_that_are_no_valid_json_or_lie_elsewhere_are_refused() {
    for (object, word) in [
        ("{not json", "JSON"),
        (r#"{"kind":"ConfigMap","metadata":{"name":"x"}}"#, "apiVersion"),
        (r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"a"}}"#, "name"),
        (r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"a","name":"../x"}}"#, "name"),
        (r#"{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":"a","name":"x"}}"#, "Secret"),
    ] {
        let plugin = Native::new("demo")
            .controller("odd", widget_kind(), move |call| match call.primary() {
                Some(_) => done(vec![raw_apply(object)]),
                None => done(vec![]),
            })
            .may_all(config_map_kind())
            .may_all(widget_kind())
            .build();
        let world = World::with(plugin).await;
        world.apply(widget("w")).await;
        world.settle().await;
        let failure = world.last_failure("odd", "w").unwrap_or_else(|| panic!("{object} is refused"));
        assert!(failure.message.contains(word), "{object}: {}", failure.message);
        assert_eq!(world.writes(), [""; 0], "{object}");
    }
}

/// Panics once it was shown what its spec names: `secret` or `map`.
fn panicking() -> Native {
    Native::new("demo")
        .controller("panic", widget_kind(), |call| {
            let Some(primary) = call.primary() else { return done(vec![]) };
            let seen = match primary["spec"]["look"].as_str() {
                Some("secret") => call.get(&secret("mine"))?,
                _ => call.get(&config_map("target"))?,
            };
            Err(Stop::Die(CallError::Panic {
                place: "src/plan.rs:12:5".into(),
                message: format!("no plan for {seen:?}"),
                frames: vec![],
            }))
        })
        .may_all(widget_kind())
        .may_all(config_map_kind())
        .may(secret_kind(), &[Verb::Get])
        .manifest(|manifest| manifest.permissions.last_mut().expect("one").names = vec!["mine".into()])
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_told_with_its_place_and_words_but_for_words_that_may_hold_a_secret() {
    let world = World::with(panicking().build()).await;
    world
        .apply(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "a", "name": "mine"},
            "stringData": {"k": "S3cret!x"}}))
        .await;
    for (name, look) in [("open", "map"), ("closed", "secret")] {
        let mut object = widget(name);
        object["spec"] = json!({"look": look});
        world.apply(object).await;
    }
    world.settle().await;
    let said = |name: &str| world.last_failure("panic", name).expect("a failure").message;
    assert_eq!(said("open"), "the plugin panicked at src/plan.rs:12:5: no plan for None");
    assert!(said("closed").contains("src/plan.rs:12:5") && said("closed").contains("kept back"));
    let journal = world.journal_json();
    for secret in ["S3cret!x", "UzNjcmV0IXg="] {
        assert!(!journal.contains(secret), "{secret}");
    }
}
