//! The operations, carried out.

use std::sync::Arc;

use evenkeel_core::contract::{Failure, FailureKind, Json, Operation};

use super::answer::{blocking, error, json, read};
use super::ledger::{Begin, Ended, Group};
use super::process::{self, TIMED_OUT};
use super::trouble::{invalid, transient, with_state};
use super::{Inner, files, hooks, lock};
use crate::device::seal;
use crate::device::words::{
    AppId, Code, DaemonReload, Decommission, DecommissionTarget, Error, InstallApp, NoArguments, Outcome,
    Prefetch, Prune, Reboot, RemoveFile, RestoreFile, RollbackOs, RunHook, SetMonitors, StageOs, WriteFile,
    WriteSpec,
};

/// A long operation, with its arguments.
enum Long {
    RunHook(RunHook),
    InstallApp(InstallApp),
    RemoveApp(AppId),
    StartApp(AppId),
    StopApp(AppId),
    RestartApp(AppId),
    StageOs(StageOs),
    Reboot(Reboot),
    RollbackOs(RollbackOs),
    Prune(Prune),
    Decommission(Decommission),
}

impl Inner {
    /// Carries an operation out, or takes it on.
    pub(super) async fn perform(self: Arc<Self>, operation: &Operation) -> Result<Option<Json>, Failure> {
        let (name, text) = (operation.operation.as_str(), &*operation.arguments);
        let outcome = match name {
            "write-spec" => {
                let wanted = read::<WriteSpec>(name, text)?;
                done(Arc::clone(&self).on_disk(move |inner| inner.write_spec(&wanted)).await)
            }
            "write-file" => {
                let wanted = read::<WriteFile>(name, text)?;
                done(Arc::clone(&self).on_disk(move |inner| inner.write_file(&wanted)).await)
            }
            "remove-file" => {
                let RemoveFile { path, backup } = read(name, text)?;
                done(Arc::clone(&self).on_disk(move |inner| lock(&inner.files).remove(&path, backup)).await)
            }
            "restore-file" => {
                let RestoreFile { path, backup } = read(name, text)?;
                let restore = move |inner: &Self| lock(&inner.files).restore(&path, backup.as_deref());
                done(Arc::clone(&self).on_disk(restore).await)
            }
            "set-monitors" => {
                let SetMonitors { monitors } = read(name, text)?;
                let set = lock(&self.monitors).set(monitors.as_ref());
                self.monitors_changed.notify_one();
                done(set.map_err(invalid))
            }
            "daemon-reload" => {
                let DaemonReload { user } = read(name, text)?;
                done(self.apps.daemon_reload(user.as_deref()).await)
            }
            "unstage-os" => {
                read::<NoArguments>(name, text)?;
                let done = done(self.os.unstage().await);
                self.asked.tell(&["os"]);
                done
            }
            "report" => {
                read::<NoArguments>(name, text)?;
                self.service.ask_report();
                Outcome::Done
            }
            "prefetch" => {
                self.images.want(read::<Prefetch>(name, text)?.refs);
                self.asked.tell(&["images"]);
                Outcome::Done
            }
            _ => self.take_on(operation, Long::read(name, text)?),
        };
        json(&outcome).map(Some)
    }

    async fn on_disk(
        self: Arc<Self>,
        work: impl FnOnce(&Self) -> Result<(), Failure> + Send + 'static,
    ) -> Result<(), Failure> {
        blocking(move || work(&self)).await
    }

    fn write_spec(&self, wanted: &WriteSpec) -> Result<(), Failure> {
        let rendered = self.service.device();
        let written = lock(&self.specs).write(wanted, rendered.as_ref());
        self.asked.tell(&["spec-files"]);
        written?;
        if wanted.state.is_some() {
            self.settle_ledger();
        }
        Ok(())
    }

