//! Text to tokens.

use super::parser::Mistake;
use super::syntax::Place;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    /// Digits as written: whether they are negative comes before them.
    Int(String),
    Uint(u64),
    Double(f64),
    Text(String),
    Bytes(Vec<u8>),
    Name(String),
    /// A name in back quotes.
    Quoted(String),
    Sign(&'static str),
    End,
}

#[derive(Clone, Debug)]
pub(super) struct Lexed {
    pub(super) token: Token,
    pub(super) at: Place,
}

impl Token {
    /// The token as messages show it.
    pub(super) fn text(&self) -> String {
        match self {
            Token::Int(digits) => digits.clone(),
            Token::Uint(number) => format!("{number}u"),
            Token::Double(number) => number.to_string(),
            Token::Text(text) => format!("'{text}'"),
            Token::Bytes(_) => "b''".to_owned(),
            Token::Name(name) => name.clone(),
            Token::Quoted(name) => format!("`{name}`"),
            Token::Sign(sign) => (*sign).to_owned(),
            Token::End => "<EOF>".to_owned(),
        }
    }
}

const SIGNS: [&str; 24] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "+", "-", "*", "/", "%", "!", "?", ":", ".", ",", "(", ")",
    "[", "]", "{", "}",
];

/// Cuts a text into tokens; the last is [`Token::End`].
pub(super) fn lex(text: &str) -> Result<Vec<Lexed>, Mistake> {
    let chars: Vec<char> = text.chars().collect();
    let mut lexer = Lexer { chars: &chars, at: 0 };
    let mut tokens = Vec::new();
    loop {
        lexer.blanks();
        let at = lexer.at;
        let token = lexer.token()?;
        let end = token == Token::End;
        tokens.push(Lexed { token, at });
        if end {
            return Ok(tokens);
        }
    }
}

