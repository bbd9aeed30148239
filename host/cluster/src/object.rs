//! From the API server's text to what the cache keeps.

use evenkeel_core::contract::Gvk;
use evenkeel_core::object::{CachedObject, ObjectError};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::scope::Depth;

#[derive(Deserialize)]
struct MetadataOnly<'a> {
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
}

/// Reads an object. At [`Depth::Metadata`] only that is kept, whatever came, and under the object's own kind, not
/// `PartialObjectMetadata`.
pub(crate) fn parse(gvk: &Gvk, raw: &str, depth: Depth) -> Result<CachedObject, ObjectError> {
    match depth {
        Depth::Whole => CachedObject::parse(gvk, raw),
        Depth::Metadata => match serde_json::from_str::<MetadataOnly>(raw) {
            Ok(MetadataOnly { metadata: Some(metadata) }) => {
                let text = format!(
                    r#"{{"apiVersion":"{}","kind":"{}","metadata":{}}}"#,
                    gvk.api_version(),
                    gvk.kind,
                    metadata.get()
                );
                CachedObject::parse(gvk, &text)
            }
            // Its error says what is wrong.
            Ok(MetadataOnly { metadata: None }) | Err(_) => CachedObject::parse(gvk, raw),
        },
    }
}
