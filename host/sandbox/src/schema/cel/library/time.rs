//! Durations and times.

use jiff::{SignedDuration, Timestamp, Zoned, tz::TimeZone};

use super::Called;
use crate::schema::cel::value::{Value, parse_time};
use crate::schema::formats::parse_duration;

pub(super) fn call<'a>(name: &str, method: bool, values: &[Value<'a>]) -> Option<Called<'a>> {
    let range = || "timestamp overflow".to_owned();
    let shifted = |time: &Timestamp, nanos: i64| {
        time.checked_add(SignedDuration::from_nanos(nanos)).map(Value::Time).map_err(|_| range())
    };
    Some(match (name, values) {
        ("duration", [Value::Text(text)]) => parse_duration(text)
            .map(Value::Duration)
            .ok_or_else(|| format!("time: invalid duration \"{text}\"")),
        ("duration", [Value::Int(nanos)]) => Ok(Value::Duration(*nanos)),
        ("duration", [value @ Value::Duration(_)]) | ("timestamp", [value @ Value::Time(_)]) => {
            Ok(value.clone())
        }
        ("timestamp", [Value::Text(text)]) => parse_time(text)
            .map(Value::Time)
            .ok_or_else(|| format!("parsing time \"{text}\" as RFC 3339: cannot parse")),
        ("timestamp", [Value::Int(seconds)]) => {
            Timestamp::from_second(*seconds).map(Value::Time).map_err(|_| range())
        }
        ("_+_", [Value::Duration(a), Value::Duration(b)]) => {
            a.checked_add(*b).map(Value::Duration).ok_or_else(|| "duration overflow".to_owned())
        }
        ("_-_", [Value::Duration(a), Value::Duration(b)]) => {
            a.checked_sub(*b).map(Value::Duration).ok_or_else(|| "duration overflow".to_owned())
        }
        ("_+_", [Value::Time(time), Value::Duration(nanos)])
        | ("_+_", [Value::Duration(nanos), Value::Time(time)]) => shifted(time, *nanos),
        ("_-_", [Value::Time(time), Value::Duration(nanos)]) => shifted(time, nanos.saturating_neg()),
        ("_-_", [Value::Time(a), Value::Time(b)]) => {
            i64::try_from(a.duration_since(*b).as_nanos()).map(Value::Duration).map_err(|_| range())
        }
        (part, [Value::Duration(nanos)]) if method => Ok(Value::Int(match part {
            "getHours" => nanos / 3_600_000_000_000,
            "getMinutes" => nanos / 60_000_000_000,
            "getSeconds" => nanos / 1_000_000_000,
            "getMilliseconds" => nanos / 1_000_000,
            _ => return None,
        })),
        (part, [Value::Time(time), zone @ ..]) if method => match zoned(*time, zone) {
            Ok(zoned) => Ok(Value::Int(part_of(part, &zoned)?)),
            Err(failure) => Err(failure),
        },
        _ => return None,
    })
}

fn zoned(time: Timestamp, zone: &[Value<'_>]) -> Result<Zoned, String> {
    let zone = match zone {
        [Value::Text(name)] => match parse_offset(name) {
            Some(offset) => offset,
            None if matches!(&**name, "UTC" | "") => TimeZone::UTC,
            None => TimeZone::get(name).map_err(|_| format!("unknown time zone {name}"))?,
        },
        _ => TimeZone::UTC,
    };
    Ok(time.to_zoned(zone))
}

fn parse_offset(text: &str) -> Option<TimeZone> {
    let (hours, minutes) = text.split_once(':')?;
    let hours: i32 = hours.parse().ok()?;
    let minutes: i32 = minutes.parse().ok()?;
    let seconds = hours * 3600 + minutes * 60 * if text.starts_with('-') { -1 } else { 1 };
    jiff::tz::Offset::from_seconds(seconds).ok().map(TimeZone::fixed)
}

fn part_of(name: &str, time: &Zoned) -> Option<i64> {
    Some(match name {
        "getFullYear" => i64::from(time.year()),
        "getMonth" => i64::from(time.month()) - 1,
        "getDate" => i64::from(time.day()),
        "getDayOfMonth" => i64::from(time.day()) - 1,
        "getDayOfWeek" => i64::from(time.weekday().to_sunday_zero_offset()),
        "getDayOfYear" => i64::from(time.day_of_year()) - 1,
        "getHours" => i64::from(time.hour()),
        "getMinutes" => i64::from(time.minute()),
        "getSeconds" => i64::from(time.second()),
        "getMilliseconds" => i64::from(time.millisecond()),
        _ => return None,
    })
}
