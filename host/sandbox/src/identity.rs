//! UIDs and random-looking suffixes, all from one seed: the same requests in the same order give the same bytes.

use sha2::{Digest, Sha256};

/// Letters and digits that Kubernetes uses in generated names: no vowels, nothing that looks like another.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// A source of identities. Each kind of identity counts by itself, so that one more of one does not shift another.
#[derive(Clone, Debug)]
pub(crate) struct Identities {
    seed: u64,
    uids: u64,
    suffixes: u64,
}

impl Identities {
    pub(crate) fn new(seed: u64) -> Identities {
        Identities { seed, uids: 0, suffixes: 0 }
    }

    /// How many UIDs and suffixes were given out.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.uids, self.suffixes)
    }

    /// Goes on after those that were given out before.
    pub(crate) fn resume(&mut self, uids: u64, suffixes: u64) {
        self.uids = self.uids.max(uids);
        self.suffixes = self.suffixes.max(suffixes);
    }

    /// A version-4 UUID.
    pub(crate) fn uid(&mut self) -> String {
        self.uids += 1;
        let mut bytes = self.bytes("uid", self.uids);
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let hex: String = bytes[..16].iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }

    /// Five characters for a generated name.
    pub(crate) fn suffix(&mut self) -> String {
        self.suffixes += 1;
        let bytes = self.bytes("suffix", self.suffixes);
        bytes[..5].iter().map(|byte| char::from(ALPHABET[usize::from(*byte) % ALPHABET.len()])).collect()
    }

    fn bytes(&self, purpose: &str, count: u64) -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update(self.seed.to_be_bytes());
        hash.update(purpose.as_bytes());
        hash.update(count.to_be_bytes());
        hash.finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_gives_the_same_identities_and_another_gives_others() {
        let (mut a, mut b, mut c) = (Identities::new(1), Identities::new(1), Identities::new(2));
        let uid = a.uid();
        assert_eq!(b.uid(), uid);
        assert_ne!(c.uid(), uid);
        assert_ne!(a.uid(), uid);
        assert_eq!((uid.len(), &uid[14..15]), (36, "4"));
        assert_eq!(a.suffix(), b.suffix());
    }
}
