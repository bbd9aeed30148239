//! What can happen to a simulated device.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::config::{Alerts, Fault, FileConfig, HookResult, Offer, Registry, Starts};
use super::power::PowerCut;
use super::state::{BootFate, State, node, spec_bytes};
use crate::device::words::{AppState, CheckState};
use crate::twins::{TwinError, read};

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
enum Command {
    /// The service offers a spec.
    Offer(Offer),
    /// The service is there or not.
    Service(ServiceCommand),
    /// Somebody writes or removes files.
    Disk(BTreeMap<String, Option<FileConfig>>),
    /// Somebody damages or removes spec files.
    SpecFiles(BTreeMap<String, Option<Value>>),
    /// The machine reboots, or loses its power, now.
    Reboot(Nothing),
    /// The power will be cut.
    PowerCut(PowerCut),
    /// How the next boots go wrong.
    Boots(Vec<BootFate>),
    /// How the check of this boot stands.
    Check(CheckState),
    /// An application dies.
    Kill(String),
    /// How applications start.
    Starts(Starts),
    /// Operations go wrong.
    Fault(Fault),
    /// Nothing goes wrong any more.
    Heal(Nothing),
    /// How hooks end.
    Hook(HookResult),
    /// Alerts.
    Alerts(Alerts),
    /// How a registry answers.
    Registry(BTreeMap<String, Registry>),
    /// Users.
    Users(BTreeMap<String, u32>),
    /// Programs that are missing from now on.
    Missing(Vec<String>),
    /// Something is staged by somebody else, or nothing any more.
    Staged(Option<String>),
    /// Settings of the provider that it left out.
    Skipped(Vec<String>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ServiceCommand {
    reachable: Option<bool>,
    gone: Option<bool>,
    enrolment: Option<String>,
}

impl State {
    /// Has something happen.
    pub(super) fn obey(&mut self, command: &Value) -> Result<(), TwinError> {
        match read::<Command>("device", command)? {
            Command::Offer(offer) => {
                self.service.offer = Some(offer);
                self.service.received_at = self.now().to_string();
            }
            Command::Service(ServiceCommand { reachable, gone, enrolment }) => {
                self.service.reachable = reachable.unwrap_or(self.service.reachable);
                self.service.gone = gone.unwrap_or(self.service.gone);
                if let Some(enrolment) = enrolment {
                    self.service.enrolment = enrolment;
                    // What was sent to the device that it was before is nothing to the one that it is now.
                    self.service.offer = None;
                }
            }
            Command::Disk(files) => {
                for (path, file) in files {
                    self.disk.set(&path, file.as_ref().map(node));
                }
            }
            Command::SpecFiles(files) => {
                for (name, value) in files {
                    match value {
                        Some(value) => drop(self.specs.insert(name.clone(), spec_bytes(&name, &value))),
                        None => drop(self.specs.remove(&name)),
                    }
                }
            }
            Command::Reboot(Nothing {}) => self.boot(),
            Command::PowerCut(cut) => self.power = Some(cut),
            Command::Boots(fates) => self.boots = fates,
            Command::Check(state) => {
                self.os.check = state;
                self.check_due = None;
            }
            Command::Kill(name) => self.kill(&name)?,
            Command::Starts(starts) => {
                self.starts.retain(|old| old.name != starts.name);
                self.starts.push(starts);
            }
            Command::Fault(fault) => self.faults.push(fault),
            Command::Heal(Nothing {}) => {
                self.faults.clear();
                self.starts.clear();
                self.hook_results.clear();
                self.registry.clear();
            }
            Command::Hook(result) => self.hook_results.push(result),
            Command::Alerts(alerts) => self.alerts = alerts,
            Command::Registry(registry) => self.registry.extend(registry),
            Command::Users(users) => self.users.extend(users),
            Command::Missing(programs) => self.missing = programs,
            Command::Staged(image) => self.os.staged = image.map(|image| self.os.of(&image)),
            Command::Skipped(skipped) => self.skipped = skipped,
        }
        Ok(())
    }

    fn kill(&mut self, name: &str) -> Result<(), TwinError> {
        let found = self.apps.values().find(|app| app.seen.name == name);
        let Some(id) = found.map(|app| app.seen.id.clone()) else {
            return Err(TwinError::Missing(format!("application {name:?}")));
        };
        self.app_ends(&id, AppState::Error, true);
        Ok(())
    }
}
