//! From the bytes of a body to an object of the target's kind.

use crate::error::{ApiError, go_quote};
use crate::json;
use crate::turn::{FieldValidation, Target, Turn};
use serde_json::Value;

/// What kind of request a body belongs to: it decides how bad fields are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A body sent as it is: 400.
    Body,
    /// The result of a patch: 422.
    Patch,
    /// The result of an apply, whose own fields were checked before.
    Apply,
}

/// Parses a body by its content type.
pub(crate) fn parse(
    turn: &mut Turn<'_>,
    target: &Target,
    bytes: &[u8],
    yaml: bool,
) -> Result<Value, ApiError> {
    let kind = &target.resource.kind;
    let parsed = if yaml { json::parse_yaml(bytes) } else { json::parse(bytes) };
    let (object, duplicates) = parsed.map_err(|why| {
        ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): {why} ({})",
            summary(bytes)
        ))
    })?;
    report(turn, target, &object, duplicates, Origin::Body)?;
    Ok(object)
}

/// Checks that an object is of the target's kind, drops what the schema lacks, fills in defaults.
pub(crate) fn decode(
    turn: &mut Turn<'_>,
    target: &Target,
    object: &mut Value,
    origin: Origin,
) -> Result<(), ApiError> {
    check_kind(target, object)?;
    let version = target.served();
    let unknown =
        version.ty.decode(object).map_err(|error| undecodable(target, object, &error.to_string(), origin))?;
    if origin != Origin::Apply {
        report(turn, target, object, unknown, origin)?;
    }
    version.ty.default(object);
    Ok(())
}

fn undecodable(target: &Target, object: &Value, why: &str, origin: Origin) -> ApiError {
    let kind = &target.resource.kind;
    let version = &target.served().name;
    let error = format!("{kind} in version {} cannot be handled as a {kind}: {why}", go_quote(version));
    match origin {
        Origin::Body => ApiError::bad_request(error),
        Origin::Patch => bad_patch(object, why),
        Origin::Apply => ApiError::new(500, "", error),
    }
}

/// A patch whose result is no object of the kind.
fn bad_patch(object: &Value, why: &str) -> ApiError {
    let error = crate::schema::FieldError::invalid("patch", object.to_string(), why);
    ApiError::invalid(crate::error::Subject { group: "", kind: "" }, "", &[error])
}

fn report(
    turn: &mut Turn<'_>,
    target: &Target,
    object: &Value,
    faults: Vec<String>,
    origin: Origin,
) -> Result<(), ApiError> {
    match turn.options.validation {
        FieldValidation::Ignore => Ok(()),
        _ if faults.is_empty() => Ok(()),
        FieldValidation::Warn => {
            faults.into_iter().for_each(|fault| turn.warn(fault));
            Ok(())
        }
        FieldValidation::Strict => {
            let why = format!("strict decoding error: {}", faults.join(", "));
            Err(undecodable(target, object, &why, origin))
        }
    }
}

/// Fills in a missing kind of a built-in body; refuses another version or kind.
fn check_kind(target: &Target, object: &mut Value) -> Result<(), ApiError> {
    let resource = &target.resource;
    let expected = &target.served().api_version;
    if !object.is_object() {
        let why = format!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            type_name(object)
        );
        return Err(ApiError::bad_request(why));
    }
    let text = |key: &str| object[key].as_str().unwrap_or_default().to_owned();
    let (kind, version) = (text("kind"), text("apiVersion"));
    if kind.is_empty() && resource.is_custom() {
        let shown = object.to_string();
        return Err(ApiError::bad_request(format!("Object 'Kind' is missing in '{shown}'")));
    }
    if !version.is_empty() && version != *expected {
        return Err(ApiError::bad_request(format!(
            "the API version in the data ({version}) does not match the expected API version ({expected})"
        )));
    }
    if !kind.is_empty() && kind != resource.kind {
        if resource.is_custom() {
            let error =
                crate::schema::FieldError::invalid("kind", kind, format!("must be {}", resource.kind));
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            return Err(ApiError::invalid(resource.kind_subject(), name, &[error]));
        }
        return Err(ApiError::bad_request(format!(
            "{kind} in version {} cannot be handled as a {}: no kind {} is registered for the internal version of group {} in scheme",
            go_quote(version.rsplit('/').next().unwrap_or_default()),
            resource.kind,
            go_quote(&kind),
            go_quote(&resource.group),
        )));
    }
    object["kind"] = Value::from(resource.kind.as_str());
    object["apiVersion"] = Value::from(expected.as_str());
    if !object["metadata"].is_object() {
        object["metadata"] = Value::Object(Default::default());
    }
    Ok(())
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The start of a body, for a message.
fn summary(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(30)]);
    if bytes.len() > 30 { format!("{text}...") } else { text.into_owned() }
}
