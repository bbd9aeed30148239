//! Hook files, as they are written down.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::seal::sha256;
use super::words::{Executable, FailurePolicy, FileOp, HookAction, HookCondition, HookFile, Origin};

/// Bytes of a hook file.
pub const FILE_BYTES_MAX: usize = 1 << 20;
/// Characters of a command line.
const RUN_CHARACTERS_MAX: usize = 2048;
/// Actions of a file.
const ACTIONS_MAX: usize = 256;

/// An action as it is written down.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Written {
    run: String,
    #[serde(default)]
    env_vars: BTreeMap<String, String>,
    #[serde(default)]
    work_dir: Option<String>,
    #[serde(default)]
    timeout: Option<String>,
    #[serde(default, rename = "if")]
    conditions: Vec<Condition>,
    #[serde(default)]
    failure_policy: FailurePolicy,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Condition {
    Path(PathCondition),
    Expression(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PathCondition {
    path: String,
    #[serde(default)]
    op: Vec<FileOp>,
}

/// What a device says of the words of a hook file.
pub struct Machine<'m> {
    /// Whether a word is a program: by `PATH`, or as a file where it has a slash.
    pub executable: &'m dyn Fn(&str) -> bool,
    /// Whether a folder is there.
    pub folder: &'m dyn Fn(&str) -> bool,
}

/// A hook file as a plugin is told of it: no value of a variable is in it.
pub fn file(name: &str, origin: Origin, bytes: &[u8], machine: &Machine<'_>) -> HookFile {
    let (error, actions) = match parse(bytes) {
        Ok(actions) => (None, actions.iter().map(|action| show(action, machine)).collect()),
        Err(error) => (Some(error), Vec::new()),
    };
    HookFile { path: name.to_owned(), origin, sha256: sha256(bytes), error, actions }
}

/// The variables of an action; none where there is no such action.
///
/// # Errors
/// A sentence, if the file is wrong.
pub fn variables(bytes: &[u8], index: usize) -> Result<Option<BTreeMap<String, String>>, String> {
    Ok(parse(bytes)?.into_iter().nth(index).map(|action| action.env_vars))
}

fn parse(bytes: &[u8]) -> Result<Vec<Written>, String> {
    if bytes.len() > FILE_BYTES_MAX {
        return Err(format!("it has more than {FILE_BYTES_MAX} bytes"));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| "it is no UTF-8".to_owned())?;
    if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        return Ok(Vec::new());
    }
    let actions: Vec<Written> = serde_saphyr::from_str(text).map_err(|error| said(&error.to_string()))?;
    if actions.len() > ACTIONS_MAX {
        return Err(format!("it has more than {ACTIONS_MAX} actions"));
    }
    for action in &actions {
        check(action)?;
    }
    Ok(actions)
}

fn check(action: &Written) -> Result<(), String> {
    let length = action.run.chars().count();
    if length == 0 || length > RUN_CHARACTERS_MAX {
        return Err(format!("run has {length} characters; 1 to {RUN_CHARACTERS_MAX} are allowed"));
    }
    if action.timeout.as_deref().is_some_and(|text| milliseconds(text).is_none()) {
        return Err("a timeout is no duration such as 10s".to_owned());
    }
    for (name, value) in &action.env_vars {
        let good = !name.is_empty() && !name.contains(['=', ' ', '\0']) && *name == name.to_uppercase();
        if !good || value.is_empty() || value.contains('\0') {
            return Err(format!("the variable {name:?} needs a name in capitals and a value"));
        }
    }
    Ok(())
}

/// What the parser says, without the file's text that it quotes: values of variables stand in it.
fn said(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let field = ["unknown field `", "missing field `"].iter().find_map(|start| {
        let rest = line.get(line.find(start)? + start.len()..)?;
        let name = rest.split('`').next().filter(|name| name.chars().all(char::is_alphanumeric))?;
        Some(format!("{start}{}`", name.chars().take(40).collect::<String>()))
    });
    match field {
        Some(field) => format!("it is no list of actions: {field}"),
        None => "it is no list of actions".to_owned(),
    }
}

/// A duration such as `10s`, `1m30s` or `500ms`, in milliseconds.
fn milliseconds(text: &str) -> Option<u64> {
    let (mut total, mut rest) = (0_u64, text);
    while !rest.is_empty() {
        let digits = rest.find(|one: char| !one.is_ascii_digit())?;
        let number: u64 = rest.get(..digits)?.parse().ok()?;
        let unit = rest.get(digits..)?;
        let unit = unit.get(..unit.find(|one: char| one.is_ascii_digit()).unwrap_or(unit.len()))?;
        let each = match unit {
            "ms" => 1,
            "s" => 1000,
            "m" => 60_000,
            "h" => 3_600_000,
            _ => return None,
        };
        total = total.checked_add(number.checked_mul(each)?)?;
        rest = rest.get(digits + unit.len()..)?;
    }
    (total > 0).then_some(total)
}

