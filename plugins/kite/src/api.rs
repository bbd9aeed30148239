//! The two kinds that users write, and their CustomResourceDefinitions.

pub mod hidden;
pub mod machine;
pub mod user;

pub use machine::KiteVirtualMachine;
pub use user::KiteUser;

#[cfg(test)]
mod tests;
