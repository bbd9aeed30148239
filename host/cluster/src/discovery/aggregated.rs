//! Aggregated discovery: every kind of the API server in one answer, but for those of the core group.
//!
//! The document may be behind: a version whose own API server does not answer stands in it as `Stale`, and a definition of a
//! moment ago may be missing. So of a group that is in it, only what is there and current is believed; for the rest the
//! server's word on that one group and version counts, as it does where there is no document. Of a group that is not in
//! it nothing is served, as far as anybody knows: should a definition bring it, its event has it looked for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use evenkeel_core::contract::Gvk;
use kube::core::discovery::v2::{
    ACCEPT_AGGREGATED_DISCOVERY_V2, APIGroupDiscoveryList, APIResourceDiscovery,
};
use serde::Deserialize;
use tokio::sync::MutexGuard;
use tokio::time::Instant;

use super::{GroupVersion, Kinds, Served};
use crate::kinds::may_be_custom;
use crate::limits::DISCOVERY_DOCUMENT_HOLDS;
use crate::rest::{Call, Rest, RestError};

/// Where it is.
const PATH: &str = "/apis";

/// The document of all groups but the core one. It is asked for once, and for the start alone: after that single groups come and
/// go, and a question about one of them is smaller.
pub(super) struct Document {
    told: tokio::sync::Mutex<Told>,
}

enum Told {
    /// Nobody has asked yet.
    NotYet,
    /// This, then.
    So { groups: Groups, at: Instant },
    /// This, some time ago: what is left of it are the kinds that Kubernetes itself has. They do not go while it runs, and it is
    /// some dozens, where others may be thousands.
    Once { own: BTreeMap<GroupVersion, Kinds> },
    /// Nothing that is still of use.
    Nothing,
}

impl Document {
    pub(super) fn new() -> Self {
        Document { told: tokio::sync::Mutex::new(Told::NotYet) }
    }

    /// Asks for it, unless that was done.
    ///
    /// # Errors
    /// If the API server does not answer, or asks to wait. That it has no such document is none.
    pub(super) async fn reach(&self, rest: &Rest) -> Result<(), RestError> {
        self.told(rest).await.map(drop)
    }

    /// What there is beside a kind in its group and version, where the document is to be believed about it: one that has the
    /// kind, or nothing of its group.
    ///
    /// # Errors
    /// As [`Document::reach`].
    pub(super) async fn kinds(&self, rest: &Rest, gvk: &Gvk) -> Result<Option<Kinds>, RestError> {
        let mut told = self.told(rest).await?;
        if let Told::So { groups, at } = &mut *told
            && at.elapsed() > DISCOVERY_DOCUMENT_HOLDS
        {
            let own = groups.of_kubernetes();
            *told = Told::Once { own };
        }
        Ok(match &*told {
            Told::So { groups, .. } => groups.kinds(gvk),
            Told::Once { own } => own.get(&of(gvk)).filter(|kinds| kinds.contains_key(&*gvk.kind)).cloned(),
            Told::NotYet | Told::Nothing => None,
        })
    }

    /// Held while it is asked for: all the watches of a start wait for the one answer.
    async fn told(&self, rest: &Rest) -> Result<MutexGuard<'_, Told>, RestError> {
        let mut told = self.told.lock().await;
        if matches!(*told, Told::NotYet) {
            *told = ask(rest).await?;
        }
        Ok(told)
    }
}

async fn ask(rest: &Rest) -> Result<Told, RestError> {
    let call = Call::read("get", PATH.to_owned(), ACCEPT_AGGREGATED_DISCOVERY_V2);
    let why = match rest.text(call).await {
        Ok(text) => match Groups::read(&text) {
            Ok(Some(groups)) => return Ok(Told::So { groups, at: Instant::now() }),
            Ok(None) => "it answers in the old form".to_owned(),
            Err(error) => format!("its document cannot be read: {error}"),
        },
        Err(error) if is_passing(&error) => return Err(error),
        Err(error) => error.to_string(),
    };
    tracing::info!(
        path = PATH,
        why,
        "the API server has no aggregated discovery: kinds are asked for group by group"
    );
    Ok(Told::Nothing)
}

