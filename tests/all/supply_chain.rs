//! What is built from what: licences, sources and versions of the dependencies, and components that anybody can build
//! again.
//!
//! `.cargo/deny.toml` is the rule; `cargo deny` checks it with advisories where it is installed, and this checks the rest of it
//! everywhere.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use evenkeel::build::build_plugin;
use serde_json::Value;

use crate::scenarios::root;

/// Every package that the lock file names, with the workspace's own.
fn packages() -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version",
            "1",
            "--locked",
            "--filter-platform",
            "x86_64-unknown-linux-gnu",
        ])
        .current_dir(root())
        .output()
        .expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("metadata is JSON");
    metadata["packages"].as_array().expect("packages").clone()
}

/// The words of a list in `deny.toml`, such as `allow = [`.
fn listed(start: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(root().join(".cargo/deny.toml")).expect("deny.toml");
    let lines = text.lines().skip_while(|line| !line.starts_with(start)).skip(1);
    let words = lines.take_while(|line| !line.starts_with(']')).filter_map(|line| line.split('"').nth(1));
    words.map(str::to_owned).collect()
}

/// Whether a licence is among the allowed ones. `/` is an old way to write `OR`; `AND` binds tighter.
fn allowed(expression: &str, allow: &BTreeSet<String>) -> bool {
    let spaced =
        expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ").replace(" WITH ", "+WITH+");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = &words[..];
    let fine = any(&mut rest, allow);
    assert!(rest.is_empty(), "{expression:?} is no licence expression");
    fine
}

fn any(words: &mut &[&str], allow: &BTreeSet<String>) -> bool {
    let mut fine = all(words, allow);
    while words.first() == Some(&"OR") {
        *words = &words[1..];
        fine |= all(words, allow);
    }
    fine
}

fn all(words: &mut &[&str], allow: &BTreeSet<String>) -> bool {
    let mut fine = one(words, allow);
    while words.first() == Some(&"AND") {
        *words = &words[1..];
        fine &= one(words, allow);
    }
    fine
}

fn one(words: &mut &[&str], allow: &BTreeSet<String>) -> bool {
    let Some((first, rest)) = words.split_first() else { return false };
    *words = rest;
    if *first != "(" {
        return allow.contains(&first.replace("+WITH+", " WITH "));
    }
    let fine = any(words, allow);
    if words.first() == Some(&")") {
        *words = &words[1..];
    }
    fine
}

#[test]
fn licences_are_read_as_they_are_written() {
    let allow =
        BTreeSet::from(["MIT".to_owned(), "ISC".to_owned(), "Apache-2.0 WITH LLVM-exception".to_owned()]);
    for (expression, fine) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("GPL-3.0 OR MIT", true),
        ("GPL-3.0/MIT", true),
        ("MIT AND ISC", true),
        ("MIT AND GPL-3.0", false),
        ("Apache-2.0 WITH LLVM-exception OR GPL-3.0", true),
        ("(MIT OR GPL-3.0) AND GPL-3.0", false),
        ("(GPL-3.0 OR MIT) AND ISC", true),
    ] {
        assert_eq!(allowed(expression, &allow), fine, "{expression}");
    }
}

#[test]
fn every_dependency_has_a_licence_that_is_allowed() {
    let allow = listed("allow = [");
    assert!(allow.contains("MIT"), "deny.toml was read: {allow:?}");
    let mut faults = Vec::new();
    for package in packages().iter().filter(|package| package["source"].is_string()) {
        let licence = package["license"].as_str().unwrap_or("none given");
        if !allowed(licence, &allow) {
            faults.push(format!("{} {}: {licence}", package["name"], package["version"]));
        }
    }
    assert!(faults.is_empty(), "not allowed by deny.toml:\n{}", faults.join("\n"));
}

#[test]
fn every_dependency_comes_from_the_registry_and_none_is_banned() {
    let banned = listed("deny = [");
    assert!(banned.contains("openssl"), "deny.toml was read: {banned:?}");
    let mut faults = Vec::new();
    for package in packages() {
        let name = package["name"].as_str().unwrap_or_default();
        if let Some(source) = package["source"].as_str()
            && source != "registry+https://github.com/rust-lang/crates.io-index"
        {
            faults.push(format!("{name} comes from {source}"));
        }
        if banned.contains(name) {
            faults.push(format!("{name} is banned"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Copies a folder, without what was built in it.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a readable folder") {
        let entry = entry.expect("a readable entry");
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_dir() {
            if name != "target" {
                copy(&path, &to.join(name));
            }
        } else {
            fs::copy(&path, to.join(name)).expect("a copy");
        }
    }
}

#[test]
#[ignore = "slow: `cargo test -- --ignored`"]
fn a_plugin_that_is_built_twice_in_different_places_is_the_same_to_the_byte() {
    let root = root();
    let here = build_plugin(&root.join("plugins/kite"), false, &mut |_| {}).expect("Kite builds");
    let elsewhere = tempfile::tempdir().expect("a folder");
    for folder in ["wit", "plugins/sdk", "plugins/kite"] {
        copy(&root.join(folder), &elsewhere.path().join(folder));
    }
    fs::copy(root.join("Cargo.lock"), elsewhere.path().join("Cargo.lock")).expect("a copy");
    // The workspace of the two crates alone: the versions, profiles and lints are the same lines.
    let workspace = fs::read_to_string(root.join("Cargo.toml")).expect("the workspace");
    let (head, tail) = workspace.split_once("members = [").expect("members");
    let (_, tail) = tail.split_once("\n]").expect("the end of the members");
    let members = "members = [\"plugins/sdk\", \"plugins/kite\"]";
    fs::write(elsewhere.path().join("Cargo.toml"), format!("{head}{members}{tail}")).expect("a workspace");
    let there =
        build_plugin(&elsewhere.path().join("plugins/kite"), false, &mut |_| {}).expect("Kite builds");
    assert!(!there.cached, "it was built anew");
    assert_eq!(there.digest, here.digest);
}
