//! Users and groups of the device, by its own `/etc/passwd` and `/etc/group`.

use std::io::Read;

use super::root::{DevicePath, Root};

/// Bytes of such a file that are read.
const BYTES_MAX: u64 = 4 << 20;

/// A user's number; a number stands for itself.
pub(super) fn user(root: &Root, name: &str) -> Option<u32> {
    number(root, "/etc/passwd", name)
}

/// A group's number; a number stands for itself.
pub(super) fn group(root: &Root, name: &str) -> Option<u32> {
    number(root, "/etc/group", name)
}

fn number(root: &Root, file: &str, name: &str) -> Option<u32> {
    if let Ok(number) = name.parse() {
        return Some(number);
    }
    let text = read(root, file).unwrap_or_default();
    let found = text.lines().find_map(|line| {
        let mut parts = line.split(':');
        (parts.next() == Some(name)).then(|| parts.nth(1)?.parse().ok()).flatten()
    });
    // Every system has it, also a folder tree that has no such file.
    found.or_else(|| (name == "root").then_some(0))
}

fn read(root: &Root, file: &str) -> Option<String> {
    let path = DevicePath::parse(file).ok()?;
    let mut text = String::new();
    root.file(&path).ok()?.take(BYTES_MAX).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_device_and_not_of_the_machine_that_tests_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Root::open(folder.path()).expect("a root");
        assert_eq!((user(&root, "root"), user(&root, "kiosk"), user(&root, "12")), (Some(0), None, Some(12)));
        std::fs::create_dir(folder.path().join("etc")).expect("a folder");
        std::fs::write(
            folder.path().join("etc/passwd"),
            "root:x:0:0::/:/bin/sh\nkiosk:x:1001:1002::/:/bin/sh\nbroken\n",
        )
        .expect("a file");
        std::fs::write(folder.path().join("etc/group"), "wheel:x:10:kiosk\n").expect("a file");
        assert_eq!((user(&root, "kiosk"), user(&root, "broken")), (Some(1001), None));
        assert_eq!((group(&root, "wheel"), group(&root, "kiosk")), (Some(10), None));
    }
}
