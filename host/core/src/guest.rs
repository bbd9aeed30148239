//! A plugin as the engine sees it: a manifest, a digest and one function.
//!
//! `evenkeel-runtime` implements it for a component; tests implement it for a native function.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use crate::contract::{Failure, FailureKind, Manifest, Reply, Request};

/// What a call of a guest resolves to.
pub type GuestFuture<'a> = Pin<Box<dyn Future<Output = Result<GuestReply, CallError>> + Send + 'a>>;

/// A loaded plugin.
pub trait Guest: Send + Sync {
    /// What it is and needs, as it described itself when it was loaded.
    fn manifest(&self) -> &Manifest;

    /// Names the very bytes that run, as in `sha256:…`: equal digests answer equal requests alike.
    fn digest(&self) -> &str;

    /// One call of a pass.
    fn reconcile<'a>(&'a self, request: &'a Request) -> GuestFuture<'a>;
}

/// What came of a call that the guest survived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestReply {
    /// Its answer, or the failure that it reported itself.
    pub outcome: Result<Reply, Failure>,
    /// What the call cost; never an input of a decision.
    pub stats: CallStats,
}

/// What a call cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallStats {
    /// Time from asking for an instance to having the reply, the wait for a free slot included.
    pub elapsed: Duration,
    /// Linear memory at the end of the call, in bytes.
    pub memory: u64,
}

/// Why a call gave no answer. It costs this pass only: the next call has a fresh instance.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The guest executed an instruction that ends it: a panic, a bad memory access, a division by zero.
    #[error("the plugin trapped: {reason}{}", at(frames))]
    Trap {
        /// The trap in words.
        reason: String,
        /// The innermost functions, the trapping one first.
        frames: Vec<String>,
    },
    /// It panicked, and left word of it.
    #[error("the plugin panicked at {place}: {message}")]
    Panic {
        /// Where in its source, as in `src/plan.rs:12:5`.
        place: String,
        /// What it said, in one line.
        message: String,
        /// The innermost functions, the trapping one first.
        frames: Vec<String>,
    },
    /// It ran for too long.
    #[error("the plugin did not answer within {limit:?}")]
    Deadline {
        /// The longest that a call may take.
        limit: Duration,
    },
    /// It asked for more memory or tables than it may have.
    #[error("the plugin wanted more than its {limit} bytes of memory")]
    Memory {
        /// The most that an instance may have, in bytes.
        limit: u64,
    },
    /// It called too deeply.
    #[error("the plugin exhausted its stack{}", at(frames))]
    Stack {
        /// The innermost functions, the trapping one first.
        frames: Vec<String>,
    },
    /// Its reply is larger than the host takes.
    #[error("the plugin's reply is larger than {limit} bytes")]
    ReplyTooLarge {
        /// The largest reply, in bytes.
        limit: u64,
    },
    /// Its reply is no value of the contract: a string that is not UTF-8, an unknown case, a wild pointer.
    #[error("the plugin's reply is not valid: {reason}")]
    InvalidReply {
        /// What is wrong with it.
        reason: String,
    },
    /// The host could not run it.
    #[error("the host could not run the plugin: {reason}")]
    Host {
        /// What the host lacked.
        reason: String,
    },
}

impl CallError {
    /// A closed set of words for metrics.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Trap { .. } | Self::Panic { .. } => "trap",
            Self::Deadline { .. } => "deadline",
            Self::Memory { .. } => "memory",
            Self::Stack { .. } => "stack",
            Self::ReplyTooLarge { .. } => "reply-too-large",
            Self::InvalidReply { .. } => "invalid-reply",
            Self::Host { .. } => "host",
        }
    }

    /// Whether the plugin is at fault, so that many of these speak against this version of it.
    pub fn is_guests_fault(&self) -> bool {
        !matches!(self, Self::Host { .. })
    }

    /// Without the words of the plugin's own: a panic often prints the value that it choked on, and that may be a
    /// secret which the pass was shown. Where it panicked stays.
    pub fn without_words(self) -> Self {
        match self {
            Self::Panic { place, message: _, frames } => {
                let message = "(its words are kept back, as this pass was shown a secret)".to_owned();
                Self::Panic { place, message, frames }
            }
            other => other,
        }
    }

    /// The failure of the pass: every one of these is worth another try, with back-off.
    pub fn failure(&self) -> Failure {
        Failure::new(FailureKind::Transient, self.to_string())
    }
}

/// The innermost function in words, where there is one.
fn at(frames: &[String]) -> String {
    frames.first().map(|frame| format!(" in {frame}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_error_becomes_a_transient_failure_with_one_sentence() {
        let error =
            CallError::Trap { reason: "unreachable executed".into(), frames: vec!["kite::plan".into()] };
        let failure = error.failure();
        assert_eq!(failure.kind, FailureKind::Transient);
        assert_eq!(failure.message, "the plugin trapped: unreachable executed in kite::plan");
    }

    #[test]
    fn a_panic_is_told_with_its_place_and_without_its_words_where_they_may_hold_a_secret() {
        let panic =
            CallError::Panic { place: "src/plan.rs:3:5".into(), message: "no disk".into(), frames: vec![] };
        assert_eq!(panic.to_string(), "the plugin panicked at src/plan.rs:3:5: no disk");
        assert_eq!(
            panic.without_words().to_string(),
            "the plugin panicked at src/plan.rs:3:5: (its words are kept back, as this pass was shown a secret)"
        );
        let trap = CallError::Trap { reason: "unreachable".into(), frames: vec![] };
        assert_eq!(trap.clone().without_words(), trap);
    }

    #[test]
    fn the_hosts_own_trouble_does_not_speak_against_the_plugin() {
        assert!(!CallError::Host { reason: "no free slot".into() }.is_guests_fault());
        assert!(CallError::Stack { frames: vec![] }.is_guests_fault());
    }
}
