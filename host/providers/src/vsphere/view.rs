//! From properties to what plugins are told.

use std::collections::BTreeMap;

use super::data::{Data, MoRef};
use super::fault;
use super::properties::{Paths, Properties};
use super::words::{FaultView, GROUP_KEY, MarkedVm, NicView, OWNER_KEY, Power, TOLD_KEYS, TaskView, VmView};

/// What is read of a VM.
pub(crate) const VM_PATHS: Paths = &[
    "name",
    "config.uuid",
    "config.instanceUuid",
    "config.template",
    "config.extraConfig",
    "config.hardware.device",
    "runtime.powerState",
    "runtime.connectionState",
    "runtime.host",
    "guest.net",
    "guest.toolsRunningStatus",
    "guest.guestStateChangeSupported",
];

/// What is read of a task: its progress is left out, so that a task under way does not change.
pub(crate) const TASK_PATHS: Paths =
    &["info.state", "info.error", "info.result", "info.descriptionId", "info.entity"];

/// What is read of a VM to see whether it belongs to a group.
pub(crate) const GROUP_PATHS: Paths =
    &["name", "config.instanceUuid", "config.template", "config.extraConfig"];

/// Names of objects that a view tells by name.
pub(crate) type Names = BTreeMap<MoRef, String>;

/// A task's view.
pub(crate) fn task(reference: &MoRef, properties: &Properties) -> TaskView {
    let state = text(properties, "info.state");
    let failed = state == "error";
    let error = properties.get("info.error").filter(|_| failed);
    let fault = error.map(|error| FaultView::from(&fault::read(error)));
    let result = properties.get("info.result").and_then(Data::reference);
    TaskView {
        task: reference.id.clone(),
        state,
        operation: text(properties, "info.descriptionId"),
        vm: result.filter(|result| result.kind == "VirtualMachine").map(|result| result.id.clone()),
        fault,
    }
}

/// Whether a task never changes again.
pub(crate) fn has_ended(task: &Properties) -> bool {
    matches!(text(task, "info.state").as_str(), "success" | "error")
}

/// The objects that a task was about, and that it made.
pub(crate) fn touched_by(task: &Properties) -> impl Iterator<Item = &MoRef> {
    ["info.entity", "info.result"].into_iter().filter_map(|path| task.get(path)?.reference())
}

/// A VM's view.
pub(crate) fn vm(reference: &MoRef, properties: &Properties, names: &Names) -> VmView {
    let extra: BTreeMap<String, String> = properties
        .get("config.extraConfig")
        .map(Data::items)
        .unwrap_or_default()
        .iter()
        .map(|option| (option.text_of("key").into_owned(), option.text_of("value").into_owned()))
        .filter(|(key, _)| TOLD_KEYS.contains(&key.as_str()))
        .collect();
    let connection = text(properties, "runtime.connectionState");
    let configured = properties.contains_key("config.uuid") || properties.contains_key("config.instanceUuid");
    let host = properties.get("runtime.host").and_then(Data::reference);
    VmView {
        vm: reference.id.clone(),
        name: text(properties, "name"),
        instance_uuid: text(properties, "config.instanceUuid").to_ascii_lowercase(),
        bios_uuid: text(properties, "config.uuid").to_ascii_lowercase(),
        template: flag(properties, "config.template"),
        power: match text(properties, "runtime.powerState").as_str() {
            "poweredOn" => Power::On,
            "suspended" => Power::Suspended,
            _ => Power::Off,
        },
        accessible: configured && (connection.is_empty() || connection == "connected"),
        owner: extra.get(OWNER_KEY).filter(|owner| !owner.is_empty()).cloned(),
        nics: nics(properties, names),
        extra_config: extra,
        tools_running: text(properties, "guest.toolsRunningStatus") == "guestToolsRunning",
        guest_state_change_supported: flag(properties, "guest.guestStateChangeSupported"),
        host: host.and_then(|host| names.get(host)).cloned().unwrap_or_default(),
    }
}

/// A VM, if it is of this group and no template.
pub(crate) fn of_group(vm: &MoRef, properties: &Properties, group: &str) -> Option<MarkedVm> {
    let extra = properties.get("config.extraConfig").map(Data::items).unwrap_or_default();
    let value = |key: &str| {
        let option = extra.iter().find(|option| option.text_of("key") == key)?;
        Some(option.text_of("value").into_owned()).filter(|value| !value.is_empty())
    };
    let is_of = !group.is_empty() && value(GROUP_KEY).as_deref() == Some(group);
    (is_of && !flag(properties, "config.template")).then(|| MarkedVm {
        vm: vm.id.clone(),
        name: text(properties, "name"),
        instance_uuid: text(properties, "config.instanceUuid").to_ascii_lowercase(),
        owner: value(OWNER_KEY),
    })
}

/// Objects that a VM's view tells by name: its host and the networks of its cards.
pub(crate) fn named_by(properties: &Properties) -> Vec<MoRef> {
    let host = properties.get("runtime.host").and_then(Data::reference).cloned();
    let networks = cards(properties).filter_map(network_of);
    host.into_iter().chain(networks).collect()
}

/// Whether a device is a network card: they alone have a MAC address.
pub(crate) fn is_card(device: &Data) -> bool {
    device.get("macAddress").is_some() || device.get("addressType").is_some()
}

fn cards(properties: &Properties) -> impl Iterator<Item = &Data> {
    let devices = properties.get("config.hardware.device").map(Data::items).unwrap_or_default();
    devices.iter().filter(|device| is_card(device))
}

/// The distributed port group that a card is plugged into; its key is its id.
fn network_of(card: &Data) -> Option<MoRef> {
    let key = card.get("backing")?.get("port")?.get("portgroupKey")?.text()?.into_owned();
    Some(MoRef::new("DistributedVirtualPortgroup", &key))
}

fn nics(properties: &Properties, names: &Names) -> Vec<NicView> {
    let reported = properties.get("guest.net").map(Data::items).unwrap_or_default();
    let addresses = |mac: &str| {
        let of_card = reported
            .iter()
            .filter(|nic| !mac.is_empty() && nic.text_of("macAddress").eq_ignore_ascii_case(mac));
        of_card
            .flat_map(|nic| nic.items_of("ipAddress"))
            .filter_map(Data::text)
            .map(|address| address.into_owned())
            .collect()
    };
    let view = |card: &Data| {
        let mac = card.text_of("macAddress").into_owned();
        let standard = card.get("backing").map(|backing| backing.text_of("deviceName").into_owned());
        let group = network_of(card).and_then(|group| names.get(&group).cloned());
        let connectable = card.get("connectable");
        NicView {
            key: card.get("key").and_then(Data::int).unwrap_or_default(),
            network: group.or(standard).unwrap_or_default(),
            connected: connectable.and_then(|how| how.get("connected")).and_then(Data::bool).unwrap_or(false),
            ips: addresses(&mac),
            mac,
        }
    };
    cards(properties).map(view).collect()
}

fn text(properties: &Properties, path: &str) -> String {
    properties.get(path).and_then(Data::text).map(|text| text.into_owned()).unwrap_or_default()
}

fn flag(properties: &Properties, path: &str) -> bool {
    properties.get(path).and_then(Data::bool).unwrap_or(false)
}
