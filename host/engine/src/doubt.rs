//! What of a key may not be as its last look left it.

use evenkeel_core::contract::ObjectRef;

/// Past so many objects everything is looked at.
const OBJECTS_MAX: usize = 8;

/// What has changed since the last look at a key. The dependency index tells of each change that concerns the key, so
/// what is not in here is as it was: a look at one changed object need not ask for a dozen others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// Whatever there is: it was never looked at, a look came to nothing, or a sweep makes sure.
    #[default]
    Everything,
    /// These objects and nothing else.
    Objects(Vec<ObjectRef>),
}

impl Doubt {
    /// Nothing has changed.
    pub(crate) fn none() -> Self {
        Self::Objects(Vec::new())
    }

    /// An object has changed.
    pub(crate) fn note(&mut self, object: &ObjectRef) {
        let Self::Objects(objects) = self else { return };
        if objects.contains(object) {
            return;
        }
        if objects.len() < OBJECTS_MAX {
            objects.push(object.clone());
        } else {
            *self = Self::Everything;
        }
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_core::contract::Gvk;

    use super::*;

    fn object(name: &str) -> ObjectRef {
        ObjectRef::new(Gvk::new("", "v1", "ConfigMap"), Some("a"), name)
    }

    #[test]
    fn each_object_is_noted_once_and_past_a_few_everything_is_in_doubt() {
        let mut doubt = Doubt::none();
        for name in ["a", "b", "a", "c", "d", "e", "f", "g", "h"] {
            doubt.note(&object(name));
        }
        assert_eq!(doubt, Doubt::Objects(["a", "b", "c", "d", "e", "f", "g", "h"].map(object).to_vec()));
        doubt.note(&object("i"));
        assert_eq!(doubt, Doubt::Everything);
    }

    #[test]
    fn a_change_does_not_make_less_of_a_doubt() {
        let mut doubt = Doubt::default();
        doubt.note(&object("a"));
        assert_eq!(doubt, Doubt::Everything);
    }
}
