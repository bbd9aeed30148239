//! Write a reconciler for Evenkeel as a pure function.
//!
//! A plugin implements [`Plugin`] and names itself in [`plugin!`]. A pass asks its questions through [`Pass`]; an
//! answer that is not known yet ends the round by `?`, and the host calls again with the answer. What shall be done
//! leaves as a [`Conclusion`].
//!
//! ```
//! use evenkeel_sdk::{Conclusion, Manifest, Pass, Plugin, Stop, act, manifest, permit};
//! use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
//!
//! struct Greeter;
//!
//! impl Plugin for Greeter {
//!     fn describe() -> Manifest {
//!         manifest("greeter", "0.1.0", "Put a greeting into every namespace")
//!             .controller(evenkeel_sdk::controller::<Namespace>("greet"))
//!             .permit(permit::<Namespace>().read())
//!             .permit(permit::<ConfigMap>().read().apply())
//!             .build()
//!     }
//!
//!     fn reconcile(pass: &Pass) -> Result<Conclusion, Stop> {
//!         let Some(namespace) = pass.primary::<Namespace>()? else { return Ok(Conclusion::new()) };
//!         let name = namespace.metadata.name.unwrap_or_default();
//!         let greeting = serde_json::json!({
//!             "apiVersion": "v1", "kind": "ConfigMap",
//!             "metadata": {"name": "greeting", "namespace": name},
//!             "data": {"text": format!("hello, {name}")},
//!         });
//!         Ok(Conclusion::new().with(act::apply(&greeting)))
//!     }
//! }
//!
//! evenkeel_sdk::plugin!(Greeter);
//!
//! let text = evenkeel_sdk::check::Check::of::<Greeter>("greet").key("team-a").given(
//!     "{apiVersion: v1, kind: Namespace, metadata: {name: team-a}}",
//! ).run().to_string();
//! assert!(text.contains("apply ConfigMap team-a/greeting"), "{text}");
//! ```

// The generated bindings name this crate by its own name, also from within.
extern crate self as evenkeel_sdk;

pub mod act;
mod ask;
#[doc(hidden)]
pub mod bindings;
#[cfg(any(test, target_family = "wasm"))]
mod blocks;
#[cfg(not(target_family = "wasm"))]
pub mod check;
mod conclusion;
mod condition;
mod export;
mod failure;
#[cfg(any(test, target_family = "wasm"))]
mod heap;
mod kind;
mod manifest;
mod panic;
mod pass;

pub use ask::{Asked, External, Get, List, Served};
pub use conclusion::Conclusion;
pub use condition::{Condition, ConditionStatus, Conditions, clean_message, rfc3339};
pub use export::{Plugin, run};
pub use failure::{Stop, action_text};
pub use kind::{Kind, Meta, Place, reference};
pub use manifest::{
    ControllerBuilder, ManifestBuilder, PermissionBuilder, controller, crd, manifest, permit,
};
pub use pass::Pass;

pub use bindings::evenkeel::reconciler::types::{
    Action, Answer, Apply, Controller, Deletion, Enqueue, Event, EventType, ExternalQuery, FailedPass,
    Failure, FailureKind, FieldMatch, Finalizer, GetQuery, Gvk, ListQuery, LogLevel, LogLine, Manifest,
    ObjectRef, Observation, Operation, Patch, Performed, Permission, Propagation, ProviderUse, Query, Reply,
    Request, Step, Verb,
};

#[cfg(target_family = "wasm")]
#[doc(hidden)]
pub use heap::{Heap, Linear};
#[doc(hidden)]
pub use {jiff, panic::install as install_panic_note, serde_json, wit_bindgen};
