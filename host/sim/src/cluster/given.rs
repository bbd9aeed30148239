//! Puts given objects in place on a real server, which takes a status, a deletion and an owner's UID only one after another.

use serde_json::{Value, json};

use super::edge::Edge;
use super::wire::WireError;
use super::{DEFINITION_MAX, PAUSE, Place, SYSTEM, Stage, looks};
use crate::scenario::kinds::{KindInfo, Kinds};
use crate::scenario::step::Named;
use crate::scenario::user::{UserRequest, delete_options, path};
use crate::scenario::world::WorldError;

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";

/// What the server fills in, or takes in another way.
const NOT_TO_BE_CREATED: [&str; 7] = [
    "uid",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "resourceVersion",
    "managedFields",
];

impl Stage {
    /// Puts the given objects in place, owners before what they own and what is being deleted last.
    pub(crate) async fn put(&self, given: &[Value], kinds: &Kinds) -> Result<(), WorldError> {
        let mut placed = vec![Value::Null; given.len()];
        for index in order(given) {
            let wrong = |reason: String| WorldError::Given { index: index + 1, reason };
            let kind = Named::of(&given[index]).kind(kinds).map_err(|error| wrong(error.to_string()))?;
            placed[index] = self.create(&given[index], kind).await.map_err(wrong)?;
        }
        let deleted = |object: &Value| object.pointer("/metadata/deletionTimestamp").is_some();
        // Nothing can be made in a Namespace that goes, so those go last.
        let (namespaces, others): (Vec<usize>, Vec<usize>) = (0..given.len())
            .filter(|at| deleted(&given[*at]))
            .partition(|at| given[*at]["kind"] == "Namespace");
        for index in others.into_iter().chain(namespaces) {
            let wrong = |reason: String| WorldError::Given { index: index + 1, reason };
            let kind = Named::of(&given[index]).kind(kinds).map_err(|error| wrong(error.to_string()))?;
            placed[index] = self.delete(&given[index], kind).await.map_err(wrong)?;
        }
        for (given, placed) in given.iter().zip(&placed) {
            self.edge.place(given, placed);
        }
        Ok(())
    }

    async fn create(&self, given: &Value, kind: &KindInfo) -> Result<Value, String> {
        let mut body = given.clone();
        body["apiVersion"] = kind.gvk.api_version().into();
        if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
            NOT_TO_BE_CREATED.iter().for_each(|field| drop(metadata.remove(*field)));
        }
        let named = Named::of(given);
        let all = path(kind, named.namespace, None, None);
        let request = |method, target: String, content_type, body: &Value| UserRequest {
            method,
            target,
            content_type,
            body: body.to_string().into_bytes(),
        };
        let post = request("POST", format!("{all}?fieldManager=given"), JSON, &body);
        let mut placed = match self.ask(&post).await {
            Ok(placed) => placed,
            Err(reason) if reason.starts_with("409 ") && of_the_cluster(given) => {
                let own = path(kind, None, Some(named.name), None);
                return self.cluster.wire.get(&own).await.map(Option::unwrap_or_default).map_err(|_| reason);
            }
            Err(reason) if reason.starts_with("422 ") => self.create_older(&post, kind, reason).await?,
            Err(reason) => return Err(reason),
        };
        self.edge.place(given, &placed);
        let own = path(kind, named.namespace, Some(named.name), None);
        if let Some(status) = given.get("status")
            && placed.get("status") != Some(status)
            // Its deletion says so, and only that may.
            && !(given["kind"] == "Namespace" && status["phase"] == "Terminating")
        {
            let body = json!({"status": status});
            match self.ask(&request("PATCH", format!("{own}/status?fieldManager=given"), MERGE, &body)).await
            {
                Ok(with_status) => placed = with_status,
                // Its status is no subresource: it was taken with the rest.
                Err(reason) if reason.starts_with("404 ") => {}
                Err(reason) => return Err(reason),
            }
        }
        // An object of unknown past belongs to no field manager, as in the sandbox; an empty entry says that.
        let managers = given.pointer("/metadata/managedFields").cloned().unwrap_or_else(|| json!([{}]));
        let body = json!({"metadata": {"managedFields": managers}});
        placed = self.ask(&request("PATCH", own, MERGE, &body)).await.unwrap_or(placed);
        Ok(placed)
    }

    /// Creates an object that its definition refuses now: one from before the definition said so. The server lets such be, as long
    /// as nobody touches what is wrong with it.
    async fn create_older(
        &self,
        post: &UserRequest,
        kind: &KindInfo,
        refusal: String,
    ) -> Result<Value, String> {
        let Some(definition) = self.cluster.definition_of(kind) else { return Err(refusal) };
        let failed = |error: WireError| super::chain(&error);
        self.cluster.relax(&definition).await.map_err(failed)?;
        let mut placed = Err(refusal);
        for _ in 0..looks(DEFINITION_MAX) {
            placed = self.ask(post).await;
            if !placed.as_ref().is_err_and(|reason| reason.starts_with("422 ")) {
                break;
            }
            self.edge.pause(PAUSE).await;
        }
        self.cluster.tighten(&definition).await.map_err(failed)?;
        // The server learns of both a moment later; a dry run tells when.
        let again = UserRequest { target: format!("{}&dryRun=All", post.target), ..post.clone() };
        for _ in 0..looks(DEFINITION_MAX) {
            if self.ask(&again).await.is_err_and(|reason| reason.starts_with("422 ")) {
                break;
            }
            self.edge.pause(PAUSE).await;
        }
        placed
    }

    async fn delete(&self, given: &Value, kind: &KindInfo) -> Result<Value, String> {
        let named = Named::of(given);
        let target = path(kind, named.namespace, Some(named.name), None);
        let request = UserRequest {
            method: "DELETE",
            target: target.clone(),
            content_type: JSON,
            body: delete_options("Background"),
        };
        self.ask(&request).await?;
        let there = self.cluster.wire.get(&target).await.map_err(|error| super::chain(&error))?;
        there.ok_or_else(|| format!("it is being deleted, but nothing holds it: add a finalizer to {named}"))
    }

    /// Sends a request through the edge; what the server answers, as it is.
    async fn ask(&self, request: &UserRequest) -> Result<Value, String> {
        let UserRequest { method, target, content_type, body } = request;
        let mut sent: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        self.edge.outward_value(&mut sent);
        match self.cluster.wire.json(method, target, content_type, &sent).await {
            Ok(answer) => {
                if *method == "POST" && !target.contains("dryRun=") {
                    self.edge.note_made(Place::of(target, &answer));
                }
                Ok(answer)
            }
            Err(WireError::Refused { code, message }) => Err(format!("{code} {message}")),
            Err(error) => Err(super::chain(&error)),
        }
    }
}

