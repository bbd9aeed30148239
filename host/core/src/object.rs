//! An object as the cache holds it: one compact text with a parsed head.

mod owned;
mod parse;

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::canonical::canonical_text;
use crate::contract::{Gvk, Json, ObjectRef};
use crate::fingerprint::{Fingerprint, Hasher};
use crate::labels::Labels;
use crate::limits::VIEW_HASHES_PER_OBJECT_MAX;
use crate::pointer::Pointer;
use crate::view::{Owner, View};

/// Why a text is no object.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// It is not JSON, or a field of its metadata is of a wrong type.
    #[error("not a Kubernetes object")]
    Json(#[source] serde_json::Error),
    /// It has no name.
    #[error("an object without a name")]
    Nameless,
}

/// What the host needs of an object without reading its text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Its UID; empty where the server gave none.
    pub uid: String,
    /// Its resourceVersion, which plugins never see.
    pub resource_version: String,
    /// Its generation; 0 where it has none.
    pub generation: i64,
    /// Its namespace, none for a cluster-scoped kind.
    pub namespace: Option<Arc<str>>,
    /// Its name.
    pub name: Arc<str>,
    /// Its labels.
    pub labels: Labels,
    /// The UID of the owner reference with `controller: true`.
    pub controller_uid: Option<Box<str>>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Its finalizers, in their order.
    pub finalizers: Vec<Box<str>>,
    /// What field managers of ours own in it by apply.
    pub managed: Vec<ManagedFields>,
}

/// What one field manager owns by server-side apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagedFields {
    /// The manager.
    pub manager: Box<str>,
    /// The subresource that it applied to; none for the object itself.
    pub subresource: Option<Box<str>>,
    /// Its `fieldsV1`, but that a map of which every member is somebody else's is a node with `.` alone and not an empty one.
    pub fields: Box<str>,
}

/// An object of a watch cache. Its hashes are computed once each, when somebody asks.
#[derive(Debug)]
pub struct CachedObject {
    json: Json,
    head: Head,
    gvk: Gvk,
    whole: OnceLock<Fingerprint>,
    parts: Mutex<Vec<(u64, Fingerprint)>>,
}

impl CachedObject {
    /// From the API server's text. `gvk` is what was asked for: items of a list name no kind, and metadata-only
    /// answers name another.
    pub fn parse(gvk: &Gvk, raw: &str) -> Result<Self, ObjectError> {
        let (json, head) = parse::parse(gvk, raw)?;
        Ok(Self {
            json: json.into(),
            head,
            gvk: gvk.clone(),
            whole: OnceLock::new(),
            parts: Mutex::default(),
        })
    }

    /// Its text, as a plugin gets it: without managed fields, resourceVersion and kubectl's copy of it.
    pub fn json(&self) -> &Json {
        &self.json
    }

    /// As [`CachedObject::json`], of its metadata alone: for whoever may know no more of it.
    pub fn metadata_json(&self) -> Json {
        #[derive(Deserialize)]
        struct MetadataOnly<'j> {
            #[serde(borrow)]
            metadata: &'j RawValue,
        }
        let metadata = serde_json::from_str(&self.json);
        let metadata = metadata.map_or("{}", |only: MetadataOnly<'_>| only.metadata.get());
        let (version, kind) = (self.gvk.api_version(), &self.gvk.kind);
        format!(r#"{{"apiVersion":"{version}","kind":"{kind}","metadata":{metadata}}}"#).into()
    }

    /// What the host needs of it.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// Its kind.
    pub fn gvk(&self) -> &Gvk {
        &self.gvk
    }

    /// Where it lives.
    pub fn reference(&self) -> ObjectRef {
        let Head { namespace, name, .. } = &self.head;
        ObjectRef { gvk: self.gvk.clone(), namespace: namespace.clone(), name: name.clone() }
    }

    /// The hash of its UID, the parts in a view, and what the view's owner owns: as long as it is the same, the view shows the same.
    pub fn view_hash(&self, view: &View) -> u64 {
        if view.is_whole() {
            return self.whole.get_or_init(|| self.hash_parts(view)).0;
        }
        // The list is short, and sound between any two statements.
        let known = |parts: &[(u64, Fingerprint)]| {
            parts.iter().find(|(id, _)| *id == view.id()).map(|(_, hash)| *hash)
        };
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Fingerprint(hash)) = known(&parts) {
            return hash;
        }
        let hash = self.hash_parts(view);
        if parts.len() < VIEW_HASHES_PER_OBJECT_MAX {
            parts.push((view.id(), hash));
        }
        hash.0
    }

