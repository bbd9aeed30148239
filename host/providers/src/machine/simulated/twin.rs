//! The provider `machine` on the simulated cloud, for scenario files.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use super::Cloud;
use super::config::{Config, Fault, GivenVm};
use crate::machine::MachineProvider;
use crate::provider::Provider;
use crate::twins::{Twin, TwinError, read};

/// The provider `machine` on a simulated cloud.
pub struct MachineTwin {
    provider: Arc<MachineProvider<Cloud>>,
}

impl MachineTwin {
    /// As it is configured.
    ///
    /// # Errors
    /// If the configuration is not understood.
    pub fn new(config: &Value) -> Result<Self, TwinError> {
        let config: Config = read("machine", config)?;
        let operations = config.operations.clone();
        let provider = MachineProvider::new(Cloud::new(config)).with_counted_tokens();
        for key in operations {
            let uid = key.split('/').nth(1).unwrap_or_default();
            provider.know(uid, &key);
        }
        Ok(Self { provider: Arc::new(provider) })
    }
}

/// What can happen to the cloud.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
enum Command {
    /// Calls go wrong.
    Fault(Fault),
    /// Other credentials count.
    Credentials(BTreeMap<String, String>),
    /// A VM vanishes; its disks stay.
    RemoveVm(String),
    /// A VM is there.
    AddVm(GivenVm),
}

/// What a scenario may want to know.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Wanted {
    #[serde(default)]
    calls: Option<Vec<String>>,
    #[serde(default)]
    asked: Option<Vec<String>>,
    #[serde(default)]
    vms: Option<Vec<Value>>,
    #[serde(default)]
    leftovers: Option<Vec<String>>,
}

impl Twin for MachineTwin {
    fn as_provider(&self) -> Arc<dyn Provider> {
        Arc::<MachineProvider<Cloud>>::clone(&self.provider)
    }

    fn control(&self, command: &Value) -> Result<(), TwinError> {
        let command: Command = read("machine", command)?;
        let mut state = self.provider.driver().lock();
        match command {
            Command::Fault(fault) => state.faults.push_back(fault),
            Command::Credentials(credentials) => state.config.credentials = Some(credentials),
            Command::RemoveVm(id) => {
                let before = state.vms.len();
                state.vms.retain(|vm| vm.provider_id != id);
                if state.vms.len() == before {
                    return Err(TwinError::Missing(format!("VM {id:?}")));
                }
            }
            Command::AddVm(vm) => state.add(vm),
        }
        drop(state);
        self.provider.changed();
        Ok(())
    }

    fn expect(&self, wanted: &Value) -> Result<(), Vec<String>> {
        let wanted: Wanted = read("machine", wanted).map_err(|error| vec![error.to_string()])?;
        let mut state = self.provider.driver().lock();
        state.pass_time();
        let mut found = Vec::new();
        let mut compare = |what: &str, wanted: &Option<Vec<String>>, is: Vec<String>| {
            if let Some(wanted) = wanted
                && *wanted != is
            {
                found.push(format!("{what}: expected {wanted:?}, found {is:?}"));
            }
        };
        if wanted.calls.is_some() {
            compare("calls", &wanted.calls, std::mem::take(&mut state.calls));
        }
        if wanted.asked.is_some() {
            compare("asked", &wanted.asked, std::mem::take(&mut state.asked));
        }
        compare("leftovers", &wanted.leftovers, state.leftovers.values().flatten().cloned().collect());
        if let Some(wanted) = &wanted.vms {
            let is: Vec<Value> = state
                .vms
                .iter()
                .map(|vm| {
                    let mut is = json!({"machine": vm.machine, "uid": vm.uid, "providerID": vm.provider_id,
                        "nodeName": vm.node_name, "initialized": vm.initialized});
                    if !vm.user_data.is_empty() {
                        is["userData"] = vm.user_data.as_str().into();
                    }
                    is
                })
                .collect();
            let same =
                is.len() == wanted.len() && wanted.iter().zip(&is).all(|(wanted, is)| holds(wanted, is));
            if !same {
                found.push(format!("vms: expected {}, found {}", json!(wanted), json!(is)));
            }
        }
        if found.is_empty() { Ok(()) } else { Err(found) }
    }

    fn invariants(&self) -> Vec<String> {
        let state = self.provider.driver().lock();
        let mut found = Vec::new();
        let mut seen = BTreeSet::new();
        for vm in &state.vms {
            if !seen.insert(&vm.uid) && !state.config.vms.iter().any(|given| given.uid == vm.uid) {
                found.push(format!("machine {} has several VMs", vm.machine));
            }
        }
        found
    }
}

/// Whether the fields that are wanted are so.
fn holds(wanted: &Value, is: &Value) -> bool {
    let fields = wanted.as_object().into_iter().flatten();
    wanted.is_object() && fields.into_iter().all(|(key, value)| is.get(key) == Some(value))
}
