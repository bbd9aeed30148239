//! A pass through the component against the same function called natively.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use evenkeel_core::contract::{Action, Answer, ObjectRef, Observation, Query, Request, Step};
use evenkeel_core::guest::Guest;
use evenkeel_core::record::{CallRecord, CallReply};
use evenkeel_engine::plugin::PluginSettings;
use evenkeel_engine::{Host, HostOptions};
use serde_json::{Value, json};

use crate::Scale;
use crate::measure::{at, micros, times};
use crate::product::{kite, multi, runtime, sandbox, settle};
use crate::story::{machine, namespace, platform, user};

/// Bytes of JSON that go in: as much as a machine in use is with what surrounds it.
const BYTES_IN: usize = 3_000;

pub fn run(scale: Scale) -> anyhow::Result<()> {
    let runs = scale.pick(200, 10_000);
    let runtime = runtime()?;
    let guest = kite(&runtime)?;
    let request = request(&guest)?;
    let tokio = multi()?;
    let call =
        |request: &Request| tokio.block_on(async { std::hint::black_box(guest.reconcile(request).await) });
    let reply = call(&request)?.outcome.map_err(|failure| anyhow::anyhow!("the pass fails: {failure:?}"))?;
    let Step::Finish(conclusion) = reply.step else { bail!("the pass comes to no conclusion") };
    let objects = conclusion.actions.iter().filter_map(rendered);
    let sizes: Vec<usize> = objects.map(|object| object.len()).collect();
    ensure!(sizes.len() >= 5, "{} objects come out", sizes.len());
    println!(
        "  {} bytes of JSON in, {} objects of {} bytes out",
        bytes_in(&request),
        sizes.len(),
        sizes.iter().sum::<usize>()
    );

    let natively = evenkeel_sdk::run::<kite::Kite>(to_sdk(&request));
    let Ok(evenkeel_sdk::Step::Finish(native)) = natively.map(|reply| reply.step) else {
        bail!("not so natively")
    };
    ensure!(native.actions.len() == conclusion.actions.len(), "natively there are other actions");

    let native = || drop(std::hint::black_box(evenkeel_sdk::run::<kite::Kite>(to_sdk(&request))));
    // A controller that does not exist is refused at once: what is left is the instance and the boundary.
    let refused = Request { controller: "no-such-controller".into(), ..request.clone() };
    let component = || drop(call(&request));
    let instance = || drop(call(&refused));
    // In turns, so that what disturbs the machine disturbs all alike.
    let mut all = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..10 {
        let [natively, through, alone] = &mut all;
        natively.extend(times(runs / 10, native));
        through.extend(times(runs / 10, component));
        alone.extend(times(runs / 10, instance));
    }
    all.iter_mut().for_each(|times| times.sort());
    println!("  p5 / p50 / p99 of {runs} runs");
    for (name, times) in ["native", "component", "of that, instance and boundary"].into_iter().zip(&all) {
        let [low, mid, high] = [0.05, 0.5, 0.99].map(|share| micros(at(times, share)));
        println!("  {name:<32} {low:>10} {mid:>10} {high:>10}");
    }
    let [natively, through, _] = &all;
    for share in [0.05, 0.5] {
        let ratio = at(through, share).as_secs_f64() / at(natively, share).as_secs_f64();
        println!(
            "  component / native at p{:.0}: {ratio:.2} (goal: at most 2.5, and under 150 µs)",
            share * 100.0
        );
    }
    Ok(())
}

/// The object that an action carries.
fn rendered(action: &Action) -> Option<&str> {
    match action {
        Action::Create(apply) | Action::Apply(apply) => Some(&apply.object),
        Action::ApplyStatus(_)
        | Action::Delete(_)
        | Action::AddFinalizer(_)
        | Action::RemoveFinalizer(_)
        | Action::Patch(_)
        | Action::Publish(_)
        | Action::Enqueue(_)
        | Action::External(_) => None,
    }
}

/// The pass of a new machine, with every answer in hand: it makes all parts.
fn request(guest: &Arc<dyn Guest>) -> anyhow::Result<Request> {
    let mut machine = machine(0);
    let mut request = first_pass(guest, &machine)?;
    let missing = BYTES_IN.saturating_sub(bytes_in(&request));
    if missing > 0 {
        // Somebody's notes, about as long as what people keep in annotations.
        machine["metadata"]["annotations"] = json!({"notes": "x".repeat(missing)});
        request = first_pass(guest, &machine)?;
    }
    Ok(request)
}

/// What the host puts to the controller of machines in the second call of a new one's pass, when all questions are
/// answered.
fn first_pass(guest: &Arc<dyn Guest>, machine: &Value) -> anyhow::Result<Request> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace(0)}});
    multi()?.block_on(async {
        let objects = platform().into_iter().chain([user(0), namespace, machine.clone()]);
        let sandbox = sandbox(&**guest, objects)?;
        let host = Host::start(HostOptions::new(kube::Client::new(sandbox.service(), "default")))?;
        host.load(Arc::clone(guest), PluginSettings::default()).await?;
        settle(&host).await;
        let makes_parts =
            |call: &CallRecord| matches!(&call.reply, CallReply::Concluded { actions, .. } if *actions >= 6);
        let passes = host.journal().select(|pass| {
            pass.controller == kite::names::VIRTUAL_MACHINE && pass.calls.last().is_some_and(makes_parts)
        });
        let pass = passes.first().context("a pass that makes a machine's parts")?;
        let mut request = pass.request.clone().context("its request")?;
        for call in &pass.calls {
            if let CallReply::Asked { queries: _, answers } = &call.reply {
                request.observations.extend(answers.iter().cloned());
            }
        }
        host.shutdown(Duration::from_secs(5)).await;
        Ok(request)
    })
}

fn bytes_in(request: &Request) -> usize {
    let answers: usize = request.observations.iter().map(answer_bytes).sum();
    answers + request.primary.as_ref().map_or(0, |text| text.len())
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
            view: get.view.join("\n"),
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
            view: list.view.join("\n"),
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
