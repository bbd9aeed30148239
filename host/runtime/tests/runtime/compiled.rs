//! The folder of compiled plugins.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use evenkeel_runtime::{Runtime, RuntimeError, RuntimeOptions};
use sha2::{Digest, Sha256};

use crate::guests::{request, that};

fn on(folder: &Path, limit: u64) -> Runtime {
    let options = RuntimeOptions {
        cache_dir: Some(folder.to_owned()),
        cache_limit: limit,
        concurrency: 2,
        ..RuntimeOptions::default()
    };
    Runtime::new(options).expect("the runtime starts")
}

/// The compiled components.
fn files(folder: &Path) -> Vec<PathBuf> {
    that_end_in(folder, "cwasm")
}

fn that_end_in(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let all = folder.read_dir().expect("a folder").flatten().map(|file| file.path());
    let mut files: Vec<PathBuf> = all.filter(|file| file.extension() == Some(ending.as_ref())).collect();
    files.sort();
    files
}

#[tokio::test]
async fn a_component_is_compiled_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().join("a/b");
    let wasm = that("").build();
    let first = on(&folder, u64::MAX).load(&wasm).await.expect("it is taken");
    let before = files(&folder);
    assert_eq!(before.len(), 1, "{before:?}");
    let made = before.first().expect("one").metadata().expect("it is there").created().ok();
    let second = on(&folder, u64::MAX).load(&wasm).await.expect("it is taken");
    assert_eq!(files(&folder), before);
    assert_eq!(before.first().expect("one").metadata().expect("it is there").created().ok(), made);
    assert_eq!(first.digest(), second.digest());
    assert!(first.digest().starts_with("sha256:"));
}

#[tokio::test]
async fn a_damaged_file_is_compiled_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().join("compiled");
    let wasm = that("").build();
    drop(on(&folder, u64::MAX).load(&wasm).await.expect("it is taken"));
    for damage in [b"".as_slice(), b"\x7fELF no code"] {
        let file = files(&folder).pop().expect("one");
        std::fs::write(&file, damage).expect("it is written");
        let plugin = on(&folder, u64::MAX).load(&wasm).await.expect("it is taken");
        assert!(plugin.reconcile(&request()).await.is_ok());
        assert_eq!(files(&folder), [file]);
    }
}

#[tokio::test]
async fn a_component_describes_itself_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().join("compiled");
    let wasm = that("").build();
    let first = on(&folder, u64::MAX).load(&wasm).await.expect("it is taken");
    let kept = that_end_in(&folder, "manifest").pop().expect("its manifest is kept");

    // What stands there is what is taken, for as long as it is whole and can be read.
    let text = std::fs::read_to_string(&kept).expect("it is there");
    let other = text.replacen(&first.manifest().version, "9.9.9", 1);
    assert_ne!(other, text);
    std::fs::remove_file(&kept).expect("it is there");
    write_under_its_digest(&kept, &other);
    let second = on(&folder, u64::MAX).load(&wasm).await.expect("it is taken");
    assert_eq!(second.manifest().version, "9.9.9");
    assert!(second.reconcile(&request()).await.is_ok());
}

#[tokio::test]
async fn a_manifest_that_is_damaged_or_of_other_words_is_asked_for_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().join("compiled");
    let wasm = that("").build();
    let first = on(&folder, u64::MAX).load(&wasm).await.expect("it is taken");
    let kept = that_end_in(&folder, "manifest").pop().expect("its manifest is kept");
    let text = std::fs::read_to_string(&kept).expect("it is there");
    std::fs::write(&kept, text.replacen(&first.manifest().version, "9.9.9", 1)).expect("it is written");
    let after_damage = on(&folder, u64::MAX).load(&wasm).await.expect("it is taken");
    assert_eq!(after_damage.manifest(), first.manifest());

    std::fs::remove_file(&kept).expect("it was kept again");
    write_under_its_digest(&kept, r#"{"name": "of another contract"}"#);
    let after_other_words = on(&folder, u64::MAX).load(&wasm).await.expect("it is taken");
    assert_eq!(after_other_words.manifest(), first.manifest());
}

/// Beside `kept`, as if it had been kept in its place.
fn write_under_its_digest(kept: &Path, text: &str) {
    let name = kept.file_stem().and_then(|name| name.to_str()).expect("a name");
    let (key, _) = name.rsplit_once('-').expect("key and digest");
    let digest: String = Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect();
    std::fs::write(kept.with_file_name(format!("{key}-{digest}.manifest")), text).expect("it is written");
}

#[tokio::test]
async fn a_full_folder_makes_room_and_what_runs_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().join("compiled");
    let runtime = on(&folder, 1);
    let first = runtime.load(&that("").build()).await.expect("it is taken");
    let second = runtime.load(&that("nop").build()).await.expect("it is taken");
    assert_eq!(files(&folder).len(), 1);
    assert!(first.reconcile(&request()).await.is_ok());
    assert!(second.reconcile(&request()).await.is_ok());
}

#[test]
fn a_folder_that_others_can_read_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o750)).expect("ours");
    let options = RuntimeOptions { cache_dir: Some(folder.path().to_owned()), ..RuntimeOptions::default() };
    assert!(matches!(Runtime::new(options), Err(RuntimeError::Cache { .. })));
}

#[tokio::test]
async fn a_plugin_outlives_its_runtime_and_the_temporary_folder() {
    let runtime = Runtime::new(RuntimeOptions::default()).expect("the runtime starts");
    let plugin = runtime.load(&that("").build()).await.expect("it is taken");
    drop(runtime);
    assert!(plugin.reconcile(&request()).await.is_ok());
}
