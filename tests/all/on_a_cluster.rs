//! Scenarios on a real API server, as `evenkeel test --cluster` runs them.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use evenkeel_sim::cluster::Cluster;
use evenkeel_sim::scenario::report::{self, Colour, Outcome};
use evenkeel_sim::scenario::run;
use evenkeel_test_cluster::{ControlPlane, Parts, PlaneOptions, parts_or_skip};

use crate::scenarios::{component, scenario_files};

/// Control planes side by side: a scenario waits for a server most of its time.
const PLANES: usize = 2;

/// What does not hold on the real server yet, by the beginning of its file's name. On a real server the host makes a pass more
/// there than in the sandbox, which shows the state that the next requeue would show; why is still to be found.
const NOT_YET: [&str; 15] = [
    "041-", "042-new", "045-", "050-", "053-", "054-", "055-", "061-", "062-", "064-", "065-", "071-",
    "074-", "077-", "078-",
];

/// These files on a control plane of their own.
fn on_a_plane(parts: &Parts, plugin: &'static str, files: &[PathBuf]) -> Vec<Outcome> {
    let runtime = tokio::runtime::Runtime::new().expect("tokio");
    let options = PlaneOptions::default();
    let plane = runtime.block_on(ControlPlane::start(parts, &options)).expect("a control plane");
    let config = runtime.block_on(async {
        let kubeconfig =
            kube::config::Kubeconfig::read_from(plane.kubeconfig("admin")).expect("a kubeconfig");
        kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await.expect("a cluster")
    });
    let cluster = Cluster::connect(config).expect("an empty cluster");
    let outcomes = run::run_files_on(&cluster, files, &component(plugin));
    cluster.finish().expect("the definitions go");
    outcomes
}

#[test]
#[ignore = "four minutes, and seen green only once yet: run it by its name with --ignored"]
fn the_scenarios_of_kite_hold_on_a_real_api_server() {
    let Some(parts) = parts_or_skip("the scenarios on a real API server") else { return };
    let named = |path: &PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let (not_yet, files): (Vec<PathBuf>, Vec<PathBuf>) = scenario_files("kite")
        .into_iter()
        .partition(|path| NOT_YET.iter().any(|begins| named(path).starts_with(begins)));
    assert_eq!(not_yet.len(), NOT_YET.len(), "one file each: {not_yet:?}");
    let share = |index: usize| files.iter().skip(index).step_by(PLANES).cloned().collect::<Vec<_>>();
    let outcomes: Vec<Outcome> = thread::scope(|scope| {
        let planes: Vec<_> = (0..PLANES)
            .map(|index| {
                let (parts, files) = (&parts, share(index));
                scope.spawn(move || on_a_plane(parts, "kite", &files))
            })
            .collect();
        planes.into_iter().flat_map(|plane| plane.join().expect("it runs")).collect()
    });
    let failed: Vec<_> = outcomes.iter().filter(|outcome| !outcome.passed()).cloned().collect();
    assert_eq!(outcomes.len(), files.len());
    assert!(failed.is_empty(), "\n{}", report::human(&failed, Duration::ZERO, Colour::Never));
}
