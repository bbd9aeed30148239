//! Label selectors: `a=b,c!=d,e in (f,g),h notin (i),j,!k,l>5`.

use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    Exists,
    Absent,
    In(Vec<String>),
    NotIn(Vec<String>),
    Above(i64),
    Below(i64),
}

/// A parsed label selector; the empty one selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LabelSelector {
    tests: Vec<(String, Test)>,
}

impl LabelSelector {
    pub(crate) fn is_empty(&self) -> bool {
        self.tests.is_empty()
    }

    pub(crate) fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.tests.iter().all(|(key, test)| {
            let value = labels.get(key);
            let number = || value.and_then(|value| value.parse::<i64>().ok());
            match test {
                Test::Exists => value.is_some(),
                Test::Absent => value.is_none(),
                Test::In(values) => value.is_some_and(|value| values.contains(value)),
                Test::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
                Test::Above(bound) => number().is_some_and(|number| number > *bound),
                Test::Below(bound) => number().is_some_and(|number| number < *bound),
            }
        })
    }

    /// Parses the text of a `labelSelector` parameter; the error is the sentence to answer with.
    pub(crate) fn parse(text: &str) -> Result<LabelSelector, String> {
        let mut parser = Parser { tokens: tokens(text), at: 0 };
        let mut tests = Vec::new();
        if parser.peek() == &Token::End {
            return Ok(LabelSelector { tests });
        }
        loop {
            if !matches!(parser.peek(), Token::Word(_) | Token::Not) {
                let found = parser.peek().text();
                return Err(format!("found '{found}', expected: !, identifier, or 'end of string'"));
            }
            tests.push(parser.requirement().map_err(|why| format!("unable to parse requirement: {why}"))?);
            match parser.next() {
                Token::End => return Ok(LabelSelector { tests }),
                Token::Comma => {
                    if !matches!(parser.peek(), Token::Word(_) | Token::Not) {
                        return Err(format!(
                            "found '{}', expected: identifier after ','",
                            parser.peek().text()
                        ));
                    }
                }
                other => return Err(format!("found '{}', expected: ',' or 'end of string'", other.text())),
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Equals,
    DoubleEquals,
    NotEquals,
    Above,
    Below,
    Not,
    Comma,
    Open,
    Close,
    End,
}

impl Token {
    fn text(&self) -> &str {
        match self {
            Token::Word(word) => word,
            Token::Equals => "=",
            Token::DoubleEquals => "==",
            Token::NotEquals => "!=",
            Token::Above => ">",
            Token::Below => "<",
            Token::Not => "!",
            Token::Comma => ",",
            Token::Open => "(",
            Token::Close => ")",
            Token::End => "",
        }
    }
}

fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let token = match c {
            c if c.is_whitespace() => continue,
            '=' if chars.next_if_eq(&'=').is_some() => Token::DoubleEquals,
            '=' => Token::Equals,
            '!' if chars.next_if_eq(&'=').is_some() => Token::NotEquals,
            '!' => Token::Not,
            '>' => Token::Above,
            '<' => Token::Below,
            ',' => Token::Comma,
            '(' => Token::Open,
            ')' => Token::Close,
            first => {
                let mut word = String::from(first);
                while let Some(c) = chars.next_if(|c| !c.is_whitespace() && !"=!<>,()".contains(*c)) {
                    word.push(c);
                }
                Token::Word(word)
            }
        };
        tokens.push(token);
    }
    tokens.push(Token::End);
    tokens
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> &Token {
        &self.tokens[self.at.min(self.tokens.len() - 1)]
    }

    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        self.at += 1;
        token
    }

    fn requirement(&mut self) -> Result<(String, Test), String> {
        let absent = self.peek() == &Token::Not;
        if absent {
            self.next();
        }
        let key = match self.next() {
            Token::Word(word) => word,
            other => return Err(format!("found '{}', expected: identifier", other.text())),
        };
        check_key(&key)?;
        if absent {
            return Ok((key, Test::Absent));
        }
        if matches!(self.peek(), Token::End | Token::Comma) {
            return Ok((key, Test::Exists));
        }
        let test = match self.next() {
            Token::Equals | Token::DoubleEquals => Test::In(vec![self.value(&key)?]),
            Token::NotEquals => Test::NotIn(vec![self.value(&key)?]),
            Token::Above => Test::Above(self.bound()?),
            Token::Below => Test::Below(self.bound()?),
            Token::Word(word) if word == "in" => Test::In(self.values(&key)?),
            Token::Word(word) if word == "notin" => Test::NotIn(self.values(&key)?),
            other => {
                return Err(format!(
                    "found '{}', expected: in, notin, =, ==, !=, gt, lt, >, <",
                    other.text()
                ));
            }
        };
        Ok((key, test))
    }

    fn value(&mut self, key: &str) -> Result<String, String> {
        match self.peek() {
            Token::End | Token::Comma => Ok(String::new()),
            Token::Word(_) => {
                let value = self.next().text().to_owned();
                check_value(key, &value)?;
                Ok(value)
            }
            other => Err(format!("found '{}', expected: identifier", other.text())),
        }
    }

    fn bound(&mut self) -> Result<i64, String> {
        let text = self.next().text().to_owned();
        text.parse().map_err(|_| {
            format!(
                "values[0]: Invalid value: \"{text}\": for 'Gt', 'Lt' operators, the value must be an integer"
            )
        })
    }

    fn values(&mut self, key: &str) -> Result<Vec<String>, String> {
        match self.next() {
            Token::Open => {}
            other => return Err(format!("found '{}' expected: '('", other.text())),
        }
        let mut values = Vec::new();
        loop {
            match self.next() {
                Token::Close => break,
                Token::Comma => values.push(String::new()),
                Token::Word(word) => {
                    check_value(key, &word)?;
                    values.push(word);
                    match self.next() {
                        Token::Close => break,
                        Token::Comma => {}
                        other => return Err(format!("found '{}', expected: ',' or ')'", other.text())),
                    }
                }
                other => return Err(format!("found '{}', expected: ',', ')' or identifier", other.text())),
            }
        }
        if values.is_empty() {
            values.push(String::new());
        }
        values.sort();
        values.dedup();
        Ok(values)
    }
}

