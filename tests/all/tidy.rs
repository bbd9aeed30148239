//! The style rules that a program can check.

use std::fs;
use std::path::{Path, PathBuf};

const FILE_LINES_MAX: usize = 800;
const FUNCTION_LINES_MAX: usize = 70;

/// What may stand at the top of the checkout.
const TOP_LEVEL: &[&str] =
    &["README.md", "LICENSE", "Cargo.toml", "Cargo.lock", "host", "plugins", "wit", "deploy", "tests"];

/// What each crate may not depend on: a decision that cannot name a client cannot do IO.
const FORBIDDEN: &[(&str, &[&str])] = &[
    ("host/core", &["tokio", "kube", "k8s-openapi", "wasmtime", "evenkeel-"]),
    ("host/runtime", &["kube", "k8s-openapi", "evenkeel-cluster", "evenkeel-engine", "evenkeel-sandbox"]),
    ("host/cluster", &["wasmtime", "evenkeel-runtime", "evenkeel-engine", "evenkeel-sandbox"]),
    ("host/sandbox", &["evenkeel-", "wasmtime", "kube"]),
    ("host/engine", &["clap", "evenkeel-sandbox", "evenkeel-sim"]),
    ("host/agent", &["evenkeel-sim", "evenkeel-admin", "jsonschema", "wit-component"]),
    ("host/admin", &["clap", "wasmtime", "evenkeel-runtime", "evenkeel-sandbox"]),
    ("host/providers", &["kube", "k8s-openapi", "wasmtime"]),
    ("host/sim", &["clap", "wasmtime", "evenkeel-runtime"]),
];

/// What no plugin, and not the SDK, may depend on: a guest has no clock, no network and no thread.
const FORBIDDEN_IN_GUESTS: &[&str] = &["tokio", "wasmtime", "evenkeel-core"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the checkout is there")
}

/// Files below `folder` with the given ending, build output and dotfiles left out.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).expect("a readable folder") {
            let path = entry.expect("a readable entry").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.starts_with('.') || name.starts_with("target") || name == "node_modules" {
                continue;
            }
            if path.is_dir() {
                open.push(path);
            } else if name.ends_with(ending) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Fails with every fault at once, so that one run shows all there is to do.
fn refuse(rule: &str, faults: &[String]) {
    assert!(faults.is_empty(), "{rule}:\n  {}\n", faults.join("\n  "));
}

/// Every source file of the checkout: its name from the root, and its text.
pub fn sources() -> Vec<(String, String)> {
    let root = root();
    files(&root, ".rs")
        .into_iter()
        .map(|path| {
            let name = path.strip_prefix(&root).expect("below the root").display().to_string();
            (name, fs::read_to_string(&path).expect("UTF-8 source"))
        })
        .collect()
}

#[test]
fn a_file_fits_in_a_head() {
    let faults: Vec<_> = sources()
        .iter()
        .filter(|(_, text)| text.lines().count() > FILE_LINES_MAX)
        .map(|(name, text)| format!("{name} has {} lines", text.lines().count()))
        .collect();
    refuse("a file has at most 800 lines: look for a seam", &faults);
}

#[test]
fn a_function_fits_on_a_screen() {
    let mut faults = Vec::new();
    for (name, text) in sources() {
        for (line, function, length) in functions(&text) {
            if length > FUNCTION_LINES_MAX {
                faults.push(format!("{name}:{line}: {function} has {length} lines"));
            }
        }
    }
    refuse("a function has at most 70 lines: name its steps", &faults);
}

/// Functions of formatted source: (line, name, lines from signature to closing brace). The formatter puts the closing brace
/// below the `fn`'s first column, so no parser is needed.
fn functions(text: &str) -> Vec<(usize, String, usize)> {
    let mut found = Vec::new();
    let mut open: Vec<(usize, usize, String)> = Vec::new();
    let mut raw_string = false;
    for (number, line) in text.lines().enumerate() {
        // A raw string may hold anything, also what looks like a function.
        if raw_string {
            raw_string = !line.contains("\"#");
            continue;
        }
        raw_string = line.matches("r#\"").count() > line.matches("\"#").count();
        let indent = line.len() - line.trim_start().len();
        let code = line.trim_start();
        let head = ["pub(crate) ", "pub(super) ", "pub ", "const ", "async ", "unsafe "]
            .iter()
            .fold(code, |rest, word| rest.strip_prefix(word).unwrap_or(rest));
        if let Some(rest) = head.strip_prefix("fn ") {
            if !code.ends_with(';') && !code.ends_with('}') {
                let name = rest.split(['(', '<']).next().unwrap_or_default().to_owned();
                open.push((indent, number, name));
            }
        } else if code == "}" && open.last().is_some_and(|(at, ..)| *at == indent) {
            let (_, start, name) = open.pop().expect("just looked");
            found.push((start + 1, name, number - start + 1));
        }
    }
    found
}

/// How a test is marked that takes more than some twenty seconds. A defect is not hidden behind it.
const SLOW: &str = "#[ignore = \"slow: `cargo test -- --ignored`\"]";

#[test]
fn nothing_is_left_for_later() {
    // What the test looks for: none of them is used here.
    let words = ["todo!(", "dbg!(", "unimplemented!(", "#[ignore]", "#[should_panic", "thread::sleep("];
    let mut faults = Vec::new();
    for (name, text) in sources() {
        // The first names the words; the second is the thread that ticks for running guests, which is there to sleep; the
        // third kills a process at some moment, and any will do.
        let excepted = ["tests/all/tidy.rs", "host/runtime/src/ticker.rs", "host/sandbox/tests/killed.rs"];
        if excepted.contains(&name.as_str()) {
            continue;
        }
        for (number, line) in text.lines().enumerate() {
            for word in words {
                if line.contains(word) && !line.trim_start().starts_with("//") {
                    faults.push(format!("{name}:{}: {word}", number + 1));
                }
            }
        }
    }
    refuse("no placeholders, ignored tests or sleeps", &faults);
}