    /// The canonical text of a field; none where it is missing.
    pub fn field(&self, pointer: &Pointer) -> Option<Json> {
        let found = pointer.find(&self.json)?;
        canonical_text(found).map(Into::into)
    }

    /// What a field manager owns in it by apply, as [`ManagedFields::fields`].
    pub fn managed(&self, manager: &str, subresource: Option<&str>) -> Option<&str> {
        self.head
            .managed
            .iter()
            .find(|fields| &*fields.manager == manager && fields.subresource.as_deref() == subresource)
            .map(|fields| &*fields.fields)
    }

    /// Memory that it takes, about, in bytes.
    pub fn bytes(&self) -> usize {
        let labels = self.head.labels.bytes();
        let managed: usize = self.head.managed.iter().map(|m| m.manager.len() + m.fields.len() + 48).sum();
        let finalizers: usize = self.head.finalizers.iter().map(|name| name.len() + 16).sum();
        size_of::<Self>() + self.json.len() + labels + managed + finalizers + self.head.uid.len()
    }

    fn hash_parts(&self, view: &View) -> Fingerprint {
        let mut hasher = Hasher::new("object");
        // A successor of the same name is another object, whatever it looks like.
        hasher.text(&self.head.uid);
        if view.pointers().is_empty() {
            hasher.text(&self.json);
        }
        if let Some(Owner { manager, subresource }) = view.owner() {
            hasher.maybe(self.managed(manager, *subresource));
        }
        for part in Pointer::find_all(view.pointers(), &self.json) {
            hasher.maybe(part);
        }
        hasher.finish()
    }
}

impl PartialEq for CachedObject {
    fn eq(&self, other: &Self) -> bool {
        self.json == other.json && self.head == other.head && self.gvk == other.gvk
    }
}

impl Eq for CachedObject {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::object;

    #[test]
    fn a_field_has_one_text_however_it_was_written() {
        let object = object("name: x, spec: {size: 2.0, list: [b, a], text: \"2\"}");
        let field = |pointer: &str| object.field(&Pointer::parse(pointer).expect("a pointer"));
        assert_eq!(field("/spec/size").as_deref(), Some("2"));
        assert_eq!(field("/spec/text").as_deref(), Some("\"2\""));
        assert_eq!(field("/spec/list").as_deref(), Some(r#"["b","a"]"#));
        assert_eq!(field("/spec/none"), None);
    }

    #[test]
    fn its_metadata_alone_is_an_object_of_its_kind() {
        let object = object("name: x, labels: {a: b}, data: {key: hidden}");
        assert!(object.json().contains("hidden"));
        let text = object.metadata_json();
        assert!(!text.contains("hidden"), "{text}");
        let cut = CachedObject::parse(object.gvk(), &text).expect("an object");
        assert_eq!(
            (cut.head().name.clone(), cut.head().labels.clone()),
            (object.head().name.clone(), object.head().labels.clone())
        );
    }

    #[test]
    fn hashes_of_more_views_than_are_kept_stay_right() {
        let object = object("name: x, spec: {a: 1}");
        let views: Vec<_> = (0..2 * VIEW_HASHES_PER_OBJECT_MAX)
            .map(|at| View::parse(&[format!("/spec/a{at}"), "/spec/a".into()]).expect("a view"))
            .collect();
        let hashes: Vec<_> = views.iter().map(|view| object.view_hash(view)).collect();
        let again: Vec<_> = views.iter().map(|view| object.view_hash(view)).collect();
        assert_eq!(hashes, again);
        assert!(object.parts.lock().expect("no panic").len() <= VIEW_HASHES_PER_OBJECT_MAX);
    }

    #[test]
    fn what_it_takes_is_told_by_its_text_above_all() {
        let small = object("name: x").bytes();
        let large = object(&format!("name: x, spec: {{a: {}}}", "z".repeat(10_000))).bytes();
        assert!(small < 600 && (large - small).abs_diff(10_000) < 100, "{small} {large}");
    }
}
