//! Update windows: when a cron expression last ran and runs next, in a time zone, and whether the window after a run is open.
//!
//! The run that counts is the last one before now, whatever the distance between two is: `0 8,9 * * *` has two different ones.

use std::io::Read;

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};

use super::words::{AskWindow, Window};

/// Days that are searched in each direction: 29 February comes every eight years at the worst.
const DAYS_MAX: u32 = 8 * 366 + 1;
/// Bytes of a file of a time zone.
const ZONE_BYTES_MAX: u64 = 1 << 20;
/// Where the rules of time zones are.
const ZONES: &str = "/usr/share/zoneinfo";
/// The machine's own.
const LOCAL: &str = "/etc/localtime";
/// The window of a run without a grace: its own minute.
const MINUTE: SignedDuration = SignedDuration::from_secs(59);

/// Whether a window is open now, and when it opens next. What is wrong with it is in the answer.
pub fn answer(zone: &TimeZone, ask: &AskWindow, now: Timestamp) -> Window {
    match read(ask) {
        Ok((cron, grace)) => look(zone, &cron, grace, now),
        Err(error) => Window { error: Some(error), ..Window::default() },
    }
}

/// The rules of a time zone by its name; the machine's own for none and for `Local`.
///
/// # Errors
/// A sentence, if there is no such zone.
pub fn zone(name: Option<&str>) -> Result<TimeZone, String> {
    match name.unwrap_or_default() {
        "" | "Local" => {
            Ok(file(LOCAL).and_then(|bytes| TimeZone::tzif("Local", &bytes).ok()).unwrap_or(TimeZone::UTC))
        }
        "UTC" | "Etc/UTC" => Ok(TimeZone::UTC),
        name => {
            let good = |part: &str| {
                !part.is_empty()
                    && !part.starts_with('.')
                    && part.chars().all(|one| one.is_ascii_alphanumeric() || "_+-.".contains(one))
            };
            let zone = name.split('/').all(good).then(|| file(&format!("{ZONES}/{name}"))).flatten();
            zone.and_then(|bytes| TimeZone::tzif(name, &bytes).ok()).ok_or_else(|| {
                format!("there is no time zone {:?}", name.chars().take(60).collect::<String>())
            })
        }
    }
}

fn file(path: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    std::fs::File::open(path).ok()?.take(ZONE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

fn read(ask: &AskWindow) -> Result<(Cron, SignedDuration), String> {
    let cron = Cron::parse(&ask.at)?;
    let grace = match &*ask.grace {
        "" => MINUTE,
        text => duration(text).ok_or_else(|| format!("{text:?} is no duration such as 30m"))?,
    };
    Ok((cron, grace))
}

/// A number and `s`, `m` or `h`.
fn duration(text: &str) -> Option<SignedDuration> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if number.len() > 9 || number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: i64 = number.parse().ok()?;
    let each = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return None,
    };
    Some(SignedDuration::from_secs(number.checked_mul(each)?))
}

fn look(zone: &TimeZone, cron: &Cron, grace: SignedDuration, now: Timestamp) -> Window {
    let local = now.to_zoned(zone.clone()).datetime();
    let last = cron.last(zone, local, now);
    let closes = last.and_then(|run| run.checked_add(grace).ok());
    let open = closes.is_some_and(|closes| now <= closes);
    Window {
        open,
        run: last.filter(|_| open).map(|run| run.to_string()),
        closes_at: closes.filter(|_| open).map(|closes| closes.to_string()),
        next_open_at: cron.next(zone, local, now).map(|run| run.to_string()),
        error: None,
    }
}

/// Minutes, hours, days, months and weekdays, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cron {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Where both are limited one of them is enough, as cron has it.
    either: bool,
}

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

impl Cron {
    fn parse(text: &str) -> Result<Self, String> {
        let shown = || text.chars().take(60).collect::<String>();
        let parts: Vec<&str> = text.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = parts.as_slice() else {
            return Err(format!("{:?} does not have five fields", shown()));
        };
        let field = |text: &str, low, high, names: &[&str], first| {
            bits(text, low, high, names, first)
                .ok_or_else(|| format!("{text:?} in {:?} is no field of cron", shown()))
        };
        let weekday_bits = field(weekdays, 0, 7, &WEEKDAYS, 0)?;
        Ok(Self {
            minutes: field(minutes, 0, 59, &[], 0)?,
            hours: field(hours, 0, 23, &[], 0)?,
            days: field(days, 1, 31, &[], 0)?,
            months: field(months, 1, 12, &MONTHS, 1)?,
            // 7 is Sunday, too.
            weekdays: weekday_bits | (weekday_bits >> 7 & 1),
            either: !days.starts_with(['*', '?']) && !weekdays.starts_with(['*', '?']),
        })
    }

