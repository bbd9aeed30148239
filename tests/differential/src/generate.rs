//! Sequences of requests from a seed.
//!
//! A sequence works on few objects of few kinds, so that requests meet: managers quarrel over the same fields, stale versions
//! collide, selectors match some. Bodies are mostly valid, and now and then wrong in one place.

mod bodies;
mod requests;

use crate::case::Case;
use crate::chance::Chance;

/// Fewest and most requests of a sequence.
const STEPS: (usize, usize) = (4, 14);

/// The sequence of a seed.
pub fn case(seed: u64) -> Case {
    let mut chance = Chance::new(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ seed);
    let count = STEPS.0 + chance.below(STEPS.1 - STEPS.0);
    let kind = *chance.pick(bodies::KINDS);
    let mut writer = requests::Writer::new(chance, kind);
    while writer.steps.len() < count {
        writer.request();
    }
    Case { case: format!("the sequence of seed {seed}"), steps: writer.steps }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_gives_the_same_sequence_and_another_seed_another() {
        assert_eq!(case(7), case(7));
        assert_ne!(case(7).steps, case(8).steps);
    }
}
