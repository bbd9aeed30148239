//! The provider against vcsim over HTTP and TLS, and the simulated vCenter against it. Skipped aloud where Go is missing.

mod differential;
mod fleet;
mod life;
mod support;
mod trouble;
mod vi_json;
