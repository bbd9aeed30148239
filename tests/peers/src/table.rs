//! The report.

use std::fmt::Write as _;
use std::time::Duration;

use evenkeel_test_cluster::audit::{Counts, sum};

use crate::peer::Peer;
use crate::round::{Part, Round};

/// A table with a column a peer: what was found in the middle of its rounds, and where there were several, from the least to the most.
pub fn of(peers: &[(Peer, Vec<Round>)], users: usize, storm: usize) -> String {
    let mut text = String::from("| |");
    for (peer, _) in peers {
        let _ = write!(text, " {} |", peer.name());
    }
    let _ = writeln!(text, "\n|---|{}", "---|".repeat(peers.len()));
    let mut row = |what: &str, cell: &dyn Fn(&[Round]) -> String| {
        let cells: String = peers.iter().map(|(_, rounds)| format!(" {} |", cell(rounds))).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| {what} |{cells}");
    };
    row(&format!("{users} users to Ready, wall"), &|rounds| each(rounds, seconds, |one| one.converge.wall));
    for percent in [50, 99] {
        let late = |one: &Round| at(&one.each.each, percent);
        row(&format!("from event to applied, p{percent}"), &|rounds| each(rounds, millis, late));
    }
    part(&mut row, "the same", |round| &round.converge);
    row("the same and the start before it, requests", &|rounds| {
        asked(rounds, |round| {
            let mut all = round.start.requests.clone();
            for (verb, count) in &round.converge.requests {
                *all.entry(verb.clone()).or_default() += count;
            }
            all
        })
    });
    row("the same, processor of the API server", &|rounds| {
        each(rounds, seconds, |one| one.converge.server_cpu)
    });
    part(&mut row, &format!("{storm} changes of quotas' status"), |round| &round.storm);
    row("restart with all of them, until quiet", &|rounds| each(rounds, seconds, |one| one.restart.wall));
    part(&mut row, "restart", |round| &round.restart);
    part(&mut row, "20 s of rest", |round| &round.rest);
    let mib = |mib: u64| format!("{mib} MiB");
    row("peak memory after a restart", &|rounds| each(rounds, mib, |one| one.restart.peak_mib));
    row("peak memory before", &|rounds| each(rounds, mib, |one| one.storm.peak_mib));
    text
}

fn part(row: &mut impl FnMut(&str, &dyn Fn(&[Round]) -> String), what: &str, of: impl Fn(&Round) -> &Part) {
    row(&format!("{what}, processor"), &|rounds| each(rounds, seconds, |round| of(round).cpu));
    row(&format!("{what}, requests"), &|rounds| asked(rounds, |round| of(round).requests.clone()));
}

/// What was found in the middle of all rounds, and from the least to the most.
fn each<T: Copy + Ord>(rounds: &[Round], show: impl Fn(T) -> String, of: impl Fn(&Round) -> T) -> String {
    let mut found: Vec<T> = rounds.iter().map(of).collect();
    found.sort_unstable();
    spread(&found, |one| show(*one), |one| show(*one))
}

/// The requests of the round in the middle, by their number, and the least and the most of them.
fn asked(rounds: &[Round], of: impl Fn(&Round) -> Counts) -> String {
    let mut found: Vec<Counts> = rounds.iter().map(of).collect();
    found.sort_by_key(sum);
    spread(&found, requests, |counts| sum(counts).to_string())
}

/// The one in the middle, and how the first and the last are told where those are not the same.
fn spread<T>(sorted: &[T], whole: impl Fn(&T) -> String, short: impl Fn(&T) -> String) -> String {
    let (Some(first), Some(last)) = (sorted.first(), sorted.last()) else { return String::new() };
    let middle = whole(&sorted[(sorted.len() - 1) / 2]);
    let (first, last) = (short(first), short(last));
    if first == last { middle } else { format!("{middle}; {first} to {last}") }
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
    fn of_several_rounds_the_middle_is_told_with_the_least_and_the_most() {
        let text = |number: &u32| format!("{number} s");
        assert_eq!(spread(&[1, 4, 9], text, text), "4 s; 1 s to 9 s");
        assert_eq!(spread(&[1, 4, 9, 16], text, text), "4 s; 1 s to 16 s");
        assert_eq!((spread(&[4], text, text), spread(&[4, 4], text, text)), ("4 s".into(), "4 s".into()));
    }

    #[test]
    fn a_percentile_is_a_value_that_was_measured() {
        let all: Vec<Duration> = (1..=200).map(Duration::from_millis).collect();
        assert_eq!((at(&all, 50), at(&all, 99)), (Duration::from_millis(100), Duration::from_millis(198)));
        assert_eq!((at(&all[..1], 99), at(&[], 50)), (Duration::from_millis(1), Duration::ZERO));
    }
}
