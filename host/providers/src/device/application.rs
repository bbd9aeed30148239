//! What the content of an application says: the images that it names, and what it needs of the device.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

use super::seal;
use super::words::{ApplicationContent, ImageKind, ImageRef, PullPolicy};

/// Names of the main file of a compose application, the first that is there counts.
pub const COMPOSE_FILES: [&str; 6] = [
    "podman-compose.yaml",
    "podman-compose.yml",
    "docker-compose.yaml",
    "docker-compose.yml",
    "compose.yaml",
    "compose.yml",
];
/// Endings of quadlet files.
pub const QUADLET_ENDINGS: [&str; 7] = ["container", "volume", "network", "pod", "kube", "image", "build"];
/// Bytes of all files of an application.
const CONTENT_BYTES_MAX: usize = 32 << 20;
/// Files of an application.
const FILES_MAX: usize = 1024;

/// Files by their paths within the application's folder.
pub type Files = BTreeMap<String, Vec<u8>>;

/// What an application's content says. `package` has the files of its package, none while that is not there; `have` tells
/// whether the device has a program.
pub fn content(
    application: &Value,
    package: &[(String, Vec<u8>)],
    have: impl Fn(&str) -> bool,
) -> ApplicationContent {
    let kind = text(application, "appType");
    let needs: &[&str] = match kind {
        "compose" => &["podman"],
        "quadlet" | "container" => &["podman", "systemctl"],
        _ => &[],
    };
    let missing = needs.iter().filter(|name| !have(name)).map(|name| (*name).to_owned()).collect();
    let units = matches!(kind, "quadlet" | "container");
    let (error, images) = match images(application, package) {
        Ok(images) => (None, images.into_iter().collect()),
        Err(error) => (Some(error), Vec::new()),
    };
    ApplicationContent { error, images, missing, units }
}

/// The files of an application: those of its package, and the inline ones.
///
/// # Errors
/// A sentence without a word of what is in them, if a path leaves the folder or a content cannot be read.
pub fn files(application: &Value, package: &[(String, Vec<u8>)]) -> Result<Files, String> {
    let mut files = Files::new();
    for (path, bytes) in package {
        files.insert(inside(path)?.to_owned(), bytes.clone());
    }
    for entry in application.get("inline").and_then(Value::as_array).into_iter().flatten() {
        let path = inside(text(entry, "path"))?;
        let bytes = seal::content(entry).map_err(|error| format!("{path}: {error}"))?;
        if files.insert(path.to_owned(), bytes).is_some() {
            return Err(format!("{path} is there twice"));
        }
    }
    if files.len() > FILES_MAX {
        return Err(format!("it has more than {FILES_MAX} files"));
    }
    if files.values().map(Vec::len).sum::<usize>() > CONTENT_BYTES_MAX {
        return Err(format!("its files have more than {} MiB", CONTENT_BYTES_MAX >> 20));
    }
    Ok(files)
}

fn images(application: &Value, package: &[(String, Vec<u8>)]) -> Result<BTreeSet<ImageRef>, String> {
    let files = files(application, package)?;
    // Its package is not there yet: nothing can be said of it.
    let unknown = files.is_empty() && application.get("image").is_some();
    let names: BTreeSet<String> = match text(application, "appType") {
        "compose" | "quadlet" if unknown => BTreeSet::new(),
        "compose" => compose(&files)?,
        "quadlet" => quadlet(&files)?,
        "container" => BTreeSet::new(),
        "helm" => return Err("this host installs no Helm charts".to_owned()),
        "vm" => {
            return Err(
                "this host runs no virtual machines: the service has to make a quadlet of it".to_owned()
            );
        }
        other => {
            return Err(format!("unknown application type {:?}", other.chars().take(40).collect::<String>()));
        }
    };
    volumes(application)?;
    let user = application.get("runAs").and_then(Value::as_str).map(str::to_owned);
    let image = |reference: String| ImageRef {
        reference,
        kind: ImageKind::Image,
        user: user.clone(),
        pull_policy: PullPolicy::IfNotPresent,
    };
    Ok(names.into_iter().map(image).collect())
}

