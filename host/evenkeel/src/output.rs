//! How results reach a person or a program: results on stdout, everything else on stderr.

use std::io::{IsTerminal, Write};

use clap::ValueEnum;
use serde::Serialize;

/// The form of a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For a person.
    #[default]
    Text,
    /// For a program: one JSON document.
    Json,
}

/// Prints a value as JSON, indented.
pub fn json<T: Serialize>(value: &T) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, value)?;
    writeln!(out)?;
    Ok(())
}

/// Whether to colour what goes to stdout: on terminals, unless `NO_COLOR` says otherwise.
pub fn colour_stdout() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Whether to colour what goes to stderr.
pub fn colour_stderr() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// The colours in use, by what they mean.
#[derive(Clone, Copy, Debug)]
pub enum Paint {
    /// Fine.
    Good,
    /// Wrong.
    Bad,
    /// Worth a look.
    Warn,
    /// Beside the point.
    Dim,
    /// A heading.
    Bold,
}

/// The text in its colour, or plain.
pub fn paint(text: &str, paint: Paint, colour: bool) -> String {
    let code = match paint {
        Paint::Good => "32",
        Paint::Bad => "31",
        Paint::Warn => "33",
        Paint::Dim => "2",
        Paint::Bold => "1",
    };
    if colour { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
}
