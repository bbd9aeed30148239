//! A machine whose VM is there: metadata, then power, then addresses, one step a pass.

use evenkeel_sdk::{Conclusion, ConditionStatus, Stop, act};
use serde_json::json;

use crate::addresses::{card, has_source, is_satisfied, reachable};
use crate::api::{Initialization, Operation};
use crate::draft::Draft;
use crate::identity::{bios_uuid, provider_id};
use crate::machine::{Turn, poll};
use crate::metadata::{encoded, of_vm, render};
use crate::names;
use crate::operate::Order;
use crate::reasons::{self, condition};
use crate::seam::{Power, Vm};
use crate::timing::{PERSON, TASK_POLL_MIN};

impl Turn<'_> {
    /// Goes on with a machine whose VM is there.
    pub fn provision(&self, draft: &mut Draft<'_>, vm: &Vm, watched: bool) -> Result<Conclusion, Stop> {
        show(draft, vm, self.machine.spec.network.devices.len());
        if let Some(message) = self.mismatch(vm) {
            draft.is_stuck(reasons::PROVIDER_ID_MISMATCH, &message);
            return Ok(draft.end(Some(PERSON)));
        }
        let network = &self.machine.spec.network;
        let macs: Vec<&str> =
            vm.nics.iter().take(network.devices.len()).map(|nic| nic.mac.as_str()).collect();
        if macs.len() < network.devices.len() {
            // Metadata without a card would bind no interface, and one that is missing would shift the others.
            let message = format!("the VM has {} of {} network cards", macs.len(), network.devices.len());
            draft.waits(reasons::WAITING_FOR_NETWORK_ADDRESS, &message);
            return Ok(draft.end(poll(watched, TASK_POLL_MIN)));
        }
        if let Some(index) = macs.iter().position(|mac| mac.is_empty()) {
            let message = format!("network card {index} has no MAC address yet");
            draft.waits(reasons::WAITING_FOR_NETWORK_ADDRESS, &message);
            return Ok(draft.end(poll(watched, TASK_POLL_MIN)));
        }
        let wanted = render(&self.id.name, network, &macs);
        if !of_vm(&vm.extra_config).is_some_and(|present| present.tells_as(&wanted)) {
            let pairs = encoded(&wanted);
            let mut order = Order::of_vm(self, Operation::Reconfigure, &vm.vm)
                .told_by(pairs.get(names::METADATA).map(String::as_bytes).unwrap_or_default());
            order.arguments["extraConfig"] = json!(pairs);
            self.keeps_its_word(draft, reasons::RECONFIGURING);
            return self.order(draft, &order, Vec::new());
        }
        match vm.power {
            // A suspended VM is resumed by the same call.
            Power::Off | Power::Suspended => {
                draft.waits(reasons::POWERING_ON, "");
                self.order(draft, &Order::of_vm(self, Operation::PowerOn, &vm.vm), Vec::new())
            }
            Power::On => Ok(self.reach(draft, vm, watched)),
        }
    }

    /// A machine that was ready stays so while its metadata is renewed.
    fn keeps_its_word(&self, draft: &mut Draft<'_>, reason: &str) {
        let was_ready =
            draft.old(condition::PROVISIONED).is_some_and(|old| old.status == ConditionStatus::True);
        if !was_ready {
            draft.waits(reason, "");
        }
    }

    /// The VM has another BIOS UUID than the provider id, which others rely on.
    fn mismatch(&self, vm: &Vm) -> Option<String> {
        let known = self.id.bios_uuid.as_deref()?;
        let differs = !vm.bios_uuid.is_empty() && !vm.bios_uuid.eq_ignore_ascii_case(known);
        differs.then(|| {
            format!("{} has the BIOS UUID {}, and the provider id says {known}", vm.vm, vm.bios_uuid)
        })
    }

    /// The VM runs: whether it can be reached.
    fn reach(&self, draft: &mut Draft<'_>, vm: &Vm, watched: bool) -> Conclusion {
        let devices = &self.machine.spec.network.devices;
        let again_after = poll(watched, self.config.address_poll());
        if let Some(index) = devices.iter().position(|device| !has_source(device)) {
            let message = format!("network.devices[{index}] has neither DHCP nor addresses");
            draft.waits(reasons::WAITING_FOR_STATIC_IP, &message);
            return draft.end(None);
        }
        let mut cards = devices.iter().zip(&draft.status.network).enumerate();
        if let Some((index, _)) = cards.find(|(_, (device, card))| !is_satisfied(device, card)) {
            let message = format!("network.devices[{index}] has not all of its addresses yet");
            draft.waits(reasons::WAITING_FOR_IP, &message);
            return draft.end(again_after);
        }
        if vm.bios_uuid.is_empty() {
            draft.waits(reasons::WAITING_FOR_BIOS_UUID, "vCenter has not given the VM a BIOS UUID yet");
            return draft.end(again_after);
        }
        self.ready(draft, vm);
        draft.end(None)
    }

    fn ready(&self, draft: &mut Draft<'_>, vm: &Vm) {
        let written = self.machine.spec.provider_id.as_deref().and_then(bios_uuid);
        if written.is_none() {
            let merge = json!({"spec": {"providerID": provider_id(&vm.bios_uuid)}});
            draft.first.push(act::patch(self.id.reference(), &merge));
        }
        let status = &mut draft.status;
        status.bios_uuid.get_or_insert_with(|| vm.bios_uuid.clone());
        status.ready = Some(true);
        status.retry = None;
        let was_provisioned = status.initialization.replace(Initialization { provisioned: true });
        if !was_provisioned.is_some_and(|initialization| initialization.provisioned) {
            draft.tell(reasons::PROVISIONED, &format!("{} is ready", vm.vm));
        }
        draft.set(condition::PROVISIONED, ConditionStatus::True, reasons::PROVISIONED, "");
    }
}

/// Shows the VM in the status.
fn show(draft: &mut Draft<'_>, vm: &Vm, devices: usize) {
    let status = &mut draft.status;
    if status.instance_uuid.is_none() && !vm.instance_uuid.is_empty() {
        status.instance_uuid = Some(vm.instance_uuid.clone());
    }
    if !vm.host.is_empty() {
        status.host = Some(vm.host.clone());
    }
    status.power_state = Some(vm.power.as_str().to_owned());
    status.network = vm.nics.iter().map(card).collect();
    status.addresses = reachable(&status.network, devices, &vm.name);
}
