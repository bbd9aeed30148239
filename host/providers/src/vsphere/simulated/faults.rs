//! What goes wrong on purpose.

use serde::Deserialize;

use super::config::OperationName;
use crate::vsphere::data::Object;
use crate::vsphere::fault;
use crate::vsphere::vcenter::{Call, CallError};
use crate::vsphere::words::{FaultView, Reason};

/// Faults to come, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    tasks: Vec<TaskFault>,
    calls: Vec<CallFault>,
}

/// A task that is started and fails.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct TaskFault {
    operation: OperationName,
    fault: FaultView,
    #[serde(default = "once")]
    times: u32,
}

/// A call without a good answer.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct CallFault {
    #[serde(deserialize_with = "method")]
    method: String,
    #[serde(default)]
    reason: Option<Reason>,
    #[serde(default)]
    message: String,
    /// vCenter's own word, in the place of `reason`.
    #[serde(default)]
    fault: Option<FaultView>,
    #[serde(default = "once")]
    times: u32,
    #[serde(default)]
    pub(crate) effect: Effect,
}

/// Whether the call did what it was for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Effect {
    /// It did nothing.
    #[default]
    None,
    /// It took effect, and the answer was lost.
    Written,
}

fn once() -> u32 {
    1
}

/// What a fault may be aimed at: every call but those of the session, a question or an operation by its name, or a method of
/// vCenter.
const METHODS: &[&str] = &[
    "*",
    "task",
    "vm",
    "vm-by-uuid",
    "vm-by-name",
    "placement",
    "clone",
    "reconfigure",
    "power-on",
    "power-off",
    "shutdown-guest",
    "destroy",
    "RetrieveServiceContent",
    "Login",
    "FindByInventoryPath",
    "FindAllByUuid",
    "RetrievePropertiesEx",
    "ContinueRetrievePropertiesEx",
    "CreatePropertyCollector",
    "CreateFilter",
    "DestroyPropertyCollector",
    "CreateListView",
    "ModifyListView",
    "DestroyView",
    "WaitForUpdatesEx",
    "CloneVM_Task",
    "ReconfigVM_Task",
    "PowerOnVM_Task",
    "PowerOffVM_Task",
    "ShutdownGuest",
    "Destroy_Task",
    "FindByUuid",
    "Logout",
];

/// A name that no call has would be a fault that never strikes.
fn method<'de, D: serde::Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let method = String::deserialize(from)?;
    if METHODS.contains(&method.as_str()) {
        return Ok(method);
    }
    let known = METHODS.join(", ");
    Err(serde::de::Error::custom(format!("no call is meant by the method {method:?}: it is one of {known}")))
}

impl Faults {
    pub(crate) fn add_task(&mut self, fault: TaskFault) {
        self.tasks.push(fault);
    }

    pub(crate) fn add_call(&mut self, fault: CallFault) {
        self.calls.push(fault);
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// How a task that is started now is to fail.
    pub(crate) fn of_task(&mut self, operation: OperationName) -> Option<FaultView> {
        let fault = self.tasks.iter_mut().find(|fault| fault.operation == operation && fault.times > 0)?;
        fault.times -= 1;
        Some(fault.fault.clone())
    }

    /// How this call is to fail.
    pub(crate) fn of_call(&mut self, call: &Call) -> Option<CallFault> {
        let fault = self.calls.iter_mut().find(|fault| fault.times > 0 && means(&fault.method, call))?;
        fault.times -= 1;
        Some(fault.clone())
    }
}

impl CallFault {
    pub(crate) fn error(&self) -> CallError {
        if let Some(fault) = &self.fault {
            return CallError::Fault(super::methods::fault_of(fault));
        }
        let message =
            |usual: &str| if self.message.is_empty() { usual.to_owned() } else { self.message.clone() };
        match self.reason.unwrap_or(Reason::Unreachable) {
            Reason::Unreachable | Reason::NotConfigured => {
                CallError::Unreachable(message("connection refused"))
            }
            Reason::Timeout => CallError::Timeout,
            Reason::BadAnswer => CallError::BadAnswer(message("the answer is no XML")),
            Reason::NotAuthenticated => CallError::NotAuthenticated,
            Reason::InvalidLogin => CallError::InvalidLogin,
            Reason::CredentialsMissing => CallError::Credentials(message("there are no credentials")),
            Reason::NoPermission => {
                plain("NoPermission", message("Permission to perform this operation was denied."))
            }
            Reason::Fault => plain("SystemError", message("A general system error occurred.")),
        }
    }
}

fn plain(kind: &str, message: String) -> CallError {
    CallError::Fault(fault::fault(kind.to_owned(), message, Object::new(kind)))
}

/// Whether a question's or an operation's name means this call.
fn means(name: &str, call: &Call) -> bool {
    let reads = |kind: &str| {
        call.method == "RetrievePropertiesEx"
            && call.parameters.get("specSet").is_some_and(|specs| {
                let objects = specs.items().iter().flat_map(|spec| spec.items_of("objectSet"));
                let mut references = objects.filter_map(|object| object.get("obj")?.reference());
                references.any(|reference| reference.kind == kind)
            })
    };
    match name {
        "*" => !matches!(call.method, "Login" | "RetrieveServiceContent" | "WaitForUpdatesEx"),
        "task" => reads("Task"),
        "vm" => reads("VirtualMachine"),
        "vm-by-uuid" => call.method == "FindAllByUuid",
        "vm-by-name" | "placement" => call.method == "FindByInventoryPath",
        "clone" => call.method == "CloneVM_Task",
        "reconfigure" => call.method == "ReconfigVM_Task",
        "power-on" => call.method == "PowerOnVM_Task",
        "power-off" => call.method == "PowerOffVM_Task",
        "shutdown-guest" => call.method == "ShutdownGuest",
        "destroy" => call.method == "Destroy_Task",
        method => call.method == method,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::vsphere::data::MoRef;

    #[test]
    fn a_fault_that_no_call_is_meant_by_is_refused() {
        for method in ["nonsense", "Clone", "", "CloneVM"] {
            let read: Result<CallFault, _> = serde_json::from_value(json!({ "method": method }));
            let error = read.expect_err("no call is called so").to_string();
            let expected =
                format!("no call is meant by the method {method:?}: it is one of *, task, vm, vm-by-uuid, ");
            assert!(error.starts_with(&expected) && error.contains("PowerOffVM_Task"), "{error}");
        }
        for method in METHODS {
            let read: Result<CallFault, _> = serde_json::from_value(json!({ "method": method }));
            assert_eq!(read.expect("it is known").method, *method);
        }
    }

    #[test]
    fn a_fault_strikes_the_call_that_it_is_aimed_at_and_no_other() {
        let call = |method| Call::new(&MoRef::new("VirtualMachine", "vm-7"), method);
        for (name, method, strikes) in [
            ("*", "CloneVM_Task", true),
            ("*", "Login", false),
            ("clone", "CloneVM_Task", true),
            ("CloneVM_Task", "CloneVM_Task", true),
            ("clone", "Destroy_Task", false),
            ("placement", "FindByInventoryPath", true),
        ] {
            assert_eq!(means(name, &call(method)), strikes, "{name} {method}");
        }
    }
}
