//! Types of expressions, mistakes in the words of cel-go, and the most that an evaluation can cost.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::parser::{Mistake, parse};
use super::signatures::{ordered, overloads};
use super::syntax::{Comprehension, Expr, Kind, Literal, MacroKind, Place};
use super::types::{Type, UNBOUNDED};

/// A checked expression.
#[derive(Clone, Debug)]
pub(super) struct Checked {
    pub(super) expr: Expr,
    pub(super) ty: Type,
    pub(super) cost: u64,
    pub(super) uses_old: bool,
}

/// Namespaces whose functions look like methods.
const NAMESPACES: [&str; 7] = ["ip", "math", "sets", "optional", "format", "cel", "base64"];

/// Parses and checks. The error is the whole report, as cel-go prints it.
pub(super) fn compile(text: &str, variables: &[(&str, Type)]) -> Result<Checked, String> {
    let expr = parse(text).map_err(|mistake| report(text, &[mistake]))?;
    let mut checker = Checker {
        scopes: variables.iter().map(|(name, ty)| ((*name).to_owned(), ty.clone())).collect(),
        mistakes: Vec::new(),
        uses_old: false,
    };
    let node = checker.check(&expr);
    if checker.mistakes.is_empty() {
        Ok(Checked { expr, ty: node.ty.plain().clone(), cost: node.cost, uses_old: checker.uses_old })
    } else {
        checker.mistakes.sort_by_key(|mistake| mistake.at);
        Err(report(text, &checker.mistakes))
    }
}

/// Mistakes with their lines and an arrow.
fn report(text: &str, mistakes: &[Mistake]) -> String {
    let chars: Vec<char> = text.chars().collect();
    let one = |mistake: &Mistake| {
        let before = chars.get(..mistake.at.min(chars.len())).unwrap_or_default();
        let line = before.iter().filter(|c| **c == '\n').count();
        let column = before.iter().rev().take_while(|c| **c != '\n').count();
        let source = text.split('\n').nth(line).unwrap_or_default().replace('\t', " ");
        format!(
            "ERROR: <input>:{}:{}: {}\n | {source}\n | {}^",
            line + 1,
            column + 1,
            mistake.message,
            ".".repeat(column)
        )
    };
    mistakes.iter().map(one).collect::<Vec<_>>().join("\n")
}

/// What is known of a part of an expression.
#[derive(Clone)]
struct Node {
    ty: Type,
    cost: u64,
}

impl Node {
    fn size(&self) -> u64 {
        self.ty.size()
    }
}

struct Checker {
    scopes: Vec<(String, Type)>,
    mistakes: Vec<Mistake>,
    uses_old: bool,
}

/// A tenth of a text is looked at in the time of one step.
fn tenth(size: u64) -> u64 {
    size.div_ceil(10)
}

impl Checker {
    fn mistake(&mut self, at: Place, message: impl Into<String>) -> Node {
        self.mistakes.push(Mistake { at, message: message.into() });
        Node { ty: Type::Dyn, cost: 0 }
    }

    fn check(&mut self, expr: &Expr) -> Node {
        match &expr.kind {
            Kind::Literal(literal) => Node { ty: literal_type(literal), cost: 0 },
            Kind::Name(name) => self.name(expr.at, name),
            Kind::Field { operand, field, optional } => {
                let operand = self.check(operand);
                let node = self.field(expr.at, &operand, field);
                let ty = if *optional { Type::optional(node.ty) } else { node.ty };
                Node { ty, cost: node.cost }
            }
            Kind::Has { operand, field } => {
                let operand = self.check(operand);
                let node = self.field(expr.at, &operand, field);
                Node { ty: Type::Bool, cost: node.cost }
            }
            Kind::Index { operand, index, optional } => {
                let (operand, index) = (self.check(operand), self.check(index));
                let function = if *optional { "_[?_]" } else { "_[_]" };
                self.call(expr.at, function, false, &[operand, index])
            }
            Kind::Call { target, function, arguments } => {
                self.any_call(expr.at, target.as_deref(), function, arguments)
            }
            Kind::List(items) => {
                let nodes: Vec<Node> = items.iter().map(|item| self.check(&item.value)).collect();
                let cost = nodes.iter().fold(10u64, |sum, node| sum.saturating_add(node.cost));
                let size = u64::try_from(items.len()).unwrap_or(UNBOUNDED);
                Node { ty: Type::list(joined(nodes.into_iter().map(|node| node.ty))).sized(size), cost }
            }
            Kind::Map(entries) => {
                let nodes: Vec<(Node, Node)> =
                    entries.iter().map(|(key, value, _)| (self.check(key), self.check(value))).collect();
                let cost = nodes
                    .iter()
                    .fold(30u64, |sum, (key, value)| sum.saturating_add(key.cost).saturating_add(value.cost));
                let size = u64::try_from(entries.len()).unwrap_or(UNBOUNDED);
                let keys = joined(nodes.iter().map(|(key, _)| key.ty.clone()));
                let values = joined(nodes.iter().map(|(_, value)| value.ty.clone()));
                Node { ty: Type::map(keys, values).sized(size), cost }
            }
            Kind::Macro(comprehension) => self.comprehension(expr.at, comprehension),
        }
    }

