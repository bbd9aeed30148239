use proptest::prelude::*;

use super::*;

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The Lease at the API server.
#[derive(Default)]
struct Server {
    lease: Option<Seen>,
    writes: u32,
}

impl Server {
    fn write(&mut self, claim: &Claim) -> Claimed {
        if self.lease.as_ref().map(|lease| &lease.version) != claim.version.as_ref() {
            return Claimed::Beaten;
        }
        self.writes += 1;
        let now = self.writes.to_string();
        let lease = Seen {
            version: now.clone(),
            holder: claim.holder.clone(),
            duration: claim.duration,
            acquired: claim.acquired.clone().unwrap_or_else(|| now.clone()),
            renewed: now,
            transitions: claim.transitions,
        };
        self.lease = Some(lease.clone());
        Claimed::Yes(lease)
    }
}

/// Lets a candidate do all that is due, with answers that take no time.
fn run(elector: &mut Elector, server: &mut Server, now: Duration) {
    loop {
        match elector.next(now) {
            Next::Rest { .. } => return,
            Next::Look => elector.looked(now, server.lease.clone()),
            Next::Claim(claim) => {
                let came = server.write(&claim);
                elector.claimed(now, now, came);
            }
        }
    }
}

fn elector(me: &str) -> Elector {
    Elector::new(me, Timings::default().check().expect("the usual ones are sound"), 7)
}

/// The first whole second at which a candidate leads, within a minute.
fn leads_from(elector: &mut Elector, server: &mut Server, from: u64) -> Option<u64> {
    (from..from + 60).find(|second| {
        run(elector, server, secs(*second));
        elector.term(secs(*second)).is_some()
    })
}

#[test]
fn the_first_candidate_creates_the_lease_and_acts_at_once() {
    let (mut a, mut server) = (elector("a"), Server::default());
    run(&mut a, &mut server, secs(0));
    assert_eq!(a.term(secs(0)), Some(Term { begin_before: secs(10), end_by: millis(12_500) }));
    assert_eq!(a.next(secs(1)), Next::Rest { until: secs(2) });
}

#[test]
fn a_holder_that_renews_keeps_it_and_the_other_one_waits() {
    let (mut a, mut b, mut server) = (elector("a"), elector("b"), Server::default());
    for second in 0..300 {
        run(&mut a, &mut server, secs(second));
        run(&mut b, &mut server, secs(second));
        assert!(a.term(secs(second)).is_some() && b.term(secs(second)).is_none(), "at {second} s");
    }
    assert_eq!(b.holder(), Some("a"));
    assert_eq!(server.lease.map(|lease| lease.transitions), Some(0));
}

#[test]
fn when_a_holder_dies_the_other_takes_over_after_the_lease_and_not_before() {
    let (mut a, mut b, mut server) = (elector("a"), elector("b"), Server::default());
    run(&mut a, &mut server, secs(0));
    run(&mut b, &mut server, secs(0));
    assert_eq!(leads_from(&mut b, &mut server, 1), Some(15));
    assert_eq!(server.lease.map(|lease| (lease.holder, lease.transitions)), Some(("b".into(), 1)));
}

#[test]
fn a_holder_that_slept_does_not_act_when_it_wakes_and_does_not_take_it_back() {
    let (mut a, mut b, mut server) = (elector("a"), elector("b"), Server::default());
    run(&mut a, &mut server, secs(0));
    assert_eq!(a.term(secs(10)), None, "its own time is up before others may take the Lease");
    assert_eq!(leads_from(&mut b, &mut server, 1), Some(16));
    assert_eq!(a.term(secs(16)), None);
    // Its renewal is refused, and the look that follows tells it why.
    run(&mut a, &mut server, secs(16));
    run(&mut a, &mut server, secs(17));
    assert_eq!((a.term(secs(17)), a.holder()), (None, Some("b")));
}

#[test]
fn one_that_resigns_hands_over_within_one_pause() {
    let (mut a, mut b, mut server) = (elector("a"), elector("b"), Server::default());
    run(&mut a, &mut server, secs(0));
    run(&mut b, &mut server, secs(0));
    let claim = a.resign().expect("something to hand over");
    assert_eq!(a.term(secs(0)), None);
    server.write(&claim);
    let from = leads_from(&mut b, &mut server, 1).expect("it takes over");
    assert!(from <= 3, "after {from} s");
    assert_eq!(b.resign().map(|claim| claim.holder), Some(String::new()));
    assert_eq!(a.resign(), None, "only once");
}

#[test]
fn a_renewal_whose_answer_was_lost_is_found_again() {
    let (mut a, mut server) = (elector("a"), Server::default());
    run(&mut a, &mut server, secs(0));
    let Next::Claim(claim) = a.next(secs(2)) else { panic!("a renewal is due") };
    server.write(&claim);
    a.claimed(secs(2), secs(3), Claimed::Unknown);
    assert_eq!(
        a.term(secs(3)).map(|term| term.begin_before),
        Some(secs(10)),
        "as if it had not been written"
    );
    run(&mut a, &mut server, secs(6));
    assert_eq!(a.term(secs(6)).map(|term| term.begin_before), Some(secs(16)));
}

