//! From the bytes of a body to an object of the target's kind.

use crate::error::{ApiError, go_quote};
use crate::json;
use crate::turn::{FieldValidation, Target, Turn};
use serde_json::Value;

/// What kind of request a body belongs to: it decides how bad fields are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin<'a> {
    /// A body sent as it is: 400.
    Body,
    /// The result of a patch: 422.
    Patch,
    /// The result of a strategic merge patch: 422, and what is told is the patch (its bytes are here).
    StrategicPatch(&'a [u8]),
    /// The result of an apply, whose own fields were checked before; with the namespace and name that it gave.
    Apply(&'a str),
}

/// Parses a body by its content type. The second part has a sentence for each field that occurs twice.
pub(crate) fn parse(target: &Target, bytes: &[u8], yaml: bool) -> Result<(Value, Vec<String>), ApiError> {
    let kind = &target.resource.kind;
    let unrecognized = |why: String| {
        ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): {why} ({})",
            summary(bytes)
        ))
    };
    let no_kind = |why: &str| unrecognized(format!("couldn't get version/kind; json parse error: {why}"));
    let parsed = match yaml {
        true => json::parse_yaml(bytes).map_err(unrecognized)?,
        false => json::parse(bytes).map_err(|why| no_kind(&why))?,
    };
    match &parsed.0 {
        Value::Object(fields) => {
            let kindless = fields.get("kind").and_then(Value::as_str).is_none_or(str::is_empty);
            if kindless && target.resource.is_custom() {
                let text = String::from_utf8_lossy(bytes);
                return Err(unrecognized(format!("Object 'Kind' is missing in '{text}'")));
            }
            Ok(parsed)
        }
        // As Go reads it, null is an object without fields.
        Value::Null => Ok((Value::Object(Default::default()), Vec::new())),
        other => Err(no_kind(&format!(
            "json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; \
             Kind string \"json:\\\"kind,omitempty\\\"\" }}",
            json::type_name(other)
        ))),
    }
}

/// Checks that an object is of the target's kind, drops what the schema lacks, fills in defaults.
pub(crate) fn decode(
    turn: &mut Turn<'_>,
    target: &Target,
    object: &mut Value,
    duplicates: Vec<String>,
    origin: Origin<'_>,
) -> Result<(), ApiError> {
    check_kind(turn, target, object, origin)?;
    let version = target.served();
    let mut empties = version.ty.empties(object);
    let decoded = match origin {
        Origin::Apply(_) => version.ty.decode_applied(object),
        _ => version.ty.decode(object),
    };
    let unknown = decoded.map_err(|error| undecodable(target, object, &error.to_string(), origin))?;
    if !matches!(origin, Origin::Apply(_)) {
        report(turn, target, object, [duplicates, unknown].concat(), origin)?;
    }
    version.ty.default(object);
    empties.retain(|empty| object.pointer(&empty.pointer).is_none());
    turn.empties = empties;
    Ok(())
}

fn undecodable(target: &Target, object: &Value, why: &str, origin: Origin<'_>) -> ApiError {
    let kind = &target.resource.kind;
    let version = &target.served().name;
    let error = format!("{kind} in version {} cannot be handled as a {kind}: {why}", go_quote(version));
    match origin {
        Origin::Body => ApiError::bad_request(error),
        Origin::Patch => bad_patch(object.to_string(), why),
        Origin::StrategicPatch(patch) => {
            let patch = json::parse(patch).map(|(patch, _)| patch).unwrap_or_default();
            bad_patch(json::go_value(&patch), why)
        }
        Origin::Apply(_) if target.resource.is_custom() => ApiError::new(500, "", error),
        Origin::Apply(place) => {
            let group = &target.resource.group;
            let typed = format!("{group}/{version}, Kind={kind}");
            let message = format!(
                "failed to convert new object ({place}; {typed}) to proper version: unable to convert unstructured object to \
                 {typed}: {why}"
            );
            ApiError::new(500, "", message)
        }
    }
}

