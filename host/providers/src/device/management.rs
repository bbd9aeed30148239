//! The management service: it says what the device is to be, and is told how it is.
//!
//! A long poll with the newest version that is known, over mutual TLS, on a task of its own; the status by another one. A
//! server that fails is left for the next of the list. What the service sends is kept in memory alone: what the device is to
//! be stands in its state files.

mod credentials;
mod enrolment;
mod exchange;
mod timing;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use self::credentials::{Credentials, CredentialsError};
use self::exchange::{Polled, Servers};
use self::timing::Backoff;
use super::linux::config::Clock;
use super::linux::service::Service;
use super::linux::{LinuxDevice, VERSION};
use super::words::DecommissionTarget;

pub use self::exchange::{ServerAddress, ServerError};

/// Between two looks for credentials that are not there.
const LOOK: Duration = Duration::from_secs(5);

/// How often the service is spoken to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timings {
    /// Between the beginnings of two polls, at least.
    pub poll: Duration,
    /// One poll, at most: the service holds it for half of that.
    pub poll_max: Duration,
    /// After the first poll that fails; doubled with each further one.
    pub backoff: Duration,
    /// After any poll that fails, at most.
    pub backoff_max: Duration,
    /// Between two pushes of the status.
    pub status: Duration,
}

impl Default for Timings {
    fn default() -> Self {
        Self {
            poll: Duration::from_secs(5),
            poll_max: Duration::from_secs(240),
            backoff: Duration::from_secs(5),
            backoff_max: Duration::from_secs(300),
            status: Duration::from_secs(60),
        }
    }
}

/// What the client is set up with.
#[derive(Clone)]
pub struct ManagementOptions {
    /// The servers, in the order in which they are tried.
    pub servers: Vec<ServerAddress>,
    /// The authorities of their certificates, in PEM; the system's where absent.
    pub authorities: Option<String>,
    /// The folder of this machine that `agent.crt` and `agent.key` are in. A device without them enrols itself, with
    /// `client-enrollment.crt` and `client-enrollment.key` of the same folder.
    pub certificates: PathBuf,
    /// The device's name.
    pub name: String,
    /// How often.
    pub timings: Timings,
    /// The time.
    pub clock: Clock,
}

/// A client that runs; it ends with this.
pub struct Management(Vec<AbortHandle>);

impl Drop for Management {
    fn drop(&mut self) {
        self.0.iter().for_each(AbortHandle::abort);
    }
}

/// What the tasks share.
struct Client {
    options: ManagementOptions,
    service: Arc<Service>,
    servers: watch::Sender<Option<Arc<Servers>>>,
    /// The service wants the whole status again.
    resend: tokio::sync::Notify,
}

impl Management {
    /// Starts the client; call it inside a tokio runtime. `status` is the newest status of the device, null while it has none.
    pub fn start(
        options: ManagementOptions,
        device: Arc<LinuxDevice>,
        service: Arc<Service>,
        status: watch::Receiver<Value>,
    ) -> Self {
        let client = Arc::new(Client {
            options,
            service,
            servers: watch::Sender::new(None),
            resend: tokio::sync::Notify::new(),
        });
        Self(vec![
            tokio::spawn(Arc::clone(&client).poll(device)).abort_handle(),
            tokio::spawn(Arc::clone(&client).push(status)).abort_handle(),
            tokio::spawn(client.decommission()).abort_handle(),
        ])
    }
}

/// Why credentials are of no use any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// The service does not know the device.
    Gone,
    /// There are others.
    Renewed,
}

impl Client {
    /// Waits for credentials, polls with them until they are of no use any more, and begins anew.
    async fn poll(self: Arc<Self>, device: Arc<LinuxDevice>) {
        loop {
            let credentials = self.credentials(&device).await;
            let servers = match Servers::new(&self.options, &credentials) {
                Ok(servers) => Arc::new(servers),
                Err(error) => {
                    self.service.unreachable(&error.to_string());
                    tokio::time::sleep(LOOK).await;
                    continue;
                }
            };
            self.service.enrolled(credentials.fingerprint());
            self.servers.send_replace(Some(Arc::clone(&servers)));
            if self.poll_with(&servers, &credentials, &device).await == Ended::Renewed {
                tracing::info!("the device has another certificate");
                continue;
            }
            // The service does not know us any more: what proved who we were proves nothing.
            self.servers.send_replace(None);
            credentials.wipe();
            self.service.gone();
        }
    }

