//! Compares a simulated vCenter with what is wanted of it.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use super::state::{State, Vm};
use crate::vsphere::data::MoRef;
use crate::vsphere::words::OWNER_KEY;

/// What is wanted of a vCenter.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Wanted {
    #[serde(default)]
    pub(crate) server: Option<String>,
    /// Operations started since the last look, in order.
    #[serde(default)]
    calls: Option<Vec<String>>,
    /// VMs that are no templates, by id; each member that is given must be so.
    #[serde(default)]
    vms: Option<Vec<BTreeMap<String, Value>>>,
    /// Tasks of one VM under way at once, at most, since the start.
    #[serde(default)]
    tasks_max: Option<usize>,
}

impl State {
    /// A sentence for each difference.
    pub(crate) fn differences(&mut self, wanted: Wanted) -> Vec<String> {
        let mut differences = Vec::new();
        if let Some(wanted) = wanted.calls {
            let calls: Vec<String> = self.calls.drain(..).collect();
            if calls != wanted {
                differences.push(format!(
                    "vCenter was told [{}], not [{}]",
                    calls.join(", "),
                    wanted.join(", ")
                ));
            }
        }
        if let Some(wanted) = &wanted.vms {
            self.compare_vms(wanted, &mut differences);
        }
        if let Some(most) = wanted.tasks_max
            && self.tasks_at_once > most
        {
            differences
                .push(format!("{} tasks of one VM were under way at once, not {most}", self.tasks_at_once));
        }
        differences
    }

    fn compare_vms(&self, wanted: &[BTreeMap<String, Value>], differences: &mut Vec<String>) {
        let mut vms: Vec<(&String, &Vm)> = self.vms.iter().filter(|(_, vm)| !vm.template).collect();
        vms.sort_by_key(|(id, _)| (MoRef::new("VirtualMachine", id).number(), (*id).clone()));
        if vms.len() != wanted.len() {
            let names: Vec<String> = vms.iter().map(|(id, vm)| format!("{id} ({})", vm.name)).collect();
            differences.push(format!(
                "vCenter has {} VMs [{}], not {}",
                vms.len(),
                names.join(", "),
                wanted.len()
            ));
            return;
        }
        for ((id, vm), wanted) in vms.into_iter().zip(wanted) {
            let seen = shown(id, vm);
            for (member, value) in wanted {
                match seen.get(member) {
                    Some(seen) if seen == value => {}
                    Some(seen) => differences.push(format!("{id}: {member} is {seen}, not {value}")),
                    None => differences.push(format!("{id}: a VM has no {member}")),
                }
            }
        }
    }

    /// What must never be, and is.
    pub(crate) fn broken_invariants(&self) -> Vec<String> {
        let mut owners: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (id, vm) in &self.vms {
            if let Some(owner) = vm.extra.get(OWNER_KEY).filter(|_| !vm.template) {
                owners.entry(owner).or_default().push(id);
            }
        }
        let twice = owners.into_iter().filter(|(_, vms)| vms.len() > 1);
        twice.map(|(owner, vms)| format!("{owner} has {} VMs: {}", vms.len(), vms.join(", "))).collect()
    }
}

fn shown(id: &str, vm: &Vm) -> BTreeMap<String, Value> {
    let nics: Vec<Value> =
        vm.nics.iter().map(|nic| json!({"mac": nic.mac, "network": nic.network, "ips": nic.ips})).collect();
    let gib: Vec<i64> = vm.disks.iter().map(|kib| kib / (1024 * 1024)).collect();
    let shown = json!({
        "vm": id, "name": vm.name, "instanceUuid": vm.instance_uuid, "biosUuid": vm.bios_uuid, "power": vm.power,
        "accessible": vm.accessible, "owner": vm.extra.get(OWNER_KEY), "diskGiB": gib, "nics": nics,
        "extraConfig": vm.extra, "toolsRunning": vm.tools_running,
    });
    shown.as_object().cloned().unwrap_or_default().into_iter().collect()
}
