//! One look at the folder: which components are there, and whether they are the ones that were.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io;
use std::path::Path;
use std::time::SystemTime;

/// Tells one content of a file from another without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    length: u64,
    modified: Option<SystemTime>,
    inode: u64,
}

/// A component and its settings file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    component: Stamp,
    settings: Option<Stamp>,
}

/// Whether a path may be a component or settings: temporary files of editors and copies are not.
pub(super) fn is_ours(path: &Path) -> bool {
    stem(path, "wasm").or_else(|| stem(path, "yaml")).is_some()
}

/// Components by the name of their file without its ending.
pub(super) fn scan(directory: &Path) -> io::Result<BTreeMap<String, Found>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let Some(name) = stem(&path, "wasm") else { continue };
        // A file may go between the two calls, and a link may lead nowhere.
        let Ok(metadata) = fs::metadata(&path) else { continue };
        if metadata.is_file() {
            let settings = fs::metadata(path.with_extension("yaml")).ok().map(|metadata| stamp(&metadata));
            found.insert(name, Found { component: stamp(&metadata), settings });
        }
    }
    Ok(found)
}

fn stem(path: &Path, ending: &str) -> Option<String> {
    if path.extension()? != ending {
        return None;
    }
    let name = path.file_stem()?.to_str()?;
    (!name.starts_with('.') && !name.starts_with('#') && !name.ends_with('~')).then(|| name.to_owned())
}

fn stamp(metadata: &Metadata) -> Stamp {
    #[cfg(unix)]
    let inode = std::os::unix::fs::MetadataExt::ino(metadata);
    #[cfg(not(unix))]
    let inode = 0;
    Stamp { length: metadata.len(), modified: metadata.modified().ok(), inode }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_files_are_not_taken_for_plugins() {
        let names = [
            "kite.wasm",
            "kite.yaml",
            ".kite.wasm",
            "kite.wasm.tmp",
            "kite.wasm~",
            "#kite.wasm",
            "README.md",
        ];
        let ours: Vec<_> = names.into_iter().filter(|name| is_ours(Path::new(name))).collect();
        assert_eq!(ours, ["kite.wasm", "kite.yaml"]);
    }
}
