//! What the kernel says a process used.

use std::fs;
use std::time::Duration;

use anyhow::Context;

/// Ticks of the kernel's clock in a second; the same on every Linux that is in use.
const TICKS_PER_SECOND: u32 = 100;

/// What a process, and those that it started and that have ended, used so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// Processor time.
    pub cpu: Duration,
    /// The most memory that was resident, in MiB.
    pub peak_mib: u64,
    /// Memory now, in KiB; of what several processes share each has its part.
    pub share_kib: u64,
}

/// Of the program below a process that only watches its time.
pub fn usage(watcher: u32) -> anyhow::Result<Usage> {
    let children = fs::read_to_string(format!("/proc/{watcher}/task/{watcher}/children"))?;
    let child = children.split_whitespace().next().context("the program has ended")?;
    let stat = fs::read_to_string(format!("/proc/{child}/stat"))?;
    // The name may hold spaces, and stands in parentheses.
    let (_, fields) = stat.rsplit_once(')').context("a line of the kernel's form")?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let ticks: u32 =
        fields.get(11..15).context("its times")?.iter().filter_map(|text| text.parse::<u32>().ok()).sum();
    let status = fs::read_to_string(format!("/proc/{child}/status"))?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("its memory")?;
    let rollup = fs::read_to_string(format!("/proc/{child}/smaps_rollup"))?;
    let share = rollup.lines().find_map(|line| line.strip_prefix("Pss:")).context("its share of memory")?;
    Ok(Usage {
        cpu: Duration::from_secs(1) * ticks / TICKS_PER_SECOND,
        peak_mib: kib(peak)? / 1024,
        share_kib: kib(share)?,
    })
}

fn kib(text: &str) -> anyhow::Result<u64> {
    Ok(text.trim().trim_end_matches(" kB").parse()?)
}
