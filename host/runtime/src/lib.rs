//! Runs reconciler components under limits.
