//! An object's labels, in little memory: a cache holds those of every object.

use std::fmt;

/// Labels by their keys, sorted. All texts stand in one, so a set takes two small pieces of memory whatever its size.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Labels {
    /// Key, value, key, value …
    text: Box<str>,
    /// Where each key and its value end in it.
    ends: Box<[(u32, u32)]>,
}

impl Labels {
    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        // A few: looking at each is as fast as halving.
        self.iter().find_map(|(has, value)| (has == key).then_some(value))
    }

    /// Key and value of each, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let starts = std::iter::once(0).chain(self.ends.iter().map(|(_, end)| *end));
        starts
            .zip(&self.ends)
            .filter_map(|(start, (key, value))| Some((self.slice(start, *key)?, self.slice(*key, *value)?)))
    }

    /// Bytes that they take besides this struct.
    pub fn bytes(&self) -> usize {
        self.text.len() + size_of_val(&*self.ends)
    }

    fn slice(&self, from: u32, to: u32) -> Option<&str> {
        self.text.get(usize::try_from(from).ok()?..usize::try_from(to).ok()?)
    }
}

impl<K: AsRef<str>, V: AsRef<str>> FromIterator<(K, V)> for Labels {
    /// Of two with one key the last one holds, as in JSON.
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let mut pairs: Vec<(K, V)> = pairs.into_iter().collect();
        // Stable, so that the last one of a key stays the last.
        pairs.sort_by(|(a, _), (b, _)| a.as_ref().cmp(b.as_ref()));
        let mut text = String::new();
        let mut ends = Vec::with_capacity(pairs.len());
        for (at, (key, value)) in pairs.iter().enumerate() {
            let key = key.as_ref();
            if pairs.get(at + 1).is_some_and(|(next, _)| next.as_ref() == key) {
                continue;
            }
            text.push_str(key);
            let key_end = end(&text);
            text.push_str(value.as_ref());
            ends.push((key_end, end(&text)));
        }
        Self { text: text.into(), ends: ends.into() }
    }
}

/// An answer of the API server is far below 4 GiB, and its labels are a part of it.
fn end(text: &str) -> u32 {
    u32::try_from(text.len()).unwrap_or(u32::MAX)
}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().copied().collect()
    }

    #[test]
    fn a_value_is_found_by_its_key_alone() {
        let labels = labels(&[("tier", "web"), ("app", "shop"), ("empty", ""), ("", "nameless")]);
        let values = ["app", "tier", "empty", "", "web", "ap", "appshop"].map(|key| labels.get(key));
        assert_eq!(values, [Some("shop"), Some("web"), Some(""), Some("nameless"), None, None, None]);
        assert_eq!(Labels::default().get("app"), None);
    }

    #[test]
    fn they_come_by_key_and_the_last_of_one_key_holds() {
        let labels = labels(&[("b", "1"), ("a", "2"), ("b", "3")]);
        assert_eq!(labels.iter().collect::<Vec<_>>(), [("a", "2"), ("b", "3")]);
        assert_eq!(format!("{labels:?}"), r#"{"a": "2", "b": "3"}"#);
    }

    #[test]
    fn where_a_key_ends_counts() {
        assert_ne!(labels(&[("ab", "c")]), labels(&[("a", "bc")]));
        assert_eq!(labels(&[("a", "1"), ("b", "2")]), labels(&[("b", "2"), ("a", "1")]));
    }

    #[test]
    fn four_usual_labels_take_less_than_their_text_twice() {
        let labels = labels(&[
            ("app.kubernetes.io/instance", "shop-frontend"),
            ("app.kubernetes.io/managed-by", "helm"),
            ("app.kubernetes.io/name", "shop"),
            ("app.kubernetes.io/version", "1.14.2"),
        ]);
        let text: usize = labels.iter().map(|(key, value)| key.len() + value.len()).sum();
        assert!(labels.bytes() < 2 * text, "{} bytes for {text}", labels.bytes());
    }
}
