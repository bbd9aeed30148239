//! The part of JSONPath that printer columns, scale paths and stages use: names, `['name']`, indexes, slices, `[*]`, `..name`
//! and filters such as `[?(@.type=="Ready")]`.

use serde_json::Value;

/// A parsed path.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath {
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    Index(i64),
    Slice { start: Option<i64>, end: Option<i64>, step: i64 },
    All,
    Descend(String),
    Filter { left: Operand, test: Option<(Test, Operand)> },
}

#[derive(Clone, Debug, PartialEq)]
enum Operand {
    Path(Vec<Step>),
    Literal(Value),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Test {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// A path that cannot be read: where, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why} at character {at} of {path:?}")]
pub struct JsonPathError {
    path: String,
    at: usize,
    why: &'static str,
}

impl JsonPath {
    /// Reads a path such as `.status.conditions[?(@.type=="Ready")].status`.
    pub fn parse(text: &str) -> Result<JsonPath, JsonPathError> {
        let chars: Vec<char> = text.chars().collect();
        let mut parser = Parser { chars: &chars, at: 0 };
        parser.skip_start();
        match parser.steps(|_| false) {
            Ok(steps) => Ok(JsonPath { steps }),
            Err((at, why)) => Err(JsonPathError { path: text.to_owned(), at, why }),
        }
    }

    /// All values that the path leads to.
    pub fn find<'a>(&self, root: &'a Value) -> Vec<&'a Value> {
        walk(&self.steps, root)
    }

    /// The first value that the path leads to.
    pub fn first<'a>(&self, root: &'a Value) -> Option<&'a Value> {
        self.find(root).into_iter().next()
    }

    /// The names of a path that has nothing but names.
    pub fn names(&self) -> Option<Vec<&str>> {
        let name = |step: &'_ Step| matches!(step, Step::Field(_));
        self.steps.iter().all(name).then(|| {
            let names = self.steps.iter().filter_map(|step| match step {
                Step::Field(name) => Some(name.as_str()),
                _ => None,
            });
            names.collect()
        })
    }
}

fn walk<'a>(steps: &[Step], root: &'a Value) -> Vec<&'a Value> {
    let mut found = vec![root];
    for step in steps {
        found = found.into_iter().flat_map(|value| step.apply(value)).collect();
    }
    found
}

impl Step {
    fn apply<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        match self {
            Step::Field(name) => value.get(name).into_iter().collect(),
            Step::Index(index) => {
                let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
                place(*index, items.len()).and_then(|at| items.get(at)).into_iter().collect()
            }
            Step::Slice { start, end, step } => {
                let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
                let clamp = |at: Option<i64>, default: usize| match at {
                    None => default,
                    Some(at) => place(at, items.len()).unwrap_or(if at < 0 { 0 } else { items.len() }),
                };
                let (start, end) = (clamp(*start, 0), clamp(*end, items.len()));
                let step = usize::try_from(*step).unwrap_or(1).max(1);
                items.get(start..end.max(start)).unwrap_or_default().iter().step_by(step).collect()
            }
            Step::All => match value {
                Value::Array(items) => items.iter().collect(),
                Value::Object(fields) => fields.values().collect(),
                _ => Vec::new(),
            },
            Step::Descend(name) => {
                let mut found = Vec::new();
                descend(value, name, &mut found);
                found
            }
            Step::Filter { left, test } => {
                let items: Vec<&Value> = match value {
                    Value::Array(items) => items.iter().collect(),
                    Value::Object(fields) => fields.values().collect(),
                    _ => Vec::new(),
                };
                items.into_iter().filter(|item| passes(item, left, test.as_ref())).collect()
            }
        }
    }
}

fn place(index: i64, len: usize) -> Option<usize> {
    if index >= 0 {
        usize::try_from(index).ok()
    } else {
        len.checked_sub(usize::try_from(index.unsigned_abs()).ok()?)
    }
}

fn descend<'a>(value: &'a Value, name: &str, found: &mut Vec<&'a Value>) {
    let children: Vec<&Value> = match value {
        Value::Object(fields) => {
            found.extend(fields.get(name));
            fields.values().collect()
        }
        Value::Array(items) => items.iter().collect(),
        _ => Vec::new(),
    };
    children.into_iter().for_each(|child| descend(child, name, found));
}

