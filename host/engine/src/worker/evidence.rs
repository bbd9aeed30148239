//! Before what cannot be undone: whether everything that the pass rested on is as new as the API server is now.

use evenkeel_core::contract::{GetQuery, Query};
use evenkeel_core::memo::AnswerHash;

use super::look::{Look, Stop};
use crate::answers::{Answered, is_secret, look};

impl Look<'_> {
    /// Holds the evidence of this pass against the API server. What turned out newer is in the cache afterwards.
    pub(super) async fn check_evidence(&self, more: Vec<Query>) -> Result<(), Stop> {
        let mut queries = more;
        let spec = &self.taken.plan().spec;
        // Of a Secret no more is read than is watched.
        let view = if is_secret(&spec.primary) { spec.view.clone() } else { vec![] };
        queries.push(Query::Get(GetQuery { object: self.taken.object.clone(), view }));
        let asked = self.answered.iter().map(|answered| answered.query.query());
        queries.extend(asked.filter(|query| matches!(query, Query::Get(_) | Query::List(_))).cloned());
        // Whether the caches were behind does not matter; whether the answers are the same does.

        let fresh = self.shared.cluster.fresh(&queries);
        fresh.await.map_err(|failure| self.stop(failure))?;
        let primary = self.look_for_primary().map_err(|_| Stop::Stale)?;
        let view = &self.taken.plan().view;
        let same_primary =
            AnswerHash::object(primary.as_deref(), view) == AnswerHash::object(self.primary.as_deref(), view);
        if same_primary && self.answered.iter().all(|answered| self.still(answered)) {
            Ok(())
        } else {
            Err(Stop::Stale)
        }
    }

    /// Whether the caches still give the answer that the pass was given.
    fn still(&self, answered: &Answered) -> bool {
        match look(&self.shared.cluster, answered.query.query()) {
            None => true,
            Some(Ok(seen)) => Answered::new(answered.query.clone(), seen).hash == answered.hash,
            Some(Err(_)) => false,
        }
    }
}
