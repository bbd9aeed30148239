//! Answers from outside Kubernetes: part of the memo like any other, and asked for only where they decide something.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel_core::contract::{Action, Answer, ExternalQuery, Json, Operation, ProviderUse, Query};
use evenkeel_engine::provider::{Caller, Changes, Provider, ProviderFuture, Providers};
use serde_json::json;

use crate::support::*;

/// Knows two numbers, and how often it was asked for each. It may know of one that it stands still.
#[derive(Default)]
struct Numbers {
    inner: Mutex<Inner>,
    changes: Changes,
}

#[derive(Default)]
struct Inner {
    numbers: BTreeMap<String, u32>,
    asked: Vec<String>,
    standing: Option<String>,
}

impl Numbers {
    /// The questions since the last look.
    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.inner.lock().expect("nobody panics").asked)
    }

    fn stands_still(&self, question: &str) {
        self.inner.lock().expect("nobody panics").standing = Some(question.to_owned());
    }

    /// Sets a number, and tells of it.
    fn set(&self, question: &str, number: u32) {
        self.inner.lock().expect("nobody panics").numbers.insert(question.to_owned(), number);
        self.changes.tell(external(question));
    }
}

impl Provider for Numbers {
    fn answer<'a>(&'a self, _: &'a Caller, query: &'a ExternalQuery) -> ProviderFuture<'a, Json> {
        let mut inner = self.inner.lock().expect("nobody panics");
        inner.asked.push(query.question.clone());
        let number = inner.numbers.get(&query.question).copied().unwrap_or_default();
        Box::pin(std::future::ready(Ok(number.to_string().into())))
    }

    fn perform<'a>(&'a self, _: &'a Caller, _: &'a Operation) -> ProviderFuture<'a, Option<Json>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    fn standing(&self, query: &ExternalQuery) -> Option<Json> {
        let inner = self.inner.lock().expect("nobody panics");
        let stands = inner.standing.as_deref() == Some(&query.question);
        stands.then(|| inner.numbers.get(&query.question).copied().unwrap_or_default().to_string().into())
    }

    fn changes(&self) -> Option<&Changes> {
        Some(&self.changes)
    }
}

fn external(question: &str) -> ExternalQuery {
    ExternalQuery { provider: "numbers".into(), question: question.into(), arguments: "{}".into() }
}

/// Asks for `first`, for `second` where the widget says so, and writes what it was told into the status.
fn plugin() -> Native {
    Native::new("demo")
        .controller("count", widget_kind(), |call| {
            let Some(primary) = call.primary() else { return done(vec![]) };
            let number = |question: &str| {
                let query = Query::External(external(question));
                let found = call.0.observations.iter().find(|observation| observation.query == query);
                match found.map(|observation| &observation.answer) {
                    Some(Answer::External(Ok(number))) => Ok(number.to_string()),
                    Some(other) => panic!("{other:?}"),
                    None => Err(Stop::Ask(vec![query])),
                }
            };
            let mut told = vec![number("first")?];
            if primary["spec"]["both"] == true {
                told.push(number("second")?);
            }
            done(vec![apply_status(status_of(&primary, json!({"told": told})))])
        })
        .manifest(|manifest| {
            manifest.controllers[0].view = vec!["/spec".into()];
            manifest.providers = vec![ProviderUse {
                provider: "numbers".into(),
                questions: vec!["first".into(), "second".into()],
                operations: vec![],
            }];
        })
        .may_all(widget_kind())
}

/// A widget that has been brought to rest, its plugin, and the provider.
async fn at_rest() -> (World, Arc<Native>, Arc<Numbers>) {
    let (plugin, numbers) = (plugin().build(), Arc::<Numbers>::default());
    let providers = Providers::default().with("numbers", Arc::<Numbers>::clone(&numbers));
    let world = World::with_providers(plugin.clone(), providers).await;
    world.apply(widget("w")).await;
    world.merge(&widget_ref("w"), json!({"spec": {"both": true}})).await;
    world.settle().await;
    numbers.asked();
    (world, plugin, numbers)
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_did_not_change_needs_no_call_of_the_plugin() {
    let (world, plugin, numbers) = at_rest().await;
    let before = plugin.calls();
    numbers.set("first", 0);
    world.settle().await;
    assert_eq!(numbers.asked(), ["first", "second"], "only they can tell");
    assert_eq!(plugin.calls(), before);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_changed_is_given_with_the_first_call() {
    let (world, plugin, numbers) = at_rest().await;
    let before = plugin.calls();
    numbers.set("second", 7);
    world.settle().await;
    assert_eq!(plugin.calls(), before + 1);
    let status = &world.object(&widget_ref("w")).await.expect("w")["status"];
    assert_eq!(*status, json!({"told": ["0", "7"]}));
    assert_eq!(
        numbers.asked(),
        ["first", "second"],
        "the status that it wrote wakes it, and says nothing of them"
    );
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_is_called_anyway_asks_for_what_it_needs_and_no_more() {
    let (world, _, numbers) = at_rest().await;
    world.merge(&widget_ref("w"), json!({"spec": {"both": false}})).await;
    world.settle().await;
    assert_eq!(numbers.asked(), ["first"]);
    // What is no longer asked no longer runs the pass.
    numbers.set("second", 7);
    world.settle().await;
    assert!(numbers.asked().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_known_to_stand_still_is_given_without_asking() {
    let (world, plugin, numbers) = at_rest().await;
    numbers.stands_still("first");
    let before = plugin.calls();
    numbers.set("second", 7);
    world.settle().await;
    assert_eq!(numbers.asked(), ["second"]);
    assert_eq!(plugin.calls(), before + 1);
}

/// Takes ten seconds for what it does, and counts what it has done.
#[derive(Default)]
struct Doer(AtomicUsize);

impl Provider for Doer {
    fn answer<'a>(&'a self, _: &'a Caller, _: &'a ExternalQuery) -> ProviderFuture<'a, Json> {
        Box::pin(std::future::ready(Ok("{}".into())))
    }

    fn perform<'a>(&'a self, _: &'a Caller, _: &'a Operation) -> ProviderFuture<'a, Option<Json>> {
        Box::pin(async {
            tokio::time::sleep(Duration::from_secs(10)).await;
            self.0.fetch_add(1, Ordering::SeqCst);
            Ok(None)
        })
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_done_outside_is_given_up_once_another_host_may_act() {
    for (leads_for, done_outside) in [(30, 1), (5, 0)] {
        let operation = Operation {
            key: "k".into(),
            provider: "doer".into(),
            operation: "do".into(),
            arguments: "{}".into(),
        };
        let plugin = Native::new("demo")
            .controller("act", widget_kind(), move |call| {
                done(call.primary().map(|_| Action::External(operation.clone())).into_iter().collect())
            })
            .manifest(|manifest| {
                manifest.providers = vec![ProviderUse {
                    provider: "doer".into(),
                    questions: vec![],
                    operations: vec!["do".into()],
                }];
            })
            .may_all(widget_kind())
            .build();
        let doer = Arc::<Doer>::default();
        let providers = Providers::default().with("doer", Arc::<Doer>::clone(&doer));
        let world = World::with_providers_for(plugin, providers, leads_for).await;
        world.apply(widget("w")).await;
        world.advance(20).await;
        assert_eq!(doer.0.load(Ordering::SeqCst), done_outside, "it leads for {leads_for} s");
        let journal = world.journal_json();
        assert_eq!(journal.contains("given up on its way"), done_outside == 0, "{journal}");
    }
}
