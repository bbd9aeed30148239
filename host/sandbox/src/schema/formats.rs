//! The `format` names that custom resources may use; others are ignored, as in the real server.

use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr as _;
use std::sync::OnceLock;

use regex::Regex;

/// A known format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Format(&'static str);

const NAMES: [&str; 26] = [
    "bsonobjectid",
    "uri",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "cidr",
    "mac",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
    "isbn",
    "isbn10",
    "isbn13",
    "creditcard",
    "ssn",
    "hexcolor",
    "rgbcolor",
    "byte",
    "password",
    "date",
    "duration",
    "datetime",
    "k8sshortname",
    "k8slongname",
];

/// The format of that name; dashes do not count.
pub(crate) fn supported(name: &str) -> Option<Format> {
    let plain = name.replace('-', "");
    NAMES.iter().find(|known| **known == plain).map(|known| Format(known))
}

impl Format {
    /// The name as errors show it.
    pub(crate) fn name(self) -> &'static str {
        match self.0 {
            "datetime" => "date-time",
            "k8sshortname" => "k8s-short-name",
            "k8slongname" => "k8s-long-name",
            name => name,
        }
    }

    /// Whether the text has the format.
    pub(crate) fn accepts(self, text: &str) -> bool {
        match self.0 {
            "password" => true,
            "ipv4" => text.contains('.') && Ipv4Addr::from_str(text).is_ok(),
            "ipv6" => text.contains(':') && IpAddr::from_str(text).is_ok(),
            "cidr" => is_cidr(text),
            "date" => text.parse::<jiff::civil::Date>().is_ok() && text.len() == 10,
            "datetime" => is_date_time(text),
            "duration" => {
                parse_duration(text).is_some()
                    || matches(
                        r"(?i)^(\d+)\s*(ns|us|µs|ms|s|m|h|d|w|nano(s|second|seconds)?|micro(s|second|seconds)?|milli(s|second|seconds)?|sec(s|ond|onds)?|min(s|ute|utes)?|hr(s)?|hour(s)?|day(s)?|wk(s)?|week(s)?)",
                        text,
                    )
            }
            "uri" => matches(r"^([a-zA-Z][a-zA-Z0-9+.-]*:[^\s]*|/[^\s]*)$", text),
            "email" => matches(r"^([^<>\s@]+@[^<>\s@]+|[^<>]*<[^<>\s@]+@[^<>\s@]+>)$", text),
            "hostname" => text.len() <= 255 && matches(HOSTNAME, text),
            "mac" => matches(
                r"^([0-9a-fA-F]{2}([:-][0-9a-fA-F]{2}){5}|[0-9a-fA-F]{2}([:-][0-9a-fA-F]{2}){7}|[0-9a-fA-F]{4}(\.[0-9a-fA-F]{4}){2,3})$",
                text,
            ),
            "uuid" => {
                matches(r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$", text)
            }
            "uuid3" => {
                matches(r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$", text)
            }
            "uuid4" => matches(
                r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$",
                text,
            ),
            "uuid5" => matches(
                r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$",
                text,
            ),
            "bsonobjectid" => matches(r"^[0-9a-fA-F]{24}$", text),
            "isbn" => is_isbn(text, 10) || is_isbn(text, 13),
            "isbn10" => is_isbn(text, 10),
            "isbn13" => is_isbn(text, 13),
            "creditcard" => is_credit_card(text),
            "ssn" => matches(r"^\d{3}[- ]?\d{2}[- ]?\d{4}$", text),
            "hexcolor" => matches(r"^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$", text),
            "rgbcolor" => matches(RGB, text),
            "byte" => matches(
                r"^(?:[A-Za-z0-9+\\/]{4})*(?:[A-Za-z0-9+\\/]{2}==|[A-Za-z0-9+\\/]{3}=|[A-Za-z0-9+\\/]{4})$",
                text,
            ),
            "k8sshortname" => text.len() <= 63 && matches(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", text),
            "k8slongname" => {
                text.len() <= 253
                    && matches(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$", text)
            }
            _ => true,
        }
    }
}

const HOSTNAME: &str = r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$";
const RGB: &str = r"^rgb\(\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*\)$";

fn matches(pattern: &'static str, text: &str) -> bool {
    static COMPILED: OnceLock<std::sync::Mutex<std::collections::BTreeMap<&'static str, Regex>>> =
        OnceLock::new();
    let mut compiled =
        COMPILED.get_or_init(Default::default).lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let regex = match compiled.entry(pattern) {
        std::collections::btree_map::Entry::Occupied(known) => known.into_mut(),
        std::collections::btree_map::Entry::Vacant(new) => match Regex::new(pattern) {
            Ok(regex) => new.insert(regex),
            Err(_) => return false,
        },
    };
    regex.is_match(text)
}

/// A network as Go's `net.ParseCIDR` takes it.
pub(crate) fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let Ok(address) = IpAddr::from_str(address) else { return false };
    let max = if address.is_ipv4() { 32 } else { 128 };
    length.bytes().all(|byte| byte.is_ascii_digit()) && length.parse::<u8>().is_ok_and(|length| length <= max)
}

fn is_date_time(text: &str) -> bool {
    if text.len() < 4 {
        return false;
    }
    let lower = text.to_lowercase();
    let Some((date, time)) = lower.split_once('t') else { return false };
    if date.len() != 10 || date.parse::<jiff::civil::Date>().is_err() {
        return false;
    }
    if !matches(r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$", time) {
        return false;
    }
    let part = |range: std::ops::Range<usize>| time.get(range).and_then(|part| part.parse::<u8>().ok());
    part(0..2).is_some_and(|hour| hour <= 23)
        && part(3..5).is_some_and(|minute| minute <= 59)
        && part(6..8).is_some_and(|second| second <= 59)
}

/// Nanoseconds of a duration as Go's `time.ParseDuration` reads it.
pub(crate) fn parse_duration(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.as_bytes().first()? {
        b'-' => (true, text.get(1..)?),
        b'+' => (false, text.get(1..)?),
        _ => (false, text),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total = 0f64;
    let mut exact: i128 = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        let unit_end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, next) = after.split_at(unit_end);
        let scale: i128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        exact += whole * scale;
        if !fraction.is_empty() {
            #[allow(clippy::cast_precision_loss)] // At most nine digits count.
            {
                total += format!("0.{fraction}").parse::<f64>().ok()? * scale as f64;
            }
        }
        rest = next;
    }
    #[allow(clippy::cast_possible_truncation)] // The fractions are below an hour each.
    let sum = exact + total as i128;
    let sum = i64::try_from(sum).ok()?;
    Some(if negative { -sum } else { sum })
}

fn is_isbn(text: &str, version: usize) -> bool {
    let digits: Vec<u32> = text
        .chars()
        .filter(|c| !matches!(c, '-' | ' '))
        .map(|c| if matches!(c, 'X' | 'x') { 10 } else { c.to_digit(10).unwrap_or(99) })
        .collect();
    if digits.len() != version || digits.contains(&99) {
        return false;
    }
    match version {
        10 => {
            !digits[..9].contains(&10)
                && digits.iter().zip(1u32..).map(|(digit, place)| digit * place).sum::<u32>() % 11 == 0
        }
        _ => {
            !digits.contains(&10)
                && digits
                    .iter()
                    .enumerate()
                    .map(|(at, digit)| if at % 2 == 0 { *digit } else { digit * 3 })
                    .sum::<u32>()
                    % 10
                    == 0
        }
    }
}

fn is_credit_card(text: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    if !matches(
        r"^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35\d{3})\d{11})$",
        &digits,
    ) {
        return false;
    }
    let sum: u32 = digits
        .chars()
        .rev()
        .filter_map(|c| c.to_digit(10))
        .enumerate()
        .map(|(at, digit)| if at % 2 == 0 { digit } else { (digit * 2) / 10 + (digit * 2) % 10 })
        .sum();
    sum.is_multiple_of(10)
}
