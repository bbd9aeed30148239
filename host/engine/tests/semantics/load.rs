//! Many keys: every one is brought to its state, none is written twice, and in the end nothing is called.

use evenkeel_core::contract::{Gvk, ObjectRef};
use serde_json::json;

use crate::support::*;

const KEYS: usize = 400;

fn plugin() -> Native {
    Native::new("demo")
        .controller("fill", widget_kind(), |call| {
            let Some(primary) = call.primary() else { return done(vec![]) };
            let name = primary["metadata"]["name"].as_str().expect("a name");
            let target = config_map(&format!("{name}-map"));
            let there = call.view(&target, &["/data"])?.is_some();
            let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"namespace": "a", "name": format!("{name}-map")}, "data": {"of": name}});
            done(vec![apply_controlled(object), apply_status(status_of(&primary, json!({"ready": there})))])
        })
        .manifest(|manifest| manifest.controllers[0].view = vec!["/spec".into()])
        .may_all(config_map_kind())
        .may_all(widget_kind())
}

#[tokio::test(start_paused = true)]
async fn many_keys_are_brought_to_their_state_and_then_all_is_quiet() {
    let plugin = plugin().build();
    let world = World::with(plugin.clone()).await;
    for number in 0..KEYS {
        world.apply(widget(&format!("w{number:05}"))).await;
    }
    world.settle().await;
    for number in [0, KEYS / 2, KEYS - 1] {
        let object = world.object(&widget_ref(&format!("w{number:05}"))).await.expect("a widget");
        assert_eq!(object["status"], json!({"ready": true}));
    }
    let writes = world.writes();
    let maps = writes.iter().filter(|write| write.starts_with("apply ConfigMap")).count();
    assert_eq!(maps, KEYS, "none twice");
    let calls = plugin.calls();
    assert!(calls as usize <= KEYS * 4, "{calls} calls");
    world.host().resync();
    world.settle().await;
    assert_eq!(plugin.calls(), calls);
    assert_eq!(world.writes(), [""; 0]);
}

/// Kinds that are needed one after the other: what is asked for, what is asked for then, and what is applied, two kinds at once.
fn in_stages() -> Native {
    Native::new("demo")
        .controller("fill", widget_kind(), |call| {
            let Some(primary) = call.primary() else { return done(vec![]) };
            let name = primary["metadata"]["name"].as_str().expect("a name").to_owned();
            call.get(&ObjectRef::new(namespace_kind(), None, "a"))?;
            call.get(&ObjectRef::new(service_kind(), Some("a"), &name))?;
            let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "a", "name": name}});
            let account =
                json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": "a", "name": name}});
            done(vec![apply(map), apply(account)])
        })
        .may_all(widget_kind())
        .may_all(namespace_kind())
        .may_all(service_kind())
        .may_all(config_map_kind())
        .may_all(Gvk::new("", "v1", "ServiceAccount"))
}

fn namespace_kind() -> Gvk {
    Gvk::new("", "v1", "Namespace")
}

fn service_kind() -> Gvk {
    Gvk::new("", "v1", "Service")
}

#[tokio::test(start_paused = true)]
async fn after_a_start_a_few_keys_find_out_which_watches_are_needed_and_the_others_wait_along() {
    let mut world = World::new().await;
    for number in 0..KEYS {
        world.apply(widget(&format!("w{number:05}"))).await;
    }
    for start in ["the first", "with everything as it is to be"] {
        let plugin = in_stages().build();
        world.restart().await;
        world.load(plugin.clone()).await;
        world.settle().await;
        // Each asks twice and concludes. Those who find out, one a worker, find no watch three times.
        let (calls, found_out) = (plugin.calls() as usize, 4 * 3 * 3);
        assert!(calls <= 3 * KEYS + found_out, "{start}: {calls} calls");
        assert_eq!(world.controller("fill").waiting, 0);
    }
    assert_eq!(world.writes().len(), 2 * KEYS);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_never_comes_does_not_keep_those_who_do_not_need_it() {
    let plugin = Native::new("demo")
        .controller("some", widget_kind(), |call| {
            let Some(primary) = call.primary() else { return done(vec![]) };
            if primary["spec"]["asks"] == true {
                call.get(&config_map("never"))?;
            }
            done(vec![apply_status(status_of(&primary, json!({"seen": true})))])
        })
        .may_all(widget_kind())
        .may_all(config_map_kind())
        .build();
    let world = World::new().await;
    // As an API server whose roles lack something says.
    world.fail_next("list", "ConfigMap", 403, "Forbidden", 10_000);
    for (name, asks) in [("a-asks", true), ("b-asks", true), ("c", false), ("d", false)] {
        let mut object = widget(name);
        object["spec"] = json!({"asks": asks});
        world.apply(object).await;
    }
    world.load(plugin.clone()).await;
    world.settle().await;
    world.apply(widget("later")).await;
    world.advance(3).await;
    world.settle().await;
    for name in ["c", "d", "later"] {
        let object = world.object(&widget_ref(name)).await.expect("a widget");
        assert_eq!(object["status"], json!({"seen": true}), "{name}");
    }
    let before = tokio::time::Instant::now();
    world.apply(widget("at-once")).await;
    world.settle().await;
    assert!(before.elapsed().as_secs() < 1, "nobody waits for it a second time");
    assert_eq!(
        world.object(&widget_ref("at-once")).await.expect("a widget")["status"],
        json!({"seen": true})
    );
}
