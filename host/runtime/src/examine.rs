//! Looks at the bytes of a component before it is compiled, and at its imports and exports after.

use wasmtime::Engine;
use wasmtime::component::Component;
use wasmtime::component::types::ComponentItem;

use crate::GUEST_INTERFACE;
use crate::engine::{MEMORIES, TABLES};
use crate::limits::{Limits, TABLE_ELEMENTS_MAX};
use crate::load::LoadError;

/// What every wasm file begins with.
const MAGIC: &[u8] = b"\0asm";
/// Version and layer of a core module.
const MODULE: &[u8] = &[1, 0, 0, 0];
/// Version and layer of a component.
const COMPONENT: &[u8] = &[0x0d, 0, 1, 0];

/// Memory is counted in pages.
const WASM_PAGE: u64 = 64 << 10;

/// Refuses what cannot be a component, without compiling it.
pub(crate) fn bytes(wasm: &[u8], limits: &Limits) -> Result<(), LoadError> {
    let size = wasm.len() as u64;
    if size > limits.component {
        return Err(LoadError::TooLarge { size, limit: limits.component });
    }
    if Engine::detect_precompiled(wasm).is_some() {
        return Err(LoadError::Precompiled);
    }
    let Some(rest) = wasm.strip_prefix(MAGIC) else {
        return Err(if !wasm.is_empty() && MAGIC.starts_with(wasm) {
            LoadError::Truncated { size, wanted: 8 }
        } else {
            LoadError::NotAComponent
        });
    };
    match rest.get(..4) {
        Some(COMPONENT) => whole(wasm),
        Some(MODULE) => Err(LoadError::CoreModule),
        Some(_) => Err(LoadError::NotAComponent),
        None => Err(LoadError::Truncated { size, wanted: 8 }),
    }
}

/// Walks the outermost sections: each says its length, and a file that was cut off ends before.
fn whole(wasm: &[u8]) -> Result<(), LoadError> {
    let size = wasm.len() as u64;
    let mut at: u64 = 8;
    while at < size {
        let start = usize::try_from(at).unwrap_or(usize::MAX);
        // A section is a byte of kind, its length, its content.
        let header = wasm.get(start.saturating_add(1)..).unwrap_or_default();
        let Some((length, taken)) = leb128(header) else {
            return Err(LoadError::Truncated { size, wanted: size.saturating_add(1) });
        };
        at = at.saturating_add(1 + taken).saturating_add(length);
    }
    if at > size { Err(LoadError::Truncated { size, wanted: at }) } else { Ok(()) }
}

/// An unsigned number in LEB128 and the bytes it takes; none where the bytes end within it or it is too long for wasm.
fn leb128(bytes: &[u8]) -> Option<(u64, u64)> {
    let mut value = 0;
    for (index, byte) in (0_u32..5).zip(bytes) {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((value, u64::from(index) + 1));
        }
    }
    None
}

/// Refuses a component that imports anything but types, or that is no plugin of this version of the contract.
pub(crate) fn world(engine: &Engine, component: &Component) -> Result<(), LoadError> {
    let ty = component.component_type();
    let imports: Vec<String> = ty
        .imports(engine)
        .filter(|(_, import)| !is_types_only(engine, &import.ty))
        .map(|(name, _)| name.to_owned())
        .collect();
    if !imports.is_empty() {
        return Err(LoadError::Imports { names: imports });
    }
    let mut exports: Vec<String> = Vec::new();
    for (name, export) in ty.exports(engine) {
        if is_served(name) && matches!(export.ty, ComponentItem::ComponentInstance(_)) {
            return Ok(());
        }
        exports.push(name.to_owned());
    }
    Err(LoadError::OtherWorld { exports })
}

