//! What names, labels and keys may look like, with the messages of apimachinery.

use std::sync::OnceLock;

use regex::Regex;

const DNS_LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const DNS_SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const DNS_1035: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const LABEL_KEY: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const LABEL_VALUE: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";

/// How the objects of a kind may be named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// Most kinds.
    Subdomain,
    /// Namespaces.
    Label,
    /// Services.
    Label1035,
    /// RBAC: anything that can stand in a path.
    PathSegment,
}

impl NameRule {
    /// What is wrong with a name; for a prefix that a name will be generated from, its last dash is no end.
    pub fn check(self, name: &str, prefix: bool) -> Vec<String> {
        let masked;
        let name = match name.strip_suffix('-') {
            Some(stem) if prefix && !stem.is_empty() && self != NameRule::PathSegment => {
                // As apimachinery masks it: the last two bytes make room for a letter.
                let kept = name.char_indices().rev().nth(1).map_or(0, |(at, _)| at);
                masked = format!("{}a", &name[..kept]);
                &masked
            }
            _ => name,
        };
        match self {
            NameRule::Subdomain => subdomain(name),
            NameRule::Label => label(name),
            NameRule::Label1035 => label_1035(name),
            NameRule::PathSegment => path_segment(name, prefix),
        }
    }
}

fn regex(slot: &'static OnceLock<Option<Regex>>, pattern: &str) -> Option<&'static Regex> {
    slot.get_or_init(|| Regex::new(&format!("^(?:{pattern})$")).ok()).as_ref()
}

macro_rules! matches_whole {
    ($pattern:expr, $text:expr) => {{
        static SLOT: OnceLock<Option<Regex>> = OnceLock::new();
        regex(&SLOT, $pattern).is_some_and(|regex| regex.is_match($text))
    }};
}

fn regex_error(message: &str, pattern: &str, examples: &[&str]) -> String {
    let mut text = message.to_owned();
    if examples.is_empty() {
        return format!("{text} (regex used for validation is '{pattern}')");
    }
    text.push_str(" (e.g. ");
    for (index, example) in examples.iter().enumerate() {
        if index > 0 {
            text.push_str(" or ");
        }
        text.push_str(&format!("'{example}', "));
    }
    format!("{text}regex used for validation is '{pattern}')")
}

fn characters(max: usize) -> String {
    format!("must be no more than {max} characters")
}

fn bytes(max: usize) -> String {
    format!("must be no more than {max} bytes")
}

/// `IsDNS1123Label`.
pub fn label(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > 63 {
        errors.push(characters(63));
    }
    if !matches_whole!(DNS_LABEL, text) {
        if matches_whole!(DNS_SUBDOMAIN, text) {
            errors.push("must not contain dots".to_owned());
        } else {
            let words = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
                         start and end with an alphanumeric character";
            errors.push(regex_error(words, DNS_LABEL, &["my-name", "123-abc"]));
        }
    }
    errors
}

const SUBDOMAIN_WORDS: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' \
                               or '.', and must start and end with an alphanumeric character";

/// `IsDNS1123Subdomain`.
pub fn subdomain(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > 253 {
        errors.push(characters(253));
    }
    if !matches_whole!(DNS_SUBDOMAIN, text) {
        errors.push(regex_error(SUBDOMAIN_WORDS, DNS_SUBDOMAIN, &["example.com"]));
    }
    errors
}

/// `IsWildcardDNS1123Subdomain`.
pub fn wildcard_subdomain(text: &str) -> Vec<String> {
    const PATTERN: &str = r"\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
    let mut errors = Vec::new();
    if text.len() > 253 {
        errors.push(characters(253));
    }
    if !matches_whole!(PATTERN, text) {
        let words = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must \
                     consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character";
        errors.push(regex_error(words, PATTERN, &["*.example.com"]));
    }
    errors
}

/// `IsDNS1035Label`.
pub fn label_1035(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > 63 {
        errors.push(characters(63));
    }
    if !matches_whole!(DNS_1035, text) {
        let words = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
                     alphabetic character, and end with an alphanumeric character";
        errors.push(regex_error(words, DNS_1035, &["my-name", "abc-123"]));
    }
    errors
}

/// `ValidatePathSegmentName`.
fn path_segment(text: &str, prefix: bool) -> Vec<String> {
    let mut errors = Vec::new();
    if !prefix && (text == "." || text == "..") {
        return vec![format!("may not be '{text}'")];
    }
    for illegal in ["/", "%"] {
        if text.contains(illegal) {
            errors.push(format!("may not contain '{illegal}'"));
        }
    }
    errors
}

/// `IsQualifiedName`: label and annotation keys, finalizers.
pub fn qualified_name(text: &str) -> Vec<String> {
    let words = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
                 character";
    let shape =
        |lead: &str| format!("{lead}{}", regex_error(words, LABEL_KEY, &["MyName", "my.name", "123-abc"]));
    let mut errors = Vec::new();
    let parts: Vec<&str> = text.split('/').collect();
    let name = match parts.as_slice() {
        [name] => *name,
        [prefix, name] => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".to_owned());
            } else {
                if prefix.len() > 253 {
                    errors.push(format!("prefix part {}", bytes(253)));
                }
                if !matches_whole!(DNS_SUBDOMAIN, prefix) {
                    errors.push(format!(
                        "prefix part {}",
                        regex_error(SUBDOMAIN_WORDS, DNS_SUBDOMAIN, &["example.com"])
                    ));
                }
            }
            *name
        }
        _ => {
            let lead = shape("a valid label key ");
            return vec![format!(
                "{lead} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        errors.push(format!("name part {}", bytes(63)));
    }
    if !matches_whole!(LABEL_KEY, name) {
        errors.push(shape("name part "));
    }
    errors
}

/// `IsValidLabelValue`.
pub fn label_value(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > 63 {
        errors.push(bytes(63));
    }
    if !matches_whole!(LABEL_VALUE, text) {
        let words = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and \
                     must start and end with an alphanumeric character";
        errors.push(regex_error(words, LABEL_VALUE, &["MyValue", "my_value", "12345"]));
    }
    errors
}

/// `IsConfigMapKey`: keys of ConfigMaps and Secrets.
pub fn config_key(text: &str) -> Vec<String> {
    const PATTERN: &str = "[-._a-zA-Z0-9]+";
    let mut errors = Vec::new();
    if text.len() > 253 {
        errors.push(characters(253));
    }
    if !matches_whole!(PATTERN, text) {
        let words = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
        errors.push(regex_error(words, PATTERN, &["key.name", "KEY_NAME", "key-name"]));
    }
    match text {
        "." => errors.push("must not be '.'".to_owned()),
        ".." => errors.push("must not be '..'".to_owned()),
        text if text.starts_with("..") => errors.push("must not start with '..'".to_owned()),
        _ => {}
    }
    errors
}

/// `IsValidPortName`.
pub fn port_name(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > 15 {
        errors.push(characters(15));
    }
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-') {
        errors.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !text.bytes().any(|b| b.is_ascii_lowercase()) {
        errors.push("must contain at least one letter (a-z)".to_owned());
    }
    if text.contains("--") {
        errors.push("must not contain consecutive hyphens".to_owned());
    }
    if text.starts_with('-') || text.ends_with('-') {
        errors.push("must not begin or end with a hyphen".to_owned());
    }
    errors
}

/// `IsValidPortNum`.
pub fn port_number(port: i64) -> Vec<String> {
    if (1..=65535).contains(&port) {
        Vec::new()
    } else {
        vec!["must be between 1 and 65535, inclusive".to_owned()]
    }
}
