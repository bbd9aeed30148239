//! Runs the whole host on the embedded Kubernetes and on virtual time.
//!
//! There is no second implementation of a pass here: `evenkeel-engine` runs as it does on a cluster, and only its far
//! ends are others (the API server, the clock). On a real API server ([`cluster`]) only the clock is.

pub mod cluster;
mod guest;
pub mod scenario;
