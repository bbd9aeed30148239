//! Which machine it is, and which VM is its own.

use evenkeel_sdk::{ObjectRef, reference};
use serde_json::{Value, json};

use crate::api::VSphereMachine;
use crate::names;
use crate::seam::Vm;

/// What a machine's VM is known by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Namespace of the object.
    pub namespace: String,
    /// Name of the object, of its VM, and of its node.
    pub name: String,
    /// UID of the object.
    pub uid: String,
    /// The instance UUID that its VM was cloned with, in lower case.
    pub instance_uuid: Option<String>,
    /// The BIOS UUID that its VM got, in lower case.
    pub bios_uuid: Option<String>,
}

impl Identity {
    /// Of an object.
    pub fn of(machine: &VSphereMachine) -> Self {
        let status = machine.status.as_ref();
        let written = machine.spec.provider_id.as_deref().and_then(bios_uuid);
        // Who applies the spec without the provider id takes it away; the status still has it.
        let remembered = status.and_then(|status| status.bios_uuid.as_deref()).map(str::to_lowercase);
        Self {
            namespace: machine.metadata.namespace.clone().unwrap_or_default(),
            name: machine.metadata.name.clone().unwrap_or_default(),
            uid: machine.metadata.uid.clone().unwrap_or_default(),
            instance_uuid: status.and_then(|status| status.instance_uuid.as_deref()).map(str::to_lowercase),
            bios_uuid: written.or(remembered),
        }
    }

    /// The reference to the object.
    pub fn reference(&self) -> ObjectRef {
        reference::<VSphereMachine>((&self.namespace, &self.name))
    }

    /// The instance UUID that its VM has or will have.
    pub fn instance(&self) -> &str {
        self.instance_uuid.as_deref().unwrap_or(&self.uid)
    }

    /// The marker that its VM bears.
    pub fn marker(&self) -> String {
        format!("{}/{}/{}", self.namespace, self.name, self.uid)
    }

    /// Whether a VM bears this machine's marker.
    pub fn is_marked(&self, vm: &Vm) -> bool {
        let uid = vm.owner.as_deref().and_then(|owner| owner.rsplit('/').next());
        !self.uid.is_empty() && uid == Some(&self.uid)
    }

    /// Whether a VM is this machine's: only then is it changed, switched or destroyed. Its name says nothing.
    pub fn is_ours(&self, vm: &Vm) -> bool {
        let is = |uuid: &str, ours: &str| !uuid.is_empty() && uuid.eq_ignore_ascii_case(ours);
        !vm.template
            && (is(&vm.instance_uuid, &self.uid)
                || is(&vm.instance_uuid, self.instance())
                || self.bios_uuid.as_deref().is_some_and(|bios| is(&vm.bios_uuid, bios))
                || self.is_marked(vm))
    }

    /// What the provider checks by itself before it touches a VM.
    pub fn owner(&self) -> Value {
        let mut owner = json!({"uid": self.uid});
        if let Some(instance) = &self.instance_uuid {
            owner["instanceUuid"] = instance.as_str().into();
        }
        if let Some(bios) = &self.bios_uuid {
            owner["biosUuid"] = bios.as_str().into();
        }
        owner
    }
}

/// The provider id of a VM.
pub fn provider_id(bios_uuid: &str) -> String {
    format!("{}{}", names::PROVIDER_ID_SCHEME, bios_uuid.to_lowercase())
}

/// The BIOS UUID of a provider id, in lower case.
pub fn bios_uuid(provider_id: &str) -> Option<String> {
    let uuid = provider_id.strip_prefix(names::PROVIDER_ID_SCHEME)?;
    (!uuid.is_empty()).then(|| uuid.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id() -> Identity {
        Identity {
            namespace: "ns".into(),
            name: "m-0".into(),
            uid: "u-1".into(),
            instance_uuid: None,
            bios_uuid: Some("b-1".into()),
        }
    }

    fn check(vm: &str, ours: bool) {
        let text = format!("{{vm: vm-7, power: 'off', accessible: true, {vm}}}");
        let vm: Vm = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(id().is_ours(&vm), ours, "{text}");
    }

    #[test]
    fn a_vm_is_ours_by_its_uuids_or_its_marker() {
        check("instanceUuid: U-1", true);
        check("biosUuid: B-1", true);
        check("instanceUuid: other, owner: old-ns/m-0/u-1", true);
    }

    #[test]
    fn a_vm_of_the_same_name_is_not_ours() {
        check("name: m-0", false);
        check("name: m-0, instanceUuid: u-2, biosUuid: b-2, owner: ns/m-0/u-2", false);
        check("owner: ns/m-0/xu-1", false);
        check("owner: u-11", false);
    }

    #[test]
    fn a_template_is_never_ours() {
        check("instanceUuid: u-1, template: true", false);
    }

    #[test]
    fn a_machine_without_a_uid_owns_nothing() {
        let nobody = Identity { uid: String::new(), bios_uuid: None, ..id() };
        let vm: Vm = serde_saphyr::from_str("{vm: vm-7, power: 'off', accessible: true, owner: ''}").unwrap();
        assert!(!nobody.is_ours(&vm));
    }
}
