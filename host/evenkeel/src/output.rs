//! How results reach a person or a program: results on stdout, everything else on stderr.

use std::io::IsTerminal;
use std::path::Path;

use clap::ValueEnum;
use serde::Serialize;

pub use evenkeel_agent::console::{Unwritten, print, word};

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
///
/// # Errors
/// If nobody can be told; see [`print`].
pub fn json<T: Serialize>(value: &T) -> anyhow::Result<()> {
    Ok(print(format_args!("{}\n", serde_json::to_string_pretty(value)?))?)
}

/// [`print`] with a line's end.
macro_rules! say {
    ($($text:tt)*) => { $crate::output::print(format_args!("{}\n", format_args!($($text)*))) };
}
pub(crate) use say;

/// A line for stderr, which nobody need read.
macro_rules! note {
    ($($text:tt)*) => { evenkeel_agent::console::note(format_args!($($text)*)) };
}
pub(crate) use note;

/// Says how a shell is led to the cluster of a kubeconfig.
///
/// # Errors
/// If nobody can be told; see [`print`].
pub fn kubeconfig(path: &Path) -> Result<(), Unwritten> {
    say!("  export KUBECONFIG={}", word(&path.display().to_string()))
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
