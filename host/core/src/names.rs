//! What may be a name, and globs of names.

use std::fmt;
use std::str::Chars;

use crate::contract::Gvk;
use crate::limits::{KIND_BYTES_MAX, LABEL_BYTES_MAX, OBJECT_NAME_BYTES_MAX};

/// Why a text is no such name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// It is empty.
    #[error("it is empty")]
    Empty,
    /// It is too long.
    #[error("it has {bytes} bytes, at most {max} are allowed")]
    TooLong {
        /// So many it has.
        bytes: usize,
        /// So many it may have.
        max: usize,
    },
    /// A character that may not be in it, or not there.
    #[error("{found:?} may not stand there")]
    Character {
        /// The character.
        found: char,
    },
    /// `.` and `..` are ways through a path.
    #[error("it is a way through a path")]
    Dots,
}

/// A plugin's name: it is part of field managers, metrics and file names.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PluginName(Box<str>);

impl PluginName {
    /// Checks it.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        dns_label(text).map(|()| Self(text.into()))
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PluginName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A service account, as in `evenkeel-system/evenkeel-kite`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Deserialize)]
#[serde(try_from = "String")]
pub struct ServiceAccount {
    namespace: Box<str>,
    name: Box<str>,
}

/// Why a text names no service account.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no service account: NAMESPACE/NAME is")]
pub struct ServiceAccountError {
    text: String,
}

impl ServiceAccount {
    /// Checks it.
    pub fn parse(text: &str) -> Result<Self, ServiceAccountError> {
        let error = || ServiceAccountError { text: text.to_owned() };
        let (namespace, name) = text.split_once('/').ok_or_else(error)?;
        dns_label(namespace).map_err(|_| error())?;
        dns_subdomain(name).map_err(|_| error())?;
        Ok(Self { namespace: namespace.into(), name: name.into() })
    }

    /// The user that it is to the API server.
    pub fn user(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.name)
    }
}

impl TryFrom<String> for ServiceAccount {
    type Error = ServiceAccountError;

    fn try_from(text: String) -> Result<Self, ServiceAccountError> {
        Self::parse(&text)
    }
}

impl fmt::Display for ServiceAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// What every field manager of ours begins with.
pub const FIELD_MANAGER_PREFIX: &str = "evenkeel/";

/// The field manager of a controller.
pub fn field_manager(plugin: &str, controller: &str) -> String {
    format!("{FIELD_MANAGER_PREFIX}{plugin}/{controller}")
}

/// A DNS label (RFC 1123): what a namespace, a plugin and a controller are named by.
pub fn dns_label(text: &str) -> Result<(), NameError> {
    sized(text, LABEL_BYTES_MAX)?;
    label_characters(text)
}

/// A DNS subdomain (RFC 1123): labels with dots between, as in an API group.
pub fn dns_subdomain(text: &str) -> Result<(), NameError> {
    sized(text, OBJECT_NAME_BYTES_MAX)?;
    for label in text.split('.') {
        if label.is_empty() {
            return Err(NameError::Character { found: '.' });
        }
        label_characters(label)?;
    }
    Ok(())
}

/// The name of any object: it goes into a path, so it may not change the path. Kinds narrow it further, and the API
/// server checks that.
pub fn object_name(text: &str) -> Result<(), NameError> {
    sized(text, OBJECT_NAME_BYTES_MAX)?;
    if text == "." || text == ".." {
        return Err(NameError::Dots);
    }
    let bad = |c: &char| matches!(c, '/' | '%' | '\\' | '?' | '#') || c.is_control() || c.is_whitespace();
    match text.chars().find(bad) {
        Some(found) => Err(NameError::Character { found }),
        None => Ok(()),
    }
}

/// A finalizer: a name with an optional domain before a slash, as in `example.org/clean-up`.
pub fn finalizer_name(text: &str) -> Result<(), NameError> {
    sized(text, OBJECT_NAME_BYTES_MAX + 1 + LABEL_BYTES_MAX)?;
    let (domain, name) = match text.split_once('/') {
        Some((domain, name)) => (Some(domain), name),
        None => (None, text),
    };
    domain.map_or(Ok(()), dns_subdomain)?;
    sized(name, OBJECT_NAME_BYTES_MAX)?;
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    match name.chars().find(|c| !good(*c)) {
        Some(found) => Err(NameError::Character { found }),
        None => Ok(()),
    }
}

/// A group, version and kind as the API server could serve them.
pub fn kind(gvk: &Gvk) -> Result<(), NameError> {
    if !gvk.group.is_empty() {
        dns_subdomain(&gvk.group)?;
    }
    dns_label(&gvk.version)?;
    sized(&gvk.kind, KIND_BYTES_MAX)?;
    match gvk.kind.chars().find(|c| !c.is_ascii_alphanumeric()) {
        Some(found) => Err(NameError::Character { found }),
        None => Ok(()),
    }
}

fn sized(text: &str, max: usize) -> Result<(), NameError> {
    match text.len() {
        0 => Err(NameError::Empty),
        bytes if bytes > max => Err(NameError::TooLong { bytes, max }),
        _ => Ok(()),
    }
}

