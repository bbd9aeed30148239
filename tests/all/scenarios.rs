//! Every scenario of every plugin, on the plugin as a component.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use evenkeel::build::build_plugin;
use evenkeel_core::guest::Guest;
use evenkeel_runtime::{Runtime, RuntimeOptions};
use evenkeel_sim::scenario::report::{self, Colour};
use evenkeel_sim::scenario::{file, run};

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the checkout is there")
}

/// What is tested of a plugin.
struct Tested {
    /// Its folder below `plugins`.
    name: &'static str,
    /// The last number of its specification's scenarios; each has its file.
    numbers: u32,
    /// Numbers that are laws over generated inputs, not stories: the plugin tests them as properties.
    laws: &'static [u32],
}

/// A plugin joins with a line.
const PLUGINS: &[Tested] = &[
    Tested { name: "capv-machine", numbers: 90, laws: &[] },
    Tested { name: "device-update", numbers: 65, laws: &[] },
    Tested { name: "kite", numbers: 131, laws: &[127, 128, 130] },
    Tested { name: "machine-class", numbers: 66, laws: &[] },
];

/// A plugin as a component, built and compiled once for all tests.
pub fn component(name: &'static str) -> Arc<dyn Guest> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    static LOADED: Mutex<BTreeMap<&'static str, Arc<dyn Guest>>> = Mutex::new(BTreeMap::new());
    let runtime = RUNTIME.get_or_init(|| Runtime::new(RuntimeOptions::default()).expect("a runtime"));
    let mut loaded = LOADED.lock().expect("no plugin failed to load");
    let guest = loaded.entry(name).or_insert_with(|| {
        let folder = root().join("plugins").join(name);
        let built = build_plugin(&folder, false, &mut |step| eprintln!("build: {step}")).expect("it builds");
        let wasm = fs::read(&built.component).expect("a component");
        let blocking = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("tokio");
        blocking.block_on(runtime.load(&wasm)).expect("it loads")
    });
    Arc::clone(guest)
}

/// The scenarios of a plugin.
pub fn scenario_files(plugin: &str) -> Vec<PathBuf> {
    file::discover(&[root().join("plugins").join(plugin).join("scenarios")]).expect("scenario files")
}

fn files_of(plugin: &Tested) -> Vec<PathBuf> {
    scenario_files(plugin.name)
}

#[test]
fn every_scenario_of_every_plugin_holds() {
    for plugin in PLUGINS {
        let (guest, files) = (component(plugin.name), files_of(plugin));
        assert!(!files.is_empty(), "{}", plugin.name);
        let outcomes: Vec<_> = files.iter().map(|path| run::run_file(path, &guest)).collect();
        let failed: Vec<_> = outcomes.iter().filter(|outcome| !outcome.passed()).cloned().collect();
        assert!(failed.is_empty(), "\n{}", report::human(&failed, Duration::ZERO, Colour::Never));
    }
}

/// The journal of one file, a record a line.
fn journal(path: &Path, guest: &Arc<dyn Guest>) -> Vec<u8> {
    let scenario = file::load(path).expect("a scenario");
    let told = run::tell(&scenario, guest).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut bytes = Vec::new();
    for record in told.passes {
        serde_json::to_writer(&mut bytes, &*record).expect("a record is JSON");
        bytes.push(b'\n');
    }
    bytes
}

#[test]
fn a_bootstrap_token_stands_nowhere_in_a_journal() {
    let path = root().join("plugins/machine-class/scenarios/072-bootstrap-token.yaml");
    let journal = String::from_utf8(journal(&path, &component("machine-class"))).expect("JSON is UTF-8");
    assert!(journal.contains("bootstrap-token-jfykmp") && journal.contains("(struck out)"), "there was one");
    // As it is, as its Secret has it, and in the user data of the VM.
    for text in ["5ne3rvlo565dtk4p", "NW5lM3J2bG81NjVkdGs0cA", "am9pbiBqZnlrbXAuNW5lM3J2bG81NjVkdGs0cA"] {
        assert!(!journal.contains(text), "{text} stands in the journal");
    }
}

/// One file in so many is run again: all of them would take minutes.
const SAMPLE: usize = 5;

/// More threads than processors, so that calls are interrupted at any point, wait for each other's slots, and take long.
const RUNS_AT_ONCE: usize = 16;

#[test]
fn the_same_scenario_leaves_the_same_journal_however_busy_the_machine_is() {
    let differing: Vec<String> = PLUGINS
        .iter()
        .flat_map(|plugin| journals_under_load(&component(plugin.name), &sample_of(plugin)))
        .collect();
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

fn sample_of(plugin: &Tested) -> Vec<PathBuf> {
    files_of(plugin).into_iter().step_by(SAMPLE).collect()
}

/// What differs from a run alone, when many run at once.
fn journals_under_load(guest: &Arc<dyn Guest>, files: &[PathBuf]) -> Vec<String> {
    let alone: Vec<Vec<u8>> = files.iter().map(|path| journal(path, guest)).collect();
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        let run = || {
            let taken = std::iter::from_fn(|| {
                let at = next.fetch_add(1, Ordering::Relaxed);
                Some((files.get(at)?, &alone[at]))
            });
            let differing = taken.filter_map(|(path, alone)| {
                let what = first_difference(alone, &journal(path, guest))?;
                Some(format!("{}: {what}", path.display()))
            });
            differing.collect::<Vec<_>>()
        };
        let threads: Vec<_> = (0..RUNS_AT_ONCE).map(|_| scope.spawn(run)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("a run")).collect()
    })
}

/// The first record that is another one.
fn first_difference(alone: &[u8], busy: &[u8]) -> Option<String> {
    let lines =
        |bytes: &[u8]| -> Vec<String> { String::from_utf8_lossy(bytes).lines().map(str::to_owned).collect() };
    let (alone, busy) = (lines(alone), lines(busy));
    let at = (0..alone.len().max(busy.len())).find(|at| alone.get(*at) != busy.get(*at))?;
    Some(format!("record {at}\n  alone: {:?}\n  busy:  {:?}", alone.get(at), busy.get(at)))
}

#[test]
fn each_number_of_a_specification_has_its_file() {
    for plugin in PLUGINS {
        let named: Vec<String> = files_of(plugin)
            .iter()
            .map(|path| path.file_name().unwrap_or_default().to_string_lossy().into_owned())
            .collect();
        let missing: Vec<u32> = (1..=plugin.numbers)
            .filter(|number| !plugin.laws.contains(number))
            .filter(|number| !named.iter().any(|name| name.starts_with(&format!("{number:03}"))))
            .collect();
        assert!(missing.is_empty(), "{}: no scenario file for {missing:?}", plugin.name);
    }
}
