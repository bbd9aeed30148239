//! Every scenario of every plugin, on the plugin as a component.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use evenkeel::build::build_plugin;
use evenkeel_core::guest::Guest;
use evenkeel_runtime::{Runtime, RuntimeOptions};
use evenkeel_sim::scenario::report::{self, Colour};
use evenkeel_sim::scenario::{file, run};

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the checkout is there")
}

/// Kite as a component, built and compiled once for all tests.
pub fn kite() -> Arc<dyn Guest> {
    static KITE: OnceLock<(Runtime, Arc<dyn Guest>)> = OnceLock::new();
    let (_, guest) = KITE.get_or_init(|| {
        let built = build_plugin(&root().join("plugins/kite"), false, &mut |step| eprintln!("build: {step}"))
            .expect("Kite builds");
        let wasm = fs::read(&built.component).expect("a component");
        let runtime = Runtime::new(RuntimeOptions::default()).expect("a runtime");
        let blocking = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("tokio");
        let plugin = blocking.block_on(runtime.load(&wasm)).expect("Kite loads");
        (runtime, plugin as Arc<dyn Guest>)
    });
    Arc::clone(guest)
}

#[test]
fn every_scenario_of_kite_holds() {
    let guest = kite();
    let files = file::discover(&[root().join("plugins/kite/scenarios")]).expect("scenario files");
    assert!(files.len() >= 120, "the specification numbers 131 scenarios; here are {} files", files.len());
    let outcomes: Vec<_> = files.iter().map(|path| run::run_file(path, &guest)).collect();
    let failed: Vec<_> = outcomes.iter().filter(|outcome| !outcome.passed()).cloned().collect();
    assert!(failed.is_empty(), "\n{}", report::human(&failed, Duration::ZERO, Colour::Never));
}

#[test]
fn each_number_of_the_specification_has_its_file() {
    let named: Vec<String> = fs::read_dir(root().join("plugins/kite/scenarios"))
        .expect("scenario files")
        .map(|entry| entry.expect("a readable entry").file_name().to_string_lossy().into_owned())
        .collect();
    // These three are laws over generated inputs, not stories: plugins/kite tests them as properties.
    let laws = [127, 128, 130];
    let missing: Vec<u32> = (1..=131)
        .filter(|number| !laws.contains(number))
        .filter(|number| !named.iter().any(|name| name.starts_with(&format!("{number:03}"))))
        .collect();
    assert!(missing.is_empty(), "no scenario file for {missing:?}");
}
