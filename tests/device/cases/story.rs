//! Stories of a device that are told in the guide, and what is done to it by mistake.

use std::path::Path;

use super::machine::{Device, Ended};

fn sample(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/samples/device").join(name);
    std::fs::read_to_string(path).expect("a sample")
}

fn device_of(files: &str) -> String {
    format!(
        "apiVersion: flightctl.io/v1beta1\nkind: Device\nmetadata: {{name: device}}\nspec:\n  config:\n    - name: a\n      inline: [{files}]\n"
    )
}

fn run(device: &Device, spec: &str) -> (Ended, String) {
    device.spec(spec);
    device.run(0, 0)
}

/// All that the journal's files hold.
fn journal(device: &Device) -> String {
    let folder = std::fs::read_dir(device.root().join("var/lib/evenkeel/journal")).expect("a journal");
    let files = folder.map(|entry| std::fs::read(entry.expect("an entry").path()).unwrap_or_default());
    files.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).collect()
}

#[test]
fn the_story_of_the_guide_is_so() {
    let device = Device::new();
    assert_eq!(run(&device, &sample("one.yaml")).0, Ended::Updated);
    assert_eq!(device.text("etc/motd"), "This device is looked after.\n");
    let (ended, said) = run(&device, &sample("two.yaml"));
    assert_eq!(ended, Ended::Updated, "{said}");
    assert_eq!(device.text("etc/app/settings.conf"), "level = 2\n");
    assert_eq!(device.text("hooks.log"), "changed /etc/app/settings.conf\n");
    let before = device.tree();
    let (ended, said) = run(&device, &sample("fails.yaml"));
    assert_eq!(ended, Ended::Failed, "{said}");
    assert!(said.contains("30-check.yaml#0"), "{said}");
    assert_eq!(device.tree(), before, "byte for byte");
    // The same again is not tried again, and another one is.
    assert_eq!(device.run(0, 0).0, Ended::Failed);
    assert_eq!(device.state("update-state.json", "/failed/1"), serde_json::Value::Null);
    // Back at what is in effect there is nothing to wait for.
    assert_eq!(run(&device, &sample("two.yaml")).0, Ended::Updated);
    assert_eq!(device.tree(), before, "byte for byte");
    assert_eq!(run(&device, &sample("one.yaml")).0, Ended::Updated);
    assert!(!device.root().join("etc/app").exists(), "what the second one brought is gone");
    // A hook of the samples looks for two of the words: its command does stand there.
    let journal = journal(&device);
    assert!(
        journal.contains("write-file") && !journal.contains("This device is looked after"),
        "no content stands in the journal"
    );
}

#[test]
fn a_spec_that_cannot_be_fails_with_a_clear_word_and_changes_nothing() {
    let device = Device::new();
    assert_eq!(run(&device, &device_of("{path: /etc/a, content: '1'}")).0, Ended::Updated);
    let before = device.tree();
    for (files, words) in [
        ("{path: /../etc/passwd, content: x}", "/../etc/passwd"),
        ("{path: etc/relative, content: x}", "etc/relative"),
        ("{path: /var/lib/flightctl/desired.json, content: x}", "/var/lib/flightctl/desired.json"),
        ("{path: /var/lib/evenkeel/store, content: x}", "/var/lib/evenkeel/store"),
        ("{path: /etc/b, content: '%%', contentEncoding: base64}", "/etc/b"),
        ("{path: /etc/b, content: x, user: nobody-has-this}", "nobody-has-this"),
        ("{path: /etc/b, content: x, mode: 99999999}", "/etc/b"),
    ] {
        let (ended, said) = run(&device, &device_of(files));
        assert_eq!(ended, Ended::Failed, "{files}: {said}");
        assert!(said.contains(words), "{files}: {said}");
        assert_eq!(device.tree(), before, "{files}");
    }
}

