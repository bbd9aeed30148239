//! Durations as people write them: `250ms`, `30s`, `10m`, `1h30m`, `2d`.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Longest that a scenario may let pass in one go: past this a step is a typing error, not a wish.
pub const ADVANCE_MAX: Duration = Duration::from_secs(366 * 24 * 3600);

/// A duration with its unit in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HumanDuration(pub Duration);

/// Why a text is no duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no duration: write a number and a unit (ms, s, m, h, d), as in 30s or 1h30m")]
pub struct DurationError(String);

impl std::str::FromStr for HumanDuration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        let wrong = || DurationError(text.to_owned());
        let mut millis: u64 = 0;
        let mut rest = text.trim();
        if rest.is_empty() {
            return Err(wrong());
        }
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
            let (number, tail) = rest.split_at(digits);
            let unit = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
            let (unit, tail) = tail.split_at(unit);
            let factor = match unit {
                "ms" => 1,
                "s" => 1_000,
                "m" => 60_000,
                "h" => 3_600_000,
                "d" => 86_400_000,
                _ => return Err(wrong()),
            };
            let number: u64 = number.parse().map_err(|_| wrong())?;
            let part = number.checked_mul(factor).ok_or_else(wrong)?;
            millis = millis.checked_add(part).ok_or_else(wrong)?;
            rest = tail;
        }
        let duration = Duration::from_millis(millis);
        if duration > ADVANCE_MAX { Err(wrong()) } else { Ok(Self(duration)) }
    }
}

impl fmt::Display for HumanDuration {
    /// The largest unit that divides it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.as_millis();
        for (unit, factor) in [("h", 3_600_000), ("m", 60_000), ("s", 1_000)] {
            if millis >= factor && millis.is_multiple_of(factor) {
                return write!(f, "{}{unit}", millis / factor);
            }
        }
        write!(f, "{millis}ms")
    }
}

impl<'de> Deserialize<'de> for HumanDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl Serialize for HumanDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_carry_their_unit() {
        for (text, millis) in [
            ("250ms", 250),
            ("30s", 30_000),
            ("10m", 600_000),
            ("1h30m", 5_400_000),
            ("2d", 172_800_000),
            ("0s", 0),
        ] {
            let parsed: HumanDuration = text.parse().unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(parsed.0, Duration::from_millis(millis), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for text in ["", "30", "s", "-1s", "1.5s", "1 s", "5y", "99999999999999999999s", "400d", "1s2"] {
            assert!(text.parse::<HumanDuration>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_largest_whole_unit_is_shown() {
        for (millis, text) in
            [(250, "250ms"), (1_000, "1s"), (90_000, "90s"), (120_000, "2m"), (7_200_000, "2h")]
        {
            assert_eq!(HumanDuration(Duration::from_millis(millis)).to_string(), text);
        }
    }
}
