use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::{Arc, Mutex};

use evenkeel_core::contract::FailureKind;
use rustix::fs::Mode;

use super::*;

struct Device {
    folder: tempfile::TempDir,
}

impl Device {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir_all(folder.path().join("var/lib/flightctl")).expect("a folder");
        std::fs::create_dir(folder.path().join("etc")).expect("a folder");
        Self { folder }
    }

    fn files(&self) -> Files {
        self.files_told(Steps::default())
    }

    fn files_told(&self, steps: Steps) -> Files {
        let state = self.folder.path().join("var/lib/flightctl");
        let state = fs::open(state, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).expect("a folder");
        let store = super::super::folder::private(&state, "backups").expect("a folder");
        let notes = Notes::open(state, steps.clone()).expect("notes").0;
        let root = Root::open(self.folder.path()).expect("a root");
        let protected = vec![("/var/lib/flightctl".to_owned(), "the agent's own state".to_owned())];
        Files::open(root, Backups::new(store, steps.clone()), notes, protected, steps).expect("files")
    }

    fn path(&self, path: &str) -> std::path::PathBuf {
        self.folder.path().join(path.trim_start_matches('/'))
    }

    fn put(&self, path: &str, text: &str, mode: u32) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(&path, text).expect("a file");
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("a mode");
    }

    fn text(&self, path: &str) -> String {
        std::fs::read_to_string(self.path(path)).unwrap_or_else(|error| format!("({})", error.kind()))
    }

    fn mode(&self, path: &str) -> u32 {
        std::fs::metadata(self.path(path)).expect("a file").mode() & 0o7777
    }

    /// All files and folders, without what is ours.
    fn tree(&self) -> Vec<String> {
        let (mut found, mut open) = (Vec::new(), vec![self.folder.path().to_owned()]);
        while let Some(folder) = open.pop() {
            for entry in std::fs::read_dir(&folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                let name = path.strip_prefix(self.folder.path()).expect("below").display().to_string();
                if name.starts_with("var") {
                    continue;
                }
                if path.is_dir() && !path.is_symlink() {
                    open.push(path);
                }
                found.push(name);
            }
        }
        found.sort();
        found
    }
}

fn wanted(text: &str, mode: u32) -> Wanted<'_> {
    Wanted { bytes: text.as_bytes(), mode, user: "root", group: "root", expect: None, backup: true }
}

fn seen(files: &Files, path: &str) -> FileSeen {
    files.see(path).expect("it can be seen")
}

#[test]
fn what_stood_there_comes_back_with_its_mode() {
    let device = Device::new();
    device.put("/etc/motd", "old", 0o600);
    let mut files = device.files();
    let before = seen(&files, "/etc/motd");
    files.write("/etc/motd", &wanted("new", 0o4755)).expect("written");
    assert_eq!((device.text("/etc/motd"), device.mode("/etc/motd")), ("new".into(), 0o4755));
    // A second version does not take the place of what stood there first.
    files.write("/etc/motd", &wanted("newer", 0o644)).expect("written");
    drop(files);
    let mut files = device.files();
    files.restore("/etc/motd", Some(&before.sha256)).expect("restored");
    assert_eq!((device.text("/etc/motd"), device.mode("/etc/motd")), ("old".into(), 0o600));
    files.restore("/etc/motd", Some(&before.sha256)).expect("it is so already");
}

#[test]
fn a_file_that_is_new_goes_again_with_the_folders_that_were_made_for_it() {
    let device = Device::new();
    device.put("/etc/a/own", "x", 0o644);
    let before = device.tree();
    let mut files = device.files();
    files.write("/etc/a/b/c/new", &wanted("n", 0o644)).expect("written");
    files.write("/etc/d/new", &wanted("n", 0o644)).expect("written");
    assert_eq!(device.mode("/etc/a/b"), 0o755);
    drop(files);
    let mut files = device.files();
    files.restore("/etc/a/b/c/new", None).expect("removed");
    files.restore("/etc/d/new", None).expect("removed");
    files.restore("/etc/d/new", None).expect("it is so already");
    assert_eq!(device.tree(), before);
}

