//! Many keys: every one is brought to its state, none is written twice, and in the end nothing is called.

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
