//! The operators' guide, word by word, from a bare cluster to Kite under restricted rights.

use std::os::unix::fs::symlink;
use std::process::Command;

use evenkeel_test_cluster::PlaneOptions;

use crate::host::HostOptions;
use crate::kite;
use crate::world::{World, cache, kite_component, program, root, until};

/// What the guide types that needs a registry, or nodes that run Pods.
const NOT_HERE: [&str; 3] =
    ["podman ", "kubectl -n evenkeel-system set image ", "kubectl -n evenkeel-system port-forward "];

/// The blocks of a section of the guide, without their fences.
fn blocks(section: &str) -> Vec<String> {
    let guide = std::fs::read_to_string(root().join("deploy/README.md")).expect("the guide");
    let (_, rest) =
        guide.split_once(&format!("\n## {section}\n")).unwrap_or_else(|| panic!("no section {section}"));
    let text = rest.split("\n## ").next().unwrap_or_default();
    let parts = text.split("\n```").skip(1).step_by(2);
    // What stands behind the fence is the block's language.
    parts.filter_map(|block| block.split_once('\n')).map(|(_, lines)| lines.to_owned()).collect()
}

/// Types a block's lines, in a shell with the two programs of the guide and the cluster's administrator.
fn type_in(world: &World, block: &str) {
    let programs = world.place("bin");
    if !programs.exists() {
        std::fs::create_dir_all(&programs).expect("a folder");
        symlink(env!("CARGO_BIN_EXE_evenkeel"), programs.join("evenkeel")).expect("a link");
        symlink(world.parts.program("kubectl"), programs.join("kubectl")).expect("a link");
    }
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
    for line in block.lines().filter(|line| !line.is_empty()) {
        if NOT_HERE.iter().any(|start| line.starts_with(start)) {
            eprintln!("not typed here: {line}");
            continue;
        }
        let output = Command::new("bash")
            .args(["-euo", "pipefail", "-c", line])
            .current_dir(root())
            .env("PATH", &path)
            .env("KUBECONFIG", world.plane.kubeconfig("admin"))
            .env("XDG_CACHE_HOME", cache())
            .env_remove("CARGO_TARGET_DIR")
            .output()
            .expect("a shell");
        assert!(output.status.success(), "{line}\n{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: `cargo test -- --ignored`"]
async fn the_guide_leads_from_a_bare_cluster_to_kite_under_restricted_rights() {
    let options = PlaneOptions { controllers: vec![], ..PlaneOptions::default() };
    let Some(world) = World::bare("the operators' guide", options).await else { return };
    for block in blocks("Install it in a cluster") {
        type_in(&world, &block);
    }
    // The Deployment's Pods would have this: the component, and the settings of the guide.
    let settings = blocks("Least privilege").into_iter().find(|block| block.starts_with("serviceAccount:"));
    std::fs::create_dir_all(world.plugins()).expect("a folder");
    std::fs::write(world.plugins().join("kite.yaml"), settings.expect("settings")).expect("settings");
    std::fs::copy(kite_component(), world.plugins().join("kite.wasm")).expect("the component");
    let host = world.host("host", HostOptions { elects: true, ..HostOptions::default() });
    host.ready().await;
    let first = blocks("Try it without a cluster");
    let samples: Vec<&str> = first
        .iter()
        .flat_map(|block| block.lines())
        .filter(|line| line.starts_with("kubectl apply "))
        .collect();
    for line in samples.iter().filter(|line| !line.ends_with("/machine.yaml")) {
        type_in(&world, line);
    }
    until("ann has her namespace", async || {
        let ann = world.get(&kite::path("ann")).await;
        if ann["status"]["phase"] == "Ready" { Ok(()) } else { Err(ann.to_string()) }
    })
    .await;
    assert!(world.get("/api/v1/namespaces/tenant-ann").await["metadata"]["uid"].is_string());
    take_away(&world).await;
}

/// The plugin stays while the user that it looks after bears its finalizer.
async fn take_away(world: &World) {
    let component = world.plugins().join("kite.wasm");
    let remove = |more: &[&str]| {
        let output = program()
            .args(["plugin", "remove"])
            .arg(&component)
            .arg("--kubeconfig")
            .arg(world.plane.kubeconfig("admin"))
            .args(more)
            .output()
            .expect("it ends");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for more in [&[][..], &["--dry-run"]] {
        let (code, told) = remove(more);
        assert_eq!(code, Some(1), "{told}");
        assert!(told.contains("\n  KiteUser ann: kite.anacnu.com/kite-user-cleanup\n"), "{told}");
        assert!(component.exists(), "it is still there");
    }
    let (code, told) = remove(&["--force"]);
    assert_eq!(code, Some(0), "{told}");
    assert!(!component.exists() && told.contains("KiteUser ann"), "{told}");
}
