//! The test helper: one pass of a plugin against objects given as YAML, its conclusion as compact text.
