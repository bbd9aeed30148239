//! The disk: what belongs to a deployment, what is common to all, and backups.

use std::collections::BTreeMap;

use crate::device::seal::sha256;
use crate::device::words::{FileKind, FileSeen};

/// A file or folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub content: Vec<u8>,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub dir: bool,
}

/// Files by path.
pub(super) type Tree = BTreeMap<String, Node>;

/// The disk.
#[derive(Clone, Debug, Default)]
pub(super) struct Disk {
    /// What is common to all deployments: all but `/etc`.
    pub common: Tree,
    /// `/etc` of the booted deployment.
    pub etc: Tree,
    /// Changes seen, by path.
    pub seqs: BTreeMap<String, u64>,
    /// What was replaced, by path and digest.
    pub backups: BTreeMap<(String, String), Node>,
}

impl Disk {
    pub(super) fn get(&self, path: &str) -> Option<&Node> {
        self.tree(path).get(path)
    }

    fn tree(&self, path: &str) -> &Tree {
        if path.starts_with("/etc/") { &self.etc } else { &self.common }
    }

    /// Puts something at a path, or nothing.
    pub(super) fn set(&mut self, path: &str, node: Option<Node>) {
        *self.seqs.entry(path.to_owned()).or_default() += 1;
        let tree = if path.starts_with("/etc/") { &mut self.etc } else { &mut self.common };
        match node {
            Some(node) => drop(tree.insert(path.to_owned(), node)),
            None => drop(tree.remove(path)),
        }
    }

    /// Another deployment's `/etc` takes the place of this one's, which is handed back.
    pub(super) fn swap_etc(&mut self, etc: Tree) -> Tree {
        let old = std::mem::replace(&mut self.etc, etc);
        for path in old.keys().chain(self.etc.keys()) {
            if old.get(path) != self.etc.get(path) {
                *self.seqs.entry(path.clone()).or_default() += 1;
            }
        }
        old
    }

    /// Keeps what is at a path, and says under which digest.
    pub(super) fn back_up(&mut self, path: &str) -> Option<String> {
        let node = self.get(path)?.clone();
        let digest = sha256(&node.content);
        self.backups.entry((path.to_owned(), digest.clone())).or_insert(node);
        Some(digest)
    }

    pub(super) fn seen(&self, path: &str) -> FileSeen {
        let seq = self.seqs.get(path).copied().unwrap_or_default();
        let refused = path.starts_with("/var/lib/flightctl/").then(|| "the host's own state".to_owned());
        let Some(node) = self.get(path) else { return FileSeen { seq, refused, ..FileSeen::default() } };
        FileSeen {
            seq,
            exists: true,
            kind: if node.dir { FileKind::Dir } else { FileKind::File },
            mode: node.mode,
            uid: node.uid,
            gid: node.gid,
            size: node.content.len().try_into().unwrap_or(u64::MAX),
            sha256: if node.dir { String::new() } else { sha256(&node.content) },
            refused,
        }
    }

    /// All of it, folders aside.
    pub(super) fn files(&self) -> BTreeMap<&str, &Node> {
        let all = self.common.iter().chain(&self.etc).filter(|(_, node)| !node.dir);
        all.map(|(path, node)| (path.as_str(), node)).collect()
    }
}
