//! Looks at the API server itself: before what cannot be undone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use evenkeel_core::contract::{Failure, GetQuery, Gvk, ObjectRef, Query};
use evenkeel_core::selector::Selector;
use futures::stream::{self, StreamExt, TryStreamExt};
use serde::Deserialize;

use crate::Cluster;
use crate::cache::revision;
use crate::discovery::Served;
use crate::failure::failure;
use crate::limits;
use crate::object;
use crate::rest::{Call, JSON, METADATA_LIST, RestError, resource_path};
use crate::scope::{Depth, Place};
use crate::shared::{Shared, read};
use crate::watch::Page;

/// An item of a list of metadata.
#[derive(Deserialize)]
struct Item {
    metadata: ItemMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ItemMetadata {
    #[serde(default)]
    namespace: Option<Arc<str>>,
    name: Arc<str>,
    #[serde(default)]
    uid: String,
    resource_version: String,
}

/// A kind, a namespace, a label selector: what a live list is of.
pub(crate) type Collection = (Gvk, Option<Arc<str>>, String);

/// What a list of metadata showed.
struct Survey {
    /// UID and revision of each object.
    items: BTreeMap<Place, (String, String)>,
    /// When it was taken.
    at: Option<u64>,
}

impl Cluster {
    /// Whether the cache shows what the API server has now, for all that these queries cover. Asks the API server:
    /// an object each, or a list of metadata. What turned out to be newer is in the cache, and told, when this returns.
    pub async fn fresh(&self, queries: &[Query]) -> Result<bool, Failure> {
        // Several questions about one thing are one.
        let mut gets: BTreeSet<ObjectRef> = BTreeSet::new();
        let mut lists: BTreeSet<Collection> = BTreeSet::new();
        for query in queries {
            match query {
                Query::Get(GetQuery { object, view: _ }) => {
                    gets.insert(object.clone());
                }
                Query::List(list) => {
                    lists.insert((list.gvk.clone(), list.namespace.clone(), list.labels.clone()));
                }
                Query::Clock | Query::External(_) => {}
            }
        }
        let mut current = self.shared.fresh_objects(gets).await?;
        for list in lists {
            let (gvk, namespace, labels) = &list;
            let question = self.shared.fresh_list(gvk, namespace.as_ref(), labels);
            let fresh = self.shared.turns.ask(list.clone(), question).await;
            current &= fresh.map_err(|error| failure(gvk, &format!("list {gvk}"), None, &error))?;
        }
        Ok(current)
    }
}

impl Shared {
    /// Reads one object and puts what came into the cache. Returns whether the cache showed it already; of what nobody
    /// watches it shows nothing.
    pub(crate) async fn refresh(&self, object: &ObjectRef) -> Result<bool, RestError> {
        if !self.is_covered(object) {
            return Ok(false);
        }
        let Some(path) = self.live_path(&object.gvk, object.namespace.as_ref(), Some(&object.name)).await?
        else {
            return Ok(true);
        };
        // Only the one that was known before the question can be what a "not found" is about.
        let known = self.peek(object);
        match self.rest.text(Call::read("get", path, JSON)).await {
            Ok(text) => {
                let new = object::parse(&object.gvk, &text, Depth::Whole);
                let new = new.map_err(|cause| RestError::Decode(cause.into()))?;
                let same = self.peek(object).is_some_and(|has| {
                    has.head().uid == new.head().uid
                        && has.head().resource_version == new.head().resource_version
                });
                let uid = new.head().uid.clone();
                // One that lives and is taken for dead is not shown, and so the cache shows not what there is.
                Ok(same || !(self.keep(object, &text, Arc::new(new)).await || self.is_buried(object, &uid)))
            }
            Err(RestError::Status { code: 404, .. }) => match known {
                Some(known) => Ok(!self.bury(object, &known.head().uid).await),
                None => Ok(true),
            },
            Err(error) => Err(error),
        }
    }

    fn is_buried(&self, object: &ObjectRef, uid: &str) -> bool {
        self.known_kind(&object.gvk).is_some_and(|kind| read(&kind).is_buried(uid))
    }

    /// Whether all of these are in the cache as they are.
    async fn fresh_objects(&self, objects: BTreeSet<ObjectRef>) -> Result<bool, Failure> {
        let look = |object: ObjectRef| async move {
            let fresh = self.fresh_object(&object).await;
            fresh.map_err(|error| failure(&object.gvk, &format!("get {object}"), None, &error))
        };
        let mut reads = stream::iter(objects).map(look).buffered(limits::FRESH_READS_AT_ONCE);
        let mut current = true;
        while let Some(fresh) = reads.try_next().await? {
            current &= fresh;
        }
        Ok(current)
    }

    async fn fresh_object(&self, object: &ObjectRef) -> Result<bool, RestError> {
        if !self.still_served(&object.gvk).await? {
            return Ok(false);
        }
        self.refresh(object).await
    }

