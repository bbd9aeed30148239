//! The component model's types of the contract, as the WIT says them. Only `convert` and `call` look in here.
#![allow(missing_docs, clippy::indexing_slicing, clippy::unwrap_used, reason = "generated")]

wasmtime::component::bindgen!({
    path: "../../wit",
    world: "reconciler",
    exports: { default: async },
});
