//! Memory of loaded plugins, each of a component of its own.

use crate::Scale;
use crate::child::{self, Figures, number};
use crate::measure::{Memory, mib};
use crate::product::{kite_wasm, multi, runtime, variant};

pub fn run(scale: Scale) -> anyhow::Result<()> {
    let most = scale.pick(2, 100);
    // Compiled in another process, so that the one that is measured only loads.
    let wasm = kite_wasm()?;
    let (compiling, tokio) = (runtime()?, multi()?);
    for at in 0..most {
        tokio.block_on(compiling.load(&variant(&wasm, at)))?;
    }
    let figures = child::part("plugins", &[&most.to_string()])?;
    let [resident, private] = figures[..] else { anyhow::bail!("other figures: {figures:?}") };
    println!(
        "  {resident:.0} KiB a plugin, {private:.0} of them private (the component has {} KiB)",
        wasm.len() / 1024
    );
    Ok(())
}

/// Loads so many plugins that are compiled already: KiB a plugin after the first, resident and private.
pub fn part(arguments: &[String]) -> anyhow::Result<Figures> {
    let most = number(arguments, 0)?;
    let wasm = kite_wasm()?;
    let (runtime, tokio) = (runtime()?, multi()?);
    let mut loaded = Vec::new();
    let mut first = Memory::default();
    println!("    no plugin: {} resident", mib(Memory::now().resident));
    for at in 0..most {
        loaded.push(tokio.block_on(runtime.load(&variant(&wasm, at)))?);
        let now = Memory::now();
        if at == 0 {
            first = now;
        }
        if [1, 2, 10, 100].contains(&loaded.len()) {
            let count = loaded.len();
            println!("    {count:>3}: {} resident, {} of them private", mib(now.resident), mib(now.private));
        }
    }
    let last = Memory::now();
    let each =
        |before: u64, after: u64| after.saturating_sub(before) as f64 / 1024.0 / (most - 1).max(1) as f64;
    Ok(vec![each(first.resident, last.resident), each(first.private, last.private)])
}
