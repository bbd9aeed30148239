//! Errors as the API tells them: a `Status` object with code, reason, details and causes.

use crate::schema::FieldError;
use serde_json::{Map, Value, json};

/// One cause in the details of a [`ApiError`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// Machine-readable reason, such as `FieldValueInvalid`.
    pub reason: String,
    /// Human-readable text.
    pub message: String,
    /// Path of the field, empty where the cause is about no field.
    pub field: String,
}

/// What the failed request was about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    /// Name of the object, empty where there is none.
    pub name: String,
    /// Group of the resource or kind, empty for the core group.
    pub group: String,
    /// Resource (`pods`) or kind (`Pod`): Kubernetes uses both.
    pub kind: String,
    /// UID, only for failed preconditions of some verbs.
    pub uid: String,
    /// Causes, in order.
    pub causes: Vec<Cause>,
    /// Seconds after which a retry makes sense.
    pub retry_after_seconds: u32,
}

/// A refused request. Becomes a `Status` object on the wire.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// HTTP status code.
    pub code: u16,
    /// `StatusReason`; empty for an unknown one.
    pub reason: String,
    /// The sentence a person reads.
    pub message: String,
    /// What it was about.
    pub details: Option<Box<Details>>,
    /// For a list that expired on its way: the token to go on with.
    pub continue_token: Option<Box<str>>,
}

/// A resource as error messages name it: `pods`, `deployments.apps`.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// API group, empty for core.
    pub group: &'a str,
    /// Plural resource or kind.
    pub kind: &'a str,
}

impl std::fmt::Display for Subject<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.group.is_empty() { f.write_str(self.kind) } else { write!(f, "{}.{}", self.kind, self.group) }
    }
}

impl Subject<'_> {
    fn details(self, name: &str) -> Details {
        Details { name: name.into(), group: self.group.into(), kind: self.kind.into(), ..Details::default() }
    }
}

impl ApiError {
    /// An error with no details.
    pub fn new(code: u16, reason: &str, message: impl Into<String>) -> ApiError {
        ApiError { code, reason: reason.into(), message: message.into(), details: None, continue_token: None }
    }

    pub(crate) fn about(
        code: u16,
        reason: &str,
        subject: Subject<'_>,
        name: &str,
        message: String,
    ) -> ApiError {
        ApiError { details: Some(Box::new(subject.details(name))), ..ApiError::new(code, reason, message) }
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> ApiError {
        ApiError::new(400, "BadRequest", message)
    }

    pub(crate) fn not_found(subject: Subject<'_>, name: &str) -> ApiError {
        ApiError::about(404, "NotFound", subject, name, format!("{subject} {} not found", go_quote(name)))
    }

    pub(crate) fn already_exists(subject: Subject<'_>, name: &str) -> ApiError {
        ApiError::about(
            409,
            "AlreadyExists",
            subject,
            name,
            format!("{subject} {} already exists", go_quote(name)),
        )
    }

    pub(crate) fn generate_name_conflict(subject: Subject<'_>, name: &str) -> ApiError {
        let message = format!(
            "{subject} {} already exists, the server was not able to generate a unique name for the object",
            go_quote(name)
        );
        let mut error = ApiError::about(409, "AlreadyExists", subject, name, message);
        if let Some(details) = &mut error.details {
            details.retry_after_seconds = 1;
        }
        error
    }

    pub(crate) fn conflict(subject: Subject<'_>, name: &str, why: &str) -> ApiError {
        let message = format!("Operation cannot be fulfilled on {subject} {}: {why}", go_quote(name));
        ApiError::about(409, "Conflict", subject, name, message)
    }

    /// The optimistic lock failed: the object changed since the caller read it.
    pub(crate) fn modified(subject: Subject<'_>, name: &str) -> ApiError {
        let why =
            "the object has been modified; please apply your changes to the latest version and try again";
        ApiError::conflict(subject, name, why)
    }

    pub(crate) fn forbidden(subject: Subject<'_>, name: &str, why: &str) -> ApiError {
        let message = if name.is_empty() {
            format!("{subject} is forbidden: {why}")
        } else {
            format!("{subject} {} is forbidden: {why}", go_quote(name))
        };
        ApiError::about(403, "Forbidden", subject, name, message)
    }

    /// What is refused before anybody looks which object it is about.
    pub(crate) fn by_route(code: u16, reason: &str, why: &str) -> ApiError {
        ApiError { details: Some(Box::default()), ..ApiError::new(code, reason, why) }
    }

    /// A path below a group of our own that names nothing.
    pub(crate) fn no_resource() -> ApiError {
        ApiError::by_route(404, "NotFound", "the server could not find the requested resource")
    }

    /// A path that knows other methods.
    pub(crate) fn no_method() -> ApiError {
        let why = "the server does not allow this method on the requested resource";
        ApiError::by_route(405, "MethodNotAllowed", why)
    }

    /// A failure of the server's own, with its cause.
    pub(crate) fn internal(why: &str) -> ApiError {
        let error = ApiError::new(500, "InternalError", format!("Internal error occurred: {why}"));
        error.with_cause("", why, "")
    }

    pub(crate) fn method_not_supported(subject: Subject<'_>, verb: &str) -> ApiError {
        let message =
            format!("{verb} is not supported on resources of kind {}", go_quote(&subject.to_string()));
        ApiError::about(405, "MethodNotAllowed", subject, "", message)
    }

    /// 422 with a cause for each field error, worded as `Deployment.apps "x" is invalid: …`.
    pub(crate) fn invalid(kind: Subject<'_>, name: &str, errors: &[FieldError]) -> ApiError {
        let causes = errors
            .iter()
            .map(|error| {
                let cause = error.cause();
                Cause { reason: cause.reason.to_string(), message: cause.message, field: cause.field }
            })
            .collect();
        let mut message = format!("{kind} {} is invalid", go_quote(name));
        if !errors.is_empty() {
            message = format!("{message}: {}", crate::schema::aggregate(errors));
        }
        let mut error = ApiError::about(422, "Invalid", kind, name, message);
        if let Some(details) = &mut error.details {
            details.causes = causes;
        }
        error
    }

    pub(crate) fn expired(message: impl Into<String>) -> ApiError {
        ApiError::new(410, "Expired", message)
    }

    pub(crate) fn unsupported_media_type(accepted: &[&str]) -> ApiError {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            accepted.join(", ")
        );
        ApiError::new(415, "UnsupportedMediaType", message)
    }