fn label_characters(text: &str) -> Result<(), NameError> {
    let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if let Some(found) = text.chars().find(|c| !good(*c)) {
        return Err(NameError::Character { found });
    }
    if text.starts_with('-') || text.ends_with('-') {
        return Err(NameError::Character { found: '-' });
    }
    Ok(())
}

/// A pattern of names: `*` stands for any characters, `?` for one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Glob(Box<str>);

impl Glob {
    /// Every text is one.
    pub fn new(pattern: &str) -> Self {
        Self(pattern.into())
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it says nothing about a name.
    pub fn is_anything(&self) -> bool {
        !self.0.is_empty() && self.0.bytes().all(|byte| byte == b'*')
    }

    /// Whether it says something about a name: it holds more than places for any letters.
    pub fn says_something(&self) -> bool {
        self.0.bytes().any(|byte| !matches!(byte, b'*' | b'?'))
    }

    /// Whether it stands for one name only: its own text.
    pub fn is_literal(&self) -> bool {
        !self.0.contains(['*', '?'])
    }

    /// Whether it stands for this name.
    pub fn matches(&self, name: &str) -> bool {
        // Linear but for the last star, to which it goes back: no pattern makes it explode.
        let (mut pattern, mut rest) = (self.0.chars(), name.chars());
        let mut star: Option<(Chars<'_>, Chars<'_>)> = None;
        loop {
            let (mut after, mut left) = (pattern.clone(), rest.clone());
            let Some(c) = left.next() else { break };
            match after.next() {
                Some('*') => {
                    star = Some((after.clone(), rest.clone()));
                    pattern = after;
                }
                Some(wanted) if wanted == '?' || wanted == c => (pattern, rest) = (after, left),
                _ => match &mut star {
                    Some((behind, taken)) => {
                        taken.next();
                        (pattern, rest) = (behind.clone(), taken.clone());
                    }
                    None => return false,
                },
            }
        }
        pattern.all(|rest| rest == '*')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_account_is_a_namespace_and_a_name() {
        let account = ServiceAccount::parse("evenkeel-system/evenkeel-kite").expect("one");
        assert_eq!(account.user(), "system:serviceaccount:evenkeel-system:evenkeel-kite");
        for text in ["", "kite", "a/b/c", "A/b", "a/", "a/b:c", "a/b\nImpersonate-Group: system:masters"] {
            assert!(ServiceAccount::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_name_may_not_change_the_path_that_it_goes_into() {
        for good in ["a", "vm-a.b", "system:node", "A_b", &"x".repeat(253)] {
            assert_eq!(object_name(good), Ok(()), "{good}");
        }
        for bad in ["", ".", "..", "a/b", "../x", "a%2fb", "a?watch=1", "a#b", "a b", "a\n", &"x".repeat(254)]
        {
            assert!(object_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn names_of_each_sort_are_told_from_others() {
        for (text, label, subdomain, finalizer) in [
            ("kite", true, true, true),
            ("kite.example.org", false, true, true),
            ("kite.example.org/Clean_up", false, false, true),
            ("Kite", false, false, true),
            ("-a", false, false, true),
            ("a..b", false, false, true),
            ("a/b/c", false, false, false),
            ("", false, false, false),
        ] {
            assert_eq!(dns_label(text).is_ok(), label, "label {text:?}");
            assert_eq!(dns_subdomain(text).is_ok(), subdomain, "subdomain {text:?}");
            assert_eq!(finalizer_name(text).is_ok(), finalizer, "finalizer {text:?}");
        }
        assert!(kind(&Gvk::new("apps", "v1", "Deployment")).is_ok());
        assert!(kind(&Gvk::new("apps/v1", "v1", "Deployment")).is_err());
        assert!(kind(&Gvk::new("", "v1", "Pod/exec")).is_err());
        assert!(kind(&Gvk::new("", "", "Pod")).is_err());
    }

    #[test]
    fn a_glob_stands_for_whole_names() {
        for (pattern, name, matches) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("*-cloud-init", "vm-a-cloud-init", true),
            ("*-cloud-init", "cloud-init", false),
            ("a*b*c", "aXbXbXc", true),
            ("a*b*c", "aXbX", false),
            ("?", "", false),
            ("??", "ab", true),
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("a**", "a", true),
        ] {
            assert_eq!(Glob::new(pattern).matches(name), matches, "{pattern:?} {name:?}");
        }
        assert!(
            Glob::new("*").is_anything() && !Glob::new("a*").is_anything() && !Glob::new("").is_anything()
        );
        for (pattern, says) in
            [("a", true), ("a*", true), ("?-x", true), ("*", false), ("?*", false), ("", false)]
        {
            assert_eq!(Glob::new(pattern).says_something(), says, "{pattern:?}");
        }
        assert!(
            Glob::new("a").is_literal() && !Glob::new("a*").is_literal() && !Glob::new("a?").is_literal()
        );
    }
}
