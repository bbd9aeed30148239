//! One test binary for what concerns the whole: it links once.

mod joining;
mod on_a_cluster;
mod promises;
mod scenarios;
mod supply_chain;
mod tidy;
