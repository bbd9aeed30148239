//! Text to expression.

use super::lexer::{Lexed, Token, lex};
use super::syntax::{Comprehension, Expr, Item, Kind, Literal, MacroKind, Place};

/// A mistake in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mistake {
    pub(super) at: Place,
    pub(super) message: String,
}

/// Deeper nesting than this is refused, as in cel-go, which also spares the stack.
const DEPTH_MAX: usize = 200;
const EXPECTED: &str = "expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, \
                        STRING, BYTES, IDENTIFIER}";

/// Parses an expression.
pub(super) fn parse(text: &str) -> Result<Expr, Mistake> {
    let tokens = lex(text)?;
    let mut parser = Parser { tokens: &tokens, at: 0, depth: 0 };
    let expression = parser.ternary()?;
    match parser.peek() {
        Token::End => Ok(expression),
        other => {
            let message = format!("Syntax error: extraneous input '{}' expecting <EOF>", other.text());
            Err(Mistake { at: parser.place(), message })
        }
    }
}

struct Parser<'a> {
    tokens: &'a [Lexed],
    at: usize,
    depth: usize,
}

type Parsed<T> = Result<T, Mistake>;

fn call(at: Place, function: &str, arguments: Vec<Expr>) -> Expr {
    Expr { at, kind: Kind::Call { target: None, function: function.to_owned(), arguments } }
}

