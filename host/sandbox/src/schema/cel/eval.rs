//! Evaluation, within a limit of cost.

use std::rc::Rc;

use super::library;
use super::syntax::{Comprehension, Expr, Kind, Literal, MacroKind};
use super::value::Value;

/// Why there is no value, in the words of cel-go.
pub(super) type Failure = String;
type Evaluated<'a> = Result<Value<'a>, Failure>;

/// What cel-go says when a rule is too expensive.
pub(super) const TOO_EXPENSIVE: &str = "operation cancelled: actual cost limit exceeded";

/// An evaluation under way.
pub(super) struct Evaluation<'a> {
    scopes: Vec<(&'a str, Value<'a>)>,
    /// Spent so far.
    pub(super) cost: u64,
    limit: u64,
}

impl<'a> Evaluation<'a> {
    pub(super) fn new(variables: Vec<(&'a str, Value<'a>)>, limit: u64) -> Self {
        Evaluation { scopes: variables, cost: 0, limit }
    }

    pub(super) fn spend(&mut self, cost: u64) -> Result<(), Failure> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.limit { Err(TOO_EXPENSIVE.to_owned()) } else { Ok(()) }
    }

    pub(super) fn run(&mut self, expr: &'a Expr) -> Evaluated<'a> {
        match &expr.kind {
            Kind::Literal(literal) => Ok(of_literal(literal)),
            Kind::Name(name) => {
                self.spend(1)?;
                if let Some((_, value)) = self.scopes.iter().rev().find(|(known, _)| known == name) {
                    return Ok(value.clone());
                }
                library::type_named(name).ok_or_else(|| format!("no such attribute(s): {name}"))
            }
            Kind::Field { operand, field, optional } => {
                let operand = self.run(operand)?;
                self.spend(1)?;
                select(&operand, field, *optional)
            }
            Kind::Has { operand, field } => {
                let operand = self.run(operand)?;
                self.spend(1)?;
                let found = match &operand {
                    Value::Optional(None) => None,
                    Value::Optional(Some(inner)) => inner.field(field),
                    other => other.field(field),
                };
                Ok(Value::Bool(found.is_some()))
            }
            Kind::Index { operand, index, optional } => {
                let (operand, index) = (self.run(operand)?, self.run(index)?);
                self.spend(1)?;
                at(&operand, &index, *optional)
            }
            Kind::Call { target, function, arguments } => self.call(target.as_deref(), function, arguments),
            Kind::List(items) => {
                self.spend(10)?;
                let mut list = Vec::with_capacity(items.len());
                for item in items {
                    match self.run(&item.value)? {
                        Value::Optional(inner) if item.optional => {
                            list.extend(inner.map(Rc::unwrap_or_clone))
                        }
                        value => list.push(value),
                    }
                }
                Ok(Value::List(Rc::new(list)))
            }
            Kind::Map(entries) => {
                self.spend(30)?;
                let mut map = Vec::with_capacity(entries.len());
                for (key, value, optional) in entries {
                    let key = self.run(key)?;
                    match self.run(value)? {
                        Value::Optional(inner) if *optional => {
                            map.extend(inner.map(|inner| (key, Rc::unwrap_or_clone(inner))));
                        }
                        value => map.push((key, value)),
                    }
                }
                Ok(Value::Map(Rc::new(map)))
            }
            Kind::Macro(comprehension) => self.comprehension(comprehension),
        }
    }

    fn call(&mut self, target: Option<&'a Expr>, function: &'a str, arguments: &'a [Expr]) -> Evaluated<'a> {
        match (function, arguments) {
            ("_&&_", [left, right]) => return self.logic(left, right, false),
            ("_||_", [left, right]) => return self.logic(left, right, true),
            ("_?_:_", [condition, then, otherwise]) => {
                return match self.run(condition)? {
                    Value::Bool(true) => self.run(then),
                    Value::Bool(false) => self.run(otherwise),
                    _ => Err("no such overload".to_owned()),
                };
            }
            _ => {}
        }
        let mut space = None;
        let mut values = Vec::with_capacity(arguments.len() + 1);
        match target {
            Some(Expr { kind: Kind::Name(name), .. })
                if library::is_namespace(name) && !self.scopes.iter().any(|(known, _)| known == name) =>
            {
                space = Some(name);
            }
            Some(target) => values.push(self.run(target)?),
            None => {}
        }
        for argument in arguments {
            values.push(self.run(argument)?);
        }
        let full;
        let name = match space {
            Some(space) => {
                full = format!("{space}.{function}");
                &full
            }
            None => function,
        };
        library::call(self, name, target.is_some() && space.is_none(), &values)
    }

    /// `&&` and `||`: one side may fail if the other decides.
    fn logic(&mut self, left: &'a Expr, right: &'a Expr, decisive: bool) -> Evaluated<'a> {
        let left = self.run(left);
        if matches!(left, Ok(Value::Bool(flag)) if flag == decisive) {
            return Ok(Value::Bool(decisive));
        }
        if left.as_ref().is_err_and(|failure| failure == TOO_EXPENSIVE) {
            return left;
        }
        let right = self.run(right);
        match (left, right) {
            (_, Ok(Value::Bool(flag))) if flag == decisive => Ok(Value::Bool(decisive)),
            (Ok(Value::Bool(_)), Ok(Value::Bool(_))) => Ok(Value::Bool(!decisive)),
            (Err(failure), _) | (_, Err(failure)) => Err(failure),
            _ => Err("no such overload".to_owned()),
        }
    }

    fn with<T>(
        &mut self,
        one: &'a Comprehension,
        first: Value<'a>,
        second: Option<Value<'a>>,
        run: impl FnOnce(&mut Self) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let depth = self.scopes.len();
        self.scopes.push((&one.variable, first));
        if let (Some(name), Some(value)) = (&one.second, second) {
            self.scopes.push((name, value));
        }
        let result = run(self);
        self.scopes.truncate(depth);
        result
    }

    fn comprehension(&mut self, one: &'a Comprehension) -> Evaluated<'a> {
        let range = self.run(&one.range)?;
        match one.kind {
            MacroKind::Bind => return self.with(one, range, None, |run| run.run(&one.body)),
            MacroKind::OptMap | MacroKind::OptFlatMap => {
                let Value::Optional(Some(inner)) = range else { return Ok(Value::Optional(None)) };
                let inner = Rc::unwrap_or_clone(inner);
                let value = self.with(one, inner, None, |run| run.run(&one.body))?;
                return Ok(match one.kind {
                    MacroKind::OptMap => Value::Optional(Some(Rc::new(value))),
                    _ => value,
                });
            }
            _ => {}
        }
        let steps: Vec<(Value<'a>, Option<Value<'a>>)> = match &range {
            Value::List(items) if one.second.is_some() => {
                (0i64..).zip(items.iter()).map(|(at, item)| (Value::Int(at), Some(item.clone()))).collect()
            }
            Value::List(items) => items.iter().map(|item| (item.clone(), None)).collect(),
            Value::Map(_) | Value::Object(..) => {
                range.entries().into_iter().map(|(key, value)| (key, Some(value))).collect()
            }
            _ => return Err("no such overload".to_owned()),
        };
        match one.kind {
            MacroKind::All => self.quantified(one, steps, false),
            MacroKind::Exists => self.quantified(one, steps, true),
            _ => self.collected(one, steps),
        }
    }

    /// `all` and `exists`: errors are forgiven if another item decides.
    fn quantified(
        &mut self,
        one: &'a Comprehension,
        steps: Vec<(Value<'a>, Option<Value<'a>>)>,
        decisive: bool,
    ) -> Evaluated<'a> {
        let mut failed = None;
        for (first, second) in steps {
            self.spend(3)?;
            match self.with(one, first, second, |run| run.run(&one.body)) {
                Ok(Value::Bool(flag)) if flag == decisive => return Ok(Value::Bool(decisive)),
                Ok(Value::Bool(_)) => {}
                Ok(_) => failed = failed.or(Some("no such overload".to_owned())),
                Err(failure) if failure == TOO_EXPENSIVE => return Err(failure),
                Err(failure) => failed = failed.or(Some(failure)),
            }
        }
        failed.map_or(Ok(Value::Bool(!decisive)), Err)
    }

    fn collected(
        &mut self,
        one: &'a Comprehension,
        steps: Vec<(Value<'a>, Option<Value<'a>>)>,
    ) -> Evaluated<'a> {
        let mut list = Vec::new();
        let mut map = Vec::new();
        let mut keyed: Vec<(Value<'a>, Value<'a>)> = Vec::new();
        let mut count = 0usize;
        for (first, second) in steps {
            self.spend(3)?;
            let kept = match &one.filter {
                Some(filter) => self.with(one, first.clone(), second.clone(), |run| run.run(filter))?,
                None => Value::Bool(true),
            };
            if !matches!(kept, Value::Bool(true)) {
                continue;
            }
            let value = self.with(one, first.clone(), second.clone(), |run| run.run(&one.body))?;
            match (one.kind, value) {
                (MacroKind::Filter, Value::Bool(true)) => list.push(first),
                (MacroKind::ExistsOne, Value::Bool(flag)) => count += usize::from(flag),
                (MacroKind::Filter, Value::Bool(false)) => {}
                (MacroKind::Filter | MacroKind::ExistsOne, _) => return Err("no such overload".to_owned()),
                (MacroKind::TransformMap, value) => map.push((first, value)),
                (MacroKind::SortBy, key) => keyed.push((key, first)),
                (_, value) => list.push(value),
            }
        }
        Ok(match one.kind {
            MacroKind::ExistsOne => Value::Bool(count == 1),
            MacroKind::TransformMap => Value::Map(Rc::new(map)),
            MacroKind::SortBy => {
                keyed.sort_by(|(a, _), (b, _)| a.order(b).unwrap_or(std::cmp::Ordering::Equal));
                Value::List(Rc::new(keyed.into_iter().map(|(_, value)| value).collect()))
            }
            _ => Value::List(Rc::new(list)),
        })
    }
}

