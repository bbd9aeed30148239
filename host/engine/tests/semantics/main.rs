//! The semantics that must hold, each line of them a test: native plugins on the embedded Kubernetes, on virtual time.

mod asked;
mod chosen;
mod directory;
mod doubt;
mod drift;
mod evidence;
mod failures;
mod faults;
mod journal;
mod kinds;
mod level;
mod load;
mod logs;
mod memo;
mod noop;
mod outside;
mod pace;
mod prune;
mod shutdown;
mod sight;
mod support;
mod swap;
mod writes;
