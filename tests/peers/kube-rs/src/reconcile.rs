//! A user's namespace, isolated and limited; and what is taken back when the user goes.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Namespace, ResourceQuota};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::controller::Action;
use kube::runtime::finalizer::{self, Event, finalizer};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use std::fmt::Debug;

use crate::api::{KiteUser, KiteUserStatus};
use crate::render::{self, EGRESS_POLICY, FINALIZER, INGRESS_POLICY, MANAGED_BY, OURS, QUOTA};

const MANAGER: &str = "kite-kube-rs";
const LOOK_AGAIN: Duration = Duration::from_secs(180);
const TERMINATING: Duration = Duration::from_secs(5);
const RESERVED: [&str; 10] = [
    "default",
    "kite",
    "cdi",
    "kubevirt",
    "longhorn-system",
    "cert-manager",
    "traefik",
    "ingress-nginx",
    "olm",
    "operators",
];

/// What a reconciliation reads from, and writes to.
pub struct Context {
    pub client: Client,
    pub users: Store<KiteUser>,
    pub namespaces: Store<Namespace>,
    pub policies: Store<NetworkPolicy>,
    pub quotas: Store<ResourceQuota>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the API server refused")]
    Api(#[from] kube::Error),
    #[error("the finalizer could not be seen to")]
    Finalizer(#[source] Box<finalizer::Error<Error>>),
}

/// How far a user's namespace is.
struct Verdict {
    phase: &'static str,
    reason: &'static str,
    message: String,
    again: Option<Duration>,
}

impl Verdict {
    fn failed(reason: &'static str, message: String, again: Option<Duration>) -> Self {
        Self { phase: "Failed", reason, message, again }
    }
}

pub fn error_policy(_: Arc<KiteUser>, error: &Error, _: Arc<Context>) -> Action {
    tracing::warn!(?error, "a user could not be reconciled");
    Action::requeue(Duration::from_millis(500))
}

pub async fn reconcile(user: Arc<KiteUser>, context: Arc<Context>) -> Result<Action, Error> {
    let users = Api::<KiteUser>::all(context.client.clone());
    finalizer(&users, FINALIZER, user, |event| async {
        match event {
            Event::Apply(user) => apply(&user, &context).await,
            Event::Cleanup(user) => clean_up(&user, &context).await,
        }
    })
    .await
    .map_err(|cause| Error::Finalizer(Box::new(cause)))
}

async fn apply(user: &KiteUser, context: &Context) -> Result<Action, Error> {
    let verdict = bring_about(user, context).await?;
    let again = verdict.again.map_or_else(Action::await_change, Action::requeue);
    tell(user, context, verdict).await?;
    Ok(again)
}

async fn bring_about(user: &KiteUser, context: &Context) -> Result<Verdict, Error> {
    let name = user.spec.namespace.as_str();
    if !is_dns_label(name) {
        let message = "spec.namespace: not a DNS label (1 to 63 of a-z, 0-9 and -)";
        return Ok(Verdict::failed("InvalidSpec", message.to_owned(), None));
    }
    if RESERVED.contains(&name) || name.starts_with("kube-") || name.starts_with("openshift-") {
        return Ok(Verdict::failed(
            "NamespaceReserved",
            format!("the name {name} belongs to the platform"),
            None,
        ));
    }
    match context.namespaces.get(&ObjectRef::new(name)) {
        None => {
            let wanted = render::namespace(name, &user.name_any(), user.uid().as_deref().unwrap_or_default());
            let made = Api::all(context.client.clone()).create(&PostParams::default(), &wanted).await;
            match made {
                Ok(_) => {}
                // The reflector is behind.
                Err(kube::Error::Api(status)) if status.is_already_exists() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Some(tenant) if tenant.metadata.deletion_timestamp.is_some() => {
            let message = format!("waiting until the old namespace {name} is gone");
            return Ok(Verdict {
                phase: "Pending",
                reason: "NamespaceTerminating",
                message,
                again: Some(TERMINATING),
            });
        }
        Some(tenant) if tenant.labels().get(MANAGED_BY).is_none_or(|by| by != OURS) => {
            let message = format!("the namespace {name} exists and is not Kite's");
            return Ok(Verdict::failed("NamespaceNotManaged", message, Some(LOOK_AGAIN)));
        }
        Some(_) => {}
    }
    // Three independent writes wait for each other in nobody's name.
    let (ingress, egress, quota) = (render::ingress(name), render::egress(name), render::quota(name));
    futures::future::try_join3(
        apply_unless(context, &context.policies, &ingress, |has| has.spec == ingress.spec),
        apply_unless(context, &context.policies, &egress, |has| has.spec == egress.spec),
        apply_unless(context, &context.quotas, &quota, |has| has.spec == quota.spec),
    )
    .await?;
    let message = format!("the namespace {name}, its network policies and its quota are in place");
    Ok(Verdict { phase: "Ready", reason: "Reconciled", message, again: None })
}

/// Applies an object unless the reflector shows it as it is to be.
async fn apply_unless<K>(
    context: &Context,
    store: &Store<K>,
    wanted: &K,
    is_so: impl Fn(&K) -> bool,
) -> Result<(), Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Serialize,
{
    if store.get(&ObjectRef::from(wanted)).is_some_and(|has| is_so(&has)) {
        return Ok(());
    }
    let namespace = wanted.namespace().unwrap_or_default();
    let params = PatchParams::apply(MANAGER).force();
    Api::<K>::namespaced(context.client.clone(), &namespace)
        .patch(&wanted.name_any(), &params, &Patch::Apply(wanted))
        .await?;
    Ok(())
}

/// Writes the status where it differs.
async fn tell(user: &KiteUser, context: &Context, verdict: Verdict) -> Result<(), Error> {
    let before = user.status.clone().unwrap_or_default();
    let ready = verdict.phase == "Ready";
    let status = if ready { "True" } else { "False" };
    let old = before.conditions.iter().find(|condition| condition.type_ == "NamespaceReady");
    let since = old.filter(|old| old.status == status).map(|old| old.last_transition_time.clone());
    let condition = Condition {
        type_: "NamespaceReady".into(),
        status: status.into(),
        reason: verdict.reason.into(),
        message: verdict.message.clone(),
        observed_generation: user.metadata.generation,
        last_transition_time: since.unwrap_or_else(|| Time(Timestamp::now())),
    };
    let observed_namespace =
        if ready { Some(user.spec.namespace.clone()) } else { before.observed_namespace.clone() };
    let after = KiteUserStatus {
        phase: Some(verdict.phase.into()),
        observed_generation: user.metadata.generation,
        observed_namespace,
        message: Some(verdict.message),
        conditions: vec![condition],
    };
    if after == before {
        return Ok(());
    }
    let patch = json!({"apiVersion": "anacnu.com/v1", "kind": "KiteUser", "status": after});
    let params = PatchParams::apply(MANAGER).force();
    Api::<KiteUser>::all(context.client.clone())
        .patch_status(&user.name_any(), &params, &Patch::Apply(patch))
        .await?;
    Ok(())
}

/// Takes back what isolates the namespace, where no other user names it.
async fn clean_up(user: &KiteUser, context: &Context) -> Result<Action, Error> {
    let name = user.spec.namespace.as_str();
    let others = context.users.state();
    let shared = others.iter().any(|other| {
        other.spec.namespace == name
            && other.name_any() != user.name_any()
            && other.metadata.deletion_timestamp.is_none()
    });
    if !shared {
        delete::<ResourceQuota>(context, name, QUOTA).await?;
        delete::<NetworkPolicy>(context, name, EGRESS_POLICY).await?;
        delete::<NetworkPolicy>(context, name, INGRESS_POLICY).await?;
    }
    Ok(Action::await_change())
}

async fn delete<K>(context: &Context, namespace: &str, name: &str) -> Result<(), Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    match Api::<K>::namespaced(context.client.clone(), namespace).delete(name, &DeleteParams::default()).await
    {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn is_dns_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&text.len())
        && text.bytes().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}
