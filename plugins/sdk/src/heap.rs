//! The heap of a guest: quick for an instance that lives for one call.
//!
//! A call makes some thousands of small objects and is over. So what was freed is kept by its size and given out again
//! as it is, memory is asked for in large steps, and nothing is ever joined or given back.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::ptr;

/// Each block begins at a multiple of this, and is as long as one.
const GRAIN: usize = 16;
/// Blocks up to this length are told apart by their exact length.
const SMALL_MAX: usize = 1024;
const SMALL_CLASSES: usize = SMALL_MAX / GRAIN;
/// Longer ones by the power of two that they reach.
const CLASSES: usize = SMALL_CLASSES + usize::BITS as usize;

/// Where more memory comes from.
pub trait Source {
    /// At least so many bytes that nobody uses, as their first address and their number; none where there are no more.
    /// Where they follow upon those given before, they are one piece with them.
    fn more(&self, bytes: usize) -> Option<(usize, usize)>;
}

/// The linear memory of an instance.
#[cfg(target_family = "wasm")]
pub struct Linear;

#[cfg(target_family = "wasm")]
impl Source for Linear {
    fn more(&self, bytes: usize) -> Option<(usize, usize)> {
        const PAGE: usize = 64 << 10;
        // Each step is a call of the host, and what is not touched costs nothing.
        const PAGES_A_STEP: usize = 8;
        let pages = bytes.div_ceil(PAGE).max(PAGES_A_STEP);
        let before = core::arch::wasm32::memory_grow::<0>(pages);
        // Near its limit an instance may have a little more, but no whole step.
        let (before, pages) = match before {
            usize::MAX => (core::arch::wasm32::memory_grow::<0>(bytes.div_ceil(PAGE)), bytes.div_ceil(PAGE)),
            before => (before, pages),
        };
        (before != usize::MAX).then(|| (before * PAGE, pages * PAGE))
    }
}

/// A heap for one thread.
pub struct Heap<S> {
    source: S,
    state: UnsafeCell<State>,
}

struct State {
    /// Memory that was never given out.
    next: usize,
    end: usize,
    /// The first free block of each class; its first word is the address of the one after it, 0 for none, its second its
    /// own length.
    free: [usize; CLASSES],
}

// SAFETY: A component has one thread, and no allocation happens within another.
#[allow(unsafe_code)]
#[cfg(target_family = "wasm")]
unsafe impl Sync for Heap<Linear> {}

impl<S: Source> Heap<S> {
    /// An empty one.
    pub const fn new(source: S) -> Self {
        Self { source, state: UnsafeCell::new(State { next: 0, end: 0, free: [0; CLASSES] }) }
    }
}

impl State {
    /// The first free block of a class, if it is long enough.
    #[allow(unsafe_code)]
    fn free_block(&mut self, class: usize, length: usize) -> Option<usize> {
        let first = self.free[class];
        if first == 0 {
            return None;
        }
        // SAFETY: A free block is nobody's, and `dealloc` has left two words in it.
        let [after, has] = unsafe { ptr::read(ptr::with_exposed_provenance::<[usize; 2]>(first)) };
        (has >= length).then(|| {
            self.free[class] = after;
            first
        })
    }

    /// Memory that was never given out.
    fn fresh(&mut self, source: &impl Source, bytes: usize, align: usize) -> Option<usize> {
        let align = align.max(GRAIN);
        let begin = self.next.checked_next_multiple_of(align)?;
        let end = begin.checked_add(bytes)?;
        if end <= self.end {
            self.next = end;
            return Some(begin);
        }
        let (address, more) = source.more(bytes.checked_add(align)?)?;
        if address != self.end {
            self.next = address;
        }
        self.end = address.checked_add(more)?;
        let begin = self.next.checked_next_multiple_of(align)?;
        self.next = begin.checked_add(bytes)?;
        Some(begin)
    }
}

