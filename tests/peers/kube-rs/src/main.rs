//! A native controller for Kite's users, as the documents of kube-rs advise to write one: watches filtered by what
//! matters, reflectors to read from, and server-side apply where the reflectors show a difference.

mod api;
mod reconcile;
mod render;

use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ResourceQuota};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::runtime::controller::{self, Controller};
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::{Predicate, WatchStreamExt, predicates, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use std::fmt::Debug;

use crate::api::KiteUser;
use crate::reconcile::{Context, error_policy, reconcile};
use crate::render::MANAGED_SELECTOR;

/// Users that are reconciled at once.
const CONCURRENCY: u16 = 8;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().with_env_filter("warn").with_writer(std::io::stderr).init();
    let client = Client::try_default().await?;
    let (users, user_writer) = reflector::store();
    // One of several may look after a part of the users.
    let ours = std::env::var("KITE_USERS").unwrap_or_default();
    let user_stream = watcher(Api::<KiteUser>::all(client.clone()), watcher::Config::default().labels(&ours))
        .default_backoff()
        .modify(strip)
        .reflect(user_writer)
        .applied_objects()
        // Who has just got the finalizer goes on; a deletion that waits for it is a new generation.
        .predicate_filter(predicates::generation.combine(predicates::finalizers), Default::default());

    let (namespaces, writer) = reflector::store();
    let namespace_stream = watcher(Api::<Namespace>::all(client.clone()), watcher::Config::default())
        .default_backoff()
        .modify(strip)
        .reflect(writer)
        .touched_objects()
        .predicate_filter(predicates::resource_version, Default::default());
    let (policies, policy_stream) = managed::<NetworkPolicy>(client.clone());
    let (quotas, quota_stream) = managed::<ResourceQuota>(client.clone());
    let config = watcher::Config::default().fields("metadata.name=kite-runtime-config");

    let of_namespace = |users: &Store<KiteUser>| {
        let users = users.clone();
        move |namespace: Option<String>| claimants(&users, namespace.as_deref())
    };
    let (by_name, by_policy, by_quota) = (of_namespace(&users), of_namespace(&users), of_namespace(&users));
    let everybody = users.clone();
    let context =
        Arc::new(Context { client: client.clone(), users: users.clone(), namespaces, policies, quotas });
    Controller::for_stream(user_stream, users)
        .with_config(controller::Config::default().concurrency(CONCURRENCY))
        .watches_stream(namespace_stream, move |namespace| by_name(namespace.metadata.name))
        .watches_stream(policy_stream, move |policy| by_policy(policy.metadata.namespace))
        .watches_stream(quota_stream, move |quota| by_quota(quota.metadata.namespace))
        .watches(Api::<ConfigMap>::namespaced(client, "kite"), config, move |_| claimants(&everybody, None))
        .shutdown_on_signal()
        .run(reconcile, error_policy, context)
        .for_each(|_| std::future::ready(()))
        .await;
    Ok(())
}

/// What is ours of a kind: a reflector to read from, and a stream of what changed besides a status.
fn managed<K>(client: Client) -> (Store<K>, impl futures::Stream<Item = Result<K, watcher::Error>> + Send)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + Sync
        + 'static,
{
    let (store, writer) = reflector::store();
    let stream = watcher(Api::<K>::all(client), watcher::Config::default().labels(MANAGED_SELECTOR))
        .default_backoff()
        .modify(strip)
        .reflect(writer)
        .touched_objects()
        .predicate_filter(predicates::resource_version, Default::default());
    (store, stream)
}

/// Nobody here looks at who manages which field.
fn strip<K: Resource>(object: &mut K) {
    object.managed_fields_mut().clear();
}

/// The users who name a namespace; all of them for none.
fn claimants(users: &Store<KiteUser>, namespace: Option<&str>) -> Vec<ObjectRef<KiteUser>> {
    let all = users.state();
    let named = all.iter().filter(|user| namespace.is_none_or(|name| user.spec.namespace == name));
    named.map(|user| ObjectRef::new(&user.name_any())).collect()
}
