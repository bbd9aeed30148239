//! One test binary for what concerns the whole: it links once.

mod tidy;
