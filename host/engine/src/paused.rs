//! Whether somebody paused an object.

use evenkeel_core::object::CachedObject;
use evenkeel_core::pointer::Pointer;

/// The annotation that pauses an object when it is `"true"`.
pub const PAUSED: &str = "evenkeel.dev/paused";

/// Whether the object carries the annotation that pauses it.
pub(crate) fn is_paused(object: &CachedObject) -> bool {
    // Most objects do not even contain the word: they are not parsed for it.
    if !object.json().contains(PAUSED) {
        return false;
    }
    let pointer = Pointer::parse("/metadata/annotations/evenkeel.dev~1paused").expect("a valid pointer");
    object.field(&pointer).is_some_and(|value| &*value == "\"true\"")
}

#[cfg(test)]
mod tests {
    use evenkeel_core::contract::Gvk;

    use super::*;

    #[test]
    fn an_object_is_paused_by_its_annotation_alone() {
        for (annotations, paused) in [
            (r#"{"evenkeel.dev/paused":"true"}"#, true),
            (r#"{"evenkeel.dev/paused":"false"}"#, false),
            (r#"{"note":"evenkeel.dev/paused"}"#, false),
            ("{}", false),
        ] {
            let raw = format!(r#"{{"metadata":{{"name":"a","uid":"1","annotations":{annotations}}}}}"#);
            let object = CachedObject::parse(&Gvk::new("", "v1", "ConfigMap"), &raw).expect("an object");
            assert_eq!(is_paused(&object), paused, "{annotations}");
        }
    }
}
