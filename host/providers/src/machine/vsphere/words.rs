//! The class' words for a VM on vSphere, and the provider's for what came of a call.

use evenkeel_core::contract::{Failure, FailureKind, Json};
use serde::Deserialize;
use serde_json::Value;

use super::super::call::Class;
use super::super::code::Code;
use super::super::driver::DriverError;

/// `providerSpec` of a class: where its VMs are, and what they are like.
pub(super) struct Spec {
    /// The vCenter, as the host calls it.
    pub(super) server: String,
    /// The datacenter.
    pub(super) datacenter: String,
    /// `template`, `folder`, `datastore`, `resourcePool`, `numCpus`, `memoryMib`, `diskGib`, `nics`, as they are passed on.
    pub(super) placement: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Written {
    server: String,
    datacenter: String,
    template: String,
    #[serde(default)]
    folder: Option<String>,
    #[serde(default)]
    datastore: Option<String>,
    #[serde(default)]
    resource_pool: Option<String>,
    networks: Vec<String>,
    num_cpus: u32,
    memory_mib: u64,
    #[serde(default)]
    disk_gib: Option<u32>,
}

impl Spec {
    /// From a class; one that says something else is at fault.
    pub(super) fn of(class: &Class) -> Result<Self, DriverError> {
        let written = Written::deserialize(&class.provider_spec)
            .map_err(|cause| DriverError::new(Code::InvalidArgument, format!("providerSpec: {cause}")))?;
        let Written {
            server,
            datacenter,
            template,
            folder,
            datastore,
            resource_pool,
            networks,
            num_cpus,
            memory_mib,
            disk_gib,
        } = written;
        let nics: Vec<Value> =
            networks.iter().map(|network| serde_json::json!({"network": network})).collect();
        let mut placement = serde_json::json!({
            "template": template, "numCpus": num_cpus, "memoryMib": memory_mib, "nics": nics,
        });
        let named = [("folder", folder), ("datastore", datastore), ("resourcePool", resource_pool)];
        for (key, value) in named {
            if let Some(value) = value {
                placement[key] = value.into();
            }
        }
        if let Some(size) = disk_gib {
            placement["diskGib"] = size.into();
        }
        Ok(Self { server, datacenter, placement })
    }

    /// The folder of its VMs; none for the datacenter's own.
    pub(super) fn folder(&self) -> Option<&str> {
        self.placement["folder"].as_str()
    }
}

/// What the provider says.
#[derive(Debug, Deserialize)]
#[serde(tag = "result", rename_all = "kebab-case")]
pub(super) enum Answer {
    Hit {
        #[serde(default)]
        vm: Option<Value>,
        #[serde(default)]
        task: Option<Value>,
        #[serde(default)]
        watched: bool,
    },
    Group {
        vms: Vec<Value>,
    },
    Absent,
    Ambiguous {
        vms: Vec<Value>,
    },
    Task {
        task: String,
    },
    Done {},
    Fault {
        fault: Value,
    },
    Missing {
        missing: Vec<Value>,
    },
    NotOurs {
        message: String,
    },
    Unknown {
        reason: String,
        message: String,
    },
}

impl Answer {
    pub(super) fn read(outcome: Result<Option<Json>, Failure>) -> Result<Self, DriverError> {
        let text = outcome.map_err(|failure| {
            let code = match failure.kind {
                FailureKind::Denied => Code::PermissionDenied,
                FailureKind::Invalid => Code::InvalidArgument,
                FailureKind::Transient => Code::Unavailable,
                FailureKind::Conflict => Code::Aborted,
                FailureKind::NotFound => Code::NotFound,
            };
            DriverError::new(code, failure.message.to_string())
        })?;
        let text = text.unwrap_or_default();
        serde_json::from_str(&text).map_err(|cause| {
            DriverError::new(Code::Internal, format!("the provider's answer has another shape: {cause}"))
        })
    }

    /// As a failure of the driver; of an answer that is none, that it was not expected.
    pub(super) fn error(self) -> DriverError {
        match self {
            Self::Fault { fault: found } => fault(&found),
            Self::Missing { missing } => {
                let names: Vec<String> = missing
                    .iter()
                    .map(|one| format!("{} {}", word(&one["what"]), word(&one["name"])))
                    .collect();
                DriverError::new(Code::FailedPrecondition, format!("not there: {}", names.join(", ")))
            }
            Self::NotOurs { message } => DriverError::new(Code::FailedPrecondition, message),
            Self::Unknown { reason, message } => {
                let code = match reason.as_str() {
                    "Unreachable" | "Timeout" | "BadAnswer" => Code::Unavailable,
                    "NotAuthenticated" | "InvalidLogin" | "CredentialsMissing" => Code::Unauthenticated,
                    "NoPermission" => Code::PermissionDenied,
                    "NotConfigured" => Code::InvalidArgument,
                    _ => Code::Internal,
                };
                DriverError::new(code, message)
            }
            Self::Hit { .. }
            | Self::Group { .. }
            | Self::Absent
            | Self::Ambiguous { .. }
            | Self::Task { .. }
            | Self::Done {} => DriverError::new(Code::Internal, "the provider answered another question"),
        }
    }
}

/// A fault of vCenter.
pub(super) fn fault(fault: &Value) -> DriverError {
    let type_ = word(&fault["type"]);
    let code = match type_ {
        "NoPermission" => Code::PermissionDenied,
        "NoCompatibleHost" | "InsufficientResourcesFault" | "NoDiskSpace" | "InsufficientStorageSpace" => {
            Code::ResourceExhausted
        }
        "DuplicateName" => Code::AlreadyExists,
        "InvalidArgument" | "InvalidDatastorePath" | "InvalidName" => Code::InvalidArgument,
        "TaskInProgress" | "ConcurrentAccess" => Code::Aborted,
        "RequestCanceled" => Code::Canceled,
        _ => Code::Internal,
    };
    DriverError::new(code, format!("{type_}: {}", word(&fault["message"])))
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
