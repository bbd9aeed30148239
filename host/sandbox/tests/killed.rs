//! A sandbox that is kept in a file, in a process that is killed at any moment.

use bytes::Bytes;
use evenkeel_sandbox::{Sandbox, SandboxOptions};
use http::Request;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Where the child finds the file, and by which it knows that it is one.
const FILE: &str = "EVENKEEL_TEST_KEPT_FILE";
/// How often the process is killed on the same file.
const KILLS: u64 = 8;
const CONFIGS: &str = "/api/v1/namespaces/default/configmaps";
/// Objects that the child writes in turn, so that updates and deletions come as often as creations.
const NAMES: u64 = 20;

fn send(sandbox: &Sandbox, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
    let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let request = Request::builder().method(method).uri(path).header("content-type", kind);
    let response = sandbox.service().answer(request.body(body).unwrap());
    let bytes = response.body().bytes().expect("no watch").to_vec();
    (response.status().as_u16(), serde_json::from_slice(&bytes).unwrap())
}

/// The part that is killed: writes, and says so after each write that was answered. Does nothing unless it is told to.
#[test]
fn child() {
    let Some(file) = std::env::var_os(FILE) else { return };
    let sandbox = Sandbox::open(SandboxOptions::default(), Path::new(&file)).expect("the file opens");
    let mut out = std::io::stdout().lock();
    for number in sandbox.revision().. {
        let name = format!("c{}", number % NAMES);
        let data = json!({"number": number.to_string()});
        let new = json!({"metadata": {"name": name}, "data": data});
        writeln!(out, "begun {name} -").and_then(|()| out.flush()).expect("the parent listens");
        let answer = match number % 3 {
            0 => send(&sandbox, "DELETE", &format!("{CONFIGS}/{name}"), &Value::Null),
            1 => send(&sandbox, "POST", CONFIGS, &new),
            _ => send(&sandbox, "PATCH", &format!("{CONFIGS}/{name}"), &json!({"data": data})),
        };
        let kept = match (answer.0, number % 3) {
            (200, 0) => "gone".to_owned(),
            (200 | 201, _) => number.to_string(),
            // Not there, or there already: nothing was written.
            _ => {
                writeln!(out, "left {name} -").expect("the parent listens");
                continue;
            }
        };
        writeln!(out, "kept {name} {kept}").and_then(|()| out.flush()).expect("the parent listens");
    }
}

/// What the child said: a word, the object's name, and what was written.
struct Said {
    word: String,
    name: String,
    value: String,
}

/// Runs the child until it is killed.
fn until_killed(file: &Path, after: Duration) -> Vec<Said> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["child", "--exact", "--nocapture", "--test-threads=1"])
        .env(FILE, file)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = child.stdout.take().unwrap();
    let reader = std::thread::spawn(move || {
        let lines = BufReader::new(output).lines().map_while(Result::ok);
        let said = lines.filter_map(|line| {
            // The harness's own words may stand before the first.
            let at = ["begun ", "kept ", "left "].iter().filter_map(|word| line.find(word)).min()?;
            let mut parts = line[at..].split(' ').map(str::to_owned);
            Some(Said { word: parts.next()?, name: parts.next()?, value: parts.next()? })
        });
        said.collect::<Vec<_>>()
    });
    std::thread::sleep(after);
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap()
}

#[test]
fn what_was_answered_before_a_kill_is_there_afterwards() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cluster.data");
    let mut answered = 0;
    for kill in 0..KILLS {
        // From before the first write to some hundred writes later.
        let said = until_killed(&file, Duration::from_millis(40 + 97 * kill % 400));
        answered += said.iter().filter(|one| one.word == "kept").count();
        // The write that was under way when the process died may be there or not.
        let under_way = said.last().filter(|one| one.word == "begun").map(|one| one.name.clone());
        let sandbox = Sandbox::open(SandboxOptions::default(), &file).expect("the file opens");
        for number in 0..NAMES {
            let name = format!("c{number}");
            let Some(last) = said.iter().rfind(|one| one.word == "kept" && one.name == name) else {
                continue;
            };
            let (code, object) = send(&sandbox, "GET", &format!("{CONFIGS}/{name}"), &Value::Null);
            let there = object["data"]["number"].as_str().unwrap_or("gone");
            assert!(code == 200 || code == 404);
            let as_answered = there == last.value || under_way.as_ref() == Some(&name);
            assert!(as_answered, "kill {kill}: {name} is {there}, not {}", last.value);
        }
    }
    assert!(answered > 100, "only {answered} writes were answered");
}
