//! Durations as Kubernetes writes them: `5s`, `10m`, `2h30m`, `1.5h`, `200ms`.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Longer than this is "never".
const SECONDS_MAX: f64 = 366.0 * 24.0 * 3600.0 * 100.0;

/// A duration that reads and writes as text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct GoDuration(pub Duration);

impl GoDuration {
    /// So many seconds.
    pub const fn seconds(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    /// From text; none where it is no duration, or a negative one.
    pub fn parse(text: &str) -> Option<Self> {
        let mut rest = text.strip_prefix('+').unwrap_or(text);
        if rest == "0" {
            return Some(Self(Duration::ZERO));
        }
        let mut seconds = 0.0;
        if rest.is_empty() {
            return None;
        }
        while !rest.is_empty() {
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
            let (number, tail) = rest.split_at(end);
            let number: f64 = number.parse().ok()?;
            let unit_end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
            let (unit, tail) = tail.split_at(unit_end);
            seconds += number * seconds_of(unit)?;
            rest = tail;
        }
        (seconds <= SECONDS_MAX).then(|| Self(Duration::from_secs_f64(seconds)))
    }
}

fn seconds_of(unit: &str) -> Option<f64> {
    Some(match unit {
        "ns" => 1e-9,
        "us" | "µs" | "μs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    })
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, millis) = (self.0.as_secs(), self.0.subsec_millis());
        match (seconds / 3600, seconds / 60 % 60, seconds % 60, millis) {
            (0, 0, 0, millis) if millis > 0 => write!(f, "{millis}ms"),
            (0, 0, seconds, 0) => write!(f, "{seconds}s"),
            (0, minutes, 0, 0) => write!(f, "{minutes}m"),
            (hours, 0, 0, 0) => write!(f, "{hours}h"),
            (hours, minutes, seconds, 0) => write!(f, "{hours}h{minutes}m{seconds}s"),
            (hours, minutes, seconds, millis) => write!(f, "{hours}h{minutes}m{seconds}.{millis:03}s"),
        }
    }
}

impl fmt::Debug for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| {
            serde::de::Error::custom(format!("{text:?} is no duration as in \"5s\", \"10m\" or \"2h30m\""))
        })
    }
}

impl Serialize for GoDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl schemars::JsonSchema for GoDuration {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "string", "pattern": r"^([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+$"})
    }

    fn inline_schema() -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_kubernetes_writes_them() {
        for (text, millis) in [
            ("5s", 5_000),
            ("10m", 600_000),
            ("20m0s", 1_200_000),
            ("2h30m", 9_000_000),
            ("1.5h", 5_400_000),
            ("200ms", 200),
            ("0", 0),
        ] {
            assert_eq!(GoDuration::parse(text), Some(GoDuration(Duration::from_millis(millis))), "{text}");
        }
        for text in ["", "5", "-5s", "5 s", "s", "5d", "1..2s", "9999999999h"] {
            assert_eq!(GoDuration::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_duration_is_shown_short_and_reads_back() {
        for text in ["7s", "3m", "2h", "1h2m3s", "200ms", "0s"] {
            let duration = GoDuration::parse(text).expect("it reads");
            assert_eq!(duration.to_string(), text);
        }
    }
}
