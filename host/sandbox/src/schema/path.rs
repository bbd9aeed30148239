//! Paths of fields, as `field.Path` writes them.

/// A field of a struct.
pub(crate) fn child(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// An entry of a map.
pub(crate) fn key(path: &str, name: &str) -> String {
    format!("{path}[{name}]")
}

/// An item of a list.
pub(crate) fn index(path: &str, index: usize) -> String {
    format!("{path}[{index}]")
}
