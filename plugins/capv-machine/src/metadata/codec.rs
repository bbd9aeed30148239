//! How texts travel in a VM's extraConfig.

use std::collections::BTreeMap;
use std::io::{Read, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

use super::Document;
use crate::names;

/// The encoding that is written.
pub const BASE64: &str = "base64";
/// The encoding that is written for what is long.
const GZIP_BASE64: &str = "gzip+base64";
/// Longest value that is written as plain base64, in bytes: vCenter is said to refuse values above 64 KiB.
const PLAIN_BYTES_MAX: usize = 48 * 1024;
/// Longest document that is read, in bytes: what is longer is no metadata.
const DOCUMENT_BYTES_MAX: u64 = 256 * 1024;

/// The two keys of a document: encoded once, never compressed.
pub fn encoded(document: &Document) -> BTreeMap<String, String> {
    // Texts are quoted all: cloud-init reads by the older rules of YAML, where 52:54:00:12:34:56 is a number.
    let options = serde_saphyr::ser_options! { quote_all: true };
    // Maps with text keys, texts, numbers and booleans: all of them can be written.
    let text =
        serde_saphyr::to_string_with_options(document, options).expect("metadata can be written as YAML");
    BTreeMap::from([
        (names::METADATA.to_owned(), STANDARD.encode(text)),
        (names::METADATA_ENCODING.to_owned(), BASE64.to_owned()),
    ])
}

/// A text as a value and the name of its encoding: compressed where it is long.
pub fn packed(text: &[u8]) -> (String, &'static str) {
    let plain = STANDARD.encode(text);
    if plain.len() <= PLAIN_BYTES_MAX {
        return (plain, BASE64);
    }
    // The header has no time in it: the same text is the same value.
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    // Writing to memory does not fail.
    let packed = gzip.write_all(text).and_then(|()| gzip.finish());
    packed.map_or((plain, BASE64), |bytes| (STANDARD.encode(bytes), GZIP_BASE64))
}

/// The document that a VM has; none where it has none, or one that cannot be read.
pub fn of_vm(extra_config: &BTreeMap<String, String>) -> Option<Document> {
    let value = extra_config.get(names::METADATA)?;
    let encoding =
        extra_config.get(names::METADATA_ENCODING).map(|encoding| encoding.trim()).unwrap_or_default();
    let text = match encoding.to_ascii_lowercase().as_str() {
        "" => value.clone(),
        "base64" | "b64" => String::from_utf8(decoded(value)?).ok()?,
        "gzip+base64" | "gz+b64" => unzipped(&decoded(value)?)?,
        _ => return None,
    };
    serde_saphyr::from_str(&text).ok()
}

fn decoded(value: &str) -> Option<Vec<u8>> {
    let compact: String = value.split_ascii_whitespace().collect();
    STANDARD.decode(compact).ok()
}

/// A few bytes can unpack to more than there is memory: what is too long is not read to its end.
fn unzipped(bytes: &[u8]) -> Option<String> {
    let mut text = String::new();
    GzDecoder::new(bytes).take(DOCUMENT_BYTES_MAX + 1).read_to_string(&mut text).ok()?;
    (u64::try_from(text.len()).ok()? <= DOCUMENT_BYTES_MAX).then_some(text)
}