    fn name(&mut self, at: Place, name: &str) -> Node {
        if let Some((_, ty)) = self.scopes.iter().rev().find(|(known, _)| known == name) {
            let ty = ty.clone();
            self.uses_old |= name == "oldSelf";
            return Node { ty, cost: 1 };
        }
        let types = [
            "bool",
            "int",
            "uint",
            "double",
            "string",
            "bytes",
            "list",
            "map",
            "null_type",
            "type",
            "duration",
            "timestamp",
        ];
        if types.contains(&name) {
            return Node { ty: Type::Kind, cost: 1 };
        }
        self.mistake(at, format!("undeclared reference to '{name}' (in container '')"))
    }

    fn field(&mut self, at: Place, operand: &Node, field: &str) -> Node {
        let cost = operand.cost.saturating_add(1);
        let (plain, optional) = match operand.ty.plain() {
            Type::Optional(inner) => (inner.plain().clone(), true),
            other => (other.clone(), false),
        };
        let ty = match &plain {
            Type::Object(object) => match object.fields.get(field) {
                Some((_, ty)) => ty.clone(),
                None => return self.mistake(at, format!("undefined field '{field}'")),
            },
            Type::Map(_, value) => (**value).clone(),
            Type::Dyn | Type::Any(_) => Type::Dyn,
            other => {
                let message = format!("type '{other}' does not support field selection");
                return self.mistake(at, message);
            }
        };
        Node { ty: if optional { Type::optional(ty) } else { ty }, cost }
    }

    fn any_call(&mut self, at: Place, target: Option<&Expr>, function: &str, arguments: &[Expr]) -> Node {
        if let Some(Expr { kind: Kind::Name(space), .. }) = target {
            let known = self.scopes.iter().any(|(name, _)| name == space);
            if NAMESPACES.contains(&space.as_str()) && !known {
                let nodes: Vec<Node> = arguments.iter().map(|argument| self.check(argument)).collect();
                return self.call(at, &format!("{space}.{function}"), false, &nodes);
            }
        }
        let mut nodes: Vec<Node> = target.into_iter().map(|target| self.check(target)).collect();
        nodes.extend(arguments.iter().map(|argument| self.check(argument)).collect::<Vec<_>>());
        self.call(at, function, target.is_some(), &nodes)
    }

    fn call(&mut self, at: Place, function: &str, method: bool, arguments: &[Node]) -> Node {
        if matches!(function, "_<_" | "_<=_" | "_>_" | "_>=_") {
            return self.comparison(at, function, arguments);
        }
        let known = overloads(function, method);
        if known.is_empty() {
            let message = format!("undeclared reference to '{function}' (in container '')");
            return self.mistake(at, message);
        }
        for overload in known {
            if overload.arguments.len() != arguments.len() {
                continue;
            }
            let mut bound = BTreeMap::new();
            let fits = overload
                .arguments
                .iter()
                .zip(arguments)
                .all(|(wanted, given)| bind(wanted, &given.ty, &mut bound));
            if fits {
                let ty = substitute(&overload.result, &bound);
                let (cost, size) = call_cost(function, arguments);
                let ty = size.map_or(ty.clone(), |size| ty.sized(size));
                return Node { ty, cost };
            }
        }
        self.no_overload(at, function, method, arguments)
    }

    fn no_overload(&mut self, at: Place, function: &str, method: bool, arguments: &[Node]) -> Node {
        let types: Vec<String> = arguments.iter().map(|node| node.ty.to_string()).collect();
        let applied = match types.split_first() {
            Some((target, rest)) if method => format!("{target}.({})", rest.join(", ")),
            _ => format!("({})", types.join(", ")),
        };
        self.mistake(at, format!("found no matching overload for '{function}' applied to '{applied}'"))
    }

