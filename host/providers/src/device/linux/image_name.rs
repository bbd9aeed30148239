//! References of images in one form, so that two of the same image are equal.

/// The registry that is meant where none is named.
const REGISTRY: &str = "docker.io";
/// The folder of that registry that is meant where none is named.
const LIBRARY: &str = "library";

/// A reference in its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ImageName {
    name: String,
    tag: Option<String>,
    digest: Option<String>,
}

impl ImageName {
    /// Reads a reference; none where it is none.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (rest, digest) = match text.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest)),
            None => (text, None),
        };
        let good = |part: &str, more: &str| {
            !part.is_empty() && part.chars().all(|one| one.is_ascii_alphanumeric() || more.contains(one))
        };
        if digest.is_some_and(|digest| !digest.contains(':') || !good(digest, ":._+-")) {
            return None;
        }
        let slash = rest.rfind('/').map_or(0, |at| at + 1);
        let (name, tag) = match rest.get(slash..)?.split_once(':') {
            Some((last, tag)) => (rest.get(..slash + last.len())?, Some(tag)),
            None => (rest, None),
        };
        if tag.is_some_and(|tag| tag.len() > 128 || !good(tag, "_.-")) {
            return None;
        }
        let (registry, path) = match name.split_once('/') {
            Some((first, path)) if first.contains(['.', ':']) || first == "localhost" => {
                (first, path.to_owned())
            }
            Some(_) => (REGISTRY, name.to_owned()),
            None => (REGISTRY, format!("{LIBRARY}/{name}")),
        };
        let lower = |part: &str| good(part, "._-") && !part.contains(|one: char| one.is_ascii_uppercase());
        if !good(registry, ".:-[]") || !path.split('/').all(lower) {
            return None;
        }
        let name = format!("{registry}/{path}");
        Some(Self { name, tag: tag.map(str::to_owned), digest: digest.map(str::to_owned) })
    }

    /// As tools take it that refuse a tag and a digest at once: the digest wins.
    pub(super) fn single(&self) -> String {
        match (&self.digest, &self.tag) {
            (Some(digest), _) => format!("{}@{digest}", self.name),
            (None, tag) => format!("{}:{}", self.name, tag.as_deref().unwrap_or("latest")),
        }
    }
}

/// Whether two references are of one image.
pub(super) fn same(one: &str, other: &str) -> bool {
    match (ImageName::parse(one), ImageName::parse(other)) {
        (Some(one), Some(other)) => one.single() == other.single(),
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_wins_over_a_tag_and_what_is_not_said_is_the_usual() {
        for (text, expected) in [
            ("nginx", "docker.io/library/nginx:latest"),
            ("x/y:1", "docker.io/x/y:1"),
            ("localhost:5000/a:b", "localhost:5000/a:b"),
            ("localhost/a", "localhost/a:latest"),
            ("quay.io/x/os:2@sha256:d", "quay.io/x/os@sha256:d"),
        ] {
            assert_eq!(ImageName::parse(text).expect(text).single(), expected);
        }
        for text in ["quay.io/UPPER/x y", "", "a:", "a@b", "quay.io//x", "a b", "x:1:2"] {
            assert_eq!(ImageName::parse(text), None, "{text}");
        }
        assert!(same("quay.io/x/os:2@sha256:d", "quay.io/x/os@sha256:d") && !same("a", "b"));
    }
}
