//! What the operating system knows of this process, where it tells: under the names that every exporter uses.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::catalogue::{self as names, Metric};

/// Clock ticks in which Linux counts processor time towards user space, on every machine.
const TICKS_PER_SECOND: f64 = 100.0;

/// Reads `/proc/self` when asked; shows nothing where there is none.
#[derive(Debug)]
pub(super) struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        let read = |file: &str| std::fs::read_to_string(format!("/proc/self/{file}")).ok();
        if let Some(seconds) = read("stat").as_deref().and_then(cpu_seconds) {
            let Metric { help, .. } = names::PROCESS_CPU;
            let series =
                encoder.encode_descriptor(names::PROCESS_CPU.stem(), help, None, MetricType::Counter)?;
            ConstCounter::new(seconds).encode(series)?;
        }
        let fds = std::fs::read_dir("/proc/self/fd").ok().map(|entries| entries.count());
        let fds = fds.and_then(|count| u32::try_from(count).ok()).map(f64::from);
        let memory = read("status").as_deref().and_then(resident_bytes);
        for (metric, value) in [(names::PROCESS_MEMORY, memory), (names::PROCESS_FDS, fds)] {
            if let Some(value) = value {
                let series =
                    encoder.encode_descriptor(metric.stem(), metric.help, None, MetricType::Gauge)?;
                ConstGauge::new(value).encode(series)?;
            }
        }
        Ok(())
    }
}

/// User and system time of `/proc/self/stat`, of which the second field may hold anything.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut ticks = fields.split_whitespace().skip(11).map_while(|field| field.parse::<f64>().ok());
    Some((ticks.next()? + ticks.next()?) / TICKS_PER_SECOND)
}

/// `VmRSS` of `/proc/self/status`, which counts in units of 1,024 bytes.
fn resident_bytes(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse::<f64>().ok().map(|kib| kib * 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_behind_a_name_that_holds_anything() {
        let stat = "42 (a ) b (c) S 1 2 3 4 5 6 7 8 9 10 250 150 0 0 20 0 9 0 100";
        assert_eq!(cpu_seconds(stat), Some(4.0));
        assert_eq!(cpu_seconds("nonsense"), None);
    }

    #[test]
    fn memory_is_told_in_bytes() {
        assert_eq!(resident_bytes("Name:\tx\nVmRSS:\t    2048 kB\n"), Some(2_097_152.0));
        assert_eq!(resident_bytes("Name:\tx\n"), None);
    }
}
