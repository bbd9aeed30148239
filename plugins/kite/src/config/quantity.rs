//! Quantities in the notation that the API server stores, so that what is applied reads back as it was written.

/// Decimal suffixes from thousandths up.
const DECIMAL: [&str; 8] = ["m", "", "k", "M", "G", "T", "P", "E"];
/// Binary suffixes.
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// Digits, at most three after a dot, then none or one of the usual suffixes; given back in canonical notation. None
/// for anything else, and for what is no whole number of bytes with a binary suffix.
pub(super) fn canonical(text: &str) -> Option<String> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let thousandths = thousandths(number)?;
    // Up to `T` and `Ti`: 12 digits of the largest fit many times over.
    if let Some(power) = DECIMAL[..6].iter().position(|known| *known == suffix) {
        // Thousandths of a thousandth: only those that leave none over.
        let value = thousandths * 1000_u128.pow(u32::try_from(power).ok()?);
        return value.is_multiple_of(1000).then(|| shortest(value / 1000, 1000, &DECIMAL));
    }
    let power = BINARY[..5].iter().position(|known| *known == suffix)?;
    let value = thousandths * 1024_u128.pow(u32::try_from(power).ok()?);
    let bytes = value.is_multiple_of(1000).then_some(value / 1000)?;
    // Less than one Ki is written without a suffix, which is decimal.
    Some(if bytes < 1024 { shortest(bytes * 1000, 1000, &DECIMAL) } else { shortest(bytes, 1024, &BINARY) })
}

/// `12.5` as 12500.
fn thousandths(number: &str) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str, most: usize| {
        (1..=most).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit())
    };
    if !digits(whole, 12) || !digits(fraction, 3) {
        return None;
    }
    let whole: u128 = whole.parse().ok()?;
    let fraction: u128 = format!("{fraction:0<3}").parse().ok()?;
    Some(whole * 1000 + fraction)
}

/// The value with the largest suffix that leaves a whole number.
fn shortest(mut value: u128, base: u128, suffixes: &[&str]) -> String {
    if value == 0 {
        return "0".to_owned();
    }
    let mut suffixes = suffixes.iter().peekable();
    let mut suffix = suffixes.next().copied().unwrap_or_default();
    while value.is_multiple_of(base)
        && let Some(next) = suffixes.next()
    {
        value /= base;
        suffix = next;
    }
    format!("{value}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantity_is_written_as_the_api_server_stores_it() {
        let cases = [
            ("6", "6"),
            ("0", "0"),
            ("16Gi", "16Gi"),
            ("1.5Gi", "1536Mi"),
            ("1024Mi", "1Gi"),
            ("1024Gi", "1Ti"),
            ("2000k", "2M"),
            ("1000", "1k"),
            ("0.5", "500m"),
            ("1000m", "1"),
            ("500m", "500m"),
            ("1536", "1536"),
            ("0.5Ki", "512"),
            ("007", "7"),
        ];
        for (text, stored) in cases {
            assert_eq!(canonical(text).as_deref(), Some(stored), "{text}");
        }
    }

    #[test]
    fn what_is_no_plain_quantity_is_none() {
        for text in [
            "",
            "-1Gi",
            "1e9",
            "4gi",
            "4 Gi",
            "1.",
            ".5",
            "1.2345",
            "1.5m",
            "0.001Ki",
            "1234567890123",
            "4Gi\n",
        ] {
            assert_eq!(canonical(text), None, "{text:?}");
        }
    }
}
