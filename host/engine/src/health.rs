//! Whether a version of a plugin is bad: calls that it does not survive, over many different keys.
//!
//! One object that makes a plugin trap costs that object's passes only. A version that traps on most of what it is
//! given is rolled back to the one before it, or held.

use std::collections::BTreeSet;

use crate::keys::Key;
use crate::limits::FAULTY_KEYS_MIN;

/// What calls of one version came to.
#[derive(Debug, Default)]
pub(crate) struct Health {
    faulty: BTreeSet<Key>,
    sound: BTreeSet<Key>,
}

impl Health {
    /// The plugin answered, be it with a failure of its own.
    pub(crate) fn answered(&mut self, key: Key) {
        self.faulty.remove(&key);
        // Enough to outweigh any number of faults that could still condemn it without a majority.
        if self.sound.len() < SOUND_KEYS_KEPT {
            self.sound.insert(key);
        }
    }

    /// The plugin did not survive the call. Tells how many keys speak against it once it counts as bad.
    pub(crate) fn faulted(&mut self, key: Key) -> Option<usize> {
        self.sound.remove(&key);
        self.faulty.insert(key);
        let faulty = self.faulty.len();
        (faulty >= FAULTY_KEYS_MIN && faulty >= self.sound.len()).then_some(faulty)
    }

    /// The key is looked after no more.
    pub(crate) fn forget(&mut self, key: Key) {
        self.faulty.remove(&key);
        self.sound.remove(&key);
    }
}

/// Keys remembered as sound: bounded, since a count is all that is wanted of them.
const SOUND_KEYS_KEPT: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(story: &str) -> Option<usize> {
        let mut health = Health::default();
        let mut verdict = None;
        for word in story.split_whitespace() {
            let (what, number) = word.split_at(1);
            let key = Key::for_test(number.parse().expect("a number"));
            match what {
                "+" => health.answered(key),
                "-" => verdict = health.faulted(key),
                other => panic!("{other}"),
            }
        }
        verdict
    }

    #[test]
    fn many_keys_that_fault_make_a_bad_plugin() {
        assert_eq!(verdict("-1 -2 -3 -4 -5"), Some(5));
    }

    #[test]
    fn one_key_that_faults_over_and_over_does_not() {
        assert_eq!(verdict("-1 -1 -1 -1 -1 -1 -1 -1"), None);
    }

    #[test]
    fn a_few_among_many_sound_keys_do_not() {
        assert_eq!(verdict("+1 +2 +3 +4 +5 +6 -7 -8 -9 -10 -11"), None);
    }

    #[test]
    fn a_key_that_recovers_speaks_for_the_plugin() {
        assert_eq!(verdict("-1 -2 -3 -4 +4 -5"), None);
    }
}
