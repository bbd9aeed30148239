//! Takes away what a scenario left, so that the next begins on an empty cluster.
//!
//! The namespace controller would do it, five seconds after it was asked. So it is done here, before that controller is asked:
//! what was made in a Namespace goes first, then the Namespace's own finalizer, then the Namespace, at once. One that is seen
//! to go is emptied by name, so the next of that name would lose its content to a controller that is still at it.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};

use super::{ClusterError, PAUSE, Place, Stage, looks, text};

const NAMESPACES: &str = "/api/v1/namespaces";

/// What a cluster's own controllers make again in each Namespace.
const BY_THE_CLUSTER: [(&str, &str); 2] =
    [("/configmaps", "kube-root-ca.crt"), ("/serviceaccounts", "default")];

/// How long it may take until everything is gone: the namespace controller may still be at work on what a story deleted.
const CLEAR_MAX: Duration = Duration::from_secs(40);

impl Stage {
    /// Takes everything away that was made since the start, whoever holds it.
    pub(crate) async fn clear(&self) -> Result<(), ClusterError> {
        self.edge.cut(None);
        let made = self.edge.made();
        let (namespaces, others): (Vec<&Place>, Vec<&Place>) =
            made.iter().partition(|place| place.collection == NAMESPACES);
        let within = |place: &Place| namespaces.iter().any(|namespace| namespace.name == place.namespace);
        let collections: BTreeSet<String> =
            others.iter().filter(|place| within(place)).map(|place| place.whole()).collect();
        for _ in 0..looks(CLEAR_MAX) {
            let emptied = join_all(collections.iter().map(|path| self.empty(path))).await;
            let gone = others.iter().filter(|place| !within(place)).map(|place| self.is_gone(place.path()));
            let gone = join_all(gone).await;
            if emptied.into_iter().chain(gone).all(|done| done) {
                let ended = join_all(namespaces.iter().map(|namespace| self.end(namespace))).await;
                if ended.into_iter().all(|ended| ended) {
                    return Ok(());
                }
            }
            self.edge.pause(PAUSE).await;
        }
        let mut left = Vec::new();
        for place in &made {
            if self.cluster.wire.get(&place.path()).await.ok().flatten().is_some() {
                left.push(place.path());
            }
        }
        Err(ClusterError::Unclear { left })
    }

    /// Deletes whatever is at a path; that it is gone already is as good.
    async fn delete_all(&self, path: &str) {
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0,
            "propagationPolicy": "Background"});
        // What could not be deleted is seen by whoever looks next.
        let _ = self.cluster.wire.json("DELETE", path, "application/json", &options).await;
    }

    /// Nobody holds it any more.
    async fn let_go(&self, path: &str) {
        let patch = json!({"metadata": {"finalizers": null}});
        let _ = self.cluster.wire.json("PATCH", path, "application/merge-patch+json", &patch).await;
    }

    /// Whether it is gone; does something about it where it is not.
    async fn is_gone(&self, path: String) -> bool {
        self.delete_all(&path).await;
        match self.cluster.wire.get(&path).await {
            Ok(None) => return true,
            Ok(Some(object)) if held(&object) => self.let_go(&path).await,
            Ok(Some(_)) | Err(_) => {}
        }
        false
    }

    /// Whether nothing is in this collection of a Namespace; does something about it where there is.
    async fn empty(&self, path: &str) -> bool {
        self.delete_all(path).await;
        let found = match self.cluster.wire.get(path).await {
            // The kind itself is gone.
            Ok(None) => return true,
            Ok(Some(found)) => found,
            Err(_) => return false,
        };
        let again = |object: &Value| {
            let name = text(object, "/metadata/name");
            BY_THE_CLUSTER.iter().any(|(collection, own)| path.ends_with(collection) && name == *own)
        };
        let left: Vec<&Value> =
            found["items"].as_array().into_iter().flatten().filter(|object| !again(object)).collect();
        let held = left.iter().filter(|object| held(object)).map(|object| {
            let path = format!("{path}/{}", text(object, "/metadata/name"));
            async move { self.let_go(&path).await }
        });
        join_all(held).await;
        left.is_empty()
    }

    /// Whether a Namespace is gone; takes away what holds it.
    async fn end(&self, namespace: &Place) -> bool {
        let path = namespace.path();
        let Ok(found) = self.cluster.wire.get(&path).await else { return false };
        let Some(mut found) = found else { return true };
        if held(&found) {
            self.let_go(&path).await;
        }
        let going = !found["metadata"]["deletionTimestamp"].is_null();
        let finalized = found["spec"]["finalizers"].as_array().is_none_or(Vec::is_empty);
        // One that goes already is the namespace controller's to end, lest it goes on in the next of that name.
        if !going && !finalized {
            if let Some(metadata) = found["metadata"].as_object_mut() {
                metadata.remove("resourceVersion");
                metadata.remove("finalizers");
            }
            found["spec"]["finalizers"] = json!([]);
            let finalize = format!("{path}/finalize");
            let _ = self.cluster.wire.json("PUT", &finalize, "application/json", &found).await;
        }
        if !going || finalized {
            // The first only marks it; the controller leaves alone what has no finalizer of its own.
            self.delete_all(&path).await;
            self.delete_all(&path).await;
        }
        self.cluster.wire.get(&path).await.is_ok_and(|found| found.is_none())
    }
}

/// Somebody holds it.
fn held(object: &Value) -> bool {
    object.pointer("/metadata/finalizers").and_then(Value::as_array).is_some_and(|all| !all.is_empty())
}