#[test]
fn a_lease_that_somebody_deleted_is_not_taken_while_its_holder_may_act() {
    let (mut a, mut b, mut server) = (elector("a"), elector("b"), Server::default());
    run(&mut a, &mut server, secs(0));
    run(&mut b, &mut server, secs(0));
    server.lease = None;
    let from = leads_from(&mut b, &mut server, 1).expect("it takes over");
    assert!((15..=20).contains(&from), "after {from} s");
    // The holder itself makes it anew as soon as it finds out.
    server.lease = None;
    run(&mut b, &mut server, secs(20));
    assert!(b.term(secs(20)).is_some());
}

#[test]
fn timings_leave_room_for_a_slow_clock_and_a_write_on_its_way() {
    let timings =
        |lease, act, retry| Timings { lease: millis(lease), act: millis(act), retry: millis(retry) };
    assert_eq!(timings(15_500, 10_000, 2_000).check(), Err(TimingsError::Seconds));
    assert_eq!(timings(15_000, 12_001, 2_000).check(), Err(TimingsError::Act));
    assert_eq!(timings(15_000, 10_000, 5_001).check(), Err(TimingsError::Retry));
    assert_eq!(timings(15_000, 10_000, 0).check(), Err(TimingsError::Retry));
    assert!(timings(3_000, 2_000, 500).check().is_ok());
}

/// What befalls a candidate in one turn of the story below.
#[derive(Clone, Debug)]
enum Turn {
    /// It does the next thing that is due; both ways take so many milliseconds, and the answer may be lost.
    Act { who: usize, there: u64, back: u64, lost: bool },
    /// It stands still for so many milliseconds: nothing of it happens meanwhile.
    Sleep { who: usize, millis: u64 },
    /// Somebody deletes the Lease.
    Delete,
}

fn turn() -> impl Strategy<Value = Turn> {
    prop_oneof![
        12 => (0..3_usize, 0..3_000_u64, 0..3_000_u64, prop::bool::weighted(0.15))
            .prop_map(|(who, there, back, lost)| Turn::Act { who, there, back, lost }),
        2 => (0..3_usize, 0..40_000_u64).prop_map(|(who, millis)| Turn::Sleep { who, millis }),
        1 => Just(Turn::Delete),
    ]
}

/// A candidate with its own clock, and with what it waits for.
struct Candidate {
    elector: Elector,
    /// How fast its clock goes, in thousandths.
    rate: u64,
    asleep_until: u64,
    /// A request under way: when it reaches the server, and how long the answer takes.
    sent: Option<Sent>,
}

struct Sent {
    at: u64,
    reaches: u64,
    back: u64,
    lost: bool,
    what: Next,
    answer: Option<(u64, Result<Option<Seen>, Claimed>)>,
}

impl Candidate {
    fn clock(&self, now: u64) -> Duration {
        millis(now * self.rate / 1000)
    }
}

/// One step of 100 ms: requests reach the server, answers come back.
fn step(candidates: &mut [Candidate], server: &mut Server, now: u64) {
    for candidate in candidates {
        let clock = candidate.clock(now);
        let Some(sent) = &mut candidate.sent else { continue };
        if sent.answer.is_none() && now >= sent.reaches {
            let answer = match &sent.what {
                Next::Claim(claim) => Err(server.write(claim)),
                Next::Look | Next::Rest { .. } => Ok(server.lease.clone()),
            };
            sent.answer = Some((now + sent.back, answer));
        }
        let Some((back_at, answer)) = &sent.answer else { continue };
        if now < *back_at || now < candidate.asleep_until {
            continue;
        }
        let began = millis(sent.at * candidate.rate / 1000);
        match (answer.clone(), sent.lost) {
            (Ok(_), true) => candidate.elector.missed(clock),
            (Ok(seen), false) => candidate.elector.looked(clock, seen),
            (Err(_), true) => candidate.elector.claimed(began, clock, Claimed::Unknown),
            (Err(claimed), false) => candidate.elector.claimed(began, clock, claimed),
        }
        candidate.sent = None;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Slow networks, lost answers, sleep, clocks that go up to a twentieth apart: at no time may one begin a write
    /// while another's writes may still be on their way.
    #[test]
    fn no_two_ever_act_at_once(turns in prop::collection::vec(turn(), 1..250), rates in prop::array::uniform3(975..1_025_u64)) {
        let mut server = Server::default();
        let mut candidates: Vec<Candidate> = ["a", "b", "c"].iter().zip(rates).map(|(me, rate)| Candidate {
            elector: Elector::new(me, Timings::default(), rate), rate, asleep_until: 0, sent: None,
        }).collect();
        let mut now = 0_u64;
        for turn in turns {
            match turn {
                Turn::Act { who, there, back, lost } => {
                    let candidate = &mut candidates[who];
                    if candidate.sent.is_none() && now >= candidate.asleep_until {
                        let what = candidate.elector.next(candidate.clock(now));
                        if !matches!(what, Next::Rest { .. }) {
                            candidate.sent = Some(Sent { at: now, reaches: now + there, back, lost, what, answer: None });
                        }
                    }
                }
                Turn::Sleep { who, millis } => candidates[who].asleep_until = now + millis,
                // A candidate that never saw the Lease cannot know that somebody holds it.
                Turn::Delete => if candidates.iter().all(|one| one.elector.holder().is_some()) { server.lease = None },
            }
            for _ in 0..4 {
                now += 100;
                step(&mut candidates, &mut server, now);
                let acting: Vec<usize> = (0..3).filter(|i| candidates[*i].elector.term(candidates[*i].clock(now)).is_some()).collect();
                prop_assert!(acting.len() <= 1, "{acting:?} act at {now} ms");
            }
        }
    }
}
