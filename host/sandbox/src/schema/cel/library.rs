//! Operators and functions.

mod lists;
mod network;
mod text;
mod time;

use std::rc::Rc;

use super::eval::{Evaluation, Failure};
use super::value::Value;
use crate::schema::native::quantity::Quantity;

pub(super) type Called<'a> = Result<Value<'a>, Failure>;

/// What cel-go says when arguments do not fit any form of a function.
pub(super) fn no_overload<'a>() -> Called<'a> {
    Err("no such overload".to_owned())
}

/// Namespaces whose functions look like methods.
pub(super) fn is_namespace(name: &str) -> bool {
    matches!(name, "ip" | "math" | "sets" | "optional" | "format" | "cel" | "base64")
}

/// A type by its name.
pub(super) fn type_named<'a>(name: &str) -> Option<Value<'a>> {
    Some(Value::Type(match name {
        "bool" => "bool",
        "int" => "int",
        "uint" => "uint",
        "double" => "double",
        "string" => "string",
        "bytes" => "bytes",
        "list" => "list",
        "map" => "map",
        "null_type" => "null_type",
        "type" => "type",
        _ => return None,
    }))
}

/// Calls a function, or a method (whose target is the first of the values).
pub(super) fn call<'a>(
    run: &mut Evaluation<'a>,
    name: &str,
    method: bool,
    values: &[Value<'a>],
) -> Called<'a> {
    run.spend(cost(name, values))?;
    if let Some(result) = operator(name, values) {
        return result;
    }
    for part in [text::call, lists::call, time::call, network::call, quantities, optionals] {
        if let Some(result) = part(name, method, values) {
            return result;
        }
    }
    no_overload()
}

