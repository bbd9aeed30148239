//! What a user does: a step as the request that it stands for.

use std::fmt::Write as _;

use serde_json::Value;

use super::kinds::{KindError, KindInfo, Kinds};
use super::step::{DeleteStep, Named, PatchStep, Propagation, Step};

/// A request to the API server by a user, who may do anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserRequest {
    /// The HTTP method.
    pub method: &'static str,
    /// Path and query.
    pub target: String,
    /// The form of the body.
    pub content_type: &'static str,
    /// The body.
    pub body: Vec<u8>,
}

const JSON: &str = "application/json";

impl UserRequest {
    /// The request of a step; none where the step is nothing that a user asks of the API server.
    pub fn of(step: &Step, kinds: &Kinds) -> Result<Option<Self>, KindError> {
        Ok(Some(match step {
            Step::Apply(object) => Self {
                method: "PATCH",
                target: format!("{}?fieldManager=user&force=true", target(object, true, kinds)?),
                content_type: "application/apply-patch+yaml",
                body: object.to_string().into_bytes(),
            },
            Step::Create(object) => Self {
                method: "POST",
                target: format!("{}?fieldManager=user", target(object, false, kinds)?),
                content_type: JSON,
                body: object.to_string().into_bytes(),
            },
            Step::Replace(object) => Self {
                method: "PUT",
                target: format!("{}?fieldManager=user", target(object, true, kinds)?),
                content_type: JSON,
                body: object.to_string().into_bytes(),
            },
            Step::Patch(step) => patch(step, kinds)?,
            Step::Delete(step) => delete(step, kinds)?,
            Step::Advance(_)
            | Step::Restart(_)
            | Step::CutWatches(_)
            | Step::Install(_)
            | Step::Uninstall(_)
            | Step::Swap(_)
            | Step::Fail(_)
            | Step::Before(_)
            | Step::Refused(_)
            | Step::Repeat(_)
            | Step::Provider(_)
            | Step::Resync(_)
            | Step::Expect(_) => return Ok(None),
        }))
    }
}

fn patch(step: &PatchStep, kinds: &Kinds) -> Result<UserRequest, KindError> {
    let named = step.named();
    let path = path(named.kind(kinds)?, named.namespace, Some(named.name), step.subresource.as_deref());
    let manager = step.manager.as_deref().unwrap_or("user");
    Ok(UserRequest {
        method: "PATCH",
        target: format!("{path}?fieldManager={}", encoded(manager)),
        content_type: "application/merge-patch+json",
        body: step.merge.to_string().into_bytes(),
    })
}

fn delete(step: &DeleteStep, kinds: &Kinds) -> Result<UserRequest, KindError> {
    let named = step.named();
    let propagation = match step.propagation {
        None | Some(Propagation::Background) => "Background",
        Some(Propagation::Foreground) => "Foreground",
        Some(Propagation::Orphan) => "Orphan",
    };
    Ok(UserRequest {
        method: "DELETE",
        target: path(named.kind(kinds)?, named.namespace, Some(named.name), None),
        content_type: JSON,
        body: delete_options(propagation),
    })
}

/// Where an object lives, or its collection.
fn target(object: &Value, named: bool, kinds: &Kinds) -> Result<String, KindError> {
    let whole = Named::of(object);
    let name = Some(whole.name).filter(|name| named && !name.is_empty());
    Ok(path(whole.kind(kinds)?, whole.namespace, name, None))
}

/// The path of a kind's collection, or of one object in it.
pub fn path(
    kind: &KindInfo,
    namespace: Option<&str>,
    name: Option<&str>,
    subresource: Option<&str>,
) -> String {
    let mut path = if kind.gvk.group.is_empty() {
        format!("/api/{}", kind.gvk.version)
    } else {
        format!("/apis/{}/{}", kind.gvk.group, kind.gvk.version)
    };
    if kind.namespaced {
        path = format!("{path}/namespaces/{}", encoded(namespace.unwrap_or("default")));
    }
    path = format!("{path}/{}", kind.plural);
    for part in [name, subresource].into_iter().flatten() {
        path = format!("{path}/{}", encoded(part));
    }
    path
}

/// A text as one part of a path, or as a value in a query: the server reads it as it was, and says itself what is wrong with it.
fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            // A `+` would be read as a space in a query, and `&` and `=` end a value there.
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b':' | b'@' | b',' => {
                encoded.push(char::from(byte));
            }
            other => {
                let _ = write!(encoded, "%{other:02X}");
            }
        }
    }
    encoded
}

/// The body of a deletion.
pub fn delete_options(propagation: &str) -> Vec<u8> {
    serde_json::json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation})
        .to_string()
        .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_name_is_one_part_of_the_path_whatever_stands_in_it() {
        let kinds = Kinds::with_crds([]);
        for (step, expected) in [
            (
                json!({"delete": {"kind": "Pod", "namespace": "a b", "name": "c/d"}}),
                "DELETE /api/v1/namespaces/a%20b/pods/c%2Fd",
            ),
            (
                json!({"patch": {"kind": "ClusterRole", "name": "system:node", "manager": "a&b+c", "merge": {}}}),
                "PATCH /apis/rbac.authorization.k8s.io/v1/clusterroles/system:node?fieldManager=a%26b%2Bc",
            ),
            (
                json!({"apply": {"kind": "Namespace", "metadata": {"name": "ä?"}}}),
                "PATCH /api/v1/namespaces/%C3%A4%3F?fieldManager=user&force=true",
            ),
            (
                json!({"create": {"kind": "Pod", "metadata": {"name": "a b"}}}),
                "POST /api/v1/namespaces/default/pods?fieldManager=user",
            ),
        ] {
            let step: Step = serde_json::from_value(step).expect("a step");
            let request = UserRequest::of(&step, &kinds).expect("the kind is known").expect("a request");
            assert_eq!(format!("{} {}", request.method, request.target), expected);
        }
    }
}
