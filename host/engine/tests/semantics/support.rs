//! What the tests share: a world with an embedded Kubernetes and a host, and plugins that are native functions.

mod held;
mod logs;
mod native;
mod words;
mod world;

pub use logs::*;
pub use native::*;
pub use words::*;
pub use world::*;
