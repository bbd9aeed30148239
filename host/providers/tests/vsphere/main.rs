//! The provider on a simulated vCenter, in virtual time.

mod faults;
mod life;
mod support;
mod watching;
