//! Has the quotas of a real server count the kinds that scenarios bring along.
//!
//! The quota controller learns of new kinds each 30 s. A quota that limits one of them before is counted without it, for minutes, and
//! so long the server refuses all objects of the kind: a scenario would see what a cluster of some age does not do.

use std::time::Duration;

use serde_json::{Value, json};

use super::wire::WireError;
use super::{Cluster, ClusterError, PAUSE, looks, text};

/// How long the controller may take to learn of a kind, twice its interval and more.
pub(super) const COUNTED_MAX: Duration = Duration::from_secs(90);

/// How long it may take to count anything at all, or else there is none. On a busy machine a controller manager comes
/// seconds after its API server, and whoever took it for missing would see its refusals.
const CONTROLLER_MAX: Duration = Duration::from_secs(30);

/// Between two changes of the quota that is asked: only a change has it counted anew.
const AGAIN: Duration = Duration::from_secs(1);

const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";
const NAME: &str = "evenkeel-test-counted";
const MERGE: &str = "application/merge-patch+json";

impl Cluster {
    /// Waits until quotas count every kind that was defined here, where the cluster counts quotas.
    pub(super) async fn count(&self) -> Result<(), ClusterError> {
        let limits: Vec<String> = {
            let definitions = self.definitions();
            let new = definitions.values().filter(|one| !one.counted);
            new.filter_map(|one| limit(&one.definition)).collect()
        };
        if !limits.is_empty() {
            let own = format!("{QUOTAS}/{NAME}");
            let counted = self.ask_quota(&own, &limits).await;
            let deleted = self.wire.json("DELETE", &own, "application/json", &Value::Null).await;
            let wire = |cause| ClusterError::Wire { doing: "cannot have quotas count".to_owned(), cause };
            if !counted.map_err(wire)? {
                return Err(ClusterError::Uncounted { limits });
            }
            deleted.map_err(wire)?;
        }
        self.definitions().values_mut().for_each(|one| one.counted = true);
        Ok(())
    }

    /// Whether all of these limits come to be counted, or nothing is.
    async fn ask_quota(&self, own: &str, limits: &[String]) -> Result<bool, WireError> {
        let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": NAME}, "spec": {"hard": {}}});
        match self.wire.json("POST", QUOTAS, "application/json", &quota).await {
            // Somebody broke an earlier run off.
            Ok(_) | Err(WireError::Refused { code: 409, .. }) => {}
            Err(error) => return Err(error),
        }
        let mut controlled = false;
        for change in 1..=looks(COUNTED_MAX) / looks(AGAIN) {
            // Far more than any scenario has, and another number each time.
            let hard: serde_json::Map<String, Value> =
                limits.iter().map(|limit| (limit.clone(), (1_000_000 + change).to_string().into())).collect();
            self.wire.json("PATCH", own, MERGE, &json!({"spec": {"hard": hard}})).await?;
            for _ in 0..looks(AGAIN) {
                let status =
                    self.wire.get(own).await?.map(|mut quota| quota["status"].take()).unwrap_or_default();
                if limits.iter().all(|limit| status["used"].get(limit).is_some()) {
                    return Ok(true);
                }
                controlled |= status.get("hard").is_some();
                self.wire.pause(PAUSE).await;
            }
            if !controlled && AGAIN * u32::try_from(change).unwrap_or(u32::MAX) >= CONTROLLER_MAX {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// How a quota names a kind; none for one outside of namespaces, which no quota counts.
fn limit(definition: &Value) -> Option<String> {
    (definition["spec"]["scope"] == "Namespaced")
        .then(|| format!("count/{}", text(definition, "/metadata/name")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_names_a_kind_as_its_definition_is_named() {
        let of = |scope: &str| json!({"metadata": {"name": "things.example.com"}, "spec": {"scope": scope}});
        assert_eq!(limit(&of("Namespaced")).as_deref(), Some("count/things.example.com"));
        assert_eq!(limit(&of("Cluster")), None);
    }
}
