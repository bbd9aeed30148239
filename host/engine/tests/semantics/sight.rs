//! What a plugin never sees.

use std::sync::Arc;

use evenkeel_cluster::Depth;
use evenkeel_core::contract::{FailureKind, ObjectRef, Verb};
use serde_json::json;

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn no_plugin_sees_managed_fields_or_resource_versions() {
    let plugin = Native::new("demo")
        .controller("look", widget_kind(), |call| {
            let Some(_) = call.primary() else { return done(vec![]) };
            call.get(&config_map("target"))?;
            call.list(list(config_map_kind(), |_| {}))?;
            let write = apply_forced(json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"namespace": "a", "name": "target"}, "data": {"k": "1"}}));
            if call.0.performed.is_empty() {
                return Err(Stop::Perform(vec![write]));
            }
            done(vec![])
        })
        .may_all(config_map_kind())
        .may_all(widget_kind())
        .build();
    let world = World::with(plugin.clone()).await;
    world.apply(widget("w")).await;
    world.settle().await;
    world.delete(&widget_ref("w")).await;
    world.settle().await;
    let text = serde_json::to_string(&plugin.requests()).expect("requests are serializable");
    assert!(text.contains("creationTimestamp"), "there was something to see");
    for word in ["managedFields", "resourceVersion"] {
        assert!(!text.contains(word), "{word}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_secret_that_the_grant_does_not_name_is_not_shown() {
    let plugin = Native::new("demo")
        .controller("peek", widget_kind(), |call| {
            let Some(primary) = call.primary() else { return done(vec![]) };
            let name = primary["metadata"]["name"].as_str().expect("a name").to_owned();
            call.get(&secret(&name))?;
            done(vec![])
        })
        .may_all(widget_kind())
        .may(secret_kind(), &[Verb::Get])
        .manifest(|manifest| manifest.permissions.last_mut().expect("one").names = vec!["mine".into()])
        .build();
    let world = World::with(plugin.clone()).await;
    for name in ["mine", "yours"] {
        world
            .apply(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "a", "name": name},
            "stringData": {"k": "S3cret!x"}}))
            .await;
        world.apply(widget(name)).await;
    }
    world.settle().await;
    assert_eq!(world.last_failure("peek", "mine"), None);
    assert_eq!(world.last_failure("peek", "yours").expect("a failure").kind, FailureKind::Denied);
    let seen: Vec<_> = plugin
        .requests()
        .iter()
        .filter(|request| !request.observations.is_empty())
        .map(|request| request.key.name.to_string())
        .collect();
    assert_eq!(seen, ["mine"]);
}

/// How much is watched of the object that a plugin looks at, which is its labels, under a permission with these verbs.
async fn watched(object: ObjectRef, verbs: &[Verb]) -> Vec<Depth> {
    let (gvk, name) = (object.gvk.clone(), object.name.to_string());
    let plugin = Native::new("demo")
        .controller("look", widget_kind(), move |call| {
            if call.primary().is_some() {
                call.view(&object, &["/metadata/labels"])?;
            }
            done(vec![])
        })
        .may_all(widget_kind())
        .may(gvk.clone(), verbs)
        .manifest(|manifest| manifest.permissions.last_mut().expect("one").names = vec![name])
        .build();
    let world = World::with(plugin).await;
    world.apply(widget("w")).await;
    world.settle().await;
    let watches = world.host().cluster().health().watches;
    watches.into_iter().filter(|watch| watch.gvk == gvk).map(|watch| watch.depth).collect()
}

#[tokio::test(start_paused = true)]
async fn what_a_plugin_may_put_in_place_is_watched_whole_at_once_and_other_things_only_as_far_as_it_looks() {
    for (object, verbs, depth) in [
        (config_map("x"), &[Verb::Get][..], Depth::Metadata),
        (config_map("x"), &[Verb::Get, Verb::Delete], Depth::Metadata),
        // One watch, and not first one of metadata that ends once something was put.
        (config_map("x"), &[Verb::Get, Verb::Apply], Depth::Whole),
        (config_map("x"), &[Verb::Get, Verb::Create], Depth::Whole),
        (secret("x"), &[Verb::Get, Verb::Apply], Depth::Metadata),
    ] {
        let found = watched(object.clone(), verbs).await;
        assert_eq!(found, [depth], "{object} with {verbs:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_secret_that_was_shown_is_not_in_the_journal() {
    let plugin = Native::new("demo")
        .controller("copy", widget_kind(), |call| {
            let Some(_) = call.primary() else { return done(vec![]) };
            let Some(seen) = call.get(&secret("mine"))? else { return done(vec![]) };
            done(vec![apply(json!({"apiVersion": "v1", "kind": "Secret",
                "metadata": {"namespace": "a", "name": "copy"}, "data": seen["data"]}))])
        })
        .may_all(widget_kind())
        .may(secret_kind(), &[Verb::Get, Verb::Apply])
        .manifest(|manifest| {
            manifest.permissions.last_mut().expect("one").names = vec!["mine".into(), "copy".into()]
        })
        .build();
    let world = World::with(plugin).await;
    world
        .apply(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "a", "name": "mine"},
        "data": {"k": "UzNjcmV0IXg="}}))
        .await;
    world.apply(widget("w")).await;
    world.settle().await;
    assert!(world.object(&secret("copy")).await.is_some());
    let journal = world.journal_json();
    assert!(journal.contains("copy"));
    assert!(!journal.contains("UzNjcmV0IXg="));
}

