//! A look asks only for what has changed since the last one, and misses nothing of it, however much that is.

use serde_json::json;

use crate::support::*;

/// What the plugin applies, more than the changes that are told one by one.
const APPLIED: usize = 12;

fn name(number: usize) -> String {
    format!("applied-{number:02}")
}

/// Applies a dozen ConfigMaps that it does not ask about, each with what it reads of another one.
fn dozen() -> Native {
    Native::new("demo")
        .controller("apply", widget_kind(), |call| {
            if call.primary().is_none() {
                return done(vec![]);
            }
            let read = call.get(&config_map("read"))?.map_or(json!(null), |read| read["data"]["k"].clone());
            let of = |number| {
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "a", "name": name(number)},
                    "data": {"read": read, "own": "1"}})
            };
            done((0..APPLIED).map(|number| apply_forced(of(number))).collect())
        })
        .may_all(config_map_kind())
        .may_all(widget_kind())
}

/// Has changes come in together.
async fn at_once(world: &World, numbers: &[usize], read: Option<&str>) {
    world.hold_watches("configmaps");
    for number in numbers {
        world.merge(&config_map(&name(*number)), json!({"data": {"own": "drifted"}})).await;
    }
    if let Some(read) = read {
        world.merge(&config_map("read"), json!({"data": {"k": read}})).await;
    }
    world.release_watches();
    world.settle().await;
}

async fn is_whole(world: &World, read: &str) {
    for number in 0..APPLIED {
        let object = world.object(&config_map(&name(number))).await.expect("it is applied");
        assert_eq!(object["data"], json!({"read": read, "own": "1"}), "{}", name(number));
    }
}

#[tokio::test(start_paused = true)]
async fn whatever_drifts_at_once_is_repaired_and_what_a_pass_rests_on_is_seen_beside_it() {
    let plugin = dozen().build();
    let world = World::with(plugin.clone()).await;
    world
        .apply(json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": "a", "name": "read"}, "data": {"k": "0"}}))
        .await;
    world.apply(widget("w")).await;
    world.settle().await;
    is_whole(&world, "0").await;

    let all: Vec<_> = (0..APPLIED).collect();
    let parts = [&all[..0], &all[4..5], &all[2..4], &all[3..11], &all[1..10], &all];
    for (round, drifted) in parts.into_iter().enumerate() {
        // The breaker looks at how often a key runs.
        world.advance(600).await;
        world.writes();
        let calls = plugin.calls();
        at_once(&world, drifted, None).await;
        is_whole(&world, &round.to_string()).await;
        assert_eq!(plugin.calls(), calls, "drift of {drifted:?} takes no call");
        let repaired: Vec<_> =
            drifted.iter().map(|number| format!("apply ConfigMap a/{}", name(*number))).collect();
        let mut writes = world.writes();
        writes.retain(|write| write.starts_with("apply"));
        assert_eq!(writes, repaired);

        let read = (round + 1).to_string();
        at_once(&world, drifted, Some(&read)).await;
        is_whole(&world, &read).await;
        assert_eq!(plugin.calls(), calls + 1, "what it read has changed, and {drifted:?} with it");
    }
}
