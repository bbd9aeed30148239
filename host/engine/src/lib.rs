//! The loop of the Evenkeel host.
//!
//! Cache events find the keys that must look again (`dispatch`), workers take them from the queue (`shared`), a look
//! at a key goes from the answers known in advance to a conclusion that was carried out (`worker`), and what follows
//! is remembered (`settle`). Decisions are made in `evenkeel-core`; the API server is reached through
//! `evenkeel-cluster`; nothing here knows what a plugin is made of.
//!
//! Time is tokio's: on a paused runtime the whole host runs on virtual time.

mod account;
mod answers;
pub mod clock;
mod crds;
pub mod directory;
mod dispatch;
mod doubt;
mod external;
pub mod faults;
mod health;
pub mod host;
mod idle;
pub mod journal;
mod keys;
mod leading;
mod limits;
pub mod measures;
mod notes;
pub mod observe;
mod paused;
pub mod plugin;
pub mod provider;
mod report;
mod scouts;
mod settle;
mod shared;
mod state;
pub mod status;
mod turns;
mod watches;
mod worker;

pub use evenkeel_core::record::PassRecord;
pub use host::{Host, HostOptions};
pub use paused::PAUSED;