impl Parser<'_> {
    fn peek(&self) -> &Token {
        self.tokens.get(self.at).map_or(&Token::End, |lexed| &lexed.token)
    }

    fn place(&self) -> Place {
        self.tokens.get(self.at).map_or(0, |lexed| lexed.at)
    }

    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        self.at += 1;
        token
    }

    fn eat(&mut self, sign: &str) -> bool {
        let there = matches!(self.peek(), Token::Sign(known) if *known == sign);
        self.at += usize::from(there);
        there
    }

    fn expect(&mut self, sign: &'static str) -> Parsed<()> {
        if self.eat(sign) {
            return Ok(());
        }
        let message = match self.peek() {
            Token::End => format!("Syntax error: missing '{sign}' at '<EOF>'"),
            other => format!("Syntax error: mismatched input '{}' expecting '{sign}'", other.text()),
        };
        Err(Mistake { at: self.place(), message })
    }

    fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            let message = "expression recursion limit exceeded: 200".to_owned();
            return Err(Mistake { at: self.place(), message });
        }
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    fn ternary(&mut self) -> Parsed<Expr> {
        self.deeper(|parser| {
            let condition = parser.or()?;
            let at = parser.place();
            if !parser.eat("?") {
                return Ok(condition);
            }
            let then = parser.or()?;
            parser.expect(":")?;
            let otherwise = parser.ternary()?;
            Ok(call(at, "_?_:_", vec![condition, then, otherwise]))
        })
    }

    fn or(&mut self) -> Parsed<Expr> {
        let mut left = self.and()?;
        loop {
            let at = self.place();
            if !self.eat("||") {
                return Ok(left);
            }
            let right = self.and()?;
            left = call(at, "_||_", vec![left, right]);
        }
    }

    fn and(&mut self) -> Parsed<Expr> {
        let mut left = self.relation()?;
        loop {
            let at = self.place();
            if !self.eat("&&") {
                return Ok(left);
            }
            let right = self.relation()?;
            left = call(at, "_&&_", vec![left, right]);
        }
    }

    fn relation(&mut self) -> Parsed<Expr> {
        let mut left = self.sum()?;
        loop {
            let at = self.place();
            let function = match self.peek() {
                Token::Sign("<") => "_<_",
                Token::Sign("<=") => "_<=_",
                Token::Sign(">") => "_>_",
                Token::Sign(">=") => "_>=_",
                Token::Sign("==") => "_==_",
                Token::Sign("!=") => "_!=_",
                Token::Name(name) if name == "in" => "@in",
                _ => return Ok(left),
            };
            self.at += 1;
            let right = self.sum()?;
            left = call(at, function, vec![left, right]);
        }
    }

    fn sum(&mut self) -> Parsed<Expr> {
        let mut left = self.product()?;
        loop {
            let at = self.place();
            let function = match self.peek() {
                Token::Sign("+") => "_+_",
                Token::Sign("-") => "_-_",
                _ => return Ok(left),
            };
            self.at += 1;
            let right = self.product()?;
            left = call(at, function, vec![left, right]);
        }
    }

    fn product(&mut self) -> Parsed<Expr> {
        let mut left = self.unary()?;
        loop {
            let at = self.place();
            let function = match self.peek() {
                Token::Sign("*") => "_*_",
                Token::Sign("/") => "_/_",
                Token::Sign("%") => "_%_",
                _ => return Ok(left),
            };
            self.at += 1;
            let right = self.unary()?;
            left = call(at, function, vec![left, right]);
        }
    }

    fn unary(&mut self) -> Parsed<Expr> {
        let at = self.place();
        let (sign, function) = match self.peek() {
            Token::Sign("!") => ("!", "!_"),
            Token::Sign("-") => ("-", "-_"),
            _ => return self.member(),
        };
        let mut count = 0usize;
        while self.eat(sign) {
            count += 1;
        }
        // A negative number is one literal, also the smallest, which has no positive twin.
        if function == "-_" && count % 2 == 1 {
            if let Token::Int(digits) = self.peek().clone()
                && let Ok(number) = format!("-{digits}").parse::<i64>()
            {
                self.at += 1;
                return self.suffixes(Expr { at, kind: Kind::Literal(Literal::Int(number)) });
            }
            if let Token::Double(number) = *self.peek() {
                self.at += 1;
                return self.suffixes(Expr { at, kind: Kind::Literal(Literal::Double(-number)) });
            }
        }
        let operand = self.member()?;
        Ok(if count % 2 == 1 { call(at, function, vec![operand]) } else { operand })
    }

    fn member(&mut self) -> Parsed<Expr> {
        let primary = self.deeper(Self::primary)?;
        self.suffixes(primary)
    }

    fn suffixes(&mut self, mut operand: Expr) -> Parsed<Expr> {
        loop {
            let at = self.place();
            if self.eat(".") {
                let optional = self.eat("?");
                let field = self.field_name()?;
                let open = self.place();
                if !optional && self.eat("(") {
                    let arguments = self.arguments(")")?;
                    operand = method(open, operand, field, arguments)?;
                } else {
                    operand = Expr { at, kind: Kind::Field { operand: Box::new(operand), field, optional } };
                }
            } else if self.eat("[") {
                let optional = self.eat("?");
                let index = Box::new(self.ternary()?);
                self.expect("]")?;
                operand = Expr { at, kind: Kind::Index { operand: Box::new(operand), index, optional } };
            } else {
                return Ok(operand);
            }
        }
    }

    fn field_name(&mut self) -> Parsed<String> {
        let at = self.place();
        match self.next() {
            Token::Name(name) | Token::Quoted(name) => Ok(name),
            other => {
                let message = format!("Syntax error: no viable alternative at input '.{}'", other.text());
                Err(Mistake { at, message })
            }
        }
    }

    fn arguments(&mut self, close: &'static str) -> Parsed<Vec<Expr>> {
        let mut arguments = Vec::new();
        if self.eat(close) {
            return Ok(arguments);
        }
        loop {
            arguments.push(self.ternary()?);
            if !self.eat(",") {
                break;
            }
        }
        self.expect(close)?;
        Ok(arguments)
    }

    fn primary(&mut self) -> Parsed<Expr> {
        let at = self.place();
        let literal = |literal: Literal| Ok(Expr { at, kind: Kind::Literal(literal) });
        match self.next() {
            Token::Int(digits) => match parse_int(&digits) {
                Some(number) => literal(Literal::Int(number)),
                None => Err(Mistake { at, message: "invalid int literal".to_owned() }),
            },
            Token::Uint(number) => literal(Literal::Uint(number)),
            Token::Double(number) => literal(Literal::Double(number)),
            Token::Text(text) => literal(Literal::Text(text)),
            Token::Bytes(bytes) => literal(Literal::Bytes(bytes)),
            Token::Name(name) => match name.as_str() {
                "true" => literal(Literal::Bool(true)),
                "false" => literal(Literal::Bool(false)),
                "null" => literal(Literal::Null),
                name if RESERVED.contains(&name) => {
                    Err(Mistake { at, message: format!("reserved identifier: {name}") })
                }
                _ => {
                    let open = self.place();
                    if self.eat("(") {
                        let arguments = self.arguments(")")?;
                        return global(open, name, arguments);
                    }
                    Ok(Expr { at, kind: Kind::Name(name) })
                }
            },
            Token::Sign(".") => {
                let name = self.field_name()?;
                let open = self.place();
                if self.eat("(") {
                    let arguments = self.arguments(")")?;
                    return global(open, name, arguments);
                }
                Ok(Expr { at, kind: Kind::Name(name) })
            }
            Token::Sign("(") => {
                let inner = self.ternary()?;
                self.expect(")")?;
                Ok(inner)
            }
            Token::Sign("[") => self.list(at),
            Token::Sign("{") => self.map(at),
            other => {
                self.at = self.at.saturating_sub(1);
                let verb = if matches!(other, Token::End) { "mismatched" } else { "extraneous" };
                Err(Mistake {
                    at,
                    message: format!("Syntax error: {verb} input '{}' {EXPECTED}", other.text()),
                })
            }
        }
    }

    fn list(&mut self, at: Place) -> Parsed<Expr> {
        let mut items = Vec::new();
        while !self.eat("]") {
            let optional = self.eat("?");
            items.push(Item { value: self.ternary()?, optional });
            if !self.eat(",") {
                self.expect("]")?;
                break;
            }
        }
        Ok(Expr { at, kind: Kind::List(items) })
    }

    fn map(&mut self, at: Place) -> Parsed<Expr> {
        let mut entries = Vec::new();
        while !self.eat("}") {
            let optional = self.eat("?");
            let key = self.ternary()?;
            self.expect(":")?;
            entries.push((key, self.ternary()?, optional));
            if !self.eat(",") {
                self.expect("}")?;
                break;
            }
        }
        Ok(Expr { at, kind: Kind::Map(entries) })
    }
}