    fn write_file(&self, wanted: &WriteFile) -> Result<(), Failure> {
        let path = &wanted.path;
        let device = lock(&self.specs).device(wanted.spec)?;
        let entry = seal::find_file(&device, path)
            .ok_or_else(|| Failure::new(FailureKind::Conflict, format!("no spec file has {path}")))?;
        let bytes = seal::content(entry).map_err(|why| invalid(format!("cannot write {path}: {why}")))?;
        if seal::sha256(&bytes) != wanted.sha256 {
            let message = format!("the content of {path} is not what it was when this was decided");
            return Err(Failure::new(FailureKind::Conflict, message));
        }
        let wanted = files::Wanted {
            bytes: &bytes,
            mode: wanted.mode,
            user: &wanted.user,
            group: &wanted.group,
            expect: wanted.expect.as_ref(),
            backup: wanted.backup,
        };
        lock(&self.files).write(path, &wanted)
    }

    /// Puts a long operation on record and begins it; one that was seen before is not begun again.
    fn take_on(self: &Arc<Self>, operation: &Operation, long: Long) -> Outcome {
        let key = operation.key.to_string();
        let begun = lock(&self.ledger).begin(&key, &operation.operation, &self.now());
        match begun {
            Err(cause) => Outcome::Failed { error: error(&with_state("record", &key, &cause)) },
            Ok(Begin::Seen) => Outcome::Accepted,
            Ok(Begin::New) => {
                if let Long::RunHook(hook) = long {
                    // One after the other, in the order in which they were given.
                    let _ = self.hooks.0.send((key, hook));
                } else {
                    let inner = Arc::clone(self);
                    tokio::spawn(async move {
                        if let Some(ended) = Arc::clone(&inner).carry_out(long).await {
                            inner.end(&key, ended).await;
                        }
                    });
                }
                Outcome::Accepted
            }
        }
    }

    /// Runs hooks, one after the other, for ever.
    pub(super) async fn run_hooks(self: Arc<Self>) {
        let Some(mut hooks) = lock(&self.hooks.1).take() else { return };
        while let Some((key, hook)) = hooks.recv().await {
            let ended = self.run_hook(&key, &hook).await;
            Arc::clone(&self).end(&key, ended).await;
        }
    }

    async fn end(self: Arc<Self>, key: &str, ended: Ended) {
        let (inner, recorded) = (Arc::clone(&self), key.to_owned());
        // Whatever comes of the task: the operation is over.
        let _ = tokio::task::spawn_blocking(move || lock(&inner.ledger).end(&recorded, ended)).await;
        self.tell_operation(key);
    }

    fn tell_operation(&self, key: &str) {
        let asks = |text: &str| {
            serde_json::from_str::<crate::device::words::AskOperation>(text).is_ok_and(|ask| ask.key == key)
        };
        for (query, _) in self.asked.of("operation") {
            if asks(&query.arguments) {
                self.asked.tell_one(query);
            }
        }
    }

    /// What comes of it; none where nobody can tell but the next boot.
    async fn carry_out(self: Arc<Self>, long: Long) -> Option<Ended> {
        let mut reboots = false;
        let outcome = match long {
            // They have a queue of their own.
            Long::RunHook(_) => return None,
            Long::InstallApp(app) => {
                let device = lock(&self.specs).device(app.spec);
                match device {
                    Ok(device) => self.apps.install(&device, &app).await,
                    Err(failure) => Err(failure),
                }
            }
            Long::RemoveApp(app) => self.apps.remove(&app.id).await,
            Long::StartApp(app) => self.apps.start(&app.id).await,
            Long::StopApp(app) => self.apps.stop(&app.id).await,
            Long::RestartApp(app) => self.apps.restart(&app.id).await,
            Long::StageOs(StageOs { image }) => self.os.stage(&image).await,
            Long::Reboot(reboot) => {
                let expected = match &reboot.expect {
                    Some(image) => self.os.expect_staged(image).await,
                    None => Ok(()),
                };
                reboots = true;
                match expected {
                    Ok(()) => self.os.reboot().await,
                    Err(failure) => Err(failure),
                }
            }
            Long::RollbackOs(RollbackOs { expect }) => {
                reboots = true;
                match self.os.roll_back(&expect).await {
                    Ok(()) => self.os.reboot().await,
                    Err(failure) => Err(failure),
                }
            }
            Long::Prune(prune) => Arc::clone(&self).prune(prune).await,
            Long::Decommission(Decommission { target: DecommissionTarget::FactoryReset }) => {
                Err(invalid("this host resets no machine to its factory state"))
            }
            Long::Decommission(Decommission { target }) => {
                self.service.ask_decommission(target);
                Ok(())
            }
        };
        self.asked.tell(&["applications", "os", "images", "files"]);
        if reboots && outcome.is_ok() {
            return None; // It goes on until the boot id is another one.
        }
        Some(outcome.map_or_else(|failure| Ended::badly(error(&failure)), |()| Ended::well()))
    }

