//! Long operations: accepted under their key once, and ended by time. Also what must never be done.

use std::time::Duration;

use evenkeel_core::contract::Failure;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;

use super::config::Effect;
use super::state::{App, Deed, State, conflict, invalid, new_app};
use crate::device::seal;
use crate::device::words::{
    AppId, AppState, Code, Error, InstallApp, OperationState, Outcome, Prune, Reboot, RollbackOs, RunHook,
    Spec, StageOs,
};

const LONG: [&str; 11] = [
    "run-hook",
    "install-app",
    "remove-app",
    "start-app",
    "stop-app",
    "restart-app",
    "stage-os",
    "reboot",
    "rollback-os",
    "prune",
    "decommission",
];

fn read<T: for<'de> Deserialize<'de>>(arguments: &Value) -> Result<T, Error> {
    T::deserialize(arguments).map_err(|error| invalid(error.to_string()))
}

impl State {
    pub(super) fn is_long(operation: &str) -> bool {
        LONG.contains(&operation)
    }

    /// Puts an operation on record and has it go on; one that is on record is not begun again.
    pub(super) fn begin(
        &mut self,
        key: &str,
        operation: &str,
        arguments: &str,
        effect: Option<Effect>,
        error: Option<Error>,
    ) -> Result<Outcome, Failure> {
        if self.operations.contains_key(key) {
            return Ok(Outcome::Accepted);
        }
        let arguments: Value = serde_json::from_str(arguments).unwrap_or_default();
        if let Err(error) = self.can_begin(operation, &arguments) {
            return Ok(Outcome::Failed { error });
        }
        self.note(operation, key);
        let (seconds, mut fate, exit_code) = self.course(operation, &arguments);
        if effect == Some(Effect::Fails) {
            fate = error;
        }
        if operation == "run-hook" {
            *self.hook_runs.entry(key.to_owned()).or_default() += 1;
        }
        let mut due = Some(self.turn(operation) + Duration::from_secs(seconds));
        if effect == Some(Effect::Hangs) {
            due = None;
        }
        let ignored = effect == Some(Effect::Ignored);
        let goes_down = matches!(operation, "reboot" | "rollback-os");
        if goes_down && fate.is_none() {
            // It runs until the machine is up again.
            if !ignored && effect != Some(Effect::Hangs) {
                self.reboot_at = due;
                self.os.returns = operation == "rollback-os";
            }
            due = None;
        }
        let began = self.now().to_string();
        let deed = Deed {
            operation: operation.to_owned(),
            arguments,
            state: OperationState::Running,
            began,
            exit_code,
            error: None,
            due,
            fate,
            ignored,
        };
        self.operations.insert(key.to_owned(), deed);
        Ok(Outcome::Accepted)
    }

    /// Hooks run one after another.
    fn turn(&self, operation: &str) -> Instant {
        let now = Instant::now();
        if operation != "run-hook" {
            return now;
        }
        let running = self.operations.values().filter(|deed| deed.operation == "run-hook");
        running.filter_map(|deed| deed.due).max().unwrap_or(now).max(now)
    }

    fn can_begin(&self, operation: &str, arguments: &Value) -> Result<(), Error> {
        match operation {
            "reboot" => {
                let Reboot { reason: _, expect } = read(arguments)?;
                let staged = self.os.staged.as_ref();
                match expect {
                    Some(image) if staged.is_none_or(|staged| *staged != self.os.of(&image)) => {
                        Err(conflict(format!("{image} is not staged")))
                    }
                    _ => Ok(()),
                }
            }
            "rollback-os" => {
                let RollbackOs { expect } = read(arguments)?;
                match &self.os.rollback {
                    Some((image, _)) if *image == self.os.of(&expect) || image.image == expect => Ok(()),
                    _ => Err(conflict(format!("the deployment to return to is not {expect}"))),
                }
            }
            "run-hook" => read::<RunHook>(arguments).map(drop),
            "install-app" => read::<InstallApp>(arguments).map(drop),
            "stage-os" => read::<StageOs>(arguments).map(drop),
            "prune" => read::<Prune>(arguments).map(drop),
            "decommission" => read::<crate::device::words::Decommission>(arguments).map(drop),
            _ => read::<AppId>(arguments).map(drop),
        }
    }

    /// How long it takes, and how it ends.
    fn course(&mut self, operation: &str, arguments: &Value) -> (u64, Option<Error>, Option<i32>) {
        let seconds = self.seconds.get(operation).copied().unwrap_or(match operation {
            "reboot" | "rollback-os" => 30,
            _ => 1,
        });
        match operation {
            "run-hook" => self.hook_course(arguments, seconds),
            "start-app" | "restart-app" => (seconds, self.start_fate(arguments), None),
            _ => (seconds, None, None),
        }
    }

