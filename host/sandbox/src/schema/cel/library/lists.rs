//! Functions on lists and sets, and the smallest and the greatest.

use std::rc::Rc;

use super::{Called, no_overload, operator};
use crate::schema::cel::value::Value;

pub(super) fn call<'a>(name: &str, method: bool, values: &[Value<'a>]) -> Option<Called<'a>> {
    match (name, values) {
        ("math.greatest", values) => return Some(extreme(values, true)),
        ("math.least", values) => return Some(extreme(values, false)),
        ("sets.contains", [Value::List(all), Value::List(some)]) => {
            return Some(Ok(Value::Bool(contains(all, some))));
        }
        ("sets.equivalent", [Value::List(one), Value::List(other)]) => {
            return Some(Ok(Value::Bool(contains(one, other) && contains(other, one))));
        }
        ("sets.intersects", [Value::List(one), Value::List(other)]) => {
            return Some(Ok(Value::Bool(one.iter().any(|item| has(other, item)))));
        }
        _ => {}
    }
    let [Value::List(items), rest @ ..] = values else { return None };
    if !method {
        return None;
    }
    let list = |items: Vec<Value<'a>>| Ok(Value::List(Rc::new(items)));
    Some(match (name, rest) {
        ("isSorted", []) => Ok(Value::Bool(
            items.windows(2).all(|two| two[0].order(&two[1]).is_none_or(std::cmp::Ordering::is_le)),
        )),
        ("sum", []) => sum(items),
        ("min", []) if items.is_empty() => Err("min called on empty list".to_owned()),
        ("max", []) if items.is_empty() => Err("max called on empty list".to_owned()),
        ("min", []) => extreme(items, false),
        ("max", []) => extreme(items, true),
        ("indexOf", [item]) => Ok(place(items.iter().position(|one| one.same(item)))),
        ("lastIndexOf", [item]) => Ok(place(items.iter().rposition(|one| one.same(item)))),
        ("distinct", []) => {
            let mut kept: Vec<Value<'a>> = Vec::new();
            items.iter().for_each(|item| {
                if !has(&kept, item) {
                    kept.push(item.clone());
                }
            });
            list(kept)
        }
        ("reverse", []) => list(items.iter().rev().cloned().collect()),
        ("sort", []) => {
            let mut sorted = items.to_vec();
            sorted.sort_by(|a, b| a.order(b).unwrap_or(std::cmp::Ordering::Equal));
            list(sorted)
        }
        ("slice", [Value::Int(from), Value::Int(to)]) => {
            let range = usize::try_from(*from).ok().zip(usize::try_from(*to).ok());
            match range.and_then(|(from, to)| items.get(from..to)) {
                Some(part) => list(part.to_vec()),
                None => Err(format!("cannot slice({from}, {to}), list is length {}", items.len())),
            }
        }
        ("flatten", []) => list(
            items
                .iter()
                .flat_map(|item| match item {
                    Value::List(inner) => inner.to_vec(),
                    other => vec![other.clone()],
                })
                .collect(),
        ),
        ("first", []) => Ok(Value::Optional(items.first().cloned().map(Rc::new))),
        ("last", []) => Ok(Value::Optional(items.last().cloned().map(Rc::new))),
        _ => return None,
    })
}

fn place<'a>(at: Option<usize>) -> Value<'a> {
    Value::Int(at.and_then(|at| i64::try_from(at).ok()).unwrap_or(-1))
}

fn has(items: &[Value<'_>], item: &Value<'_>) -> bool {
    items.iter().any(|one| one.same(item))
}

fn contains(all: &[Value<'_>], some: &[Value<'_>]) -> bool {
    some.iter().all(|item| has(all, item))
}

fn sum<'a>(items: &[Value<'a>]) -> Called<'a> {
    let Some((first, rest)) = items.split_first() else { return Ok(Value::Int(0)) };
    rest.iter().try_fold(first.clone(), |sum, item| {
        operator("_+_", &[sum.clone(), item.clone()])
            .or_else(|| super::time::call("_+_", false, &[sum, item.clone()]))
            .unwrap_or_else(no_overload)
    })
}

fn extreme<'a>(values: &[Value<'a>], greatest: bool) -> Called<'a> {
    let items = match values {
        [Value::List(items)] => items.to_vec(),
        values => values.to_vec(),
    };
    let better = |a: &Value<'_>, b: &Value<'_>| {
        a.order(b).is_some_and(|order| if greatest { order.is_lt() } else { order.is_gt() })
    };
    items
        .into_iter()
        .reduce(|best, next| if better(&best, &next) { next } else { best })
        .ok_or_else(|| "no such overload".to_owned())
}
