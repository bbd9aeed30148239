//! What the servers show: the pages, put together from a host and what belongs to it.

use std::sync::Arc;
use std::sync::{Mutex, PoisonError};

use evenkeel_cluster::election::Standing;
use evenkeel_core::record::PassRecord;
use evenkeel_engine::Host;
use evenkeel_engine::directory::Directory;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::explain::Question;
use crate::metrics::{CONTENT_TYPE, Leads, Metrics};
use crate::probes::{self, Health, Verdict};

/// A page, as it is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The HTTP status code.
    pub code: u16,
    /// Its media type.
    pub content_type: &'static str,
    /// Its text.
    pub text: String,
}

/// What `/explain` answers, as JSON.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Explanation {
    /// The latest passes about the object, oldest first.
    pub records: Vec<Arc<PassRecord>>,
    /// How many of them the journal holds in memory.
    pub of: usize,
}

/// The host that the pages are about.
pub struct Pages {
    host: Host,
    metrics: Arc<Metrics>,
    /// Set once the folder of plugins was read.
    directory: Mutex<Option<Arc<Directory>>>,
    awaits_files: bool,
    election: Option<(String, watch::Receiver<Standing>)>,
}

impl Pages {
    /// Of a host. `awaits_files` says that it is not ready before [`Pages::files`] was called; `election` is the
    /// Lease's name and how the election stands.
    pub fn new(
        host: Host,
        metrics: Arc<Metrics>,
        awaits_files: bool,
        election: Option<(String, watch::Receiver<Standing>)>,
    ) -> Arc<Self> {
        Arc::new(Self { host, metrics, directory: Mutex::new(None), awaits_files, election })
    }

    /// The folder of plugins was read.
    pub fn files(&self, directory: Arc<Directory>) {
        *self.directory.lock().unwrap_or_else(PoisonError::into_inner) = Some(directory);
    }

    /// The metrics now.
    pub fn metrics(&self) -> Page {
        let leads = self
            .election
            .as_ref()
            .map(|(lease, standing)| Leads { lease: lease.clone(), leads: standing.borrow().leads });
        Page { code: 200, content_type: CONTENT_TYPE, text: self.metrics.text(&self.host, leads.as_ref()) }
    }

    /// Whether the host lives.
    pub fn livez(&self) -> Page {
        page(probes::livez(&self.health()))
    }

    /// Whether the host is ready.
    pub fn readyz(&self) -> Page {
        page(probes::readyz(&self.health()))
    }

    /// What the journal in memory holds about an object.
    pub fn explain(&self, question: &Question) -> Page {
        let mut records = self.host.journal().select(|record| question.subject.concerns(record));
        let of = records.len();
        records.drain(..of.saturating_sub(question.last));
        match serde_json::to_string(&Explanation { records, of }) {
            Ok(text) => Page { code: 200, content_type: "application/json", text },
            Err(error) => Page {
                code: 500,
                content_type: "text/plain; charset=utf-8",
                text: format!("the journal cannot be told: {error}\n"),
            },
        }
    }

    fn health(&self) -> Health {
        let directory = self.directory.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Health {
            dead_tasks: self.host.dead_tasks(),
            status: self.host.status(),
            files: directory.map(|directory| directory.files()),
            awaits_files: self.awaits_files,
            standing: self.election.as_ref().map(|(_, standing)| standing.borrow().clone()),
        }
    }
}

fn page(verdict: Verdict) -> Page {
    Page {
        code: if verdict.ok { 200 } else { 503 },
        content_type: "text/plain; charset=utf-8",
        text: verdict.text,
    }
}
