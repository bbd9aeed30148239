//! The heap of a guest: quick for an instance that lives for one call.
//!
//! A call makes some thousands of small objects and is over. So what was freed is kept by its size and given out again
//! as it is, memory is asked for in large steps, and nothing is ever joined or given back.

use core::alloc::{GlobalAlloc, Layout};
#[cfg(target_family = "wasm")]
use core::cell::Cell;
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

/// The linear memory of an instance: first what it begins with, then what it gets of the host.
#[cfg(target_family = "wasm")]
pub struct Linear {
    /// Whether the first piece was given out.
    begun: Cell<bool>,
}

/// What most calls need. It is there from the start: memory that is asked for is protected anew by the kernel twice, when it
/// comes and when the next instance has to do without, and both stop the other processors.
#[cfg(target_family = "wasm")]
const FIRST: usize = 1 << 20;

/// Zeros, which take no room in the component.
#[cfg(target_family = "wasm")]
struct First(UnsafeCell<[u128; FIRST / size_of::<u128>()]>);

// SAFETY: A component has one thread, and nothing but the heap gets at it.
#[allow(unsafe_code)]
#[cfg(target_family = "wasm")]
unsafe impl Sync for First {}

#[cfg(target_family = "wasm")]
static FIRST_PIECE: First = First(UnsafeCell::new([0; FIRST / size_of::<u128>()]));

#[cfg(target_family = "wasm")]
impl Linear {
    /// With all of it to be given out.
    #[allow(clippy::new_without_default, reason = "made once, by the macro")]
    pub const fn new() -> Self {
        Self { begun: Cell::new(false) }
    }
}

#[cfg(target_family = "wasm")]
impl Source for Linear {
    fn more(&self, bytes: usize) -> Option<(usize, usize)> {
        const PAGE: usize = 64 << 10;
        // Each step is a call of the host, and what is not touched costs nothing.
        const PAGES_A_STEP: usize = 8;
        if bytes <= FIRST && !self.begun.replace(true) {
            return Some((FIRST_PIECE.0.get().expose_provenance(), FIRST));
        }
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
    /// Memory that was never given out, from a multiple of the grain.
    next: usize,
    end: usize,
    /// The first free block of each class; its first word is the address of the one after it, 0 for none. Where a class has blocks of
    /// more than one length, the second word is the block's own.
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
    /// A block of so many bytes, a multiple of the grain.
    #[inline]
    fn take(&mut self, source: &impl Source, length: usize) -> Option<usize> {
        if length > SMALL_MAX {
            return self.take_long(source, length);
        }
        let class = length / GRAIN - 1;
        let first = self.free[class];
        if first != 0 {
            self.free[class] = word(first, 0);
            return Some(first);
        }
        if self.end - self.next < length {
            return self.fresh(source, length, GRAIN);
        }
        let begin = self.next;
        self.next += length;
        Some(begin)
    }

    #[inline(never)]
    fn take_long(&mut self, source: &impl Source, length: usize) -> Option<usize> {
        // The first of the blocks that may be long enough, or of those that are.
        for class in [class_of_free(length), class_of_fitting(length)] {
            let first = self.free[class];
            if first != 0 && word(first, 1) >= length {
                self.free[class] = word(first, 0);
                return Some(first);
            }
        }
        self.fresh(source, length, GRAIN)
    }

    /// Memory that was never given out.
    #[inline(never)]
    fn fresh(&mut self, source: &impl Source, bytes: usize, align: usize) -> Option<usize> {
        let align = align.max(GRAIN);
        let fits = |begin: usize, end: usize| begin.checked_add(bytes).is_some_and(|last| last <= end);
        let mut begin = aligned(self.next, align)?;
        if !fits(begin, self.end) {
            let (address, more) = source.more(bytes.checked_add(align)?)?;
            if address != self.end {
                self.next = aligned(address, GRAIN)?;
            }
            self.end = address.checked_add(more)?;
            begin = aligned(self.next, align)?;
        }
        self.next = begin.checked_add(bytes)?;
        Some(begin)
    }

    /// A block is nobody's from now on.
    ///
    /// # Safety
    /// It was given out as one of this length, and is not used any more.
    #[allow(unsafe_code)]
    #[inline]
    unsafe fn put(&mut self, block: *mut u8, length: usize) {
        let class = if length <= SMALL_MAX { length / GRAIN - 1 } else { class_of_free(length) };
        // SAFETY: It is as long as two words at least, and aligned for them.
        unsafe {
            let words = block.cast::<usize>();
            ptr::write(words, self.free[class]);
            if length > SMALL_MAX {
                ptr::write(words.add(1), length);
            }
        }
        self.free[class] = block.expose_provenance();
    }
}

/// A word of a free block.
#[allow(unsafe_code)]
#[inline]
fn word(block: usize, at: usize) -> usize {
    // SAFETY: A free block is nobody's, and `put` has left the words in it that its class has.
    unsafe { ptr::read(ptr::with_exposed_provenance::<usize>(block).add(at)) }
}

/// The next multiple of a power of two; none where no address space holds it.
#[inline]
fn aligned(address: usize, align: usize) -> Option<usize> {
    Some(address.checked_add(align - 1)? & !(align - 1))
}

/// The length of the block for so many bytes; none where no address space holds it.
#[inline]
fn length(bytes: usize) -> Option<usize> {
    aligned(bytes.max(1), GRAIN)
}

/// The class in which a block of this length, a long one, lies once it is free.
fn class_of_free(length: usize) -> usize {
    SMALL_CLASSES + length.ilog2() as usize
}

/// The class of which each block is as long as that, a long one.
fn class_of_fitting(length: usize) -> usize {
    SMALL_CLASSES + length.next_power_of_two().ilog2() as usize
}

// SAFETY: A block is given out that lies in memory of the source, is aligned, at least as long as asked for, and used by
// nobody else: it is fresh, or was given back. Only one thread gets here, and nothing here allocates.
#[allow(unsafe_code)]
unsafe impl<S: Source> GlobalAlloc for Heap<S> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some(length) = length(layout.size()) else { return ptr::null_mut() };
        // SAFETY: One thread, and no other reference to the state is alive.
        let state = unsafe { &mut *self.state.get() };
        let found = if layout.align() <= GRAIN {
            state.take(&self.source, length)
        } else {
            state.fresh(&self.source, length, layout.align())
        };
        found.map_or(ptr::null_mut(), ptr::with_exposed_provenance_mut)
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let Some(length) = length(layout.size()) else { return };
        // SAFETY: As above; the block is the caller's to give back.
        unsafe { (*self.state.get()).put(block, length) };
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
