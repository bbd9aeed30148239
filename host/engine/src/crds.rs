//! The kinds that a plugin brings along: applied before its watches start, and waited for until they are served.

use evenkeel_cluster::Served;
use evenkeel_core::admit::Write;
use evenkeel_core::contract::{Gvk, Json, ObjectRef};
use serde_json::Value;
use tokio::time::{sleep, timeout};

use crate::limits::{CRDS_SERVED_EVERY, CRDS_SERVED_WITHIN};
use crate::plugin::{Held, Loaded};
use crate::shared::Shared;

/// Applies every definition of the plugin, then waits for their kinds. One that the running version brought along to the letter, and
/// that is served, is left as it is: a swap does not wait for writes that change nothing.
pub(crate) async fn install(shared: &Shared, loaded: &Loaded, running: Option<&Loaded>) -> Result<(), Held> {
    let manager = format!("evenkeel/{}", loaded.name());
    let crds = &loaded.guest.manifest().crds;
    let there = running.map(|running| &*running.guest.manifest().crds).unwrap_or_default();
    let mut kinds = Vec::new();
    for crd in crds {
        let definition = Definition::parse(crd)?;
        if there.contains(crd) && definition.is_served(shared).await {
            continue;
        }
        apply(shared, &definition, crd, &manager).await?;
        kinds.extend(definition.served.into_iter().map(|gvk| (definition.name.clone(), gvk)));
    }
    for (name, gvk) in kinds {
        let served = async {
            while !matches!(shared.cluster.resolve(&gvk).await, Ok(Served::Yes { .. })) {
                sleep(CRDS_SERVED_EVERY).await;
            }
        };
        if timeout(CRDS_SERVED_WITHIN, served).await.is_err() {
            let reason = format!("{gvk} is not served after {} s", CRDS_SERVED_WITHIN.as_secs());
            return Err(Held::Crd { name, reason });
        }
    }
    Ok(())
}

struct Definition {
    name: String,
    served: Vec<Gvk>,
}

impl Definition {
    fn parse(crd: &Json) -> Result<Self, Held> {
        let value: Value = serde_json::from_str(crd)
            .map_err(|error| Held::Crd { name: "?".into(), reason: format!("it is no JSON: {error}") })?;
        let text =
            |pointer: &str| value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (name, group, kind) = (text("/metadata/name"), text("/spec/group"), text("/spec/names/kind"));
        let versions = value.pointer("/spec/versions").and_then(Value::as_array).cloned().unwrap_or_default();
        let served = versions.iter().filter(|version| version["served"] == true);
        let served =
            served.filter_map(|version| Some(Gvk::new(&group, version["name"].as_str()?, &kind))).collect();
        if name.is_empty() {
            return Err(Held::Crd { name: "?".into(), reason: "it has no name".into() });
        }
        Ok(Self { name, served })
    }

    async fn is_served(&self, shared: &Shared) -> bool {
        for gvk in &self.served {
            if !matches!(shared.cluster.resolve(gvk).await, Ok(Served::Yes { .. })) {
                return false;
            }
        }
        true
    }
}

async fn apply(shared: &Shared, definition: &Definition, crd: &Json, manager: &str) -> Result<(), Held> {
    let gvk = Gvk::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let write = Write::Apply {
        object: ObjectRef::new(gvk, None, &definition.name),
        body: Json::clone(crd),
        manager: manager.to_owned(),
        // Whoever installed an older one does not mind.
        force: true,
        subresource: None,
    };
    match shared.cluster.write(&write).await {
        Ok(_) => Ok(()),
        Err(error) => Err(Held::Crd { name: definition.name.clone(), reason: error.failure.message }),
    }
}