struct Lexer<'a> {
    chars: &'a [char],
    at: usize,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn starts(&self, text: &str) -> bool {
        text.chars().enumerate().all(|(ahead, c)| self.peek(ahead) == Some(c))
    }

    fn blanks(&mut self) {
        loop {
            if self.peek(0).is_some_and(char::is_whitespace) {
                self.at += 1;
            } else if self.starts("//") {
                while self.peek(0).is_some_and(|c| c != '\n') {
                    self.at += 1;
                }
            } else {
                return;
            }
        }
    }

    fn fail<T>(&self, message: impl Into<String>) -> Result<T, Mistake> {
        Err(Mistake { at: self.at, message: message.into() })
    }

    fn token(&mut self) -> Result<Token, Mistake> {
        let Some(c) = self.peek(0) else { return Ok(Token::End) };
        if c.is_ascii_digit() || (c == '.' && self.peek(1).is_some_and(|c| c.is_ascii_digit())) {
            return self.number();
        }
        if let Some((raw, bytes, skip)) = self.text_start() {
            self.at += skip;
            return self.text(raw, bytes);
        }
        if c.is_ascii_alphabetic() || c == '_' {
            let start = self.at;
            while self.peek(0).is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') {
                self.at += 1;
            }
            return Ok(Token::Name(self.chars.get(start..self.at).unwrap_or_default().iter().collect()));
        }
        if c == '`' {
            let rest = self.chars.get(self.at + 1..).unwrap_or_default();
            let Some(end) = rest.iter().position(|c| *c == '`') else {
                return self.fail("Syntax error: token recognition error at: '`'");
            };
            self.at += end + 2;
            return Ok(Token::Quoted(rest.get(..end).unwrap_or_default().iter().collect()));
        }
        match SIGNS.iter().find(|sign| self.starts(sign)) {
            Some(sign) => {
                self.at += sign.chars().count();
                Ok(Token::Sign(sign))
            }
            None => self.fail(format!("Syntax error: token recognition error at: '{c}'")),
        }
    }

    /// Whether a text begins: raw, bytes, and the length of what is before its quote.
    fn text_start(&self) -> Option<(bool, bool, usize)> {
        let quote = |ahead: usize| matches!(self.peek(ahead), Some('"' | '\''));
        let letter =
            |ahead: usize, letters: [char; 2]| self.peek(ahead).is_some_and(|c| letters.contains(&c));
        let (r, b) = (['r', 'R'], ['b', 'B']);
        if quote(0) {
            Some((false, false, 0))
        } else if letter(0, r) && quote(1) {
            Some((true, false, 1))
        } else if letter(0, b) && quote(1) {
            Some((false, true, 1))
        } else if (letter(0, b) && letter(1, r) || letter(0, r) && letter(1, b)) && quote(2) {
            Some((true, true, 2))
        } else {
            None
        }
    }

    fn number(&mut self) -> Result<Token, Mistake> {
        let start = self.at;
        let hex = self.peek(0) == Some('0') && matches!(self.peek(1), Some('x' | 'X'));
        let mut double = false;
        if hex {
            self.at += 2;
            while self.peek(0).is_some_and(|c| c.is_ascii_hexdigit()) {
                self.at += 1;
            }
        } else {
            let digits = |lexer: &mut Self| {
                while lexer.peek(0).is_some_and(|c| c.is_ascii_digit()) {
                    lexer.at += 1;
                }
            };
            digits(self);
            if self.peek(0) == Some('.') && self.peek(1).is_some_and(|c| c.is_ascii_digit()) {
                double = true;
                self.at += 1;
                digits(self);
            }
            if matches!(self.peek(0), Some('e' | 'E')) {
                let sign = usize::from(matches!(self.peek(1), Some('+' | '-')));
                if self.peek(1 + sign).is_some_and(|c| c.is_ascii_digit()) {
                    double = true;
                    self.at += 1 + sign;
                    digits(self);
                }
            }
        }
        let text: String = self.chars.get(start..self.at).unwrap_or_default().iter().collect();
        if double {
            return match text.parse() {
                Ok(number) => Ok(Token::Double(number)),
                Err(_) => self.fail("invalid double literal"),
            };
        }
        if matches!(self.peek(0), Some('u' | 'U')) {
            self.at += 1;
            let parsed = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
                Some(hex) => u64::from_str_radix(hex, 16),
                None => text.parse(),
            };
            return parsed.map(Token::Uint).or_else(|_| self.fail("invalid uint literal"));
        }
        Ok(Token::Int(text))
    }

    fn text(&mut self, raw: bool, bytes: bool) -> Result<Token, Mistake> {
        let start = self.at;
        let quote = self.peek(0).unwrap_or('"');
        let triple = self.peek(1) == Some(quote) && self.peek(2) == Some(quote);
        let width = if triple { 3 } else { 1 };
        self.at += width;
        let mut text = String::new();
        let mut raw_bytes = Vec::new();
        loop {
            let Some(c) = self.peek(0) else {
                self.at = start;
                let rest: String = self.chars.get(start..).unwrap_or_default().iter().collect();
                return self.fail(format!("Syntax error: token recognition error at: '{rest}'"));
            };
            if c == quote && (!triple || (self.peek(1) == Some(quote) && self.peek(2) == Some(quote))) {
                self.at += width;
                return Ok(if bytes { Token::Bytes(raw_bytes) } else { Token::Text(text) });
            }
            self.at += 1;
            let mut push = |c: char| {
                text.push(c);
                raw_bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            };
            if c != '\\' || raw {
                push(c);
                continue;
            }
            let Some(escape) = self.peek(0) else { continue };
            self.at += 1;
            let fixed = match escape {
                'n' => Some('\n'),
                't' => Some('\t'),
                'r' => Some('\r'),
                'a' => Some('\u{7}'),
                'b' => Some('\u{8}'),
                'f' => Some('\u{c}'),
                'v' => Some('\u{b}'),
                '\\' | '"' | '\'' | '`' | '?' => Some(escape),
                _ => None,
            };
            if let Some(c) = fixed {
                push(c);
                continue;
            }
            let (digits, radix, skip) = match escape {
                'x' | 'X' => (2, 16, 0),
                'u' => (4, 16, 0),
                'U' => (8, 16, 0),
                '0'..='7' => (3, 8, 1),
                _ => return self.fail("Syntax error: token recognition error: unable to unescape string"),
            };
            let from = self.at - skip;
            let code: String = self.chars.get(from..from + digits).unwrap_or_default().iter().collect();
            self.at = from + digits;
            match u32::from_str_radix(&code, radix) {
                Ok(code) if bytes && matches!(escape, 'x' | 'X' | '0'..='7') => {
                    raw_bytes.push(u8::try_from(code & 0xff).unwrap_or_default());
                }
                Ok(code) => push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)),
                Err(_) => {
                    return self.fail("Syntax error: token recognition error: unable to unescape string");
                }
            }
        }
    }
}