    async fn credentials(&self, device: &LinuxDevice) -> Credentials {
        let mut told = false;
        let folder = &self.options.certificates;
        loop {
            match Credentials::read(folder) {
                Ok(credentials) => return credentials,
                Err(CredentialsError::Missing(_)) if Credentials::for_enrolment(folder).is_ok() => {
                    let known = Some(device.versions().desired.0).filter(|known| !known.is_empty());
                    enrolment::enrol(&self.options, &self.service, known.as_deref()).await;
                    continue;
                }
                Err(error) => {
                    if !told {
                        tracing::warn!(%error, "waiting for credentials of the service");
                    }
                    told = true;
                    self.service.unreachable(&error.to_string());
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Polls until the credentials are of no use any more.
    async fn poll_with(&self, servers: &Servers, credentials: &Credentials, device: &LinuxDevice) -> Ended {
        let timings = &self.options.timings;
        let mut received = 0;
        let mut backoff = Backoff::new(timings, &self.options.name);
        loop {
            let began = Instant::now();
            // Looked at each time: with a new identity the versions begin anew.
            let desired: u64 = device.versions().desired.0.parse().unwrap_or_default();
            let known = desired.max(received);
            match servers.poll(known).await {
                Ok(Polled::Gone) => return Ended::Gone,
                Ok(Polled::Nothing) => {
                    backoff.reset();
                    self.service.reached();
                }
                Ok(Polled::Device(device)) => {
                    backoff.reset();
                    received = self.received(known, device).max(received);
                }
                Err(error) => {
                    self.service.unreachable(&error);
                    if credentials.are_renewed() {
                        return Ended::Renewed;
                    }
                    servers.next();
                    tokio::time::sleep(backoff.next()).await;
                }
            }
            tokio::time::sleep_until(began + timings.poll).await;
        }
    }

    /// Makes a Device known; gives its version, 0 where it counts for nothing.
    fn received(&self, known: u64, device: Value) -> u64 {
        let annotation = |name: &str| {
            let annotations = device.pointer("/metadata/annotations");
            annotations.and_then(|all| all.get(name)).and_then(Value::as_str)
        };
        if annotation("device-controller/conflictPaused").is_some_and(|value| value == "true") {
            self.resend.notify_one();
        }
        let version = annotation(VERSION).map(str::to_owned);
        let number = version.as_deref().and_then(|version| version.parse::<u64>().ok());
        if number.is_some_and(|number| number <= known && known > 0) {
            tracing::warn!(version, known, "the service sent a version that is not newer: it is left alone");
            self.service.reached();
            return 0;
        }
        self.service.received(device, &(self.options.clock)().to_string());
        number.unwrap_or_default()
    }

    /// Sends the status when it has changed, when it is asked for, and when a try has failed.
    async fn push(self: Arc<Self>, status: watch::Receiver<Value>) {
        let timings = &self.options.timings;
        let mut sent = Value::Null;
        // Devices that start together do not all speak at once.
        let mut due = Instant::now() + timing::part_of(timings.status, &self.options.name);
        loop {
            let asked = tokio::select! {
                () = tokio::time::sleep_until(due) => false,
                () = self.service.report_asked() => true,
                () = self.resend.notified() => true,
            };
            due = Instant::now() + timings.status;
            let now = status.borrow().clone();
            let Some(servers) = self.servers.borrow().clone() else { continue };
            if now.is_null() || (now == sent && !asked) {
                continue;
            }
            match servers.put_status(&self.options.name, &now).await {
                Ok(()) => sent = now,
                Err(error) => tracing::warn!(%error, "the status was not sent; it is tried again"),
            }
        }
    }

    /// Gives the device up when that is asked for.
    async fn decommission(self: Arc<Self>) {
        let target = self.service.decommission_asked().await;
        tracing::warn!(?target, "the device is given up: its credentials go");
        match target {
            DecommissionTarget::Unenroll | DecommissionTarget::FactoryReset => {
                if let Ok(credentials) = Credentials::read(&self.options.certificates) {
                    credentials.wipe();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
