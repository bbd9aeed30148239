//! What a request asks for: its path and query taken apart.

use crate::error::ApiError;

/// A path below `/api` or `/apis` that names a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResourcePath {
    pub group: String,
    pub version: String,
    pub plural: String,
    pub namespace: Option<String>,
    pub name: Option<String>,
    pub subresource: Option<String>,
    /// What follows the subresource, as in `proxy/some/path`.
    pub tail: Option<String>,
}

/// What a path points at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// `/api`: the versions of the core group.
    LegacyVersions,
    /// `/apis`: all groups.
    Groups,
    /// `/apis/{group}`.
    Group(String),
    /// `/api/v1`, `/apis/{group}/{version}`.
    GroupVersion(String, String),
    /// A resource, an object or a subresource.
    Resource(ResourcePath),
    /// Anything else, such as `/version`.
    Other,
}

/// Takes a path apart. Segments are percent-decoded, so a name cannot reach another path.
pub(crate) fn parse_path(path: &str) -> Target {
    let mut segments: Vec<String> = path.trim_matches('/').split('/').map(decode_segment).collect();
    let (group, version, rest) = match segments.first().map(String::as_str) {
        Some("api") => match segments.len() {
            1 => return Target::LegacyVersions,
            2 => return Target::GroupVersion(String::new(), segments.remove(1)),
            _ => (String::new(), segments[1].clone(), segments.split_off(2)),
        },
        Some("apis") => match segments.len() {
            1 => return Target::Groups,
            2 => return Target::Group(segments.remove(1)),
            3 => return Target::GroupVersion(segments[1].clone(), segments[2].clone()),
            _ => (segments[1].clone(), segments[2].clone(), segments.split_off(3)),
        },
        _ => return Target::Other,
    };
    Target::Resource(resource_path(group, version, rest))
}

fn resource_path(group: String, version: String, rest: Vec<String>) -> ResourcePath {
    let mut rest = rest.into_iter();
    let mut path = ResourcePath { group, version, ..ResourcePath::default() };
    let first = rest.next().unwrap_or_default();
    let mut second = rest.next();
    let mut third = rest.next();
    // `namespaces/x/status` is about the Namespace, `namespaces/x/pods` about pods in it.
    let of_namespace = matches!(third.as_deref(), None | Some("status" | "finalize"));
    if first == "namespaces" && !(of_namespace && path.group.is_empty()) {
        path.namespace = second.take();
        path.plural = third.take().unwrap_or_default();
        path.name = rest.next();
        path.subresource = rest.next();
    } else {
        path.plural = first;
        path.name = second.take();
        path.subresource = third.take();
    }
    let tail: Vec<String> = rest.collect();
    path.tail = (!tail.is_empty()).then(|| tail.join("/"));
    path
}

/// The parameters of a query, in order; the first of a name counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(text: &str) -> Query {
        let pairs = text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode_form(key), decode_form(value))
        });
        Query(pairs.collect())
    }

    /// The first value of a parameter; an empty one counts as absent.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(other, _)| other == key)
            .map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.0.iter().any(|(other, _)| other == key)
    }

    pub(crate) fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(other, _)| other == key).map(|(_, value)| value.as_str())
    }

    /// A boolean as Kubernetes' query parameters mean it: present counts as true unless it says `false` or `0`.
    pub(crate) fn flag(&self, key: &str) -> bool {
        self.0
            .iter()
            .find(|(other, _)| other == key)
            .is_some_and(|(_, value)| !matches!(value.to_ascii_lowercase().as_str(), "false" | "0"))
    }

    pub(crate) fn number(&self, key: &str) -> Result<Option<i64>, ApiError> {
        let Some(text) = self.get(key) else { return Ok(None) };
        let parsed = text.parse::<i64>().map_err(|_| {
            let quoted = crate::error::go_quote(text);
            ApiError::bad_request(format!("strconv.ParseInt: parsing {quoted}: invalid syntax"))
        })?;
        Ok(Some(parsed))
    }
}

fn decode_segment(text: &str) -> String {
    percent_decode(text, false)
}

fn decode_form(text: &str) -> String {
    percent_decode(text, true)
}

fn percent_decode(text: &str, plus_is_space: bool) -> String {
    if !text.contains(['%', '+']) {
        return text.to_owned();
    }
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = (bytes[at] == b'%')
            .then(|| text.get(at + 1..at + 3).and_then(|digits| u8::from_str_radix(digits, 16).ok()))
            .flatten();
        match (bytes[at], hex) {
            (_, Some(byte)) => {
                out.push(byte);
                at += 3;
                continue;
            }
            (b'+', None) if plus_is_space => out.push(b' '),
            (byte, None) => out.push(byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(path: &str, expected: Expect) {
        let text = match parse_path(path) {
            Target::Resource(p) => format!(
                "{}/{} {} ns={} name={} sub={}",
                p.group,
                p.version,
                p.plural,
                p.namespace.unwrap_or_default(),
                p.name.unwrap_or_default(),
                p.subresource.unwrap_or_default()
            ),
            other => format!("{other:?}"),
        };
        expected.assert_eq(&text);
    }

    #[test]
    fn paths_name_resources_objects_and_subresources() {
        check("/api/v1/pods", expect!["/v1 pods ns= name= sub="]);
        check("/api/v1/namespaces", expect!["/v1 namespaces ns= name= sub="]);
        check("/api/v1/namespaces/a", expect!["/v1 namespaces ns= name=a sub="]);
        check("/api/v1/namespaces/a/status", expect!["/v1 namespaces ns= name=a sub=status"]);
        check("/api/v1/namespaces/a/pods/b/log", expect!["/v1 pods ns=a name=b sub=log"]);
        check(
            "/apis/apps/v1/namespaces/a/deployments/b/scale",
            expect!["apps/v1 deployments ns=a name=b sub=scale"],
        );
        check("/apis/apps/v1", expect![[r#"GroupVersion("apps", "v1")"#]]);
        check("/apis", expect!["Groups"]);
        check("/version", expect!["Other"]);
        check("/api/v1/namespaces/a/secrets/..%2fb", expect!["/v1 secrets ns=a name=../b sub="]);
    }

    #[test]
    fn query_parameters_are_decoded() {
        let query = Query::parse("labelSelector=a%3Db%2Cc+in+%28d%29&watch&limit=5&force=false");
        assert_eq!(query.get("labelSelector"), Some("a=b,c in (d)"));
        assert!(query.flag("watch") && !query.flag("force") && !query.flag("absent"));
        assert_eq!(query.number("limit"), Ok(Some(5)));
    }
}
