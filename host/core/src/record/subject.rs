//! Which records are about an object.

use serde::{Deserialize, Serialize};

use super::{DeedOutcome, PassRecord};
use crate::contract::ObjectRef;

/// An object as a person names it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    /// Its kind; upper and lower case do not matter.
    pub kind: String,
    /// Its namespace; any where absent.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

impl Subject {
    /// Whether a pass was about the object, or wrote to it.
    pub fn concerns(&self, record: &PassRecord) -> bool {
        let deeds = record.deeds.iter().filter(|deed| !matches!(deed.outcome, DeedOutcome::Skipped { .. }));
        self.is(&record.key) || deeds.filter_map(|deed| deed.object.as_ref()).any(|object| self.is(object))
    }

    fn is(&self, object: &ObjectRef) -> bool {
        object.gvk.kind.eq_ignore_ascii_case(&self.kind)
            && *object.name == *self.name
            && self
                .namespace
                .as_deref()
                .is_none_or(|namespace| object.namespace.as_deref() == Some(namespace))
    }
}
