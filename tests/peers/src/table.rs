//! The report.

use std::fmt::Write as _;
use std::time::Duration;

use evenkeel_test_cluster::audit::{Counts, sum};

use crate::peer::Peer;
use crate::round::{Part, Round};

/// A table with a column a peer.
pub fn of(rounds: &[(Peer, Round)], users: usize, storm: usize) -> String {
    let mut text = String::from("| |");
    for (peer, _) in rounds {
        let _ = write!(text, " {} |", peer.name());
    }
    let _ = writeln!(text, "\n|---|{}", "---|".repeat(rounds.len()));
    let mut row = |what: &str, cell: &dyn Fn(&Round) -> String| {
        let cells: String = rounds.iter().map(|(_, round)| format!(" {} |", cell(round))).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| {what} |{cells}");
    };
    row(&format!("{users} users to Ready, wall"), &|round| seconds(round.converge.wall));
    row("from event to applied, p50 / p99", &|round| {
        format!("{} / {}", millis(at(&round.each.each, 50)), millis(at(&round.each.each, 99)))
    });
    part(&mut row, "the same", |round| &round.converge);
    row("the same and the start before it, requests", &|round| {
        let mut all = round.start.requests.clone();
        for (verb, count) in &round.converge.requests {
            *all.entry(verb.clone()).or_default() += count;
        }
        requests(&all)
    });
    row("the same, processor of the API server", &|round| seconds(round.converge.server_cpu));
    part(&mut row, &format!("{storm} changes of quotas' status"), |round| &round.storm);
    row("restart with all of them, until quiet", &|round| seconds(round.restart.wall));
    part(&mut row, "restart", |round| &round.restart);
    part(&mut row, "20 s of rest", |round| &round.rest);
    row("peak memory after a restart", &|round| format!("{} MiB", round.restart.peak_mib));
    row("peak memory before", &|round| format!("{} MiB", round.storm.peak_mib));
    text
}

fn part(row: &mut impl FnMut(&str, &dyn Fn(&Round) -> String), what: &str, of: impl Fn(&Round) -> &Part) {
    row(&format!("{what}, processor"), &|round| seconds(of(round).cpu));
    row(&format!("{what}, requests"), &|round| requests(&of(round).requests));
}

pub(crate) fn requests(counts: &Counts) -> String {
    let verbs: Vec<String> = counts.iter().map(|(verb, count)| format!("{verb} {count}")).collect();
    if verbs.is_empty() { "0".to_owned() } else { format!("{} ({})", sum(counts), verbs.join(", ")) }
}

/// The value that so many of a hundred do not exceed.
pub(crate) fn at(sorted: &[Duration], percent: usize) -> Duration {
    let place = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(place).copied().unwrap_or_default()
}

pub(crate) fn seconds(duration: Duration) -> String {
    format!("{:.2} s", duration.as_secs_f64())
}

pub(crate) fn millis(duration: Duration) -> String {
    format!("{} ms", duration.as_millis())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_a_value_that_was_measured() {
        let all: Vec<Duration> = (1..=200).map(Duration::from_millis).collect();
        assert_eq!((at(&all, 50), at(&all, 99)), (Duration::from_millis(100), Duration::from_millis(198)));
        assert_eq!((at(&all[..1], 99), at(&[], 50)), (Duration::from_millis(1), Duration::ZERO));
    }
}
