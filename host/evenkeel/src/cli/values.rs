//! Values of arguments that a type alone does not hold to what they may be.

use evenkeel_core::names;

/// The name of a namespace.
pub fn namespace(text: &str) -> Result<String, String> {
    let rule =
        "a namespace is named by 1 to 63 of a-z, 0-9 and -, the first and the last no - (an RFC 1123 label)";
    names::dns_label(text).map(|()| text.to_owned()).map_err(|_| rule.to_owned())
}

/// The name of a service account, or of a Lease.
pub fn subdomain(text: &str) -> Result<String, String> {
    let rule = "such a name is up to 253 of a-z, 0-9, - and ., with a letter or a digit at both ends of each part \
                between dots (an RFC 1123 subdomain)";
    names::dns_subdomain(text).map(|()| text.to_owned()).map_err(|_| rule.to_owned())
}

/// A number of things of which there is at least one.
pub fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|count| *count > 0).ok_or_else(|| "it takes a whole number from 1 on".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_name_is_refused_with_the_rule() {
        for (text, of_namespace, of_account) in [
            ("tenant-ann", true, true),
            ("0", true, true),
            ("a.b", false, true),
            ("", false, false),
            ("A b", false, false),
            ("a_b", false, false),
            ("-a", false, false),
            ("a-", false, false),
            ("a..b", false, false),
            (&"a".repeat(64), false, true),
        ] {
            assert_eq!(namespace(text).is_ok(), of_namespace, "{text:?}");
            assert_eq!(subdomain(text).is_ok(), of_account, "{text:?}");
        }
        assert!(namespace("A b").expect_err("a rule").contains("RFC 1123 label"));
    }

    #[test]
    fn none_and_less_is_no_number_of_things() {
        for (text, expected) in
            [("1", Some(1)), ("10", Some(10)), ("0", None), ("-1", None), ("x", None), ("", None)]
        {
            assert_eq!(at_least_one(text).ok(), expected, "{text:?}");
        }
    }
}
