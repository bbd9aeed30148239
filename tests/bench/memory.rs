//! Memory: of loaded plugins, and of cached objects against what kube's reflector holds.

use std::sync::Arc;

use evenkeel_core::contract::Gvk;
use evenkeel_core::object::CachedObject;
use kube::core::DynamicObject;
use serde_json::{Value, json};

use crate::story::{kite_wasm, mib, multi, resident, runtime};

const OBJECTS: usize = 10_000;

pub fn run() -> anyhow::Result<()> {
    plugins()?;
    objects()
}

/// Resident memory with 1, 10 and 100 plugins, each of bytes of its own.
fn plugins() -> anyhow::Result<()> {
    let wasm = kite_wasm()?;
    let runtime = runtime()?;
    let tokio = multi()?;
    let mut loaded = Vec::new();
    let before = resident();
    let mut after_one = before;
    for goal in [1_usize, 10, 100] {
        while loaded.len() < goal {
            let variant = variant(&wasm, loaded.len());
            loaded.push(tokio.block_on(runtime.load(&variant))?);
        }
        let now = resident();
        if goal == 1 {
            after_one = now;
        }
        println!("  {goal:>3} plugins: {} resident", mib(now));
    }
    let each = resident().saturating_sub(after_one) / 99;
    println!(
        "  {} KiB a plugin after the first (Kite's component has {} KiB)",
        each / 1024,
        wasm.len() / 1024
    );
    Ok(())
}

/// The same component under another digest: a custom section changes nothing that runs.
pub fn variant(wasm: &[u8], number: usize) -> Vec<u8> {
    let name = b"bench";
    let data = number.to_string();
    let length = 1 + name.len() + data.len();
    let mut bytes = wasm.to_vec();
    bytes.push(0);
    bytes.push(u8::try_from(length).unwrap_or(0x7f));
    bytes.push(u8::try_from(name.len()).unwrap_or(0));
    bytes.extend_from_slice(name);
    bytes.extend_from_slice(data.as_bytes());
    bytes
}

/// 10,000 objects of 3 KB as the cache holds them, and as a reflector of dynamic objects does.
fn objects() -> anyhow::Result<()> {
    let texts: Vec<String> = (0..OBJECTS).map(|index| object(index).to_string()).collect();
    let size = texts.iter().map(String::len).sum::<usize>() / OBJECTS;
    let gvk = Gvk::new("", "v1", "ConfigMap");
    let before = resident();
    let ours: Vec<Arc<CachedObject>> =
        texts.iter().map(|text| CachedObject::parse(&gvk, text).map(Arc::new)).collect::<Result<_, _>>()?;
    let held = resident().saturating_sub(before);
    let before = resident();
    let theirs: Vec<Arc<DynamicObject>> =
        texts.iter().map(|text| serde_json::from_str(text).map(Arc::new)).collect::<Result<_, _>>()?;
    let held_by_kube = resident().saturating_sub(before);
    let each = |bytes: u64| bytes as f64 / OBJECTS as f64 / 1024.0;
    println!(
        "  {} objects of {size} bytes: {:.1} KiB each in the cache, {:.1} KiB each as dynamic objects of kube (ratio {:.2})",
        ours.len(),
        each(held),
        each(held_by_kube),
        held as f64 / held_by_kube.max(1) as f64,
    );
    drop((ours, theirs));
    Ok(())
}

/// About 3 KB, with the metadata that a real object has.
fn object(index: usize) -> Value {
    let data: serde_json::Map<String, Value> = (0..40)
        .map(|key| (format!("key-{key}"), json!(format!("value {key} of object {index}, some text"))))
        .collect();
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": format!("object-{index}"), "namespace": "default", "uid": format!("{index:036}"),
            "resourceVersion": index.to_string(), "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app": "bench", "index": index.to_string()},
            "managedFields": [{"manager": "kubectl", "operation": "Apply", "apiVersion": "v1",
                "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {}}}]},
        "data": data})
}
