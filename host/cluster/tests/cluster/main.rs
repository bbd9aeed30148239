//! The cluster against the embedded Kubernetes, in process and on virtual time.

mod events;
mod fresh;
mod kinds;
mod memory;
mod streams;
mod tls;
mod watches;
mod world;
mod writes;
