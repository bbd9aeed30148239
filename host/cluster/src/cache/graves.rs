//! UIDs of objects that are gone.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use crate::limits;

/// The most recent dead UIDs of a kind, so that an answer that was late does not revive one.
#[derive(Default)]
pub(crate) struct Graves {
    dead: HashSet<Arc<str>>,
    order: VecDeque<Arc<str>>,
}

impl Graves {
    /// An object with this UID is gone for good.
    pub(crate) fn bury(&mut self, uid: &str) {
        if uid.is_empty() || self.dead.contains(uid) {
            return;
        }
        let uid: Arc<str> = uid.into();
        self.dead.insert(uid.clone());
        self.order.push_back(uid);
        if self.order.len() > limits::GRAVES_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.dead.remove(&oldest);
        }
    }

    /// Whether it is.
    pub(crate) fn holds(&self, uid: &str) -> bool {
        self.dead.contains(uid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_grave_makes_room() {
        let mut graves = Graves::default();
        for number in 0..=limits::GRAVES_MAX {
            graves.bury(&number.to_string());
        }
        assert!(!graves.holds("0"));
        assert!(graves.holds("1"));
        assert_eq!(graves.order.len(), limits::GRAVES_MAX);
    }
}