/// The length of the block for so many bytes; none where no address space holds it.
fn length(bytes: usize) -> Option<usize> {
    bytes.max(1).checked_next_multiple_of(GRAIN)
}

/// The class in which a block of this length lies once it is free.
fn class_of_free(length: usize) -> usize {
    if length <= SMALL_MAX { length / GRAIN - 1 } else { SMALL_CLASSES + length.ilog2() as usize }
}

/// The class of which each block is long enough.
fn class_of_fitting(length: usize) -> usize {
    if length <= SMALL_MAX {
        length / GRAIN - 1
    } else {
        SMALL_CLASSES + length.next_power_of_two().ilog2() as usize
    }
}

// SAFETY: A block is given out that lies in memory of the source, is aligned, at least as long as asked for, and used by
// nobody else: it is fresh, or was given back. Only one thread gets here, and nothing here allocates.
#[allow(unsafe_code)]
unsafe impl<S: Source> GlobalAlloc for Heap<S> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some(length) = length(layout.size()) else { return ptr::null_mut() };
        // SAFETY: One thread, and no other reference to the state is alive.
        let state = unsafe { &mut *self.state.get() };
        if layout.align() <= GRAIN {
            let may_fit = class_of_free(length);
            let fits = class_of_fitting(length);
            if let Some(found) = state.free_block(may_fit, length).or_else(|| state.free_block(fits, length))
            {
                return ptr::with_exposed_provenance_mut(found);
            }
        }
        match state.fresh(&self.source, length, layout.align()) {
            Some(address) => ptr::with_exposed_provenance_mut(address),
            None => ptr::null_mut(),
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let Some(length) = length(layout.size()) else { return };
        // SAFETY: As above.
        let state = unsafe { &mut *self.state.get() };
        let class = class_of_free(length);
        // SAFETY: The block is the caller's to give back, and as long as two words at least and aligned for them.
        unsafe { ptr::write(block.cast::<[usize; 2]>(), [state.free[class], length]) };
        state.free[class] = block.expose_provenance();
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        let (Some(old), Some(new)) = (length(layout.size()), length(bytes)) else { return ptr::null_mut() };
        if new <= old {
            return block;
        }
        {
            // SAFETY: As above.
            let state = unsafe { &mut *self.state.get() };
            let end = block.addr() + old;
            // The last block that was given out has room behind it.
            if end == state.next && new - old <= state.end - state.next {
                state.next = block.addr() + new;
                return block;
            }
        }
        let Ok(wanted) = Layout::from_size_align(bytes, layout.align()) else { return ptr::null_mut() };
        // SAFETY: The new block is another one, and both are as long as the old contents.
        unsafe {
            let moved = self.alloc(wanted);
            if !moved.is_null() {
                ptr::copy_nonoverlapping(block, moved, layout.size());
                self.dealloc(block, layout);
            }
            moved
        }
    }
}

#[cfg(test)]
#[allow(unsafe_code)]
mod tests {
    use std::cell::Cell;
    use std::collections::BTreeMap;

    use super::*;

    /// Memory of this process, given out in steps, with a gap after every third.
    struct Steps {
        memory: Vec<u64>,
        given: Cell<usize>,
        steps: Cell<usize>,
    }

    impl Steps {
        fn of(bytes: usize) -> Self {
            Self { memory: vec![0; bytes / 8], given: Cell::new(0), steps: Cell::new(0) }
        }
    }

    impl Source for Steps {
        fn more(&self, bytes: usize) -> Option<(usize, usize)> {
            self.steps.set(self.steps.get() + 1);
            let gap = if self.steps.get().is_multiple_of(3) { 4096 } else { 0 };
            let (begin, bytes) = (self.given.get() + gap, bytes.max(8192));
            let fits = begin + bytes <= self.memory.len() * 8;
            fits.then(|| {
                self.given.set(begin + bytes);
                (self.memory.as_ptr().expose_provenance() + begin, bytes)
            })
        }
    }