/// Whether the same question may well be answered in a moment, so that it says nothing about what the server can do.
fn is_passing(error: &RestError) -> bool {
    match error {
        RestError::Status { code, .. } => matches!(code, 401 | 408 | 429 | 503),
        RestError::Timeout { .. }
        | RestError::Connection(_)
        | RestError::Request(_)
        | RestError::NotLeading { .. } => true,
        RestError::TooLarge { .. } | RestError::Decode(_) => false,
    }
}

/// The group and version of a kind.
fn of(gvk: &Gvk) -> GroupVersion {
    (gvk.group.clone(), gvk.version.clone())
}

/// What the document says.
#[derive(Debug, Default)]
struct Groups {
    /// Every group that it has, current or not.
    all: BTreeSet<Arc<str>>,
    /// The kinds of each group and version that it says something current about.
    current: BTreeMap<GroupVersion, Kinds>,
}

/// What an answer is.
#[derive(Deserialize)]
struct Head {
    kind: String,
}

impl Groups {
    fn kinds(&self, gvk: &Gvk) -> Option<Kinds> {
        if !self.all.contains(&gvk.group) {
            return Some(Kinds::new());
        }
        let kinds = self.current.get(&of(gvk))?;
        kinds.contains_key(&*gvk.kind).then(|| kinds.clone())
    }

    /// What it says of the groups that no definition can bring.
    fn of_kubernetes(&mut self) -> BTreeMap<GroupVersion, Kinds> {
        let mut own = std::mem::take(&mut self.current);
        own.retain(|(group, _), _| !may_be_custom(group));
        own
    }

    /// From an answer; none for one in the old form, which an API server gives that knows no other.
    fn read(text: &str) -> Result<Option<Self>, serde_json::Error> {
        let head: Head = serde_json::from_str(text)?;
        if head.kind != "APIGroupDiscoveryList" {
            return Ok(None);
        }
        let list: APIGroupDiscoveryList = serde_json::from_str(text)?;
        let (mut groups, mut verbs) = (Self::default(), Verbs::default());
        for group in list.items {
            let name: Arc<str> = group.metadata.and_then(|metadata| metadata.name).unwrap_or_default().into();
            groups.all.insert(name.clone());
            for version in group.versions {
                // What is stale may be long gone, or may be missing though it is served.
                if version.freshness.as_deref() != Some("Current") {
                    continue;
                }
                let named = (name.clone(), version.version.unwrap_or_default().into());
                let kinds = groups.current.entry(named).or_default();
                for resource in version.resources {
                    if let Some((kind, served)) = read(resource, &mut verbs) {
                        kinds.entry(kind).or_insert(served);
                    }
                }
            }
        }
        Ok(Some(groups))
    }
}

/// A kind of a document; none for what is there only to have parts.
fn read(resource: APIResourceDiscovery, verbs: &mut Verbs) -> Option<(String, Served)> {
    let kind = resource.response_kind?.kind.filter(|kind| !kind.is_empty())?;
    let served = Served::Yes {
        plural: resource.resource.filter(|plural| !plural.is_empty())?.into(),
        namespaced: resource.scope.as_deref() == Some("Namespaced"),
        verbs: verbs.shared(resource.verbs),
    };
    Some((kind, served))
}

/// The few sets of verbs that all kinds share: a document may hold thousands of kinds.
#[derive(Default)]
struct Verbs(BTreeMap<Vec<String>, Arc<[String]>>);