/// A patch whose result is no object of the kind.
fn bad_patch(shown: String, why: &str) -> ApiError {
    let error = crate::schema::FieldError::invalid("patch", shown, why);
    ApiError::invalid(crate::error::Subject { group: "", kind: "" }, "", &[error])
}

fn report(
    turn: &mut Turn<'_>,
    target: &Target,
    object: &Value,
    faults: Vec<String>,
    origin: Origin<'_>,
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

fn kind_is_other(kind: &str, version: &str, target: &Target) -> bool {
    (!kind.is_empty() && kind != target.resource.kind)
        || (!version.is_empty() && version != target.served().api_version)
}

fn check_custom_kind(target: &Target, object: &Value, kind: &str, version: &str) -> Result<(), ApiError> {
    let (resource, expected) = (&target.resource, &target.served().api_version);
    if version != expected {
        return Err(ApiError::bad_request(format!(
            "the API version in the data ({version}) does not match the expected API version ({expected})"
        )));
    }
    if kind == resource.kind {
        return Ok(());
    }
    let error = crate::schema::FieldError::invalid("kind", kind, format!("must be {}", resource.kind));
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    Err(ApiError::invalid(crate::error::Subject { group: &resource.group, kind }, name, &[error]))
}

/// A body of another built-in kind, or of none.
fn other_kind(
    turn: &Turn<'_>,
    target: &Target,
    object: &Value,
    origin: Origin<'_>,
    version: &str,
) -> ApiError {
    let resource = &target.resource;
    let kind = object["kind"].as_str().filter(|kind| !kind.is_empty()).unwrap_or(&resource.kind);
    let short = version.rsplit('/').next().unwrap_or_default();
    let why = match turn.state.registry.find_kind(version, kind) {
        Some((other, _)) if !other.is_custom() => {
            let package = crate::resources::go_package(&resource.group);
            format!("converting ({short}.{kind}) to ({package}.{}): unknown conversion", resource.kind)
        }
        _ => format!(
            "no kind {} is registered for version {} in scheme \"pkg/runtime/scheme.go:111\"",
            go_quote(kind),
            go_quote(version)
        ),
    };
    match origin {
        Origin::Body => ApiError::bad_request(format!(
            "{kind} in version {} cannot be handled as a {}: {why}",
            go_quote(short),
            resource.kind
        )),
        Origin::Patch | Origin::StrategicPatch(_) | Origin::Apply(_) => bad_patch(object.to_string(), &why),
    }
}

/// Fills in a missing kind of a built-in body; refuses another version or kind.
fn check_kind(
    turn: &Turn<'_>,
    target: &Target,
    object: &mut Value,
    origin: Origin<'_>,
) -> Result<(), ApiError> {
    let resource = &target.resource;
    let expected = &target.served().api_version;
    if !object.is_object() {
        let why = format!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            json::type_name(object)
        );
        return Err(ApiError::bad_request(why));
    }
    let text = |key: &str| object[key].as_str().unwrap_or_default().to_owned();
    let (kind, version) = (text("kind"), text("apiVersion"));
    if resource.is_custom() {
        check_custom_kind(target, object, &kind, &version)?;
    } else if kind_is_other(&kind, &version, target) {
        return Err(other_kind(
            turn,
            target,
            object,
            origin,
            if version.is_empty() { expected } else { &version },
        ));
    }
    object["kind"] = Value::from(resource.kind.as_str());
    object["apiVersion"] = Value::from(expected.as_str());
    if !object["metadata"].is_object() {
        object["metadata"] = Value::Object(Default::default());
    }
    Ok(())
}

/// The start of a body, for a message: as it is where it looks like JSON, else in hexadecimal digits.
fn summary(bytes: &[u8]) -> String {
    let start = &bytes[..bytes.len().min(30)];
    let text = match bytes.first() {
        None => return "<empty>".to_owned(),
        Some(b'{') => String::from_utf8_lossy(start).into_owned(),
        Some(_) => start.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    if bytes.len() > 30 { format!("{text} ...") } else { text }
}