    /// A number that looks like chance.
    fn chance(seed: &mut u64) -> usize {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(*seed >> 33).expect("31 bits")
    }

    #[test]
    fn no_two_blocks_overlap_and_each_keeps_what_was_written() {
        let heap = Heap::new(Steps::of(64 << 20));
        let mut seed = 7;
        let mut live: BTreeMap<usize, (Layout, u8)> = BTreeMap::new();
        for round in 0..20_000_usize {
            let mark = (round % 251) as u8;
            let bytes = match chance(&mut seed) % 10 {
                0 => chance(&mut seed) % 20_000,
                1..4 => chance(&mut seed) % 1_500,
                _ => chance(&mut seed) % 64,
            } + 1;
            let align = 1 << (chance(&mut seed) % 7);
            let some = live.keys().nth(chance(&mut seed) % live.len().max(1)).copied();
            let deed = if live.len() > 1_000 { 0 } else { chance(&mut seed) % 4 };
            // SAFETY: Each block is used as its layout says, until it is given back.
            unsafe {
                match (deed, some) {
                    (0, Some(address)) => {
                        let (layout, _) = live.remove(&address).expect("it is there");
                        heap.dealloc(ptr::with_exposed_provenance_mut(address), layout);
                    }
                    (1, Some(address)) => {
                        let (layout, mark) = live.remove(&address).expect("it is there");
                        let moved = heap.realloc(ptr::with_exposed_provenance_mut(address), layout, bytes);
                        assert!(!moved.is_null());
                        let kept = layout.size().min(bytes);
                        assert!((0..kept).all(|at| *moved.add(at) == mark), "round {round}");
                        let layout = Layout::from_size_align(bytes, layout.align()).expect("a layout");
                        moved.write_bytes(mark, bytes);
                        live.insert(moved.expose_provenance(), (layout, mark));
                    }
                    _ => {
                        let layout = Layout::from_size_align(bytes, align).expect("a layout");
                        let block = heap.alloc(layout);
                        assert!(!block.is_null() && block.addr().is_multiple_of(align));
                        block.write_bytes(mark, bytes);
                        live.insert(block.expose_provenance(), (layout, mark));
                    }
                }
            }
        }
        let ends: Vec<_> =
            live.iter().map(|(address, (layout, _))| (*address, address + layout.size())).collect();
        assert!(ends.windows(2).all(|pair| pair[0].1 <= pair[1].0), "two overlap");
        for (address, (layout, mark)) in live {
            let block = ptr::with_exposed_provenance::<u8>(address);
            // SAFETY: The block is alive.
            assert!((0..layout.size()).all(|at| unsafe { *block.add(at) } == mark));
        }
    }

    #[test]
    fn what_was_freed_is_given_out_again() {
        let heap = Heap::new(Steps::of(1 << 20));
        for bytes in [1, 16, 100, 1024, 5_000, 60_000] {
            let layout = Layout::from_size_align(bytes, 8).expect("a layout");
            // SAFETY: Each block is given back before the next is asked for.
            let blocks: Vec<_> = (0..1_000)
                .map(|_| unsafe {
                    let block = heap.alloc(layout);
                    assert!(!block.is_null(), "{bytes}");
                    heap.dealloc(block, layout);
                    block
                })
                .collect();
            assert!(blocks.iter().all(|block| *block == blocks[0]), "{bytes}");
        }
    }

    #[test]
    fn where_there_is_no_more_memory_there_is_no_block() {
        let heap = Heap::new(Steps::of(64 << 10));
        let layout = |bytes| Layout::from_size_align(bytes, 8).expect("a layout");
        // SAFETY: The block is used as its layout says.
        unsafe {
            assert!(heap.alloc(layout(1 << 20)).is_null());
            let block = heap.alloc(layout(64));
            assert!(!block.is_null(), "a smaller one fits");
            assert!(heap.realloc(block, layout(64), 1 << 20).is_null());
        }
    }
}
