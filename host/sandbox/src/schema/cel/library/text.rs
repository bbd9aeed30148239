//! Functions on texts, and the named formats.

use std::rc::Rc;

use regex::Regex;

use super::Called;
use crate::schema::cel::value::Value;
use crate::schema::{formats, names};

fn regex(pattern: &str) -> Result<Regex, String> {
    Regex::new(pattern).map_err(|error| format!("error parsing regexp: {error}"))
}

fn list<'a>(items: impl Iterator<Item = String>) -> Value<'a> {
    Value::List(Rc::new(items.map(|item| Value::text(&item)).collect()))
}

fn int<'a>(number: Option<usize>) -> Value<'a> {
    Value::Int(number.and_then(|number| i64::try_from(number).ok()).unwrap_or(-1))
}

/// Where a text begins in another, counted in characters.
fn find_chars(text: &[char], part: &[char], from: usize, back: bool) -> Option<usize> {
    if part.is_empty() {
        return Some(if back { from.min(text.len()) } else { from });
    }
    let fits = |at: &usize| text.get(*at..*at + part.len()) == Some(part);
    if back { (0..=from.min(text.len())).rev().find(fits) } else { (from..text.len()).find(fits) }
}

pub(super) fn call<'a>(name: &str, method: bool, values: &[Value<'a>]) -> Option<Called<'a>> {
    if let ("matches", [Value::Text(text), Value::Text(pattern)]) = (name, values) {
        return Some(regex(pattern).map(|regex| Value::Bool(regex.is_match(text))));
    }
    if let Some(found) = name.strip_prefix("format.") {
        return named_format(found, values);
    }
    if !method {
        return None;
    }
    if let ("join", [Value::List(items), rest @ ..]) = (name, values) {
        let separator = match rest {
            [Value::Text(separator)] => separator.to_string(),
            _ => String::new(),
        };
        return Some(Ok(Value::text(&items.iter().map(Value::shown).collect::<Vec<_>>().join(&separator))));
    }
    if let ("validate", [Value::Format(format), Value::Text(text)]) = (name, values) {
        let found = check_format(format, text);
        let list = (!found.is_empty()).then(|| Rc::new(list(found.into_iter())));
        return Some(Ok(Value::Optional(list)));
    }
    let [Value::Text(text), rest @ ..] = values else { return None };
    on_text(name, text, rest)
}

fn on_text<'a>(name: &str, text: &Rc<str>, rest: &[Value<'a>]) -> Option<Called<'a>> {
    let chars: Vec<char> = text.chars().collect();
    let of = |part: &str| part.chars().collect::<Vec<char>>();
    let joined = |chars: &[char]| Value::text(&chars.iter().collect::<String>());
    let place = |at: i64| usize::try_from(at).ok().filter(|at| *at <= chars.len());
    let bounds = |at: i64| Err(format!("index out of range: {at}"));
    Some(match (name, rest) {
        ("contains", [Value::Text(part)]) => Ok(Value::Bool(text.contains(&**part))),
        ("startsWith", [Value::Text(part)]) => Ok(Value::Bool(text.starts_with(&**part))),
        ("endsWith", [Value::Text(part)]) => Ok(Value::Bool(text.ends_with(&**part))),
        ("lowerAscii", []) => Ok(Value::text(&text.to_ascii_lowercase())),
        ("upperAscii", []) => Ok(Value::text(&text.to_ascii_uppercase())),
        ("trim", []) => Ok(Value::text(text.trim())),
        ("reverse", []) => Ok(Value::text(&text.chars().rev().collect::<String>())),
        ("charAt", [Value::Int(at)]) => match place(*at) {
            Some(at) => Ok(joined(chars.get(at..at + 1).unwrap_or_default())),
            None => bounds(*at),
        },
        ("indexOf", [Value::Text(part)]) => Ok(int(find_chars(&chars, &of(part), 0, false))),
        ("indexOf", [Value::Text(part), Value::Int(from)]) => match place(*from) {
            Some(from) => Ok(int(find_chars(&chars, &of(part), from, false))),
            None => bounds(*from),
        },
        ("lastIndexOf", [Value::Text(part)]) => Ok(int(find_chars(&chars, &of(part), chars.len(), true))),
        ("lastIndexOf", [Value::Text(part), Value::Int(from)]) => match place(*from) {
            Some(from) => Ok(int(find_chars(&chars, &of(part), from, true))),
            None => bounds(*from),
        },
        ("replace", [Value::Text(from), Value::Text(to)]) => Ok(Value::text(&text.replace(&**from, to))),
        ("replace", [Value::Text(from), Value::Text(to), Value::Int(count)]) => {
            Ok(match usize::try_from(*count) {
                Ok(count) => Value::text(&text.replacen(&**from, to, count)),
                Err(_) => Value::text(&text.replace(&**from, to)),
            })
        }
        ("split", [Value::Text(at)]) => Ok(split(text, at, -1)),
        ("split", [Value::Text(at), Value::Int(count)]) => Ok(split(text, at, *count)),
        ("substring", [Value::Int(from)]) => match place(*from) {
            Some(from) => Ok(joined(chars.get(from..).unwrap_or_default())),
            None => bounds(*from),
        },
        ("substring", [Value::Int(from), Value::Int(to)]) => match (place(*from), place(*to)) {
            (Some(start), Some(end)) if start <= end => Ok(joined(chars.get(start..end).unwrap_or_default())),
            (Some(_), Some(_)) => Err(format!("invalid substring range. start: {from}, end: {to}")),
            (None, _) => bounds(*from),
            (_, None) => bounds(*to),
        },
        ("find", [Value::Text(pattern)]) => regex(pattern)
            .map(|regex| Value::text(regex.find(text).map(|found| found.as_str()).unwrap_or_default())),
        ("findAll", [Value::Text(pattern), rest @ ..]) => regex(pattern).map(|regex| {
            let most = match rest {
                [Value::Int(most)] => usize::try_from(*most).unwrap_or(usize::MAX),
                _ => usize::MAX,
            };
            list(regex.find_iter(text).take(most).map(|found| found.as_str().to_owned()))
        }),
        ("format", [Value::List(arguments)]) => format_text(text, arguments).map(|text| Value::text(&text)),
        _ => return None,
    })
}

