//! The kinds that scenarios bring along, on a real server: defining takes a while there, and stories change definitions, too.

use serde_json::{Value, json};

use super::wire::WireError;
use super::{Cluster, ClusterError, DEFINITION_MAX, PAUSE, looks, text};
use crate::scenario::kinds::KindInfo;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A definition that was made here.
#[derive(Clone, Debug)]
pub(super) struct Defined {
    pub(super) definition: Value,
    /// Its generation as we left it: another one means that somebody else changed it.
    generation: i64,
    /// Quotas are known to count its kind.
    pub(super) counted: bool,
}

fn generation(definition: &Value) -> i64 {
    definition.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or_default()
}

impl Cluster {
    /// Takes those away that a story changed, and forgets those that it deleted.
    pub(super) async fn forget_changed(&self) -> Result<(), ClusterError> {
        let wire = |cause| ClusterError::Wire { doing: "cannot list the definitions".to_owned(), cause };
        let list = self.wire.get(DEFINITIONS).await.map_err(wire)?.unwrap_or_default();
        let there = |name: &str| {
            let mut items = list["items"].as_array().into_iter().flatten();
            items.find(|one| one["metadata"]["name"] == *name).cloned()
        };
        let made: Vec<(String, i64)> =
            self.definitions().iter().map(|(name, one)| (name.clone(), one.generation)).collect();
        for (name, as_made) in made {
            match there(&name) {
                Some(one)
                    if one["metadata"]["deletionTimestamp"].is_null() && generation(&one) == as_made => {}
                Some(_) => self.undefine(&name).await?,
                None => drop(self.definitions().remove(&name)),
            }
        }
        Ok(())
    }

    /// Has a kind served, which must be new.
    pub(super) async fn define(&self, definition: &Value) -> Result<(), ClusterError> {
        let name = text(definition, "/metadata/name");
        if self.definitions().contains_key(&name) {
            return Ok(());
        }
        let wire = |cause| ClusterError::Wire { doing: format!("cannot define {name}"), cause };
        let made = match self.wire.json("POST", DEFINITIONS, "application/json", definition).await {
            Ok(made) => made,
            Err(WireError::Refused { code: 409, .. }) => {
                return Err(ClusterError::InUse { what: "definition", names: vec![name] });
            }
            Err(cause) => return Err(wire(cause)),
        };
        let defined =
            Defined { definition: definition.clone(), generation: generation(&made), counted: false };
        self.definitions().insert(name.clone(), defined);
        for _ in 0..looks(DEFINITION_MAX) {
            if self.is_served(definition).await.map_err(wire)? {
                return Ok(());
            }
            self.wire.pause(PAUSE).await;
        }
        Err(ClusterError::Definition { name, wanted: "served" })
    }

    /// In the lists that clients find kinds by, and with objects that can be listed.
    async fn is_served(&self, definition: &Value) -> Result<bool, WireError> {
        let (group, plural) = (text(definition, "/spec/group"), text(definition, "/spec/names/plural"));
        for version in definition["spec"]["versions"].as_array().into_iter().flatten() {
            if version["served"] == Value::Bool(false) {
                continue;
            }
            let base = format!("/apis/{group}/{}", text(version, "/name"));
            let listed = self.wire.get(&base).await?.unwrap_or_default();
            let mut kinds = listed["resources"].as_array().into_iter().flatten();
            if !kinds.any(|kind| kind["name"] == *plural) {
                return Ok(false);
            }
            match self.wire.get(&format!("{base}/{plural}")).await {
                Ok(Some(_)) => {}
                // Too many requests: its storage is only just being made.
                Ok(None) | Err(WireError::Refused { code: 429 | 503, .. }) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Has a kind that was defined here served no more.
    pub(super) async fn undefine(&self, name: &str) -> Result<(), ClusterError> {
        let Some(Defined { definition, .. }) = self.definitions().remove(name) else { return Ok(()) };
        let wire =
            |cause| ClusterError::Wire { doing: format!("cannot take the definition {name} away"), cause };
        let target = format!("{DEFINITIONS}/{name}");
        match self.wire.json("DELETE", &target, "application/json", &Value::Null).await {
            Ok(_) | Err(WireError::Refused { code: 404, .. }) => {}
            Err(cause) => return Err(wire(cause)),
        }
        for _ in 0..looks(DEFINITION_MAX) {
            let there = self.wire.get(&target).await.map_err(wire)?.is_some();
            if !there && !self.is_listed(&definition).await.map_err(wire)? {
                return Ok(());
            }
            self.wire.pause(PAUSE).await;
        }
        Err(ClusterError::Definition { name: name.to_owned(), wanted: "gone" })
    }

    /// In the lists that clients find kinds by.
    async fn is_listed(&self, definition: &Value) -> Result<bool, WireError> {
        let (group, plural) = (text(definition, "/spec/group"), text(definition, "/spec/names/plural"));
        for version in definition["spec"]["versions"].as_array().into_iter().flatten() {
            let listed = self.wire.get(&format!("/apis/{group}/{}", text(version, "/name"))).await?;
            let listed = listed.unwrap_or_default();
            if listed["resources"].as_array().into_iter().flatten().any(|kind| kind["name"] == *plural) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The definition of a kind, where it was made here.
    pub(super) fn definition_of(&self, kind: &KindInfo) -> Option<Value> {
        let definitions = self.definitions();
        let mut all = definitions.values().map(|one| &one.definition);
        let of = |one: &&Value| {
            text(one, "/spec/group") == *kind.gvk.group && text(one, "/spec/names/kind") == *kind.gvk.kind
        };
        all.find(of).cloned()
    }

    /// Gives a definition other versions.
    async fn redefine(&self, definition: &Value, versions: &Value) -> Result<(), WireError> {
        let name = text(definition, "/metadata/name");
        let patch = json!({"spec": {"versions": versions}});
        let target = format!("{DEFINITIONS}/{name}");
        let changed = self.wire.json("PATCH", &target, "application/merge-patch+json", &patch).await?;
        if let Some(defined) = self.definitions().get_mut(&name) {
            defined.generation = generation(&changed);
        }
        Ok(())
    }

    /// Has a kind take anything.
    pub(super) async fn relax(&self, definition: &Value) -> Result<(), WireError> {
        self.redefine(definition, &relaxed(definition)).await
    }

    /// Has a kind take what its definition says, after [`Cluster::relax`].
    pub(super) async fn tighten(&self, definition: &Value) -> Result<(), WireError> {
        self.redefine(definition, &definition["spec"]["versions"]).await
    }
}

/// The versions of a definition without their rules.
fn relaxed(definition: &Value) -> Value {
    let mut versions = definition["spec"]["versions"].clone();
    for version in versions.as_array_mut().into_iter().flatten() {
        version["schema"] =
            json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        if let Some(fields) = version.as_object_mut() {
            // They name fields of the schema.
            fields.remove("selectableFields");
        }
    }
    versions
}
