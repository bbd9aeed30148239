//! The operating system as an image: bootc, or rpm-ostree, by their command lines.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use evenkeel_core::contract::{Failure, FailureKind};
use serde_json::Value;

use super::image_name::{self, ImageName};
use super::process::{Keep, PATH, Program, Ran};
use super::trouble::{denied, invalid, transient};
use crate::device::words::{BootCheck, CheckState, Os, OsImage, OsMode};

/// A question to the backend.
const ASK_TIMEOUT: Duration = Duration::from_secs(60);
/// A switch of images writes a whole system.
const STAGE_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// Bytes of a status.
const STATUS_BYTES_MAX: usize = 4 << 20;
/// What greenboot calls itself.
const GREENBOOT: &str = "greenboot-healthcheck.service";

/// The programs of the machine that change its operating system; none that is not there, or must not be touched.
#[derive(Clone, Debug, Default)]
pub(super) struct OsTools {
    pub(super) bootc: Option<PathBuf>,
    pub(super) rpm_ostree: Option<PathBuf>,
    pub(super) ostree: Option<PathBuf>,
    pub(super) systemctl: Option<PathBuf>,
    /// What reboots, with its arguments; empty where nothing may.
    pub(super) reboot: Vec<String>,
}

impl OsTools {
    /// How the operating system stands.
    pub(super) async fn see(&self) -> Result<Os, Failure> {
        let mut os = if let Some(bootc) = &self.bootc {
            read_bootc(&status(bootc, &["status", "--json"]).await?)
        } else if let Some(rpm_ostree) = &self.rpm_ostree {
            read_rpm_ostree(&status(rpm_ostree, &["status", "--json"]).await?)
        } else {
            Os { mode: OsMode::Package, backend: "none".to_owned(), ..Os::default() }
        };
        os.check = self.check().await;
        Ok(os)
    }

    /// How the check of this boot stands. A question that fails counts as no check: what cannot tell cannot hold up.
    async fn check(&self) -> BootCheck {
        let Some(systemctl) = &self.systemctl else { return BootCheck::default() };
        let says = async |words: &[&str]| {
            let ran = ask(systemctl, words).await;
            ran.map(|ran| ran.text().trim().to_owned()).unwrap_or_default()
        };
        if says(&["is-enabled", GREENBOOT]).await != "enabled" {
            return BootCheck::default();
        }
        let state = if says(&["is-active", "boot-complete.target"]).await == "active" {
            CheckState::Passed
        } else if says(&["is-failed", GREENBOOT]).await == "failed" {
            CheckState::Failed
        } else {
            CheckState::Pending
        };
        BootCheck { enabled: true, state }
    }

    /// Has the next boot take an image, which is in the storage of containers already.
    pub(super) async fn stage(&self, image: &str) -> Result<(), Failure> {
        let name =
            ImageName::parse(image).ok_or_else(|| invalid(format!("{image:?} is no image reference")))?;
        let single = name.single();
        if let Some(bootc) = &self.bootc {
            let words = ["switch", "--transport", "containers-storage", "--retain", &single];
            return done("stage", image, run(bootc, &words, STAGE_TIMEOUT).await?);
        }
        if let Some(rpm_ostree) = &self.rpm_ostree {
            let from = format!("ostree-unverified-image:containers-storage:{single}");
            return done("stage", image, run(rpm_ostree, &["rebase", &from], STAGE_TIMEOUT).await?);
        }
        Err(invalid(format!("cannot stage {image}: this system is not made of images")))
    }

    /// Has the next boot take what is booted, and makes sure.
    pub(super) async fn unstage(&self) -> Result<(), Failure> {
        let before = self.see().await?;
        let Some(staged) = before.staged else { return Ok(()) };
        if let (Some(bootc), ostree) = (&self.bootc, &self.ostree) {
            match ostree {
                // The staged deployment is the first.
                Some(ostree) => {
                    done(
                        "unstage",
                        &staged.image,
                        run(ostree, &["admin", "undeploy", "0"], ASK_TIMEOUT).await?,
                    )?;
                }
                None => {
                    let words = ["switch", "--retain", &before.booted.image];
                    done("unstage", &staged.image, run(bootc, &words, STAGE_TIMEOUT).await?)?;
                }
            }
        } else if let Some(rpm_ostree) = &self.rpm_ostree {
            let words = ["cleanup", "--pending"];
            done("unstage", &staged.image, run(rpm_ostree, &words, ASK_TIMEOUT).await?)?;
        }
        match self.see().await?.staged {
            Some(still) if !image_name::same(&still.image, &before.booted.image) => {
                Err(transient(format!("{} is still staged", still.image)))
            }
            _ => Ok(()),
        }
    }

    /// Refuses unless this image is the one that a reboot takes.
    pub(super) async fn expect_staged(&self, expect: &str) -> Result<(), Failure> {
        let staged = self.see().await?.staged.unwrap_or_default().image;
        if image_name::same(&staged, expect) { Ok(()) } else { Err(conflict("staged", &staged, expect)) }
    }

