//! P1: whether a spec can be what it says, before anything is done for it.

use std::collections::{BTreeMap, BTreeSet};

use crate::boot;
use crate::device::{Application, ConfigProvider, Device, Schedule};
use crate::files;
use crate::flow::{Flow, Halt};
use crate::image;
use crate::words::{
    ApplicationContent, AskApplication, DecommissionTarget, FileKind, OsMode, PullPolicy, Spec, Window,
};

/// Types of applications.
const TYPES: [&str; 5] = ["compose", "quadlet", "container", "helm", "vm"];

/// Folders in which no spec may write: the host's own state. What else it protects, the provider tells by path.
const FORBIDDEN: [&str; 1] = ["/var/lib/flightctl/"];

/// What the provider says of each application's content, by id.
pub type Contents = BTreeMap<String, ApplicationContent>;

/// Checks the goal; a failure names what is wrong first.
pub fn check(flow: &Flow<'_>) -> Result<Contents, Halt> {
    let desired = &flow.desired;
    let os = flow.os()?;
    let update = flow.update()?;
    let image = desired.spec.os.image.as_deref();
    put_questions(flow);
    if desired.spec.os.catalog_item_ref.is_some() && image.is_none() {
        return Err(flow.invalid("os", "catalogItemRef", "the service did not resolve it to an image"));
    }
    if let Some(image) = image {
        if os.mode == OsMode::Package {
            return Err(flow.invalid("os", image, "this device is made of packages and takes no OS image"));
        }
        fault(flow, "os", image)?;
    }
    if desired.spec.decommissioning.is_some_and(|asked| asked.target == DecommissionTarget::FactoryReset) {
        let message = "this host resets no machine to its factory state; Unenroll gives up its credentials";
        return Err(flow.invalid("decommissioning", "FactoryReset", message));
    }
    let providers = &desired.spec.config;
    providers.iter().try_for_each(|provider| rendered(flow, provider))?;
    paths(flow, desired)?;
    owners_and_places(flow, desired)?;
    schedules(flow, desired)?;
    let contents = applications(flow, desired)?;
    // What is missing now, the OS that comes may bring.
    if !boot::changes_os(flow, &update) {
        tools_and_users(flow, desired, &contents)?;
    }
    Ok(contents)
}

/// Puts all that the preparations ask, so that it travels at once.
fn put_questions(flow: &Flow<'_>) {
    let desired = &flow.desired;
    files::put(flow, &desired.files());
    let policy = &desired.spec.update_policy;
    for schedule in [&policy.download_schedule, &policy.update_schedule].into_iter().flatten() {
        flow.put("schedule", &schedule.ask());
        flow.put("window", &schedule.ask());
    }
    for application in &desired.spec.applications {
        let ask = AskApplication { spec: Spec::Desired, name: application.name().to_owned() };
        flow.put("application", &ask);
    }
    flow.put("hooks", &crate::words::AskHooks { hook: crate::words::Hook::BeforeUpdating });
}

fn fault(flow: &Flow<'_>, component: &str, reference: &str) -> Result<(), Halt> {
    match image::fault(reference) {
        Some(fault) => Err(flow.invalid(component, reference, fault)),
        None => Ok(()),
    }
}

fn rendered(flow: &Flow<'_>, provider: &ConfigProvider) -> Result<(), Halt> {
    let kinds =
        [("gitRef", &provider.git_ref), ("secretRef", &provider.secret_ref), ("httpRef", &provider.http_ref)];
    match kinds.into_iter().find(|(_, reference)| reference.is_some()) {
        Some((kind, _)) => {
            Err(flow.invalid("config", &provider.name, format!("the service did not render its {kind}")))
        }
        None => Ok(()),
    }
}

