//! Machines on vcsim: the plugin as a component, the host, HTTP and TLS, a vCenter's API, in real time.
//!
//! Skipped aloud where vcsim cannot be built.

mod machines;
mod world;
