//! Hot swap from a folder of files. These run on real time: the file system does not wait for a paused clock.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::guest::Guest;
use evenkeel_engine::directory::{Directory, FileStatus, Loader, LoaderFuture};
use serde_json::json;

use crate::support::*;

/// Makes a plugin of a text: `NAME VERSION`, or fails as a broken component would.
struct TextLoader;

impl Loader for TextLoader {
    fn load<'a>(&'a self, wasm: Vec<u8>) -> LoaderFuture<'a> {
        Box::pin(async move {
            let text = String::from_utf8(wasm)?;
            let Some((name, version)) = text.trim().split_once(' ') else {
                return Err("not a component".into());
            };
            Ok(plugin(name, version))
        })
    }
}

fn plugin(name: &str, version: &str) -> Arc<dyn Guest> {
    let version = version.to_owned();
    let by = version.clone();
    Native::new(name)
        .controller("mark", widget_kind(), move |call| match call.primary() {
            Some(primary) => done(vec![apply_status_forced(status_of(&primary, json!({"by": by})))]),
            None => done(vec![]),
        })
        .manifest(|manifest| {
            manifest.version = format!("{version}.0.0");
            manifest.controllers[0].view = vec!["/spec".into()];
            manifest.config_schema = Some(
                json!({"type": "object", "additionalProperties": false,
                "properties": {"limit": {"type": "integer"}}})
                .to_string()
                .into(),
            );
        })
        .digest(&format!("sha256:{version}"))
        .may_all(widget_kind())
        .build()
}

async fn open(world: &World, folder: &Path) -> Directory {
    Directory::open(world.host().clone(), Arc::new(TextLoader), folder).await.expect("a folder")
}

/// Replaces a file as a careful tool does.
fn put(folder: &Path, name: &str, text: &str) {
    let temporary = folder.join(format!(".{name}.tmp"));
    std::fs::write(&temporary, text).expect("written");
    std::fs::rename(temporary, folder.join(name)).expect("renamed");
}

/// Waits for the files to look as they should; the deadline is far beyond what it takes.
async fn until(directory: &Directory, what: &str, is: impl Fn(&[FileStatus]) -> bool) {
    let reached = async {
        while !is(&directory.files()) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    if tokio::time::timeout(Duration::from_secs(20), reached).await.is_err() {
        panic!("{what}: {:#?}", directory.files());
    }
}

fn runs(files: &[FileStatus], digest: &str) -> bool {
    files.iter().any(|file| file.digest.as_deref() == Some(digest) && file.refused.is_none())
}

async fn mark(world: &World, name: &str) -> serde_json::Value {
    world.object(&widget_ref(name)).await.expect("a widget")["status"]["by"].clone()
}

#[tokio::test]
async fn plugins_are_loaded_replaced_and_removed_as_files_change() {
    let folder = tempfile::tempdir().expect("a folder");
    put(folder.path(), "demo.wasm", "demo 1");
    let world = World::new().await;
    world.apply(widget("w")).await;
    let directory = open(&world, folder.path()).await;
    world.settle().await;
    assert_eq!(mark(&world, "w").await, "1");
    put(folder.path(), "demo.wasm", "demo 2");
    until(&directory, "the new version", |files| runs(files, "sha256:2")).await;
    world.settle().await;
    assert_eq!(mark(&world, "w").await, "2");
    std::fs::remove_file(folder.path().join("demo.wasm")).expect("removed");
    until(&directory, "no plugin", <[_]>::is_empty).await;
    assert!(world.host().status().plugins.is_empty());
}

#[tokio::test]
async fn a_bad_version_is_refused_with_its_reason_while_the_old_one_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    put(folder.path(), "demo.wasm", "demo 1");
    let world = World::new().await;
    let directory = open(&world, folder.path()).await;
    put(folder.path(), "demo.wasm", "rubbish");
    until(&directory, "a refusal", |files| files[0].refused.is_some()).await;
    assert_eq!(directory.files()[0].refused.as_deref(), Some("not a component"));
    assert_eq!(directory.files()[0].digest.as_deref(), Some("sha256:1"));
    assert_eq!(world.plugin("demo").refused.expect("shown on the plugin").reason, "not a component");
    world.apply(widget("w")).await;
    world.settle().await;
    assert_eq!(mark(&world, "w").await, "1");
}

#[tokio::test]
async fn settings_are_taken_from_the_file_beside_it_and_checked() {
    let folder = tempfile::tempdir().expect("a folder");
    put(folder.path(), "demo.yaml", "config: {limit: 3}");
    put(folder.path(), "demo.wasm", "demo 1");
    let world = World::new().await;
    let directory = open(&world, folder.path()).await;
    assert!(runs(&directory.files(), "sha256:1"));
    put(folder.path(), "demo.yaml", "config: {limit: many}");
    until(&directory, "a refusal", |files| files[0].refused.is_some()).await;
    assert!(directory.files()[0].refused.as_deref().expect("a reason").contains("/limit"));
    put(folder.path(), "demo.yaml", "config: {limit: 4}");
    until(&directory, "the new settings", |files| runs(files, "sha256:1")).await;
}

#[tokio::test]
async fn two_files_with_one_plugin_are_not_both_loaded() {
    let folder = tempfile::tempdir().expect("a folder");
    put(folder.path(), "a.wasm", "demo 1");
    put(folder.path(), "b.wasm", "demo 2");
    let world = World::new().await;
    let directory = open(&world, folder.path()).await;
    let files = directory.files();
    assert_eq!(files[0].digest.as_deref(), Some("sha256:1"));
    assert_eq!(files[1].refused.as_deref(), Some("a.wasm holds the plugin demo already"));
}

#[tokio::test]
async fn temporary_files_are_ignored() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in [".demo.wasm.tmp", "demo.wasm~", "notes.txt"] {
        std::fs::write(folder.path().join(name), "demo 1").expect("written");
    }
    let world = World::new().await;
    let directory = open(&world, folder.path()).await;
    assert_eq!(directory.files(), []);
}

#[tokio::test]
async fn a_folder_that_is_not_there_is_an_error_that_names_it() {
    let world = World::new().await;
    let error =
        Directory::open(world.host().clone(), Arc::new(TextLoader), Path::new("/nowhere/at/all")).await;
    let Err(error) = error else { panic!("there is no such folder") };
    assert!(error.to_string().contains("/nowhere/at/all"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn what_was_refused_for_a_reason_that_passes_is_taken_though_nobody_touches_its_file() {
    let brings_a_kind = |_: Vec<u8>| async {
        let plugin = Native::new("demo")
            .controller("look", widget_kind(), |_| done(vec![]))
            .manifest(|manifest| manifest.crds = vec![crd("Gadget", "gadgets").to_string().into()])
            .may_all(widget_kind())
            .build();
        Ok(plugin as Arc<dyn Guest>)
    };
    let folder = tempfile::tempdir().expect("a folder");
    put(folder.path(), "demo.wasm", "anything");
    let world = World::new().await;
    world.fail_next("apply", "gadgets.demo.dev", 503, "ServiceUnavailable", 1);
    let directory = Directory::open(world.host().clone(), Arc::new(brings_a_kind), folder.path())
        .await
        .expect("a folder");
    let reason = directory.files()[0].refused.clone().expect("a reason");
    assert!(reason.contains("gadgets.demo.dev could not be installed"), "{reason}");
    world.advance(60).await;
    assert!(runs(&directory.files(), "sha256:1"), "{:?}", directory.files());
}
