//! Label selectors as kubectl writes them: `a=b,c!=d,e in (f,g),h notin (i),j,!k`.

use std::collections::BTreeSet;

use crate::labels::Labels;
use crate::limits::{LABEL_BYTES_MAX, OBJECT_NAME_BYTES_MAX, SELECTOR_BYTES_MAX, SELECTOR_REQUIREMENTS_MAX};

/// Why a text is no label selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// Something else was expected.
    #[error("expected {expected}, found {found} at byte {at}")]
    Expected {
        /// What could stand there.
        expected: &'static str,
        /// What stands there.
        found: String,
        /// Where, from 0.
        at: usize,
    },
    /// A key or value that no label can have.
    #[error("{text:?} is no label {what}")]
    Label {
        /// `key` or `value`.
        what: &'static str,
        /// What was given.
        text: String,
    },
    /// It is longer than the host takes.
    #[error("a selector has at most {SELECTOR_BYTES_MAX} bytes and {SELECTOR_REQUIREMENTS_MAX} requirements")]
    TooLong,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Test {
    In(BTreeSet<Box<str>>),
    NotIn(BTreeSet<Box<str>>),
    Exists,
    Absent,
}

/// A parsed label selector; the empty one selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Selector {
    requirements: Vec<(Box<str>, Test)>,
}

