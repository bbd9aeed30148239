//! The contract in `wit/` as Rust types, made once for every plugin. Nobody names this module directly: the crate
//! re-exports the types, and [`crate::plugin!`] uses the exports.
#![allow(missing_docs, unsafe_code, clippy::all)]

wit_bindgen::generate!({
    path: "../../wit",
    world: "reconciler",
    additional_derives: [PartialEq, Eq, Hash, Clone],
    pub_export_macro: true,
    export_macro_name: "export_guest",
    default_bindings_module: "evenkeel_sdk::bindings",
    runtime_path: "::evenkeel_sdk::wit_bindgen::rt",
    generate_unused_types: true,
});
