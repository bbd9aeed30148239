//! The scenarios on the plugin as a native function, and power cuts at every point of a story.

mod guest;
mod power_cuts;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::guest::Guest;
use evenkeel_sim::scenario::report::{self, Colour};
use evenkeel_sim::scenario::{file, run};

fn scenarios() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios")
}

#[test]
fn every_scenario_holds() {
    let guest: Arc<dyn Guest> = Arc::new(guest::Native::new());
    let files = file::discover(&[scenarios()]).expect("scenario files");
    let only = std::env::var("SCENARIO").unwrap_or_default();
    let chosen = files.iter().filter(|path| path.display().to_string().contains(&only));
    let outcomes: Vec<_> = chosen.map(|path| run::run_file(path, &guest)).collect();
    let failed: Vec<_> = outcomes.iter().filter(|outcome| !outcome.passed()).cloned().collect();
    assert!(
        failed.is_empty(),
        "{} of {} failed\n{}",
        failed.len(),
        outcomes.len(),
        report::human(&failed, Duration::ZERO, Colour::Never)
    );
}
