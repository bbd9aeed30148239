//! Benchmarks of the whole.