const RESERVED: [&str; 15] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "void",
];

fn parse_int(digits: &str) -> Option<i64> {
    match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) => i64::from_str_radix(hex, 16).ok(),
        None => digits.parse().ok(),
    }
}

fn global(at: Place, name: String, mut arguments: Vec<Expr>) -> Parsed<Expr> {
    if name == "has" && arguments.len() == 1 {
        let argument = arguments.remove(0);
        return match argument.kind {
            Kind::Field { operand, field, optional: false } => {
                Ok(Expr { at, kind: Kind::Has { operand, field } })
            }
            _ => Err(Mistake { at: argument.at, message: "invalid argument to has() macro".to_owned() }),
        };
    }
    Ok(Expr { at, kind: Kind::Call { target: None, function: name, arguments } })
}

fn variable(expression: &Expr, what: &str) -> Parsed<String> {
    match &expression.kind {
        Kind::Name(name) => Ok(name.clone()),
        _ => Err(Mistake { at: expression.at, message: what.to_owned() }),
    }
}

fn method(at: Place, target: Expr, name: String, arguments: Vec<Expr>) -> Parsed<Expr> {
    let count = arguments.len();
    let kind = match (name.as_str(), count) {
        ("all", 2 | 3) => MacroKind::All,
        ("exists", 2 | 3) => MacroKind::Exists,
        ("exists_one" | "existsOne", 2 | 3) => MacroKind::ExistsOne,
        ("filter", 2) => MacroKind::Filter,
        ("map", 2 | 3) => MacroKind::Map,
        ("transformList", 3 | 4) => MacroKind::TransformList,
        ("transformMap", 3 | 4) => MacroKind::TransformMap,
        ("optMap", 2) => MacroKind::OptMap,
        ("optFlatMap", 2) => MacroKind::OptFlatMap,
        ("sortBy", 2) => MacroKind::SortBy,
        ("bind", 3) if matches!(&target.kind, Kind::Name(name) if name == "cel") => MacroKind::Bind,
        _ => {
            let target = Some(Box::new(target));
            return Ok(Expr { at, kind: Kind::Call { target, function: name, arguments } });
        }
    };
    let mut rest = arguments.into_iter();
    let mut take = || rest.next().unwrap_or(Expr { at, kind: Kind::Literal(Literal::Null) });
    let first = variable(&take(), "argument must be a simple name")?;
    let two_names = matches!(kind, MacroKind::TransformList | MacroKind::TransformMap)
        || (count == 3 && matches!(kind, MacroKind::All | MacroKind::Exists | MacroKind::ExistsOne));
    let second = if two_names { Some(variable(&take(), "argument must be a simple name")?) } else { None };
    let with_filter = (kind == MacroKind::Map && count == 3)
        || (matches!(kind, MacroKind::TransformList | MacroKind::TransformMap) && count == 4);
    let mut range = target;
    if kind == MacroKind::Bind {
        range = take();
    }
    let filter = if with_filter { Some(take()) } else { None };
    let body = take();
    Ok(Expr {
        at,
        kind: Kind::Macro(Box::new(Comprehension { kind, range, variable: first, second, filter, body })),
    })
}
