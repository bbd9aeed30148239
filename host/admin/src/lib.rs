//! What operators see of a host: its metrics, its probes, and which of several hosts acts.
//!
//! It looks at the engine from outside. What happens is counted when it happens ([`metrics::Metrics`] is told by the
//! engine and by the client); what there is, is counted when somebody asks. Labels are plugins, controllers, kinds and
//! closed sets of words: never the name of an object.

pub mod address;
pub mod explain;
pub mod leader;
pub mod metrics;
pub mod pages;
pub mod probes;
pub mod server;
pub mod traces;