#[test]
fn a_link_that_leads_out_of_the_root_leads_nowhere() {
    let (device, outside) = (Device::new(), tempfile::tempdir().expect("a folder"));
    device.put("/etc/own", "", 0o644);
    std::os::unix::fs::symlink(outside.path(), device.root().join("etc/out")).expect("a link");
    let (ended, said) = run(&device, &device_of("{path: /etc/out/x, content: y}"));
    assert_eq!(ended, Ended::Failed, "{said}");
    assert_eq!(std::fs::read_dir(outside.path()).expect("a folder").count(), 0);
}

#[test]
fn of_two_entries_for_a_path_the_later_counts_and_large_ones_are_taken() {
    let device = Device::new();
    let large = "0123456789".repeat(200_000);
    let files = format!(
        "{{path: /etc/a, content: first}}, {{path: /etc/a, content: last}}, {{path: /etc/large, content: '{large}'}}"
    );
    let (ended, said) = run(&device, &device_of(&files));
    assert_eq!(ended, Ended::Updated, "{said}");
    assert_eq!((device.text("etc/a"), device.text("etc/large").len()), ("last".to_owned(), large.len()));
}

#[test]
fn a_state_file_that_was_spoilt_is_kept_aside_and_made_anew() {
    let device = Device::new();
    let spec = device_of("{path: /etc/a, content: '1'}");
    assert_eq!(run(&device, &spec).0, Ended::Updated);
    for name in
        ["desired.json", "current.json", "rollback.json", "update-state.json", "operations.log", "paths.json"]
    {
        device.put(&format!("/var/lib/flightctl/{name}"), "{\"half", 0o600);
        let next = device_of(&format!("{{path: /etc/a, content: 'after {name}'}}"));
        let (ended, said) = run(&device, &next);
        assert_eq!(ended, Ended::Updated, "{name}: {said}");
        assert_eq!(device.text("etc/a"), format!("after {name}"));
        device.state_files_are_whole().expect("whole");
        if name.ends_with(".json") {
            let aside = device.text(&format!("var/lib/flightctl/{name}.corrupt-1"));
            assert_eq!(aside, "{\"half", "{name}: {said}");
        }
    }
    // The store may go altogether.
    device.put("/var/lib/evenkeel/store", "nonsense", 0o600);
    let (ended, said) = run(&device, &device_of("{path: /etc/a, content: 'after the store'}"));
    assert_eq!((ended, &*device.text("etc/a")), (Ended::Updated, "after the store"), "{said}");
    assert!(device.root().join("var/lib/evenkeel/store.corrupt-1").exists());
}

#[test]
fn a_clock_that_jumps_holds_nothing_up() {
    let device = Device::new();
    for (ahead, content) in [(0, "1"), (10_000_000, "2"), (-10_000_000, "3")] {
        device.spec(&device_of(&format!("{{path: /etc/a, content: '{content}'}}")));
        let (ended, said) = device.run(0, ahead);
        assert_eq!((ended, &*device.text("etc/a")), (Ended::Updated, content), "{ahead} s: {said}");
    }
}

#[test]
fn an_application_runs_by_stand_ins_and_stops_with_the_spec_that_named_it() {
    let device = Device::new();
    let compose = "#!/bin/sh\nhere=\"$(dirname \"$0\")/../..\"\ncase \"$*\" in *up*) touch \"$here/runs\";; *down*) rm -f \"$here/runs\";; esac\n";
    let podman = "#!/bin/sh\nhere=\"$(dirname \"$0\")/../..\"\ncase \"$*\" in\n  ps*podman.compose*) if [ -e \"$here/runs\" ]; then echo '[{\"Id\":\"1\",\"State\":\"running\"}]'; else echo '[]'; fi;;\n  ps*) echo '[]';;\n  image*inspect*) echo sha256:d;;\nesac\n";
    device.put("/usr/bin/podman-compose", compose, 0o755);
    device.put("/usr/bin/podman", podman, 0o755);
    let with = "apiVersion: flightctl.io/v1beta1\nkind: Device\nmetadata: {name: device}\nspec:\n  applications:\n    - name: web\n      appType: compose\n      inline: [{path: compose.yaml, content: 'services: {web: {image: localhost/x:1}}'}]\n";
    let (ended, said) = run(&device, with);
    assert_eq!(ended, Ended::Updated, "{said}");
    assert!(device.root().join("runs").exists());
    assert_eq!(run(&device, &device_of("{path: /etc/a, content: '1'}")).0, Ended::Updated);
    assert!(!device.root().join("runs").exists());
    assert_eq!(std::fs::read_dir(device.root().join("etc/compose/manifests")).map_or(0, Iterator::count), 0);
}

