use std::time::Duration;

use evenkeel_cluster::{Depth, ListLookup, Lookup, Names, Scope, WatchState};
use evenkeel_core::contract::ObjectRef;
use evenkeel_core::names::Glob;
use evenkeel_sandbox::Cut;
use expect_test::expect;
use serde_json::json;

use crate::world::{World, all, config_map, gvk};

#[tokio::test(start_paused = true)]
async fn what_is_there_and_what_comes_later_is_told_and_cached() {
    let mut world = World::new();
    world.config_map("default/x colour=red").await;
    assert_eq!(world.get("default/x"), "not synced");
    let told = world.watch("ConfigMap").await;
    expect![[r#"
        + ConfigMap default/x colour=red
        synced ConfigMap in all namespaces
    "#]]
    .assert_eq(&told);
    world.config_map("default/y colour=blue").await;
    world.config_map("default/x colour=green").await;
    world.user("DELETE /api/v1/namespaces/default/configmaps/y", json!({})).await;
    expect![[r#"
        + ConfigMap default/y colour=blue
        ~ ConfigMap default/x colour=green
        - ConfigMap default/y colour=blue
    "#]]
    .assert_eq(&world.settle().await);
    assert_eq!(world.list("colour"), "default/x colour=green");
}

#[tokio::test(start_paused = true)]
async fn a_cut_watch_goes_on_where_it_was_without_a_list() {
    let mut world = World::new();
    world.config_map("default/x colour=red").await;
    world.watch("ConfigMap").await;
    world.cut();
    world.config_map("default/x colour=blue").await;
    assert_eq!(world.settle().await, "~ ConfigMap default/x colour=blue\n");
    assert_eq!(world.lists(), 1);
}

#[tokio::test(start_paused = true)]
async fn after_an_expired_watch_a_list_tells_what_was_missed_and_nothing_else() {
    let mut world = World::new();
    for text in ["default/a v=1", "default/b v=1", "default/c v=1"] {
        world.config_map(text).await;
    }
    world.watch("ConfigMap").await;
    world.freeze();
    world.config_map("default/a v=2").await;
    world.user("DELETE /api/v1/namespaces/default/configmaps/c", json!({})).await;
    world.config_map("default/d v=1").await;
    assert_eq!(world.settle().await, "", "a frozen watch tells nothing");
    world.thaw();
    world.sandbox.cut_watches(&Cut { expire: true, ..Cut::default() });
    let told = world.pass(Duration::from_secs(600)).await;
    expect![[r#"
        ~ ConfigMap default/a v=2
        + ConfigMap default/d v=1
        - ConfigMap default/c v=1
        synced ConfigMap in all namespaces
    "#]]
    .assert_eq(&told);
    assert_eq!(world.list(""), "default/a v=2, default/b v=1, default/d v=1");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_stands_still_is_listed_anew() {
    let mut world = World::new();
    world.config_map("default/x v=1").await;
    world.watch("ConfigMap").await;
    world.freeze();
    world.config_map("default/x v=2").await;
    world.thaw();
    // Nothing on the line says that it is dead: the time that a connection may last passes.
    let told = world.pass(Duration::from_secs(500)).await;
    assert_eq!(told, "~ ConfigMap default/x v=2\nsynced ConfigMap in all namespaces\n");
    assert_eq!(world.lists(), 2);
    world.pass(Duration::from_secs(65)).await;
    assert!(world.cluster.health().complaints().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_told_of_its_progress_and_falls_silent_is_noticed_sooner() {
    let mut world = World::new();
    world.config_map("default/x v=1").await;
    world.watch("ConfigMap").await;
    world.pass(Duration::from_secs(65)).await;
    world.freeze();
    world.config_map("default/x v=2").await;
    world.pass(Duration::from_secs(120)).await;
    assert_eq!(world.lists(), 1, "a bookmark may be late");
    let told = world.pass(Duration::from_secs(40)).await;
    assert_eq!(told, "~ ConfigMap default/x v=2\nsynced ConfigMap in all namespaces\n");
    assert_eq!(
        world.cluster.health().complaints(),
        ["watch of ConfigMap in all namespaces stands still"],
        "as long as nothing came on the new line either"
    );
    world.thaw();
    let told = world.pass(Duration::from_secs(300)).await;
    assert_eq!(told, "synced ConfigMap in all namespaces\n", "the second dead line is noticed as soon");
    assert!(world.cluster.health().complaints().is_empty());
}

#[tokio::test(start_paused = true)]
async fn with_the_last_handle_everything_ends() {
    let mut world = World::new();
    world.watch("ConfigMap").await;
    world.watch("Thing.example.com").await;
    assert!(world.drop_cluster().await);
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_is_behind_holds_up_the_watch_and_loses_nothing() {
    let mut world = World::with(|options| options.feed_changes_max = 2);
    for number in 0..50 {
        world.config_map(&format!("default/n{number} v=1")).await;
    }
    world.cluster.want(&gvk("ConfigMap"), Scope::All, Depth::Whole);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(world.cluster.unread(), 2);
    assert_eq!(world.settle().await.lines().count(), 51);
    assert_eq!(world.cluster.unread(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_watch_at_rest_asks_for_little() {
    let mut world = World::new();
    world.watch("ConfigMap").await;
    world.pass(Duration::from_secs(3600)).await;
    let requests = world.cluster.stats().requests;
    assert_eq!(requests.get(&("list", 200)), Some(&1));
    assert!(requests[&("watch", 200)] <= 11, "{requests:?}");
    let health = world.cluster.health();
    assert!(health.watches[0].last_event_age.is_some_and(|age| age < Duration::from_secs(61)));
}

#[tokio::test(start_paused = true)]
async fn many_objects_come_in_pages_in_order() {
    let mut world = World::new();
    for number in 0..1_203 {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": format!("n{number:04}"), "namespace": "default" },
        });
        world.sandbox.put(object).expect("a ConfigMap");
    }
    let told = world.watch("ConfigMap").await;
    assert_eq!(told.lines().count(), 1_204);
    assert_eq!(world.cluster.stats().requests.get(&("list", 200)), Some(&3));
    let ListLookup::Found(found) = world.cluster.list(&all("ConfigMap", "")) else { panic!("it is in sync") };
    assert_eq!(found.len(), 1_203);
    assert!(found.windows(2).all(|pair| pair[0].head().name < pair[1].head().name));
}

#[tokio::test(start_paused = true)]
async fn a_page_that_expired_is_asked_for_with_all_others_at_once() {
    let mut world = World::new();
    world.config_map("default/x v=1").await;
    world.fail("list", "ConfigMap", 410, "Expired", 1);
    assert_eq!(
        world.watch("ConfigMap").await,
        "+ ConfigMap default/x v=1\nsynced ConfigMap in all namespaces\n"
    );
}

#[tokio::test(start_paused = true)]
async fn a_refused_list_says_why_and_is_tried_again() {
    let mut world = World::new();
    world.config_map("default/x v=1").await;
    world.fail("list", "ConfigMap", 403, "Forbidden", 3);
    assert_eq!(world.watch("ConfigMap").await, "forbidden ConfigMap\n");
    assert_eq!(world.get("default/x"), "not synced");
    let trouble = world.cluster.trouble(&gvk("ConfigMap"), &Scope::All, Depth::Whole).expect("it says why");
    expect!["cannot list ConfigMap in all namespaces: Forbidden on demand (403)"].assert_eq(&trouble.message);
    let health = world.cluster.health();
    assert_eq!(health.watches[0].state, WatchState::Waiting);
    expect![[r#"
        [
            "watch of ConfigMap in all namespaces: cannot list ConfigMap in all namespaces: Forbidden on demand (403)",
        ]
    "#]]
    .assert_debug_eq(&health.complaints());
    world.pass(Duration::from_secs(2)).await;
    assert_eq!(world.get("default/x"), "default/x v=1");
    assert!(world.cluster.health().complaints().is_empty());
}

#[tokio::test(start_paused = true)]
async fn whoever_needs_less_does_not_wait_for_a_watch_of_more_that_is_forbidden() {
    let mut world = World::new();
    world.config_map("default/x v=1").await;
    world.fail("list", "ConfigMap", 403, "Forbidden", 1);
    assert_eq!(world.watch("ConfigMap").await, "forbidden ConfigMap\n");
    let part = Scope::Namespace("default".into());
    let want = |world: &World| world.cluster.want(&gvk("ConfigMap"), part.clone(), Depth::Whole);
    assert!(want(&world));
    assert!(!want(&world), "it is begun once");
    world.settle().await;
    assert_eq!(world.get("default/x"), "default/x v=1");
    // Once the wider one is allowed it takes over.
    world.pass(Duration::from_secs(10)).await;
    let scopes: Vec<_> = world.cluster.health().watches.iter().map(|watch| watch.scope.clone()).collect();
    assert_eq!(scopes, [Scope::All]);
    assert_eq!(world.get("default/x"), "default/x v=1");
}

#[tokio::test(start_paused = true)]
async fn a_busy_server_is_left_alone_for_as_long_as_it_says() {
    let mut world = World::new();
    world.sandbox.fail_next(evenkeel_sandbox::Fault {
        verb: Some("list".into()),
        code: 429,
        reason: "TooManyRequests".into(),
        retry_after: Some(20),
        times: 1,
        ..Default::default()
    });
    world.watch("ConfigMap").await;
    world.pass(Duration::from_secs(19)).await;
    assert_eq!(world.get("default/x"), "not synced");
    world.pass(Duration::from_secs(2)).await;
    assert_eq!(world.get("default/x"), "absent");
}

#[tokio::test(start_paused = true)]
async fn scopes_keep_to_themselves_and_a_wider_one_takes_over() {
    let mut world = World::new();
    world.namespace("a").await;
    for text in ["a/x v=1", "a/y v=1", "default/x v=1"] {
        world.config_map(text).await;
    }
    let kind = gvk("ConfigMap");
    assert!(world.cluster.want(&kind, Scope::Object(config_map("a/x")), Depth::Whole));
    assert!(!world.cluster.want(&kind, Scope::Object(config_map("a/x")), Depth::Whole), "once is enough");
    assert_eq!(world.settle().await, "+ ConfigMap a/x v=1\nsynced ConfigMap in ConfigMap a/x\n");
    assert_eq!((world.get("a/x").as_str(), world.get("a/y").as_str()), ("a/x v=1", "not synced"));
    world.cluster.want(&kind, Scope::Namespace("a".into()), Depth::Whole);
    assert_eq!(world.settle().await, "+ ConfigMap a/y v=1\nsynced ConfigMap in namespace a\n");
    assert_eq!(world.list(""), "not synced");
    world.cluster.want(&kind, Scope::All, Depth::Whole);
    assert_eq!(world.settle().await, "+ ConfigMap default/x v=1\nsynced ConfigMap in all namespaces\n");
    assert_eq!(world.cluster.health().watches.len(), 1);
    world.config_map("a/x v=2").await;
    assert_eq!(world.settle().await, "~ ConfigMap a/x v=2\n", "told once, not by each watch");
}

#[tokio::test(start_paused = true)]
async fn a_name_is_watched_in_every_namespace_at_once_and_nothing_else_is() {
    let mut world = World::new();
    world.namespace("a").await;
    for text in ["a/x v=1", "a/y v=1", "default/x v=1"] {
        world.config_map(text).await;
    }
    let kind = gvk("ConfigMap");
    world.cluster.want(&kind, Scope::Object(config_map("a/x")), Depth::Whole);
    world.cluster.want(&kind, Scope::Object(config_map("a/y")), Depth::Whole);
    world.settle().await;
    world.cluster.want(&kind, named(&["x"]), Depth::Whole);
    let told = world.settle().await;
    assert_eq!(told, "+ ConfigMap default/x v=1\nsynced ConfigMap in all namespaces, named x\n");
    assert_eq!(world.cluster.health().watches.len(), 2, "it took over from the one of a/x alone");
    assert!(!world.cluster.want(&kind, Scope::Object(config_map("b/x")), Depth::Whole), "it covers that");
    assert_eq!((world.get("b/x").as_str(), world.get("b/y").as_str()), ("absent", "not synced"));
    world.config_map("a/x v=2").await;
    world.config_map("default/y v=1").await;
    assert_eq!(world.settle().await, "~ ConfigMap a/x v=2\n");
    world.cluster.retain(|_, scope, _| matches!(scope, Scope::Object(_)));
    assert_eq!((world.get("a/x").as_str(), world.get("a/y").as_str()), ("not synced", "a/y v=1"));
}

/// Those of these names, in every namespace.
fn named(names: &[&str]) -> Scope {
    Scope::Named(Names { namespace: None, globs: names.iter().map(|name| Glob::new(name)).collect() })
}

#[tokio::test(start_paused = true)]
async fn of_what_a_pattern_does_not_fit_nothing_is_kept_and_nothing_told() {
    let mut world = World::new();
    world.namespace("a").await;
    for text in ["a/web-1 v=1", "a/db-1 v=1", "default/web-2 v=1"] {
        world.config_map(text).await;
    }
    let kind = gvk("ConfigMap");
    world.cluster.want(&kind, named(&["web-*"]), Depth::Whole);
    assert_eq!(
        world.settle().await,
        "+ ConfigMap a/web-1 v=1\n+ ConfigMap default/web-2 v=1\nsynced ConfigMap in all namespaces, named web-*\n"
    );
    world.config_map("a/db-1 v=2").await;
    world.config_map("a/web-1 v=2").await;
    world.config_map("a/web-3 v=1").await;
    assert_eq!(world.settle().await, "~ ConfigMap a/web-1 v=2\n+ ConfigMap a/web-3 v=1\n");
    for name in ["db-1", "web-1"] {
        world.user(&format!("DELETE /api/v1/namespaces/a/configmaps/{name}"), json!({})).await;
    }
    assert_eq!(world.settle().await, "- ConfigMap a/web-1 v=2\n");
    assert_eq!((world.get("a/web-1").as_str(), world.get("a/db-1").as_str()), ("absent", "not synced"));
    assert_eq!(world.cluster.stats().kinds.iter().map(|kind| kind.objects).sum::<usize>(), 2);
}

#[tokio::test(start_paused = true)]
async fn metadata_alone_is_enough_until_somebody_wants_more() {
    let mut world = World::new();
    world.config_map("default/x colour=red").await;
    let kind = gvk("ConfigMap");
    world.cluster.want(&kind, Scope::All, Depth::Metadata);
    assert_eq!(world.settle().await, "+ ConfigMap default/x\nsynced ConfigMap in all namespaces\n");
    assert_eq!(world.get("default/x"), "not synced", "the whole is not there");
    let Lookup::Found(object) = world.cluster.get_at(&config_map("default/x"), Depth::Metadata) else {
        panic!("its metadata is")
    };
    assert!(object.json().contains(r#""kind":"ConfigMap""#), "{}", object.json());
    assert!(object.json().contains("colour"), "{}", object.json());
    world.cluster.want(&kind, Scope::All, Depth::Whole);
    assert_eq!(world.settle().await, "synced ConfigMap in all namespaces\n", "nothing new, only more");
    assert_eq!(world.get("default/x"), "default/x colour=red");
    assert_eq!(world.cluster.health().watches.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn items_of_built_in_lists_get_their_kind() {
    let mut world = World::new();
    world.watch("Namespace").await;
    let Lookup::Found(object) = world.cluster.get(&ObjectRef::new(gvk("Namespace"), None, "default")) else {
        panic!("it is there from the beginning")
    };
    assert!(object.json().contains(r#""apiVersion":"v1""#), "{}", object.json());
    assert!(!object.json().contains("managedFields") && !object.json().contains("resourceVersion"));
}

#[tokio::test(start_paused = true)]
async fn what_nobody_wants_any_more_is_dropped() {
    let mut world = World::new();
    world.config_map("default/x v=1").await;
    world.watch("ConfigMap").await;
    world.watch("Secret").await;
    world.cluster.retain(|gvk, _, _| &*gvk.kind == "Secret");
    assert_eq!(world.get("default/x"), "not synced");
    let stats = world.cluster.stats();
    assert!(stats.kinds.iter().all(|kind| kind.objects == 0), "{stats:?}");
    world.config_map("default/x v=2").await;
    assert_eq!(world.settle().await, "");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_away_for_a_while_is_found_again() {
    let mut world = World::new();
    world.config_map("default/x v=1").await;
    world.watch("ConfigMap").await;
    world.fail("watch", "ConfigMap", 503, "ServiceUnavailable", 5);
    world.cut();
    world.config_map("default/x v=2").await;
    assert_eq!(world.pass(Duration::from_secs(60)).await, "~ ConfigMap default/x v=2\n");
    assert_eq!(world.lists(), 1);
}
