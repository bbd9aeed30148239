//! Providers on simulated far ends, by the names of those that they stand in for.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::device::simulated::DeviceTwin;
use crate::machine::simulated::MachineTwin;
use crate::provider::Provider;
use crate::vsphere::simulated::VsphereTwin;

/// A provider whose far end is simulated: on tokio's clock, and the same for the same seed.
pub trait Twin: Send + Sync {
    /// The provider: the code that runs in production, too.
    fn as_provider(&self) -> Arc<dyn Provider>;

    /// Has something happen at the far end, such as a fault.
    fn control(&self, command: &Value) -> Result<(), TwinError>;

    /// Compares the far end with what is wanted of it: a sentence for each difference.
    fn expect(&self, wanted: &Value) -> Result<(), Vec<String>>;

    /// What must never be, and is: a sentence each.
    fn invariants(&self) -> Vec<String>;

    /// The same far end as a host finds it that has just been started: what the provider itself remembered is lost.
    /// None where it remembers nothing.
    fn after_restart(&self) -> Option<Arc<dyn Twin>> {
        None
    }
}

/// Why a twin does not do as it is told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TwinError {
    /// There is none for this provider.
    #[error("no simulated {0:?}: there are those of vsphere, machine and device")]
    NoSuchTwin(String),
    /// The configuration or the command is not understood.
    #[error("{what}: {cause}")]
    NotUnderstood {
        /// Which part.
        what: String,
        /// What is wrong with it.
        cause: String,
    },
    /// It names something that is not there.
    #[error("there is no {0}")]
    Missing(String),
}

/// Reads a configuration or a command.
pub(crate) fn read<T: DeserializeOwned>(what: &str, value: &Value) -> Result<T, TwinError> {
    T::deserialize(value)
        .map_err(|cause| TwinError::NotUnderstood { what: what.to_owned(), cause: cause.to_string() })
}

/// The same, for one that may be left out.
pub(crate) fn read_or_default<T: DeserializeOwned + Default>(
    what: &str,
    value: &Value,
) -> Result<T, TwinError> {
    if value.is_null() { Ok(T::default()) } else { read(what, value) }
}

/// Makes the twin of a provider. Call it inside a tokio runtime.
///
/// # Errors
/// If there is none for it, or the configuration is not understood.
pub fn make(name: &str, config: &Value, seed: u64) -> Result<Arc<dyn Twin>, TwinError> {
    match name {
        "vsphere" => Ok(Arc::new(VsphereTwin::new(config, seed)?)),
        crate::device::NAME => Ok(Arc::new(DeviceTwin::new(config)?)),
        crate::machine::NAME => Ok(Arc::new(MachineTwin::new(config)?)),
        other => Err(TwinError::NoSuchTwin(other.to_owned())),
    }
}
