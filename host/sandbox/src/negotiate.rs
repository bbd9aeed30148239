//! Content negotiation: what the client accepts, and how an object or list is to be shown.

use crate::error::ApiError;
use http::HeaderMap;

/// How much of an object goes into a table row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum IncludeObject {
    None,
    #[default]
    Metadata,
    Object,
}

/// How objects are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Form {
    /// As they are.
    #[default]
    Plain,
    /// Only their metadata: PartialObjectMetadata, its list.
    Metadata,
    /// As rows of a table, of `meta.k8s.io` in this version.
    Table(IncludeObject, &'static str),
}

/// What the real server answers with, as its refusals list it; of these, only JSON is made here.
const MADE: &[&str] = &["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];

/// One media range of an `Accept` header.
struct Range<'a> {
    kind: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
}

impl Range<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.parameters.iter().find(|(other, _)| *other == key).map(|(_, value)| *value)
    }

    fn is_json(&self) -> bool {
        matches!(self.kind, "application/json" | "*/*" | "application/*" | "")
    }
}

fn ranges(accept: &str) -> impl Iterator<Item = Range<'_>> {
    accept.split(',').map(|part| {
        let mut pieces = part.split(';').map(str::trim);
        let kind = pieces.next().unwrap_or_default();
        let parameters = pieces.filter_map(|piece| piece.split_once('=')).collect();
        Range { kind, parameters }
    })
}

fn accept(headers: &HeaderMap) -> &str {
    headers.get(http::header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or("*/*")
}

/// Chooses the form of an answer; 406 where the client takes nothing that we make.
pub(crate) fn form(headers: &HeaderMap, include: IncludeObject) -> Result<Form, ApiError> {
    for range in ranges(accept(headers)).filter(Range::is_json) {
        let version = range.get("v").unwrap_or("v1");
        let meta =
            range.get("g").is_none_or(|group| group == "meta.k8s.io") && matches!(version, "v1" | "v1beta1");
        match range.get("as") {
            None => return Ok(Form::Plain),
            Some("Table") if meta => {
                return Ok(Form::Table(include, if version == "v1beta1" { "v1beta1" } else { "v1" }));
            }
            Some("PartialObjectMetadata" | "PartialObjectMetadataList") if meta => return Ok(Form::Metadata),
            Some(_) => {}
        }
    }
    Err(ApiError::not_acceptable(MADE))
}

/// What built-in kinds check before they look at a request: whether anything of theirs is accepted.
pub(crate) fn check_accepts(headers: &HeaderMap) -> Result<(), ApiError> {
    let known = |range: &Range<'_>| range.is_json() || MADE.contains(&range.kind);
    if ranges(accept(headers)).any(|range| known(&range)) {
        return Ok(());
    }
    Err(ApiError::by_route(
        406,
        "NotAcceptable",
        &format!("406: Not Acceptable\n\nAvailable representations: {}", MADE.join(", ")),
    ))
}

/// Refuses metadata of an object where a list is asked for, and the other way around. `is` names the Go type of what is there.
pub(crate) fn check_metadata_form(headers: &HeaderMap, list: bool, is: &str) -> Result<(), ApiError> {
    let asked = ranges(accept(headers)).filter(Range::is_json).find_map(|range| match range.get("as") {
        Some("PartialObjectMetadata") => Some(false),
        Some("PartialObjectMetadataList") => Some(true),
        _ => None,
    });
    let refuse = |why: String| Err(ApiError::new(406, "NotAcceptable", why));
    match asked {
        Some(false) if list => {
            refuse(format!("you requested PartialObjectMetadata, but the requested object is a list ({is})"))
        }
        Some(true) if !list => refuse(format!(
            "you requested PartialObjectMetadataList, but the requested object is not a list ({is})"
        )),
        _ => Ok(()),
    }
}

/// Whether the client asks for aggregated discovery, and in which version.
pub(crate) fn aggregated_discovery(headers: &HeaderMap) -> Option<&'static str> {
    ranges(accept(headers)).filter(Range::is_json).find_map(|range| {
        let asked =
            range.get("as") == Some("APIGroupDiscoveryList") && range.get("g") == Some("apidiscovery.k8s.io");
        match range.get("v") {
            Some("v2") if asked => Some("v2"),
            Some("v2beta1") if asked => Some("v2beta1"),
            _ => None,
        }
    })
}

/// The media type of a body, without parameters.
pub(crate) fn content_type(headers: &HeaderMap) -> &str {
    let value =
        headers.get(http::header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim()
}

/// Whether a body is YAML; 415 where it is neither that nor JSON.
pub(crate) fn body_is_yaml(headers: &HeaderMap) -> Result<bool, ApiError> {
    match content_type(headers) {
        // A protobuf body was turned into JSON before.
        "" | "application/json" | crate::protobuf::MEDIA_TYPE => Ok(false),
        "application/yaml" => Ok(true),
        _ => Err(ApiError::unsupported_media_type(&[
            "application/json",
            "application/yaml",
            crate::protobuf::MEDIA_TYPE,
        ])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(accept: &str) -> Result<Form, u16> {
        let mut headers = HeaderMap::new();
        headers.insert(http::header::ACCEPT, accept.parse().unwrap());
        form(&headers, IncludeObject::Metadata).map_err(|error| error.code)
    }

    #[test]
    fn the_first_form_that_we_have_is_chosen() {
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(check(kubectl), Ok(Form::Table(IncludeObject::Metadata, "v1")));
        assert_eq!(check("application/vnd.kubernetes.protobuf,application/json"), Ok(Form::Plain));
        assert_eq!(check("application/vnd.kubernetes.protobuf"), Err(406));
        assert_eq!(
            check("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"),
            Ok(Form::Metadata)
        );
        assert_eq!(check("*/*"), Ok(Form::Plain));
        assert_eq!(check("application/json;as=Unknown;g=x;v=v1"), Err(406));
    }
}
