//! Hashes that are the same on every machine and in every version: memo, views and the journal rest on them.

use std::fmt;

use sha2::{Digest as _, Sha256};

/// A hash of 64 bits, cut from a cryptographic one: what a tenant writes cannot be made to collide on purpose cheaply.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint(pub u64);

impl Fingerprint {
    /// Of one text.
    pub fn of(text: &str) -> Self {
        let mut hasher = Hasher::new("text");
        hasher.text(text);
        hasher.finish()
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Hashes parts one after another; each with its length, so that no two lists of parts read alike.
#[derive(Clone)]
pub(crate) struct Hasher(Sha256);

impl Hasher {
    /// `what` keeps hashes of different things apart.
    pub(crate) fn new(what: &str) -> Self {
        let mut hasher = Self(Sha256::new());
        hasher.text(what);
        hasher
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.0.update(text.as_bytes());
    }

    pub(crate) fn number(&mut self, number: u64) {
        self.0.update(number.to_le_bytes());
    }

    /// Absent is not empty.
    pub(crate) fn maybe(&mut self, text: Option<&str>) {
        match text {
            Some(text) => {
                self.number(1);
                self.text(text);
            }
            None => self.number(0),
        }
    }

    pub(crate) fn finish(self) -> Fingerprint {
        let [a, b, c, d, e, f, g, h, ..]: [u8; 32] = self.whole();
        Fingerprint(u64::from_le_bytes([a, b, c, d, e, f, g, h]))
    }

    pub(crate) fn whole(self) -> [u8; 32] {
        self.0.finalize().into()
    }
}

/// The finaliser of a 64-bit mixer: spreads a seed and a counter over all bits. Not for secrets.
pub fn mix(seed: u64, step: u64) -> u64 {
    let mut bits = seed ^ step.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_one_part_ends_counts() {
        let hash = |parts: &[&str]| {
            let mut hasher = Hasher::new("test");
            parts.iter().for_each(|part| hasher.text(part));
            hasher.finish()
        };
        assert_ne!(hash(&["ab", "c"]), hash(&["a", "bc"]));
        assert_ne!(hash(&["a"]), hash(&["a", ""]));
        assert_eq!(hash(&["a", "b"]), hash(&["a", "b"]));
    }

    #[test]
    fn a_hash_is_the_same_in_every_version() {
        expect_test::expect!["a8db2dde17a2fbc9"].assert_eq(&format!("{:?}", Fingerprint::of("evenkeel")));
    }
}
