//! Fingerprints.

use std::fmt::Write;
use std::io::{self, Read};

use ring::digest::{Context, Digest, SHA256, digest};

/// The SHA-256 of some bytes, in hex.
pub(super) fn sha256(bytes: &[u8]) -> String {
    hex(&digest(&SHA256, bytes))
}

/// The SHA-256 of all that can be read, in hex; a file need not fit into memory.
pub(super) fn sha256_of(mut reader: impl Read) -> io::Result<String> {
    let mut context = Context::new(&SHA256);
    let mut buffer = [0; 64 * 1024];
    loop {
        match reader.read(&mut buffer)? {
            0 => return Ok(hex(&context.finish())),
            read => context.update(buffer.get(..read).unwrap_or_default()),
        }
    }
}

fn hex(digest: &Digest) -> String {
    digest.as_ref().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_and_its_bytes_have_one_fingerprint() {
        let bytes = vec![7; 200_000];
        assert_eq!(sha256_of(&*bytes).expect("it reads"), sha256(&bytes));
        assert_eq!(sha256(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    }
}