impl Verbs {
    fn shared(&mut self, verbs: Vec<String>) -> Arc<[String]> {
        if let Some(shared) = self.0.get(&verbs) {
            return shared.clone();
        }
        let shared: Arc<[String]> = verbs.clone().into();
        self.0.insert(verbs, shared.clone());
        shared
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use expect_test::{Expect, expect};

    use super::*;

    /// What is read of an answer, a kind a line.
    fn check(answer: &str, expected: Expect) {
        let text = match Groups::read(answer) {
            Ok(Some(groups)) => show(&groups),
            Ok(None) => "in the old form\n".to_owned(),
            Err(error) => format!("{error}\n"),
        };
        expected.assert_eq(&text);
    }

    fn show(groups: &Groups) -> String {
        let mut text = String::new();
        for ((group, version), kinds) in &groups.current {
            let _ = writeln!(text, "{group}/{version}");
            for (kind, served) in kinds {
                let Served::Yes { plural, namespaced, verbs } = served else { continue };
                let place = if *namespaced { "in namespaces" } else { "in none" };
                let _ = writeln!(text, "  {kind}: {plural} {place}: {}", verbs.join(", "));
            }
        }
        text
    }

    #[test]
    fn the_kinds_of_every_version_are_read_with_their_scope_and_verbs() {
        check(
            r#"{"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": [
                {"metadata": {"name": "apps", "creationTimestamp": null}, "versions": [
                    {"version": "v1", "freshness": "Current", "resources": [
                        {"resource": "deployments", "scope": "Namespaced", "verbs": ["get", "list", "watch"],
                         "responseKind": {"group": "", "version": "", "kind": "Deployment"},
                         "subresources": [{"subresource": "scale", "verbs": ["get"],
                             "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"}}]}]},
                    {"version": "v1beta1", "freshness": "Current"}]},
                {"metadata": {"name": "example.com"}, "versions": [
                    {"version": "v2", "freshness": "Current", "resources": [
                        {"resource": "things", "scope": "Cluster", "verbs": ["get"], "singularResource": "thing",
                         "responseKind": {"group": "example.com", "version": "v2", "kind": "Thing"}}]}]}]}"#,
            expect![[r#"
                apps/v1
                  Deployment: deployments in namespaces: get, list, watch
                apps/v1beta1
                example.com/v2
                  Thing: things in none: get
            "#]],
        );
    }

    #[test]
    fn the_core_group_has_no_name_and_the_beta_of_the_document_has_the_same_form() {
        check(
            r#"{"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2beta1", "items": [
                {"metadata": {}, "versions": [{"version": "v1", "freshness": "Current", "resources": [
                    {"resource": "pods", "scope": "Namespaced", "verbs": ["get"], "responseKind": {"kind": "Pod"}}]}]}]}"#,
            expect![[r#"
                /v1
                  Pod: pods in namespaces: get
            "#]],
        );
    }

    #[test]
    fn what_is_stale_or_says_nothing_of_its_age_is_left_out_and_the_rest_is_not() {
        check(
            r#"{"kind": "APIGroupDiscoveryList", "items": [
                {"metadata": {"name": "metrics.k8s.io"}, "versions": [{"version": "v1beta1", "freshness": "Stale"}]},
                {"metadata": {"name": "old.example.com"}, "versions": [
                    {"version": "v1", "freshness": "Stale", "resources": [{"resource": "olds", "scope": "Cluster",
                        "verbs": ["get"], "responseKind": {"kind": "Old"}}]},
                    {"version": "v2", "resources": []}]},
                {"metadata": {"name": "batch"}, "versions": [{"version": "v1", "freshness": "Current", "resources": [
                    {"resource": "jobs", "scope": "Namespaced", "verbs": ["get"], "responseKind": {"kind": "Job"}}]}]}]}"#,
            expect![[r#"
                batch/v1
                  Job: jobs in namespaces: get
            "#]],
        );
    }

    #[test]
    fn what_is_there_only_to_have_parts_is_no_kind_and_of_two_collections_of_a_kind_the_first_counts() {
        check(
            r#"{"kind": "APIGroupDiscoveryList", "items": [{"metadata": {"name": "a"}, "versions": [
                {"version": "v1", "freshness": "Current", "resources": [
                    {"resource": "parents", "scope": "Namespaced", "verbs": [], "subresources": []},
                    {"resource": "unnamed", "scope": "Cluster", "verbs": [], "responseKind": {"kind": ""}},
                    {"scope": "Cluster", "verbs": [], "responseKind": {"kind": "Nowhere"}},
                    {"resource": "firsts", "scope": "Cluster", "verbs": ["get"], "responseKind": {"kind": "Twice"}},
                    {"resource": "seconds", "scope": "Cluster", "verbs": ["get"], "responseKind": {"kind": "Twice"}}]}]}]}"#,
            expect![[r#"
                a/v1
                  Twice: firsts in none: get
            "#]],
        );
    }

    #[test]
    fn an_answer_in_the_old_form_or_in_none_is_told_from_a_document() {
        check(r#"{"kind": "APIGroupList", "apiVersion": "v1", "groups": []}"#, expect!["in the old form\n"]);
        check(r#"{"kind": "APIVersions", "versions": ["v1"]}"#, expect!["in the old form\n"]);
        check("not JSON", expect!["expected ident at line 1 column 2\n"]);
        check(
            r#"{"kind": "APIGroupDiscoveryList", "items": null}"#,
            expect!["invalid type: null, expected a sequence at line 1 column 47\n"],
        );
    }
}
