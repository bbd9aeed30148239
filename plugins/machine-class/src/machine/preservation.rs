//! Machines that are kept though they failed, for somebody to look at: whether one is, and until when. A function of values
//! alone.
//!
//! Asked for by an annotation on the Node or on the Machine, by people or by the controller of its set. What the Node says
//! counts before what the Machine says.

use jiff::{SignedDuration, Timestamp};

use crate::duration::GoDuration;
use crate::kinds::{Machine, Named, Node};
use crate::names;

/// How long a machine is kept unless it says otherwise.
const TIMEOUT: GoDuration = GoDuration::seconds(96 * 3600);
/// The phase in which it matters.
const FAILED: &str = "Failed";

/// All that it depends on.
#[derive(Clone, Debug)]
pub struct Seen<'a> {
    /// The Machine's annotation.
    pub on_machine: Option<&'a str>,
    /// The Node's annotation.
    pub on_node: Option<&'a str>,
    /// The phase as it is from now on.
    pub phase: &'a str,
    /// Until when the machine is kept; none where it is not.
    pub until: Option<Timestamp>,
    /// How long it is to be kept from the moment that it is.
    pub timeout: GoDuration,
    /// The time.
    pub now: Timestamp,
}

/// What is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether it is kept.
    pub keeping: Keeping,
    /// The annotation goes from the Machine: it was followed to its end, or the Node has one.
    pub strike_machine: bool,
    /// The annotation goes from the Node: it was followed to its end.
    pub strike_node: bool,
    /// A value that nobody knows. It leaves everything as it is.
    pub unknown: Option<String>,
}

/// Whether a machine is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeping {
    /// It is not, or not any more.
    No,
    /// It is.
    Until {
        /// So long.
        time: Timestamp,
        /// Who wanted it.
        by: By,
    },
}

/// Who wants a machine to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Somebody.
    User,
    /// The controller of its set.
    Controller,
}

/// What an annotation asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    Now,
    WhenFailed,
    Auto,
    No,
}

impl Wish {
    /// From an annotation; a value that is none is handed back. An empty one on a Node says that nothing is wanted, whatever
    /// the Machine says.
    fn read<'a>(seen: &Seen<'a>) -> Result<Option<Self>, &'a str> {
        match seen.on_node.or(seen.on_machine) {
            None | Some("") => Ok(None),
            Some("now") => Ok(Some(Self::Now)),
            Some("when-failed") => Ok(Some(Self::WhenFailed)),
            Some("auto-preserved") => Ok(Some(Self::Auto)),
            Some("false") => Ok(Some(Self::No)),
            Some(other) => Err(other),
        }
    }
}

/// What is to be.
pub fn verdict(seen: &Seen<'_>) -> Verdict {
    let has_failed = seen.phase == FAILED;
    let is_over = seen.until.is_some_and(|until| until <= seen.now);
    let kept = |by| {
        let timeout = SignedDuration::try_from(seen.timeout.0).unwrap_or(SignedDuration::MAX);
        let from_now = || seen.now.checked_add(timeout).unwrap_or(Timestamp::MAX);
        Keeping::Until { time: seen.until.unwrap_or_else(from_now), by }
    };
    let wish = Wish::read(seen);
    let (keeping, is_done_with) = match wish {
        // What was followed to its end is taken away, or the machine would be kept for ever.
        Ok(Some(Wish::Now | Wish::WhenFailed | Wish::Auto)) if is_over => (Keeping::No, true),
        Ok(Some(Wish::Now)) => (kept(By::User), false),
        Ok(Some(Wish::WhenFailed)) if has_failed => (kept(By::User), false),
        Ok(Some(Wish::Auto)) if has_failed => (kept(By::Controller), false),
        // The set counted it among its failed ones: the next time it has to be asked again.
        Ok(Some(Wish::Auto)) => (Keeping::No, true),
        Ok(Some(Wish::WhenFailed | Wish::No) | None) => (Keeping::No, false),
        // Who mistypes loses nothing.
        Err(_) if seen.until.is_some() && !is_over => (kept(By::User), false),
        Err(_) => (Keeping::No, false),
    };
    let unknown = wish.err().map(str::to_owned);
    let node_rules = seen.on_node.is_some() && unknown.is_none();
    Verdict {
        keeping,
        strike_machine: seen.on_machine.is_some() && (is_done_with || node_rules),
        strike_node: seen.on_node.is_some() && is_done_with,
        unknown,
    }
}

