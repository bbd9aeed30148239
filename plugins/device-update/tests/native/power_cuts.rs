//! Scenario 47: the power is cut at every single operation of an update, and at every file of a write; the device ends where it
//! would have ended, or back at version 5 with 6 marked as failed, and never breaks an invariant on the way.

use std::fs;
use std::sync::Arc;

use evenkeel_core::guest::Guest;
use evenkeel_sim::scenario::report::{self, Colour};
use evenkeel_sim::scenario::run;

use crate::guest::Native;

/// More operations than any of the stories has.
const OPERATIONS_MAX: u32 = 80;

const DEVICE: &str = include_str!("../../scenarios/base.yaml");

/// Version 6 with another OS, an application, a file and a hook that asks for the reboot.
const WITH_OS: &str = r#"
- provider: {device: {disk: {/etc/flightctl/hooks.d/afterupdating/10-up.yaml: {content: "[{run: up, if: ['rebooted == true']}]"}}}}
- provider: {device: {disk: {/etc/motd: {content: old, mode: 384}}}}
- provider: {device: {power-cut: {at: AT, after: AFTER}}}
- provider: {device: {offer: {version: "6", hash: h6, spec: {os: {image: "quay.io/x/os:b"}, config: [{name: c, inline: [{path: /etc/motd, content: new}, {path: /etc/new, content: x}]}], applications: [{appType: container, name: web, image: "quay.io/x/web:1"}]}}}}
- advance: 1h
- advance: 1h
"#;

/// Version 6 with another OS, on which a hook fails that runs there alone.
const FAILING_THERE: &str = r#"
- provider: {device: {disk: {/etc/flightctl/hooks.d/afterupdating/10-up.yaml: {content: "[{run: up, if: ['rebooted == true']}]"}}}}
- provider: {device: {disk: {/etc/motd: {content: old, mode: 384}}}}
- provider: {device: {hook: {file: 10-up.yaml, exit: 1}}}
- provider: {device: {power-cut: {at: AT, after: AFTER}}}
- provider: {device: {offer: {version: "6", hash: h6, spec: {os: {image: "quay.io/x/os:b"}, config: [{name: c, inline: [{path: /etc/motd, content: new}, {path: /etc/new, content: x}]}]}}}}
- advance: 1h
- advance: 1h
"#;

/// Version 6 with files of which the last cannot be written.
const FAILING: &str = r#"
- provider: {device: {disk: {/etc/motd: {content: old, mode: 384}}}}
- provider: {device: {power-cut: {at: AT, after: AFTER}}}
- provider: {device: {offer: {version: "6", hash: h6, spec: {config: [{name: c, inline: [{path: /etc/motd, content: new}, {path: /etc/new, content: x}, {path: /proc/x, content: y}]}]}}}}
- advance: 1h
- advance: 1h
"#;

const UPDATED: &str = r#"
- expect:
    writes-exclude: [none]
    provider:
      device:
        versions: {desired: "6", current: "6", rollback: ""}
        state: {update: null, lastOutcome: {version: "6", result: Updated}}
        disk: {/etc/motd: new, /etc/new: x}
        apps: {web: Running}
        booted: "quay.io/x/os:b"
        failed: []
- expect: {quiet: true}
"#;

const BACK: &str = r#"
- expect:
    writes-exclude: [none]
    provider:
      device:
        versions: {desired: "5", current: "5", rollback: ""}
        state: {update: null, managed: [], lastOutcome: {version: "6", result: Error}}
        disk: {/etc/motd: {content: old, mode: 384}, /etc/new: null}
        booted: "quay.io/x/os:a"
        failed: ["6"]
- expect: {quiet: true}
"#;

/// What differs from an end; nothing where it is reached.
fn differs(guest: &Arc<dyn Guest>, story: &str, end: &str, at: u32, after: bool) -> Option<String> {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("base.yaml"), DEVICE).expect("a file");
    let steps = story.replace("AT", &at.to_string()).replace("AFTER", &after.to_string());
    let text = format!("scenario: power cut\ninclude: [base.yaml]\nsteps:{steps}{end}");
    let file = folder.path().join("cut.yaml");
    fs::write(&file, text).expect("a file");
    let outcome = run::run_file(&file, guest);
    (!outcome.passed()).then(|| report::human(&[outcome], std::time::Duration::ZERO, Colour::Never))
}

fn survives(story: &str, ends: &[&str]) {
    let guest: Arc<dyn Guest> = Arc::new(Native::new());
    let mut wrong = Vec::new();
    for at in 1..=OPERATIONS_MAX {
        for after in [false, true] {
            let found: Vec<_> = ends.iter().map_while(|end| differs(&guest, story, end, at, after)).collect();
            if found.len() == ends.len() {
                wrong.push(format!("cut at {at}, after: {after}\n{}", found.join("\nor\n")));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} cuts\n{}",
        wrong.len(),
        wrong.iter().take(3).cloned().collect::<Vec<_>>().join("\n")
    );
}

#[test]
#[ignore = "slow: `cargo test -- --ignored`"]
fn an_update_with_another_os_survives_a_power_cut_at_every_operation() {
    survives(WITH_OS, &[UPDATED, BACK]);
}

#[test]
#[ignore = "slow: `cargo test -- --ignored`"]
fn an_update_that_fails_on_its_os_brings_the_old_one_back_whenever_the_power_is_cut() {
    survives(FAILING_THERE, &[BACK]);
}

#[test]
#[ignore = "slow: `cargo test -- --ignored`"]
fn an_update_that_fails_is_undone_whenever_the_power_is_cut() {
    survives(FAILING, &[BACK]);
}
