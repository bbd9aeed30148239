//! Leader election: the Lease that says which of several hosts acts.
//!
//! What is decided is decided by [`evenkeel_core::lease`]; here its requests are sent, its time is kept, and its verdict
//! opens and shuts the [`Fence`] that stands in front of every write of the host.

mod lease;

use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::lease::{Claimed, Elector, Next, Term, Timings, TimingsError};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use self::lease::LeaseApi;
use crate::failure::chain;
use crate::fence::Fence;
use crate::rest::{Rest, RestError};
use crate::{Clock, RequestObserver};

/// Who stands for election, and where.
#[derive(Clone)]
pub struct ElectionOptions {
    /// The namespace of the Lease.
    pub namespace: String,
    /// The Lease. Hosts that share it are one host: exactly one of them acts.
    pub name: String,
    /// Names this very process, as in `pod_4f1c…`; no other one may use it, and no later one either.
    pub identity: String,
    /// How long things take.
    pub timings: Timings,
    /// Spreads candidates that start together.
    pub seed: u64,
    /// The time of day: written into the Lease for people, and asked by the fence.
    pub clock: Clock,
    /// Told of every request.
    pub on_request: Option<RequestObserver>,
}

/// How the election stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// This host acts.
    pub leads: bool,
    /// The identity of the one that acts, as far as is known.
    pub holder: Option<String>,
    /// Why the Lease could not be read or written last time, if so.
    pub trouble: Option<String>,
}

/// A candidacy; it ends with this, without handing over.
pub struct Election {
    fence: Arc<Fence>,
    standing: watch::Receiver<Standing>,
    resign: mpsc::Sender<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Drop for Election {
    fn drop(&mut self) {
        // Nobody renews any more: nothing may be written either.
        self.fence.shut();
        self.task.abort();
    }
}

impl Election {
    /// Stands for election. Must be called within a tokio runtime.
    pub fn start(client: kube::Client, options: ElectionOptions) -> Result<Self, TimingsError> {
        let timings = options.timings.check()?;
        let fence = Fence::new(options.clock.clone());
        let (told, standing) = watch::channel(Standing::default());
        let (resign, orders) = mpsc::channel(1);
        // A request may fail once, and be tried again while the holder still acts.
        let rest = Rest::new(client, timings.retry * 2, options.on_request.clone());
        let candidate = Candidate {
            elector: Elector::new(&options.identity, timings, options.seed),
            api: LeaseApi::new(rest, &options),
            clock: options.clock.clone(),
            fence: Arc::clone(&fence),
            start: Instant::now(),
            told,
            trouble: None,
        };
        let task = tokio::spawn(candidate.run(orders));
        Ok(Self { fence, standing, resign, task })
    }

    /// What lets the writes of this host through.
    pub fn fence(&self) -> Arc<Fence> {
        Arc::clone(&self.fence)
    }

    /// How the election stands, and stands from now on.
    pub fn standing(&self) -> watch::Receiver<Standing> {
        self.standing.clone()
    }