    fn has_day(&self, date: Date) -> bool {
        let has = |bits: u64, number: i8| u32::try_from(number).is_ok_and(|number| bits >> number & 1 == 1);
        let day = has(self.days, date.day());
        let weekday = has(self.weekdays, date.weekday().to_sunday_zero_offset());
        has(self.months, date.month()) && if self.either { day || weekday } else { day && weekday }
    }

    /// The runs of a day, in order.
    fn runs(&self, date: Date) -> impl DoubleEndedIterator<Item = DateTime> + use<> {
        let (hours, minutes) = (self.hours, self.minutes);
        (0..24_i8).filter(move |hour| hours >> hour & 1 == 1).flat_map(move |hour| {
            (0..60_i8)
                .filter(move |minute| minutes >> minute & 1 == 1)
                .filter_map(move |minute| Some(date.to_datetime(Time::new(hour, minute, 0, 0).ok()?)))
        })
    }

    /// The last run that is not after now. A day more is looked at: where clocks are put back, local time goes the other way.
    fn last(&self, zone: &TimeZone, local: DateTime, now: Timestamp) -> Option<Timestamp> {
        let mut date = local.date().checked_add(1.day()).ok()?;
        for _ in 0..=DAYS_MAX {
            if self.has_day(date) {
                let instants = self.runs(date).rev().filter_map(|run| instant(zone, run));
                if let Some(run) = instants.filter(|run| *run <= now).max() {
                    return Some(run);
                }
            }
            date = date.checked_sub(1.day()).ok()?;
        }
        None
    }

    /// The first run after now.
    fn next(&self, zone: &TimeZone, local: DateTime, now: Timestamp) -> Option<Timestamp> {
        let mut date = local.date().checked_sub(1.day()).ok()?;
        for _ in 0..=DAYS_MAX {
            if self.has_day(date) {
                let instants = self.runs(date).filter_map(|run| instant(zone, run));
                if let Some(run) = instants.filter(|run| *run > now).min() {
                    return Some(run);
                }
            }
            date = date.checked_add(1.day()).ok()?;
        }
        None
    }
}

/// When a local time is: the first of two, and after the gap where it is in one.
fn instant(zone: &TimeZone, local: DateTime) -> Option<Timestamp> {
    zone.to_ambiguous_timestamp(local).compatible().ok()
}