    fn hook_course(&mut self, arguments: &Value, seconds: u64) -> (u64, Option<Error>, Option<i32>) {
        let Ok(run) = read::<RunHook>(arguments) else { return (seconds, None, None) };
        self.argv.push(run.argv.clone());
        let name = format!("{}#{}", run.file, run.index);
        let Some(at) = self.hook_results.iter().position(|known| name.contains(&known.file)) else {
            return (seconds, None, Some(0));
        };
        let known = self.hook_results[at].clone();
        match known.times {
            Some(0 | 1) => drop(self.hook_results.remove(at)),
            Some(times) => self.hook_results[at].times = Some(times - 1),
            None => {}
        }
        let seconds = known.seconds.unwrap_or(seconds);
        if Duration::from_secs(seconds) > Duration::from_millis(run.timeout_ms) {
            let error = invalid(format!("it took longer than {} ms", run.timeout_ms));
            return (run.timeout_ms.div_ceil(1000), Some(error), Some(124));
        }
        let fate = (known.exit != 0).then(|| invalid(format!("exit {}", known.exit)));
        (seconds, fate, Some(known.exit))
    }

    fn start_fate(&mut self, arguments: &Value) -> Option<Error> {
        let id = arguments.get("id").and_then(Value::as_str).unwrap_or_default();
        let name = self.apps.get(id)?.seen.name.clone();
        let starts = self.starts.iter().find(|starts| starts.name == name && starts.times != Some(0))?;
        let code = starts.code?;
        let error = Error { code, message: starts.message.clone() };
        self.use_start(&name);
        Some(error)
    }

    fn use_start(&mut self, name: &str) {
        for starts in self.starts.iter_mut().filter(|starts| starts.name == name) {
            starts.times = starts.times.map(|times| times.saturating_sub(1));
        }
    }

