//! URLs, addresses, networks, versions.

use std::net::IpAddr;
use std::rc::Rc;
use std::str::FromStr as _;

use super::Called;
use crate::schema::cel::value::{Url, Value};
use crate::schema::formats::is_cidr;

pub(super) fn call<'a>(name: &str, method: bool, values: &[Value<'a>]) -> Option<Called<'a>> {
    if method {
        return on_url(name, values).or_else(|| on_address(name, values)).or_else(|| on_semver(name, values));
    }
    Some(match (name, values) {
        ("url", [Value::Text(text)]) => parse_url(text)
            .map(|url| Value::Url(Rc::new(url)))
            .ok_or_else(|| format!("URL parse error during conversion from string: parse \"{text}\": invalid URI for request")),
        ("isURL", [Value::Text(text)]) => Ok(Value::Bool(parse_url(text).is_some())),
        ("ip", [Value::Text(text)]) => parse_ip(text)
            .map(Value::Ip)
            .ok_or_else(|| format!("IP Address \"{text}\" parse error during conversion from string: ParseAddr(\"{text}\"): unable to parse IP")),
        ("isIP", [Value::Text(text)]) => Ok(Value::Bool(parse_ip(text).is_some())),
        ("ip.isCanonical", [Value::Text(text)]) => match parse_ip(text) {
            Some(ip) => Ok(Value::Bool(ip.to_string() == **text)),
            None => Err(format!("IP Address \"{text}\" parse error during conversion from string")),
        },
        ("cidr", [Value::Text(text)]) => parse_cidr(text)
            .map(|(ip, length)| Value::Cidr(ip, length))
            .ok_or_else(|| format!("network address parse error during conversion from string: netip.ParsePrefix(\"{text}\"): no '/'")),
        ("isCIDR", [Value::Text(text)]) => Ok(Value::Bool(parse_cidr(text).is_some())),
        ("semver", [Value::Text(text), rest @ ..]) => {
            parse_semver(text, loose(rest)).ok_or_else(|| format!("Semver parse error during conversion from string: {text}"))
        }
        ("isSemver", [Value::Text(text), rest @ ..]) => Ok(Value::Bool(parse_semver(text, loose(rest)).is_some())),
        _ => return None,
    })
}

fn loose(rest: &[Value<'_>]) -> bool {
    matches!(rest, [Value::Bool(true)])
}

/// Addresses without zones; an IPv4 address inside an IPv6 one is refused, as in the real server.
fn parse_ip(text: &str) -> Option<IpAddr> {
    let ip = IpAddr::from_str(text).ok()?;
    match ip {
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => None,
        ip => Some(ip),
    }
}

fn parse_cidr(text: &str) -> Option<(IpAddr, u8)> {
    if !is_cidr(text) {
        return None;
    }
    let (ip, length) = text.split_once('/')?;
    if length.len() > 1 && length.starts_with('0') {
        return None;
    }
    Some((parse_ip(ip)?, length.parse().ok()?))
}

fn bits(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(v4) => u128::from(u32::from(v4)) << 96,
        IpAddr::V6(v6) => u128::from(v6),
    }
}

fn mask(length: u8) -> u128 {
    if length == 0 { 0 } else { u128::MAX << (128 - u32::from(length.min(128))) }
}

fn holds(network: IpAddr, length: u8, ip: IpAddr) -> bool {
    network.is_ipv4() == ip.is_ipv4() && bits(network) & mask(length) == bits(ip) & mask(length)
}

fn on_address<'a>(name: &str, values: &[Value<'a>]) -> Option<Called<'a>> {
    let flag = |flag: bool| Ok(Value::Bool(flag));
    Some(match (name, values) {
        ("family", [Value::Ip(ip)]) => Ok(Value::Int(if ip.is_ipv4() { 4 } else { 6 })),
        ("isUnspecified", [Value::Ip(ip)]) => flag(ip.is_unspecified()),
        ("isLoopback", [Value::Ip(ip)]) => flag(ip.is_loopback()),
        ("isLinkLocalMulticast", [Value::Ip(ip)]) => flag(match ip {
            IpAddr::V4(v4) => v4.octets()[..3] == [224, 0, 0],
            IpAddr::V6(v6) => v6.segments()[0] & 0xff0f == 0xff02,
        }),
        ("isLinkLocalUnicast", [Value::Ip(ip)]) => flag(link_local(*ip)),
        ("isGlobalUnicast", [Value::Ip(ip)]) => {
            let broadcast = matches!(ip, IpAddr::V4(v4) if v4.is_broadcast());
            flag(
                !broadcast
                    && !ip.is_unspecified()
                    && !ip.is_loopback()
                    && !ip.is_multicast()
                    && !link_local(*ip),
            )
        }
        ("containsIP", [Value::Cidr(network, length), Value::Ip(ip)]) => flag(holds(*network, *length, *ip)),
        ("containsIP", [Value::Cidr(network, length), Value::Text(text)]) => match parse_ip(text) {
            Some(ip) => flag(holds(*network, *length, ip)),
            None => Err(format!("IP Address \"{text}\" parse error during conversion from string")),
        },
        ("containsCIDR", [Value::Cidr(network, length), Value::Cidr(ip, other)]) => {
            flag(holds(*network, *length, *ip) && other >= length)
        }
        ("containsCIDR", [Value::Cidr(network, length), Value::Text(text)]) => match parse_cidr(text) {
            Some((ip, other)) => flag(holds(*network, *length, ip) && other >= *length),
            None => Err("network address parse error during conversion from string".to_owned()),
        },
        ("ip", [Value::Cidr(ip, _)]) => Ok(Value::Ip(*ip)),
        ("prefixLength", [Value::Cidr(_, length)]) => Ok(Value::Int(i64::from(*length))),
        ("masked", [Value::Cidr(ip, length)]) => {
            let kept = bits(*ip) & mask(*length);
            let ip = match ip {
                IpAddr::V4(_) => IpAddr::V4(u32::try_from(kept >> 96).unwrap_or_default().into()),
                IpAddr::V6(_) => IpAddr::V6(kept.into()),
            };
            Ok(Value::Cidr(ip, *length))
        }
        _ => return None,
    })
}