/// Refuses what no slot of the pool can hold, before the first instance would fail for it.
pub(crate) fn resources(component: &Component, limits: &Limits) -> Result<(), LoadError> {
    let Some(needs) = component.resources_required() else {
        let reason = "it imports modules or components".to_owned();
        return Err(LoadError::TooDemanding { reason });
    };
    let memory = needs.max_initial_memory_size.unwrap_or(0).saturating_mul(WASM_PAGE);
    let table = needs.max_initial_table_size.unwrap_or(0);
    let found = [
        (u64::from(needs.num_memories), u64::from(MEMORIES), "memories"),
        (u64::from(needs.num_tables), u64::from(TABLES), "tables"),
        (table, TABLE_ELEMENTS_MAX as u64, "entries in a table"),
        (memory, limits.memory, "bytes of memory to begin with"),
    ];
    match found.iter().find(|(needed, most, _)| needed > most) {
        Some((needed, most, what)) => {
            Err(LoadError::TooDemanding { reason: format!("{needed} {what}, where {most} are allowed") })
        }
        None => Ok(()),
    }
}

/// An interface imported for its types only needs nobody who implements it.
fn is_types_only(engine: &Engine, item: &ComponentItem) -> bool {
    match item {
        ComponentItem::ComponentInstance(instance) => {
            instance.exports(engine).all(|(_, export)| matches!(export.ty, ComponentItem::Type(_)))
        }
        ComponentItem::Type(_) => true,
        _ => false,
    }
}

/// Whether an export is the interface that this host calls: its name, and a compatible version (`0.1.*`).
fn is_served(export: &str) -> bool {
    let Some((served, version)) = GUEST_INTERFACE.rsplit_once('@') else { return false };
    let Some((name, theirs)) = export.rsplit_once('@') else { return false };
    let series = |version: &str| version.splitn(3, '.').take(2).collect::<Vec<_>>().join(".");
    name == served && series(theirs) == series(version)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(wasm: &[u8], expected: Expect) {
        let limits = Limits { component: 64, ..Limits::default() };
        let said = match bytes(wasm, &limits) {
            Ok(()) => "fine".to_owned(),
            Err(error) => error.to_string(),
        };
        expected.assert_eq(&said);
    }

    fn component(sections: &[u8]) -> Vec<u8> {
        [MAGIC, COMPONENT, sections].concat()
    }

    #[test]
    fn an_empty_component_is_whole() {
        check(&component(&[]), expect!["fine"]);
        check(&component(&[0, 3, 1, b'a', 0]), expect!["fine"]);
    }

    #[test]
    fn a_component_cut_off_anywhere_is_truncated() {
        let whole = component(&[0, 3, 1, b'a', 0]);
        for length in 1..whole.len() {
            let Some(part) = whole.get(..length) else { return };
            let outcome = bytes(part, &Limits::default());
            // Cut between two sections it is whole in form; what is missing shows later.
            assert!(
                length == 8 || matches!(outcome, Err(LoadError::Truncated { .. })),
                "{length}: {outcome:?}"
            );
        }
    }

    #[test]
    fn a_section_that_claims_too_much_is_truncated() {
        check(
            &component(&[0, 0xff, 0xff, 0xff, 0xff, 0x0f]),
            expect!["the component is cut off: 14 bytes of at least 4294967309"],
        );
        check(
            &component(&[0, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f]),
            expect!["the component is cut off: 15 bytes of at least 16"],
        );
    }

    #[test]
    fn what_is_no_component_is_named() {
        check(b"", expect!["this is no WebAssembly component"]);
        check(b"(component)", expect!["this is no WebAssembly component"]);
        check(b"\0asm\x01\0\0\0", expect!["this is a WebAssembly module, not a component"]);
        check(b"\0asm\x02\0\0\0", expect!["this is no WebAssembly component"]);
        check(&[0; 65], expect!["the component has 65 bytes, more than the 64 that are allowed"]);
    }

    #[test]
    fn patch_versions_are_served_and_others_are_not() {
        assert!(is_served("evenkeel:reconciler/guest@0.1.0"));
        assert!(is_served("evenkeel:reconciler/guest@0.1.7"));
        assert!(!is_served("evenkeel:reconciler/guest@0.2.0"));
        assert!(!is_served("evenkeel:reconciler/guest@0.10.0"));
        assert!(!is_served("evenkeel:reconciler/guest"));
        assert!(!is_served("other:reconciler/guest@0.1.0"));
    }
}