#[tokio::test(start_paused = true)]
async fn a_permission_to_get_without_list_watches_single_objects() {
    let plugin = Native::new("demo")
        .controller("peek", widget_kind(), |call| {
            let Some(_) = call.primary() else { return done(vec![]) };
            call.get(&secret("mine"))?;
            done(vec![])
        })
        .may_all(widget_kind())
        .may(secret_kind(), &[Verb::Get])
        .manifest(|manifest| manifest.permissions.last_mut().expect("one").names = vec!["mine".into()])
        .build();
    let world = World::with(plugin.clone()).await;
    for name in ["mine", "x", "y"] {
        world
            .apply(
                json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "a", "name": name}}),
            )
            .await;
    }
    world.apply(widget("w")).await;
    world.settle().await;
    assert_eq!(world.cached("Secret"), 1);
    let before = plugin.calls();
    world.merge(&secret("mine"), json!({"data": {"k": "eA=="}})).await;
    world.settle().await;
    assert_eq!(plugin.calls(), before + 1, "it is watched all the same");
}

#[tokio::test(start_paused = true)]
async fn a_grant_of_one_namespace_shows_no_other() {
    let plugin = Native::new("demo")
        .controller("count", widget_kind(), |call| {
            let Some(primary) = call.primary() else { return done(vec![]) };
            let found = call.list(list(config_map_kind(), |query| {
                query.namespace = primary["spec"]["in"].as_str().map(Into::into);
            }))?;
            done(vec![apply_status(status_of(&primary, json!({"found": found.len()})))])
        })
        .may_all(widget_kind())
        .may_all(config_map_kind())
        .build();
    let world = World::new().await;
    world.load_granted(plugin, &["a"]).await.expect("loaded");
    let mut inside = widget("inside");
    inside["spec"] = json!({"in": "a"});
    let mut outside = widget("outside");
    outside["spec"] = json!({"in": "b"});
    let everywhere = widget("everywhere");
    for object in [inside, outside, everywhere] {
        world.apply(object).await;
    }
    world.settle().await;
    assert_eq!(world.last_failure("count", "inside"), None);
    for name in ["outside", "everywhere"] {
        assert_eq!(world.last_failure("count", name).expect("a failure").kind, FailureKind::Denied, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_primary_outside_the_granted_namespaces_is_not_looked_after() {
    for granted in ["a", "a*"] {
        let plugin = Native::new("demo")
            .controller("look", widget_kind(), |_| done(vec![]))
            .may_all(widget_kind())
            .build();
        let world = World::new().await;
        world.load_granted(plugin.clone(), &[granted]).await.expect("loaded");
        for namespace in ["a", "b"] {
            let mut object = widget("w");
            object["metadata"]["namespace"] = json!(namespace);
            world.apply(object).await;
        }
        world.settle().await;
        let seen: Vec<_> = plugin.requests().iter().map(|request| request.key.namespace.clone()).collect();
        assert_eq!(seen, [Some("a".into())], "{granted}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_may_be_listed_by_name_is_one_watch_however_many_namespaces_there_are_but_a_secret_is_one_each()
{
    let plugin = Native::new("demo")
        .controller("look", widget_kind(), |call| {
            let Some(primary) = call.primary() else { return done(vec![]) };
            let namespace = primary["metadata"]["name"].as_str().expect("a name").to_owned();
            call.get(&ObjectRef::new(config_map_kind(), Some(&namespace), "limits"))?;
            call.get(&ObjectRef::new(secret_kind(), Some(&namespace), "login"))?;
            done(vec![])
        })
        .may_all(widget_kind())
        .may(config_map_kind(), &[Verb::Get, Verb::List])
        .manifest(|manifest| manifest.permissions.last_mut().expect("one").names = vec!["limits".into()])
        .may(secret_kind(), &[Verb::Get])
        .manifest(|manifest| manifest.permissions.last_mut().expect("one").names = vec!["login".into()])
        .build();
    let world = World::with(plugin.clone()).await;
    for name in ["a", "b", "c"] {
        world.apply(widget(name)).await;
    }
    world.settle().await;
    let mut scopes: Vec<String> = world
        .host()
        .cluster()
        .health()
        .watches
        .iter()
        .filter(|watch| watch.gvk.group.is_empty())
        .map(|watch| format!("{} in {}", watch.gvk, watch.scope))
        .collect();
    scopes.sort();
    assert_eq!(
        scopes,
        [
            "ConfigMap in all namespaces, named limits",
            "Secret in Secret a/login",
            "Secret in Secret b/login",
            "Secret in Secret c/login",
        ]
    );
    let calls = plugin.requests().len();
    world
        .apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "a", "name": "limits"}}))
        .await;
    world.settle().await;
    let woken: Vec<_> =
        plugin.requests()[calls..].iter().map(|request| request.key.name.to_string()).collect();
    assert_eq!(woken, ["a"], "only who asked about it");
}

/// Looks at the labels of Secrets, which are its primaries.
fn labels_of_secrets() -> Arc<Native> {
    Native::new("labels")
        .controller("look", secret_kind(), |_| done(vec![]))
        .manifest(|manifest| manifest.controllers[0].view = vec!["/metadata/labels".into()])
        .build()
}

#[tokio::test(start_paused = true)]
async fn a_controller_of_the_metadata_of_secrets_is_shown_no_more_though_another_plugin_has_them_watched_whole()
 {
    let whole = Native::new("whole")
        .controller("peek", widget_kind(), |call| {
            if call.primary().is_some() {
                call.get(&secret("mine"))?;
            }
            done(vec![])
        })
        .may_all(widget_kind())
        .may(secret_kind(), &[Verb::Get])
        .manifest(|manifest| manifest.permissions.last_mut().expect("one").names = vec!["mine".into()])
        .build();
    let world = World::with(whole.clone()).await;
    let mine = json!({"apiVersion": "v1", "kind": "Secret", "stringData": {"k": "S3cret!x"},
        "metadata": {"namespace": "a", "name": "mine", "labels": {"seen": "yes"}}});
    world.apply(mine).await;
    world.apply(widget("w")).await;
    world.settle().await;
    let labels = labels_of_secrets();
    world.load(labels.clone()).await;
    world.settle().await;
    world.merge(&secret("mine"), json!({"metadata": {"labels": {"seen": "twice"}}})).await;
    world.settle().await;
    world.delete(&secret("mine")).await;
    world.settle().await;
    let shown = |plugin: &Native| serde_json::to_string(&plugin.requests()).expect("requests");
    assert!(shown(&whole).contains("UzNjcmV0IXg="), "the other one is shown what it may see");
    let (text, requests) = (shown(&labels), labels.requests());
    assert!(requests.iter().any(|request| request.last_seen.is_some()), "as it was before it went, too");
    assert!(text.contains("twice") && !text.contains("UzNjcmV0IXg="), "{text}");
}

#[tokio::test(start_paused = true)]
async fn watches_of_single_objects_that_nobody_asks_for_any_more_end() {
    let plugin = Native::new("demo")
        .controller("follow", widget_kind(), |call| {
            let Some(primary) = call.primary() else { return done(vec![]) };
            call.get(&config_map(primary["spec"]["to"].as_str().expect("a name")))?;
            done(vec![])
        })
        .may_all(widget_kind())
        .may(config_map_kind(), &[Verb::Get])
        .build();
    let world = World::with(plugin.clone()).await;
    let mut object = widget("w");
    for number in 0..300 {
        object["spec"] = json!({"to": format!("c{number}")});
        world.apply(object.clone()).await;
        // So slowly that it is not held back.
        world.advance(3).await;
    }
    let of_config_maps = || {
        let watches = world.host().cluster().health().watches;
        watches.iter().filter(|watch| watch.gvk == config_map_kind()).count()
    };
    assert!(of_config_maps() <= 100, "{} watches, of which a few are needed", of_config_maps());
    // The one that is needed is still there. Some time passes first, so that the key is not held back for its many passes.
    world.advance(120).await;
    let calls = plugin.calls();
    world
        .apply(
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "a", "name": "c299"}}),
        )
        .await;
    world.settle().await;
    assert_eq!(plugin.calls(), calls + 1);
}

#[tokio::test(start_paused = true)]
async fn what_was_asked_under_a_wider_grant_is_watched_no_more_under_a_narrower_one() {
    let version = |digest: &str| {
        Native::new("demo")
            .controller("count", widget_kind(), |call| {
                if call.primary().is_some() {
                    call.list(list(config_map_kind(), |query| query.namespace = Some("b".into())))?;
                }
                done(vec![])
            })
            .digest(digest)
            .may_all(widget_kind())
            .may_all(config_map_kind())
            .build()
    };
    let world = World::with(version("sha256:1")).await;
    world.apply(widget("w")).await;
    world.settle().await;
    world.load_granted(version("sha256:2"), &["a"]).await.expect("loaded");
    world.settle().await;
    assert_eq!(world.last_failure("count", "w").expect("a failure").kind, FailureKind::Denied);
    world.advance(600).await;
    let watches = world.host().cluster().health().watches;
    let of_config_maps: Vec<_> = watches
        .iter()
        .filter(|watch| watch.gvk == config_map_kind())
        .map(|watch| watch.scope.to_string())
        .collect();
    assert!(of_config_maps.is_empty(), "{of_config_maps:?}");
}
