//! Whether a manifest holds together: what a host refuses before it runs anything of a plugin.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::contract::{Controller, Gvk, Manifest, Permission, Verb};
use crate::limits::{
    CONTROLLERS_MAX, CRDS_MAX, MANIFEST_TEXT_BYTES_MAX, PERMISSIONS_MAX, RESYNC_MIN, WAIT_MAX,
};
use crate::names::{self, PluginName};
use crate::selector::Selector;
use crate::view::View;

/// Something that is wrong with a manifest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[error("{at}: {reason}")]
pub struct ManifestFault {
    /// Where, as in `controllers.main.labels`.
    pub at: String,
    /// What is wrong there.
    pub reason: String,
}

/// Checks a manifest; every fault is told at once.
pub fn check(manifest: &Manifest) -> Result<(), Vec<ManifestFault>> {
    let mut faults = Faults::default();
    head(manifest, &mut faults);
    controllers(manifest, &mut faults);
    permissions(manifest, &mut faults);
    providers(manifest, &mut faults);
    crds(manifest, &mut faults);
    if let Some(schema) = &manifest.config_schema
        && !serde_json::from_str::<Value>(schema)
            .is_ok_and(|schema| schema.is_object() || schema.is_boolean())
    {
        faults.add("config-schema", "is no JSON Schema");
    }
    if faults.0.is_empty() { Ok(()) } else { Err(faults.0) }
}

#[derive(Default)]
struct Faults(Vec<ManifestFault>);

impl Faults {
    fn add(&mut self, at: impl Into<String>, reason: impl ToString) {
        self.0.push(ManifestFault { at: at.into(), reason: reason.to_string() });
    }

    fn note<T, E: ToString>(&mut self, at: impl Into<String>, checked: Result<T, E>) {
        if let Err(reason) = checked {
            self.add(at, reason);
        }
    }

    /// A list may have so many items.
    fn count(&mut self, at: &str, given: usize, max: usize) {
        if given > max {
            self.add(at, format!("has {given} items, at most {max} are allowed"));
        }
    }
}

fn head(manifest: &Manifest, faults: &mut Faults) {
    faults.note("name", PluginName::parse(&manifest.name));
    if !is_semantic(&manifest.version) {
        faults.add(
            "version",
            format!("{:?} is no semantic version, as in 1.2.3", shortened(&manifest.version)),
        );
    }
    if manifest.summary.len() > MANIFEST_TEXT_BYTES_MAX {
        faults.add("summary", format!("is longer than {MANIFEST_TEXT_BYTES_MAX} bytes"));
    }
}

/// Three numbers, then what semantic versioning allows after them.
fn is_semantic(version: &str) -> bool {
    let (core, rest) = version.split_at(version.find(['-', '+']).unwrap_or(version.len()));
    let numbers: Vec<_> = core.split('.').collect();
    let number = |text: &&str| {
        !text.is_empty()
            && text.len() <= 10
            && text.bytes().all(|c| c.is_ascii_digit())
            && (text.len() == 1 || !text.starts_with('0'))
    };
    let rest_fits =
        rest.len() <= 128 && rest.bytes().all(|c| c.is_ascii_alphanumeric() || b".-+".contains(&c));
    numbers.len() == 3 && numbers.iter().all(number) && rest_fits && rest.len() != 1
}

fn shortened(text: &str) -> String {
    text.chars().take(64).collect()
}

fn controllers(manifest: &Manifest, faults: &mut Faults) {
    if manifest.controllers.is_empty() {
        faults.add("controllers", "has none: the plugin would never be called");
    }
    faults.count("controllers", manifest.controllers.len(), CONTROLLERS_MAX);
    let mut seen = BTreeSet::new();
    for controller in manifest.controllers.iter().take(CONTROLLERS_MAX) {
        let at = format!("controllers.{}", shortened(&controller.name));
        if !seen.insert(&controller.name) {
            faults.add(&at, "is there twice");
        }
        one_controller(&at, controller, faults);
    }
}

