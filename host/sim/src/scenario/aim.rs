//! What a request to the API server is about, from its method, path and headers.

use http::{Method, Request};

/// A request as its first lines name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Aim<'a> {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `apply`, `delete`, `deletecollection`.
    pub(crate) verb: &'static str,
    /// The path of the group and version, as in `/apis/apps/v1`.
    pub(crate) base: &'a str,
    /// Empty for what is in no namespace, and for all namespaces at once.
    pub(crate) namespace: &'a str,
    /// The kind as it stands in paths.
    pub(crate) plural: &'a str,
    /// Empty for a collection, and in a creation, whose body has it.
    pub(crate) name: &'a str,
    /// Empty for the object itself.
    pub(crate) subresource: &'a str,
}

impl<'a> Aim<'a> {
    /// None where the request is about no objects, as in discovery.
    pub(crate) fn of<B>(request: &'a Request<B>) -> Option<Self> {
        let path = request.uri().path().trim_end_matches('/');
        let depth = match path.split('/').nth(1)? {
            "api" => 3,
            "apis" => 4,
            _ => return None,
        };
        let (slash, _) = path.match_indices('/').nth(depth - 1)?;
        let (base, rest) = path.split_at(slash);
        let parts: Vec<&str> = rest.split('/').skip(1).collect();
        let (namespace, parts) = match parts.as_slice() {
            // A Namespace itself is in no namespace.
            ["namespaces", namespace, plural, ..] if !["status", "finalize"].contains(plural) => {
                (*namespace, &parts[2..])
            }
            all => ("", all),
        };
        let part = |at: usize| parts.get(at).copied().unwrap_or_default();
        let (plural, name, subresource) = (part(0), part(1), part(2));
        let content = request.headers().get(http::header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let apply = content.is_some_and(|content| content.starts_with("application/apply-patch"));
        let watch = request
            .uri()
            .query()
            .is_some_and(|query| query.split('&').any(|pair| matches!(pair, "watch=true" | "watch=1")));
        let verb = match (request.method(), name.is_empty()) {
            (&Method::GET, _) if watch => "watch",
            (&Method::GET, true) => "list",
            (&Method::GET, false) => "get",
            (&Method::POST, _) => "create",
            (&Method::PUT, _) => "update",
            (&Method::DELETE, true) => "deletecollection",
            (&Method::DELETE, false) => "delete",
            (&Method::PATCH, _) if apply => "apply",
            (&Method::PATCH, _) => "patch",
            _ => return None,
        };
        Some(Self { verb, base, namespace, plural, name, subresource })
    }

    /// A write in the words of scenario files; none for a read.
    pub(crate) fn write(&self) -> Option<&'static str> {
        match (self.verb, self.subresource) {
            ("get" | "list" | "watch", _) => None,
            ("apply", "status") => Some("apply-status"),
            (verb, _) => Some(verb),
        }
    }

    /// The path of the whole collection, over all namespaces.
    pub(crate) fn collection(&self) -> String {
        format!("{}/{}", self.base, self.plural)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(method: &str, target: &str, content_type: &str, expected: &str) {
        let request =
            Request::builder().method(method).uri(target).header("content-type", content_type).body(());
        let request = request.expect("a request");
        let told = Aim::of(&request).map_or("about no objects".to_owned(), |aim| {
            let word = aim.write().unwrap_or(aim.verb);
            let parts = [word, aim.base, aim.plural, aim.namespace, aim.name];
            parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
        });
        assert_eq!(told, expected, "{method} {target}");
    }

    #[test]
    fn a_write_is_told_by_its_request() {
        let (json, merge, apply) =
            ("application/json", "application/merge-patch+json", "application/apply-patch+yaml");
        check("POST", "/api/v1/namespaces?fieldManager=a", json, "create /api/v1 namespaces");
        check("POST", "/apis/apps/v1/namespaces/a/deployments", json, "create /apis/apps/v1 deployments a");
        check("PATCH", "/apis/e.com/v1/things/b?force=true", apply, "apply /apis/e.com/v1 things b");
        check(
            "PATCH",
            "/apis/e.com/v1/namespaces/a/things/b/status",
            apply,
            "apply-status /apis/e.com/v1 things a b",
        );
        check("PATCH", "/api/v1/namespaces/a", merge, "patch /api/v1 namespaces a");
        check("PATCH", "/api/v1/namespaces/a/status", apply, "apply-status /api/v1 namespaces a");
        check("DELETE", "/api/v1/namespaces/a/secrets/b", json, "delete /api/v1 secrets a b");
        check("DELETE", "/api/v1/namespaces/a/secrets", json, "deletecollection /api/v1 secrets a");
    }

    #[test]
    fn a_read_is_told_by_its_request() {
        let json = "application/json";
        check("GET", "/api/v1/namespaces/a/secrets/b", json, "get /api/v1 secrets a b");
        check("GET", "/api/v1/secrets?limit=5", json, "list /api/v1 secrets");
        check("GET", "/api/v1/secrets?watch=true&limit=5", json, "watch /api/v1 secrets");
        check("GET", "/apis/apps/v1", json, "about no objects");
        check("GET", "/readyz", json, "about no objects");
    }
}
