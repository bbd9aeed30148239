//! Whether a pass would see anything new: a digest of all that it rests on.
//!
//! A component has no inputs but its request, so an equal digest means an equal reply. The clock is left out: time
//! alone runs a pass again only where the pass asked for that.

use std::fmt;
use std::sync::{Arc, LazyLock};

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
        // A hash already, and of objects alone.
        found.map_or_else(Self::absent, |object| Self(Fingerprint(object.view_hash(view))))
    }

    /// Of the answer that there is no such object.
    fn absent() -> Self {
        static ABSENT: LazyLock<AnswerHash> =
            LazyLock::new(|| AnswerHash(Hasher::new("absent object").finish()));
        *ABSENT
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
        static UNSERVED: LazyLock<AnswerHash> =
            LazyLock::new(|| AnswerHash(Hasher::new("unserved").finish()));
        *UNSERVED
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

#[cfg(test)]
mod laws;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::contract::FailureKind;
    use crate::testing::{object, query, reference};

    fn view(pointers: &[&str]) -> View {
        View::parse(pointers).expect("a view")
    }

    #[test]
    fn an_answer_is_the_same_as_long_as_its_view_shows_the_same() {
        let (old, new) = (
            object("name: x, spec: {a: 1}, status: {b: 1}, rv: 1"),
            object("name: x, spec: {a: 1}, status: {b: 2}, rv: 2"),
        );
        let hash =
            |object: &CachedObject, pointers: &[&str]| AnswerHash::object(Some(object), &view(pointers));
        assert_eq!(hash(&old, &["/spec"]), hash(&new, &["/spec"]));
        assert_ne!(hash(&old, &["/status"]), hash(&new, &["/status"]));
        assert_ne!(hash(&old, &[]), hash(&new, &[]));
    }

    #[test]
    fn no_answer_is_taken_for_another() {
        let (object, view) = (object("name: x"), view(&["/spec"]));
        let failure = |message: &str| Err(Failure::new(FailureKind::Transient, message));
        let hashes = [
            AnswerHash::object(None, &view),
            AnswerHash::object(Some(&object), &view),
            AnswerHash::objects([], &view),
            AnswerHash::objects([&object], &view),
            AnswerHash::objects([&object, &object], &view),
            AnswerHash::unserved(),
            AnswerHash::external(&Ok("{}".into())),
            AnswerHash::external(&Ok("[]".into())),
            AnswerHash::external(&failure("a")),
            AnswerHash::external(&failure("b")),
        ];
        let different: std::collections::BTreeSet<_> = hashes.iter().collect();
        assert_eq!(different.len(), hashes.len());
    }

    #[test]
    fn time_alone_makes_no_other_digest() {
        let digester = Digester::new("sha256:1", "{}", "main");
        let (key, primary) = (reference("Pod a/x"), AnswerHash::unserved());
        let (get, clock) = (query("get Pod a/y"), query("clock"));
        let answer = AnswerHash::object(None, &View::whole());
        let with = digester.digest(
            &key,
            primary,
            [(&*get, answer), (&*clock, AnswerHash::external(&Ok("1".into())))],
        );
        assert_eq!(with, digester.digest(&key, primary, [(&*get, answer)]));
    }

    #[test]
    fn whatever_a_pass_rests_on_makes_another_digest() {
        let digest = |plugin: &str,
                      config: &str,
                      controller: &str,
                      key: &str,
                      primary: &str,
                      asked: &str,
                      found: bool| {
            let found = found.then(|| object("name: y"));
            let answer = AnswerHash::object(found.as_deref(), &View::whole());
            let primary = AnswerHash::object(Some(&object(primary)), &View::whole());
            Digester::new(plugin, config, controller).digest(
                &reference(key),
                primary,
                [(&*query(asked), answer)],
            )
        };
        let all = [
            digest("1", "{}", "main", "Pod a/x", "name: x", "get Pod a/y", false),
            digest("2", "{}", "main", "Pod a/x", "name: x", "get Pod a/y", false),
            digest("1", "[]", "main", "Pod a/x", "name: x", "get Pod a/y", false),
            digest("1", "{}", "other", "Pod a/x", "name: x", "get Pod a/y", false),
            digest("1", "{}", "main", "Pod b/x", "name: x", "get Pod a/y", false),
            digest("1", "{}", "main", "Pod a/x", "name: x, a: 1", "get Pod a/y", false),
            digest("1", "{}", "main", "Pod a/x", "name: x", "get Pod a/z", false),
            digest("1", "{}", "main", "Pod a/x", "name: x", "get Pod a/y", true),
        ];
        let different: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len());
        assert_eq!(all[0].to_string().len(), 64);
    }

    proptest! {
        #[test]
        fn the_order_of_answers_does_not_matter(
            sizes in proptest::collection::vec(0..3_u8, 1..6),
            shuffled in Just((0..6_usize).collect::<Vec<_>>()).prop_shuffle(),
        ) {
            let answers: Vec<_> = sizes
                .iter()
                .enumerate()
                .map(|(at, size)| {
                    let found = object(&format!("name: x{at}, size: {size}"));
                    (query(&format!("get Pod a/x{at}")), AnswerHash::object(Some(&found), &View::whole()))
                })
                .collect();
            let digest = |order: &[usize]| {
                let answers = order.iter().filter_map(|at| answers.get(*at)).map(|(query, answer)| (&**query, *answer));
                Digester::new("1", "{}", "main").digest(&reference("Pod a/x"), AnswerHash::unserved(), answers)
            };
            prop_assert_eq!(digest(&[0, 1, 2, 3, 4, 5]), digest(&shuffled));
        }
    }
}
