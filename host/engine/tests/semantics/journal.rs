//! The journal: what it tells, that it is bounded, that it survives.

use evenkeel_engine::journal::{FileOptions, Journal, JournalError, JournalOptions, read};
use serde_json::json;

use crate::support::*;

fn plugin() -> Native {
    Native::new("demo")
        .controller("look", widget_kind(), |call| {
            let Some(primary) = call.primary() else { return done(vec![]) };
            call.get(&config_map("target"))?;
            done(vec![apply_status(status_of(&primary, json!({"seen": primary["spec"]["turn"]})))])
        })
        .manifest(|manifest| manifest.controllers[0].view = vec!["/spec".into()])
        .may_all(config_map_kind())
        .may_all(widget_kind())
}

#[tokio::test(start_paused = true)]
async fn a_pass_is_told_with_its_questions_its_writes_and_what_came_of_them() {
    let world = World::with(plugin().build()).await;
    let mut live = world.host().subscribe();
    world.apply(widget("w")).await;
    world.settle().await;
    let about = |record: &evenkeel_engine::PassRecord| record.key == widget_ref("w");
    let records = world.host().journal().select(about);
    let text = serde_json::to_string(&records).expect("records are serializable");
    for word in ["target", "apply-status", "sha256:1", "look"] {
        assert!(text.contains(word), "{word} in {text}");
    }
    let told = live.try_recv().expect("it was told live too");
    assert_eq!(told.key, widget_ref("w"));
}

#[tokio::test(start_paused = true)]
async fn the_ring_is_bounded_by_bytes_and_the_oldest_go_first() {
    let world = World::with(plugin().build()).await;
    world.apply(widget("w")).await;
    world.settle().await;
    let record = world.host().journal().records().pop().expect("a record");
    let small =
        Journal::open(&JournalOptions { bytes_max: record.bytes() * 3, file: None }).expect("a journal");
    for _ in 0..100 {
        small.append((*record).clone());
    }
    assert!(small.status().bytes <= record.bytes() * 3);
    assert!((1..=3).contains(&small.status().records));
}

#[tokio::test(start_paused = true)]
async fn a_journal_on_disk_is_read_back_in_order_and_bounded_and_a_torn_line_is_skipped() {
    let world = World::with(plugin().build()).await;
    world.apply(widget("w")).await;
    world.settle().await;
    let record = world.host().journal().records().pop().expect("a record");
    let line = serde_json::to_string(&*record).expect("serializable").len() as u64;

    let folder = tempfile::tempdir().expect("a folder");
    let options = JournalOptions {
        bytes_max: 1 << 20,
        file: Some(FileOptions { directory: folder.path().into(), file_bytes_max: line * 5, files_max: 3 }),
    };
    let journal = Journal::open(&options).expect("a journal");
    for number in 0..100 {
        let mut record = (*record).clone();
        record.key = widget_ref(&format!("w{number}"));
        journal.append(record);
        // The writer's queue is bounded: what it cannot take is dropped, which is not what this is about.
        journal.flush();
    }
    drop(journal);
    let current = folder.path().join("passes.jsonl");
    let mut text = std::fs::read_to_string(&current).expect("the current file");
    text.push_str("{\"torn");
    std::fs::write(&current, text).expect("written");

    let journal = Journal::open(&options).expect("a journal on the same folder");
    journal.append((*record).clone());
    journal.flush();
    let mut names = Vec::new();
    let skipped = read(folder.path(), |record| names.push(record.key.name.to_string())).expect("readable");
    assert_eq!(skipped.lines, 1);
    assert!((5..=15).contains(&names.len()), "{names:?}");
    assert_eq!(names.last().map(String::as_str), Some("w"));
    let files = std::fs::read_dir(folder.path()).expect("a folder").count();
    assert!(files <= 4, "three files and the lock");
}

#[tokio::test(start_paused = true)]
async fn two_hosts_on_one_data_directory_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = JournalOptions { bytes_max: 1 << 20, file: Some(FileOptions::new(folder.path())) };
    let first = Journal::open(&options).expect("the first");
    let Err(error) = Journal::open(&options) else { panic!("the second is refused") };
    assert!(matches!(error, JournalError::Locked { .. }));
    assert!(error.to_string().contains(&std::process::id().to_string()), "{error}");
    drop(first);
    Journal::open(&options).expect("once the first is gone");
}

#[tokio::test(start_paused = true)]
async fn the_last_pass_of_a_host_that_rests_is_in_its_files_though_nobody_flushed_them() {
    let world = World::with(plugin().build()).await;
    world.apply(widget("w")).await;
    world.settle().await;
    let record = world.host().journal().records().pop().expect("a record");
    let folder = tempfile::tempdir().expect("a folder");
    let options = JournalOptions { bytes_max: 1 << 20, file: Some(FileOptions::new(folder.path())) };
    let journal = Journal::open(&options).expect("a journal");
    // Its writer is a thread, and no clock of a test holds it up.
    tokio::time::resume();
    for appended in 1..=3 {
        journal.append((*record).clone());
        let mut there = 0;
        for _ in 0..2_000 {
            there = 0;
            read(folder.path(), |_| there += 1).expect("readable");
            if there == appended {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        assert_eq!(there, appended);
    }
}
