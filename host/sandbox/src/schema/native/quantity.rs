//! Quantities such as `500m` and `4Gi`: read, compared and written in their canonical form.

use serde_json::Value;

/// How a quantity was written, and will be again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `1e3`
    Exponent,
    /// `Ki`, `Mi` …
    Binary,
    /// `m`, `k`, `M` …
    Decimal,
}

/// A number with a suffix, exact to a billionth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantity {
    /// In billionths, rounded up.
    nanos: i128,
    format: Format,
}

const NANO: i128 = 1_000_000_000;
const BINARY: [(&str, i128); 6] =
    [("Ki", 1 << 10), ("Mi", 1 << 20), ("Gi", 1 << 30), ("Ti", 1 << 40), ("Pi", 1 << 50), ("Ei", 1 << 60)];
const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];

/// The words of the real server for what is no quantity.
pub const FORMAT_WRONG: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

impl Quantity {
    /// Reads a quantity.
    pub fn parse(text: &str) -> Option<Quantity> {
        let (negative, rest) = match text.as_bytes().first()? {
            b'-' => (true, text.get(1..)?),
            b'+' => (false, text.get(1..)?),
            _ => (false, text),
        };
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        let (format, multiplier, exponent) = Self::suffix(suffix)?;
        let digits = format!("{whole}{fraction}");
        let digits = digits.trim_start_matches('0');
        // Nobody needs more; past it the result is cut off at the largest number anyway.
        let mantissa: i128 =
            if digits.is_empty() { 0 } else { digits.get(..36.min(digits.len()))?.parse().ok()? };
        let dropped = i32::try_from(digits.len().saturating_sub(36)).ok()?;
        let shift = exponent + 9 - i32::try_from(fraction.len()).ok()? + dropped;
        let scaled = mantissa.checked_mul(multiplier);
        let nanos = match (scaled, u32::try_from(shift)) {
            (Some(scaled), Ok(up)) => {
                10i128.checked_pow(up).and_then(|power| scaled.checked_mul(power)).unwrap_or(i128::MAX)
            }
            (Some(scaled), Err(_)) => {
                let power = 10i128.checked_pow(shift.unsigned_abs()).unwrap_or(i128::MAX);
                scaled / power + i128::from(scaled % power != 0)
            }
            (None, _) => i128::MAX,
        };
        let largest = i128::from(i64::MAX) * NANO;
        let nanos = nanos.min(largest);
        Some(Quantity { nanos: if negative { -nanos } else { nanos }, format })
    }

    fn suffix(suffix: &str) -> Option<(Format, i128, i32)> {
        if let Some((_, multiplier)) = BINARY.iter().find(|(name, _)| *name == suffix) {
            return Some((Format::Binary, *multiplier, 0));
        }
        if let Some((_, exponent)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
            return Some((Format::Decimal, 1, *exponent));
        }
        let exponent = suffix.strip_prefix(['e', 'E'])?;
        let digits = exponent.trim_start_matches(['+', '-']);
        if digits.is_empty() || exponent.len() - digits.len() > 1 {
            return None;
        }
        Some((Format::Exponent, 1, exponent.trim_start_matches('+').parse().ok()?))
    }

    /// In billionths.
    pub fn nanos(self) -> i128 {
        self.nanos
    }

    /// Whole units, rounded up.
    pub fn value(self) -> i64 {
        let whole = self.nanos.div_euclid(NANO) + i128::from(self.nanos.rem_euclid(NANO) != 0);
        i64::try_from(whole).unwrap_or(i64::MAX)
    }

    /// The sum, written like this one.
    #[must_use]
    pub fn plus(self, other: Quantity) -> Quantity {
        Quantity { nanos: self.nanos.saturating_add(other.nanos), ..self }
    }

    /// The difference, written like this one.
    #[must_use]
    pub fn minus(self, other: Quantity) -> Quantity {
        Quantity { nanos: self.nanos.saturating_sub(other.nanos), ..self }
    }
}

impl std::fmt::Display for Quantity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.nanos == 0 {
            return f.write_str("0");
        }
        let (sign, size) = (if self.nanos < 0 { "-" } else { "" }, self.nanos.abs());
        // Binary suffixes are for whole numbers from 1024 on; the rest is written with decimal ones.
        let binary = self.format == Format::Binary && size >= 1024 * NANO && size % NANO == 0;
        if binary || (self.format == Format::Binary && size % NANO == 0) {
            let whole = size / NANO;
            let fitting = BINARY.iter().rev().find(|(_, multiplier)| whole % multiplier == 0);
            return match fitting {
                Some((suffix, multiplier)) => write!(f, "{sign}{}{suffix}", whole / multiplier),
                None => write!(f, "{sign}{whole}"),
            };
        }
        let mut exponent = -9;
        let mut mantissa = size;
        while mantissa % 1000 == 0 && exponent < 18 {
            mantissa /= 1000;
            exponent += 3;
        }
        match self.format {
            Format::Exponent if exponent == 0 => write!(f, "{sign}{mantissa}"),
            Format::Exponent => write!(f, "{sign}{mantissa}e{exponent}"),
            Format::Binary | Format::Decimal => {
                let suffix =
                    DECIMAL.iter().find(|(_, known)| *known == exponent).map_or("", |(suffix, _)| suffix);
                write!(f, "{sign}{mantissa}{suffix}")
            }
        }
    }
}

/// Puts a quantity into its canonical form, where it is one.
pub(super) fn normalise(value: &mut Value) -> Result<(), String> {
    let text = match value {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => number.to_string(),
        Value::Null => return Ok(()),
        _ => return Err(format!("unable to parse quantity's suffix: {FORMAT_WRONG}")),
    };
    match Quantity::parse(&text) {
        Some(quantity) => {
            *value = Value::String(quantity.to_string());
            Ok(())
        }
        None => Err(FORMAT_WRONG.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn quantities_are_written_in_their_canonical_form() {
        let texts = [
            "1",
            "1000",
            "1024Ki",
            "1.5Gi",
            "0.5",
            "500m",
            "1500m",
            "1e3",
            "12E6",
            "0",
            "0Gi",
            "100000k",
            "1.5",
            "-1Gi",
            "0.1m",
            "1023",
            "0.5Gi",
            "1000000000",
            "2048",
            "4Gi",
            "1000m",
        ];
        let shown: Vec<String> = texts
            .iter()
            .map(|text| match Quantity::parse(text) {
                Some(quantity) => format!("{text}={quantity}"),
                None => format!("{text}!"),
            })
            .collect();
        expect!["1=1 1000=1k 1024Ki=1Mi 1.5Gi=1536Mi 0.5=500m 500m=500m 1500m=1500m 1e3=1e3 12E6=12e6 0=0 0Gi=0 100000k=100M 1.5=1500m -1Gi=-1Gi 0.1m=100u 1023=1023 0.5Gi=512Mi 1000000000=1G 2048=2048 4Gi=4Gi 1000m=1"].assert_eq(&shown.join(" "));
        for bad in ["", "x", "1x", "1ki", "1KI", "1 Gi", "--1", "1e", "1.2.3", "."] {
            assert_eq!(Quantity::parse(bad), None, "{bad}");
        }
    }
}