    fn comparison(&mut self, at: Place, function: &str, arguments: &[Node]) -> Node {
        let [left, right] = arguments else { return self.no_overload(at, function, false, arguments) };
        let number = |ty: &Type| matches!(ty.plain(), Type::Int | Type::Uint | Type::Double | Type::Dyn);
        let same = left.ty.fits(&right.ty) || (number(&left.ty) && number(&right.ty));
        if !same || !ordered(&left.ty) || !ordered(&right.ty) {
            return self.no_overload(at, function, false, arguments);
        }
        let text = matches!(left.ty.plain(), Type::Text | Type::Bytes);
        let own = if text { tenth(left.size().min(right.size())) } else { 1 };
        Node { ty: Type::Bool, cost: sum(arguments).saturating_add(own) }
    }

    fn comprehension(&mut self, at: Place, one: &Comprehension) -> Node {
        let range = self.check(&one.range);
        let size = range.size();
        let plain = range.ty.plain().clone();
        let (first, value) = match (&plain, one.kind) {
            (_, MacroKind::Bind) => (range.ty.clone(), Type::Dyn),
            (Type::Optional(inner), MacroKind::OptMap | MacroKind::OptFlatMap) => {
                ((**inner).clone(), Type::Dyn)
            }
            (Type::List(item), _) if one.second.is_some() => (Type::Int, (**item).clone()),
            (Type::List(item), _) => ((**item).clone(), Type::Dyn),
            (Type::Map(key, value), _) => ((**key).clone(), (**value).clone()),
            (Type::Dyn | Type::Any(_), _) => (Type::Dyn, Type::Dyn),
            (other, _) => {
                let message = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                return self.mistake(one.range.at, message);
            }
        };
        let depth = self.scopes.len();
        self.scopes.push((one.variable.clone(), first.clone()));
        if let Some(second) = &one.second {
            self.scopes.push((second.clone(), value));
        }
        let filter = one.filter.as_ref().map(|filter| self.check(filter));
        let body = self.check(&one.body);
        self.scopes.truncate(depth);
        if let Some(filter) = filter.as_ref().filter(|filter| !filter.ty.fits(&Type::Bool)) {
            return self.no_overload(at, "_?_:_", false, std::slice::from_ref(filter));
        }
        let boolean =
            matches!(one.kind, MacroKind::All | MacroKind::Exists | MacroKind::ExistsOne | MacroKind::Filter);
        if boolean && !body.ty.fits(&Type::Bool) {
            let function = match one.kind {
                MacroKind::All => "_&&_",
                MacroKind::Exists => "_||_",
                _ => "_?_:_",
            };
            let message =
                format!("found no matching overload for '{function}' applied to '(bool, {})'", body.ty);
            return self.mistake(at, message);
        }
        let step = body.cost.saturating_add(filter.map_or(0, |filter| filter.cost));
        let (ty, overhead) = match one.kind {
            MacroKind::All | MacroKind::Exists => (Type::Bool, 3),
            MacroKind::ExistsOne => (Type::Bool, 4),
            MacroKind::Filter => (Type::list(first).sized(size), 13),
            MacroKind::Map | MacroKind::TransformList => (Type::list(body.ty).sized(size), 12),
            MacroKind::TransformMap => {
                let key = if matches!(plain, Type::List(_)) { Type::Int } else { first };
                (Type::map(key, body.ty).sized(size), 32)
            }
            MacroKind::SortBy => (Type::list(first).sized(size), 12),
            MacroKind::OptMap => {
                return Node {
                    ty: Type::optional(body.ty),
                    cost: range.cost.saturating_add(step).saturating_add(3),
                };
            }
            MacroKind::OptFlatMap | MacroKind::Bind => {
                return Node { ty: body.ty, cost: range.cost.saturating_add(step).saturating_add(2) };
            }
        };
        let cost =
            size.saturating_mul(step.saturating_add(overhead)).saturating_add(range.cost).saturating_add(1);
        Node { ty, cost }
    }
}

fn literal_type(literal: &Literal) -> Type {
    let length = |length: usize| u64::try_from(length).unwrap_or(UNBOUNDED);
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::Text(text) => Type::Text.sized(length(text.chars().count())),
        Literal::Bytes(bytes) => Type::Bytes.sized(length(bytes.len())),
    }
}

