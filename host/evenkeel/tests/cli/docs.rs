//! The documents say what is so: their commands parse, their files exist, their YAML reads, their scenarios hold.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Parser;
use evenkeel::cli::Cli;
use evenkeel_sim::scenario::file;

use super::{code, commands, evenkeel, folder, project, root, stderr, stdout};

/// A fenced part of a document.
struct Block {
    /// The document, from the root, and the line of the fence.
    at: String,
    folder: PathBuf,
    language: String,
    text: String,
}

/// Every document of the checkout, from the root.
fn documents() -> Vec<PathBuf> {
    let (mut found, mut open) = (Vec::new(), vec![root()]);
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).expect("a readable folder") {
            let path = entry.expect("a readable entry").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.starts_with('.') || name.starts_with("target") || name == "node_modules" {
                continue;
            }
            if path.is_dir() {
                open.push(path);
            } else if name.ends_with(".md") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn blocks() -> Vec<Block> {
    documents().iter().flat_map(|path| blocks_of(path)).collect()
}

fn blocks_of(path: &Path) -> Vec<Block> {
    let text = fs::read_to_string(path).expect("a readable document");
    let name = path.strip_prefix(root()).expect("below the root").display().to_string();
    let folder = path.parent().expect("a folder").to_owned();
    let mut blocks: Vec<Block> = Vec::new();
    let mut within = false;
    for (number, line) in text.lines().enumerate() {
        match line.strip_prefix("```") {
            Some(_) if within => within = false,
            Some(language) => {
                within = true;
                blocks.push(Block {
                    at: format!("{name}:{}", number + 1),
                    folder: folder.clone(),
                    language: language.trim().to_owned(),
                    text: String::new(),
                });
            }
            None if within => {
                let block = blocks.last_mut().expect("a block is open");
                block.text.push_str(line);
                block.text.push('\n');
            }
            None => {}
        }
    }
    assert!(!within, "{name}: a fence is not closed");
    blocks
}

/// The commands of a block, each as its words.
fn commands(block: &Block) -> Vec<Vec<String>> {
    if ["", "sh", "console"].contains(&block.language.as_str()) { typed(&block.text) } else { Vec::new() }
}

/// What a person would type: comments are left out, pipes and `&&` part commands.
fn typed(text: &str) -> Vec<Vec<String>> {
    let lines = text.replace("\\\n", " ");
    lines
        .lines()
        .flat_map(|line| words(line.trim_start_matches("$ ")))
        .filter(|words| !words.is_empty())
        .collect()
}

/// Why the arguments are none of the program's; none where they are, or ask for help.
fn refused(args: &[String]) -> Option<String> {
    let all = std::iter::once("evenkeel").chain(args.iter().map(String::as_str));
    Cli::try_parse_from(all).err().filter(clap::Error::use_stderr).map(|error| error.to_string())
}

/// A line as a shell would take it apart.
fn words(line: &str) -> Vec<Vec<String>> {
    let (mut commands, mut word, mut quote, mut begun) = (vec![Vec::new()], String::new(), None, false);
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, quote) {
            (c, Some(open)) if c == open => quote = None,
            (c, Some(_)) => word.push(c),
            ('\'' | '"', None) => {
                quote = Some(c);
                begun = true;
            }
            ('#', None) if word.is_empty() && !begun => break,
            (' ', None) => {
                if begun || !word.is_empty() {
                    commands.last_mut().expect("one is open").push(std::mem::take(&mut word));
                }
                begun = false;
            }
            ('|' | '&', None) => {
                chars.next_if_eq(&c);
                commands.push(Vec::new());
            }
            (c, None) => word.push(c),
        }
    }
    if begun || !word.is_empty() {
        commands.last_mut().expect("one is open").push(word);
    }
    for command in &mut commands {
        if let Some(at) = command.iter().position(|word| word == ">") {
            command.truncate(at);
        }
        while command.first().is_some_and(|word| word.contains('=') && !word.starts_with('-')) {
            command.remove(0);
        }
    }
    commands
}

/// What follows the program's name, where a command is one of ours.
fn ours(words: &[String]) -> Option<&[String]> {
    let text: Vec<&str> = words.iter().map(String::as_str).collect();
    match text.as_slice() {
        ["evenkeel" | "target/release/evenkeel", ..] => Some(&words[1..]),
        ["cargo", "run", "--", ..] => Some(&words[3..]),
        _ => None,
    }
}

