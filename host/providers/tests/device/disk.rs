//! A disk that is full, at each write: on a small file system of its own.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::machine::{Started, digest};

/// A file system in memory; it goes with this.
struct Small(tempfile::TempDir);

impl Small {
    /// None where this machine does not let us mount one.
    fn new() -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"])
            .arg(folder.path())
            .stderr(std::process::Stdio::null())
            .status();
        let mounted = mounted.is_ok_and(|status| status.success());
        if !mounted {
            eprintln!("left out: this machine does not let the test mount a small file system");
        }
        mounted.then(|| Self(folder))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Takes all room but so many KiB.
    fn fill_up_to(&self, free_kib: u64) {
        let path = self.path().join("filler");
        let _ = std::fs::remove_file(&path);
        let stat = rustix::fs::statvfs(self.path()).expect("a file system");
        let free = stat.f_bavail * stat.f_frsize;
        let bytes = free.saturating_sub(free_kib * 1024);
        std::fs::write(path, vec![1; usize::try_from(bytes).expect("small")]).expect("it fits");
    }

    fn relax(&self) {
        std::fs::remove_file(self.path().join("filler")).expect("a file");
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.path()).status();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_full_disk_nothing_is_lost_and_all_is_well_once_there_is_room() {
    let Some(small) = Small::new() else { return };
    let content = "x".repeat(20_000);
    let spec = json!({"config": [{"inline": [{"path": "/etc/a", "content": content}]}]});
    let (root, mut failed, mut written) = (small.path(), 0, 0);
    // With ever more room another write is the one that fails: state, notes, backup, file.
    for free_kib in (0..160).step_by(4) {
        let _ = std::fs::remove_dir_all(root.join("var"));
        std::fs::create_dir_all(root.join("etc")).expect("a folder");
        std::fs::write(root.join("etc/a"), "old").expect("a file");
        let device = Started::on(root);
        device.desire(json!({})).await;
        small.fill_up_to(free_kib);
        let given = json!({"kind": "Device", "spec": spec});
        let desired =
            device.act("write-spec", "k", json!({"desired": "given", "sensitive": {"device": given}})).await;
        let write = json!({"spec": "desired", "path": "/etc/a", "sha256": digest(&content), "mode": 0o644,
                           "user": "root", "group": "root", "backup": true});
        let outcome = device.act("write-file", "k", write.clone()).await;
        let files = device.ask("spec-files", json!({})).await;
        assert_eq!(files["desired"]["valid"], true, "{free_kib} KiB: {files}");
        let now = std::fs::read_to_string(root.join("etc/a")).expect("a file");
        if outcome["result"] == "done" {
            written += 1;
            assert_eq!(now, content, "{free_kib} KiB");
        } else {
            failed += 1;
            assert_eq!(now, "old", "{free_kib} KiB: {outcome}");
            let full =
                [&desired, &outcome].iter().any(|outcome| outcome.to_string().contains("the disk is full"));
            assert!(full, "{free_kib} KiB: {desired} {outcome}");
        }
        let names: Vec<_> = std::fs::read_dir(root.join("etc")).expect("a folder").collect();
        assert_eq!(names.len(), 1, "{free_kib} KiB: no scraps");
        small.relax();
        device.desire(spec.clone()).await;
        assert_eq!(device.act("write-file", "k", write).await, json!({"result": "done"}), "{free_kib} KiB");
        let restore = json!({"path": "/etc/a", "backup": digest("old")});
        assert_eq!(
            device.act("restore-file", "k", restore).await,
            json!({"result": "done"}),
            "{free_kib} KiB"
        );
        assert_eq!(std::fs::read_to_string(root.join("etc/a")).expect("a file"), "old", "{free_kib} KiB");
    }
    assert!(failed > 5 && written > 5, "{failed} failed, {written} were written");
}
