//! One test binary for what concerns the whole: it links once.

mod promises;
mod scenarios;
mod supply_chain;
mod tidy;