/// A field's numbers as bits: `*`, `a`, `a-b`, `a/n`, `*/n`, and lists of these.
fn bits(text: &str, low: u32, high: u32, names: &[&str], first: u32) -> Option<u64> {
    let number = |text: &str| {
        let named = names.iter().position(|name| name.eq_ignore_ascii_case(text));
        let named = named.and_then(|at| u32::try_from(at).ok()).map(|at| at + first);
        named.or_else(|| text.parse().ok()).filter(|number| (low..=high).contains(number))
    };
    text.split(',').try_fold(0_u64, |all, part| {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(step.parse::<u32>().ok().filter(|step| *step > 0)?)),
            None => (part, None),
        };
        let (from, to) = match range {
            "*" | "?" => (low, high),
            range => match range.split_once('-') {
                Some((from, to)) => (number(from)?, number(to)?),
                None => {
                    let from = number(range)?;
                    (from, if step.is_some() { high } else { from })
                }
            },
        };
        if from > to {
            return None;
        }
        let step = usize::try_from(step.unwrap_or(1)).ok()?;
        Some((from..=to).step_by(step).fold(all, |all, one| all | 1 << one))
    })
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(zone_name: &str, at: &str, grace: &str, now: &str, expected: Expect) {
        let ask = AskWindow { time_zone: None, at: at.to_owned(), grace: grace.to_owned() };
        let zone =
            if zone_name == "UTC" { TimeZone::UTC } else { TimeZone::posix(zone_name).expect("a zone") };
        let seen = answer(&zone, &ask, now.parse().expect("a time"));
        let none = || "-".to_owned();
        expected.assert_eq(&match seen.error {
            Some(error) => error,
            None => format!(
                "open={} run={} closes={} next={}",
                seen.open,
                seen.run.unwrap_or_else(none),
                seen.closes_at.unwrap_or_else(none),
                seen.next_open_at.unwrap_or_else(none)
            ),
        });
    }

    #[test]
    fn the_run_that_counts_is_the_last_one_however_irregular_they_are() {
        check(
            "UTC",
            "0 8,9 * * *",
            "30m",
            "2026-08-21T09:05:00Z",
            expect![
                "open=true run=2026-08-21T09:00:00Z closes=2026-08-21T09:30:00Z next=2026-08-22T08:00:00Z"
            ],
        );
        check(
            "UTC",
            "0 8,9 * * *",
            "30m",
            "2026-08-21T08:31:00Z",
            expect!["open=false run=- closes=- next=2026-08-21T09:00:00Z"],
        );
        check(
            "UTC",
            "0 0 1 * *",
            "72h",
            "2026-08-03T23:59:00Z",
            expect![
                "open=true run=2026-08-01T00:00:00Z closes=2026-08-04T00:00:00Z next=2026-09-01T00:00:00Z"
            ],
        );
    }

    #[test]
    fn without_a_grace_it_is_open_for_the_minute() {
        check(
            "UTC",
            "*/15 * * * mon-fri",
            "",
            "2026-08-21T10:15:59Z",
            expect![
                "open=true run=2026-08-21T10:15:00Z closes=2026-08-21T10:15:59Z next=2026-08-21T10:30:00Z"
            ],
        );
        check(
            "UTC",
            "*/15 * * * mon-fri",
            "",
            "2026-08-22T10:15:00Z",
            expect!["open=false run=- closes=- next=2026-08-24T00:00:00Z"],
        );
    }

    #[test]
    fn day_and_weekday_are_one_or_the_other_where_both_are_limited() {
        check(
            "UTC",
            "0 0 13 * 5",
            "1h",
            "2026-08-21T00:30:00Z",
            expect![
                "open=true run=2026-08-21T00:00:00Z closes=2026-08-21T01:00:00Z next=2026-08-28T00:00:00Z"
            ],
        );
        check(
            "UTC",
            "0 0 29 2 *",
            "1h",
            "2026-03-01T00:30:00Z",
            expect!["open=false run=- closes=- next=2028-02-29T00:00:00Z"],
        );
        check("UTC", "0 0 31 2 *", "1h", "2026-03-01T00:30:00Z", expect!["open=false run=- closes=- next=-"]);
    }

    #[test]
    fn a_change_of_clocks_neither_loses_a_run_nor_doubles_it() {
        let berlin = "CET-1CEST,M3.5.0,M10.5.0/3";
        // 02:30 does not exist on 29 March 2026: it is an hour later then.
        check(
            berlin,
            "30 2 * * *",
            "10m",
            "2026-03-29T01:35:00Z",
            expect![
                "open=true run=2026-03-29T01:30:00Z closes=2026-03-29T01:40:00Z next=2026-03-30T00:30:00Z"
            ],
        );
        // It exists twice on 25 October: the first counts.
        check(
            berlin,
            "30 2 * * *",
            "10m",
            "2026-10-25T01:35:00Z",
            expect!["open=false run=- closes=- next=2026-10-26T01:30:00Z"],
        );
    }

    #[test]
    fn what_cannot_be_read_is_told() {
        check(
            "UTC",
            "0 8 * *",
            "30m",
            "2026-08-21T09:05:00Z",
            expect![[r#""0 8 * *" does not have five fields"#]],
        );
        check(
            "UTC",
            "60 8 * * *",
            "30m",
            "2026-08-21T09:05:00Z",
            expect![[r#""60" in "60 8 * * *" is no field of cron"#]],
        );
        check(
            "UTC",
            "*/0 8 * * *",
            "30m",
            "2026-08-21T09:05:00Z",
            expect![[r#""*/0" in "*/0 8 * * *" is no field of cron"#]],
        );
        check(
            "UTC",
            "0 8 * * 5-1",
            "30m",
            "2026-08-21T09:05:00Z",
            expect![[r#""5-1" in "0 8 * * 5-1" is no field of cron"#]],
        );
        check(
            "UTC",
            "0 8 * * *",
            "30d",
            "2026-08-21T09:05:00Z",
            expect![[r#""30d" is no duration such as 30m"#]],
        );
        for name in ["../../etc/passwd", "/etc/localtime", "No/Where", ""] {
            assert_eq!(zone(Some(name)).is_err(), !name.is_empty(), "{name}");
        }
    }
}
