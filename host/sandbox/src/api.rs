//! From a request to its answer: which path, which verb, which step of the store.

mod read;
mod write;

use crate::body::ApiBody;
use crate::error::ApiError;
use crate::request::{Query, ResourcePath, Target as Path, parse_path};
use crate::resources::Offers;
use crate::sandbox::Inner;
use crate::turn::{State, Target};
use crate::{discovery, openapi, review};
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use serde_json::Value;
use std::sync::Arc;

/// A request, taken apart.
pub(crate) struct Call {
    pub method: Method,
    pub path: String,
    pub query: Query,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// Answers a request.
pub(crate) fn answer(inner: &Arc<Inner>, request: Request<Bytes>) -> Response<ApiBody> {
    let (parts, body) = request.into_parts();
    let body = match json_body(&parts.headers, body) {
        Ok(body) => body,
        Err(error) => return refusal(&error),
    };
    let call = Call {
        method: parts.method,
        path: parts.uri.path().to_owned(),
        query: Query::parse(parts.uri.query().unwrap_or_default()),
        headers: parts.headers,
        body,
    };
    let answer = match parse_path(&call.path) {
        Path::Resource(path) => resource(inner, &call, path),
        Path::LegacyVersions | Path::Groups | Path::Group(_) | Path::GroupVersion(..)
            if call.method != Method::GET =>
        {
            Err(ApiError::no_method())
        }
        Path::LegacyVersions => Ok(discovery::legacy_versions(&inner.read().registry, &call.headers)),
        Path::Groups => Ok(discovery::groups(&inner.read().registry, &call.headers)),
        Path::Group(group) => {
            Ok(discovery::group(&inner.read().registry, &group).map_or_else(not_found, json_value))
        }
        Path::GroupVersion(group, version) => {
            let resources = discovery::group_version(&inner.read().registry, &group, &version);
            Ok(resources.map_or_else(not_found, json_value))
        }
        Path::Other => Ok(other(inner, &call)),
    };
    let mut response = answer.unwrap_or_else(|error| refusal(&error));
    if !response.headers().contains_key(header::CACHE_CONTROL) {
        set(&mut response, header::CACHE_CONTROL, "no-cache, private");
    }
    response
}

/// A body in protobuf as JSON; any other as it is.
fn json_body(headers: &HeaderMap, body: Bytes) -> Result<Bytes, ApiError> {
    if crate::negotiate::content_type(headers) != crate::protobuf::MEDIA_TYPE || body.is_empty() {
        return Ok(body);
    }
    let object = crate::protobuf::decode(&body).map_err(ApiError::bad_request)?;
    Ok(Bytes::from(object.to_string()))
}

fn resource(inner: &Arc<Inner>, call: &Call, path: ResourcePath) -> Result<Response<ApiBody>, ApiError> {
    if let Some(answer) = review::answer(inner, call, &path) {
        return answer;
    }
    let state = inner.read();
    let Some(target) = target_of(&state, &path) else { return unmatched(&state, call, &path) };
    drop(state);
    let verb = verb_of(call, &target);
    if !target.resource.is_custom() {
        crate::negotiate::check_accepts(&call.headers)?;
    }
    let offers = target.resource.traits.offers;
    let answer = match verb {
        // It has the route of a list.
        "watch" if offers == Offers::Reads => {
            Err(ApiError::method_not_supported(target.resource.subject(), verb))
        }
        _ if !offers.has(verb) => return Err(ApiError::no_method()),
        "get" | "list" | "watch" => read::answer(inner, call, &target, verb),
        _ => write::answer(inner, call, &target, verb),
    };
    let mut response = answer.unwrap_or_else(|error| refusal(&error));
    // Whoever is sent away by the route never came to the version that is deprecated.
    if target.resource.is_custom() || verb == "watch" || response.status() != StatusCode::METHOD_NOT_ALLOWED {
        warn(&mut response, target.served().deprecation.as_slice());
    }
    Ok(response)
}

/// A path that names nothing: in groups of our own that is an error like any other, elsewhere nobody is at home.
fn unmatched(state: &State, call: &Call, path: &ResourcePath) -> Result<Response<ApiBody>, ApiError> {
    let ours = state.registry.in_group(&path.group).filter(|resource| !resource.is_custom());
    let known = ours.into_iter().find(|resource| resource.version(&path.version).is_some());
    if known.is_none() && !path.group.is_empty() {
        return Ok(not_found());
    }
    let at_all = state.registry.find(&path.group, &path.plural).is_some_and(|resource| !resource.is_custom());
    Err(if at_all && call.method != Method::GET { ApiError::no_method() } else { ApiError::no_resource() })
}

fn target_of(state: &State, path: &ResourcePath) -> Option<Target> {
    let resource = state.registry.find(&path.group, &path.plural)?;
    let version = resource.version(&path.version)?;
    if path.tail.is_some() || (path.namespace.is_some() && !resource.namespaced) {
        return None;
    }
    // An object of a namespaced kind is reached through its namespace only.
    if resource.namespaced && path.namespace.is_none() && path.name.is_some() {
        return None;
    }
    Some(Target {
        resource: resource.clone(),
        version,
        namespace: path.namespace.clone().unwrap_or_default(),
        name: path.name.clone().unwrap_or_default(),
        subresource: path.subresource.clone().unwrap_or_default(),
    })
}

/// The verb as Kubernetes names it.
fn verb_of(call: &Call, target: &Target) -> &'static str {
    let watch = call.query.flag("watch") && target.name.is_empty();
    match (&call.method, target.name.is_empty()) {
        (&Method::GET | &Method::HEAD, _) if watch && target.subresource.is_empty() => "watch",
        (&Method::GET | &Method::HEAD, true) => "list",
        (&Method::GET | &Method::HEAD, false) => "get",
        (&Method::POST, _) => "create",
        (&Method::PUT, _) => "update",
        (&Method::PATCH, _)
            if crate::negotiate::content_type(&call.headers).starts_with("application/apply-patch") =>
        {
            "apply"
        }
        (&Method::PATCH, _) => "patch",
        (&Method::DELETE, true) => "deletecollection",
        (&Method::DELETE, false) => "delete",
        _ => "unknown",
    }
}

