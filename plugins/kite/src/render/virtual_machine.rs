//! KubeVirt's machine. Networks are KubeVirt's default, and the disk is Kite's own: no `dataVolumeTemplates`.

use serde_json::{Value, json};

use crate::identity::Identity;
use crate::spec::Spec;

/// The VirtualMachine.
pub fn virtual_machine(machine: &Identity, spec: &Spec) -> Value {
    json!({
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": machine.metadata(&machine.name),
        "spec": {
            "runStrategy": spec.power.run_strategy(),
            "template": {
                "metadata": { "labels": machine.labels() },
                "spec": {
                    "domain": {
                        "resources": { "requests": { "memory": spec.memory, "cpu": spec.cpu.to_string() } },
                        "devices": {
                            "disks": [
                                { "name": "rootdisk", "disk": { "bus": "virtio" } },
                                { "name": "cloudinitdisk", "disk": { "bus": "virtio" } },
                            ],
                        },
                    },
                    "volumes": [
                        { "name": "rootdisk", "dataVolume": { "name": machine.disk() } },
                        {
                            "name": "cloudinitdisk",
                            "cloudInitNoCloud": { "secretRef": { "name": machine.cloud_init() } },
                        },
                    ],
                },
            },
        },
    })
}
