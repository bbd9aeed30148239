//! What a guest said when it panicked.
//!
//! A guest without imports has no way to print, and a trap carries no text. So the SDK's panic hook leaves the text in
//! the guest's memory: a marker, the length in four bytes (little endian), the text. Nothing here trusts any of it.

/// What stands before the text.
const MARKER: &[u8; 16] = b"evenkeel-panic:\0";
/// Longest text that is read, in bytes; the SDK leaves no more.
const TEXT_BYTES_MAX: usize = 1024;
/// Bytes of a memory that are searched: toolchains put static data at its bottom, far below this.
const SEARCHED_BYTES_MAX: usize = 16 << 20;
/// Places that are looked at where the marker stands: data may hold it by chance, too.
const MARKERS_MAX: usize = 16;

/// How a panic begins in Rust's words.
const PANICKED_AT: &str = "panicked at ";

/// Where a guest panicked, and with what words.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Panic {
    pub(crate) place: String,
    pub(crate) message: String,
}

impl Panic {
    /// Looks for one in a guest's memory.
    pub(crate) fn find(memory: &[u8]) -> Option<Self> {
        let searched = memory.get(..SEARCHED_BYTES_MAX).unwrap_or(memory);
        let windows = searched.windows(MARKER.len()).enumerate();
        let markers = windows.filter(|(_, window)| window == MARKER).map(|(at, _)| at + MARKER.len());
        markers.take(MARKERS_MAX).find_map(|at| text(searched.get(at..)?)).map(|text| Self::of(&text))
    }

    fn of(text: &str) -> Self {
        let parts = text.strip_prefix(PANICKED_AT).and_then(|rest| rest.split_once(":\n"));
        let (place, message) = parts.unwrap_or(("a place that it does not tell", text));
        Self { place: one_line(place), message: one_line(message) }
    }
}

/// The text after a marker; none where nothing was written there.
fn text(after: &[u8]) -> Option<String> {
    let (length, rest) = after.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    if !(1..=TEXT_BYTES_MAX).contains(&length) {
        return None;
    }
    std::str::from_utf8(rest.get(..length)?).ok().map(str::to_owned)
}

/// Without what would break lines or move the cursor of whoever reads a log.
fn one_line(text: &str) -> String {
    let spaced: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    spaced.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(text: &[u8]) -> Vec<u8> {
        let length = u32::try_from(text.len()).expect("a short text").to_le_bytes();
        [MARKER.as_slice(), &length, text].concat()
    }

    fn check(memory: &[u8], place_and_message: Option<(&str, &str)>) {
        let found = Panic::find(memory);
        let found = found.as_ref().map(|panic| (panic.place.as_str(), panic.message.as_str()));
        assert_eq!(found, place_and_message);
    }

    #[test]
    fn a_panic_is_found_wherever_it_lies_and_told_in_one_line() {
        let memory =
            [vec![7; 999], note(b"panicked at src/lib.rs:3:5:\nno\nsuch \x1b[31mdisk\n"), vec![0; 5000]];
        check(&memory.concat(), Some(("src/lib.rs:3:5", "no such  [31mdisk")));
    }

    #[test]
    fn words_of_another_form_are_told_as_they_are() {
        check(&note("goroutine 1: ä".as_bytes()), Some(("a place that it does not tell", "goroutine 1: ä")));
    }

    #[test]
    fn a_marker_without_a_text_is_passed_over() {
        let torn = [MARKER.as_slice(), &[0; 4], b"nothing"].concat();
        let long = [MARKER.as_slice(), &u32::MAX.to_le_bytes(), b"too long"].concat();
        let binary = note(b"\xff\xfe");
        check(&[torn.clone(), long.clone(), binary.clone()].concat(), None);
        check(&[torn, long, binary, note(b"panicked at a:1:1:\nb")].concat(), Some(("a:1:1", "b")));
    }

    #[test]
    fn a_text_that_is_cut_off_by_the_end_of_memory_is_none() {
        let whole = note(b"panicked at a:1:1:\nb");
        for end in 0..whole.len() {
            check(whole.get(..end).expect("shorter"), None);
        }
    }

    #[test]
    fn it_is_what_the_sdk_leaves_behind() {
        let sdk = include_str!("../../../plugins/sdk/src/panic.rs");
        assert!(sdk.contains(r#"const MARKER: [u8; 16] = *b"evenkeel-panic:\0";"#));
        assert!(sdk.contains(&format!("const TEXT_BYTES_MAX: usize = {TEXT_BYTES_MAX};")));
    }

    #[test]
    fn no_more_than_a_few_markers_are_looked_at() {
        let empty = [MARKER.as_slice(), &[0; 4]].concat();
        let memory = [empty.repeat(MARKERS_MAX), note(b"panicked at a:1:1:\nb")].concat();
        check(&memory, None);
    }
}
