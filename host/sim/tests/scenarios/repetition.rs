//! The same scenario and plugin make the same journal, whatever the machine does meanwhile.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use evenkeel_core::contract::{Manifest, Request};
use evenkeel_core::guest::{Guest, GuestFuture};
use evenkeel_sim::scenario::{file, run};

use super::GIVEN;
use super::copier::Copier;

/// A plugin whose calls take real time on other threads, each as long as it pleases: as under a busy machine, where a call
/// gives others a turn and waits for a free slot.
struct Interrupted {
    inner: Copier,
    /// Different in each run.
    pace: u64,
}

impl Guest for Interrupted {
    fn manifest(&self) -> &Manifest {
        self.inner.manifest()
    }

    fn digest(&self) -> &str {
        self.inner.digest()
    }

    fn reconcile<'a>(&'a self, request: &'a Request) -> GuestFuture<'a> {
        Box::pin(async move {
            let name: u64 = request.key.name.bytes().map(u64::from).sum();
            for turn in 0..(name + self.pace) % 5 {
                tokio::task::yield_now().await;
                let (sender, receiver) = tokio::sync::oneshot::channel();
                thread::spawn(move || {
                    thread::park_timeout(Duration::from_micros(100 * turn));
                    let _ = sender.send(());
                });
                receiver.await.expect("the thread answers");
            }
            self.inner.reconcile(request).await
        })
    }
}

#[test]
fn calls_that_are_interrupted_change_nothing() {
    let text = format!(
        "scenario: a\n{GIVEN}given-many: {{times: 20, objects: [{{apiVersion: v1, kind: ConfigMap, metadata: \
         {{name: 'm{{n}}', namespace: default, labels: {{copy: 'yes'}}}}, data: {{requeue: 'yes'}}}}]}}\n\
         steps:\n  - advance: 45s\n  - restart: host\n  - advance: 1h\n"
    );
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.yaml");
    std::fs::write(&path, text).expect("a file");
    let scenario = file::load(Path::new(&path)).expect("a scenario");
    let journals: Vec<String> = (0..4)
        .map(|pace| {
            let guest: Arc<dyn Guest> = Arc::new(Interrupted { inner: Copier::default(), pace });
            let told = run::tell(&scenario, &guest).unwrap_or_else(|error| panic!("{error}"));
            let lines = told.passes.iter().map(|record| serde_json::to_string(&**record).expect("JSON"));
            lines.collect::<Vec<_>>().join("\n")
        })
        .collect();
    assert!(journals[0].lines().count() >= 42, "both hosts looked at all of them");
    assert!(journals.iter().all(|journal| *journal == journals[0]), "four runs, several journals");
}