    async fn fresh_list(
        &self,
        gvk: &Gvk,
        namespace: Option<&Arc<str>>,
        labels: &str,
    ) -> Result<bool, RestError> {
        if !self.still_served(gvk).await? {
            return Ok(false);
        }
        let Some(path) = self.live_path(gvk, namespace, None).await? else { return Ok(true) };
        let survey = self.survey(path, labels).await?;
        let (stale, gone) = self.compare(gvk, namespace, labels, &survey);
        let mut current = true;
        for (place, uid) in gone {
            current &= !self.bury(&place.reference(gvk), &uid).await;
        }
        let look = |place: Place| async move { self.refresh(&place.reference(gvk)).await };
        let mut reads = stream::iter(stale).map(look).buffered(limits::FRESH_READS_AT_ONCE);
        while let Some(fresh) = reads.try_next().await? {
            current &= fresh;
        }
        Ok(current)
    }

    /// Everything that matches, by metadata.
    async fn survey(&self, path: String, labels: &str) -> Result<Survey, RestError> {
        let mut survey = Survey { items: BTreeMap::new(), at: None };
        let mut next = String::new();
        loop {
            let mut call =
                Call::read("list", path.clone(), METADATA_LIST).with("limit", limits::LIST_PAGE.to_string());
            if !labels.is_empty() {
                call = call.with("labelSelector", labels);
            }
            if !next.is_empty() {
                call = call.with("continue", next);
            }
            let text = self.rest.text(call).await?;
            let decode = |cause: serde_json::Error| RestError::Decode(cause.into());
            let page: Page = serde_json::from_str(&text).map_err(decode)?;
            for raw in page.items.unwrap_or_default() {
                let Item { metadata } = serde_json::from_str(raw.get()).map_err(decode)?;
                let place = Place { namespace: metadata.namespace, name: metadata.name };
                survey.items.insert(place, (metadata.uid, metadata.resource_version));
            }
            survey.at = revision(&page.metadata.resource_version);
            next = page.metadata.next;
            if next.is_empty() {
                return Ok(survey);
            }
        }
    }

    /// Which objects the cache has otherwise, and which, by UID, it should not have.
    fn compare(
        &self,
        gvk: &Gvk,
        namespace: Option<&Arc<str>>,
        labels: &str,
        survey: &Survey,
    ) -> (Vec<Place>, Vec<(Place, String)>) {
        let Some(kind) = self.known_kind(gvk) else {
            return (survey.items.keys().cloned().collect(), vec![]);
        };
        let selector = Selector::parse(labels).ok();
        let kind = read(&kind);
        let mut stale = Vec::new();
        let mut gone = Vec::new();
        for (place, (uid, version)) in &survey.items {
            let as_new = kind.peek(place).is_some_and(|has| {
                let known = &has.head().resource_version;
                let newer =
                    matches!((revision(known), revision(version)), (Some(has), Some(told)) if has > told);
                newer || (*has.head().uid == **uid && **known == **version)
            });
            // What our own delete ended after the list was taken is neither.
            if !as_new && !kind.is_buried(uid) {
                stale.push(place.clone());
            }
        }
        for object in kind.in_scope(namespace) {
            let place = Place::of_head(object);
            let matches = selector.as_ref().is_none_or(|selector| selector.matches(&object.head().labels));
            let newer = survey
                .at
                .is_some_and(|at| revision(&object.head().resource_version).is_some_and(|has| has > at));
            if !matches || newer || survey.items.contains_key(&place) {
                continue;
            }
            if labels.is_empty() {
                gone.push((place, object.head().uid.to_string()));
            } else {
                // It may have lost the label only.
                stale.push(place);
            }
        }
        (stale, gone)
    }

    /// Whether what is known of the kind's being served still holds, asked of the API server where it was not served.
    async fn still_served(&self, gvk: &Gvk) -> Result<bool, RestError> {
        match self.discovery.resolve(&self.rest, gvk).await? {
            Served::Yes { .. } => Ok(true),
            Served::No => {
                self.recheck(|other, _| other == gvk).await?;
                Ok(!self.discovery.known(gvk).is_some_and(|served| served.is_yes()))
            }
        }
    }

    /// The path of an object or a collection; none where the kind is not served.
    async fn live_path(
        &self,
        gvk: &Gvk,
        namespace: Option<&Arc<str>>,
        name: Option<&str>,
    ) -> Result<Option<String>, RestError> {
        match self.discovery.resolve(&self.rest, gvk).await? {
            Served::Yes { plural, namespaced, verbs: _ } => {
                let namespace = namespace.map(|namespace| &**namespace).filter(|_| namespaced);
                Ok(Some(resource_path(gvk, &plural, namespace, name, None)))
            }
            Served::No => Ok(None),
        }
    }
}