/// Whether a process goes on; one that has ended and waits to be reaped does not.
fn lives(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

#[test]
fn a_hook_of_no_use_stops_the_update_before_anything_is_changed() {
    let device = Device::new();
    assert_eq!(run(&device, &device_of("{path: /etc/a, content: '1'}")).0, Ended::Updated);
    for (number, (hook, words)) in [
        ("- run: no-such-program", "there is no program \"no-such-program\""),
        ("- run: sh -c 'sleep 100 & sleep 100'\n  timeout: 1s", "10-x.yaml#0: no end within 1000 ms"),
        ("- run: sh -c 'yes | head -c 5000000; exit 3'", "10-x.yaml#0: exit 3"),
        ("- run: sh -c 'sleep 100 & echo $! > left; exit 4'", "10-x.yaml#0: exit 4"),
        ("- run: ls | wc", "bash -c"),
        ("- {run: x, wait: 3}", "10-x.yaml"),
        ("run: [", "10-x.yaml"),
    ]
    .into_iter()
    .enumerate()
    {
        device.put("/etc/flightctl/hooks.d/beforeupdating/10-x.yaml", hook, 0o644);
        let before = device.tree();
        let (ended, said) = run(&device, &device_of(&format!("{{path: /etc/a, content: 'try {number}'}}")));
        assert_eq!(ended, Ended::Failed, "{hook}: {said}");
        assert!(said.contains(words), "{hook}: {said}");
        assert_eq!(device.tree(), before, "{hook}");
    }
    let left = device.text("left");
    assert!(!left.is_empty() && !lives(&left), "what a hook leaves behind ends with it");
}

#[test]
fn an_application_of_no_use_stops_the_update_before_anything_is_changed() {
    let device = Device::new();
    let podman = "#!/bin/sh\ncase \"$*\" in\n  ps*) echo '[]' ;;\n  *inspect*) echo 'Error: no such image' >&2; exit 125 ;;\n  image*exists*) exit 1 ;;\n  \
                  *pull*) echo 'Error: reading manifest 1 in localhost/none: manifest unknown' >&2; exit 125 ;;\nesac\n";
    device.put("/usr/bin/podman", podman, 0o755);
    device.put("/usr/bin/podman-compose", "#!/bin/sh\n", 0o755);
    assert_eq!(run(&device, &device_of("{path: /etc/a, content: '1'}")).0, Ended::Updated);
    let before = device.tree();
    for (compose, words) in [
        ("services: [hunter2", "compose.yaml is no compose file"),
        ("services: {web: {build: .}}", "has no image"),
        ("services: {web: {image: localhost/UPPER}}", "localhost/UPPER"),
        ("services: {web: {image: 'localhost/none:1'}}", "localhost/none:1"),
    ] {
        let (ended, said) = run(
            &device,
            &format!(
                "apiVersion: flightctl.io/v1beta1\nkind: Device\nmetadata: {{name: device}}\nspec:\n  config:\n    - name: a\n      \
                 inline: [{{path: /etc/a, content: '2'}}]\n  applications:\n    - name: web\n      appType: compose\n      \
                 inline: [{{path: compose.yaml, content: \"{compose}\"}}]\n"
            ),
        );
        assert_eq!(ended, Ended::Failed, "{compose}: {said}");
        assert!(said.contains(words) && !said.contains("hunter2"), "{compose}: {said}");
        assert_eq!(device.tree(), before, "{compose}");
    }
}
