//! Kinds that are not there, not yet there, or brought along.

use evenkeel_core::contract::{Answer, ExternalQuery, FailureKind, Gvk, ObjectRef, Query};
use evenkeel_engine::status::PluginState;
use serde_json::{Value, json};

use crate::support::*;

fn gadget_kind() -> Gvk {
    Gvk::new("demo.dev", "v1", "Gadget")
}

fn gadget(name: &str) -> ObjectRef {
    ObjectRef::new(gadget_kind(), Some("a"), name)
}

fn seeker() -> Native {
    Native::new("demo")
        .controller("seek", widget_kind(), |call| {
            let Some(primary) = call.primary() else { return done(vec![]) };
            let found = match call.get_if_served(&gadget("g"))? {
                None => "not installed",
                Some(None) => "absent",
                Some(Some(_)) => "there",
            };
            done(vec![apply_status(status_of(&primary, json!({"gadget": found})))])
        })
        .manifest(|manifest| manifest.controllers[0].view = vec!["/spec".into()])
        .may_all(widget_kind())
        .may_all(gadget_kind())
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_served_is_told_apart_from_none_and_waited_for() {
    let world = World::with(seeker().build()).await;
    world.apply(widget("w")).await;
    world.settle().await;
    let gadget_of =
        async |world: &World| world.object(&widget_ref("w")).await.expect("w")["status"]["gadget"].clone();
    assert_eq!(gadget_of(&world).await, "not installed");
    world.install(crd("Gadget", "gadgets")).await;
    world.advance(120).await;
    assert_eq!(gadget_of(&world).await, "absent");
    world.apply(json!({"apiVersion": "demo.dev/v1", "kind": "Gadget", "metadata": {"namespace": "a", "name": "g"}})).await;
    world.settle().await;
    assert_eq!(gadget_of(&world).await, "there");
}

#[tokio::test(start_paused = true)]
async fn a_primary_kind_that_is_not_served_is_looked_after_once_it_is() {
    let plugin = Native::new("demo")
        .controller("look", gadget_kind(), |_| done(vec![]))
        .may_all(gadget_kind())
        .build();
    let world = World::with(plugin.clone()).await;
    world.settle().await;
    world.install(crd("Gadget", "gadgets")).await;
    world.advance(120).await;
    world.apply(json!({"apiVersion": "demo.dev/v1", "kind": "Gadget", "metadata": {"namespace": "a", "name": "g"}})).await;
    world.settle().await;
    assert_eq!(plugin.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_objects_of_a_kind_that_vanishes_wait_and_take_no_time_until_it_is_back() {
    let plugin = Native::new("demo")
        .controller("look", gadget_kind(), |_| done(vec![]))
        .may_all(gadget_kind())
        .build();
    let gadget =
        json!({"apiVersion": "demo.dev/v1", "kind": "Gadget", "metadata": {"namespace": "a", "name": "g"}});
    let world = World::new().await;
    world.install(crd("Gadget", "gadgets")).await;
    world.load(plugin.clone()).await;
    world.apply(gadget.clone()).await;
    world.settle().await;
    let gone = ObjectRef::new(
        Gvk::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
        None,
        "gadgets.demo.dev",
    );
    world.delete(&gone).await;
    world.advance(120).await;
    // That its object goes before its kind does may be seen, or not.
    assert_eq!(world.controller("look").waiting, 1);
    let calls = plugin.calls();
    let records = world.host().journal().records().len();
    world.advance(600).await;
    assert_eq!(world.host().journal().records().len(), records, "nobody looks again and again");
    world.install(crd("Gadget", "gadgets")).await;
    world.apply(gadget).await;
    world.advance(120).await;
    assert_eq!((plugin.calls(), world.controller("look").waiting), (calls + 1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_not_in_step_makes_the_pass_wait_and_never_answers_none() {
    let plugin = Native::new("demo")
        .controller("ask", widget_kind(), |call| {
            let Some(primary) = call.primary() else { return done(vec![]) };
            let there = call.get(&config_map("target"))?.is_some();
            done(vec![apply_status(status_of(&primary, json!({"there": there})))])
        })
        .may_all(widget_kind())
        .may_all(config_map_kind())
        .build();
    let world = World::new().await;
    world.apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "a", "name": "target"}})).await;
    world.apply(widget("w")).await;
    world.fail_next("list", "configmaps", 500, "InternalError", 5);
    world.load(plugin.clone()).await;
    world.settle().await;
    assert_eq!(world.object(&widget_ref("w")).await.expect("w")["status"], json!(null));
    assert_eq!(world.controller("ask").waiting, 1);
    world.advance(300).await;
    assert_eq!(world.object(&widget_ref("w")).await.expect("w")["status"], json!({"there": true}));
    let text = serde_json::to_string(&plugin.requests()).expect("requests are serializable");
    assert!(!text.contains(r#"{"object":null}"#), "{text}");
}

#[tokio::test(start_paused = true)]
async fn the_kinds_that_a_plugin_brings_along_are_installed_before_it_starts() {
    let plugin = Native::new("demo")
        .controller("look", gadget_kind(), |_| done(vec![]))
        .manifest(|manifest| manifest.crds = vec![crd("Gadget", "gadgets").to_string().into()])
        .may_all(gadget_kind())
        .build();
    let world = World::with(plugin.clone()).await;
    world.apply(json!({"apiVersion": "demo.dev/v1", "kind": "Gadget", "metadata": {"namespace": "a", "name": "g"}})).await;
    world.settle().await;
    assert_eq!(plugin.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_swap_writes_only_the_kinds_that_the_new_version_has_otherwise_or_that_are_gone() {
    let version = |digest: &str, crds: Vec<Value>| {
        let crds = crds.into_iter().map(|crd| crd.to_string().into()).collect();
        Native::new("demo")
            .digest(digest)
            .controller("look", gadget_kind(), |_| done(vec![]))
            .manifest(|manifest| manifest.crds = crds)
            .may_all(gadget_kind())
            .build()
    };
    let (gadgets, tools) = (crd("Gadget", "gadgets"), crd("Tool", "tools"));
    let mut changed = tools.clone();
    changed["spec"]["names"]["shortNames"] = json!(["tl"]);
    let world = World::with(version("sha256:1", vec![gadgets.clone(), tools.clone()])).await;
    let both =
        ["apply CustomResourceDefinition gadgets.demo.dev", "apply CustomResourceDefinition tools.demo.dev"];
    assert_eq!(world.writes(), both);
    world.load(version("sha256:2", vec![gadgets.clone(), tools])).await;
    assert_eq!(world.writes(), [""; 0], "nothing is different");
    world.load(version("sha256:3", vec![gadgets.clone(), changed.clone()])).await;
    assert_eq!(world.writes(), [both[1]]);
    let gone = Gvk::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    world.delete(&ObjectRef::new(gone, None, "gadgets.demo.dev")).await;
    world.settle().await;
    world.load(version("sha256:4", vec![gadgets, changed])).await;
    assert_eq!(world.writes(), [both[0]], "somebody took it away");
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_the_host_lacks_is_answered_and_not_failed() {
    let query = Query::External(ExternalQuery {
        provider: "vsphere".into(),
        question: "vm".into(),
        arguments: "{}".into(),
    });
    let asked = query.clone();
    let plugin = Native::new("demo")
        .controller("ask", widget_kind(), move |call| {
            if call.primary().is_none()
                || call.0.observations.iter().any(|observation| observation.query == asked)
            {
                return done(vec![]);
            }
            Err(Stop::Ask(vec![asked.clone()]))
        })
        .manifest(|manifest| {
            manifest.providers = vec![evenkeel_core::contract::ProviderUse {
                provider: "vsphere".into(),
                questions: vec!["vm".into()],
                operations: vec![],
            }];
        })
        .may_all(widget_kind())
        .build();
    let world = World::with(plugin.clone()).await;
    world.apply(widget("w")).await;
    world.settle().await;
    let last = plugin.requests().pop().expect("a call");
    let answer =
        &last.observations.iter().find(|observation| observation.query == query).expect("an answer").answer;
    let Answer::External(Err(failure)) = answer else { panic!("{answer:?}") };
    assert_eq!((failure.kind, failure.message.contains("no such provider")), (FailureKind::Denied, true));
}

#[tokio::test(start_paused = true)]
async fn the_objects_of_a_kind_that_is_served_again_are_seen_again_with_the_same_uids() {
    let plugin = Native::new("demo")
        .controller("look", gadget_kind(), |_| done(vec![]))
        .may_all(gadget_kind())
        .build();
    let definition = ObjectRef::new(
        Gvk::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
        None,
        "gadgets.demo.dev",
    );
    let served = |served: bool| {
        let mut version = crd("Gadget", "gadgets")["spec"]["versions"][0].clone();
        version["served"] = json!(served);
        json!({"spec": {"versions": [version]}})
    };
    let world = World::new().await;
    world.install(crd("Gadget", "gadgets")).await;
    world.load(plugin.clone()).await;
    world.apply(json!({"apiVersion": "demo.dev/v1", "kind": "Gadget", "metadata": {"namespace": "a", "name": "g"}})).await;
    world.settle().await;
    assert_eq!((plugin.calls(), world.cached("Gadget")), (1, 1));
    world.merge(&definition, served(false)).await;
    world.advance(120).await;
    assert_eq!(world.cached("Gadget"), 0, "it is out of sight");
    world.merge(&definition, served(true)).await;
    world.advance(120).await;
    assert_eq!((world.cached("Gadget"), world.controller("look").waiting), (1, 0), "and was never dead");
    world.merge(&gadget("g"), json!({"spec": {"size": 2}})).await;
    world.settle().await;
    let last = plugin.requests().pop().expect("a call");
    let primary = last.primary.as_ref().map(parse).expect("it is there");
    assert_eq!(primary["spec"], json!({"size": 2}));
}

#[tokio::test(start_paused = true)]
async fn a_plugin_whose_kinds_cannot_be_installed_when_its_host_comes_to_lead_goes_on_once_they_can() {
    let plugin = Native::new("demo")
        .controller("look", widget_kind(), |_| done(vec![]))
        .manifest(|manifest| manifest.crds = vec![crd("Gadget", "gadgets").to_string().into()])
        .may_all(widget_kind())
        .build();
    let world = World::new().await;
    world.host().stand_by();
    world.load(plugin.clone()).await;
    world.apply(widget("w")).await;
    world.fail_next("apply", "gadgets.demo.dev", 503, "ServiceUnavailable", 2);
    world.host().lead().await;
    world.advance_ms(500).await;
    assert!(matches!(world.plugin("demo").state, PluginState::Held { .. }) && plugin.calls() == 0);
    world.advance(30).await;
    assert_eq!((plugin.calls(), world.plugin("demo").state), (1, PluginState::Active));
}
