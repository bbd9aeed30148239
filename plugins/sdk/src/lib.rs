//! Write a reconciler for Evenkeel as a pure function.