fn refuse(faults: &[String]) {
    assert!(faults.is_empty(), "\n  {}\n", faults.join("\n  "));
}

#[test]
fn each_command_in_a_document_is_one() {
    let (mut faults, mut seen) = (Vec::new(), 0);
    for block in blocks() {
        for words in commands(&block) {
            let Some(args) = ours(&words) else { continue };
            seen += 1;
            if let Some(error) = refused(args) {
                faults.push(format!("{}: {}: {error}", block.at, words.join(" ")));
            }
        }
    }
    assert!(seen >= 15, "only {seen} commands were found");
    refuse(&faults);
}

#[test]
fn each_example_of_a_command_is_one() {
    let mut faults = Vec::new();
    for (command, after) in commands::commands() {
        let examples = typed(after.trim_start_matches("Examples:\n"));
        for words in examples.iter().filter(|words| words[0] == "evenkeel") {
            faults.extend(refused(&words[1..]).map(|error| format!("{}: {error}", words.join(" "))));
            faults.extend(absent(words, &root()).map(|word| format!("{}: no {word}", words.join(" "))));
        }
        let own =
            examples.iter().any(|words| words.len() > command.len() && words[1..].starts_with(&command));
        if !own {
            faults.push(format!("no example of {} shows it", command.join(" ")));
        }
    }
    refuse(&faults);
}

#[test]
fn each_file_that_a_command_in_a_document_names_is_there() {
    let mut faults = Vec::new();
    for block in blocks() {
        for words in commands(&block) {
            for word in absent(&words, &block.folder) {
                faults.push(format!("{}: {}: there is no {word}", block.at, words.join(" ")));
            }
        }
    }
    refuse(&faults);
}

/// The words of a command that name a file of the checkout which is not there.
fn absent<'a>(words: &'a [String], folder: &'a Path) -> impl Iterator<Item = &'a String> {
    let tops = ["plugins/", "deploy/", "tests/", "host/", "wit/"];
    words.iter().filter(move |word| tops.iter().any(|top| word.starts_with(top))).filter(move |word| {
        let placeholder = word.chars().any(|c| c.is_ascii_uppercase()) || word.contains("/.");
        // `plugins` may also be the folder that a host follows.
        let a_host_follows_it = word.ends_with(".wasm") || *word == "plugins/kite.yaml";
        !placeholder && !a_host_follows_it && !root().join(word).exists() && !folder.join(word).exists()
    })
}

#[test]
fn the_yaml_of_a_document_reads() {
    let mut faults = Vec::new();
    for block in blocks().iter().filter(|block| block.language == "yaml") {
        if let Err(error) = serde_saphyr::from_multiple::<serde_json::Value>(&block.text) {
            faults.push(format!("{}: {error}", block.at));
        }
    }
    refuse(&faults);
}

#[test]
fn each_scenario_in_a_document_is_one() {
    let (mut faults, mut seen) = (Vec::new(), 0);
    for block in blocks().iter().filter(|block| block.language == "yaml") {
        if block.text.starts_with("scenario:") {
            seen += 1;
            faults
                .extend(file::parse(Path::new(&block.at), &block.text).err().map(|error| error.to_string()));
        }
    }
    assert!(seen > 0, "the testers' guide begins with one");
    refuse(&faults);
}

#[test]
#[ignore = "slow: `cargo test -- --ignored`"]
fn the_scenarios_of_the_testers_guide_hold() {
    let here = folder();
    let kite = root().join("plugins/kite");
    fs::copy(kite.join("scenarios/base.yaml"), here.path().join("base.yaml")).expect("a copy");
    let guide = blocks_of(&root().join("plugins/TESTING.md"));
    let stories: Vec<&Block> = guide.iter().filter(|block| block.text.starts_with("scenario:")).collect();
    for (index, story) in stories.iter().enumerate() {
        fs::write(here.path().join(format!("{index}.yaml")), &story.text).expect("a file");
    }
    let output = evenkeel(&["test", &kite.display().to_string(), "."], here.path());
    assert_eq!(code(&output), 0, "{}{}", stdout(&output), stderr(&output));
    assert!(stdout(&output).contains(&format!("{} passed", stories.len())), "{}", stdout(&output));
}

/// The words that a file may have at a place: those that the reader names when it refuses another.
fn known_words(refused: &str) -> BTreeSet<String> {
    let error = file::parse(Path::new("a.yaml"), refused).expect_err("it is refused").to_string();
    let (_, known) = error.split_once("expected one of ").expect("the reader says what it knows");
    known.split(", ").map(|word| word.trim_matches('`').to_owned()).collect()
}

