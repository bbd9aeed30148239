//! Has a host act when the election says so, stand by when it does not, and hand over when it ends.

use std::time::Duration;

use evenkeel_cluster::election::{Election, Standing};
use evenkeel_engine::Host;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A host under an election. The host was started with the election's fence, standing by.
pub struct Leadership {
    election: Election,
    follows: Follows,
}

/// Ends the task with it.
struct Follows(JoinHandle<()>);

impl Drop for Follows {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Leadership {
    /// Follows the election from now on. Must be called within a tokio runtime.
    pub fn follow(host: Host, election: Election) -> Self {
        let follows = Follows(tokio::spawn(follow(host, election.standing())));
        Self { election, follows }
    }

    /// How the election stands.
    pub fn standing(&self) -> watch::Receiver<Standing> {
        self.election.standing()
    }

    /// Whether this host may write at this very moment.
    pub fn may_write(&self) -> bool {
        self.election.fence().is_open()
    }

    /// Ends the host: lets passes under way finish, then hands the Lease over, so that another host acts at once. Tells
    /// whether all passes finished.
    pub async fn shut_down(self, host: &Host, grace: Duration) -> bool {
        let Self { election, follows } = self;
        drop(follows);
        let finished = host.shutdown(grace).await;
        // Only now: passes under way still wrote.
        election.resign().await;
        finished
    }
}

async fn follow(host: Host, mut standing: watch::Receiver<Standing>) {
    loop {
        let leads = standing.borrow_and_update().leads;
        match (leads, host.leads()) {
            (true, false) => host.lead().await,
            (false, true) => host.stand_by(),
            (true, true) | (false, false) => {}
        }
        if standing.changed().await.is_err() {
            return;
        }
    }
}
