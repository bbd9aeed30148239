//! The secret half of a bootstrap token, by which a VM joins its cluster. A plugin is a function and can draw nothing, so the
//! host does. Nothing that was drawn is kept here.

use std::sync::atomic::{AtomicU64, Ordering};

use evenkeel_core::contract::{Failure, FailureKind};
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};

/// What Kubernetes allows in a token.
const ALPHABET: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
/// How long the secret half is: 82 bits.
const LENGTH: usize = 16;
/// Bytes from here on would make the first letters of the alphabet likelier than the others.
const FAIR_BELOW: u8 = 252;

/// Where tokens come from.
pub(super) enum Tokens {
    /// The system's own randomness.
    Random(SystemRandom),
    /// A number, for scenarios: the same ones in each run.
    Counted(AtomicU64),
}

impl Tokens {
    /// That nobody can guess.
    pub(super) fn random() -> Self {
        Self::Random(SystemRandom::new())
    }

    /// That anybody can guess.
    pub(super) fn counted() -> Self {
        Self::Counted(AtomicU64::new(0))
    }

    /// Another one.
    pub(super) fn draw(&self) -> Result<String, Failure> {
        let mut token = String::with_capacity(LENGTH);
        while token.len() < LENGTH {
            let fair = self.bytes()?.into_iter().filter(|byte| *byte < FAIR_BELOW);
            let letters = fair.filter_map(|byte| ALPHABET.get(usize::from(byte % 36)));
            token.extend(letters.take(LENGTH - token.len()).map(|byte| char::from(*byte)));
        }
        Ok(token)
    }

    fn bytes(&self) -> Result<[u8; 32], Failure> {
        let mut bytes = [0; 32];
        match self {
            Self::Random(system) => system.fill(&mut bytes).map_err(|_| {
                Failure::new(FailureKind::Transient, "the system has no randomness to make a token of")
            })?,
            Self::Counted(count) => {
                let number = count.fetch_add(1, Ordering::Relaxed).to_be_bytes();
                bytes.copy_from_slice(digest(&SHA256, &number).as_ref());
            }
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_token_is_as_kubernetes_wants_it_and_never_the_same() {
        let tokens = Tokens::random();
        let drawn: BTreeSet<String> = (0..1000).map(|_| tokens.draw().expect("a token")).collect();
        assert_eq!(drawn.len(), 1000);
        let letters = drawn.iter().flat_map(|token| token.bytes());
        assert!(letters.clone().all(|byte| ALPHABET.contains(&byte)));
        assert!(drawn.iter().all(|token| token.len() == LENGTH));
        // Each letter is as likely as another: of 16,000 none is seen in less than half of its share.
        let rarest =
            ALPHABET.iter().map(|letter| letters.clone().filter(|byte| byte == letter).count()).min();
        assert!(rarest.is_some_and(|times| times > 16_000 / 36 / 2), "{rarest:?}");
    }

    #[test]
    fn counted_tokens_are_the_same_in_each_run() {
        let (one, two) = (Tokens::counted(), Tokens::counted());
        let first = one.draw().expect("a token");
        assert_eq!(first, two.draw().expect("a token"));
        assert_ne!(first, one.draw().expect("a token"));
    }
}
