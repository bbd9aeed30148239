//! One line of the file: a checksum, a blank, and what a request changed as JSON.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// Hexadecimal digits of a checksum: enough to tell a torn line, not meant against an adversary.
const CHECKSUM: usize = 16;

/// What is written of one change.
pub(super) enum Entry<'a> {
    Put { of: String, json: &'a Bytes },
    Remove { of: String, key: String },
}

/// What one request changed, as it is read.
#[derive(Debug, Deserialize)]
pub(super) struct Transaction {
    pub revision: u64,
    pub uids: u64,
    pub suffixes: u64,
    pub changes: Vec<ReadEntry>,
}

/// A change as it is read: an object of a resource (`group/plural`), or the key of one that is gone.
#[derive(Debug, Deserialize)]
pub(super) struct ReadEntry {
    pub of: String,
    #[serde(default)]
    pub put: Option<Value>,
    #[serde(default)]
    pub remove: Option<String>,
}

/// The line of a transaction; `counts` are the UIDs and suffixes given out so far.
pub(super) fn encode<'a>(
    revision: u64,
    (uids, suffixes): (u64, u64),
    entries: impl Iterator<Item = Entry<'a>>,
) -> Vec<u8> {
    let head = format!("{{\"revision\":{revision},\"uids\":{uids},\"suffixes\":{suffixes},\"changes\":[");
    let mut text = head.into_bytes();
    for (at, entry) in entries.enumerate() {
        if at > 0 {
            text.push(b',');
        }
        let quoted = |text: &str| Value::from(text).to_string();
        match entry {
            Entry::Put { of, json } => {
                text.extend_from_slice(format!("{{\"of\":{},\"put\":", quoted(&of)).as_bytes());
                text.extend_from_slice(json);
                text.push(b'}');
            }
            Entry::Remove { of, key } => {
                let entry = format!("{{\"of\":{},\"remove\":{}}}", quoted(&of), quoted(&key));
                text.extend_from_slice(entry.as_bytes());
            }
        }
    }
    text.extend_from_slice(b"]}");
    seal(&text)
}

/// A text as a line with its checksum.
pub(super) fn seal(text: &[u8]) -> Vec<u8> {
    let mut line = checksum(text).into_bytes();
    line.push(b' ');
    line.extend_from_slice(text);
    line.push(b'\n');
    line
}

/// The text of a line (without its end), if it is whole.
pub(super) fn unseal(line: &[u8]) -> Option<&[u8]> {
    let (sum, text) = (line.get(..CHECKSUM)?, line.get(CHECKSUM + 1..)?);
    (line.get(CHECKSUM) == Some(&b' ') && sum == checksum(text).as_bytes()).then_some(text)
}

fn checksum(text: &[u8]) -> String {
    Sha256::digest(text).iter().take(CHECKSUM / 2).map(|byte| format!("{byte:02x}")).collect()
}
