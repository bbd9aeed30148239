//! A session that renews itself, under limits.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep_until, timeout};

use super::credentials::{Credentials, Login};
use super::data::{Data, MoRef};
use super::limits::{CallLimits, LOGIN_PAUSE};
use super::vcenter::{Call, CallError, Vcenter};
use crate::traffic::Count;

/// A vCenter with somebody logged in.
pub(crate) struct Session {
    vcenter: Arc<dyn Vcenter>,
    credentials: Arc<dyn Credentials>,
    limits: CallLimits,
    permits: Semaphore,
    waiting: AtomicUsize,
    pace: Mutex<Pace>,
    login: tokio::sync::Mutex<Standing>,
    counts: Mutex<BTreeMap<&'static str, Count>>,
}

/// The singletons of a vCenter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) property_collector: MoRef,
    pub(crate) search_index: MoRef,
    pub(crate) view_manager: MoRef,
    session_manager: MoRef,
}

#[derive(Default)]
struct Standing {
    /// Counts logins; 0 before the first.
    generation: u64,
    content: Option<Arc<Content>>,
    /// What was refused last, and when.
    refused: Option<(Login, Instant)>,
}

impl Session {
    pub(crate) fn new(
        vcenter: Arc<dyn Vcenter>,
        credentials: Arc<dyn Credentials>,
        limits: CallLimits,
    ) -> Self {
        Self {
            vcenter,
            credentials,
            limits,
            permits: Semaphore::new(limits.concurrent.max(1)),
            waiting: AtomicUsize::new(0),
            pace: Mutex::new(Pace::new(&limits)),
            login: tokio::sync::Mutex::default(),
            counts: Mutex::default(),
        }
    }

    /// The singletons; logs in where nobody has.
    pub(crate) async fn content(&self) -> Result<Arc<Content>, CallError> {
        Ok(self.standing(None).await?.1)
    }

    /// Makes a call. One that finds its session gone is repeated in a new one: it was refused, so it did nothing.
    pub(crate) async fn call(&self, call: &Call) -> Result<Data, CallError> {
        let _permit = self.turn().await?;
        self.renewing(call, self.limits.deadline).await
    }

    /// Makes a call that waits on purpose: it takes nobody's turn.
    pub(crate) async fn call_waiting(&self, call: &Call, wait: Duration) -> Result<Data, CallError> {
        self.renewing(call, wait + self.limits.deadline).await
    }

    async fn renewing(&self, call: &Call, deadline: Duration) -> Result<Data, CallError> {
        let (generation, _) = self.standing(None).await?;
        match self.send(call, deadline).await {
            Err(error) if error.is_fault("NotAuthenticated") => {
                self.standing(Some(generation)).await?;
                match self.send(call, deadline).await {
                    Err(error) if error.is_fault("NotAuthenticated") => Err(CallError::NotAuthenticated),
                    result => result,
                }
            }
            result => result,
        }
    }

    /// Whether the far end has told all that happened there.
    pub(crate) fn idle(&self) -> bool {
        self.vcenter.idle()
    }

    /// Calls made so far, by method.
    pub(crate) fn counts(&self) -> BTreeMap<&'static str, Count> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn turn(&self) -> Result<tokio::sync::SemaphorePermit<'_>, CallError> {
        let _waiting = Waiting::enter(&self.waiting, self.limits.waiting)?;
        let permit = timeout(self.limits.deadline, self.permits.acquire()).await;
        let permit = permit.map_err(|_| CallError::Crowded)?.map_err(|_| CallError::Crowded)?;
        let at = self.pace.lock().unwrap_or_else(PoisonError::into_inner).next(Instant::now());
        if let Some(at) = at {
            sleep_until(at).await;
        }
        Ok(permit)
    }

    async fn send(&self, call: &Call, deadline: Duration) -> Result<Data, CallError> {
        let result = timeout(deadline, self.vcenter.call(call)).await.unwrap_or(Err(CallError::Timeout));
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(call.method).or_default();
        count.calls += 1;
        count.failures += u64::from(result.is_err());
        result
    }

    /// The session as it stands; a new one where that of this generation is over.
    async fn standing(&self, over: Option<u64>) -> Result<(u64, Arc<Content>), CallError> {
        let mut standing = self.login.lock().await;
        if let Some(content) = &standing.content
            && over != Some(standing.generation)
        {
            return Ok((standing.generation, Arc::clone(content)));
        }
        standing.content = None;
        let login = self.credentials.get().await.map_err(|missing| CallError::Credentials(missing.0))?;
        if let Some((refused, at)) = &standing.refused
            && *refused == login
            && at.elapsed() < LOGIN_PAUSE
        {
            return Err(CallError::InvalidLogin);
        }
        let content = self.read_content().await?;
        let call = Call::new(&content.session_manager, "Login")
            .with("userName", login.user.as_str())
            .with("password", login.password.as_str());
        match self.send(&call, self.limits.deadline).await {
            Ok(_) => {}
            Err(error) if error.is_fault("InvalidLogin") => {
                standing.refused = Some((login, Instant::now()));
                return Err(CallError::InvalidLogin);
            }
            Err(error) => return Err(error),
        }
        standing.refused = None;
        standing.generation += 1;
        let content = Arc::new(content);
        standing.content = Some(Arc::clone(&content));
        Ok((standing.generation, content))
    }

    async fn read_content(&self) -> Result<Content, CallError> {
        let instance = MoRef::new("ServiceInstance", "ServiceInstance");
        let content =
            self.send(&Call::new(&instance, "RetrieveServiceContent"), self.limits.deadline).await?;
        let singleton = |name: &str| {
            content.get(name).and_then(Data::reference).cloned().ok_or_else(|| {
                CallError::BadAnswer(format!("the service content has no {name}: it is no vCenter"))
            })
        };
        Ok(Content {
            property_collector: singleton("propertyCollector")?,
            search_index: singleton("searchIndex")?,
            view_manager: singleton("viewManager")?,
            session_manager: singleton("sessionManager")?,
        })
    }
}

/// A place in the queue, given back when dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn enter(count: &'a AtomicUsize, max: usize) -> Result<Self, CallError> {
        let place = Self(count);
        if count.fetch_add(1, Ordering::SeqCst) >= max { Err(CallError::Crowded) } else { Ok(place) }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Spreads calls over time once a burst is used up.
struct Pace {
    interval: Duration,
    burst: Duration,
    /// When the calls so far would be over, one every interval.
    paid: Option<Instant>,
}

impl Pace {
    fn new(limits: &CallLimits) -> Self {
        let interval = Duration::from_secs(1) / limits.per_second.max(1);
        Self { interval, burst: interval.saturating_mul(limits.burst.max(1)), paid: None }
    }

    /// When the next call may go; none for at once.
    fn next(&mut self, now: Instant) -> Option<Instant> {
        let paid = self.paid.map_or(now, |paid| paid.max(now)) + self.interval;
        self.paid = Some(paid);
        let ahead = paid.duration_since(now);
        (ahead > self.burst).then(|| now + (ahead - self.burst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn past_a_burst_calls_are_spread_over_time() {
        let limits = CallLimits { per_second: 10, burst: 3, ..CallLimits::default() };
        let (mut pace, now) = (Pace::new(&limits), Instant::now());
        let waits: Vec<_> =
            (0..5).map(|_| pace.next(now).map_or(0, |at| at.duration_since(now).as_millis())).collect();
        assert_eq!(waits, [0, 0, 0, 100, 200]);
    }
}