/// What would be left out in silence is refused: data that an image brings, and places that only a container has.
fn volumes(application: &Value) -> Result<(), String> {
    for volume in application.get("volumes").and_then(Value::as_array).into_iter().flatten() {
        let name: String = text(volume, "name").chars().take(80).collect();
        if volume.get("image").is_some_and(|image| !image.is_null()) {
            return Err(format!(
                "the volume {name:?} is to be filled from an image, which this host does not do"
            ));
        }
        let mounted = volume.get("mount").is_some_and(|mount| !mount.is_null());
        if mounted && text(application, "appType") != "container" {
            return Err(format!("the volume {name:?} has a mount path, which only a container has"));
        }
    }
    Ok(())
}

/// The images of a compose file's services.
fn compose(files: &Files) -> Result<BTreeSet<String>, String> {
    #[derive(Deserialize)]
    struct Project {
        #[serde(default)]
        services: BTreeMap<String, Service>,
    }
    #[derive(Deserialize)]
    struct Service {
        #[serde(default)]
        image: Option<String>,
    }
    let Some((name, bytes)) = COMPOSE_FILES.iter().find_map(|name| files.get_key_value(*name)) else {
        return Err("it has no compose.yaml".to_owned());
    };
    let text = std::str::from_utf8(bytes).map_err(|_| format!("{name} is no UTF-8"))?;
    // The parser's words quote the file, and passwords stand in such files.
    let project: Project = serde_saphyr::from_str(text).map_err(|_| format!("{name} is no compose file"))?;
    if project.services.is_empty() {
        return Err(format!("{name} has no services"));
    }
    project
        .services
        .into_iter()
        .map(|(service, content)| {
            let image = content.image.filter(|image| !image.trim().is_empty());
            image.ok_or_else(|| format!("the service {service:?} of {name} has no image"))
        })
        .collect()
}

/// The images of quadlet files.
fn quadlet(files: &Files) -> Result<BTreeSet<String>, String> {
    let ending = |path: &str| path.rsplit_once('.').map(|(_, ending)| ending.to_owned()).unwrap_or_default();
    let mut units = files.iter().filter(|(path, _)| QUADLET_ENDINGS.contains(&&*ending(path))).peekable();
    if units.peek().is_none() {
        return Err("it has no quadlet file such as web.container".to_owned());
    }
    let mut images = BTreeSet::new();
    for (path, bytes) in units {
        let text = std::str::from_utf8(bytes).map_err(|_| format!("{path} is no UTF-8"))?;
        let section = match &*ending(path) {
            "container" => "Container",
            "image" => "Image",
            "volume" => "Volume",
            _ => continue,
        };
        match value(text, section, "Image") {
            Some(image) if ["image", "build"].contains(&&*ending(image)) && files.contains_key(image) => {}
            Some(image) => {
                images.insert(image.to_owned());
            }
            None if section == "Volume" => {}
            None => return Err(format!("{path} has no Image in [{section}]")),
        }
    }
    Ok(images)
}

/// The last value of a key in a section of a unit file.
fn value<'t>(text: &'t str, section: &str, key: &str) -> Option<&'t str> {
    let (mut inside, mut found) = (false, None);
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            inside = name == section;
        } else if let Some((name, value)) = line.split_once('=')
            && inside
            && name.trim() == key
        {
            found = Some(value.trim()).filter(|value| !value.is_empty());
        }
    }
    found
}

