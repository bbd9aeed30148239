//! Faults on demand: the next requests that match fail, with or without their effect.

use crate::error::{ApiError, Details};
use std::collections::VecDeque;

/// What happens to the write itself when its answer is a fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effect {
    /// Nothing is done.
    #[default]
    None,
    /// The request is carried out, and only its answer is lost.
    Written,
}

/// A fault to come. Empty fields match everything.
#[derive(Clone, Debug, Default)]
pub struct Fault {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `apply`, `delete`, `deletecollection`.
    pub verb: Option<String>,
    /// Kind, as in `ResourceQuota`, or plural, as in `resourcequotas`.
    pub kind: Option<String>,
    /// Subresource; `Some("")` is the object itself.
    pub subresource: Option<String>,
    /// Namespace of the object.
    pub namespace: Option<String>,
    /// Name of the object.
    pub name: Option<String>,
    /// HTTP status code of the answer.
    pub code: u16,
    /// `StatusReason`, as in `InternalError`.
    pub reason: String,
    /// Sentence of the answer.
    pub message: String,
    /// Seconds told in `retryAfterSeconds` and the `Retry-After` header.
    pub retry_after: Option<u32>,
    /// How many requests it hits.
    pub times: u32,
    /// Whether the request is carried out all the same.
    pub effect: Effect,
    /// What the one who made it knows it by; nothing is done with it here.
    pub mark: usize,
}

/// The request that a fault is compared with.
#[derive(Clone, Copy, Debug)]
pub struct Aim<'a> {
    /// As in [`Fault::verb`].
    pub verb: &'a str,
    /// Kind, as in `Pod`.
    pub kind: &'a str,
    /// Plural, as in `pods`.
    pub plural: &'a str,
    /// Empty for the object itself.
    pub subresource: &'a str,
    /// Empty for cluster-scoped objects.
    pub namespace: &'a str,
    /// Name of the object; empty for a collection.
    pub name: &'a str,
}

/// Faults waiting for their request, oldest first.
#[derive(Debug, Default)]
pub struct Faults {
    waiting: VecDeque<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    fault: Fault,
    /// Whether it has hit a request yet.
    has_hit: bool,
}

impl Faults {
    /// One more waits, unless it is to hit nothing.
    pub fn add(&mut self, fault: Fault) {
        if fault.times > 0 {
            self.waiting.push_back(Waiting { fault, has_hit: false });
        }
    }

    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
    }

    /// Those that have hit nothing yet.
    pub(crate) fn idle(&self) -> impl Iterator<Item = &Fault> {
        self.waiting.iter().filter(|waiting| !waiting.has_hit).map(|waiting| &waiting.fault)
    }

    /// The first fault that hits the request; it is used up by one.
    pub fn hit(&mut self, aim: &Aim<'_>) -> Option<Fault> {
        let index = self.waiting.iter().position(|waiting| waiting.fault.hits(aim))?;
        let waiting = &mut self.waiting[index];
        waiting.fault.times -= 1;
        waiting.has_hit = true;
        let hit = waiting.fault.clone();
        if hit.times == 0 {
            self.waiting.remove(index);
        }
        Some(hit)
    }
}

impl Fault {
    fn hits(&self, aim: &Aim<'_>) -> bool {
        let is =
            |wanted: &Option<String>, actual: &str| wanted.as_ref().is_none_or(|wanted| wanted == actual);
        is(&self.verb, aim.verb)
            && (is(&self.kind, aim.kind) || is(&self.kind, aim.plural))
            && is(&self.subresource, aim.subresource)
            && is(&self.namespace, aim.namespace)
            && is(&self.name, aim.name)
    }

    /// The error that the client sees.
    pub(crate) fn error(&self) -> ApiError {
        let mut error = ApiError::new(self.code, &self.reason, self.message.clone());
        if let Some(seconds) = self.retry_after {
            error.details = Some(Box::new(Details { retry_after_seconds: seconds, ..Details::default() }));
        }
        error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_hits_what_it_names_and_only_so_often() {
        let mut faults = Faults::default();
        let kind = Some("ConfigMap".to_owned());
        faults.add(Fault { verb: Some("apply".into()), kind, times: 2, code: 500, ..Fault::default() });
        let aim = |verb| Aim {
            verb,
            kind: "ConfigMap",
            plural: "configmaps",
            subresource: "",
            namespace: "a",
            name: "b",
        };
        assert!(faults.hit(&aim("create")).is_none());
        assert!(faults.hit(&aim("apply")).is_some());
        assert!(faults.hit(&aim("apply")).is_some());
        assert!(faults.hit(&aim("apply")).is_none());
    }

    #[test]
    fn a_fault_is_idle_until_it_has_hit_once_however_often_it_might() {
        let mut faults = Faults::default();
        for (mark, verb, times) in [(0, "create", 1), (1, "apply", 1000), (2, "apply", 1), (3, "delete", 0)] {
            faults.add(Fault { verb: Some(verb.into()), times, mark, ..Fault::default() });
        }
        let aim =
            Aim { verb: "apply", kind: "Pod", plural: "pods", subresource: "", namespace: "a", name: "b" };
        let idle = |faults: &Faults| faults.idle().map(|fault| fault.mark).collect::<Vec<_>>();
        assert_eq!(idle(&faults), [0, 1, 2], "one that hits nothing at all does not wait");
        assert_eq!(faults.hit(&aim).map(|fault| fault.mark), Some(1));
        assert_eq!(idle(&faults), [0, 2], "one hit is enough, and the first that fits takes it");
        faults.clear();
        assert!(idle(&faults).is_empty());
    }
}