fn one_controller(at: &str, controller: &Controller, faults: &mut Faults) {
    faults.note(at, names::dns_label(&controller.name));
    faults.note(format!("{at}.primary"), names::kind(&controller.primary));
    if is_secret(&controller.primary) && !is_of_metadata(&controller.view) {
        let message =
            "is Secret: a plugin would be shown every one of them; a view of metadata alone is fine";
        faults.add(format!("{at}.primary"), message);
    }
    faults.note(format!("{at}.labels"), Selector::parse(&controller.labels));
    faults.note(format!("{at}.view"), View::parse(&controller.view));
    if let Some(millis) = controller.resync {
        let resync = std::time::Duration::from_millis(millis);
        if !(RESYNC_MIN..=WAIT_MAX).contains(&resync) {
            faults.add(format!("{at}.resync"), format!("{millis} ms is not between a second and a year"));
        }
    }
}

fn permissions(manifest: &Manifest, faults: &mut Faults) {
    faults.count("permissions", manifest.permissions.len(), PERMISSIONS_MAX);
    for permission in manifest.permissions.iter().take(PERMISSIONS_MAX) {
        let at = format!("permissions.{}", permission.gvk);
        faults.note(&at, names::kind(&permission.gvk));
        if permission.verbs.is_empty() {
            faults.add(&at, "has no verbs");
        }
        faults.count(&format!("{at}.names"), permission.names.len(), PERMISSIONS_MAX);
        for name in permission.names.iter().take(PERMISSIONS_MAX) {
            if name.is_empty() || name.len() > crate::limits::OBJECT_NAME_BYTES_MAX || name.contains('/') {
                faults
                    .add(format!("{at}.names"), format!("{:?} is no glob of object names", shortened(name)));
            }
        }
        secrets(&at, permission, faults);
    }
}

/// Whether the view shows nothing but metadata.
fn is_of_metadata(view: &[String]) -> bool {
    !view.is_empty() && view.iter().all(|pointer| pointer == "/metadata" || pointer.starts_with("/metadata/"))
}

/// A plugin names the Secrets that it wants to see, or leaves that to the operator, whose grant then has to.
fn secrets(at: &str, permission: &Permission, faults: &mut Faults) {
    if !is_secret(&permission.gvk) {
        return;
    }
    if permission.verbs.contains(&Verb::List) {
        faults.add(at, "lists Secrets: only single ones may be asked for, by name");
    }
    let all = permission.names.iter().any(|name| name.trim_matches(['*', '?']).is_empty());
    if all && permission.verbs.contains(&Verb::Get) {
        faults.add(
            at,
            "asks for every Secret: it must name those that it wants to see, or leave that to the operator",
        );
    }
}

fn is_secret(gvk: &Gvk) -> bool {
    gvk.group.is_empty() && &*gvk.kind == "Secret"
}

fn providers(manifest: &Manifest, faults: &mut Faults) {
    faults.count("providers", manifest.providers.len(), CONTROLLERS_MAX);
    for used in manifest.providers.iter().take(CONTROLLERS_MAX) {
        faults.note(format!("providers.{}", shortened(&used.provider)), names::dns_label(&used.provider));
    }
}

fn crds(manifest: &Manifest, faults: &mut Faults) {
    faults.count("crds", manifest.crds.len(), CRDS_MAX);
    for (index, text) in manifest.crds.iter().enumerate().take(CRDS_MAX) {
        let at = format!("crds.{index}");
        match serde_json::from_str::<Value>(text) {
            Err(error) => faults.add(at, format!("is no JSON: {error}")),
            Ok(crd) => one_crd(&at, &crd, faults),
        }
    }
}