fn other(inner: &Arc<Inner>, call: &Call) -> Response<ApiBody> {
    match call.path.trim_end_matches('/') {
        "" => json_value(discovery::paths(&inner.read().registry)),
        "/version" => json_value(discovery::version()),
        "/healthz" | "/readyz" | "/livez" => text(StatusCode::OK, "ok"),
        path if ["/healthz/", "/readyz/", "/livez/"].iter().any(|prefix| path.starts_with(prefix)) => {
            text(StatusCode::OK, "ok")
        }
        path if path.starts_with("/openapi") => openapi::answer(inner, path, call),
        _ => not_found(),
    }
}

/// What the real server says of a path that nobody serves.
pub(crate) fn not_found() -> Response<ApiBody> {
    text(StatusCode::NOT_FOUND, "404 page not found\n")
}

pub(crate) fn text(code: StatusCode, text: &'static str) -> Response<ApiBody> {
    let mut response = Response::new(ApiBody::whole(text));
    *response.status_mut() = code;
    set(&mut response, header::CONTENT_TYPE, "text/plain; charset=utf-8");
    response
}

/// A JSON answer with status 200.
pub(crate) fn json_value(value: Value) -> Response<ApiBody> {
    json_bytes(200, value.to_string().into_bytes())
}

pub(crate) fn json_bytes(code: u16, bytes: impl Into<Bytes>) -> Response<ApiBody> {
    let mut response = Response::new(ApiBody::whole(bytes));
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    set(&mut response, header::CONTENT_TYPE, "application/json");
    response
}

/// An error as its `Status`.
pub(crate) fn refusal(error: &ApiError) -> Response<ApiBody> {
    let mut response = json_bytes(error.code, error.status().to_string().into_bytes());
    if let Some(details) = &error.details
        && details.retry_after_seconds > 0
        && let Ok(value) = details.retry_after_seconds.to_string().parse()
    {
        response.headers_mut().insert(header::RETRY_AFTER, value);
    }
    response
}

pub(crate) fn set(response: &mut Response<ApiBody>, name: header::HeaderName, value: &'static str) {
    response.headers_mut().insert(name, header::HeaderValue::from_static(value));
}

/// Adds a `Warning` header for each text.
pub(crate) fn warn(response: &mut Response<ApiBody>, warnings: &[String]) {
    for warning in warnings {
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"").replace(['\n', '\r'], " ");
        if let Ok(value) = format!("299 - \"{quoted}\"").parse() {
            response.headers_mut().append(header::WARNING, value);
        }
    }
}

impl Call {
    /// The `User-Agent` header.
    pub(crate) fn user_agent(&self) -> &str {
        self.headers.get(header::USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}