/// A Namespace that every cluster has, and of which nothing else is wanted.
fn of_the_cluster(given: &Value) -> bool {
    let bare = given["metadata"].as_object().is_some_and(|metadata| metadata.len() == 1);
    given["kind"] == "Namespace" && bare && SYSTEM.contains(&Named::of(given).name)
}

/// Namespaces first, then owners before what they own; otherwise as they are written.
fn order(given: &[Value]) -> Vec<usize> {
    let text = |object: &Value, pointer: &str| {
        object.pointer(pointer).and_then(Value::as_str).map(str::to_owned).unwrap_or_default()
    };
    let owners = |object: &Value| -> Vec<String> {
        let references = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
        references.into_iter().flatten().map(|owner| text(owner, "/uid")).collect()
    };
    let (mut order, rest): (Vec<usize>, Vec<usize>) =
        (0..given.len()).partition(|at| given[*at]["kind"] == "Namespace");
    let mut waiting = rest;
    loop {
        let open: Vec<String> = waiting.iter().map(|at| text(&given[*at], "/metadata/uid")).collect();
        let (ready, later): (Vec<usize>, Vec<usize>) =
            waiting.iter().copied().partition(|at| !owners(&given[*at]).iter().any(|uid| open.contains(uid)));
        order.extend(&ready);
        if ready.is_empty() || later.is_empty() {
            // Owners in a circle: nobody can be first.
            order.extend(later);
            return order;
        }
        waiting = later;
    }
}

impl Edge {
    /// Changes what is sent to the server from what is shown.
    fn outward_value(&self, value: &mut Value) {
        self.with_lens(|lens| lens.outward(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_come_before_what_they_own_and_namespaces_before_everything() {
        let object = |kind: &str, uid: &str, owner: &str| json!({"kind": kind, "metadata": {"uid": uid, "ownerReferences": [{"uid": owner}]}});
        let given = [
            object("Pod", "p", "set"),
            object("Set", "set", "deployment"),
            object("Deployment", "deployment", "nobody"),
            object("Namespace", "n", ""),
        ];
        assert_eq!(order(&given), [3, 2, 1, 0]);
        assert_eq!(order(&[object("A", "a", "b"), object("B", "b", "a")]), [0, 1]);
    }
}