fn show(action: &Written, machine: &Machine<'_>) -> HookAction {
    let word = program(&action.run);
    let found = (machine.executable)(&word);
    let conditions = action.conditions.iter().map(|condition| match condition {
        Condition::Path(PathCondition { path, op }) => {
            HookCondition::Path { path: path.clone(), op: op.clone() }
        }
        Condition::Expression(text) => HookCondition::Expression(text.clone()),
    });
    HookAction {
        run: action.run.clone(),
        env_vars: action.env_vars.keys().cloned().collect(),
        work_dir: action.work_dir.clone(),
        work_dir_exists: action.work_dir.as_deref().is_none_or(machine.folder),
        timeout_ms: action.timeout.as_deref().and_then(milliseconds),
        conditions: conditions.collect(),
        failure_policy: action.failure_policy,
        executable: Executable { word, found },
    }
}

/// The first word of a command line that is no assignment, with its quotes taken off.
fn program(run: &str) -> String {
    let mut rest = run.trim_start();
    loop {
        let (word, after) = first_word(rest);
        let name = word.split_once('=').map(|(name, _)| name);
        let assigns = name.is_some_and(|name| {
            let mut letters = name.chars();
            letters.next().is_some_and(|one| one.is_ascii_alphabetic() || one == '_')
                && letters.all(|one| one.is_ascii_alphanumeric() || one == '_')
        });
        if !assigns {
            return word;
        }
        rest = after.trim_start();
    }
}

fn first_word(text: &str) -> (String, &str) {
    let (mut word, mut quote) = (String::new(), None);
    let mut characters = text.char_indices();
    while let Some((at, one)) = characters.next() {
        match (one, quote) {
            ('\\', None | Some('"')) => word.extend(characters.next().map(|(_, next)| next)),
            ('\'' | '"', None) => quote = Some(one),
            (one, Some(open)) if one == open => quote = None,
            (' ' | '\t' | '\n', None) => return (word, text.get(at..).unwrap_or_default()),
            _ => word.push(one),
        }
    }
    (word, "")
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(text: &str, expected: Expect) {
        let machine =
            Machine { executable: &|word| word.starts_with("/bin/"), folder: &|path| path == "/tmp" };
        let file = file("10.yaml", Origin::Local, text.as_bytes(), &machine);
        let actions = file.actions.iter().map(|one| {
            format!(
                "{} found={} {:?} {:?}",
                one.executable.word, one.executable.found, one.env_vars, one.timeout_ms
            )
        });
        expected.assert_eq(&file.error.unwrap_or_else(|| actions.collect::<Vec<_>>().join("; ")));
    }

    #[test]
    fn the_program_of_an_action_is_its_first_word_that_is_no_assignment() {
        check("- run: /bin/sh -c true\n", expect!["/bin/sh found=true [] None"]);
        check("- run: A=b C='d e' \"/bin/my\\\"prog\" x\n", expect![[r#"/bin/my"prog found=true [] None"#]]);
        check(
            "- run: nmcli conn reload\n  timeout: 1m30s\n  envVars: {TOKEN: hunter2}\n  if: [{path: /etc/, op: [created]}, rebooted == true]\n",
            expect![[r#"nmcli found=false ["TOKEN"] Some(90000)"#]],
        );
        check("# nothing yet\n", expect![""]);
    }

    #[test]
    fn a_file_that_is_wrong_is_told_without_what_is_secret_in_it() {
        check("- run: x\n  tiemout: hunter2\n", expect!["it is no list of actions: unknown field `tiemout`"]);
        check("- timeout: 1s\n", expect!["it is no list of actions: missing field `run`"]);
        check("- run: x\n  timeout: hunter2\n", expect!["a timeout is no duration such as 10s"]);
        check("run: x\n", expect!["it is no list of actions"]);
        check(
            "- run: x\n  envVars: {lower: hunter2}\n",
            expect![[r#"the variable "lower" needs a name in capitals and a value"#]],
        );
        check("- run: ''\n", expect!["run has 0 characters; 1 to 2048 are allowed"]);
        check("- run: x\n  envVars: [hunter2]\n", expect!["it is no list of actions"]);
        check("- run: x\n  if: [{path: /a, op: [renamed]}]\n", expect!["it is no list of actions"]);
    }

    #[test]
    fn a_duration_has_a_unit() {
        let cases = [
            ("10s", Some(10_000)),
            ("500ms", Some(500)),
            ("1h1m", Some(3_660_000)),
            ("10", None),
            ("", None),
            ("0s", None),
            ("1d", None),
        ];
        for (text, expected) in cases {
            assert_eq!(milliseconds(text), expected, "{text}");
        }
    }
}