#[test]
fn folders_that_a_power_cut_left_behind_go_with_the_next_start() {
    let device = Device::new();
    let before = device.tree();
    let mut files = device.files();
    files.write("/etc/a/b/c/new", &wanted("n", 0o644)).expect("written");
    drop(files);
    // The file was removed, one folder with it, and then the power went.
    std::fs::remove_dir_all(device.path("/etc/a/b/c")).expect("a folder");
    drop(device.files());
    assert_eq!(device.tree(), before);
}

#[test]
fn what_is_as_it_should_be_is_not_touched() {
    let device = Device::new();
    let told = Arc::new(Mutex::new(0));
    let count = Arc::clone(&told);
    let mut files = device.files_told(Steps::told(move |_| *count.lock().expect("a count") += 1));
    files.write("/etc/a", &wanted("x", 0o644)).expect("written");
    let before = *told.lock().expect("a count");
    let expect = Expect::Absent;
    files.write("/etc/a", &Wanted { expect: Some(&expect), ..wanted("x", 0o644) }).expect("nothing to do");
    assert_eq!(*told.lock().expect("a count"), before);
    let seq = seen(&files, "/etc/a").seq;
    // The kernel stamps changes by its ticks, of up to ten milliseconds.
    std::thread::park_timeout(std::time::Duration::from_millis(30));
    files.write("/etc/a", &wanted("x", 0o600)).expect("written: its mode is another one");
    assert!(seen(&files, "/etc/a").seq > seq, "a change is seen by its number");
}

#[test]
fn a_link_is_replaced_and_not_followed_and_comes_back_as_a_link() {
    let device = Device::new();
    device.put("/etc/real", "real", 0o644);
    symlink("real", device.path("/etc/link")).expect("a link");
    let mut files = device.files();
    let before = seen(&files, "/etc/link");
    assert_eq!(before.kind, FileKind::Symlink);
    files.write("/etc/link", &wanted("file", 0o644)).expect("written");
    assert_eq!((device.text("/etc/link"), device.text("/etc/real")), ("file".into(), "real".into()));
    files.restore("/etc/link", Some(&before.sha256)).expect("restored");
    assert_eq!(std::fs::read_link(device.path("/etc/link")).expect("a link"), Path::new("real"));
}

#[test]
fn nobody_manages_what_is_ours_not_even_by_a_link() {
    let device = Device::new();
    symlink("/var/lib", device.path("/etc/lib")).expect("a link");
    let mut files = device.files();
    for path in ["/var/lib/flightctl/desired.json", "/var/lib/flightctl", "/etc/lib/flightctl/current.json"] {
        let failure = files.write(path, &wanted("x", 0o644)).expect_err(path);
        assert_eq!(failure.kind, FailureKind::Denied, "{path}");
        assert!(failure.message.contains("the agent's own state"), "{}", failure.message);
        assert!(seen(&files, path).refused.is_some());
        assert_eq!(files.remove(path, false).expect_err(path).kind, FailureKind::Denied);
        assert_eq!(files.restore(path, None).expect_err(path).kind, FailureKind::Denied);
    }
    for path in ["/../etc/passwd", "etc/x", "/etc/"] {
        assert_eq!(files.write(path, &wanted("x", 0o644)).expect_err(path).kind, FailureKind::Invalid);
    }
}

#[test]
fn what_is_in_the_way_is_told_and_left_alone() {
    let device = Device::new();
    std::fs::create_dir(device.path("/etc/folder")).expect("a folder");
    device.put("/etc/file", "x", 0o644);
    let before = device.tree();
    let mut files = device.files();
    for (path, words) in [
        ("/etc/folder", "a folder is in the way"),
        ("/etc/file/below", "something that is no folder is in the way"),
    ] {
        let failure = files.write(path, &wanted("y", 0o644)).expect_err(path);
        assert!(failure.message.contains(words), "{}", failure.message);
        assert_eq!(failure.kind, FailureKind::Invalid, "{path}");
    }
    let expect = Expect::Sha256("sha256:other".to_owned());
    let failure = files.write("/etc/file", &Wanted { expect: Some(&expect), ..wanted("y", 0o644) });
    assert_eq!(failure.expect_err("somebody else changed it").kind, FailureKind::Conflict);
    let failure = files.write("/etc/y", &Wanted { user: "nobody-has-this", ..wanted("y", 0o644) });
    assert!(failure.expect_err("no such user").message.contains("no user is called \"nobody-has-this\""));
    assert_eq!(device.tree(), before);
}

