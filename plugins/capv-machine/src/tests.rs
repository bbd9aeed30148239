//! The numbered scenarios of the specification, each as the one pass that it is about: the object and what vCenter says
//! are given, and what the pass does is shown. The files in `scenarios/` tell them as stories, with a vCenter that acts.

mod cloning;
mod deletion;
mod laws;
mod lookup;
mod provision;
mod tasks;
mod world;
