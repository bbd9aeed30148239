//! One test binary for what concerns the whole: it links once.

mod scenarios;
mod tidy;