    /// Shuts the fence and hands the Lease over, so that another host need not wait until it runs out. Call it once
    /// the last pass has ended.
    pub async fn resign(self) {
        self.fence.shut();
        let (done, heard) = oneshot::channel();
        if self.resign.send(done).await.is_ok() {
            // Where the candidate is gone there is nothing to wait for.
            let _ = heard.await;
        }
    }
}

struct Candidate {
    elector: Elector,
    api: LeaseApi,
    clock: Clock,
    fence: Arc<Fence>,
    start: Instant,
    told: watch::Sender<Standing>,
    trouble: Option<String>,
}

impl Candidate {
    async fn run(mut self, mut orders: mpsc::Receiver<oneshot::Sender<()>>) {
        loop {
            let now = self.start.elapsed();
            match self.elector.next(now) {
                Next::Rest { until } => {
                    let until = self.start + self.term_end().unwrap_or(until).min(until);
                    tokio::select! {
                        () = sleep_until(until) => {}
                        order = orders.recv() => {
                            let Some(done) = order else { return };
                            self.resign().await;
                            let _ = done.send(()); // Whoever asked may have given up.
                            return;
                        }
                    }
                }
                Next::Look => {
                    let came = until_done(&self, |api| Box::pin(async move { api.read().await })).await;
                    let now = self.start.elapsed();
                    self.trouble =
                        came.as_ref().err().map(|error| format!("cannot read the Lease: {}", chain(error)));
                    match came {
                        Ok(lease) => self.elector.looked(now, lease),
                        Err(_) => self.elector.missed(now),
                    }
                }
                Next::Claim(claim) => {
                    // Before it is sent: what counts is when others may see it first.
                    let (sent, asked) = (self.start.elapsed(), (Instant::now(), (self.clock)()));
                    let came =
                        until_done(&self, move |api| Box::pin(async move { api.write(&claim).await })).await;
                    let claimed = self.claimed(came);
                    self.elector.claimed(sent, self.start.elapsed(), claimed);
                    if self.elector.was_renewed_at(sent)
                        && let Some(Term { begin_before, end_by }) = self.elector.term(sent)
                    {
                        self.fence.open(
                            asked,
                            begin_before.saturating_sub(sent),
                            end_by.saturating_sub(sent),
                        );
                    }
                }
            }
            self.publish();
        }
    }

    fn claimed(&mut self, came: Result<evenkeel_core::lease::Seen, RestError>) -> Claimed {
        let (claimed, trouble) = match came {
            Ok(lease) => (Claimed::Yes(lease), None),
            Err(RestError::Status { code: 404 | 409, .. }) => (Claimed::Beaten, None),
            Err(error) => (Claimed::Unknown, Some(format!("cannot write the Lease: {}", chain(&error)))),
        };
        self.trouble = trouble;
        claimed
    }

    /// When this host must cease to act, as things stand.
    fn term_end(&self) -> Option<Duration> {
        self.elector.term(self.start.elapsed()).map(|term| term.begin_before)
    }

    /// Shuts the fence where another one holds the Lease, and tells what is new. When its time is over the fence knows by
    /// itself, and lets what is on its way end.
    fn publish(&self) {
        if !self.elector.may_finish() {
            self.fence.shut();
        }
        let standing = Standing {
            leads: self.term_end().is_some() && self.fence.is_open(),
            holder: self.elector.holder().map(str::to_owned),
            trouble: self.trouble.clone(),
        };
        self.told.send_if_modified(|told| {
            let news = *told != standing;
            if told.leads != standing.leads {
                let holder = standing.holder.as_deref().unwrap_or("nobody");
                if standing.leads {
                    tracing::info!(holder, "leading");
                } else {
                    tracing::warn!(holder, "no longer leading");
                }
            }
            *told = standing;
            news
        });
    }

    async fn resign(&mut self) {
        self.fence.shut();
        let Some(claim) = self.elector.resign() else { return };
        match self.api.write(&claim).await {
            Ok(_) => tracing::info!("handed the Lease over"),
            Err(error) => {
                tracing::warn!(error = %chain(&error), "cannot hand the Lease over, so it runs out")
            }
        }
        self.publish();
    }
}

type Asked<'a, T> = std::pin::Pin<Box<dyn Future<Output = Result<T, RestError>> + Send + 'a>>;

/// Waits for a request; tells meanwhile, where the time is over for which this host may act.
async fn until_done<T>(
    candidate: &Candidate,
    ask: impl for<'a> FnOnce(&'a LeaseApi) -> Asked<'a, T>,
) -> Result<T, RestError> {
    let mut asked = ask(&candidate.api);
    if let Some(end) = candidate.term_end() {
        tokio::select! {
            came = &mut asked => return came,
            () = sleep_until(candidate.start + end) => candidate.publish(),
        }
    }
    asked.await
}