const NAME_RULE: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
     alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
     '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE_RULE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
     start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
     '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

fn check_key(key: &str) -> Result<(), String> {
    let name = key.rsplit_once('/').map_or(key, |(_, name)| name);
    if is_label_text(name) && !name.is_empty() && name.len() <= 63 {
        return Ok(());
    }
    Err(format!("<nil>: Invalid value: {}: {NAME_RULE}", crate::error::go_quote(key)))
}

fn check_value(key: &str, value: &str) -> Result<(), String> {
    if is_label_text(value) && value.len() <= 63 {
        return Ok(());
    }
    let quoted = crate::error::go_quote(value);
    Err(format!("values[0][{key}]: Invalid value: {quoted}: {VALUE_RULE}"))
}

fn is_label_text(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let edge = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
    text.chars().all(inner) && edge(text.chars().next()) && edge(text.chars().last())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(text: &str) -> BTreeMap<String, String> {
        text.split(',')
            .filter_map(|pair| pair.split_once('='))
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect()
    }

    #[test]
    fn a_selector_matches_as_kubernetes_says() {
        let cases = [
            ("", "a=b", true),
            ("a=b", "a=b", true),
            ("a==b", "a=c", false),
            ("a!=b", "", true),
            ("a!=b", "a=b", false),
            ("a in (b, c)", "a=c", true),
            ("a notin (b,c)", "a=c", false),
            ("a notin (b)", "", true),
            ("a", "a=", true),
            ("!a", "a=", false),
            ("a=", "a=", true),
            ("a=,b=c", "a=,b=c", true),
            ("a>3", "a=4", true),
            ("a<3", "a=4", false),
            ("x/y=z,a", "x/y=z,a=1", true),
        ];
        for (selector, object, expected) in cases {
            let parsed = LabelSelector::parse(selector).unwrap();
            assert_eq!(parsed.matches(&labels(object)), expected, "{selector} on {object}");
        }
    }

    #[test]
    fn a_broken_selector_is_refused_with_a_sentence() {
        for broken in ["a in b", "a=b,", "=b", "a b", "a=b=c", "(a)"] {
            assert!(LabelSelector::parse(broken).is_err(), "{broken}");
        }
        let why = LabelSelector::parse("a in b").unwrap_err();
        assert_eq!(why, "unable to parse requirement: found 'b' expected: '('");
    }
}
