//! References of images: whether one can be one, and when two mean the same.

use crate::words::OsImage;

/// Longest reference that a registry takes.
const REFERENCE_BYTES_MAX: usize = 512;

/// What is wrong with a reference; none where it is well formed.
pub fn fault(reference: &str) -> Option<String> {
    let wrong = |why: &str| Some(format!("{reference:?} is no image reference: {why}"));
    if reference.is_empty() || reference.len() > REFERENCE_BYTES_MAX {
        return wrong("it is empty or too long");
    }
    let bare = reference.strip_prefix("oci://").unwrap_or(reference);
    let (name, digest) = bare.split_once('@').map_or((bare, None), |(name, digest)| (name, Some(digest)));
    if let Some(digest) = digest
        && !is_digest(digest)
    {
        return wrong("its digest is no digest");
    }
    let (name, tag) = split_tag(name);
    if let Some(tag) = tag
        && !is_tag(tag)
    {
        return wrong("its tag has characters that no tag has");
    }
    let (domain, path) = split_domain(name);
    if domain.is_some_and(|domain| !is_domain(domain)) {
        return wrong("its registry is no host name");
    }
    if path.is_empty() || !path.split('/').all(is_component) {
        return wrong("its name has other characters than small letters, digits and . _ -");
    }
    None
}

/// The form in which two references that mean the same are equal: registry and tag written out, and of tag and digest the digest.
pub fn normal(reference: &str) -> String {
    let bare = reference.strip_prefix("oci://").unwrap_or(reference);
    let (name, digest) = bare.split_once('@').map_or((bare, None), |(name, digest)| (name, Some(digest)));
    let (name, tag) = split_tag(name);
    let name = match split_domain(name) {
        (Some("index.docker.io"), path) => format!("docker.io/{path}"),
        (Some(domain), path) => format!("{domain}/{path}"),
        (None, path) if path.contains('/') => format!("docker.io/{path}"),
        (None, path) => format!("docker.io/library/{path}"),
    };
    match digest {
        Some(digest) => format!("{name}@{digest}"),
        None => format!("{name}:{}", tag.unwrap_or("latest")),
    }
}

/// Whether a deployment is of an image.
pub fn is_of(deployment: &OsImage, reference: &str) -> bool {
    if deployment.image.is_empty() {
        return false;
    }
    let (is, wanted) = (normal(&deployment.image), normal(reference));
    // A deployment made by digest may be told by its tag, with the digest beside it.
    is == wanted
        || wanted
            .split_once('@')
            .is_some_and(|(name, digest)| deployment.digest == digest && name == name_of(&is))
}

fn name_of(normal: &str) -> &str {
    match normal.split_once('@') {
        Some((name, _)) => name,
        None => split_tag(normal).0,
    }
}

fn split_tag(name: &str) -> (&str, Option<&str>) {
    match name.rsplit_once(':') {
        // A colon before a slash belongs to the registry's port.
        Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
        Some(_) | None => (name, None),
    }
}

fn split_domain(name: &str) -> (Option<&str>, &str) {
    match name.split_once('/') {
        Some((domain, path)) if domain.contains(['.', ':']) || domain == "localhost" => (Some(domain), path),
        Some(_) | None => (None, name),
    }
}

fn is_digest(digest: &str) -> bool {
    digest.split_once(':').is_some_and(|(algorithm, hex)| {
        !algorithm.is_empty()
            && !hex.is_empty()
            && algorithm.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
            && hex.bytes().all(|byte| byte.is_ascii_hexdigit() || byte.is_ascii_lowercase())
    })
}

fn is_tag(tag: &str) -> bool {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    !tag.is_empty() && tag.len() <= 128 && tag.bytes().all(good) && !tag.starts_with(['.', '-'])
}

fn is_domain(domain: &str) -> bool {
    let (host, port) = domain.rsplit_once(':').map_or((domain, None), |(host, port)| (host, Some(port)));
    let good = |byte: u8| byte.is_ascii_alphanumeric() || b".-".contains(&byte);
    !host.is_empty()
        && host.bytes().all(good)
        && port.is_none_or(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()))
}

fn is_component(component: &str) -> bool {
    let good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
    let ends = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    component.bytes().all(good) && component.starts_with(ends) && component.ends_with(ends)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_that_mean_the_same_have_one_normal_form() {
        for (reference, expected) in [
            ("nginx", "docker.io/library/nginx:latest"),
            ("nginx:1", "docker.io/library/nginx:1"),
            ("library/nginx", "docker.io/library/nginx:latest"),
            ("quay.io/x/os:2@sha256:d", "quay.io/x/os@sha256:d"),
            ("quay.io/x/os@sha256:d", "quay.io/x/os@sha256:d"),
            ("localhost:5000/a", "localhost:5000/a:latest"),
            ("index.docker.io/a/b:c", "docker.io/a/b:c"),
        ] {
            assert_eq!(normal(reference), expected, "{reference}");
        }
    }

    #[test]
    fn a_deployment_that_is_told_by_its_tag_is_known_by_its_digest() {
        let deployment = OsImage { image: "quay.io/x/os:2".into(), digest: "sha256:d".into() };
        assert!(is_of(&deployment, "quay.io/x/os:2"));
        assert!(is_of(&deployment, "quay.io/x/os:2@sha256:d"));
        assert!(!is_of(&deployment, "quay.io/x/os@sha256:e"));
        assert!(!is_of(&deployment, "quay.io/y/os@sha256:d"));
        assert!(!is_of(&OsImage::default(), "quay.io/x/os:2"));
    }

    #[test]
    fn what_can_be_no_reference_is_told_before_anybody_pulls_it() {
        for good in
            ["a", "quay.io/x/os:2", "localhost:5000/a/b", "quay.io/x/os:2@sha256:d", "oci://quay.io/c/h:1"]
        {
            assert_eq!(fault(good), None, "{good}");
        }
        for bad in [
            "",
            "quay.io/UPPER/x y",
            "quay.io/x:",
            "quay.io/x@sha256:",
            "quay.io//x",
            "-x",
            "a b",
            "quay.io/x:a b",
        ] {
            assert!(fault(bad).is_some(), "{bad}");
        }
    }
}
