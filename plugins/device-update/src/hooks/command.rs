//! The words of a command line: split as a POSIX shell does, without anything else that a shell does.

use std::collections::BTreeMap;

use super::condition::Matched;
use crate::words::FileOp;

/// Longest command line, in bytes.
const RUN_BYTES_MAX: usize = 2048;

/// Characters that mean something to a shell, and that somebody who writes them wants to mean it.
const SHELL: &str = "|&;<>()`";

/// A command line in its parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Command {
    /// Assignments before the program.
    pub env: BTreeMap<String, String>,
    /// The program and its arguments.
    pub argv: Vec<String>,
}

/// A piece of a word.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Variable(String),
}

/// A word, and whether any of it was quoted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Word {
    pieces: Vec<Piece>,
    quoted: bool,
}

impl Command {
    /// From the text of an action, with the files that its condition matched.
    ///
    /// # Errors
    /// A sentence that says which character needs a shell, or what is not closed.
    pub fn parse(run: &str, matched: &Matched) -> Result<Self, String> {
        if run.trim().is_empty() || run.len() > RUN_BYTES_MAX {
            return Err(format!("run has to have 1 to {RUN_BYTES_MAX} characters"));
        }
        let mut command = Self::default();
        for word in Splitter::new(run).words()? {
            if command.argv.is_empty()
                && let Some((name, value)) = assignment(&word, matched)
            {
                command.env.insert(name, value);
                continue;
            }
            expand(word, matched, &mut command.argv);
        }
        if command.argv.is_empty() { Err("run has no program".to_owned()) } else { Ok(command) }
    }
}

/// `NAME=value` as the first words of a line.
fn assignment(word: &Word, matched: &Matched) -> Option<(String, String)> {
    let Piece::Text(first) = word.pieces.first()? else { return None };
    let (name, rest) = first.split_once('=')?;
    let good = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty() || !name.chars().all(good) || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let mut value = rest.to_owned();
    word.pieces.iter().skip(1).for_each(|piece| value.push_str(&text_of(piece, matched)));
    Some((name.to_owned(), value))
}

/// A word that is a variable alone becomes a word for each file; within a word, files stand with blanks between.
fn expand(word: Word, matched: &Matched, argv: &mut Vec<String>) {
    if let [Piece::Variable(name)] = word.pieces.as_slice()
        && !word.quoted
        && name != "Path"
        && let Some(files) = files_of(name, matched)
    {
        argv.extend(files);
        return;
    }
    argv.push(word.pieces.iter().map(|piece| text_of(piece, matched)).collect());
}

fn text_of(piece: &Piece, matched: &Matched) -> String {
    match piece {
        Piece::Text(text) => text.clone(),
        Piece::Variable(name) if name == "Path" => matched.path.clone(),
        Piece::Variable(name) => match files_of(name, matched) {
            Some(files) => files.join(" "),
            None => format!("${{{name}}}"),
        },
    }
}

fn files_of(name: &str, matched: &Matched) -> Option<Vec<String>> {
    let of = |wanted: Option<FileOp>| {
        let meant = matched.files.iter().filter(|(_, op)| wanted.is_none_or(|wanted| wanted == *op));
        meant.map(|(path, _)| path.clone()).collect()
    };
    match name {
        "Files" => Some(of(None)),
        "CreatedFiles" => Some(of(Some(FileOp::Created))),
        "UpdatedFiles" => Some(of(Some(FileOp::Updated))),
        "RemovedFiles" => Some(of(Some(FileOp::Removed))),
        _ => None,
    }
}

