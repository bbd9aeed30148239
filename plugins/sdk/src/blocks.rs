//! Copying and comparing short pieces of memory, as a guest does it some thousand times in a call: most of them are names.
//!
//! A copy by the instruction for it is a call of the host, and the compiler's own comparison goes byte by byte. Here eight bytes
//! are taken at a time, of which the last overlap those before.

use core::ptr;

/// Up to so many bytes are copied here.
const SHORT_MAX: usize = 32;

/// A piece of memory, as a number of which the first byte weighs most, so that numbers are ordered as pieces are.
#[allow(unsafe_code)]
#[inline(always)]
unsafe fn word(from: *const u8, at: usize) -> u64 {
    // SAFETY: The caller vouches for the eight bytes there.
    u64::from_be(unsafe { ptr::read_unaligned(from.add(at).cast()) })
}

/// As [`word`], of four bytes.
#[allow(unsafe_code)]
#[inline(always)]
unsafe fn half(from: *const u8, at: usize) -> u64 {
    // SAFETY: The caller vouches for the four bytes there.
    u64::from(u32::from_be(unsafe { ptr::read_unaligned(from.add(at).cast()) }))
}

/// Copies bytes to where none of them lies. All is read before anything is written, and without a loop: in a guest each round of
/// one looks whether its time is over.
///
/// # Safety
/// As of `memcpy`.
#[allow(unsafe_code)]
#[inline(always)]
pub(crate) unsafe fn copy(to: *mut u8, from: *const u8, count: usize) {
    // SAFETY: Every word and every byte that is touched lies within the two pieces, which the caller vouches for.
    unsafe {
        match count {
            0 => {}
            1..4 => {
                // The first, the middle and the last are all.
                let (middle, last) = (count / 2, count - 1);
                let (a, b, c) = (*from, *from.add(middle), *from.add(last));
                *to = a;
                *to.add(middle) = b;
                *to.add(last) = c;
            }
            4..8 => pair::<u32>(to, from, count - 4),
            8..=16 => pair::<u64>(to, from, count - 8),
            17..=SHORT_MAX => {
                let (a, b): (u64, u64) =
                    (ptr::read_unaligned(from.cast()), ptr::read_unaligned(from.add(8).cast()));
                pair::<u64>(to.add(count - 16), from.add(count - 16), 8);
                ptr::write_unaligned(to.cast(), a);
                ptr::write_unaligned(to.add(8).cast(), b);
            }
            _ => long(to, from, count),
        }
    }
}

/// Copies a number that begins a piece and one that ends it; they may overlap.
#[allow(unsafe_code)]
#[inline(always)]
unsafe fn pair<T: Copy>(to: *mut u8, from: *const u8, last: usize) {
    // SAFETY: The caller vouches for both numbers in both pieces.
    unsafe {
        let (a, b): (T, T) = (ptr::read_unaligned(from.cast()), ptr::read_unaligned(from.add(last).cast()));
        ptr::write_unaligned(to.cast(), a);
        ptr::write_unaligned(to.add(last).cast(), b);
    }
}

/// By the instruction for it, which a long copy is worth.
#[allow(unsafe_code)]
#[cfg_attr(target_family = "wasm", target_feature(enable = "bulk-memory"))]
#[inline(never)]
unsafe fn long(to: *mut u8, from: *const u8, count: usize) {
    // SAFETY: The caller vouches for both pieces.
    unsafe { ptr::copy_nonoverlapping(from, to, count) }
}

/// Less than, equal to or greater than zero, as the first piece is to the second one.
///
/// # Safety
/// As of `memcmp`.
#[allow(unsafe_code)]
#[inline(always)]
pub(crate) unsafe fn compare(one: *const u8, other: *const u8, count: usize) -> i32 {
    // SAFETY: Every word and every byte that is read lies within the two pieces, which the caller vouches for.
    let (a, b) = unsafe {
        match count {
            0 => return 0,
            1..4 => {
                let key = |piece: *const u8| {
                    let [first, middle, last] = [0, count / 2, count - 1].map(|at| u64::from(*piece.add(at)));
                    first << 16 | middle << 8 | last
                };
                (key(one), key(other))
            }
            4..8 => {
                // What the second half has of the first is equal where the first is.
                let key = |piece: *const u8| half(piece, 0) << 32 | half(piece, count - 4);
                (key(one), key(other))
            }
            _ => {
                let (mut at, last) = (0, count - 8);
                loop {
                    let (a, b) = (word(one, at), word(other, at));
                    if a != b || at == last {
                        break (a, b);
                    }
                    at = (at + 8).min(last);
                }
            }
        }
    };
    a.cmp(&b) as i32
}

/// What the compiler has copies and comparisons done by. Whoever builds a guest without the instruction for copies gets these;
/// `evenkeel build` does.
#[cfg(target_family = "wasm")]
mod symbols {
    /// As in C.
    #[allow(unsafe_code)]
    #[unsafe(no_mangle)]
    unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, count: usize) -> *mut u8 {
        // SAFETY: The caller vouches for what C asks for.
        unsafe { super::copy(to, from, count) };
        to
    }

    /// As in C.
    #[allow(unsafe_code)]
    #[unsafe(no_mangle)]
    unsafe extern "C" fn memcmp(one: *const u8, other: *const u8, count: usize) -> i32 {
        // SAFETY: The caller vouches for what C asks for.
        unsafe { super::compare(one, other, count) }
    }

    /// As in C: whether they differ at all.
    #[allow(unsafe_code)]
    #[unsafe(no_mangle)]
    unsafe extern "C" fn bcmp(one: *const u8, other: *const u8, count: usize) -> i32 {
        // SAFETY: The caller vouches for what C asks for.
        unsafe { super::compare(one, other, count) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that tell where they come from.
    fn pattern(length: usize) -> Vec<u8> {
        (0..length).map(|at| u8::try_from(at * 37 % 251).unwrap_or(0)).collect()
    }

    #[test]
    #[allow(unsafe_code)]
    fn a_copy_of_any_length_from_and_to_any_place_is_whole_and_touches_nothing_else() {
        let source = pattern(128);
        for count in 0..70 {
            for (from, to) in [(0, 0), (1, 3), (7, 0), (5, 9)] {
                let mut target = vec![0xEE; 128];
                // SAFETY: Both lie within their vectors, which are two.
                unsafe { copy(target.as_mut_ptr().add(to), source.as_ptr().add(from), count) };
                let mut expected = vec![0xEE; 128];
                expected[to..to + count].copy_from_slice(&source[from..from + count]);
                assert_eq!(target, expected, "{count} bytes from {from} to {to}");
            }
        }
    }

    #[test]
    #[allow(unsafe_code)]
    fn pieces_are_ordered_as_slices_of_bytes_are() {
        let one = pattern(64);
        for count in 0..40 {
            for differs in 0..=count {
                for change in [1_u8, 0x80, 0xFF] {
                    let mut other = one.clone();
                    if differs < count {
                        other[differs] = other[differs].wrapping_add(change);
                    }
                    // SAFETY: Both are longer than that.
                    let found = unsafe { compare(one.as_ptr(), other.as_ptr(), count) };
                    assert_eq!(
                        found.cmp(&0),
                        one[..count].cmp(&other[..count]),
                        "{count} {differs} {change}"
                    );
                }
            }
        }
    }
}