fn size(value: &Value<'_>) -> u64 {
    let length = match value {
        Value::Text(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        Value::List(items) => items.len(),
        Value::Map(entries) => entries.len(),
        Value::Object(json, _) => json.as_object().map_or(0, serde_json::Map::len),
        _ => 0,
    };
    u64::try_from(length).unwrap_or(u64::MAX)
}

fn cost(name: &str, values: &[Value<'_>]) -> u64 {
    let of = |at: usize| values.get(at).map_or(0, size);
    match name {
        "@in" => of(1).max(1),
        "matches" | "find" | "findAll" => of(0).div_ceil(10).saturating_mul(of(1).div_ceil(4).max(1)),
        "contains" => of(0).div_ceil(10).saturating_mul(of(1).div_ceil(10).max(1)),
        "sets.contains" | "sets.equivalent" | "sets.intersects" => of(0).saturating_mul(of(1)),
        "isSorted" | "sum" | "min" | "max" | "indexOf" | "distinct" | "sort" => of(0).max(1),
        _ => of(0).min(of(1).max(of(0))).div_ceil(10).max(1),
    }
}

fn operator<'a>(name: &str, values: &[Value<'a>]) -> Option<Called<'a>> {
    let overflow = || Err("integer overflow".to_owned());
    let zero = || Err("division by zero".to_owned());
    let int = |result: Option<i64>| result.map_or_else(overflow, |int| Ok(Value::Int(int)));
    let uint = |result: Option<u64>| {
        result.map_or_else(|| Err("unsigned integer overflow".to_owned()), |uint| Ok(Value::Uint(uint)))
    };
    let order = |test: fn(std::cmp::Ordering) -> bool, a: &Value<'_>, b: &Value<'_>| {
        a.order(b).map_or_else(no_overload, |order| Ok(Value::Bool(test(order))))
    };
    Some(match (name, values) {
        ("_==_", [a, b]) => Ok(Value::Bool(a.same(b))),
        ("_!=_", [a, b]) => Ok(Value::Bool(!a.same(b))),
        ("_<_", [a, b]) => order(std::cmp::Ordering::is_lt, a, b),
        ("_<=_", [a, b]) => order(std::cmp::Ordering::is_le, a, b),
        ("_>_", [a, b]) => order(std::cmp::Ordering::is_gt, a, b),
        ("_>=_", [a, b]) => order(std::cmp::Ordering::is_ge, a, b),
        ("!_", [Value::Bool(flag)]) => Ok(Value::Bool(!flag)),
        ("-_", [Value::Int(a)]) => int(a.checked_neg()),
        ("-_", [Value::Double(a)]) => Ok(Value::Double(-a)),
        ("_+_", [Value::Int(a), Value::Int(b)]) => int(a.checked_add(*b)),
        ("_-_", [Value::Int(a), Value::Int(b)]) => int(a.checked_sub(*b)),
        ("_*_", [Value::Int(a), Value::Int(b)]) => int(a.checked_mul(*b)),
        ("_/_" | "_%_", [Value::Int(_), Value::Int(0)]) if name == "_/_" => zero(),
        ("_%_", [Value::Int(_), Value::Int(0)]) => Err("modulus by zero".to_owned()),
        ("_/_", [Value::Int(a), Value::Int(b)]) => int(a.checked_div(*b)),
        ("_%_", [Value::Int(a), Value::Int(b)]) => int(a.checked_rem(*b)),
        ("_+_", [Value::Uint(a), Value::Uint(b)]) => uint(a.checked_add(*b)),
        ("_-_", [Value::Uint(a), Value::Uint(b)]) => uint(a.checked_sub(*b)),
        ("_*_", [Value::Uint(a), Value::Uint(b)]) => uint(a.checked_mul(*b)),
        ("_/_", [Value::Uint(a), Value::Uint(b)]) => {
            a.checked_div(*b).map_or_else(zero, |one| Ok(Value::Uint(one)))
        }
        ("_%_", [Value::Uint(a), Value::Uint(b)]) => {
            a.checked_rem(*b).map_or_else(|| Err("modulus by zero".to_owned()), |one| Ok(Value::Uint(one)))
        }
        ("_+_", [Value::Double(a), Value::Double(b)]) => Ok(Value::Double(a + b)),
        ("_-_", [Value::Double(a), Value::Double(b)]) => Ok(Value::Double(a - b)),
        ("_*_", [Value::Double(a), Value::Double(b)]) => Ok(Value::Double(a * b)),
        ("_/_", [Value::Double(a), Value::Double(b)]) => Ok(Value::Double(a / b)),
        ("_+_", [Value::Text(a), Value::Text(b)]) => Ok(Value::text(&format!("{a}{b}"))),
        ("_+_", [Value::Bytes(a), Value::Bytes(b)]) => Ok(Value::Bytes([&**a, &**b].concat().into())),
        ("_+_", [Value::List(a), Value::List(b)]) => {
            Ok(Value::List(Rc::new(a.iter().chain(b.iter()).cloned().collect())))
        }
        ("@in", [item, Value::List(items)]) => Ok(Value::Bool(items.iter().any(|one| one.same(item)))),
        ("@in", [key, map @ (Value::Map(_) | Value::Object(..))]) => {
            Ok(Value::Bool(map.entries().iter().any(|(one, _)| one.same(key))))
        }
        ("type", [value]) => Ok(Value::Type(value.type_name())),
        ("dyn", [value]) => Ok(value.clone()),
        ("size", [value @ (Value::Bytes(_) | Value::List(_) | Value::Map(_) | Value::Object(..))]) => {
            Ok(Value::Int(i64::try_from(size(value)).unwrap_or(i64::MAX)))
        }
        ("size", [Value::Text(text)]) => {
            Ok(Value::Int(i64::try_from(text.chars().count()).unwrap_or(i64::MAX)))
        }
        ("bool" | "int" | "uint" | "double" | "string" | "bytes", [value]) => convert(name, value),
        _ => return None,
    })
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)] // Checked before, as in cel-go.
fn convert<'a>(to: &str, value: &Value<'a>) -> Called<'a> {
    let range = || Err("integer overflow".to_owned());
    match (to, value) {
        ("string", Value::Text(_)) => Ok(value.clone()),
        ("string", Value::List(_) | Value::Map(_) | Value::Object(..) | Value::Null) => no_overload(),
        ("string", value) => Ok(Value::text(&value.shown())),
        ("bytes", Value::Text(text)) => Ok(Value::Bytes(text.as_bytes().into())),
        ("bytes", Value::Bytes(_)) => Ok(value.clone()),
        ("bool", Value::Bool(_)) => Ok(value.clone()),
        ("bool", Value::Text(text)) => match &**text {
            "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(Value::Bool(false)),
            other => Err(format!("strconv.ParseBool: parsing \"{other}\": invalid syntax")),
        },
        ("int", Value::Int(_)) | ("uint", Value::Uint(_)) | ("double", Value::Double(_)) => Ok(value.clone()),
        ("int", Value::Uint(uint)) => {
            i64::try_from(*uint).map_or_else(|_| range(), |int| Ok(Value::Int(int)))
        }
        ("int", Value::Double(double)) if double.abs() < 9.2e18 => Ok(Value::Int(*double as i64)),
        ("int", Value::Double(_)) => range(),
        ("int", Value::Text(text)) => text
            .parse()
            .map(Value::Int)
            .map_err(|_| format!("strconv.ParseInt: parsing \"{text}\": invalid syntax")),
        ("int", Value::Time(time)) => Ok(Value::Int(time.as_second())),
        ("int", Value::Duration(nanos)) => Ok(Value::Int(*nanos)),
        ("uint", Value::Int(int)) => {
            u64::try_from(*int).map(Value::Uint).map_err(|_| "unsigned integer overflow".to_owned())
        }
        ("uint", Value::Double(double)) if (0.0..1.8e19).contains(double) => Ok(Value::Uint(*double as u64)),
        ("uint", Value::Text(text)) => text
            .parse()
            .map(Value::Uint)
            .map_err(|_| format!("strconv.ParseUint: parsing \"{text}\": invalid syntax")),
        ("double", Value::Int(int)) => Ok(Value::Double(*int as f64)),
        ("double", Value::Uint(uint)) => Ok(Value::Double(*uint as f64)),
        ("double", Value::Text(text)) => text
            .parse()
            .map(Value::Double)
            .map_err(|_| format!("strconv.ParseFloat: parsing \"{text}\": invalid syntax")),
        _ => no_overload(),
    }
}