#[test]
fn only_what_is_slow_is_left_to_those_who_ask_for_it() {
    let mut faults = Vec::new();
    for (name, text) in sources() {
        for (number, line) in text.lines().enumerate() {
            let line = line.trim_start();
            if line.starts_with("#[ignore") && line != SLOW {
                faults.push(format!("{name}:{}: {line}", number + 1));
            }
        }
    }
    refuse("each test that is left out is a slow one, which .ci/run runs", &faults);
}

#[test]
fn a_file_is_named_by_its_noun() {
    let faults: Vec<_> = sources()
        .into_iter()
        .map(|(name, _)| name)
        .filter(|name| {
            let stem = Path::new(name).file_stem().unwrap_or_default().to_string_lossy().into_owned();
            ["util", "utils", "helper", "helpers", "common", "misc", "mod"].contains(&stem.as_str())
        })
        .collect();
    refuse("no drawers, no mod.rs", &faults);
}

#[test]
fn the_top_level_holds_what_it_should() {
    let faults: Vec<_> = fs::read_dir(root())
        .expect("the checkout is readable")
        .map(|entry| entry.expect("a readable entry").file_name().to_string_lossy().into_owned())
        .filter(|name| {
            !name.starts_with('.') && !name.starts_with("target") && !TOP_LEVEL.contains(&name.as_str())
        })
        .collect();
    refuse("not at the top level", &faults);
}

#[test]
fn a_crate_depends_on_what_it_may_know() {
    let mut crates: Vec<(String, &[&str])> =
        FORBIDDEN.iter().map(|(folder, forbidden)| ((*folder).to_owned(), *forbidden)).collect();
    for manifest in files(&root().join("plugins"), "Cargo.toml") {
        let folder = manifest.parent().expect("a folder").strip_prefix(root()).expect("below the root");
        crates.push((folder.display().to_string(), FORBIDDEN_IN_GUESTS));
    }
    assert!(crates.len() > FORBIDDEN.len() + 2, "{crates:?}");
    let mut faults = Vec::new();
    for (folder, forbidden) in crates {
        let text = fs::read_to_string(root().join(&folder).join("Cargo.toml")).expect("a manifest");
        for name in dependencies(&text) {
            let hit =
                |word: &&&str| if word.ends_with('-') { name.starts_with(**word) } else { name == **word };
            if forbidden.iter().any(|word| hit(&word)) {
                faults.push(format!("{folder} depends on {name}"));
            }
        }
    }
    refuse("a crate may not depend on what it must not know", &faults);
}

/// What a crate's own code may use, on any target; what its tests use is no matter.
fn dependencies(manifest: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut within = false;
    for line in manifest.lines() {
        if let Some(heading) = line.strip_prefix('[') {
            let heading = heading.trim_end_matches(']');
            // As in `[target.'cfg(unix)'.dependencies]` and `[dependencies.kube]`.
            let (_, name) = heading.rsplit_once("dependencies.").unwrap_or_default();
            let of_tests = heading.contains("dev-dependencies");
            found.extend((!name.is_empty() && !of_tests).then_some(name));
            within = heading.ends_with("dependencies") && !of_tests;
        } else if within && !line.is_empty() && !line.starts_with('#') {
            found.extend(line.split(['.', ' ', '=']).next());
        }
    }
    found
}

#[test]
fn dependencies_are_read_in_each_form() {
    let manifest = "[package]\nname = \"a\"\n[dependencies]\nb.workspace = true\n# c\nd = \"1\"\n\
                    [target.'cfg(unix)'.dependencies]\ne = { path = \"../e\" }\n[dependencies.f]\npath = \"f\"\n\
                    [dev-dependencies]\ng = \"1\"\n[dev-dependencies.h]\npath = \"h\"\n";
    assert_eq!(dependencies(manifest), ["b", "d", "e", "f"]);
}

#[test]
fn every_item_of_the_contract_is_documented() {
    let mut faults = Vec::new();
    for path in files(&root().join("wit"), ".wit") {
        let text = fs::read_to_string(&path).expect("UTF-8");
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        for (number, line) in lines.iter().enumerate() {
            let words = ["record ", "variant ", "enum ", "type ", "interface ", "world ", "flags "];
            let item = words.iter().any(|word| line.starts_with(word)) || line.contains(": func(");
            let before = lines[..number].iter().rev().find(|line| !line.starts_with("@since"));
            if item && !before.is_some_and(|line| line.starts_with("///")) {
                faults.push(format!("{}:{}: {line}", path.display(), number + 1));
            }
        }
    }
    refuse("an item of the contract needs a sentence", &faults);
}

#[test]
fn every_plugin_has_scenarios() {
    let mut faults = Vec::new();
    for entry in fs::read_dir(root().join("plugins")).expect("plugins") {
        let folder = entry.expect("a readable entry").path();
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !folder.is_dir() || name == "sdk" || name == "examples" {
            continue;
        }
        let scenarios = folder.join("scenarios");
        if !scenarios.is_dir() || files(&scenarios, ".yaml").len() < 2 {
            faults.push(name);
        }
    }
    refuse("a plugin comes with scenarios", &faults);
}

#[test]
fn functions_are_measured_by_their_closing_brace() {
    let text = "impl A {\n    pub fn long(\n        a: u8,\n    ) {\n        {\n        }\n    }\n}\nfn short() {}\n";
    assert_eq!(functions(text), [(2, "long".to_owned(), 6)]);
}