/// The common type of a literal's items.
fn joined(mut types: impl Iterator<Item = Type>) -> Type {
    let Some(first) = types.next() else { return Type::Any('_') };
    let mut size = first.size();
    for other in types {
        if !first.fits(&other) || matches!(other.plain(), Type::Dyn) {
            return Type::Dyn;
        }
        size = size.max(other.size());
    }
    first.plain().clone().sized(size)
}

fn bind(wanted: &Type, given: &Type, bound: &mut BTreeMap<char, Type>) -> bool {
    match (wanted.plain(), given.plain()) {
        (Type::Any(name), _) => match bound.get(name).cloned() {
            Some(known) => {
                if matches!(known.plain(), Type::Null | Type::Any(_)) {
                    bound.insert(*name, given.clone());
                }
                known.fits(given)
            }
            None => {
                bound.insert(*name, given.clone());
                true
            }
        },
        (_, Type::Dyn | Type::Any(_)) => true,
        (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => bind(a, b, bound),
        (Type::Map(a, b), Type::Map(c, d)) => bind(a, c, bound) && bind(b, d, bound),
        (wanted, given) => wanted.fits(given),
    }
}

fn substitute(ty: &Type, bound: &BTreeMap<char, Type>) -> Type {
    match ty {
        Type::Any(name) => bound.get(name).cloned().unwrap_or(Type::Dyn),
        Type::List(item) => Type::list(substitute(item, bound)),
        Type::Map(key, value) => Type::map(substitute(key, bound), substitute(value, bound)),
        Type::Optional(inner) => Type::Optional(Arc::new(substitute(inner, bound))),
        other => other.clone(),
    }
}

fn sum(arguments: &[Node]) -> u64 {
    arguments.iter().fold(0, |sum, node| sum.saturating_add(node.cost))
}

/// The most that a call costs with its arguments, and the size of its result where that is known.
fn call_cost(function: &str, arguments: &[Node]) -> (u64, Option<u64>) {
    let all = sum(arguments);
    let size = |at: usize| arguments.get(at).map_or(0, Node::size);
    let sized = |at: usize| {
        arguments.get(at).is_some_and(|node| {
            matches!(node.ty.plain(), Type::Text | Type::Bytes | Type::List(_) | Type::Map(..))
        })
    };
    let text = tenth(size(0));
    let (own, result) = match function {
        "_?_:_" => {
            let cost = |at: usize| arguments.get(at).map_or(0, |node| node.cost);
            return (cost(0).saturating_add(cost(1).max(cost(2))), Some(size(1).max(size(2))));
        }
        "_&&_" | "_||_" => (0, None),
        "_==_" | "_!=_" if sized(0) => (tenth(size(0).min(size(1))), None),
        "_+_" if sized(0) => {
            let both = size(0).saturating_add(size(1));
            (tenth(both), Some(both))
        }
        "@in" if arguments.get(1).is_some_and(|node| matches!(node.ty.plain(), Type::List(_))) => {
            (size(1), None)
        }
        "startsWith" | "endsWith" => (tenth(size(1)), None),
        "contains" => (text.saturating_mul(tenth(size(1))), None),
        "matches" | "find" | "findAll" => (text.saturating_mul(size(1).div_ceil(4).max(1)), Some(size(0))),
        "lowerAscii" | "upperAscii" | "trim" | "replace" | "substring" | "reverse" | "split" | "charAt" => {
            (text, Some(size(0)))
        }
        "join" | "format" => (text, Some(size(0))),
        "isSorted" | "sum" | "min" | "max" | "distinct" | "sort" | "flatten" | "slice" => {
            (size(0), Some(size(0)))
        }
        "indexOf" | "lastIndexOf" => (size(0), None),
        "sets.contains" | "sets.equivalent" | "sets.intersects" => (size(0).saturating_mul(size(1)), None),
        "url" | "isURL" | "quantity" | "isQuantity" | "ip" | "isIP" | "cidr" | "isCIDR" | "semver"
        | "isSemver" | "bytes" => (text.max(1), Some(size(0))),
        // Numbers and the like are short.
        "string" => match arguments.first().map(|node| node.ty.plain().clone()) {
            Some(Type::Text | Type::Bytes | Type::Dyn) => (text.max(1), Some(size(0))),
            _ => (1, Some(64)),
        },
        _ => (1, None),
    };
    (all.saturating_add(own), result)
}
