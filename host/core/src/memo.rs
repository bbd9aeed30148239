//! Whether a pass would see anything new: a digest of all that it rests on.
//!
//! A component has no inputs but its request, so an equal digest means an equal reply. The clock is left out: time
//! alone runs a pass again only where the pass asked for that.

use std::fmt;
use std::sync::Arc;

use crate::contract::{Failure, Json, ObjectRef};
use crate::fingerprint::{Fingerprint, Hasher};
use crate::object::CachedObject;
use crate::query::Prepared;
use crate::view::View;

/// The hash of an answer, as far as its query's view shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AnswerHash(Fingerprint);

impl AnswerHash {
    /// Of the answer to a query for one object.
    pub fn object(found: Option<&CachedObject>, view: &View) -> Self {
        let mut hasher = Hasher::new("object");
        if let Some(object) = found {
            hasher.number(object.view_hash(view));
        }
        Self(hasher.finish())
    }

    /// Of the answer to a list query, in the answer's order.
    pub fn objects<'a>(found: impl IntoIterator<Item = &'a Arc<CachedObject>>, view: &View) -> Self {
        let mut hasher = Hasher::new("objects");
        for object in found {
            // Without a UID two places could look alike; a view may leave the name out.
            hasher.maybe(object.head().namespace.as_deref());
            hasher.text(&object.head().name);
            hasher.number(object.view_hash(view));
        }
        Self(hasher.finish())
    }

    /// Of the answer that the kind is not served.
    pub fn unserved() -> Self {
        Self(Hasher::new("unserved").finish())
    }

    /// Of a provider's answer.
    pub fn external(answer: &Result<Json, Failure>) -> Self {
        let mut hasher = Hasher::new("external");
        match answer {
            Ok(json) => hasher.text(json),
            Err(failure) => {
                hasher.number(failure.kind as u64);
                hasher.text(&failure.message);
                hasher.number(failure.retry_after.map_or(0, |wait| wait.saturating_add(1)));
            }
        }
        Self(hasher.finish())
    }
}

/// All that a pass rests on, as one hash.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; 32]);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What all keys of one controller have in common; hashed once.
#[derive(Clone)]
pub struct Digester(Hasher);

impl Digester {
    /// For a controller of a plugin under a config.
    pub fn new(plugin_digest: &str, config: &str, controller: &str) -> Self {
        let mut hasher = Hasher::new("pass");
        hasher.text(plugin_digest);
        hasher.text(config);
        hasher.text(controller);
        Self(hasher)
    }

    /// The digest of a pass. The order of the answers does not matter, and answers to the clock are left out.
    pub fn digest<'q>(
        &self,
        key: &ObjectRef,
        primary: AnswerHash,
        answers: impl IntoIterator<Item = (&'q Prepared, AnswerHash)>,
    ) -> Digest {
        let mut hasher = self.0.clone();
        hasher.maybe(key.namespace.as_deref());
        hasher.text(&key.name);
        let AnswerHash(Fingerprint(primary)) = primary;
        hasher.number(primary);
        let timeless =
            answers.into_iter().filter(|(query, _)| *query.query() != crate::contract::Query::Clock);
        let mut pairs: Vec<_> = timeless.map(|(query, AnswerHash(answer))| (query.id(), answer)).collect();
        pairs.sort_unstable();
        for (Fingerprint(query), Fingerprint(answer)) in pairs {
            hasher.number(query);
            hasher.number(answer);
        }
        Digest(hasher.whole())
    }
}

impl fmt::Debug for Digester {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Digester")
    }
}