/// What is wrong with a path; none where a file may be written there.
pub fn path_fault(path: &str) -> Option<&'static str> {
    if !path.starts_with('/') {
        return Some("its path is not absolute");
    }
    if path.ends_with('/') || path.contains("//") || path.contains('\0') || path.len() > 4095 {
        return Some("its path names no file");
    }
    if path.split('/').any(|part| part == ".." || part == ".") {
        return Some("its path has . or .. in it");
    }
    if FORBIDDEN.iter().any(|folder| path.starts_with(folder)) {
        return Some("nothing may be written there");
    }
    None
}

fn paths(flow: &Flow<'_>, desired: &Device) -> Result<(), Halt> {
    // All entries, not only those that win: a spec that contradicts itself is not half taken.
    let mut within = BTreeMap::new();
    for provider in &desired.spec.config {
        for file in provider.inline.iter().flatten() {
            if let Some(fault) = path_fault(&file.path) {
                return Err(flow.invalid("config", &file.path, fault));
            }
            if let Some(error) = &file.error {
                return Err(flow.invalid("config", &file.path, error.clone()));
            }
            if file.mode() > 0o7777 {
                return Err(flow.invalid(
                    "config",
                    &file.path,
                    format!("{:o} are no permission bits", file.mode()),
                ));
            }
            within.insert(file.path.as_str(), ());
        }
    }
    // A file cannot be a folder of another one.
    for path in within.keys() {
        let below = format!("{path}/");
        if let Some((inner, ())) = within.range(below.as_str()..).next()
            && inner.starts_with(&below)
        {
            return Err(flow.invalid("config", path, format!("it is a file, and {inner} lies below it")));
        }
    }
    Ok(())
}

/// Users and groups exist, and no folder is in the way. An OS that is pending may bring users.
fn owners_and_places(flow: &Flow<'_>, desired: &Device) -> Result<(), Halt> {
    let wanted = desired.files();
    let seen = files::look(flow, &wanted)?;
    let update = flow.update()?;
    let pending = boot::changes_os(flow, &update);
    for (path, file) in &wanted {
        let there = seen.files.get(*path);
        if let Some(refused) = there.and_then(|there| there.refused.as_ref()) {
            return Err(flow.invalid("config", path, refused.clone()));
        }
        if there.is_some_and(|there| there.exists && there.kind == FileKind::Dir) {
            return Err(flow.invalid("config", path, "a directory is in the way"));
        }
        if pending {
            continue;
        }
        if seen.users.get(&file.user()).is_some_and(Option::is_none) {
            return Err(flow.invalid("config", path, format!("there is no user {:?}", file.user())));
        }
        if seen.groups.get(&file.group()).is_some_and(Option::is_none) {
            return Err(flow.invalid("config", path, format!("there is no group {:?}", file.group())));
        }
    }
    Ok(())
}

fn schedules(flow: &Flow<'_>, desired: &Device) -> Result<(), Halt> {
    let policy = &desired.spec.update_policy;
    let named =
        [("downloadSchedule", &policy.download_schedule), ("updateSchedule", &policy.update_schedule)];
    for (name, schedule) in named {
        let Some(schedule) = schedule else { continue };
        if let Some(error) = window_fault(flow, schedule)? {
            return Err(flow.invalid("updatePolicy", name, error));
        }
    }
    Ok(())
}

fn window_fault(flow: &Flow<'_>, schedule: &Schedule) -> Result<Option<String>, Halt> {
    Ok(flow.look::<Window>("schedule", &schedule.ask())?.error)
}

fn applications(flow: &Flow<'_>, desired: &Device) -> Result<Contents, Halt> {
    let mut ids = BTreeSet::new();
    let mut asked = Vec::new();
    for application in &desired.spec.applications {
        let name = application.name();
        one_application(flow, application, name)?;
        if !ids.insert(application.id()) {
            return Err(flow.invalid("applications", name, "another application has the same name"));
        }
        let ask = AskApplication { spec: Spec::Desired, name: name.to_owned() };
        asked.push((application.id(), flow.ask::<ApplicationContent>("application", &ask)));
    }
    let mut contents = Contents::new();
    for (id, asked) in asked {
        contents.insert(id, asked.read()?.map_err(evenkeel_sdk::Stop::Fail)?);
    }
    Ok(contents)
}

