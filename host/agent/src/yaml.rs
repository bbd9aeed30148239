//! YAML files as kubectl reads them.

use serde::de::DeserializeOwned;
use serde_saphyr::{Error, Options};

/// The one document of a text.
///
/// # Errors
/// If it is no YAML, or is not of this form.
pub fn one<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    serde_saphyr::from_str_with_options(text, options())
}

/// All documents of a text.
///
/// # Errors
/// If it is no YAML, or a document is not of this form.
pub fn all<T: DeserializeOwned>(text: &str) -> Result<Vec<T>, Error> {
    serde_saphyr::from_multiple_with_options(text, options())
}

/// Modes are written `0644`: in every tool of Kubernetes that is an octal number, as YAML 1.1 has it.
fn options() -> Options {
    serde_saphyr::options! { legacy_octal_numbers: true }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_number_with_a_leading_zero_is_octal() {
        for (text, expected) in [
            ("0644", json!(420)),
            ("'0644'", json!("0644")),
            ("0o644", json!(420)),
            ("420", json!(420)),
            ("0", json!(0)),
            ("0.5", json!(0.5)),
        ] {
            let (text, expected) = (format!("a: {text}"), json!({"a": expected}));
            assert_eq!(one::<Value>(&text).expect("YAML"), expected, "{text}");
            assert_eq!(all::<Value>(&text).expect("YAML"), [expected], "{text}");
        }
    }
}