    /// What a long operation does at its end.
    pub(super) fn take_effect(&mut self, key: &str, operation: &str, arguments: &Value) -> Result<(), Error> {
        let _ = key;
        match operation {
            "install-app" => self.install(&read(arguments)?),
            "remove-app" => {
                let AppId { id } = read(arguments)?;
                self.apps.remove(&id);
                Ok(())
            }
            "start-app" => self.start(&read::<AppId>(arguments)?.id),
            "restart-app" => {
                let AppId { id } = read(arguments)?;
                self.app_ends(&id, AppState::Stopped, false);
                if let Some(app) = self.apps.get_mut(&id) {
                    app.seen.restarts += 1;
                }
                self.start(&id)
            }
            "stop-app" => {
                let AppId { id } = read(arguments)?;
                self.app_ends(&id, AppState::Stopped, false);
                Ok(())
            }
            "stage-os" => {
                let StageOs { image } = read(arguments)?;
                self.os.staged = Some(self.os.of(&image));
                Ok(())
            }
            "prune" => {
                let Prune { images, backups } = read(arguments)?;
                let gone = self.images.keys().filter(|name| !images.contains(name)).cloned();
                self.pruned = gone.collect();
                self.images.retain(|name, _| images.contains(name));
                self.disk.backups.retain(|kept, _| backups.contains(kept));
                Ok(())
            }
            "decommission" => {
                self.enrolled = false;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn install(&mut self, install: &InstallApp) -> Result<(), Error> {
        let InstallApp { spec, name, id, digest } = install;
        let file = match spec {
            Spec::Desired => "desired",
            Spec::Current => "current",
        };
        let device = self.device(file).ok_or_else(|| conflict(format!("there is no {file}.json")))?;
        let app = seal::find_application(&device, name)
            .ok_or_else(|| conflict(format!("{file}.json has no {name}")))?;
        let app_type = app.get("appType").and_then(Value::as_str).unwrap_or_default();
        let mut seen = new_app(id, name, app_type, digest.clone());
        if let Some(old) = self.apps.get(id) {
            (seen.seq, seen.restarts) = (old.seen.seq, old.seen.restarts);
        }
        seen.user = app.get("runAs").and_then(Value::as_str).map(str::to_owned);
        self.apps.insert(id.clone(), App { seen, due: None, running_since: None });
        Ok(())
    }

    fn start(&mut self, id: &str) -> Result<(), Error> {
        let Some(app) = self.apps.get(id) else {
            return Err(Error { code: Code::NotFound, message: "it is not installed".to_owned() });
        };
        let name = app.seen.name.clone();
        let ports = self.port_taken(&name);
        if let Some(other) = ports {
            self.app_fails(id);
            return Err(Error { code: Code::Transient, message: format!("its port is taken by {other}") });
        }
        let starts =
            self.starts.iter().find(|starts| starts.name == name && starts.times != Some(0)).cloned();
        let (wait, error, message) =
            starts.map_or((0, false, String::new()), |starts| (starts.seconds, starts.error, starts.message));
        if error {
            self.use_start(&name);
        }
        let state = if error { AppState::Error } else { AppState::Running };
        if let Some(app) = self.apps.get_mut(id) {
            app.seen.observed = AppState::Starting;
            app.seen.error = error.then_some(message);
            app.due = Some((Instant::now() + Duration::from_secs(wait), state));
        }
        self.advance(Instant::now());
        Ok(())
    }

    /// A start that failed counts as a death.
    fn app_fails(&mut self, id: &str) {
        self.app_ends(id, AppState::Error, true);
    }

    /// The running application that holds a port of this one, by the specs.
    fn port_taken(&self, name: &str) -> Option<String> {
        let ports = |name: &str| -> Vec<Value> {
            let of = |file: &str| {
                let device = self.device(file)?;
                Some(seal::find_application(&device, name)?.get("ports")?.as_array()?.clone())
            };
            of("desired").or_else(|| of("current")).unwrap_or_default()
        };
        let own = ports(name);
        let up =
            self.apps.values().filter(|app| app.seen.name != name && app.seen.observed == AppState::Running);
        up.map(|app| app.seen.name.clone()).find(|other| ports(other).iter().any(|port| own.contains(port)))
    }

    // ---- what must never be done ----------------------------------------------------------------------------------

    /// Invariants 3, 4 and 6, at each operation.
    pub(super) fn may_be_done(&mut self, key: &str, operation: &str, arguments: &str) {
        let changes = matches!(
            operation,
            "write-file"
                | "install-app"
                | "remove-app"
                | "start-app"
                | "stop-app"
                | "restart-app"
                | "stage-os"
                | "reboot"
        );
        let is_steady = key.split('/').nth(1) == Some("steady");
        if changes && !is_steady {
            let (target, desired) = (self.target(), self.version("desired"));
            if target.as_ref() != Some(&desired) {
                self.broken.push(format!(
                    "3: {operation} ({key}) before version {desired} and its state are on disk"
                ));
            }
            let phase =
                self.update_state().pointer("/update/phase").and_then(Value::as_str).map(str::to_owned);
            if matches!(phase.as_deref(), Some("Preparing" | "Ready") | None) {
                self.broken.push(format!("3: {operation} ({key}) in phase {phase:?}"));
            }
        }
        if matches!(operation, "stage-os" | "reboot") && self.version("rollback").is_empty() {
            self.broken.push(format!("4: {operation} ({key}) without a way back"));
        }
        if operation == "write-spec" {
            self.commits_with_a_way(arguments);
        }
    }

    /// While a target's OS is staged or booted and not in effect, rollback.json may only go with its end.
    fn commits_with_a_way(&mut self, arguments: &str) {
        let Ok(files) = serde_json::from_str::<Value>(arguments) else { return };
        let clears = files.get("rollback").and_then(Value::as_str) == Some("clear");
        let current = self.device("current").unwrap_or_default();
        let named = current.pointer("/spec/os/image").and_then(Value::as_str);
        let other_staged = self.os.staged.is_some() && named.is_some();
        // In the state as it will be: an update that goes on from the OS that it came to.
        let from = files.pointer("/state/update/from/osImage").and_then(Value::as_str);
        let rebooted = files.pointer("/state/update/rebooted").and_then(Value::as_bool) == Some(true);
        let other_booted = rebooted && from.is_some_and(|from| from != self.os.booted.image);
        let commits = files.get("current").is_some();
        if clears && !commits && (other_staged || other_booted) {
            self.broken.push("4: the way back is forgotten while another OS is staged or booted".to_owned());
        }
    }

    /// A version that failed is not tried again.
    pub(super) fn adopts_no_failed(&mut self, state: Option<&Value>) {
        let Some(state) = state else { return };
        let phase = state.pointer("/update/phase").and_then(Value::as_str).unwrap_or_default();
        let target = state.pointer("/update/target/version");
        let failed = state.get("failed").and_then(Value::as_array).into_iter().flatten();
        if phase == "Preparing"
            && let Some(target) = target
            && failed.clone().any(|failed| failed.get("version") == Some(target))
        {
            self.broken.push(format!("6: version {target} has failed and is tried again"));
        }
    }
}
