//! Kubernetes quantities, as far as Kite takes them from users.
//!
//! Kubernetes itself also reads exponents, signs and milli-bytes. A user who writes those has made a mistake, and a
//! strict notation can be passed on as it was written, which keeps an apply from changing anything.

/// An amount in thousandths of a byte: a quantity has up to three decimals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity(u128);

/// Most digits before the dot.
const WHOLE_DIGITS_MAX: usize = 12;
/// Most digits after it.
const DECIMALS_MAX: usize = 3;

/// Suffixes of users, with what each stands for.
const UNITS: [(&str, u128); 9] = [
    ("Ki", 1 << 10),
    ("Mi", 1 << 20),
    ("Gi", 1 << 30),
    ("Ti", 1 << 40),
    ("k", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
    ("T", 1_000_000_000_000),
    ("", 1),
];

impl Quantity {
    /// So many mebibytes.
    pub const fn mebibytes(count: u128) -> Self {
        Self(count * 1000 * (1 << 20))
    }

    /// So many gibibytes.
    pub const fn gibibytes(count: u128) -> Self {
        Self::mebibytes(count * 1024)
    }

    /// So many tebibytes.
    pub const fn tebibytes(count: u128) -> Self {
        Self::gibibytes(count * 1024)
    }

    /// Reads a quantity above zero in the strict notation: digits, at most three decimals, a suffix from `k` to `Ti`.
    /// Also for what the API server holds; none where it is written in another way.
    pub fn parse(text: &str) -> Option<Self> {
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, suffix) = text.split_at(end);
        let (_, unit) = UNITS.into_iter().find(|(name, _)| *name == suffix)?;
        let (whole, decimals) = match number.split_once('.') {
            Some((whole, decimals)) => (digits(whole, WHOLE_DIGITS_MAX)?, thousandths(decimals)?),
            None => (digits(number, WHOLE_DIGITS_MAX)?, 0),
        };
        let amount = (whole * 1000 + decimals) * unit;
        (amount > 0).then_some(Self(amount))
    }
}

fn digits(text: &str, most: usize) -> Option<u128> {
    let plain = (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}

fn thousandths(text: &str) -> Option<u128> {
    let value = digits(text, DECIMALS_MAX)?;
    Some(value * [100, 10, 1].get(text.len() - 1)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_strict_notation_is_read() {
        for (text, thousandths) in [
            ("1", 1_000),
            ("0.5", 500),
            ("1.25k", 1_250_000),
            ("4Ki", 4_096_000),
            ("64Mi", 67_108_864_000),
            ("4Gi", 4_294_967_296_000),
            ("4G", 4_000_000_000_000),
            ("64Ti", 70_368_744_177_664_000),
            ("999999999999.999T", 999_999_999_999_999_000_000_000_000),
        ] {
            assert_eq!(Quantity::parse(text), Some(Quantity(thousandths)), "{text}");
        }
    }

    #[test]
    fn any_other_notation_is_refused() {
        for text in [
            "",
            " ",
            "0",
            "0Gi",
            "0.000",
            "-1Gi",
            "+1",
            "1e9",
            "1E9",
            "500m",
            "4gi",
            "4GI",
            "4 Gi",
            " 4Gi",
            "4Gi ",
            "4Gi\n  x: y",
            "Gi",
            ".5Gi",
            "5.Gi",
            "1.2345",
            "1.2.3",
            "1234567890123",
            "4Pi",
            "٤Gi",
            "4Gi\0",
            "0x10",
        ] {
            assert_eq!(Quantity::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn sizes_compare_across_units() {
        assert_eq!(Quantity::parse("4096Mi"), Quantity::parse("4Gi"));
        assert!(Quantity::parse("4G") < Quantity::parse("4Gi"));
        assert_eq!(Quantity::parse("64Mi"), Some(Quantity::mebibytes(64)));
        assert_eq!(Quantity::parse("1Gi"), Some(Quantity::gibibytes(1)));
        assert_eq!(Quantity::parse("4Ti"), Some(Quantity::tebibytes(4)));
    }
}