fn quantities<'a>(name: &str, method: bool, values: &[Value<'a>]) -> Option<Called<'a>> {
    let of_int = |int: i64| Quantity::parse(&int.to_string());
    Some(match (name, method, values) {
        ("quantity", false, [Value::Text(text)]) => Quantity::parse(text)
            .map(Value::Quantity)
            .ok_or_else(|| crate::schema::native::quantity::FORMAT_WRONG.to_owned()),
        ("isQuantity", false, [Value::Text(text)]) => Ok(Value::Bool(Quantity::parse(text).is_some())),
        ("isInteger", true, [Value::Quantity(one)]) => Ok(Value::Bool(one.nanos() % 1_000_000_000 == 0)),
        ("asInteger", true, [Value::Quantity(one)]) => match one.nanos() % 1_000_000_000 {
            0 => Ok(Value::Int(one.value())),
            _ => Err("cannot convert value to integer".to_owned()),
        },
        #[allow(clippy::cast_precision_loss)] // It says approximate.
        ("asApproximateFloat", true, [Value::Quantity(one)]) => Ok(Value::Double(one.nanos() as f64 / 1e9)),
        ("sign", true, [Value::Quantity(one)]) => {
            Ok(Value::Int(one.nanos().signum().try_into().unwrap_or(0)))
        }
        ("add", true, [Value::Quantity(one), Value::Quantity(other)]) => {
            Ok(Value::Quantity(one.plus(*other)))
        }
        ("sub", true, [Value::Quantity(one), Value::Quantity(other)]) => {
            Ok(Value::Quantity(one.minus(*other)))
        }
        ("add", true, [Value::Quantity(one), Value::Int(other)]) => {
            Ok(Value::Quantity(of_int(*other).map_or(*one, |other| one.plus(other))))
        }
        ("sub", true, [Value::Quantity(one), Value::Int(other)]) => {
            Ok(Value::Quantity(of_int(*other).map_or(*one, |other| one.minus(other))))
        }
        ("isGreaterThan", true, [one, other]) => {
            one.order(other).map_or_else(no_overload, |order| Ok(Value::Bool(order.is_gt())))
        }
        ("isLessThan", true, [one, other]) => {
            one.order(other).map_or_else(no_overload, |order| Ok(Value::Bool(order.is_lt())))
        }
        ("compareTo", true, [one, other]) => {
            one.order(other).map_or_else(no_overload, |order| Ok(Value::Int(order as i64)))
        }
        _ => return None,
    })
}

fn optionals<'a>(name: &str, method: bool, values: &[Value<'a>]) -> Option<Called<'a>> {
    Some(match (name, method, values) {
        ("optional.of", false, [value]) => Ok(Value::Optional(Some(Rc::new(value.clone())))),
        ("optional.none", false, []) => Ok(Value::Optional(None)),
        ("optional.ofNonZeroValue", false, [value]) => {
            let zero = match value {
                Value::Null | Value::Bool(false) | Value::Int(0) | Value::Uint(0) | Value::Duration(0) => {
                    true
                }
                Value::Double(double) => *double == 0.0,
                Value::Text(_) | Value::Bytes(_) | Value::List(_) | Value::Map(_) => size(value) == 0,
                _ => false,
            };
            Ok(Value::Optional((!zero).then(|| Rc::new(value.clone()))))
        }
        ("hasValue", true, [Value::Optional(inner)]) => Ok(Value::Bool(inner.is_some())),
        ("value", true, [Value::Optional(inner)]) => inner
            .as_ref()
            .map(|inner| (**inner).clone())
            .ok_or_else(|| "optional.none() dereference".to_owned()),
        ("or", true, [one @ Value::Optional(inner), other]) => {
            Ok(if inner.is_some() { one.clone() } else { other.clone() })
        }
        ("orValue", true, [Value::Optional(inner), other]) => {
            Ok(inner.as_ref().map_or_else(|| other.clone(), |inner| (**inner).clone()))
        }
        _ => return None,
    })
}
