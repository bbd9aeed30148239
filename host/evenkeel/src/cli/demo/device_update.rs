//! A device: it is updated, put right, and comes back from an update that fails. The machine is a real folder tree, changed by
//! the provider for real machines.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use evenkeel_engine::clock::{Clock, SystemClock};
use evenkeel_providers::device::linux::LinuxDevice;
use evenkeel_providers::device::linux::config::LinuxOptions;
use evenkeel_providers::device::linux::service::Service;
use serde_json::Value;

use super::far_end::FarEnd;
use super::heading;
use super::stage::{Kind, Stage};
use crate::output::say;

const ONE: &str = include_str!("../../../../../deploy/samples/device/one.yaml");
const WEB: &str = include_str!("../../../../../deploy/samples/device/web.yaml");
const FAILS: &str = include_str!("../../../../../deploy/samples/device/fails.yaml");
/// The Device that wants nothing.
const NOTHING: &str =
    "{apiVersion: flightctl.io/v1beta1, kind: Device, metadata: {name: device}, spec: {config: []}}";

const DEVICES: Kind = Kind("flightctl.io/v1beta1", "Device");
/// The name of the samples.
const NAME: &str = "device";
/// What an administrator had written there before.
const BEFORE: &str = "The administrator's own words.\n";

/// What the operator says: the spec of the object itself counts.
pub const SETTINGS: &str = "config: {source: object}";

/// What to try afterwards: the command, and what it shows.
pub const TRIES: &[(&str, &str)] = &[
    ("kubectl get devices --watch", "the device, as it is updated"),
    ("kubectl apply --server-side -f deploy/samples/device/fails.yaml", "an update that fails and is undone"),
    ("kubectl apply --server-side -f deploy/samples/device/one.yaml", "one that works; the application goes"),
    ("kubectl get device device -o yaml", "its conditions, applications and resources"),
    ("evenkeel explain Device device", "why it did that, and what the machine said"),
];

/// In the place of podman-compose and podman: what runs is a file a project. A demo starts nothing of the machine that it
/// runs on, and fetches no image.
const STAND_INS: [(&str, &str); 2] = [
    (
        "podman-compose",
        "#!/bin/sh\nhere=\"$(dirname \"$0\")/../..\"; mkdir -p \"$here/runs\"\n\
         case \"$5\" in up) touch \"$here/runs/$2\" ;; down) rm -f \"$here/runs/$2\" ;; esac\n",
    ),
    (
        "podman",
        "#!/bin/sh\nhere=\"$(dirname \"$0\")/../..\"\ncase \"$*\" in\n\
         ps*io.podman.compose.project=*) if [ -e \"$here/runs/${*##*=}\" ]; then echo '[{\"Id\":\"1\",\"State\":\"running\"}]'; else echo '[]'; fi ;;\n\
         ps*) echo '[]' ;;\nimage*inspect*) echo sha256:d ;;\nesac\n",
    ),
];

/// A machine below a temporary folder.
pub struct Tree {
    device: Arc<LinuxDevice>,
    folder: tempfile::TempDir,
}

impl Tree {
    /// With a file of its administrator, and stand-ins for podman. Call it inside a tokio runtime.
    pub fn new() -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("evenkeel-device-").tempdir()?;
        put(&folder.path().join("etc/motd"), BEFORE, 0o600)?;
        for (name, script) in STAND_INS {
            put(&folder.path().join("usr/bin").join(name), script, 0o755)?;
        }
        let mut options = LinuxOptions::new(NAME, Arc::new(|| SystemClock.now()));
        folder.path().clone_into(&mut options.root);
        let device = LinuxDevice::open(options, Arc::new(Service::default()))?;
        Ok(Self { device: Arc::new(device), folder })
    }

    /// The provider.
    pub fn as_provider(&self) -> Arc<LinuxDevice> {
        Arc::clone(&self.device)
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path.trim_start_matches('/'))
    }

    fn text(&self, path: &str) -> String {
        std::fs::read_to_string(self.path(path)).unwrap_or_default()
    }

    /// Every file below `/etc`, with its mode.
    fn files(&self) -> anyhow::Result<BTreeMap<PathBuf, (u32, Vec<u8>)>> {
        let (mut found, mut open) = (BTreeMap::new(), vec![self.path("etc")]);
        while let Some(folder) = open.pop() {
            for entry in std::fs::read_dir(&folder)? {
                let (path, kind) = entry.and_then(|entry| Ok((entry.path(), entry.file_type()?)))?;
                if kind.is_dir() {
                    open.push(path);
                } else {
                    let mode = std::fs::metadata(&path)?.permissions().mode();
                    found.insert(path.clone(), (mode, std::fs::read(&path)?));
                }
            }
        }
        Ok(found)
    }

    /// What runs of the applications.
    fn running(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.path("runs")).into_iter().flatten();
        entries.flatten().map(|entry| entry.path()).collect()
    }
}

