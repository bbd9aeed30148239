//! Controllers that the operator chooses: these run, and the others of the plugin look after nothing.

use std::sync::Arc;

use evenkeel_core::guest::Guest;
use evenkeel_engine::plugin::{Held, LoadOutcome, PluginSettings};
use serde_json::json;

use crate::support::*;

fn stamping(status: &'static str) -> impl Fn(&Call<'_>) -> Outcome + Send + Sync + 'static {
    move |call| match call.primary() {
        Some(primary) => done(vec![apply_status_forced(status_of(&primary, json!({status: "seen"})))]),
        None => done(vec![]),
    }
}

/// Two controllers of one kind, each with a mark of its own.
fn two() -> Arc<dyn Guest> {
    Native::new("demo")
        .controller("left", widget_kind(), stamping("left"))
        .controller("right", widget_kind(), stamping("right"))
        .manifest(|manifest| {
            manifest.controllers.iter_mut().for_each(|one| one.view = vec!["/spec".into()]);
        })
        .may_all(widget_kind())
        .build()
}

async fn load(world: &World, chosen: Option<&[&str]>) -> Result<LoadOutcome, Held> {
    let controllers = chosen.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
    world.host().load(two(), PluginSettings { controllers, ..PluginSettings::default() }).await
}

async fn marks(world: &World) -> serde_json::Value {
    world.settle().await;
    world.object(&widget_ref("w")).await.expect("a widget")["status"].clone()
}

#[tokio::test(start_paused = true)]
async fn the_chosen_controllers_run_and_the_others_once_they_are_chosen_too() {
    let world = World::new().await;
    world.apply(widget("w")).await;
    load(&world, Some(&["right"])).await.expect("it is taken");
    assert_eq!(marks(&world).await, json!({"right": "seen"}));
    load(&world, None).await.expect("it is taken");
    assert_eq!(marks(&world).await, json!({"left": "seen", "right": "seen"}));
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_is_chosen_no_more_lets_its_objects_be() {
    let world = World::new().await;
    load(&world, None).await.expect("it is taken");
    load(&world, Some(&["left"])).await.expect("it is taken");
    world.apply(widget("w")).await;
    assert_eq!(marks(&world).await, json!({"left": "seen"}));
}

#[tokio::test(start_paused = true)]
async fn names_that_the_plugin_does_not_know_are_refused_and_what_ran_goes_on() {
    let world = World::new().await;
    load(&world, Some(&["left"])).await.expect("it is taken");
    for (chosen, said) in [
        (
            &["right", "rigth", "up"][..],
            "its settings choose controllers that it has not: rigth, up; it has left, right",
        ),
        (&[], "its settings choose no controller; it has left, right"),
    ] {
        let held = load(&world, Some(chosen)).await.expect_err("it is held");
        assert_eq!(held.to_string(), said);
    }
    world.apply(widget("w")).await;
    assert_eq!(marks(&world).await, json!({"left": "seen"}));
}