fn passes(item: &Value, left: &Operand, test: Option<&(Test, Operand)>) -> bool {
    let get = |operand: &Operand| match operand {
        Operand::Literal(value) => Some(value.clone()),
        Operand::Path(steps) => walk(steps, item).into_iter().next().cloned(),
    };
    let Some((test, right)) = test else { return get(left).is_some() };
    let (Some(left), Some(right)) = (get(left), get(right)) else { return false };
    let order = match (left.as_f64(), right.as_f64(), left.as_str(), right.as_str()) {
        (Some(a), Some(b), ..) => a.partial_cmp(&b),
        (_, _, Some(a), Some(b)) => Some(a.cmp(b)),
        _ => (left == right).then_some(std::cmp::Ordering::Equal),
    };
    match test {
        Test::Equal => order.is_some_and(std::cmp::Ordering::is_eq),
        Test::Unequal => order.is_none_or(std::cmp::Ordering::is_ne),
        Test::Less => order.is_some_and(std::cmp::Ordering::is_lt),
        Test::LessOrEqual => order.is_some_and(std::cmp::Ordering::is_le),
        Test::Greater => order.is_some_and(std::cmp::Ordering::is_gt),
        Test::GreaterOrEqual => order.is_some_and(std::cmp::Ordering::is_ge),
    }
}

struct Parser<'a> {
    chars: &'a [char],
    at: usize,
}