fn link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.segments()[0] & 0xffc0 == 0xfe80,
    }
}

/// A URL that a request could have: absolute, or a path.
fn parse_url(text: &str) -> Option<Url> {
    if text.is_empty() || text.chars().any(|c| c.is_control() || c == ' ') {
        return None;
    }
    let mut url = Url { text: text.to_owned(), ..Url::default() };
    let mut rest = text;
    if let Some((scheme, after)) = text.split_once(':').filter(|(scheme, _)| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
    }) {
        url.scheme = scheme.to_lowercase();
        rest = after;
    } else if !text.starts_with('/') {
        return None;
    }
    if let Some((before, query)) = rest.split_once('?') {
        url.query = query.to_owned();
        rest = before;
    }
    if let Some(after) = rest.strip_prefix("//") {
        let end = after.find('/').unwrap_or(after.len());
        let (authority, path) = after.split_at(end);
        let host = authority.rsplit('@').next().unwrap_or(authority);
        url.host = host.to_owned();
        rest = path;
    } else if !url.scheme.is_empty() && !rest.starts_with('/') {
        return Some(url);
    }
    url.path = rest.to_owned();
    Some(url)
}

fn on_url<'a>(name: &str, values: &[Value<'a>]) -> Option<Called<'a>> {
    let [Value::Url(url)] = values else { return None };
    let (hostname, port) = match url.host.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => (host, port),
        _ => (url.host.as_str(), ""),
    };
    Some(Ok(match name {
        "getScheme" => Value::text(&url.scheme),
        "getHost" => Value::text(&url.host),
        "getHostname" => Value::text(hostname.trim_start_matches('[').trim_end_matches(']')),
        "getPort" => Value::text(port),
        "getEscapedPath" => Value::text(&url.path),
        "getQuery" => {
            let mut found: Vec<(String, Vec<Value<'a>>)> = Vec::new();
            for pair in url.query.split('&').filter(|pair| !pair.is_empty()) {
                let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                match found.iter_mut().find(|(known, _)| known == key) {
                    Some((_, values)) => values.push(Value::text(value)),
                    None => found.push((key.to_owned(), vec![Value::text(value)])),
                }
            }
            let entries =
                found.into_iter().map(|(key, values)| (Value::text(&key), Value::List(Rc::new(values))));
            Value::Map(Rc::new(entries.collect()))
        }
        _ => return None,
    }))
}

fn parse_semver<'a>(text: &str, loose: bool) -> Option<Value<'a>> {
    let text = if loose { text.trim().trim_start_matches(['v', 'V']) } else { text };
    let (rest, _build) = text.split_once('+').unwrap_or((text, ""));
    let (core, pre) = rest.split_once('-').unwrap_or((rest, ""));
    let mut numbers = Vec::new();
    for part in core.split('.') {
        let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if !digits || (!loose && part.len() > 1 && part.starts_with('0')) {
            return None;
        }
        numbers.push(part.parse::<u64>().ok()?);
    }
    while loose && numbers.len() < 3 {
        numbers.push(0);
    }
    match numbers.as_slice() {
        [major, minor, patch] => Some(Value::Semver(*major, *minor, *patch, pre.into())),
        _ => None,
    }
}

fn on_semver<'a>(name: &str, values: &[Value<'a>]) -> Option<Called<'a>> {
    let [Value::Semver(major, minor, patch, _)] = values else { return None };
    let number = match name {
        "major" => major,
        "minor" => minor,
        "patch" => patch,
        _ => return None,
    };
    Some(Ok(Value::Int(i64::try_from(*number).unwrap_or(i64::MAX))))
}
