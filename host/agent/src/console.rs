//! What a command says: its result on stdout, everything else on stderr.
//!
//! The macros of the standard library panic where nobody reads, or where a disk is full. Here a result that is not written is
//! an error like any other, and a note that nobody reads is none.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, Write};

/// A result did not get to whoever is to read it.
#[derive(Debug, thiserror::Error)]
#[error("cannot write to standard output")]
pub struct Unwritten(#[from] io::Error);

impl Unwritten {
    /// Whether whoever read has gone, as `head` does once it has its lines.
    pub fn is_closed(&self) -> bool {
        self.0.kind() == io::ErrorKind::BrokenPipe
    }

    /// Nothing where whoever read has gone: for commands whose exit code says all.
    ///
    /// # Errors
    /// Itself, where it is anything else.
    pub fn unless_closed(self) -> Result<(), Self> {
        if self.is_closed() { Ok(()) } else { Err(self) }
    }
}

/// Writes a result to stdout, at once.
///
/// # Errors
/// If it does not get there.
pub fn print(text: fmt::Arguments<'_>) -> Result<(), Unwritten> {
    Ok(write(&mut io::stdout().lock(), text)?)
}

/// Writes a line to stderr. Where nobody reads it, nothing is lost that counts.
pub fn note(text: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// A text as one word of a shell's command, in quotes where it needs them.
pub fn word(text: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:@%+=,".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(format!("'{}'", text.replace('\'', r"'\''")))
    }
}

/// What is left in a buffer is written when the process ends, and an error of that is told nobody: so not later than here.
fn write(out: &mut dyn Write, text: fmt::Arguments<'_>) -> io::Result<()> {
    out.write_fmt(text)?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keeps all until it is flushed, and then fails, as a full disk does.
    struct Full;

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(io::ErrorKind::StorageFull.into())
        }
    }

    #[test]
    fn what_is_kept_in_a_buffer_is_not_taken_for_written() {
        let error = write(&mut Full, format_args!("no line yet")).expect_err("it is full");
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn a_word_is_in_quotes_where_a_shell_would_take_it_apart() {
        for (text, expected) in [
            ("greeter", "greeter"),
            ("/tmp/a-b_c.d", "/tmp/a-b_c.d"),
            ("my plugins", "'my plugins'"),
            ("~ann", "'~ann'"),
            ("$HOME", "'$HOME'"),
            ("it's", r"'it'\''s'"),
            ("é", "'é'"),
            ("", "''"),
        ] {
            assert_eq!(word(text), expected);
        }
    }

    #[test]
    fn a_reader_that_has_gone_is_told_from_a_full_disk() {
        for (kind, closed) in [(io::ErrorKind::BrokenPipe, true), (io::ErrorKind::StorageFull, false)] {
            let unwritten = Unwritten::from(io::Error::from(kind));
            assert_eq!(
                (unwritten.is_closed(), unwritten.unless_closed().is_ok()),
                (closed, closed),
                "{kind}"
            );
        }
    }
}
