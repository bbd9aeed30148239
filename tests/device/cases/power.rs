//! The power goes at every durable step of an update: each write, each operation, before and after.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::machine::{Device, Ended, RUN_MAX, component};

/// What is in effect before.
const FIRST: &str = "\
apiVersion: flightctl.io/v1beta1
kind: Device
metadata: {name: device}
spec:
  config:
    - name: first
      inline:
        - {path: /etc/app/a.conf, content: 'a of one', mode: 420}
        - {path: /etc/gone.conf, content: 'ours for now', mode: 384}
";

/// The update: a file of somebody else replaced, one changed, one added, one given back; two hooks.
const SECOND: &str = "\
apiVersion: flightctl.io/v1beta1
kind: Device
metadata: {name: device}
spec:
  config:
    - name: second
      inline:
        - {path: /etc/app/a.conf, content: 'a of two, which is longer', mode: 384}
        - {path: /etc/app/deep/er/b.conf, content: 'b of two', mode: 420}
        - {path: /etc/motd, content: 'managed', mode: 420}
";

/// The longest that a device may wait in a run before its power goes anyway; the next run's clock is ahead then.
pub const PATIENCE: Duration = Duration::from_secs(12);
/// Runs until it is done; each of them may be one try of the update.
pub const RUNS_MAX: i64 = 8;
/// How much later each run is.
pub const LATER_SECONDS: i64 = 400;
/// Devices at once.
const AT_ONCE: usize = 4;

pub fn hook(device: &Device, hook: &str, run: &str) {
    device.put(
        &format!("/etc/flightctl/hooks.d/{hook}/10-test.yaml"),
        &format!("- run: {run}\n  timeout: 5s\n"),
        0o644,
    );
}

/// A device with the first spec in effect, on which an administrator had files before.
fn settled(after: &str) -> Device {
    let device = Device::new();
    device.put("/etc/motd", "the administrator's", 0o600);
    device.put("/etc/gone.conf", "the old one", 0o640);
    device.spec(FIRST);
    let (ended, said) = device.run(0, 0);
    assert_eq!(ended, Ended::Updated, "{said}");
    // Only now: the first update is not what is looked at.
    hook(&device, "beforeupdating", "sh -c 'echo before >> hooks.log'");
    hook(&device, "afterupdating", after);
    device.spec(SECOND);
    device
}

/// Runs a device to its end, once the power has gone.
fn to_the_end(device: &Device, cut: u64) -> Ended {
    for run in 1..RUNS_MAX {
        match once(device, 0, run, cut).0 {
            Ended::Cut | Ended::Reboots => panic!("cut at {cut}: nobody cuts or reboots"),
            Ended::Waits => {}
            ended @ (Ended::Updated | Ended::Failed) => return ended,
        }
    }
    panic!("cut at {cut}: the device came to no end in {RUNS_MAX} runs");
}

/// One run, whose power goes at this step; its state files can be read after it.
pub fn once(device: &Device, at: u64, run: i64, cut: u64) -> (Ended, String) {
    // Where the power is to go, it shall go there, however slow the machine is.
    let patience = if at == 0 { PATIENCE } else { RUN_MAX };
    let (ended, said) = device.run_for(at, run * LATER_SECONDS, patience);
    device.state_files_are_whole().unwrap_or_else(|error| panic!("cut at {cut}, run {run}: {error}\n{said}"));
    (ended, said)
}

/// How many steps there were at which the power went, and how many differing devices it left.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cuts {
    pub steps: u64,
    pub differing: usize,
}

