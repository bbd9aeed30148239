//! The power goes at every durable step of an update: each write, each operation, before and after.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::machine::{Device, Ended, component};

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

/// Runs a device to its end, the power going at the n-th step of the first run; whether it came to that.
fn live(device: &Device, cut: u64) -> (bool, Ended) {
    let mut came = false;
    for run in 0..RUNS_MAX {
        let at = if run == 0 { cut } else { 0 };
        let (ended, said) = device.run_for(at, run * LATER_SECONDS, PATIENCE);
        device
            .state_files_are_whole()
            .unwrap_or_else(|error| panic!("cut at {cut}, run {run}: {error}\n{said}"));
        match ended {
            Ended::Cut => came = true,
            Ended::Waits => {}
            Ended::Reboots => panic!("cut at {cut}: nobody asked for a reboot"),
            Ended::Updated | Ended::Failed => return (came, ended),
        }
    }
    panic!("cut at {cut}: the device came to no end in {RUNS_MAX} runs");
}

/// Has each step of a device's update be the one at which the power goes, and looks what becomes of it, until one is past
/// the update's end; how many there were. `live` tells whether it came to the step.
pub fn at_every_step(
    template: &Device,
    live: impl Fn(&Device, u64) -> (bool, Ended) + Sync,
    check: impl Fn(&Device, u64, Ended) + Sync,
) -> u64 {
    component();
    let (next, last) = (AtomicU64::new(1), AtomicU64::new(u64::MAX));
    let troubles = Mutex::new(Vec::<String>::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let cut = next.fetch_add(1, Ordering::SeqCst);
                    if cut > last.load(Ordering::SeqCst) || !troubles.lock().expect("troubles").is_empty() {
                        return;
                    }
                    let one = std::panic::AssertUnwindSafe(|| {
                        let device = Device::copy_of(template);
                        let (came, ended) = live(&device, cut);
                        check(&device, cut, ended);
                        came
                    });
                    match std::panic::catch_unwind(one) {
                        Ok(true) => {}
                        // The update was over before: there are no more steps.
                        Ok(false) => {
                            last.fetch_min(cut, Ordering::SeqCst);
                        }
                        Err(_) => troubles.lock().expect("troubles").push(format!("cut at {cut}")),
                    }
                }
            });
        }
    });
    let troubles = troubles.into_inner().expect("troubles");
    assert!(troubles.is_empty(), "{troubles:?}: their words stand above");
    last.load(Ordering::SeqCst)
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
    let steps = at_every_step(&template, live, |device, cut, ended| {
        assert_eq!(ended, Ended::Updated, "cut at {cut}");
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
    eprintln!("the power went at each of {} steps", steps - 1);
    assert!(steps > 60, "only {steps} steps were seen");
}

#[test]
#[ignore = "slow: `cargo test -- --ignored`"]
fn an_update_that_fails_is_undone_wherever_the_power_goes() {
    // It fails on the new files, and not on the way back.
    let template = settled("grep -q administrator etc/motd");
    let before = template.tree();
    let steps = at_every_step(&template, live, |device, cut, ended| {
        assert_eq!(ended, Ended::Failed, "cut at {cut}");
        assert_eq!(device.tree(), before, "cut at {cut}");
        assert_eq!(device.state("update-state.json", "/failed/0/version"), "2", "cut at {cut}");
        assert_eq!(device.state("update-state.json", "/failed/1"), serde_json::Value::Null, "cut at {cut}");
        no_scraps(device, cut);
    });
    eprintln!("the power went at each of {} steps", steps - 1);
    assert!(steps > 60, "only {steps} steps were seen");
}