/// Enough to tell a definition from another object; its schema is the API server's to judge.
fn one_crd(at: &str, crd: &Value, faults: &mut Faults) {
    let text = |pointer: &str| crd.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    if text("/kind") != "CustomResourceDefinition" || text("/apiVersion") != "apiextensions.k8s.io/v1" {
        faults.add(at, "is no CustomResourceDefinition of apiextensions.k8s.io/v1");
        return;
    }
    let expected = format!("{}.{}", text("/spec/names/plural"), text("/spec/group"));
    if text("/metadata/name") != expected {
        faults.add(
            at,
            format!("is named {:?} and must be named {expected:?}", shortened(text("/metadata/name"))),
        );
    }
    let gvk = Gvk::new(text("/spec/group"), "v1", text("/spec/names/kind"));
    faults.note(at, names::kind(&gvk));
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn manifest() -> Manifest {
        Manifest {
            name: "demo".into(),
            version: "0.1.0".into(),
            summary: "Shows something".into(),
            controllers: vec![controller("main")],
            permissions: vec![],
            providers: vec![],
            crds: vec![],
            config_schema: None,
        }
    }

    fn controller(name: &str) -> Controller {
        let primary = Gvk::new("", "v1", "ConfigMap");
        Controller { name: name.into(), primary, labels: String::new(), view: vec![], resync: None }
    }

    fn check_with(change: impl FnOnce(&mut Manifest), expected: Expect) {
        let mut manifest = manifest();
        change(&mut manifest);
        let faults = check(&manifest).err().unwrap_or_default();
        expected.assert_eq(&faults.iter().map(|fault| format!("{fault}\n")).collect::<String>());
    }

    #[test]
    fn a_sound_manifest_has_no_faults() {
        check_with(|_| {}, expect![""]);
    }

    #[test]
    fn two_controllers_cannot_share_a_name() {
        check_with(
            |m| m.controllers.push(controller("main")),
            expect![[r#"
            controllers.main: is there twice
        "#]],
        );
    }

    #[test]
    fn a_wrong_kind_selector_or_pointer_is_named_by_its_place() {
        check_with(
            |m| {
                m.controllers[0].primary = Gvk::new("a b", "v1", "Config/Map");
                m.controllers[0].labels = "a=b=c".into();
                m.controllers[0].view = vec!["spec".into()];
                m.controllers[0].resync = Some(5);
            },
            expect![[r#"
                controllers.main.primary: ' ' may not stand there
                controllers.main.labels: expected ',' or the end, found '=' at byte 3
                controllers.main.view: "spec" is no JSON pointer
                controllers.main.resync: 5 ms is not between a second and a year
            "#]],
        );
    }

    #[test]
    fn secrets_are_asked_for_by_name() {
        let secret = Gvk::new("", "v1", "Secret");
        let permission = |verbs, names: &[&str]| Permission {
            gvk: secret.clone(),
            verbs,
            names: names.iter().map(|&name| name.into()).collect(),
        };
        check_with(
            |m| m.permissions = vec![permission(vec![Verb::Get, Verb::List], &["*"])],
            expect![[r#"
                permissions.Secret: lists Secrets: only single ones may be asked for, by name
                permissions.Secret: asks for every Secret: it must name those that it wants to see, or leave that to the operator
            "#]],
        );
        check_with(|m| m.permissions = vec![permission(vec![Verb::Get], &["*-login"])], expect![""]);
        // Which ones is then for the operator's grant to say: without it the permission stands for none.
        check_with(|m| m.permissions = vec![permission(vec![Verb::Get], &[])], expect![""]);
    }

    #[test]
    fn secrets_are_primaries_of_a_controller_that_sees_their_metadata_alone() {
        let secrets = |view: &'static [&'static str]| {
            move |m: &mut Manifest| {
                m.controllers[0].primary = Gvk::new("", "v1", "Secret");
                m.controllers[0].view = view.iter().map(|&pointer| pointer.into()).collect();
            }
        };
        for view in [&[][..], &["/metadata/name", "/data"], &["/metadatax"]] {
            check_with(
                secrets(view),
                expect![[r#"
                    controllers.main.primary: is Secret: a plugin would be shown every one of them; a view of metadata alone is fine
                "#]],
            );
        }
        check_with(secrets(&["/metadata/name", "/metadata/finalizers"]), expect![""]);
    }

    #[test]
    fn versions_are_semantic() {
        for version in ["1.2.3", "0.1.0", "1.0.0-rc.1", "1.0.0+build.5"] {
            assert!(is_semantic(version), "{version}");
        }
        for version in ["", "1", "1.2", "v1.2.3", "1.2.3.4", "01.2.3", "1.2.x", "1.2.3-"] {
            assert!(!is_semantic(version), "{version}");
        }
    }

    #[test]
    fn a_definition_is_one_and_is_named_by_its_plural_and_group() {
        check_with(
            |m| {
                m.crds = vec![
                    "{".into(),
                    r#"{"kind":"ConfigMap","apiVersion":"v1"}"#.into(),
                    r#"{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1","metadata":{"name":"x"},
                       "spec":{"group":"a.b","names":{"plural":"as","kind":"A"}}}"#
                        .into(),
                ];
            },
            expect![[r#"
                crds.0: is no JSON: EOF while parsing an object at line 1 column 1
                crds.1: is no CustomResourceDefinition of apiextensions.k8s.io/v1
                crds.2: is named "x" and must be named "as.a.b"
            "#]],
        );
    }
}
