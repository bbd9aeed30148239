//! `/explain`: what the journal of the running host holds about one object.
//!
//! Journals show what is in objects, so it is answered on loopback only. From elsewhere one comes by `kubectl port-forward`,
//! which the API server lets those through who may. Data of Secrets is struck out before anything gets into a journal.

use std::net::IpAddr;

use evenkeel_core::record::Subject;
use http::{HeaderMap, header};

/// Passes that are shown where nothing else is asked for.
pub const PASSES: usize = 10;
/// Passes that are shown at most.
pub const PASSES_MAX: usize = 1_000;

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The object.
    pub subject: Subject,
    /// So many of the latest passes.
    pub last: usize,
}

/// Why nothing is told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// From another machine.
    #[error("this page is for loopback only: use kubectl port-forward")]
    Elsewhere,
    /// By a page in somebody's browser.
    #[error("this page is not for browsers")]
    Browser,
    /// The question makes no sense.
    #[error("{0}")]
    Question(String),
}

impl Refusal {
    /// The HTTP status code.
    pub fn code(&self) -> u16 {
        match self {
            Self::Elsewhere | Self::Browser => 403,
            Self::Question(_) => 400,
        }
    }
}

/// Reads a question, if whoever asks may ask. `query` is what stands behind the `?`.
pub fn question(peer: IpAddr, headers: &HeaderMap, query: Option<&str>) -> Result<Question, Refusal> {
    // A socket for both kinds of address shows IPv4 as a part of IPv6.
    if !peer.to_canonical().is_loopback() {
        return Err(Refusal::Elsewhere);
    }
    // A site whose name leads to this machine is on loopback too; browsers say by which name they came.
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    if headers.contains_key(header::ORIGIN) || !is_loopback(host) {
        return Err(Refusal::Browser);
    }
    parse(query.unwrap_or_default())
}

/// Whether a `host` header names loopback and nothing that a name server has a say in.
fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn parse(query: &str) -> Result<Question, Refusal> {
    let mut question = Question { subject: Subject::default(), last: PASSES };
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        match &*name {
            "kind" => question.subject.kind = value.into_owned(),
            "name" => question.subject.name = value.into_owned(),
            "namespace" => question.subject.namespace = Some(value.into_owned()),
            "last" => {
                let last: Option<usize> = value.parse().ok().filter(|last| *last <= PASSES_MAX);
                let wrong = || Refusal::Question(format!("last is a number up to {PASSES_MAX}"));
                question.last = last.ok_or_else(wrong)?;
            }
            other => return Err(Refusal::Question(format!("there is no {other:?} to ask by"))),
        }
    }
    if question.subject.kind.is_empty() || question.subject.name.is_empty() {
        return Err(Refusal::Question("kind and name are needed".into()));
    }
    Ok(question)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(peer: &str, host: &str, origin: Option<&str>, query: &str, want: &str) {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().expect("a header"));
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, origin.parse().expect("a header"));
        }
        let found = match question(peer.parse().expect("an address"), &headers, Some(query)) {
            Ok(Question { subject: Subject { kind, namespace, name }, last }) => {
                format!("{kind} {}/{name} {last}", namespace.unwrap_or_default())
            }
            Err(refusal) => format!("{} {refusal}", refusal.code()),
        };
        assert_eq!(found, want, "{peer} {host} {query}");
    }

    #[test]
    fn only_loopback_is_told_anything() {
        let elsewhere = "403 this page is for loopback only: use kubectl port-forward";
        let query = "kind=KiteUser&name=ann";
        for peer in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
            check(peer, "127.0.0.1:8080", None, query, "KiteUser /ann 10");
        }
        for peer in ["10.0.0.1", "::ffff:10.0.0.1", "fe80::1", "0.0.0.0"] {
            check(peer, "127.0.0.1:8080", None, query, elsewhere);
        }
    }

    #[test]
    fn a_site_that_leads_a_browser_here_is_told_nothing() {
        let query = "kind=KiteUser&name=ann";
        for host in ["localhost", "localhost:8080", "[::1]:8080", "127.0.0.1"] {
            check("::1", host, None, query, "KiteUser /ann 10");
            check("::1", host, Some("https://site.example"), query, "403 this page is not for browsers");
        }
        for host in ["site.example:8080", "localhost.site.example", "127.0.0.1.site.example", ""] {
            check("::1", host, None, query, "403 this page is not for browsers");
        }
    }

    #[test]
    fn a_question_names_kind_and_name_and_how_much() {
        let ask = |query: &str, want: &str| check("::1", "localhost", None, query, want);
        ask("kind=Service&namespace=a&name=b%3Ac&last=3", "Service a/b:c 3");
        ask("kind=Service", "400 kind and name are needed");
        ask("kind=A&name=b&last=1001", "400 last is a number up to 1000");
        ask("kind=A&name=b&last=-1", "400 last is a number up to 1000");
        ask("kind=A&name=b&nmae=c", "400 there is no \"nmae\" to ask by");
    }
}