/// The verdict on a machine that is in this phase from now on.
pub(super) fn of_machine(machine: &Machine, node: Option<&Node>, phase: &str, now: Timestamp) -> Verdict {
    let until = machine.status.current_status.preserve_expiry_time.as_deref();
    verdict(&Seen {
        on_machine: machine.annotation(names::PRESERVE),
        on_node: node.and_then(|node| node.annotation(names::PRESERVE)),
        phase,
        until: until.and_then(|time| time.parse().ok()),
        timeout: machine.spec.machine_preserve_timeout.unwrap_or(TIMEOUT),
        now,
    })
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    const NOW: &str = "2026-01-01T00:00:00Z";

    /// `PHASE machine=VALUE node=VALUE kept|over`: the annotations, and whether the machine is kept already, or its time has
    /// come.
    fn check(text: &str, expected: Expect) {
        let mut words = text.split_whitespace();
        let phase = words.next().expect("a phase");
        let word = |name: &str| text.split_whitespace().find_map(|word| word.strip_prefix(name));
        let until = match words.last() {
            Some("kept") => Some("2026-01-01T01:00:00Z"),
            Some("over") => Some(NOW),
            _ => None,
        };
        let verdict = verdict(&Seen {
            on_machine: word("machine="),
            on_node: word("node="),
            phase,
            until: until.map(|time| time.parse().expect("a time")),
            timeout: GoDuration::seconds(7200),
            now: NOW.parse().expect("a time"),
        });
        let Verdict { keeping, strike_machine, strike_node, unknown } = verdict;
        let mut said = match keeping {
            Keeping::No => "not kept".to_owned(),
            Keeping::Until { time, by } => format!("kept until {time} by {by:?}"),
        };
        for (is_so, what) in [(strike_machine, "machine"), (strike_node, "node")] {
            if is_so {
                said += &format!(", strike {what}");
            }
        }
        if let Some(value) = unknown {
            said += &format!(", unknown {value}");
        }
        expected.assert_eq(&said);
    }

    #[test]
    fn nothing_is_kept_that_nobody_asks_for() {
        check("Failed", expect!["not kept"]);
        check("Failed kept", expect!["not kept"]);
        check("Failed machine=false", expect!["not kept"]);
        check("Failed machine=false kept", expect!["not kept"]);
    }

    #[test]
    fn now_keeps_a_machine_in_whatever_phase_from_now_on() {
        check("Running machine=now", expect!["kept until 2026-01-01T02:00:00Z by User"]);
        check("Failed machine=now", expect!["kept until 2026-01-01T02:00:00Z by User"]);
        check("Running machine=now kept", expect!["kept until 2026-01-01T01:00:00Z by User"]);
    }

    #[test]
    fn when_failed_keeps_it_while_it_has_failed() {
        check("Running machine=when-failed", expect!["not kept"]);
        check("Failed machine=when-failed", expect!["kept until 2026-01-01T02:00:00Z by User"]);
        check("Running machine=when-failed kept", expect!["not kept"]);
    }

    #[test]
    fn what_the_set_asked_for_ends_when_the_machine_recovers() {
        check("Failed machine=auto-preserved", expect!["kept until 2026-01-01T02:00:00Z by Controller"]);
        check("Running machine=auto-preserved kept", expect!["not kept, strike machine"]);
        check("Running machine=auto-preserved", expect!["not kept, strike machine"]);
    }

    #[test]
    fn once_its_time_has_come_the_wish_is_taken_away() {
        for wish in ["now", "when-failed", "auto-preserved"] {
            check(&format!("Failed machine={wish} over"), expect!["not kept, strike machine"]);
            check(&format!("Failed node={wish} over"), expect!["not kept, strike node"]);
        }
        check("Failed machine=false over", expect!["not kept"]);
    }

    #[test]
    fn what_the_node_says_counts_before_what_the_machine_says() {
        check(
            "Failed machine=false node=now",
            expect!["kept until 2026-01-01T02:00:00Z by User, strike machine"],
        );
        check("Failed machine=now node=false kept", expect!["not kept, strike machine"]);
        check("Failed machine=now node= kept", expect!["not kept, strike machine"]);
    }

    #[test]
    fn a_value_that_nobody_knows_leaves_everything_as_it_is() {
        check("Failed machine=nwo", expect!["not kept, unknown nwo"]);
        check("Failed machine=nwo kept", expect!["kept until 2026-01-01T01:00:00Z by User, unknown nwo"]);
        check("Failed machine=nwo over", expect!["not kept, unknown nwo"]);
        check(
            "Failed machine=now node=nwo kept",
            expect!["kept until 2026-01-01T01:00:00Z by User, unknown nwo"],
        );
    }
}