fn of_literal<'a>(literal: &Literal) -> Value<'a> {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(flag) => Value::Bool(*flag),
        Literal::Int(int) => Value::Int(*int),
        Literal::Uint(uint) => Value::Uint(*uint),
        Literal::Double(double) => Value::Double(*double),
        Literal::Text(text) => Value::text(text),
        Literal::Bytes(bytes) => Value::Bytes(bytes.as_slice().into()),
    }
}

fn wrap<'a>(found: Option<Value<'a>>) -> Value<'a> {
    Value::Optional(found.map(Rc::new))
}

fn select<'a>(operand: &Value<'a>, field: &str, optional: bool) -> Evaluated<'a> {
    if let Value::Optional(inner) = operand {
        return Ok(wrap(inner.as_ref().and_then(|inner| inner.field(field))));
    }
    match (operand.field(field), optional) {
        (found, true) => Ok(wrap(found)),
        (Some(found), false) => Ok(found),
        (None, false) if matches!(operand, Value::Map(_) | Value::Object(..)) => {
            Err(format!("no such key: {field}"))
        }
        (None, false) => Err("no such overload".to_owned()),
    }
}

fn at<'a>(operand: &Value<'a>, index: &Value<'a>, optional: bool) -> Evaluated<'a> {
    if let Value::Optional(inner) = operand {
        return match inner {
            None => Ok(Value::Optional(None)),
            Some(inner) => at(inner, index, true),
        };
    }
    let whole = match index {
        Value::Int(at) => Some(*at),
        Value::Uint(at) => i64::try_from(*at).ok(),
        #[allow(clippy::cast_possible_truncation)] // Whole.
        Value::Double(at) if at.fract() == 0.0 => Some(*at as i64),
        _ => None,
    };
    let (found, failure) = match operand {
        Value::List(items) => {
            let Some(place) = whole else { return Err("no such overload".to_owned()) };
            (
                usize::try_from(place).ok().and_then(|at| items.get(at).cloned()),
                format!("index out of bounds: {place}"),
            )
        }
        Value::Map(_) | Value::Object(..) => {
            let found =
                operand.entries().into_iter().find(|(key, _)| key.same(index)).map(|(_, value)| value);
            (found, format!("no such key: {}", index.shown()))
        }
        _ => return Err("no such overload".to_owned()),
    };
    match (found, optional) {
        (found, true) => Ok(wrap(found)),
        (Some(found), false) => Ok(found),
        (None, false) => Err(failure),
    }
}