type Parsed<T> = Result<T, (usize, &'static str)>;

impl Parser<'_> {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn eat(&mut self, wanted: char) -> bool {
        let there = self.peek() == Some(wanted);
        self.at += usize::from(there);
        there
    }

    fn blanks(&mut self) {
        while self.peek().is_some_and(char::is_whitespace) {
            self.at += 1;
        }
    }

    fn fail<T>(&self, why: &'static str) -> Parsed<T> {
        Err((self.at, why))
    }

    fn skip_start(&mut self) {
        self.blanks();
        if self.peek() == Some('$') || self.peek() == Some('@') {
            self.at += 1;
        }
    }

    fn steps(&mut self, stop: impl Fn(char) -> bool) -> Parsed<Vec<Step>> {
        let mut steps = Vec::new();
        while let Some(c) = self.peek().filter(|c| !stop(*c)) {
            match c {
                '.' => {
                    self.at += 1;
                    if self.eat('.') {
                        steps.push(Step::Descend(self.name()?));
                    } else if self.eat('*') {
                        steps.push(Step::All);
                    } else if self.peek().is_some_and(|c| c != '[') {
                        steps.push(Step::Field(self.name()?));
                    }
                }
                '[' => {
                    self.at += 1;
                    steps.push(self.bracket()?);
                }
                _ if steps.is_empty() => steps.push(Step::Field(self.name()?)),
                _ => return self.fail("expected . or ["),
            }
        }
        Ok(steps)
    }

    fn name(&mut self) -> Parsed<String> {
        let mut name = String::new();
        while let Some(c) = self.peek() {
            match c {
                '\\' => {
                    self.at += 1;
                    match self.peek() {
                        Some(escaped) => name.push(escaped),
                        None => return self.fail("the path ends in a backslash"),
                    }
                }
                c if c.is_alphanumeric() || matches!(c, '_' | '-' | '/' | ':') => name.push(c),
                _ => break,
            }
            self.at += 1;
        }
        if name.is_empty() { self.fail("expected a name") } else { Ok(name) }
    }

    fn bracket(&mut self) -> Parsed<Step> {
        self.blanks();
        let step = match self.peek() {
            Some('*') => {
                self.at += 1;
                Step::All
            }
            Some('?') => {
                self.at += 1;
                if !self.eat('(') {
                    return self.fail("expected ( after ?");
                }
                let step = self.filter()?;
                self.blanks();
                if !self.eat(')') {
                    return self.fail("the filter is not closed");
                }
                step
            }
            Some('\'' | '"') => match self.literal()? {
                Value::String(name) => Step::Field(name),
                _ => return self.fail("expected a name"),
            },
            _ => self.range()?,
        };
        self.blanks();
        if self.eat(']') { Ok(step) } else { self.fail("expected ]") }
    }

    fn range(&mut self) -> Parsed<Step> {
        let first = self.number();
        if !self.eat(':') {
            return first.map(Step::Index).ok_or((self.at, "expected an index"));
        }
        let end = self.number();
        let step = if self.eat(':') { self.number().unwrap_or(1) } else { 1 };
        Ok(Step::Slice { start: first, end, step })
    }

    fn number(&mut self) -> Option<i64> {
        let start = self.at;
        self.eat('-');
        while self.peek().is_some_and(|c| c.is_ascii_digit()) {
            self.at += 1;
        }
        self.chars.get(start..self.at)?.iter().collect::<String>().parse().ok()
    }

    fn filter(&mut self) -> Parsed<Step> {
        let left = self.operand()?;
        self.blanks();
        let test = match (self.peek(), self.chars.get(self.at + 1)) {
            (Some('='), Some('=')) => Test::Equal,
            (Some('!'), Some('=')) => Test::Unequal,
            (Some('<'), Some('=')) => Test::LessOrEqual,
            (Some('>'), Some('=')) => Test::GreaterOrEqual,
            (Some('<'), _) => Test::Less,
            (Some('>'), _) => Test::Greater,
            _ => return Ok(Step::Filter { left, test: None }),
        };
        self.at += if matches!(test, Test::Less | Test::Greater) { 1 } else { 2 };
        let right = self.operand()?;
        Ok(Step::Filter { left, test: Some((test, right)) })
    }

    fn operand(&mut self) -> Parsed<Operand> {
        self.blanks();
        if self.peek() == Some('@') {
            self.at += 1;
            let steps = self.steps(|c| c.is_whitespace() || matches!(c, '=' | '!' | '<' | '>' | ')'))?;
            return Ok(Operand::Path(steps));
        }
        self.literal().map(Operand::Literal)
    }

    fn literal(&mut self) -> Parsed<Value> {
        if let Some(quote @ ('\'' | '"')) = self.peek() {
            self.at += 1;
            let mut text = String::new();
            while let Some(c) = self.peek() {
                self.at += 1;
                match c {
                    '\\' => {
                        text.extend(self.peek());
                        self.at += 1;
                    }
                    c if c == quote => return Ok(Value::String(text)),
                    c => text.push(c),
                }
            }
            return self.fail("the text is not closed");
        }
        let start = self.at;
        while self.peek().is_some_and(|c| c.is_alphanumeric() || matches!(c, '-' | '+' | '.')) {
            self.at += 1;
        }
        let text: String = self.chars.get(start..self.at).unwrap_or_default().iter().collect();
        match text.as_str() {
            "true" => Ok(Value::Bool(true)),
            "false" => Ok(Value::Bool(false)),
            number => serde_json::from_str(number).map_err(|_| (start, "expected a literal")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use serde_json::json;

    fn check(path: &str, expect: Expect) {
        let object = json!({
            "spec": {"a.b": 1, "list": [10, 20, 30], "deep": {"name": "x"}},
            "status": {"conditions": [
                {"type": "Ready", "status": "True", "n": 3},
                {"type": "Bound", "status": "False", "n": 1},
            ]},
        });
        let shown = match JsonPath::parse(path) {
            Ok(parsed) => {
                format!("{:?}", parsed.find(&object).iter().map(ToString::to_string).collect::<Vec<_>>())
            }
            Err(error) => error.to_string(),
        };
        expect.assert_eq(&shown);
    }

    #[test]
    fn paths_lead_where_kubectl_would_go() {
        check(".spec.list[1]", expect![[r#"["20"]"#]]);
        check(".spec.list[-1:]", expect![[r#"["30"]"#]]);
        check(".spec.list[0:2]", expect![[r#"["10", "20"]"#]]);
        check(r".spec.a\.b", expect![[r#"["1"]"#]]);
        check(".spec['a.b']", expect![[r#"["1"]"#]]);
        check(".status.conditions[?(@.type==\"Ready\")].status", expect![[r#"["\"True\""]"#]]);
        check(".status.conditions[?(@.n < 2)].type", expect![[r#"["\"Bound\""]"#]]);
        check(".status.conditions[*].type", expect![[r#"["\"Ready\"", "\"Bound\""]"#]]);
        check("..name", expect![[r#"["\"x\""]"#]]);
        check(".spec.none.at.all", expect!["[]"]);
    }

    #[test]
    fn a_broken_path_says_where() {
        check(".spec[", expect![[r#"expected an index at character 6 of ".spec[""#]]);
        check(".spec[?(@.a==)]", expect![[r#"expected a literal at character 13 of ".spec[?(@.a==)]""#]]);
    }
}