fn split<'a>(text: &str, at: &str, count: i64) -> Value<'a> {
    let all = |text: &str| -> Vec<String> {
        if at.is_empty() {
            text.chars().map(String::from).collect()
        } else {
            text.split(at).map(str::to_owned).collect()
        }
    };
    match usize::try_from(count) {
        Err(_) => list(all(text).into_iter()),
        Ok(0) => list(std::iter::empty()),
        Ok(count) if at.is_empty() => list(all(text).into_iter().take(count)),
        Ok(count) => list(text.splitn(count, at).map(str::to_owned)),
    }
}

/// `'%s is %d'.format([…])`
fn format_text(pattern: &str, arguments: &[Value<'_>]) -> Result<String, String> {
    let mut out = String::new();
    let mut chars = pattern.chars().peekable();
    let mut next = arguments.iter();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut precision = None;
        if chars.peek() == Some(&'.') {
            chars.next();
            let mut digits = String::new();
            while let Some(digit) = chars.peek().filter(|c| c.is_ascii_digit()) {
                digits.push(*digit);
                chars.next();
            }
            precision = digits.parse::<usize>().ok();
        }
        let verb = chars.next().ok_or_else(|| "unexpected end of string".to_owned())?;
        if verb == '%' {
            out.push('%');
            continue;
        }
        let value = next.next().ok_or_else(|| "index 0 out of range".to_owned())?;
        let shown = match (verb, value) {
            ('s', value) => value.shown(),
            ('d', Value::Int(_) | Value::Uint(_)) => value.shown(),
            ('f', Value::Double(double)) => format!("{double:.*}", precision.unwrap_or(6)),
            ('e', Value::Double(double)) => format!("{double:.*e}", precision.unwrap_or(6)),
            ('b', Value::Int(int)) => format!("{int:b}"),
            ('b', Value::Bool(flag)) => u8::from(*flag).to_string(),
            ('o', Value::Int(int)) => format!("{int:o}"),
            ('x', Value::Int(int)) => format!("{int:x}"),
            ('X', Value::Int(int)) => format!("{int:X}"),
            ('x', Value::Text(text)) => text.bytes().map(|byte| format!("{byte:02x}")).collect(),
            _ => {
                return Err(format!(
                    "could not parse formatting clause: unrecognized formatting clause \"{verb}\""
                ));
            }
        };
        out.push_str(&shown);
    }
    Ok(out)
}

const FORMATS: [&str; 13] = [
    "dns1123Label",
    "dns1123Subdomain",
    "dns1035Label",
    "qualifiedName",
    "dns1123LabelPrefix",
    "dns1123SubdomainPrefix",
    "dns1035LabelPrefix",
    "labelValue",
    "uri",
    "uuid",
    "byte",
    "date",
    "datetime",
];

fn named_format<'a>(name: &str, values: &[Value<'a>]) -> Option<Called<'a>> {
    let known = |name: &str| FORMATS.iter().find(|known| **known == name).map(|name| Value::Format(name));
    Some(match values {
        [] => Ok(known(name)?),
        [Value::Text(text)] if name == "named" => Ok(Value::Optional(known(text).map(Rc::new))),
        _ => return None,
    })
}

fn check_format(format: &str, text: &str) -> Vec<String> {
    let by_name = |name: &str, words: &str| match formats::supported(name) {
        Some(format) if !format.accepts(text) => vec![words.to_owned()],
        _ => Vec::new(),
    };
    let mask = |text: &str| text.strip_suffix('-').map_or_else(|| text.to_owned(), |stem| format!("{stem}a"));
    match format {
        "dns1123Label" => names::label(text),
        "dns1123Subdomain" => names::subdomain(text),
        "dns1035Label" => names::label_1035(text),
        "qualifiedName" => names::qualified_name(text),
        "labelValue" => names::label_value(text),
        "dns1123LabelPrefix" => names::label(&mask(text)),
        "dns1123SubdomainPrefix" => names::subdomain(&mask(text)),
        "dns1035LabelPrefix" => names::label_1035(&mask(text)),
        "uri" => by_name("uri", "invalid URI"),
        "uuid" => by_name("uuid", "does not match the UUID format"),
        "byte" => by_name("byte", "invalid base64"),
        "date" => by_name("date", "invalid date"),
        _ => by_name("datetime", "invalid datetime"),
    }
}
