//! A pass through the component against the same function called natively.

use std::sync::Arc;

use anyhow::{Context, bail};
use evenkeel_core::contract::{Answer, ObjectRef, Observation, Query, Request};
use evenkeel_core::guest::Guest;
use evenkeel_sim::scenario::world::{Start, World};
use serde_json::json;

use crate::story::{at, kite, micros, multi, platform, runtime, times, user};

const RUNS: usize = 5_000;

pub fn run() -> anyhow::Result<()> {
    let runtime = runtime()?;
    let guest = kite(&runtime)?;
    let request = request(&guest)?;
    let size: usize = request.observations.iter().map(answer_bytes).sum::<usize>()
        + request.primary.as_ref().map_or(0, |text| text.len());
    let native = to_sdk(&request);
    let mut copies = vec![native; RUNS];
    let natively = times(RUNS, || {
        let copy = copies.pop().expect("a copy for each run");
        std::hint::black_box(evenkeel_sdk::run::<kite::Kite>(copy)).ok();
    });
    let tokio = multi()?;
    let call =
        |request: &Request| tokio.block_on(async { std::hint::black_box(guest.reconcile(request).await) });
    let through = times(RUNS, || {
        call(&request).ok();
    });
    // A controller that does not exist is refused at once: what is left is the instance and the boundary.
    let refused = Request { controller: "no-such-controller".into(), ..request.clone() };
    let instance = times(RUNS, || {
        call(&refused).ok();
    });
    let reply = call(&request).map_err(|error| anyhow::anyhow!("{error}"))?;
    if reply.outcome.is_err() {
        bail!("the pass of the benchmark fails: {:?}", reply.outcome);
    }
    println!("request of {size} bytes of JSON; p5 / p50 / p99 of {RUNS} runs");
    for (name, times) in
        [("native", &natively), ("component", &through), ("instance and boundary alone", &instance)]
    {
        let (low, mid, high) = (at(times, 0.05), at(times, 0.5), at(times, 0.99));
        println!("  {name:<30} {:>10} {:>10} {:>10}", micros(low), micros(mid), micros(high));
    }
    let ratio = at(&through, 0.05).as_secs_f64() / at(&natively, 0.05).as_secs_f64();
    println!("  component / native: {ratio:.2} (goal: at most 2.5, and under 150 µs)");
    Ok(())
}

/// A KiteUser's pass with every answer in hand.
fn request(guest: &Arc<dyn Guest>) -> anyhow::Result<Request> {
    let mut given = platform();
    given.push(user(0));
    let tokio = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    tokio.block_on(async {
        let mut world = World::start(Start {
            guest: Arc::clone(guest),
            config: "{}".into(),
            controllers: None,
            installed: &["kubevirt".to_owned(), "cdi".to_owned()],
            stages: false,
            clock: "2026-01-01T00:00:00Z".parse()?,
            seed: 1,
            given: &given,
        })
        .await?;
        let change = json!({"spec": {"access_level": 2}}).to_string().into_bytes();
        let path = "/apis/anacnu.com/v1/kiteusers/user-0";
        world.request("PATCH", path, "application/merge-patch+json", change).await?;
        world.settle().await?;
        let of_user = world.passes.iter().rev().find_map(|record| {
            let request = record.request.as_ref()?;
            (record.controller == "kite-user" && record.calls.len() == 1).then(|| request.clone())
        });
        of_user.context("a pass that took one call")
    })
}

fn answer_bytes(observation: &Observation) -> usize {
    match &observation.answer {
        Answer::Object(object) => object.as_ref().map_or(0, |text| text.len()),
        Answer::Objects(objects) => objects.iter().map(|text| text.len()).sum(),
        Answer::Unserved | Answer::Time(_) | Answer::External(_) => 0,
    }
}

// ---- the same request in the SDK's types -------------------------------------------------------------------------

fn to_sdk(request: &Request) -> evenkeel_sdk::Request {
    evenkeel_sdk::Request {
        controller: request.controller.clone(),
        key: object(&request.key),
        primary: request.primary.as_ref().map(ToString::to_string),
        last_seen: None,
        observations: request.observations.iter().map(observation).collect(),
        performed: vec![],
        last_failure: None,
        config: request.config.to_string(),
    }
}

fn gvk(gvk: &evenkeel_core::contract::Gvk) -> evenkeel_sdk::Gvk {
    evenkeel_sdk::Gvk {
        group: gvk.group.to_string(),
        version: gvk.version.to_string(),
        kind: gvk.kind.to_string(),
    }
}

fn object(object: &ObjectRef) -> evenkeel_sdk::ObjectRef {
    evenkeel_sdk::ObjectRef {
        gvk: gvk(&object.gvk),
        namespace: object.namespace.as_ref().map(ToString::to_string),
        name: object.name.to_string(),
    }
}

fn observation(observation: &Observation) -> evenkeel_sdk::Observation {
    let query = match &observation.query {
        Query::Get(get) => evenkeel_sdk::Query::Get(evenkeel_sdk::GetQuery {
            object: object(&get.object),
            view: get.view.clone(),
        }),
        Query::List(list) => evenkeel_sdk::Query::List(evenkeel_sdk::ListQuery {
            gvk: gvk(&list.gvk),
            namespace: list.namespace.as_ref().map(ToString::to_string),
            labels: list.labels.clone(),
            fields: list
                .fields
                .iter()
                .map(|field| evenkeel_sdk::FieldMatch {
                    pointer: field.pointer.clone(),
                    value: field.value.to_string(),
                })
                .collect(),
            controlled_by: list.controlled_by.clone(),
            view: list.view.clone(),
        }),
        Query::Clock | Query::External(_) => evenkeel_sdk::Query::Clock,
    };
    let answer = match &observation.answer {
        Answer::Object(object) => evenkeel_sdk::Answer::Object(object.as_ref().map(ToString::to_string)),
        Answer::Objects(all) => evenkeel_sdk::Answer::Objects(all.iter().map(ToString::to_string).collect()),
        Answer::Unserved | Answer::External(_) => evenkeel_sdk::Answer::Unserved,
        Answer::Time(time) => evenkeel_sdk::Answer::Time(time.clone()),
    };
    evenkeel_sdk::Observation { query, answer }
}