    pub(crate) fn not_acceptable(accepted: &[&str]) -> ApiError {
        let message = format!("only the following media types are accepted: {}", accepted.join(", "));
        ApiError::new(406, "NotAcceptable", message)
    }

    pub(crate) fn with_cause(mut self, reason: &str, message: impl Into<String>, field: &str) -> ApiError {
        self.details.get_or_insert_default().causes.push(Cause {
            reason: reason.into(),
            message: message.into(),
            field: field.into(),
        });
        self
    }

    /// The `Status` object, as it goes over the wire.
    pub fn status(&self) -> Value {
        let mut status = Map::new();
        status.insert("kind".into(), json!("Status"));
        status.insert("apiVersion".into(), json!("v1"));
        status.insert(
            "metadata".into(),
            match &self.continue_token {
                Some(token) => json!({"continue": token}),
                None => json!({}),
            },
        );
        status.insert("status".into(), json!("Failure"));
        status.insert("message".into(), json!(self.message));
        if !self.reason.is_empty() {
            status.insert("reason".into(), json!(self.reason));
        }
        if let Some(details) = &self.details {
            status.insert("details".into(), details.to_json());
        }
        status.insert("code".into(), json!(self.code));
        Value::Object(status)
    }
}

impl Details {
    fn to_json(&self) -> Value {
        let mut out = Map::new();
        for (key, value) in
            [("name", &self.name), ("group", &self.group), ("kind", &self.kind), ("uid", &self.uid)]
        {
            if !value.is_empty() {
                out.insert(key.into(), json!(value));
            }
        }
        if !self.causes.is_empty() {
            let causes = self.causes.iter().map(|cause| {
                let mut out = Map::new();
                for (key, value) in
                    [("reason", &cause.reason), ("message", &cause.message), ("field", &cause.field)]
                {
                    if !value.is_empty() {
                        out.insert(key.into(), json!(value));
                    }
                }
                Value::Object(out)
            });
            out.insert("causes".into(), causes.collect());
        }
        if self.retry_after_seconds > 0 {
            out.insert("retryAfterSeconds".into(), json!(self.retry_after_seconds));
        }
        Value::Object(out)
    }
}

/// Text in double quotes with the escapes of Go's `%q`, which upstream's messages use.
pub(crate) fn go_quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            c if (c as u32) < 0x20 || c as u32 == 0x7f => out.push_str(&format!("\\x{:02x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(error: &ApiError, expected: Expect) {
        expected.assert_eq(&error.status().to_string());
    }

    #[test]
    fn an_absent_object_is_named_with_its_resource_and_group() {
        let subject = Subject { group: "apps", kind: "deployments" };
        check(
            &ApiError::not_found(subject, "web"),
            expect![[
                r#"{"apiVersion":"v1","code":404,"details":{"group":"apps","kind":"deployments","name":"web"},"kind":"Status","message":"deployments.apps \"web\" not found","metadata":{},"reason":"NotFound","status":"Failure"}"#
            ]],
        );
    }

    #[test]
    fn an_error_about_nothing_has_no_details() {
        check(
            &ApiError::bad_request("name must be provided"),
            expect![[
                r#"{"apiVersion":"v1","code":400,"kind":"Status","message":"name must be provided","metadata":{},"reason":"BadRequest","status":"Failure"}"#
            ]],
        );
    }
}