impl Selector {
    /// Parses its text.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        if text.len() > SELECTOR_BYTES_MAX {
            return Err(SelectorError::TooLong);
        }
        let mut parser = Parser { tokens: tokens(text), at: 0 };
        let mut requirements = Vec::new();
        if parser.peek() == Token::End {
            return Ok(Self { requirements });
        }
        loop {
            if requirements.len() == SELECTOR_REQUIREMENTS_MAX {
                return Err(SelectorError::TooLong);
            }
            requirements.push(parser.requirement()?);
            match parser.next() {
                Token::End => return Ok(Self { requirements }),
                Token::Comma => {}
                found => return Err(parser.expected("',' or the end", found)),
            }
        }
    }

    /// Whether it selects everything.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether it selects an object with these labels.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.requirements.iter().all(|(key, test)| {
            let value = labels.get(key);
            match test {
                Test::In(values) => value.is_some_and(|value| values.contains(value)),
                // As kubectl has it: an object without the label is not in the set either.
                Test::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
                Test::Exists => value.is_some(),
                Test::Absent => value.is_none(),
            }
        })
    }

    /// A label with the one value that every selected object has, for an index.
    pub(crate) fn pinned(&self) -> Option<(&str, &str)> {
        self.requirements.iter().find_map(|(key, test)| match test {
            Test::In(values) if values.len() == 1 => values.first().map(|value| (&**key, &**value)),
            _ => None,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'t> {
    Word(&'t str),
    Equals,
    NotEquals,
    Not,
    Comma,
    Open,
    Close,
    Other(&'t str),
    End,
}

fn tokens(text: &str) -> Vec<(usize, Token<'_>)> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let at = text.len() - rest.len();
        let word = rest.find(|c: char| c.is_whitespace() || "=!<>,()".contains(c)).unwrap_or(rest.len());
        let (token, length) = match first {
            '=' if rest.starts_with("==") => (Token::Equals, 2),
            '=' => (Token::Equals, 1),
            '!' if rest.starts_with("!=") => (Token::NotEquals, 2),
            '!' => (Token::Not, 1),
            ',' => (Token::Comma, 1),
            '(' => (Token::Open, 1),
            ')' => (Token::Close, 1),
            '<' | '>' => (Token::Other(rest.get(..1).unwrap_or(rest)), 1),
            _ => (Token::Word(rest.get(..word).unwrap_or(rest)), word),
        };
        tokens.push((at, token));
        rest = rest.get(length..).unwrap_or_default().trim_start();
    }
    tokens.push((text.len(), Token::End));
    tokens
}

struct Parser<'t> {
    tokens: Vec<(usize, Token<'t>)>,
    at: usize,
}

impl<'t> Parser<'t> {
    fn peek(&self) -> Token<'t> {
        self.tokens.get(self.at).map_or(Token::End, |(_, token)| *token)
    }

    fn next(&mut self) -> Token<'t> {
        let token = self.peek();
        self.at += 1;
        token
    }

    /// The error about the token taken last.
    fn expected(&self, expected: &'static str, found: Token<'_>) -> SelectorError {
        let at = self.at.saturating_sub(1);
        let at = self.tokens.get(at).or(self.tokens.last()).map_or(0, |(at, _)| *at);
        let found = match found {
            Token::Word(text) | Token::Other(text) => format!("{text:?}"),
            Token::Equals => "'='".to_owned(),
            Token::NotEquals => "'!='".to_owned(),
            Token::Not => "'!'".to_owned(),
            Token::Comma => "','".to_owned(),
            Token::Open => "'('".to_owned(),
            Token::Close => "')'".to_owned(),
            Token::End => "the end".to_owned(),
        };
        SelectorError::Expected { expected, found, at }
    }

    fn requirement(&mut self) -> Result<(Box<str>, Test), SelectorError> {
        let absent = self.peek() == Token::Not;
        if absent {
            self.at += 1;
        }
        let key = match self.next() {
            Token::Word(key) => label_key(key)?,
            found => return Err(self.expected("a label's key", found)),
        };
        if absent {
            return Ok((key, Test::Absent));
        }
        let test = match self.peek() {
            Token::Comma | Token::End => Test::Exists,
            Token::Equals => {
                self.at += 1;
                Test::In([self.value()?].into())
            }
            Token::NotEquals => {
                self.at += 1;
                Test::NotIn([self.value()?].into())
            }
            Token::Word("in") => {
                self.at += 1;
                Test::In(self.values()?)
            }
            Token::Word("notin") => {
                self.at += 1;
                Test::NotIn(self.values()?)
            }
            _ => {
                let found = self.next();
                return Err(self.expected("'=', '!=', 'in', 'notin' or ','", found));
            }
        };
        Ok((key, test))
    }

    /// One value; the empty one is written by nothing.
    fn value(&mut self) -> Result<Box<str>, SelectorError> {
        match self.peek() {
            Token::Word(value) => {
                self.at += 1;
                label_value(value)
            }
            Token::Comma | Token::Close | Token::End => Ok("".into()),
            _ => {
                let found = self.next();
                Err(self.expected("a label's value", found))
            }
        }
    }

    fn values(&mut self) -> Result<BTreeSet<Box<str>>, SelectorError> {
        match self.next() {
            Token::Open => {}
            found => return Err(self.expected("'('", found)),
        }
        let mut values = BTreeSet::new();
        loop {
            values.insert(self.value()?);
            match self.next() {
                Token::Close => return Ok(values),
                Token::Comma => {}
                found => return Err(self.expected("',' or ')'", found)),
            }
        }
    }
}

fn label_key(text: &str) -> Result<Box<str>, SelectorError> {
    let (domain, name) = match text.split_once('/') {
        Some((domain, name)) => (Some(domain), name),
        None => (None, text),
    };
    let domain_fits = domain.is_none_or(|domain| {
        domain.len() <= OBJECT_NAME_BYTES_MAX && crate::names::dns_subdomain(domain).is_ok()
    });
    if domain_fits && !name.is_empty() && fits(name) {
        Ok(text.into())
    } else {
        Err(SelectorError::Label { what: "key", text: text.to_owned() })
    }
}

fn label_value(text: &str) -> Result<Box<str>, SelectorError> {
    if fits(text) {
        Ok(text.into())
    } else {
        Err(SelectorError::Label { what: "value", text: text.to_owned() })
    }
}

/// Letters and digits at the ends, `-_.` between.
fn fits(text: &str) -> bool {
    let outer = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
    text.len() <= LABEL_BYTES_MAX
        && outer(text.chars().next())
        && outer(text.chars().next_back())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    /// Which of some label sets a selector selects.
    fn check(selector: &str, expect: Expect) {
        let sets = ["", "a=1", "a=2", "a=1,b=x", "b=", "example.org/c=y"];
        let text = match Selector::parse(selector) {
            Ok(selector) => sets
                .iter()
                .filter(|set| selector.matches(&labels(set)))
                .map(|set| format!("[{set}]"))
                .collect::<Vec<_>>()
                .join(" "),
            Err(error) => format!("error: {error}"),
        };
        expect.assert_eq(&text);
    }

    fn labels(text: &str) -> Labels {
        text.split(',').filter_map(|pair| pair.split_once('=')).collect()
    }

    #[test]
    fn nothing_selects_everything() {
        check("", expect!["[] [a=1] [a=2] [a=1,b=x] [b=] [example.org/c=y]"]);
        check("  ", expect!["[] [a=1] [a=2] [a=1,b=x] [b=] [example.org/c=y]"]);
    }

    #[test]
    fn equality_and_its_opposite() {
        check("a=1", expect!["[a=1] [a=1,b=x]"]);
        check(" a == 1 ", expect!["[a=1] [a=1,b=x]"]);
        check("a!=1", expect!["[] [a=2] [b=] [example.org/c=y]"]);
        check("b=", expect!["[b=]"]);
        check("a=1,b=x", expect!["[a=1,b=x]"]);
        check("example.org/c=y", expect!["[example.org/c=y]"]);
    }

    #[test]
    fn sets_and_their_opposite() {
        check("a in (1, 2)", expect!["[a=1] [a=2] [a=1,b=x]"]);
        check("a notin (1)", expect!["[] [a=2] [b=] [example.org/c=y]"]);
        check("b in (,x)", expect!["[a=1,b=x] [b=]"]);
        check("in in (in)", expect![""]);
    }

    #[test]
    fn presence_and_its_opposite() {
        check("a", expect!["[a=1] [a=2] [a=1,b=x]"]);
        check("!a,b", expect!["[b=]"]);
        check("! a", expect!["[] [b=] [example.org/c=y]"]);
    }

    #[test]
    fn what_is_no_selector_is_refused_with_its_place() {
        check("a=1,", expect!["error: expected a label's key, found the end at byte 4"]);
        check(",a", expect!["error: expected a label's key, found ',' at byte 0"]);
        check("a b", expect![[r#"error: expected '=', '!=', 'in', 'notin' or ',', found "b" at byte 2"#]]);
        check("a in 1", expect![[r#"error: expected '(', found "1" at byte 5"#]]);
        check("a in (1", expect!["error: expected ',' or ')', found the end at byte 7"]);
        check("a>1", expect![[r#"error: expected '=', '!=', 'in', 'notin' or ',', found ">" at byte 1"#]]);
        check("!a=1", expect!["error: expected ',' or the end, found '=' at byte 2"]);
        check("a=1/2", expect![[r#"error: "1/2" is no label value"#]]);
        check("/a", expect![[r#"error: "/a" is no label key"#]]);
        check("ä=1", expect![[r#"error: "ä" is no label key"#]]);
        let long = vec!["a"; 65].join(",");
        assert_eq!(Selector::parse(&long), Err(SelectorError::TooLong));
    }

    #[test]
    fn a_single_value_can_be_indexed() {
        let pinned =
            |text| Selector::parse(text).expect("a selector").pinned().map(|(k, v)| format!("{k}={v}"));
        assert_eq!(pinned("b,a=1").as_deref(), Some("a=1"));
        assert_eq!(pinned("a in (1,2),b!=x"), None);
    }
}
