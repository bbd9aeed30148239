//! What the provider knows of the service that says what the device is to be: whoever talks to it puts it here.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::sync::Notify;

use super::specs::{HASH, VERSION, annotation};
use crate::device::seal;
use crate::device::words::{DecommissionTarget, Rendered};

/// The newest word of the service, and what is asked of whoever talks to it.
#[derive(Default)]
pub struct Service {
    known: Mutex<Known>,
    /// Something is known that was not.
    news: Notify,
    /// The status is to be sent now.
    report: Notify,
    /// The credentials are to be wiped.
    decommission: tokio::sync::watch::Sender<Option<DecommissionTarget>>,
}

#[derive(Clone, Default)]
struct Known {
    device: Option<Value>,
    rendered: Rendered,
    enrolled: bool,
    enrolment: String,
}

impl Service {
    /// A Device came, at this time.
    pub fn received(&self, device: Value, at: &str) {
        self.change(|known| {
            known.rendered = Rendered {
                version: Some(annotation(&device, VERSION).to_owned()),
                spec_hash: annotation(&device, HASH).to_owned(),
                device: device.get("spec").is_some_and(Value::is_object).then(|| seal::seal(&device)),
                received_at: Some(at.to_owned()),
                reachable: true,
                gone: false,
                error: None,
            };
            known.device = Some(device);
        });
    }

    /// The service answered, and had nothing new.
    pub fn reached(&self) {
        self.change(|known| {
            known.rendered.reachable = true;
            known.rendered.error = None;
        });
    }

    /// The service cannot be reached, in a sentence that stays the same while the trouble does.
    pub fn unreachable(&self, error: &str) {
        self.change(|known| {
            known.rendered.reachable = false;
            known.rendered.error = Some(error.to_owned());
        });
    }

    /// The service does not know this device any more.
    pub fn gone(&self) {
        self.change(|known| {
            known.device = None;
            known.rendered = Rendered { gone: true, reachable: true, ..Rendered::default() };
            known.enrolled = false;
        });
    }

    /// The device has credentials; `enrolment` is another text for each enrolment.
    pub fn enrolled(&self, enrolment: &str) {
        self.change(|known| {
            known.enrolled = true;
            enrolment.clone_into(&mut known.enrolment);
            known.rendered.gone = false;
        });
    }

    /// What is known, sealed.
    pub(in crate::device) fn rendered(&self) -> Rendered {
        self.lock().rendered.clone()
    }

    /// The newest Device, with all that is secret in it.
    pub(super) fn device(&self) -> Option<Value> {
        self.lock().device.clone()
    }

    /// Whether it is enrolled, and as what.
    pub(in crate::device) fn enrolment(&self) -> (bool, String) {
        let known = self.lock();
        (known.enrolled, known.enrolment.clone())
    }

    /// Asks for the status to be sent now.
    pub(in crate::device) fn ask_report(&self) {
        self.report.notify_one();
    }

    /// Returns when the status is to be sent now.
    pub async fn report_asked(&self) {
        self.report.notified().await;
    }

    /// Asks for the device to be given up.
    pub(super) fn ask_decommission(&self, target: DecommissionTarget) {
        self.decommission.send_replace(Some(target));
    }

    /// Returns when the device is to be given up, with what becomes of it.
    pub async fn decommission_asked(&self) -> DecommissionTarget {
        let mut asked = self.decommission.subscribe();
        loop {
            if let Some(target) = *asked.borrow_and_update() {
                return target;
            }
            if asked.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    /// Returns when something is known that was not.
    pub(super) async fn news(&self) {
        self.news.notified().await;
    }

    fn change(&self, change: impl FnOnce(&mut Known)) {
        let mut known = self.lock();
        let before = (known.rendered.clone(), known.enrolled, known.enrolment.clone());
        change(&mut known);
        if before != (known.rendered.clone(), known.enrolled, known.enrolment.clone()) {
            drop(known);
            self.news.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_spec_that_is_none_is_told_by_its_version_alone() {
        let service = Service::default();
        service.received(json!({"metadata": {"annotations": {VERSION: "7"}}, "spec": null}), "t");
        let rendered = service.rendered();
        assert_eq!((rendered.version.as_deref(), rendered.device), (Some("7"), None));
        service.unreachable("connection refused");
        assert_eq!(service.rendered().version.as_deref(), Some("7"), "what came is still known");
    }
}