#[test]
fn what_the_os_brings_along_comes_back_as_the_os_has_it_then() {
    let device = Device::new();
    device.put("/etc/issue", "v1", 0o644);
    device.put("/usr/etc/issue", "v1", 0o644);
    let mut files = device.files();
    let before = seen(&files, "/etc/issue");
    files.write("/etc/issue", &wanted("ours", 0o644)).expect("written");
    device.put("/usr/etc/issue", "v2", 0o644);
    files.restore("/etc/issue", Some(&before.sha256)).expect("restored");
    assert_eq!(device.text("/etc/issue"), "v2");
}

#[test]
fn a_backup_that_was_spoilt_is_told_and_nothing_is_put_back() {
    let device = Device::new();
    device.put("/etc/motd", "old", 0o600);
    let mut files = device.files();
    let before = seen(&files, "/etc/motd").sha256;
    files.write("/etc/motd", &wanted("new", 0o644)).expect("written");
    let store = device.path("/var/lib/flightctl/backups");
    for entry in std::fs::read_dir(store).expect("a folder") {
        let path = entry.expect("an entry").path();
        let text = std::fs::read_to_string(&path).expect("text").replace("old", "odd");
        std::fs::write(path, text).expect("a file");
    }
    assert_eq!(files.restore("/etc/motd", Some(&before)).expect_err("spoilt").kind, FailureKind::NotFound);
    assert_eq!(device.text("/etc/motd"), "new");
    files.prune(&[]).expect("pruned");
    assert_eq!(std::fs::read_dir(device.path("/var/lib/flightctl/backups")).expect("a folder").count(), 0);
}

/// Writes, removes and restores, and ends where the n-th step is made, as a power cut would; whether it came to it.
fn cut_at(device: &Device, nth: usize) -> bool {
    let count = Arc::new(Mutex::new(0));
    let steps = Steps::told(move |_| {
        let mut made = count.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *made += 1;
        assert!(*made != nth, "the power goes");
    });
    let life = std::panic::AssertUnwindSafe(|| {
        let mut files = device.files_told(steps);
        files.write("/etc/motd", &wanted("new motd, and a long one", 0o644)).expect("written");
        files.write("/etc/a/b", &wanted("new b", 0o644)).expect("written");
        files.restore("/etc/gone", None).expect("removed");
    });
    std::panic::catch_unwind(life).is_err()
}

#[test]
fn wherever_the_power_goes_each_file_is_the_old_one_or_the_new_one_and_all_can_be_undone() {
    let mut nth = 1;
    loop {
        let device = Device::new();
        device.put("/etc/motd", "old", 0o600);
        device.put("/etc/gone", "g", 0o644);
        let digest = seen(&device.files(), "/etc/motd").sha256;
        let cut = cut_at(&device, nth);
        let mut files = device.files();
        let texts = (device.text("/etc/motd"), device.text("/etc/a/b"));
        assert!(["old", "new motd, and a long one"].contains(&&*texts.0), "cut at {nth}: {}", texts.0);
        assert!(["(entity not found)", "new b"].contains(&&*texts.1), "cut at {nth}: {}", texts.1);
        assert!(!device.tree().iter().any(|path| path.contains(".tmp")), "cut at {nth}: {:?}", device.tree());
        files.restore("/etc/motd", Some(&digest)).expect("restored");
        files.restore("/etc/a/b", None).expect("removed");
        assert_eq!(
            (device.text("/etc/motd"), device.mode("/etc/motd")),
            ("old".into(), 0o600),
            "cut at {nth}"
        );
        assert!(!device.path("/etc/a").exists(), "cut at {nth}");
        if !cut {
            break;
        }
        nth += 1;
    }
    assert!(nth > 20, "only {nth} steps were seen");
}