/// Whether `${name}` is a variable of ours.
fn is_known(name: &str) -> bool {
    matches!(name, "Path" | "Files" | "CreatedFiles" | "UpdatedFiles" | "RemovedFiles")
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Quote {
    None,
    Single,
    Double,
}

struct Splitter {
    chars: Vec<char>,
    at: usize,
}

impl Splitter {
    fn new(run: &str) -> Self {
        Self { chars: run.chars().collect(), at: 0 }
    }

    fn next(&mut self) -> Option<char> {
        let c = self.chars.get(self.at).copied();
        self.at += 1;
        c
    }

    fn words(mut self) -> Result<Vec<Word>, String> {
        let (mut words, mut word, mut quote) = (Vec::new(), None::<Word>, Quote::None);
        while let Some(c) = self.next() {
            match (quote, c) {
                (Quote::None, ' ' | '\t' | '\n') => words.extend(word.take()),
                (Quote::None, '\'') => (quote, word.get_or_insert_default().quoted) = (Quote::Single, true),
                (Quote::None, '"') => (quote, word.get_or_insert_default().quoted) = (Quote::Double, true),
                (Quote::Single, '\'') | (Quote::Double, '"') => quote = Quote::None,
                (Quote::None, '\\') => {
                    let escaped = self.next().ok_or("a backslash at the end escapes nothing")?;
                    push(word.get_or_insert_default(), escaped);
                }
                (Quote::Double, '\\') => match self.next() {
                    Some(escaped @ ('"' | '\\' | '$' | '`')) => push(word.get_or_insert_default(), escaped),
                    Some(other) => {
                        push(word.get_or_insert_default(), '\\');
                        push(word.get_or_insert_default(), other);
                    }
                    None => return Err("a quote is not closed".to_owned()),
                },
                (Quote::None | Quote::Double, '$') => self.dollar(word.get_or_insert_default(), quote)?,
                (Quote::None, c) if SHELL.contains(c) => return Err(needs_shell(c)),
                (_, c) => push(word.get_or_insert_default(), c),
            }
        }
        if quote != Quote::None {
            return Err("a quote is not closed".to_owned());
        }
        words.extend(word);
        Ok(words)
    }

    /// `${ Name }` of ours is a variable, any other stays as it is written; a bare `$` is for a shell.
    fn dollar(&mut self, word: &mut Word, quote: Quote) -> Result<(), String> {
        let rest: String = self.chars.get(self.at..).unwrap_or_default().iter().collect();
        let inner = rest.strip_prefix('{').and_then(|rest| rest.split_once('}')).map(|(inner, _)| inner);
        if let Some(inner) = inner {
            let name = inner.trim();
            self.at += inner.chars().count() + 2;
            if is_known(name) {
                word.pieces.push(Piece::Variable(name.to_owned()));
            } else {
                format!("${{{inner}}}").chars().for_each(|c| push(word, c));
            }
            return Ok(());
        }
        if quote == Quote::None {
            return Err(needs_shell('$'));
        }
        push(word, '$');
        Ok(())
    }
}

fn push(word: &mut Word, c: char) {
    match word.pieces.last_mut() {
        Some(Piece::Text(text)) => text.push(c),
        Some(Piece::Variable(_)) | None => word.pieces.push(Piece::Text(c.to_string())),
    }
}

fn needs_shell(c: char) -> String {
    format!("{c:?} means nothing without a shell: quote it, or write bash -c '…'")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(run: &str) -> Vec<String> {
        Command::parse(run, &Matched::default()).expect(run).argv
    }

    #[test]
    fn words_are_split_as_a_posix_shell_does() {
        for (run, expected) in [
            (r#"sh -c "echo \"$X\" > /tmp/o""#, vec!["sh", "-c", r#"echo "$X" > /tmp/o"#]),
            (r"a 'b c' d\ e", vec!["a", "b c", "d e"]),
            (r#"a x"b c"y ''"#, vec!["a", "xb cy", ""]),
            (r#"a "\n" '\n'"#, vec!["a", r"\n", r"\n"]),
            ("kill -HUP '${FLIGHTCTL_AGENT_PID}'", vec!["kill", "-HUP", "${FLIGHTCTL_AGENT_PID}"]),
            ("echo ${ Unknown }", vec!["echo", "${ Unknown }"]),
            ("~/x *", vec!["~/x", "*"]),
        ] {
            assert_eq!(words(run), expected, "{run}");
        }
    }

    #[test]
    fn what_needs_a_shell_is_told_with_a_hint() {
        for run in ["ls | wc", "a && b", "a > b", "echo $X", "a; b", "(a)", "a `b`"] {
            let error = Command::parse(run, &Matched::default()).expect_err(run);
            assert!(error.contains("bash -c"), "{run}: {error}");
        }
        for run in ["a 'b", "a \"b", "a \\", "", "   ", "A=b"] {
            assert!(Command::parse(run, &Matched::default()).is_err(), "{run:?}");
        }
    }

    #[test]
    fn leading_assignments_become_environment() {
        let command = Command::parse("A=b C='d e' cmd X=y", &Matched::default()).expect("a command");
        let env = [("A", "b"), ("C", "d e")].map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(command, Command { env: env.into(), argv: vec!["cmd".into(), "X=y".into()] });
    }

    #[test]
    fn a_variable_of_its_own_is_a_word_for_each_file_and_within_a_word_a_text() {
        let files = vec![("/etc/a b".to_owned(), FileOp::Created), ("/etc/c".to_owned(), FileOp::Removed)];
        let matched = Matched { path: "/etc/".to_owned(), files };
        let argv = |run: &str| Command::parse(run, &matched).expect(run).argv;
        assert_eq!(argv("x ${ Files } y"), ["x", "/etc/a b", "/etc/c", "y"]);
        assert_eq!(
            argv("x \"${Files}\" ${CreatedFiles} ${Path}"),
            ["x", "/etc/a b /etc/c", "/etc/a b", "/etc/"]
        );
        assert_eq!(argv("x --files=${RemovedFiles} ${UpdatedFiles}"), ["x", "--files=/etc/c"]);
        assert_eq!(words("x ${Files}"), ["x"]);
        assert_eq!(words("x \"${Files}\""), ["x", ""]);
    }
}
