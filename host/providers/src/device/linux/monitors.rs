//! How much of processors, memory and disk is used, and which alerts that fires.

use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;

use super::root::Root;
use crate::device::words::{Health, ResourceSeen, ResourcesSeen};

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
enum Resource {
    #[serde(rename = "CPU")]
    Cpu,
    Memory,
    Disk,
}

/// A monitor as a spec has it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    monitor_type: Resource,
    sampling_interval: String,
    #[serde(default)]
    alert_rules: Vec<WrittenRule>,
    #[serde(default)]
    path: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
struct WrittenRule {
    severity: Severity,
    duration: String,
    percentage: f64,
    #[serde(default)]
    description: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
enum Severity {
    Info,
    Warning,
    Critical,
}

impl Severity {
    fn health(self) -> Health {
        match self {
            Self::Info => Health::Healthy,
            Self::Warning => Health::Warning,
            Self::Critical => Health::Critical,
        }
    }
}

#[derive(Clone, Debug)]
struct Rule {
    severity: Severity,
    longer_than: Duration,
    above_percent: f64,
    description: String,
    /// Since when usage is above without a break.
    since: Option<Instant>,
}

#[derive(Clone, Debug)]
struct Monitor {
    every: Duration,
    rules: Vec<Rule>,
    due: Option<Instant>,
    seen: ResourceSeen,
}

impl Monitor {
    /// The usual rules: a minute's samples; 80 % and 90 %.
    fn usual(what: &str, warning: Duration, critical: Duration) -> Self {
        let rule = |severity, longer_than: Duration, above_percent: f64| Rule {
            severity,
            longer_than,
            above_percent,
            description: format!("{what} above {above_percent} % for {} m", longer_than.as_secs() / 60),
            since: None,
        };
        let rules = vec![rule(Severity::Warning, warning, 80.0), rule(Severity::Critical, critical, 90.0)];
        Self { every: MINUTE, rules, due: None, seen: unknown() }
    }

    fn of(written: &Written) -> Option<Self> {
        let rules = written.alert_rules.iter().map(|rule| {
            Some(Rule {
                severity: rule.severity,
                longer_than: duration(&rule.duration)?,
                above_percent: rule.percentage,
                description: rule.description.clone(),
                since: None,
            })
        });
        let every = duration(&written.sampling_interval).filter(|every| !every.is_zero())?;
        Some(Self { every, rules: rules.collect::<Option<_>>()?, due: None, seen: unknown() })
    }

    /// Takes a sample in; none where it could not be measured.
    fn sample(&mut self, now: Instant, percent: Option<f64>) {
        self.due = Some(now + self.every);
        let Some(percent) = percent else {
            let description = Some("it cannot be measured".to_owned());
            self.seen = ResourceSeen { status: Health::Error, description };
            return;
        };
        let mut worst = ResourceSeen { status: Health::Healthy, description: None };
        for rule in &mut self.rules {
            if percent <= rule.above_percent {
                rule.since = None;
                continue;
            }
            let since = *rule.since.get_or_insert(now);
            let fires = now.duration_since(since) >= rule.longer_than;
            if fires && rule.severity.health() > worst.status {
                worst = ResourceSeen {
                    status: rule.severity.health(),
                    description: Some(rule.description.clone()).filter(|text| !text.is_empty()),
                };
            }
        }
        self.seen = worst;
    }
}

const MINUTE: Duration = Duration::from_secs(60);

fn unknown() -> ResourceSeen {
    ResourceSeen { status: Health::Unknown, description: None }
}

/// A duration such as `30m`, in the form of the spec.
fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let number: u64 = number.parse().ok()?;
    let each = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return None,
    };
    Some(Duration::from_secs(number.checked_mul(each)?))
}

/// The three monitors.
pub(super) struct Monitors {
    cpu: Monitor,
    memory: Monitor,
    disk: Monitor,
    disk_path: String,
    /// Ticks of the processors at the last sample: idle, and all.
    ticks: Option<(u64, u64)>,
}

impl Default for Monitors {
    fn default() -> Self {
        let (half, hour) = (MINUTE * 30, MINUTE * 60);
        Self {
            cpu: Monitor::usual("CPU", hour, half),
            memory: Monitor::usual("memory", hour, half),
            disk: Monitor::usual("disk", half, MINUTE * 10),
            disk_path: "/sysroot".to_owned(),
            ticks: None,
        }
    }
}

impl Monitors {
    /// Takes other rules; alerts start anew, what was measured last counts until the next sample.
    ///
    /// # Errors
    /// A sentence, if it is no list of monitors.
    pub(super) fn set(&mut self, monitors: Option<&Value>) -> Result<(), String> {
        let written: Vec<Written> = match monitors {
            None | Some(Value::Null) => Vec::new(),
            Some(value) => serde::Deserialize::deserialize(value)
                .map_err(|error: serde_json::Error| error.to_string())?,
        };
        let mut next = Self { ticks: self.ticks, ..Self::default() };
        for one in &written {
            let monitor = Monitor::of(one).ok_or("a duration is none such as 30m")?;
            match one.monitor_type {
                Resource::Cpu => next.cpu = monitor,
                Resource::Memory => next.memory = monitor,
                Resource::Disk => {
                    next.disk = monitor;
                    next.disk_path = one.path.clone().unwrap_or(next.disk_path);
                }
            }
        }
        *self = next;
        Ok(())
    }

    /// When the next sample is due; none before the first, which is due at once.
    pub(super) fn due(&self) -> Option<Instant> {
        [self.cpu.due, self.memory.due, self.disk.due].into_iter().min().flatten()
    }

