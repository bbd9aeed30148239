//! What a driver is.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde::Serialize;

use super::call::{Call, ListCall};
use super::code::{self, Code};

/// What a call of a driver resolves to.
pub type DriverFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, DriverError>> + Send + 'a>>;

/// Is to be called with the UID of a machine whose status may be another one now than was last told.
pub type Teller = Arc<dyn Fn(&str) + Send + Sync>;

/// Makes and deletes VMs in some cloud. The provider calls it for one machine at a time.
///
/// No call waits for the cloud to get something done: it starts it and says that it is [`Progress::UnderWay`]. The next call
/// of the same kind goes on from there.
pub trait Driver: Send + Sync {
    /// Has a VM made. A machine that has one keeps it; what is made in part is found by [`Driver::delete`].
    fn create<'a>(&'a self, call: &'a Call) -> DriverFuture<'a, Progress<Vm>>;

    /// Initialises a VM that is there. [`Code::Unimplemented`] where nothing is to be done.
    fn initialize<'a>(&'a self, call: &'a Call) -> DriverFuture<'a, Progress<Vm>>;

    /// The machine's VM: [`Code::NotFound`] if there is none, [`Code::OutOfRange`] if there are several.
    fn status<'a>(&'a self, call: &'a Call) -> DriverFuture<'a, Progress<Vm>>;

    /// Deletes the VM and all that was made with it. One that is gone is a success, and what is left of it is looked for
    /// all the same. Gives what the driver wants to be told again. A call without a UID means the VM of its provider ID, and
    /// that one alone.
    fn delete<'a>(&'a self, call: &'a Call) -> DriverFuture<'a, Progress<Option<String>>>;

    /// The names of the machines of all VMs of the class, by the VMs' identities; only of those that bear our marks.
    fn list<'a>(&'a self, call: &'a ListCall) -> DriverFuture<'a, BTreeMap<String, String>>;

    /// Whom to tell. A driver that tells nobody says so in [`UnderWay::watched`].
    fn tells(&self, teller: Teller) {
        let _ = teller;
    }

    /// Nobody waits for another status of this machine any more.
    fn forget(&self, uid: &str) {
        let _ = uid;
    }
}

/// How far something is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress<T> {
    /// It is done.
    Done(T),
    /// The cloud is at it.
    UnderWay(UnderWay),
}

/// What the cloud is at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UnderWay {
    /// In words, the same as long as it is the same.
    pub message: String,
    /// Whether its end is told; where not, somebody has to look again.
    pub watched: bool,
    /// What the driver wants to be told again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_known_state: Option<String>,
}

/// A VM, as the driver tells of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Vm {
    /// Its identity in the cloud.
    #[serde(rename = "providerID")]
    pub provider_id: String,
    /// The name of the Node that it becomes; empty while that is not known.
    pub node_name: String,
    /// Its addresses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<Address>,
    /// What the driver wants to be told again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_known_state: Option<String>,
    /// Whether it has still to be initialised.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub uninitialized: bool,
}

/// An address of a VM, as Nodes have them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Address {
    /// `InternalIP`, `Hostname` and the like.
    #[serde(rename = "type")]
    pub type_: String,
    /// The address.
    pub address: String,
}

/// Why a driver did not do what it was told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", code::text(*.code, message))]
pub struct DriverError {
    /// What kind of trouble it is.
    pub code: Code,
    /// The cloud's words.
    pub message: String,
    /// What the driver wants to be told again.
    pub last_known_state: Option<String>,
}

impl DriverError {
    /// Without anything to be told again.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), last_known_state: None }
    }
}
