//! Updates of the operating system, with a stand-in for bootc: through a reboot, and back through another one.

use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use super::machine::{Device, Ended};
use super::power::{Cuts, RUNS_MAX, at_every_step, hook, no_scraps, once};

/// What is booted, staged and to go back to stands in files.
const BOOTC: &str = r#"#!/bin/sh
cd "$(dirname "$0")/../../os"
entry() { if [ -s "$1" ]; then printf '{"image":{"image":{"image":"%s"}}}' "$(cat "$1")"; else printf null; fi; }
case "$1" in
  status) printf '{"status":{"booted":%s,"staged":%s,"rollback":%s}}' "$(entry booted)" "$(entry staged)" "$(entry rollback)" ;;
  switch) for last; do :; done; if [ "$last" = "$(cat booted)" ]; then rm -f staged; else printf %s "$last" > staged; fi ;;
  rollback) cp rollback staged ;;
esac
"#;
/// Has every image.
const PODMAN: &str = "#!/bin/sh\ncase \"$*\" in ps*) echo '[]' ;; image*inspect*) echo sha256:d ;; esac\n";
/// The machine is about to go down.
const REBOOT: &str = "#!/bin/sh\ntouch \"$(dirname \"$0\")/../../down\"\n";

const OLD: &str = "localhost/os:1";
const NEW: &str = "localhost/os:2";

/// What the machine comes up with where nobody had it go down in order: a deployment that was staged counts from then on, or
/// is forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Surprise {
    Staged,
    Forgotten,
}

fn spec(image: &str, content: &str) -> String {
    format!(
        "apiVersion: flightctl.io/v1beta1\nkind: Device\nmetadata: {{name: device}}\nspec:\n  os: {{image: '{image}'}}\n  \
         config:\n    - name: a\n      inline: [{content}]\n"
    )
}

/// A device on the old OS that is to get the new one.
fn settled(after: &str) -> Device {
    let device = Device::new();
    for (name, script) in [("bootc", BOOTC), ("podman", PODMAN), ("reboot", REBOOT)] {
        device.put(&format!("/usr/bin/{name}"), script, 0o755);
    }
    device.put("/os/booted", OLD, 0o644);
    device.put("/proc/sys/kernel/random/boot_id", "boot-1", 0o444);
    device.put("/etc/motd", "the administrator's", 0o600);
    device.spec(&spec(OLD, "{path: /etc/a, content: one}"));
    let (ended, said) = device.run(0, 0);
    assert_eq!(ended, Ended::Updated, "{said}");
    hook(&device, "afterrebooting", "sh -c 'echo rebooted >> hooks.log'");
    device.put(
        "/etc/flightctl/hooks.d/afterupdating/10-test.yaml",
        &format!("- if: [rebooted == true]\n  run: {after}\n  timeout: 5s\n"),
        0o644,
    );
    device.spec(&spec(
        NEW,
        "{path: /etc/a, content: two}, {path: /etc/motd, content: ours}, {path: /etc/new, content: new}",
    ));
    device
}

fn copy(from: &std::path::Path, to: &std::path::Path) {
    let status = Command::new("cp").arg("-a").args([from, to]).status().expect("cp runs");
    assert!(status.success());
}

/// The machine comes up again. Each deployment has an `/etc` of its own: a new one begins with what the old one has then.
fn boot(device: &Device, in_order: bool, surprise: Surprise) {
    let at = |path: &str| device.root().join(path);
    let _ = fs::remove_file(at("down"));
    let number: u32 =
        device.text("proc/sys/kernel/random/boot_id").trim_start_matches("boot-").parse().expect("a number");
    fs::remove_file(at("proc/sys/kernel/random/boot_id")).expect("a boot");
    device.put("/proc/sys/kernel/random/boot_id", &format!("boot-{}", number + 1), 0o444);
    let staged = device.text("os/staged");
    let _ = fs::remove_file(at("os/staged"));
    if staged.is_empty() || (!in_order && surprise == Surprise::Forgotten) {
        return;
    }
    let before = device.text("os/booted");
    let (kept, back) = (
        at(&format!("os/etc-{}", before.replace('/', "-"))),
        at(&format!("os/etc-{}", staged.replace('/', "-"))),
    );
    let _ = fs::remove_dir_all(&kept);
    copy(&at("etc"), &kept);
    if back.exists() {
        fs::remove_dir_all(at("etc")).expect("a folder");
        fs::rename(&back, at("etc")).expect("a folder");
    }
    device.put("/os/rollback", &before, 0o644);
    device.put("/os/booted", &staged, 0o644);
}

