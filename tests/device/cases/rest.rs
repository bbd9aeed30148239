//! A device at rest does nothing, and puts right what somebody changes.

use std::time::Duration;

use super::machine::{Device, Staying};

const SPEC: &str = "apiVersion: flightctl.io/v1beta1\nkind: Device\nmetadata: {name: device}\nspec:\n  config:\n    - name: a\n      inline: [{path: /etc/a, content: ours}]\n";

/// How long it is looked at.
const REST: Duration = Duration::from_secs(10);
/// More than an agent at rest holds, compiled code and pools included.
const MEMORY_KIB_MAX: u64 = 160 * 1024;
/// Processor time in that time: the looks at the file, at the status and at samples.
const TICKS_MAX: u64 = 100;

fn settled(device: &Device) -> Staying {
    device.spec(SPEC);
    let agent = device.stay();
    wait_until("the spec is in effect", || {
        device.state("update-state.json", "/lastOutcome/result") == "Updated"
            && device.text("etc/a") == "ours"
    });
    agent
}

fn wait_until(what: &str, so: impl Fn() -> bool) {
    for _ in 0..600 {
        if so() {
            return;
        }
        std::thread::park_timeout(Duration::from_millis(100));
    }
    panic!("never: {what}");
}

fn pass(time: Duration) {
    std::thread::park_timeout(time);
}

#[test]
fn at_rest_nothing_is_written_and_little_is_held() {
    let device = Device::new();
    let agent = settled(&device);
    pass(Duration::from_secs(5));
    let (stamps, ticks) = (device.stamps(), agent.ticks());
    pass(REST);
    assert_eq!(device.stamps(), stamps, "nothing is written");
    let (memory, used) = (agent.memory_kib(), agent.ticks() - ticks);
    eprintln!("at rest: {memory} KiB, {used} ticks of 10 ms in {} s", REST.as_secs());
    assert!(memory < MEMORY_KIB_MAX, "{memory} KiB");
    assert!(used < TICKS_MAX, "{used} ticks");
}

#[test]
fn what_somebody_changes_is_put_right_and_a_hangup_is_no_end() {
    let device = Device::new();
    let mut agent = settled(&device);
    device.put("/etc/a", "somebody else's", 0o666);
    wait_until("it is put right", || device.text("etc/a") == "ours");
    std::fs::remove_file(device.root().join("etc/a")).expect("a file");
    wait_until("it is there again", || device.text("etc/a") == "ours");
    agent.hang_up();
    pass(Duration::from_secs(1));
    assert!(agent.runs(), "it goes on");
    device.spec(&SPEC.replace("ours", "the next one"));
    wait_until("what changes in the file is taken up", || device.text("etc/a") == "the next one");
}

#[test]
fn a_drop_in_counts_after_a_hangup_and_one_that_is_wrong_is_left_out() {
    let device = Device::new();
    device.put("/etc/flightctl/conf.d/10-wrong.yaml", "retries: [", 0o644);
    let mut agent = settled(&device);
    device.put("/etc/flightctl/conf.d/20-drift.yaml", "drift: report", 0o644);
    agent.hang_up();
    pass(Duration::from_secs(2));
    device.put("/etc/a", "somebody else's", 0o666);
    pass(Duration::from_secs(2));
    assert_eq!(device.text("etc/a"), "somebody else's", "it is told and not repaired");
    device.put("/etc/flightctl/conf.d/20-drift.yaml", "drift: repair", 0o644);
    agent.hang_up();
    wait_until("it is put right", || device.text("etc/a") == "ours");
    assert!(agent.runs(), "it goes on");
}
