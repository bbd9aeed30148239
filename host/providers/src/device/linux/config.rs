//! What a device's host is set up with.

use std::path::PathBuf;
use std::sync::Arc;

use super::steps::Steps;

/// Where the time comes from.
pub type Clock = Arc<dyn Fn() -> jiff::Timestamp + Send + Sync>;

/// Where the state files are.
pub const STATE_FOLDER: &str = "/var/lib/flightctl";
/// Where the certificates and settings of the service are.
pub const CERTIFICATES: &str = "/etc/flightctl/certs";

/// The settings of [`super::LinuxDevice`].
#[derive(Clone)]
pub struct LinuxOptions {
    /// The folder that stands for `/`.
    pub root: PathBuf,
    /// The device's name with the service.
    pub name: String,
    /// What reboots, with its arguments. Where it is empty: `systemctl reboot` for the machine itself, and nothing else
    /// for any other root.
    pub reboot: Vec<String>,
    /// The host's version.
    pub version: String,
    /// What the operator wants reported.
    pub custom_info: std::collections::BTreeMap<String, String>,
    /// Paths of the tree that nobody may manage besides those that every device protects, each with why: it reads as
    /// `/path is {why}`.
    pub protected: Vec<(String, String)>,
    /// The time.
    pub clock: Clock,
    /// Told of each durable step.
    pub steps: Steps,
}

impl LinuxOptions {
    /// The machine itself, under this name.
    pub fn new(name: &str, clock: Clock) -> Self {
        Self {
            root: PathBuf::from("/"),
            name: name.to_owned(),
            reboot: Vec::new(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            custom_info: std::collections::BTreeMap::new(),
            protected: Vec::new(),
            clock,
            steps: Steps::default(),
        }
    }
}