/// A path that stays in the application's folder.
fn inside(path: &str) -> Result<&str, String> {
    let good = !path.is_empty()
        && path.len() < 1024
        && !path.contains('\0')
        && path.split('/').all(|part| !matches!(part, "" | "." | "..") && part.len() < 250);
    if good {
        Ok(path)
    } else {
        Err(format!("the path {:?} leaves its folder", path.chars().take(80).collect::<String>()))
    }
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;

    fn check(application: Value, expected: Expect) {
        let seen = content(&application, &[], |program| program == "podman");
        let images: Vec<&str> = seen.images.iter().map(|image| &*image.reference).collect();
        expected.assert_eq(&format!(
            "{images:?} missing={:?} units={} {:?}",
            seen.missing, seen.units, seen.error
        ));
    }

    fn inline(kind: &str, files: &[(&str, &str)]) -> Value {
        let files: Vec<Value> =
            files.iter().map(|(path, content)| json!({"path": path, "content": content})).collect();
        json!({"appType": kind, "name": "app", "inline": files})
    }

    #[test]
    fn the_images_of_services_and_containers_are_found() {
        check(
            inline(
                "compose",
                &[(
                    "compose.yaml",
                    "services:\n  web: {image: quay.io/x/web:1, ports: ['80:80']}\n  db: {image: db}\n",
                )],
            ),
            expect![[r#"["db", "quay.io/x/web:1"] missing=[] units=false None"#]],
        );
        check(
            inline(
                "quadlet",
                &[
                    ("web.container", "[Unit]\nImage=no\n[Container]\nImage = quay.io/x/web:1\n"),
                    ("data.volume", "[Volume]\n"),
                ],
            ),
            expect![[r#"["quay.io/x/web:1"] missing=["systemctl"] units=true None"#]],
        );
        check(
            json!({"appType": "compose", "name": "app", "image": "quay.io/x/package:1"}),
            expect![[r#"[] missing=[] units=false None"#]],
        );
    }

    #[test]
    fn content_that_cannot_be_used_is_told_without_a_word_of_it() {
        check(
            inline("compose", &[("compose.yaml", "services: [hunter2")]),
            expect![[r#"[] missing=[] units=false Some("compose.yaml is no compose file")"#]],
        );
        check(
            inline("compose", &[("compose.yaml", "services: {web: {build: .}}")]),
            expect![[
                r#"[] missing=[] units=false Some("the service \"web\" of compose.yaml has no image")"#
            ]],
        );
        check(
            inline("compose", &[("x.txt", "")]),
            expect![[r#"[] missing=[] units=false Some("it has no compose.yaml")"#]],
        );
        check(
            inline("compose", &[("../../etc/passwd", "x")]),
            expect![[r#"[] missing=[] units=false Some("the path \"../../etc/passwd\" leaves its folder")"#]],
        );
        check(
            inline("quadlet", &[("web.container", "[Container]\nExec=x\n")]),
            expect![[
                r#"[] missing=["systemctl"] units=true Some("web.container has no Image in [Container]")"#
            ]],
        );
        check(
            json!({"appType": "helm", "name": "app", "image": "quay.io/x/chart:1"}),
            expect![[r#"[] missing=[] units=false Some("this host installs no Helm charts")"#]],
        );
        check(
            json!({
                "appType": "container", "name": "app", "image": "quay.io/x/a:1",
                "volumes": [{"name": "data", "image": {"reference": "quay.io/x/data:1"}, "mount": {"path": "/data"}}],
            }),
            expect![[
                r#"[] missing=["systemctl"] units=true Some("the volume \"data\" is to be filled from an image, which this host does not do")"#
            ]],
        );
        let mut mounted = inline("compose", &[("compose.yaml", "services: {web: {image: web}}")]);
        mounted["volumes"] = json!([{"name": "data", "mount": {"path": "/data"}}]);
        check(
            mounted,
            expect![[
                r#"[] missing=[] units=false Some("the volume \"data\" has a mount path, which only a container has")"#
            ]],
        );
        check(
            inline("vm", &[]),
            expect![[
                r#"[] missing=[] units=false Some("this host runs no virtual machines: the service has to make a quadlet of it")"#
            ]],
        );
    }
}
