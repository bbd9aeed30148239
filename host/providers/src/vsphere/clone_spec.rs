//! The specification of a clone, in the order of the schema.

use super::data::{Data, MoRef, Object};
use super::place::{Place, capacity_kib};
use super::words::{CloneMode, CloneNic, CloneVm, GROUP_KEY, OWNER_KEY};

/// KiB of a GiB.
const GIB_IN_KIB: i64 = 1024 * 1024;

/// The smallest machine that Cluster API's tools come up on.
const CPUS_MIN: i64 = 2;

/// The whole of it; `backings` are those of the cards, in their order.
pub(crate) fn clone_spec(ask: &CloneVm, place: &Place, backings: &[Object]) -> Object {
    let linked = ask.clone_mode == CloneMode::LinkedClone;
    let location = Object::new("VirtualMachineRelocateSpec")
        .with("folder", &place.folder)
        .with("datastore", &place.datastore)
        .with(
            "diskMoveType",
            if linked { "createNewChildDiskBacking" } else { "moveAllDiskBackingsAndDisallowSharing" },
        )
        .with("pool", &place.pool);
    Object::new("VirtualMachineCloneSpec")
        .with("location", location)
        .with("template", false)
        .with("config", config_spec(ask, place, backings))
        .with("powerOn", false)
        .maybe("snapshot", place.template.snapshot.as_ref().filter(|_| linked))
}

fn config_spec(ask: &CloneVm, place: &Place, backings: &[Object]) -> Object {
    let extra = ask.extra_config.iter().chain(&ask.sensitive.extra_config);
    let markers = [(OWNER_KEY, Some(&ask.owner)), (GROUP_KEY, ask.group.as_ref())];
    let markers = markers.into_iter().filter_map(|(key, value)| Some((key, value?.as_str())));
    let extra = extra.map(|(key, value)| (key.as_str(), value.as_str())).chain(markers);
    Object::new("VirtualMachineConfigSpec")
        .with("instanceUuid", ask.instance_uuid.to_ascii_lowercase())
        .with("flags", Object::new("VirtualMachineFlagInfo").with("diskUuidEnabled", true))
        .with("numCPUs", ask.num_cpus.max(CPUS_MIN))
        .maybe("numCoresPerSocket", ask.num_cores_per_socket.filter(|cores| *cores > 0))
        .with("memoryMB", ask.memory_mib)
        .with("deviceChange", device_changes(ask, place, backings))
        .with("extraConfig", extra_config(extra))
        .with("vAppConfigRemoved", true)
}

/// Extra configuration as vCenter takes it.
pub(crate) fn extra_config<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<Object> {
    pairs
        .map(|(key, value)| Object::new("OptionValue").with("key", key).with("value", Data::any_text(value)))
        .collect()
}

/// The template's cards go, those asked for come; a disk grows where it is to be larger.
fn device_changes(ask: &CloneVm, place: &Place, backings: &[Object]) -> Vec<Object> {
    let change = |operation: &str, device: Object| {
        Object::new("VirtualDeviceConfigSpec").with("operation", operation).with("device", device)
    };
    let removed = place.template.cards.iter().map(|card| {
        let key = card.get("key").and_then(Data::int).unwrap_or_default();
        change("remove", Object::new(&card.kind).with("key", key))
    });
    // vCenter gives devices their keys; until then each has one below zero of its own.
    let keys = (1_i64..).map(|number| -99 - number);
    let added = ask
        .nics
        .iter()
        .zip(backings)
        .zip(keys)
        .map(|((nic, backing), key)| change("add", card(nic, backing.clone(), key)));
    let grown = place.template.disks.first().zip(ask.disk_gib).and_then(|(disk, gib)| {
        let wanted = gib.checked_mul(GIB_IN_KIB)?;
        (wanted > capacity_kib(disk)).then(|| change("edit", grown_disk(disk, wanted)))
    });
    removed.chain(added).chain(grown).collect()
}

fn card(nic: &CloneNic, backing: Object, key: i64) -> Object {
    let mac = nic.mac.as_deref().filter(|mac| !mac.is_empty());
    let connectable = Object::new("VirtualDeviceConnectInfo")
        .with("startConnected", true)
        .with("allowGuestControl", true)
        .with("connected", true);
    Object::new("VirtualVmxnet3")
        .with("key", key)
        .with("backing", backing)
        .with("connectable", connectable)
        .with("addressType", if mac.is_some() { "manual" } else { "generated" })
        .maybe("macAddress", mac)
        .with("wakeOnLanEnabled", true)
}

/// The disk as vCenter told of it, only larger.
fn grown_disk(disk: &Object, capacity: i64) -> Object {
    let number = |name: &str| disk.get(name).and_then(Data::int);
    Object::new(&disk.kind)
        .maybe("key", number("key"))
        .maybe("backing", disk.get("backing").cloned())
        .maybe("controllerKey", number("controllerKey"))
        .maybe("unitNumber", number("unitNumber"))
        .with("capacityInKB", capacity)
}

/// What a card in a network is backed by; none where vCenter says too little of it.
pub(crate) fn backing(
    network: &MoRef,
    properties: &super::properties::Properties,
    switch: Option<&str>,
) -> Option<Object> {
    let text = |path: &str| properties.get(path)?.text().map(|text| text.into_owned());
    match network.kind.as_str() {
        "DistributedVirtualPortgroup" => {
            let port = Object::new("DistributedVirtualSwitchPortConnection")
                .with("switchUuid", switch?)
                .with("portgroupKey", text("config.key")?);
            Some(Object::new("VirtualEthernetCardDistributedVirtualPortBackingInfo").with("port", port))
        }
        "OpaqueNetwork" => Some(
            Object::new("VirtualEthernetCardOpaqueNetworkBackingInfo")
                .with("opaqueNetworkId", text("summary.opaqueNetworkId")?)
                .with("opaqueNetworkType", text("summary.opaqueNetworkType")?),
        ),
        _ => Some(Object::new("VirtualEthernetCardNetworkBackingInfo").with("deviceName", text("name")?)),
    }
}