    async fn prune(self: Arc<Self>, prune: Prune) -> Result<(), Failure> {
        let backups = prune.backups;
        Arc::clone(&self).on_disk(move |inner| lock(&inner.files).prune(&backups)).await?;
        self.images.prune(&prune.images).await
    }

    async fn run_hook(&self, key: &str, wanted: &RunHook) -> Ended {
        let element = format!("{}#{}", wanted.file, wanted.index);
        let program = hooks::program_of(&self.root, wanted);
        let (program, secrets) = match program {
            Ok(found) => found,
            Err(failure) => return Ended::badly(error(&failure)),
        };
        let running = match program.start() {
            Ok(running) => running,
            Err(cause) => {
                let failure = super::trouble::with_file("run", &element, &cause);
                return Ended::badly(error(&failure));
            }
        };
        if let Some(started) = process::started(running.pid()) {
            let pid = running.pid().as_raw_nonzero().get();
            let group = Group { pid, started, boot_id: self.boot_id.clone() };
            if let Err(error) = lock(&self.ledger).group(key, group) {
                tracing::warn!(%error, hook = %element, "the process of a hook is not on record");
            }
        }
        let ran = match running.finish(program.timeout, program.keep).await {
            Ok(ran) => ran,
            Err(cause) => {
                return Ended::badly(error(&transient(format!("cannot wait for {element}: {cause}"))));
            }
        };
        let told = |stream: &[u8]| hooks::strike_out(stream, &secrets).trim_end().to_owned();
        tracing::info!(hook = %element, code = ran.code, out = %told(&ran.out), err = %told(&ran.err), "a hook ended");
        if ran.succeeded() {
            return Ended { exit_code: Some(0), error: None };
        }
        let message = if ran.timed_out {
            format!("no end within {} ms", wanted.timeout_ms)
        } else {
            format!("exit {}", ran.code)
        };
        let code = if ran.timed_out { TIMED_OUT } else { ran.code };
        Ended { exit_code: Some(code), error: Some(Error { code: Code::Invalid, message }) }
    }
}

impl Long {
    fn read(name: &str, text: &str) -> Result<Self, Failure> {
        Ok(match name {
            "run-hook" => Self::RunHook(read(name, text)?),
            "install-app" => Self::InstallApp(read(name, text)?),
            "remove-app" => Self::RemoveApp(read(name, text)?),
            "start-app" => Self::StartApp(read(name, text)?),
            "stop-app" => Self::StopApp(read(name, text)?),
            "restart-app" => Self::RestartApp(read(name, text)?),
            "stage-os" => Self::StageOs(read(name, text)?),
            "reboot" => Self::Reboot(read(name, text)?),
            "rollback-os" => Self::RollbackOs(read(name, text)?),
            "prune" => Self::Prune(read(name, text)?),
            "decommission" => Self::Decommission(read(name, text)?),
            other => return Err(invalid(format!("device has no operation {other:?}"))),
        })
    }
}

fn done(outcome: Result<(), Failure>) -> Outcome {
    match outcome {
        Ok(()) => Outcome::Done,
        Err(failure) => Outcome::Failed { error: error(&failure) },
    }
}