    /// Has the next boot take the deployment before, if that is this image.
    pub(super) async fn roll_back(&self, expect: &str) -> Result<(), Failure> {
        let there = self.see().await?.rollback.unwrap_or_default().image;
        if !image_name::same(&there, expect) {
            return Err(conflict("the way back", &there, expect));
        }
        let tool = self.bootc.as_ref().or(self.rpm_ostree.as_ref());
        let tool = tool.ok_or_else(|| invalid("this system is not made of images"))?;
        done("roll back to", expect, run(tool, &["rollback"], STAGE_TIMEOUT).await?)
    }

    /// Reboots. That it came to it is told by another boot id alone.
    pub(super) async fn reboot(&self) -> Result<(), Failure> {
        let Some((program, arguments)) = self.reboot.split_first() else {
            return Err(denied("no command is set that may reboot this machine"));
        };
        let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let ran = run(Path::new(program), &words, ASK_TIMEOUT).await?;
        // The reboot may kill the command that asked for it.
        if ran.code == 137 || ran.code == 143 { Ok(()) } else { done("reboot", "the machine", ran) }
    }
}

fn conflict(what: &str, found: &str, expected: &str) -> Failure {
    let found = if found.is_empty() { "nothing" } else { found };
    Failure::new(FailureKind::Conflict, format!("{what} is {found}, expected {expected}"))
}

async fn ask(program: &Path, words: &[&str]) -> Result<Ran, Failure> {
    run(program, words, ASK_TIMEOUT).await
}

async fn run(program: &Path, words: &[&str], timeout: Duration) -> Result<Ran, Failure> {
    let name = program.display().to_string();
    let argv = std::iter::once(name.clone()).chain(words.iter().map(|word| (*word).to_owned())).collect();
    let env =
        BTreeMap::from([("PATH".to_owned(), PATH.to_owned()), ("LC_ALL".to_owned(), "C.UTF-8".to_owned())]);
    let program =
        Program { argv, env, folder: PathBuf::from("/"), timeout, keep: Keep::All(STATUS_BYTES_MAX) };
    program.run().await.map_err(|error| transient(format!("cannot run {name}: {error}")))
}

fn done(what: &str, element: &str, ran: Ran) -> Result<(), Failure> {
    if ran.timed_out {
        return Err(transient(format!("cannot {what} {element}: it took too long")));
    }
    if ran.succeeded() {
        return Ok(());
    }
    Err(invalid(format!("cannot {what} {element}: exit {}: {}", ran.code, ran.complaint())))
}

/// A status; whatever is no JSON is a trouble of the moment.
async fn status(program: &Path, words: &[&str]) -> Result<Value, Failure> {
    let ran = ask(program, words).await?;
    let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if !ran.succeeded() {
        return Err(transient(format!("{name} does not tell its status: {}", ran.complaint())));
    }
    serde_json::from_slice(&ran.out).map_err(|_| transient(format!("{name} tells its status in no JSON")))
}

fn read_bootc(status: &Value) -> Os {
    let entry = |name: &str| -> Option<OsImage> {
        let image = status.pointer(&format!("/status/{name}/image"))?;
        let reference = image.pointer("/image/image").and_then(Value::as_str)?;
        let digest = image.pointer("/imageDigest").and_then(Value::as_str).unwrap_or_default();
        Some(OsImage { image: reference.to_owned(), digest: digest.to_owned() })
    };
    Os {
        mode: OsMode::Image,
        backend: "bootc".to_owned(),
        booted: entry("booted").unwrap_or_default(),
        staged: entry("staged"),
        rollback: entry("rollback"),
        check: BootCheck::default(),
    }
}

fn read_rpm_ostree(status: &Value) -> Os {
    let deployments: Vec<&Value> =
        status.pointer("/deployments").and_then(Value::as_array).into_iter().flatten().collect();
    let is = |one: &Value, what: &str| one.get(what).and_then(Value::as_bool).unwrap_or_default();
    let image = |one: &Value| {
        let text = |name: &str| one.get(name).and_then(Value::as_str).unwrap_or_default();
        // Such as ostree-unverified-registry:quay.io/x/os:1
        let reference = text("container-image-reference");
        let reference = reference.strip_prefix("ostree-unverified-registry:").unwrap_or_else(|| {
            reference.rsplit_once("containers-storage:").map_or(reference, |(_, name)| name)
        });
        let reference = reference.trim_start_matches("docker://");
        OsImage { image: reference.to_owned(), digest: text("container-image-reference-digest").to_owned() }
    };
    let booted = deployments.iter().position(|one| is(one, "booted"));
    let before = deployments.iter().skip(booted.map_or(0, |at| at + 1)).find(|one| !is(one, "staged"));
    let first = deployments.first().filter(|one| is(one, "staged") || booted.is_some_and(|at| at > 0));
    Os {
        mode: OsMode::Image,
        backend: "rpm-ostree".to_owned(),
        booted: booted.and_then(|at| deployments.get(at)).map(|one| image(one)).unwrap_or_default(),
        staged: first.filter(|one| !is(one, "booted")).map(|one| image(one)),
        rollback: before.map(|one| image(one)),
        check: BootCheck::default(),
    }
}

#[cfg(test)]
mod tests;