/// A life in which the power does not go: the device at the start of each of its runs, after the last, and how that ended.
fn undisturbed(template: &Device) -> (Vec<Device>, Device, Ended) {
    let (device, mut starts) = (Device::copy_of(template), Vec::new());
    for run in 0..RUNS_MAX {
        starts.push(Device::copy_of(&device));
        match once(&device, 0, run, 0).0 {
            Ended::Reboots => boot(&device, true, Surprise::Staged),
            ended @ (Ended::Updated | Ended::Failed) => return (starts, device, ended),
            Ended::Cut | Ended::Waits => panic!("run {run} waits for something"),
        }
    }
    panic!("the device came to no end in {RUNS_MAX} runs");
}

/// Has the power go at every step of every run of a life. Where something was staged then, both are tried that the machine may
/// come up with; `check` looks at the ends.
fn everywhere(starts: &[Device], check: &(dyn Fn(&Device, u64, Ended) + Sync)) -> Cuts {
    let mut all = Cuts::default();
    for (run, start) in (0..).zip(starts) {
        let cuts = at_every_step(start, run, |device, cut| {
            if !device.text("os/staged").is_empty() {
                let other = Device::copy_of(device);
                boot(&other, false, Surprise::Forgotten);
                check(&other, cut, to_the_end(&other, run + 1, cut));
            }
            boot(device, false, Surprise::Staged);
            check(device, cut, to_the_end(device, run + 1, cut));
        });
        eprintln!("run {run}, the power went: {cuts:?}");
        all.steps += cuts.steps;
        all.differing += cuts.differing;
    }
    all
}

/// Runs a device to its end, over reboots, from this run on.
fn to_the_end(device: &Device, first: i64, cut: u64) -> Ended {
    for run in first..first + RUNS_MAX {
        match once(device, 0, run, cut).0 {
            Ended::Cut => panic!("cut at {cut}: the power goes once"),
            Ended::Reboots => boot(device, true, Surprise::Staged),
            Ended::Waits => {}
            ended @ (Ended::Updated | Ended::Failed) => return ended,
        }
    }
    panic!("cut at {cut}: the device came to no end in {RUNS_MAX} runs");
}

fn booted(device: &Device) -> String {
    device.text("os/booted")
}

#[test]
#[ignore = "slow: `cargo test -- --ignored`"]
fn an_os_update_comes_to_its_end_or_is_undone_wherever_the_power_goes() {
    let template = settled("sh -c 'echo after >> hooks.log'");
    let before = template.tree();
    let (starts, undisturbed, ended) = undisturbed(&template);
    assert_eq!(ended, Ended::Updated);
    assert_eq!((&*booted(&undisturbed), &*undisturbed.text("hooks.log")), (NEW, "rebooted\nafter\n"));
    let expected = undisturbed.tree();
    let undone = AtomicU64::new(0);
    let check = |device: &Device, cut: u64, ended: Ended| {
        no_scraps(device, cut);
        if ended == Ended::Failed {
            // The new OS did not come up after a reboot that was asked for: for all that can be known, it is at fault.
            undone.fetch_add(1, Ordering::SeqCst);
            assert_eq!((&*booted(device), device.tree()), (OLD, before.clone()), "cut at {cut}");
            return;
        }
        assert_eq!((&*booted(device), device.tree()), (NEW, expected.clone()), "cut at {cut}");
        assert!(device.text("hooks.log").contains("after\n"), "cut at {cut}");
    };
    let (cuts, undone) = (everywhere(&starts, &check), undone.into_inner());
    eprintln!("{cuts:?}; {undone} times the old OS came up after that");
    assert!(cuts.steps > 80 && undone > 0, "only {cuts:?}, {undone} undone");
}

#[test]
#[ignore = "slow: `cargo test -- --ignored`"]
fn an_os_update_that_fails_on_the_new_os_ends_on_the_old_one_wherever_the_power_goes() {
    let template = settled("false");
    let before = template.tree();
    let (starts, undisturbed, ended) = undisturbed(&template);
    assert_eq!(ended, Ended::Failed);
    assert_eq!((&*booted(&undisturbed), undisturbed.tree()), (OLD, before.clone()));
    let check = |device: &Device, cut: u64, ended: Ended| {
        assert_eq!(ended, Ended::Failed, "cut at {cut}");
        assert_eq!((&*booted(device), device.tree()), (OLD, before.clone()), "cut at {cut}");
        no_scraps(device, cut);
    };
    let cuts = everywhere(&starts, &check);
    assert!(starts.len() == 3 && cuts.steps > 120, "only {cuts:?}");
}
