//! The machine flow, pass by pass.
