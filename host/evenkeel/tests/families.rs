//! The families by the command line: their demos, the file of providers, and what `explain` tells of vCenter.

use std::path::Path;
use std::process::{Command, Output};

use evenkeel_test_vcsim::program_or_skip;

fn evenkeel(args: &[&str], folder: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_evenkeel"))
        .args(args)
        .current_dir(folder)
        .env("NO_COLOR", "1")
        .output()
        .expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a demo to its end; it ends well only if every state was reached. Nothing of what its Secrets hold is put out,
/// however much is logged.
fn demo(args: &[&str], folder: &Path) -> String {
    let all = ["--log", "debug", "demo"].into_iter().chain(args.iter().copied()).chain(["--once"]);
    let output = evenkeel(&all.collect::<Vec<_>>(), folder);
    let (told, logged) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{args:?}\n{told}\n{logged}");
    assert!(told.contains("Every expected state was reached"), "{told}");
    assert!(logged.contains("DEBUG"), "a good deal is logged");
    for held in [USER_DATA, "#cloud-config"] {
        assert!(!told.contains(held) && !logged.contains(held), "{held} is put out");
    }
    told
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

/// The beginning of the sample's user data, as a Secret has it.
const USER_DATA: &str = "I2Nsb3VkLWNvbmZpZ";

#[test]
fn a_vsphere_machine_lives_on_a_simulated_vcenter_and_explain_tells_of_it() {
    let here = folder();
    let told = demo(&["vsphere-machine"], here.path());
    assert!(told.contains("reached: vCenter has no VM of it"), "{told}");
    let about = ["VSphereMachine", "m-0", "-n", "cluster-a", "--last", "1000"];
    let explain = |more: &[&str]| {
        let args: Vec<&str> = ["explain"].into_iter().chain(about).chain(more.iter().copied()).collect();
        text(&evenkeel(&args, here.path()).stdout)
    };
    let (words, whole) = (explain(&[]), explain(&["--output", "json"]));
    for said in [
        "asked and saw placement of vsphere {",
        "did clone by vsphere {",
        "{\"result\":\"task\",\"task\":\"task-",
        "ran because vsphere told that its task changed",
    ] {
        assert!(words.contains(said), "explain does not say {said:?}:\n{words}");
    }
    assert!(whole.contains("(struck out)"), "user data went to the provider");
    assert!(!words.contains(USER_DATA) && !whole.contains(USER_DATA), "the user data is put out");
}

#[test]
fn a_machine_class_lives_on_a_simulated_cloud() {
    let told = demo(&["machine-class"], folder().path());
    assert!(told.contains("reached: the Secret cloud is free"), "{told}");
}

#[test]
fn a_device_is_updated_put_right_and_comes_back_from_an_update_that_fails() {
    let here = folder();
    let told = demo(&["device-update"], here.path());
    let journal =
        std::fs::read_to_string(here.path().join(".evenkeel/journal/passes.jsonl")).expect("a journal");
    for content in ["has a website", "bGV2ZWwgPSAyCg"] {
        assert!(!told.contains(content) && !journal.contains(content), "{content} stands in the journal");
    }
    assert!(journal.contains("/etc/web/settings.conf"), "what was written does stand there");
    for reached in [
        "the application runs",
        "the file is put right",
        "each file is as it was, byte for byte",
        "the administrator's file is back, and no other",
    ] {
        assert!(told.contains(&format!("reached: {reached}")), "{reached}\n{told}");
    }
}

#[test]
fn both_families_live_on_vcsim() {
    if program_or_skip("the demos on vcsim").is_none() {
        return;
    }
    for family in ["vsphere-machine", "machine-class"] {
        demo(&[family, "--vcsim"], folder().path());
    }
}

#[test]
fn a_demo_that_does_not_reach_its_states_says_so() {
    let here = folder();
    let output = evenkeel(&["demo", "machine-class", "--once", "--timeout", "0"], here.path());
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("not reached:"), "{}", text(&output.stderr));
    let output = evenkeel(&["demo", "--vcsim", "--once"], here.path());
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--vcsim is for the other families"), "{}", text(&output.stderr));
    let output = evenkeel(&["demo", "nobody"], here.path());
    assert!(text(&output.stderr).contains("[possible values: kite"), "{}", text(&output.stderr));
}

#[test]
fn a_file_of_providers_that_is_wrong_is_refused_with_its_place() {
    let here = folder();
    let kubeconfig = "apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}]\n\
                      users: [{name: a, user: {token: x}}]\ncontexts: [{name: a, context: {cluster: a, user: a}}]\ncurrent-context: a\n";
    std::fs::write(here.path().join("kubeconfig"), kubeconfig).expect("a file");
    std::fs::create_dir(here.path().join("plugins")).expect("a folder");
    let vcenter = "credentials: {namespace: infra, name: vcenter}";
    for (providers, words) in [
        ("vsphere: [", "cannot use the providers of providers.yaml"),
        ("machines: {}", "unknown field `machines`"),
        (
            "machine: {vsphere: {driver: vsphere}}",
            "machine vsphere: there is no vCenter in the section vsphere",
        ),
        ("machine: {sim: {driver: aws}}", "unknown variant `aws`"),
        ("machine: {sim: {driver: simulated, size: 1}}", "unknown field `size`"),
        ("vsphere: {vc: {}}", "missing field `credentials`"),
        (&format!("vsphere: {{vc: {{{vcenter}, thumbprint: ab}}}}"), "vsphere vc"),
        (&format!("vsphere: {{'https://vc/sdk': {{{vcenter}}}}}"), "is no host or host:port"),
    ] {
        std::fs::write(here.path().join("providers.yaml"), providers).expect("a file");
        let args =
            ["run", "--plugins", "plugins", "--kubeconfig", "kubeconfig", "--providers", "providers.yaml"];
        let output = evenkeel(&args, here.path());
        assert_eq!(output.status.code(), Some(2), "{providers}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(words), "{providers}: {}", text(&output.stderr));
    }
    let output = evenkeel(
        &["run", "--plugins", "plugins", "--kubeconfig", "kubeconfig", "--providers", "missing.yaml"],
        here.path(),
    );
    assert!(text(&output.stderr).contains("cannot use the providers of missing.yaml"));
}

#[test]
fn the_files_of_providers_in_the_guides_can_be_used() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut seen = 0;
    for guide in ["deploy/vsphere.md", "host/providers/README.md"] {
        let guide = std::fs::read_to_string(root.join(guide)).expect("the guide");
        for block in guide.split("```yaml\n").skip(1).filter_map(|block| block.split("```").next()) {
            if !block.contains("vsphere:\n") || !block.contains("credentials:") {
                continue;
            }
            seen += 1;
            // The thumbprint is only hinted at there.
            let block = block.replace("AB:CD:…", &["AB"; 32].join(":"));
            let config: evenkeel_providers::config::ProvidersConfig =
                serde_saphyr::from_str(&block).expect("a file of providers");
            let runtime = tokio::runtime::Runtime::new().expect("a runtime");
            let _inside = runtime.enter();
            let login = evenkeel_providers::vsphere::credentials::Login {
                user: String::new(),
                password: String::new(),
            };
            config.make(&|_| std::sync::Arc::new(login.clone())).expect("providers that can be made");
        }
    }
    assert_eq!(seen, 2);
}