/// Has each step of a run be the one at which the power goes, until one is past the run's end. Each differing device that is left
/// is handed to `look`, which sees what becomes of it: many a step leaves the same as the one before.
pub fn at_every_step(start: &Device, run: i64, look: impl Fn(&Device, u64) + Sync) -> Cuts {
    component();
    let (next, last) = (AtomicU64::new(1), AtomicU64::new(u64::MAX));
    let (troubles, left) = (Mutex::new(Vec::<String>::new()), Mutex::new(BTreeSet::<String>::new()));
    let cut_at = |cut: u64| {
        let device = Device::copy_of(start);
        let (ended, said) = once(&device, cut, run, cut);
        match ended {
            Ended::Cut => {
                let is_new = left.lock().expect("devices").insert(device.as_found(&said));
                if is_new {
                    look(&device, cut);
                }
            }
            Ended::Waits => panic!("cut at {cut}: the run waits for something\n{said}"),
            // The run was over before: there are no more steps.
            Ended::Updated | Ended::Failed | Ended::Reboots => {
                last.fetch_min(cut, Ordering::SeqCst);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let cut = next.fetch_add(1, Ordering::SeqCst);
                    if cut > last.load(Ordering::SeqCst) || !troubles.lock().expect("troubles").is_empty() {
                        return;
                    }
                    if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| cut_at(cut))).is_err() {
                        troubles.lock().expect("troubles").push(format!("cut at {cut}"));
                    }
                }
            });
        }
    });
    let troubles = troubles.into_inner().expect("troubles");
    assert!(troubles.is_empty(), "{troubles:?}: their words stand above");
    Cuts { steps: last.load(Ordering::SeqCst) - 1, differing: left.into_inner().expect("devices").len() }
}

pub fn no_scraps(device: &Device, cut: u64) {
    let tree = device.tree();
    assert!(!tree.keys().any(|path| path.contains(".tmp")), "cut at {cut}: {tree:#?}");
}

#[test]
#[ignore = "slow: `cargo test -- --ignored`"]
fn an_update_comes_to_its_end_wherever_the_power_goes() {
    let template = settled("sh -c 'echo after >> hooks.log'");
    let undisturbed = Device::copy_of(&template);
    assert_eq!(undisturbed.run(0, 0).0, Ended::Updated);
    let expected = undisturbed.tree();
    assert_eq!(undisturbed.text("hooks.log"), "before\nafter\n");
    assert_eq!(undisturbed.text("/etc/gone.conf"), "the old one");
    let cuts = at_every_step(&template, 0, |device, cut| {
        assert_eq!(to_the_end(device, cut), Ended::Updated, "cut at {cut}");
        assert_eq!(device.tree(), expected, "cut at {cut}");
        assert_eq!(device.state("update-state.json", "/update"), serde_json::Value::Null, "cut at {cut}");
        no_scraps(device, cut);
        // Once a key: where the outcome of one was lost, the next try has another.
        let hooks = device.text("hooks.log");
        let runs = |name: &str| hooks.lines().filter(|line| *line == name).count();
        assert!(
            (1..=2).contains(&runs("before")) && (1..=3).contains(&runs("after")),
            "cut at {cut}: {hooks}"
        );
    });
    eprintln!("the power went: {cuts:?}");
    assert!(cuts.steps > 60 && cuts.differing > 20, "only {cuts:?}");
}

#[test]
#[ignore = "slow: `cargo test -- --ignored`"]
fn an_update_that_fails_is_undone_wherever_the_power_goes() {
    // It fails on the new files, and not on the way back.
    let template = settled("grep -q administrator etc/motd");
    let before = template.tree();
    let cuts = at_every_step(&template, 0, |device, cut| {
        assert_eq!(to_the_end(device, cut), Ended::Failed, "cut at {cut}");
        assert_eq!(device.tree(), before, "cut at {cut}");
        assert_eq!(device.state("update-state.json", "/failed/0/version"), "2", "cut at {cut}");
        assert_eq!(device.state("update-state.json", "/failed/1"), serde_json::Value::Null, "cut at {cut}");
        no_scraps(device, cut);
    });
    eprintln!("the power went: {cuts:?}");
    assert!(cuts.steps > 60 && cuts.differing > 20, "only {cuts:?}");
}
