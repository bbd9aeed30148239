//! Resources that only answer questions: who am I, may I do that. Everybody is the admin, and may.

use crate::api::{Call, json_bytes};
use crate::body::ApiBody;
use crate::error::ApiError;
use crate::json;
use crate::request::ResourcePath;
use crate::sandbox::Inner;
use crate::turn::second;
use http::{Method, Response};
use serde_json::{Value, json};
use std::sync::Arc;

/// Plural, kind, whether namespaced, by group.
const REVIEWS: &[(&str, &str, &str, bool)] = &[
    ("authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview", false),
    ("authentication.k8s.io", "tokenreviews", "TokenReview", false),
    ("authorization.k8s.io", "localsubjectaccessreviews", "LocalSubjectAccessReview", true),
    ("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview", false),
    ("authorization.k8s.io", "selfsubjectrulesreviews", "SelfSubjectRulesReview", false),
    ("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview", false),
];

/// What discovery says of a group's reviews.
pub(crate) fn resources(group: &str) -> Vec<Value> {
    let of_group = REVIEWS.iter().filter(|(other, ..)| *other == group);
    of_group
        .map(|(_, plural, kind, namespaced)| {
            json!({
                "name": plural,
                "singularName": kind.to_lowercase(),
                "namespaced": namespaced,
                "kind": kind,
                "verbs": ["create"],
            })
        })
        .collect()
}

/// What aggregated discovery says of a group's reviews.
pub(crate) fn aggregated(group: &str, version: &str) -> Vec<Value> {
    let of_group = REVIEWS.iter().filter(|(other, ..)| *other == group);
    of_group
        .map(|(group, plural, kind, namespaced)| {
            json!({
                "resource": plural,
                "responseKind": {"group": group, "version": version, "kind": kind},
                "scope": if *namespaced { "Namespaced" } else { "Cluster" },
                "singularResource": kind.to_lowercase(),
                "verbs": ["create"],
            })
        })
        .collect()
}

/// Answers a review; `None` for any other path.
pub(crate) fn answer(
    inner: &Arc<Inner>,
    call: &Call,
    path: &ResourcePath,
) -> Option<Result<Response<ApiBody>, ApiError>> {
    let (.., kind, _) =
        REVIEWS.iter().find(|(group, plural, ..)| *group == path.group && *plural == path.plural)?;
    if call.method != Method::POST {
        let refused = "the server does not allow this method on the requested resource";
        return Some(Err(ApiError::new(405, "MethodNotAllowed", refused)));
    }
    Some(review(inner, call, kind))
}

fn review(inner: &Arc<Inner>, call: &Call, kind: &str) -> Result<Response<ApiBody>, ApiError> {
    let (mut object, _) = json::parse(&call.body).map_err(ApiError::bad_request)?;
    if !object.is_object() {
        return Err(ApiError::bad_request("the body is no object"));
    }
    let user = json!({"username": "admin", "groups": ["system:masters", "system:authenticated"]});
    object["status"] = match kind {
        "SelfSubjectReview" => json!({"userInfo": user}),
        "TokenReview" => json!({"authenticated": true, "user": user}),
        "SelfSubjectRulesReview" => json!({
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            "incomplete": false,
        }),
        _ => json!({"allowed": true}),
    };
    if kind == "SelfSubjectReview" {
        object["metadata"] = json!({"creationTimestamp": second(inner.now())});
    }
    Ok(json_bytes(201, object.to_string().into_bytes()))
}