fn put(path: &Path, text: &str, mode: u32) -> anyhow::Result<()> {
    std::fs::create_dir_all(path.parent().context("a file has a folder")?)?;
    std::fs::write(path, text)?;
    Ok(std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?)
}

fn tree(far_end: &FarEnd) -> anyhow::Result<&Tree> {
    match far_end {
        FarEnd::Device(tree) => Ok(tree),
        FarEnd::None | FarEnd::Simulated(_) | FarEnd::Vcsim(_) => anyhow::bail!("the story needs a machine"),
    }
}

/// Waits until the last update has ended with this reason, and no other one is under way.
async fn ended(stage: &mut Stage<'_>, what: &str, reason: &str) -> anyhow::Result<()> {
    let now = |object: &Value| {
        let conditions = object["status"]["conditions"].as_array();
        let updating = conditions.into_iter().flatten().find(|one| one["type"] == "Updating");
        updating.is_some_and(|one| one["reason"] == reason)
            && object["status"]["config"]["renderedVersion"].is_string()
    };
    let generation = stage.get(DEVICES, None, NAME).map(|object| object["metadata"]["generation"].clone());
    let version = generation.as_ref().and_then(Value::as_i64).unwrap_or_default().to_string();
    stage
        .object(what, (DEVICES, None, NAME), |object| {
            let current = &object["status"]["config"]["renderedVersion"];
            // One that failed leaves the version before in effect.
            now(object) && (reason == "Error") != (*current == *version)
        })
        .await?;
    Ok(())
}

/// The device is updated twice: to a file, then to files, hooks and an application.
pub async fn birth(stage: &mut Stage<'_>, far_end: &FarEnd) -> anyhow::Result<()> {
    let tree = tree(far_end)?;
    say!(
        "  The machine is {}; podman and podman-compose are stand-ins in it.",
        tree.folder.path().display()
    )?;
    say!("{}", heading("kubectl apply --server-side -f deploy/samples/device/one.yaml"))?;
    stage.apply(ONE).await?;
    ended(stage, "the file is in effect", "Updated").await?;
    stage.until("/etc/motd says so", |_| tree.text("etc/motd") == "This device is looked after.\n").await?;
    say!("{}", heading("kubectl apply --server-side -f deploy/samples/device/web.yaml"))?;
    stage.apply(WEB).await?;
    ended(stage, "files, hooks and application are in effect", "Updated").await?;
    let settings = tree.path("etc/web/settings.conf");
    stage
        .until("the settings are there, for root alone", |_| {
            std::fs::metadata(&settings).is_ok_and(|found| found.permissions().mode() & 0o7777 == 0o600)
        })
        .await?;
    stage
        .until("the hook was told what changed, once", |_| {
            tree.text("hooks.log") == "changed /etc/web/settings.conf\n"
        })
        .await?;
    runs(stage, tree, "the application runs").await
}

/// A file is meddled with, the application dies, an update fails, and in the end all is as it was before the first.
pub async fn life_and_death(stage: &mut Stage<'_>, far_end: &FarEnd) -> anyhow::Result<()> {
    let tree = tree(far_end)?;
    let good = tree.files()?;
    say!("{}", heading("echo mine > etc/motd"))?;
    std::fs::write(tree.path("etc/motd"), "mine\n")?;
    stage.until_asked("the file is put right", async || Ok(tree.files()? == good)).await?;
    say!("{}", heading("The application dies"))?;
    tree.running().iter().try_for_each(std::fs::remove_file)?;
    runs(stage, tree, "it is started again").await?;
    say!("{}", heading("kubectl apply --server-side -f deploy/samples/device/fails.yaml"))?;
    stage.apply(FAILS).await?;
    ended(stage, "the update fails, because its hook says so", "Error").await?;
    stage.until_asked("each file is as it was, byte for byte", async || Ok(tree.files()? == good)).await?;
    runs(stage, tree, "the application runs again").await?;
    say!("{}", heading(&format!("kubectl apply --server-side -f - <<< '{NOTHING}'")))?;
    stage.apply(NOTHING).await?;
    ended(stage, "nothing is managed any more", "Updated").await?;
    stage.until("the application is gone", |_| tree.running().is_empty()).await?;
    let before = BTreeMap::from([(tree.path("etc/motd"), BEFORE.as_bytes().to_vec())]);
    let left = |tree: &Tree| -> anyhow::Result<BTreeMap<PathBuf, Vec<u8>>> {
        Ok(tree.files()?.into_iter().map(|(path, (_, bytes))| (path, bytes)).collect())
    };
    stage
        .until_asked("the administrator's file is back, and no other", async || Ok(left(tree)? == before))
        .await
}

/// Waits until the application runs, on the machine and in the status.
async fn runs(stage: &mut Stage<'_>, tree: &Tree, what: &str) -> anyhow::Result<()> {
    let shown = |object: &Value| object["status"]["applications"][0]["status"] == "Running";
    stage
        .until(what, |stage| {
            tree.running().len() == 1 && stage.get(DEVICES, None, NAME).is_some_and(|object| shown(&object))
        })
        .await
}
