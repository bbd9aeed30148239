//! Which kinds the API server serves, and under which names.
//!
//! The kinds of the core group are known. A start asks for all others in one document of aggregated discovery, where the API
//! server has it; what is not in it, and what is first asked for later, takes one request a group and version. What is
//! served is remembered until a CustomResourceDefinition of the group changes or a request finds the collection gone; what
//! is not served is looked for again by [`Discovery::recheck`].

mod aggregated;
mod core;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use evenkeel_core::contract::Gvk;
use serde::Deserialize;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use self::aggregated::Document;
use crate::rest::{Call, JSON, Rest, RestError, group_path, lock};

/// Whether a kind is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Served {
    /// It is, so:
    Yes {
        /// The name of its collection in paths.
        plural: Arc<str>,
        /// Whether its objects live in namespaces.
        namespaced: bool,
        /// What can be done with it, as in `list`.
        verbs: Arc<[String]>,
    },
    /// It is not, now.
    No,
}

impl Served {
    /// Whether it is.
    pub fn is_yes(&self) -> bool {
        matches!(self, Served::Yes { .. })
    }
}

/// A group and a version.
type GroupVersion = (Arc<str>, Arc<str>);

/// The kinds of a group and version that are served, by name.
type Kinds = BTreeMap<String, Served>;

/// What is known of the served kinds.
pub(crate) struct Discovery {
    /// What a start asks for; none where each group and version is asked for by itself.
    document: Option<Document>,
    known: Mutex<BTreeMap<Gvk, Served>>,
    /// One question a group and version at a time: a start with twenty watches of one group asks once.
    asking: Mutex<BTreeMap<GroupVersion, Arc<tokio::sync::Mutex<()>>>>,
    /// Rung whenever what was known has changed.
    changes: Notify,
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct ResourceList {
    resources: Option<Vec<Resource>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Resource {
    name: Arc<str>,
    kind: String,
    namespaced: bool,
    verbs: Vec<String>,
}

impl Discovery {
    /// Nothing is known yet. `aggregated`: whether a start asks for the document of all groups.
    pub(crate) fn new(aggregated: bool) -> Self {
        Discovery {
            document: aggregated.then(Document::new),
            known: Mutex::new(BTreeMap::new()),
            asking: Mutex::new(BTreeMap::new()),
            changes: Notify::new(),
        }
    }

    /// Ends when a kind has come or gone, or is served otherwise, since it was asked for. Those who wait are woken in the order in
    /// which they came.
    pub(crate) fn change(&self) -> Notified<'_> {
        self.changes.notified()
    }

    /// What is known of it without asking.
    pub(crate) fn known(&self, gvk: &Gvk) -> Option<Served> {
        lock(&self.known).get(gvk).cloned()
    }

    /// Whether the API server answers, by what a start asks it anyway.
    ///
    /// # Errors
    /// If it does not, or asks to wait.
    pub(crate) async fn reach(&self, rest: &Rest) -> Result<(), RestError> {
        match &self.document {
            Some(document) => document.reach(rest).await,
            None => rest.text(Call::read("get", "/version".to_owned(), JSON)).await.map(drop),
        }
    }

    /// Whether it is served; asks once and remembers the answer.
    pub(crate) async fn resolve(&self, rest: &Rest, gvk: &Gvk) -> Result<Served, RestError> {
        if let Some(served) = self.known(gvk) {
            return Ok(served);
        }
        if let Some(served) = core::served(gvk) {
            return Ok(lock(&self.known).entry(gvk.clone()).or_insert(served).clone());
        }
        let turn = self.turn(&gvk.group, &gvk.version);
        let _turn = turn.lock().await;
        if let Some(served) = self.known(gvk) {
            return Ok(served);
        }
        let kinds = self.find(rest, gvk).await?;
        let served = kinds.get(&*gvk.kind).cloned().unwrap_or(Served::No);
        let mut known = lock(&self.known);
        for (kind, served) in kinds {
            known.entry(Gvk::new(&gvk.group, &gvk.version, &kind)).or_insert(served);
        }
        known.insert(gvk.clone(), served.clone());
        Ok(served)
    }

    /// The kinds of a kind's group and version.
    async fn find(&self, rest: &Rest, gvk: &Gvk) -> Result<Kinds, RestError> {
        if let Some(document) = &self.document
            && !gvk.group.is_empty()
            && let Some(kinds) = document.kinds(rest, gvk).await?
        {
            return Ok(kinds);
        }
        ask(rest, &gvk.group, &gvk.version).await
    }

    /// Asks again about every known kind of these groups and returns those that came or went.
    pub(crate) async fn recheck(
        &self,
        rest: &Rest,
        concerns: impl Fn(&Gvk, &Served) -> bool,
    ) -> Result<Vec<(Gvk, bool)>, RestError> {
        let asked: BTreeSet<GroupVersion> = lock(&self.known)
            .iter()
            .filter(|(gvk, served)| concerns(gvk, served))
            .map(|(gvk, _)| (gvk.group.clone(), gvk.version.clone()))
            .collect();
        let mut changed = Vec::new();
        for (group, version) in asked {
            let turn = self.turn(&group, &version);
            let _turn = turn.lock().await;
            let kinds = ask(rest, &group, &version).await?;
            changed.extend(self.update(&group, &version, &kinds));
        }
        Ok(changed)
    }

    /// Takes over what a group and version serves now.
    fn update(&self, group: &str, version: &str, kinds: &Kinds) -> Vec<(Gvk, bool)> {
        let (mut changed, mut other) = (Vec::new(), false);
        for (gvk, served) in lock(&self.known).iter_mut() {
            if &*gvk.group != group || &*gvk.version != version {
                continue;
            }
            let now = kinds.get(&*gvk.kind).cloned().unwrap_or(Served::No);
            if now.is_yes() != served.is_yes() {
                changed.push((gvk.clone(), now.is_yes()));
            }
            other |= now != *served;
            *served = now;
        }
        if other {
            self.changes.notify_waiters();
        }
        changed
    }

    /// Whether some kind that was asked for is not served.
    pub(crate) fn misses_any(&self, concerns: impl Fn(&Gvk) -> bool) -> bool {
        lock(&self.known).iter().any(|(gvk, served)| !served.is_yes() && concerns(gvk))
    }

    fn turn(&self, group: &Arc<str>, version: &Arc<str>) -> Arc<tokio::sync::Mutex<()>> {
        lock(&self.asking).entry((group.clone(), version.clone())).or_default().clone()
    }
}

/// The kinds that a group and version serves; none of them where the group or version does not exist.
async fn ask(rest: &Rest, group: &str, version: &str) -> Result<Kinds, RestError> {
    let text = match rest.text(Call::read("get", group_path(group, version), JSON)).await {
        Ok(text) => text,
        Err(RestError::Status { code: 404, .. }) => return Ok(Kinds::new()),
        Err(error) => return Err(error),
    };
    let list: ResourceList = serde_json::from_str(&text).map_err(|cause| RestError::Decode(cause.into()))?;
    let mut kinds = Kinds::new();
    for resource in list.resources.unwrap_or_default() {
        // `pods/status` is a part of a resource, not one by itself.
        if resource.name.contains('/') {
            continue;
        }
        let served = Served::Yes {
            plural: resource.name,
            namespaced: resource.namespaced,
            verbs: resource.verbs.into(),
        };
        kinds.entry(resource.kind).or_insert(served);
    }
    Ok(kinds)
}

#[cfg(test)]
mod tests;
