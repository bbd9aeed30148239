use std::time::Duration;

use evenkeel_core::admit::Write;
use evenkeel_core::contract::{Event, EventType, ObjectRef};
use expect_test::{Expect, expect};

use crate::world::{World, config_map, gvk};

async fn publish(world: &World, about: ObjectRef, reason: &str, message: &str) {
    let event = Event { about, severity: EventType::Warning, reason: reason.into(), message: message.into() };
    world.cluster.write(&Write::Publish(event)).await.expect("it is published");
}

/// All Events, as `kubectl get events` shows them.
fn check(world: &World, expect: Expect) {
    let events = world.sandbox.dump().into_iter().filter(|object| object["kind"] == "Event");
    let mut lines: Vec<String> = events
        .map(|event| {
            let text =
                |pointer: &str| event.pointer(pointer).and_then(|v| v.as_str()).unwrap_or("-").to_owned();
            format!(
                "{} {} {} {}/{} x{} {}..{} by {}: {}\n",
                text("/metadata/namespace"),
                text("/type"),
                text("/reason"),
                text("/involvedObject/kind"),
                text("/involvedObject/name"),
                event["count"],
                text("/firstTimestamp"),
                text("/lastTimestamp"),
                text("/reportingComponent"),
                text("/message"),
            )
        })
        .collect();
    lines.sort();
    expect.assert_eq(&lines.concat());
}

#[tokio::test(start_paused = true)]
async fn the_same_event_again_raises_its_count() {
    let mut world = World::new();
    world.config_map("default/x v=1").await;
    world.watch("ConfigMap").await;
    for _ in 0..3 {
        publish(&world, config_map("default/x"), "TooSmall", "a quota is too small").await;
        world.pass(Duration::from_secs(10)).await;
    }
    publish(&world, ObjectRef::new(gvk("Namespace"), None, "a"), "Shared", "two users share it").await;
    check(
        &world,
        expect![[r#"
            default Warning Shared Namespace/a x1 2026-01-01T00:00:30Z..2026-01-01T00:00:30Z by evenkeel: two users share it
            default Warning TooSmall ConfigMap/x x3 2026-01-01T00:00:00Z..2026-01-01T00:00:20Z by evenkeel: a quota is too small
        "#]],
    );
}

#[tokio::test(start_paused = true)]
async fn an_event_that_expired_is_made_anew_with_its_count() {
    let world = World::new();
    publish(&world, config_map("default/x"), "TooSmall", "a quota is too small").await;
    let events = world.user("GET /api/v1/namespaces/default/events", serde_json::Value::Null).await;
    let name = events["items"][0]["metadata"]["name"].as_str().expect("a name");
    world.user(&format!("DELETE /api/v1/namespaces/default/events/{name}"), serde_json::json!({})).await;
    publish(&world, config_map("default/x"), "TooSmall", "a quota is too small").await;
    check(
        &world,
        expect![[r#"
            default Warning TooSmall ConfigMap/x x2 2026-01-01T00:00:00Z..2026-01-01T00:00:00Z by evenkeel: a quota is too small
        "#]],
    );
}

#[tokio::test(start_paused = true)]
async fn an_object_that_floods_is_cut_off() {
    let world = World::new();
    let mut sent = 0;
    for number in 0..60 {
        let (about, reason) = (config_map("default/x"), "Flapping".to_owned());
        let event = Event { about, severity: EventType::Warning, reason, message: format!("try {number}") };
        sent += u32::from(world.cluster.publish_as(&event, None).await.expect("it is published or left out"));
    }
    assert_eq!(sent, 25);
    let events = world.sandbox.dump().into_iter().filter(|object| object["kind"] == "Event");
    // Ten by themselves, then one for all.
    assert_eq!(events.count(), 11);
    assert_eq!(world.cluster.stats().events_dropped, 35);
}
