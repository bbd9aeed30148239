//! Scenarios on a real API server, as `evenkeel test --cluster` runs them.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use evenkeel_sim::cluster::Cluster;
use evenkeel_sim::scenario::report::{self, Colour, Outcome};
use evenkeel_sim::scenario::run;
use evenkeel_test_cluster::{ControlPlane, Parts, PlaneOptions, parts_or_skip};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DeleteParams, ObjectMeta, PostParams};

use crate::scenarios::{component, scenario_files};

/// Control planes side by side: a scenario waits for a server most of its time.
const PLANES: usize = 3;

/// The families whose objects are on a cluster; a device's are in its agent.
const FAMILIES: [&str; 3] = ["kite", "machine-class", "capv-machine"];

/// A control plane of its own, and how to reach it.
struct Ground {
    runtime: tokio::runtime::Runtime,
    _plane: ControlPlane,
    config: kube::Config,
}

impl Ground {
    fn start(parts: &Parts) -> Self {
        let runtime = tokio::runtime::Runtime::new().expect("tokio");
        let options = PlaneOptions::default();
        let plane = runtime.block_on(ControlPlane::start(parts, &options)).expect("a control plane");
        let config = runtime.block_on(async {
            let kubeconfig =
                kube::config::Kubeconfig::read_from(plane.kubeconfig("admin")).expect("a kubeconfig");
            kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await.expect("a cluster")
        });
        Self { runtime, _plane: plane, config }
    }

    fn cluster(&self) -> Arc<Cluster> {
        Cluster::connect(self.config.clone()).expect("an empty cluster")
    }
}

/// Each family's files that fall to this plane, one family after another.
fn on_a_plane(parts: &Parts, share: usize) -> (usize, Vec<Outcome>) {
    let ground = Ground::start(parts);
    let cluster = ground.cluster();
    let (mut told, mut outcomes) = (0, Vec::new());
    for plugin in FAMILIES {
        let files: Vec<PathBuf> = scenario_files(plugin).into_iter().skip(share).step_by(PLANES).collect();
        told += files.len();
        let mut go_on = |_: &Outcome| ControlFlow::Continue(());
        outcomes.extend(run::run_files_on(&cluster, &files, &component(plugin), &mut go_on));
    }
    cluster.finish().expect("the definitions go");
    // Nothing is left behind, or it could not be connected to again.
    drop(ground.cluster());
    (told, outcomes)
}

#[test]
#[ignore = "slow: `cargo test -- --ignored`"]
fn the_scenarios_of_the_families_hold_on_a_real_api_server() {
    let Some(parts) = parts_or_skip("the scenarios on a real API server") else { return };
    let (told, outcomes): (Vec<usize>, Vec<Vec<Outcome>>) = thread::scope(|scope| {
        let planes: Vec<_> = (0..PLANES)
            .map(|share| {
                let parts = &parts;
                scope.spawn(move || on_a_plane(parts, share))
            })
            .collect();
        planes.into_iter().map(|plane| plane.join().expect("it runs")).unzip()
    });
    let outcomes: Vec<Outcome> = outcomes.into_iter().flatten().collect();
    assert_eq!(outcomes.len(), told.into_iter().sum::<usize>());
    let failed: Vec<_> = outcomes.iter().filter(|outcome| !outcome.passed()).cloned().collect();
    assert!(failed.is_empty(), "\n{}", report::human(&failed, Duration::ZERO, Colour::Never));
}

#[test]
#[ignore = "slow: `cargo test -- --ignored`"]
fn a_machine_under_a_quota_comes_to_life_on_a_cluster_that_has_only_just_learned_of_its_kind() {
    let Some(parts) = parts_or_skip("a scenario that is the first on its cluster") else { return };
    let ground = Ground::start(&parts);
    let cluster = ground.cluster();
    let whole_life = |path: &PathBuf| path.ends_with("042-b-whole-life.yaml");
    let files: Vec<PathBuf> = scenario_files("kite").into_iter().filter(whole_life).collect();
    let mut go_on = |_: &Outcome| ControlFlow::Continue(());
    let outcomes = run::run_files_on(&cluster, &files, &component("kite"), &mut go_on);
    assert_eq!(outcomes.len(), 1);
    assert!(outcomes[0].passed(), "\n{}", report::human(&outcomes, Duration::ZERO, Colour::Never));
    cluster.finish().expect("the definitions go");
    drop(ground.cluster());
}

#[test]
#[ignore = "slow: `cargo test -- --ignored`"]
fn a_cluster_that_others_use_is_refused_and_a_run_that_is_broken_off_leaves_nothing_there() {
    let Some(parts) = parts_or_skip("a cluster that others use") else { return };
    let ground = Ground::start(&parts);
    ground.runtime.block_on(async {
        let namespaces: Api<Namespace> =
            Api::all(kube::Client::try_from(ground.config.clone()).expect("a client"));
        let shop = Namespace {
            metadata: ObjectMeta { name: Some("shop".to_owned()), ..<_>::default() },
            ..<_>::default()
        };
        namespaces.create(&PostParams::default(), &shop).await.expect("it is made");
    });
    let refused = Cluster::connect(ground.config.clone()).expect_err("it is in use").to_string();
    assert!(refused.contains("the Namespaces shop"), "{refused}");
    ground.runtime.block_on(async {
        let namespaces: Api<Namespace> =
            Api::all(kube::Client::try_from(ground.config.clone()).expect("a client"));
        namespaces.delete("shop", &DeleteParams::default()).await.expect("it goes");
        while namespaces.get_opt("shop").await.expect("an answer").is_some() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    let cluster = ground.cluster();
    let files: Vec<PathBuf> = scenario_files("kite").into_iter().take(3).collect();
    let outcomes =
        run::run_files_on(&cluster, &files, &component("kite"), &mut |_: &Outcome| ControlFlow::Break(()));
    assert_eq!(outcomes.len(), 1, "the one under way is told to its end");
    cluster.finish().expect("the definitions go");
    drop(ground.cluster());
}
