//! The last words of a guest that panics.
//!
//! A guest without imports has no way to print, and a trap carries no text. So the panic hook leaves the message in
//! the guest's memory behind a marker, for a host that looks into the memory of a guest that trapped.

use std::sync::Mutex;

/// Longest text that is kept, in bytes.
const TEXT_BYTES_MAX: usize = 1024;

/// What stands before the text, so that a host finds it in the guest's memory.
const MARKER: [u8; 16] = *b"evenkeel-panic:\0";

/// Marker, length in bytes (little endian), UTF-8 text.
#[repr(C)]
struct Note {
    marker: [u8; 16],
    length: [u8; 4],
    text: [u8; TEXT_BYTES_MAX],
}

static NOTE: Mutex<Note> = Mutex::new(Note { marker: MARKER, length: [0; 4], text: [0; TEXT_BYTES_MAX] });

/// Has panics leave their message where a host can find it. Called by [`crate::plugin!`].
pub fn install() {
    std::panic::set_hook(Box::new(|panic| write(&panic.to_string())));
}

/// Leaves a message; a longer one is cut at a character.
fn write(message: &str) {
    let mut end = message.len().min(TEXT_BYTES_MAX);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    // A panic while the lock is held cannot happen: nothing below panics.
    if let Ok(mut note) = NOTE.lock() {
        // `end` is at most 1024.
        note.length = u32::try_from(end).unwrap_or_default().to_le_bytes();
        note.text[..end].copy_from_slice(&message.as_bytes()[..end]);
        // Keeps the optimizer from dropping stores that no code reads.
        std::hint::black_box(&*note);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_is_cut_at_a_character() {
        write(&"ä".repeat(600));
        let note = NOTE.lock().unwrap();
        assert_eq!(u32::from_le_bytes(note.length), 1024);
        assert_eq!(note.marker, MARKER);
        assert_eq!(std::str::from_utf8(&note.text).unwrap(), "ä".repeat(512));
        drop(note);

        write(&format!("x{}", "ä".repeat(600)));
        assert_eq!(u32::from_le_bytes(NOTE.lock().unwrap().length), 1023);
    }
}