    /// Takes the samples that are due.
    pub(super) fn sample(&mut self, now: Instant, root: &Root) {
        let due = |monitor: &Monitor| monitor.due.is_none_or(|due| due <= now);
        if due(&self.cpu) {
            let ticks = cpu_ticks();
            let percent = ticks.map(|ticks| busy_percent(self.ticks, ticks));
            self.ticks = ticks;
            self.cpu.sample(now, percent);
        }
        if due(&self.memory) {
            self.memory.sample(now, memory_percent());
        }
        if due(&self.disk) {
            self.disk.sample(now, disk_percent(root, &self.disk_path));
        }
    }

    /// What fires.
    pub(super) fn see(&self) -> ResourcesSeen {
        ResourcesSeen {
            cpu: self.cpu.seen.clone(),
            memory: self.memory.seen.clone(),
            disk: self.disk.seen.clone(),
        }
    }
}

/// Idle ticks and all ticks since the boot.
fn cpu_ticks() -> Option<(u64, u64)> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    // user nice system idle iowait irq softirq steal; what guests take is in user already.
    let ticks: Vec<u64> = line.split_whitespace().take(8).filter_map(|one| one.parse().ok()).collect();
    let idle = ticks.get(3)?.saturating_add(*ticks.get(4).unwrap_or(&0));
    Some((idle, ticks.iter().sum()))
}

#[expect(clippy::cast_precision_loss, reason = "a percentage needs no more")]
fn busy_percent(before: Option<(u64, u64)>, now: (u64, u64)) -> f64 {
    let (idle, all) = before.unwrap_or_default();
    let (idle, all) = (now.0.saturating_sub(idle), now.1.saturating_sub(all));
    if all == 0 { 0.0 } else { 100.0 - 100.0 * idle as f64 / all as f64 }
}

#[expect(clippy::cast_precision_loss, reason = "a percentage needs no more")]
fn memory_percent() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let of = |name: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim_start_matches(':').split_whitespace().next()?.parse().ok()
    };
    let (all, free) = (of("MemTotal")?, of("MemAvailable")?);
    (all > 0).then(|| 100.0 - 100.0 * free as f64 / all as f64)
}

#[expect(clippy::cast_precision_loss, reason = "a percentage needs no more")]
fn disk_percent(root: &Root, path: &str) -> Option<f64> {
    // Not every system has /sysroot.
    let folder = root.folder(path).or_else(|_| root.folder("/")).ok()?;
    let disk = rustix::fs::fstatvfs(folder).ok()?;
    let used = disk.f_blocks.saturating_sub(disk.f_bfree);
    // As df has it: what only root may take is not there.
    let all = used.saturating_add(disk.f_bavail);
    (all > 0).then(|| 100.0 * used as f64 / all as f64)
}

/// The machine's boot id, as the tree has it.
pub(super) fn boot_id(root: &Root) -> std::io::Result<String> {
    const FILE: &str = "proc/sys/kernel/random/boot_id";
    let text = match std::fs::read_to_string(root.path().join(FILE)) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            std::fs::read_to_string(Path::new("/").join(FILE))?
        }
        other => other?,
    };
    Ok(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_alert_fires_once_usage_was_above_for_longer_without_a_break() {
        let mut monitor = Monitor::usual("CPU", MINUTE * 60, MINUTE * 30);
        let start = Instant::now();
        let mut told = Vec::new();
        for (minute, percent) in
            [(0, 95.0), (29, 95.0), (30, 95.0), (31, 85.0), (60, 85.0), (61, 20.0), (62, 95.0)]
        {
            monitor.sample(start + MINUTE * minute, Some(percent));
            told.push((minute, monitor.seen.status));
        }
        use Health::{Critical, Healthy, Warning};
        assert_eq!(
            told,
            [
                (0, Healthy),
                (29, Healthy),
                (30, Critical),
                (31, Healthy),
                (60, Warning),
                (61, Healthy),
                (62, Healthy)
            ]
        );
        monitor.sample(start, None);
        assert_eq!(monitor.seen.status, Health::Error);
    }

    #[tokio::test(start_paused = true)]
    async fn a_spec_brings_its_own_rules_and_what_it_leaves_out_has_the_usual_ones() {
        let mut monitors = Monitors::default();
        let rule =
            json!({"severity": "Critical", "duration": "0s", "percentage": -1.0, "description": "any use"});
        let cpu = json!([{"monitorType": "CPU", "samplingInterval": "5s", "alertRules": [rule]}]);
        monitors.set(Some(&cpu)).expect("good rules");
        let root = Root::open(Path::new("/")).expect("a root");
        monitors.sample(Instant::now(), &root);
        let seen = monitors.see();
        assert_eq!((seen.cpu.status, seen.cpu.description.as_deref()), (Health::Critical, Some("any use")));
        assert_eq!(monitors.due(), Some(Instant::now() + Duration::from_secs(5)));
        assert_ne!(seen.disk.status, Health::Unknown);
        assert!(monitors.set(Some(&json!([{"monitorType": "GPU", "samplingInterval": "5s"}]))).is_err());
        assert!(monitors.set(Some(&json!([{"monitorType": "CPU", "samplingInterval": "5d"}]))).is_err());
    }

    #[test]
    fn the_machine_can_be_measured() {
        assert!(memory_percent().is_some_and(|percent| (0.0..=100.0).contains(&percent)));
        assert!(busy_percent(Some((50, 100)), (75, 200)) == 75.0 && cpu_ticks().is_some());
    }
}
