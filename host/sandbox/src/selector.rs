//! Label and field selectors.

mod fields;
mod labels;

pub(crate) use fields::FieldSelector;
pub(crate) use labels::LabelSelector;

use crate::store::object::Stored;

/// Both selectors and the namespace of a list or watch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    pub namespace: Option<String>,
    pub labels: LabelSelector,
    pub fields: FieldSelector,
}

impl Filter {
    pub(crate) fn passes(&self, stored: &Stored) -> bool {
        self.namespace.as_ref().is_none_or(|namespace| *namespace == *stored.head.namespace)
            && self.labels.matches(&stored.head.labels)
            && self.fields.matches(stored)
    }

    /// Neither labels nor fields are looked at.
    pub(crate) fn selects_all(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }
}
