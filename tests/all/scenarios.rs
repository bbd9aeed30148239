//! Every scenario of every plugin, on the plugin as a component.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
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
fn component(name: &'static str) -> Arc<dyn Guest> {
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

fn files_of(plugin: &Tested) -> Vec<PathBuf> {
    file::discover(&[root().join("plugins").join(plugin.name).join("scenarios")]).expect("scenario files")
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

/// More threads than processors, so that calls are interrupted at any point, wait for each other's slots, and take long.
const RUNS_AT_ONCE: usize = 16;

#[test]
#[ignore = "sixteen runs of every scenario take many minutes: run it by its name with --ignored"]
fn the_same_scenario_leaves_the_same_journal_however_busy_the_machine_is() {
    let differing: BTreeMap<String, usize> = PLUGINS
        .iter()
        .flat_map(|plugin| journals_under_load(&component(plugin.name), &files_of(plugin)))
        .fold(BTreeMap::new(), |mut counted, file| {
            *counted.entry(file).or_default() += 1;
            counted
        });
    assert!(differing.is_empty(), "other journals in so many of {RUNS_AT_ONCE} runs: {differing:#?}");
}

/// The files whose journal differs when many run at once.
fn journals_under_load(guest: &Arc<dyn Guest>, files: &[PathBuf]) -> Vec<String> {
    let alone: Vec<Vec<u8>> = files.iter().map(|path| journal(path, guest)).collect();
    thread::scope(|scope| {
        let run = |first: usize| {
            let alone = &alone;
            move || {
                // Each thread begins elsewhere, so that the files that run beside each other differ.
                let order = (0..files.len()).map(|at| (at + first) % files.len());
                order
                    .filter(|at| journal(&files[*at], guest) != alone[*at])
                    .map(|at| files[at].display().to_string())
                    .collect::<Vec<_>>()
            }
        };
        let threads: Vec<_> = (0..RUNS_AT_ONCE).map(|index| scope.spawn(run(index * 7))).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("a run")).collect()
    })
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