#[test]
fn the_testers_guide_names_every_step_and_every_expectation() {
    let guide = fs::read_to_string(root().join("plugins/TESTING.md")).expect("the guide");
    let mut words = known_words("scenario: a\nsteps: [{nonsense: 1}]\n");
    words.extend(known_words("scenario: a\nsteps: [{expect: {nonsense: 1}}]\n"));
    words.extend(known_words("nonsense: 1\n"));
    assert!(words.len() > 25, "{words:?}");
    let named = |word: &String| {
        ["`", "`{", "`:", ": "].iter().any(|end| guide.contains(&format!("`{word}{end}")))
            || guide.contains(&format!("\n{word}: "))
            || guide.contains(&format!("\n{word}:\n"))
    };
    let missing: Vec<&String> = words.iter().filter(|word| !named(word)).collect();
    assert!(missing.is_empty(), "the guide does not tell of {missing:?}");
}

#[test]
fn the_plugin_in_the_authors_guide_is_the_one_that_new_makes() {
    let guide = blocks_of(&root().join("plugins/README.md"));
    let shown = guide.iter().find(|block| block.text.contains("evenkeel_sdk::plugin!")).expect("the plugin");
    let made = fs::read_to_string(project::greeter().folder.join("src/lib.rs")).expect("the project");
    // The guide says in words what the module's comment says, and shows the test further down.
    let without_head = made.lines().skip_while(|line| line.starts_with("//!") || line.is_empty());
    let code: Vec<&str> = without_head.take_while(|line| *line != "#[cfg(test)]").collect();
    assert_eq!(shown.text.trim_end(), code.join("\n").trim_end());
}

#[test]
#[ignore = "slow: `cargo test -- --ignored`"]
fn the_five_commands_of_the_device_guide_come_to_what_it_says() {
    let here = folder();
    let place = |path: &str| here.path().join(path);
    // A checkout that has been built: the first of them did that.
    fs::create_dir_all(place("target/release")).expect("a folder");
    symlink(env!("CARGO_BIN_EXE_evenkeel"), place("target/release/evenkeel")).expect("a link");
    symlink(root().join("deploy"), place("deploy")).expect("a link");
    let guide = blocks_of(&root().join("deploy/device.md"));
    let block = guide.iter().find(|block| block.text.starts_with("cargo build --release\n"));
    let lines: Vec<&str> = block.expect("the five commands").text.lines().collect();
    assert_eq!(lines.len(), 5, "{lines:?}");
    let etc = || -> BTreeMap<PathBuf, String> {
        let text = |path: &PathBuf| fs::read_to_string(path).expect("a file");
        let paths = ["motd", "app/settings.conf"].map(|path| place("target/trial/etc").join(path));
        paths.into_iter().filter(|path| path.exists()).map(|path| (path.clone(), text(&path))).collect()
    };
    let mut seen = Vec::new();
    for line in &lines[1..] {
        let mut shell = Command::new("bash");
        shell.args(["-euc", line]).current_dir(here.path()).env_remove("CARGO_TARGET_DIR");
        let output = shell.output().expect("a shell");
        seen.push((code(&output), etc(), format!("{}{}", stdout(&output), stderr(&output))));
    }
    let (codes, told) = (seen.iter().map(|(code, ..)| *code).collect::<Vec<_>>(), &seen[3].2);
    assert_eq!(codes, [0, 0, 0, 1], "{seen:#?}");
    let greeting = |turn: usize| seen[turn].1.get(&place("target/trial/etc/motd")).map(String::as_str);
    assert_eq!(
        [greeting(0), greeting(1), greeting(2)],
        [None, Some("This device is looked after.\n"), Some("This device was updated.\n")]
    );
    assert_eq!(seen[3].1, seen[2].1, "byte for byte");
    assert!(told.contains("failed and rolled back: While Activating: hooks failed for"), "{told}");
}

#[test]
fn a_line_is_taken_apart_as_by_a_shell() {
    let text = |line| words(line).iter().map(|words| words.join("·")).collect::<Vec<_>>();
    assert_eq!(text("A=b evenkeel test 'a b' | kubectl x > y # why"), ["evenkeel·test·a b", "kubectl·x"]);
    assert_eq!(text("cp a b && mv b c"), ["cp·a·b", "mv·b·c"]);
    assert_eq!(text("# nothing"), [""]);
}
