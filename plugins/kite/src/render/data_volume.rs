//! The disk: a clone of a golden image. Created once, since CDI lets nobody change it.

use serde_json::{Value, json};

use crate::config::RuntimeConfig;
use crate::identity::Identity;
use crate::names;
use crate::spec::Spec;

/// The DataVolume.
pub fn data_volume(machine: &Identity, spec: &Spec, config: &RuntimeConfig) -> Value {
    let mut claim = json!({
        "accessModes": ["ReadWriteOnce"],
        "resources": { "requests": { "storage": spec.disk } },
    });
    if let Some(class) = &config.vm_storage_class {
        claim["storageClassName"] = class.as_str().into();
    }
    let mut metadata = machine.metadata(&machine.disk());
    metadata["annotations"] = json!({ names::KEEP_DATA_VOLUME: "false" });
    json!({
        "apiVersion": "cdi.kubevirt.io/v1beta1",
        "kind": "DataVolume",
        "metadata": metadata,
        "spec": {
            "source": { "pvc": { "namespace": config.golden_image_namespace, "name": spec.image } },
            "pvc": claim,
        },
    })
}