fn one_application(flow: &Flow<'_>, application: &Application, name: &str) -> Result<(), Halt> {
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if !starts_well || name.len() > 253 || name.contains(char::is_whitespace) {
        return Err(flow.invalid(
            "applications",
            name,
            "its name has to be 1 to 253 characters without white space",
        ));
    }
    if !TYPES.contains(&application.app_type.as_str()) {
        return Err(flow.invalid("applications", name, format!("unknown type {:?}", application.app_type)));
    }
    if application.catalog_item_ref.is_some() && application.image.is_none() {
        return Err(flow.invalid("applications", name, "the service did not resolve its catalogItemRef"));
    }
    if application.image.is_none()
        && (application.inline.is_none() || matches!(&*application.app_type, "container" | "helm"))
    {
        return Err(flow.invalid("applications", name, "it has no content"));
    }
    if let Some(image) = &application.image {
        fault(flow, "applications", image)?;
    }
    for file in application.inline.iter().flatten() {
        let leaves =
            file.path.starts_with('/') || file.path.split('/').any(|part| part == ".." || part.is_empty());
        if leaves {
            return Err(flow.invalid(
                "applications",
                name,
                format!("{:?} is no path within its folder", file.path),
            ));
        }
        if let Some(error) = &file.error {
            return Err(flow.invalid("applications", name, format!("{}: {error}", file.path)));
        }
    }
    for volume in &application.volumes {
        let Some(image) = &volume.image else { continue };
        if image.catalog_item_ref.is_some() && image.reference.is_none() {
            return Err(flow.invalid(
                "applications",
                name,
                "the service did not resolve a volume's catalogItemRef",
            ));
        }
        if let Some(reference) = &image.reference {
            fault(flow, "applications", reference)?;
        }
    }
    Ok(())
}

/// Programs and users that applications need.
pub fn tools_and_users(flow: &Flow<'_>, desired: &Device, contents: &Contents) -> Result<(), Halt> {
    let applications = desired.applications();
    let users: BTreeSet<String> =
        applications.values().filter_map(|application| application.run_as.clone()).collect();
    if !users.is_empty() {
        let ask = crate::words::AskFiles { users: users.into_iter().collect(), ..Default::default() };
        let seen: crate::words::FilesSeen = flow.look("files", &ask)?;
        for application in applications.values() {
            if let Some(user) = &application.run_as
                && seen.users.get(user).is_some_and(Option::is_none)
            {
                return Err(flow.invalid(
                    "applications",
                    application.name(),
                    format!("there is no user {user:?}"),
                ));
            }
        }
    }
    for (id, application) in &applications {
        let missing = contents.get(id).map(|content| content.missing.join(", ")).unwrap_or_default();
        if !missing.is_empty() {
            return Err(flow.invalid(
                "applications",
                application.name(),
                format!("this device lacks {missing}"),
            ));
        }
    }
    Ok(())
}

/// When an application's own image is pulled.
pub fn pull_policy(application: &Application) -> PullPolicy {
    let policy = application.rest.get("pullPolicy").cloned().unwrap_or_default();
    serde_json::from_value(policy).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_to_be_absolute_plain_and_nobody_elses() {
        for good in ["/etc/a", "/var/lib/app/a.b", "/etc/..a", "/opt/x"] {
            assert_eq!(path_fault(good), None, "{good}");
        }
        for bad in [
            "",
            "etc/a",
            "/etc/../a",
            "/etc/./a",
            "/etc/",
            "/etc//a",
            "/var/lib/flightctl/current.json",
            "/a\0b",
        ] {
            assert!(path_fault(bad).is_some(), "{bad:?}");
        }
    }
}
