//! How wasmtime is set up: deterministic, interruptible, and with instances from a pool.

use wasmtime::{Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig, Result};

use crate::limits::{Limits, TABLE_ELEMENTS_MAX};
use crate::swap;

/// Native stack of a guest; a call that goes deeper traps.
const WASM_STACK: usize = 512 << 10;
/// Stack of the fiber that a call runs on: the guest's and the host's functions under it.
const ASYNC_STACK: usize = 1 << 20;
/// Frames kept of a trap.
pub(crate) const FRAMES_MAX: usize = 32;

/// Core instances, tables and memories that one component may bring, and how many of them a slot counts for on average.
const CORE_INSTANCES: u32 = 64;
const CORE_INSTANCES_A_SLOT: u32 = 24;
pub(crate) const TABLES: u32 = 16;
pub(crate) const MEMORIES: u32 = 4;

/// What decides how code is compiled. Host and compiling child must agree on it to the letter, or the host refuses
/// what the child has made.
fn compile_config() -> Config {
    let mut config = Config::new();
    config
        .wasm_component_model(true)
        .memory_init_cow(true)
        .epoch_interruption(true)
        .wasm_relaxed_simd(false)
        .relaxed_simd_deterministic(true)
        .max_wasm_stack(WASM_STACK)
        .async_stack_size(ASYNC_STACK)
        // Not written anywhere: it is the way to the memory of a guest that trapped.
        .coredump_on_trap(true)
        .wasm_backtrace_max_frames(std::num::NonZeroUsize::new(FRAMES_MAX));
    #[cfg(feature = "compile")]
    config.cranelift_nan_canonicalization(true).cranelift_opt_level(wasmtime::OptLevel::Speed);
    config
}

/// An engine that only compiles: it reserves no address space.
pub(crate) fn for_compiling() -> Result<Engine> {
    Engine::new(&compile_config())
}

/// An engine that runs up to `slots` instances at once.
pub(crate) fn for_running(slots: u32, limits: &Limits) -> Result<Engine> {
    let mut config = compile_config();
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool(
        slots,
        limits,
        swap::may_be_swapped(),
    )));
    match Engine::new(&config) {
        Ok(engine) => Ok(engine),
        // A limit on address space forbids the pool's reservation. Slower is better than not at all.
        Err(cause) => {
            tracing::warn!(cause = %format!("{cause:#}"), "no pool of instances: each call allocates anew");
            for_compiling()
        }
    }
}

fn pool(slots: u32, limits: &Limits, may_be_swapped: bool) -> PoolingAllocationConfig {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(slots)
        .total_core_instances(slots.saturating_mul(CORE_INSTANCES_A_SLOT).max(CORE_INSTANCES))
        .total_memories(slots.saturating_mul(MEMORIES))
        .total_tables(slots.saturating_mul(TABLES))
        .total_stacks(slots)
        .max_core_instances_per_component(CORE_INSTANCES)
        .max_memories_per_component(MEMORIES)
        .max_tables_per_component(TABLES)
        .max_memory_size(usize::try_from(limits.memory).unwrap_or(usize::MAX))
        .table_elements(TABLE_ELEMENTS_MAX)
        .max_component_instance_size(4 << 20)
        .max_core_instance_size(4 << 20)
        .table_keep_resident(64 << 10)
        .async_stack_keep_resident(64 << 10);
    if may_be_swapped {
        // Slots are given back to the kernel whole; see `swap`.
        pool.linear_memory_keep_resident(0).pagemap_scan(Enabled::No);
    } else {
        pool.linear_memory_keep_resident(512 << 10).pagemap_scan(Enabled::Auto);
    }
    pool
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::compatibility;

    #[test]
    fn the_child_compiles_for_the_engine_that_runs() -> Result<()> {
        let running = for_running(2, &Limits::default())?;
        assert_eq!(compatibility(&for_compiling()?), compatibility(&running));
        Ok(())
    }

    #[test]
    fn both_ways_of_cleaning_a_slot_are_possible_here() -> Result<()> {
        for may_be_swapped in [true, false] {
            let mut config = compile_config();
            let pool = pool(2, &Limits::default(), may_be_swapped);
            config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
            Engine::new(&config)?;
        }
        Ok(())
    }
}
