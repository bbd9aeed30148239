//! A real API server that scenarios run on.
//!
//! The host, its clock and the stand-ins are those of the sandbox's scenarios; only the far end is another one. What that does by
//! itself (UIDs, times, garbage collection, the end of Namespaces) is real, and waited for.

mod clear;
mod counted;
mod definitions;
mod edge;
mod given;
mod lens;
mod owed;
pub(crate) mod stillness;
mod streams;
mod wire;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use evenkeel_engine::clock::VirtualClock;
use serde_json::Value;

pub(crate) use edge::{Edge, Look};
pub use wire::WireError;

use self::counted::COUNTED_MAX;
use self::definitions::Defined;
use self::wire::Wire;
use crate::scenario::kinds::KindInfo;
use crate::scenario::user::path;

/// Namespaces that a cluster has of itself; `local-path-storage` is kind's.
const SYSTEM: [&str; 5] = ["default", "kube-node-lease", "kube-public", "kube-system", "local-path-storage"];

/// How long a new definition may take until its kind is served, and an old one until it is gone.
const DEFINITION_MAX: Duration = Duration::from_secs(30);

/// Between two looks at the cluster.
const PAUSE: Duration = Duration::from_millis(10);

/// Why a cluster cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// No threads.
    #[error("cannot start the runtime of the connections")]
    Runtime(#[source] std::io::Error),
    /// A kubeconfig that cannot be used.
    #[error("cannot set up a client for the cluster")]
    Client(#[source] Box<kube::Error>),
    /// It was asked, and did not answer well.
    #[error("{doing}")]
    Wire {
        /// What was wanted.
        doing: String,
        /// What came.
        #[source]
        cause: WireError,
    },
    /// It holds things of others.
    #[error(
        "the cluster is in use: it has the {what} {}. Scenarios make, change and delete what they like, so they run only on a \
         cluster of their own", names.join(", ")
    )]
    InUse {
        /// What of.
        what: &'static str,
        /// Which.
        names: Vec<String>,
    },
    /// A kind does not come, or does not go.
    #[error("the definition {name} is not {wanted} after {DEFINITION_MAX:?}")]
    Definition {
        /// Its name.
        name: String,
        /// What it was to be.
        wanted: &'static str,
    },
    /// A kind that quotas limit is not counted.
    #[error("no quota counts {} after {COUNTED_MAX:?}: it would have them refused", limits.join(", "))]
    Uncounted {
        /// As quotas name the kinds.
        limits: Vec<String>,
    },
    /// Something of a scenario could not be deleted.
    #[error("the cluster could not be cleared: {}", left.join(", "))]
    Unclear {
        /// What is left.
        left: Vec<String>,
    },
}

/// A cluster of one's own on which scenarios run one after another.
pub struct Cluster {
    wire: Wire,
    /// Definitions that were made here, by their name.
    definitions: Mutex<BTreeMap<String, Defined>>,
    turn: Mutex<()>,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Cluster")
    }
}

/// An object by where it lies.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// The path of the collection over all namespaces.
    collection: String,
    /// Empty where it is in none.
    namespace: String,
    name: String,
}

impl Place {
    /// What a creation at this target made.
    fn of(target: &str, made: &Value) -> Self {
        let text = |pointer: &str| made.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (path, namespace) = (target.split('?').next().unwrap_or_default(), text("/metadata/namespace"));
        Self {
            collection: path.replace(&format!("/namespaces/{namespace}/"), "/"),
            namespace: namespace.to_owned(),
            name: text("/metadata/name").to_owned(),
        }
    }

    fn path(&self) -> String {
        format!("{}/{}", self.whole(), self.name)
    }

    /// The path of the collection in its namespace.
    fn whole(&self) -> String {
        let Self { collection, namespace, .. } = self;
        match (namespace.as_str(), collection.rsplit_once('/')) {
            ("", _) | (_, None) => collection.clone(),
            (namespace, Some((base, plural))) => format!("{base}/namespaces/{namespace}/{plural}"),
        }
    }
}

impl Cluster {
    /// Connects to a cluster, which has to be empty: a scenario's host acts on everything that it finds there. Blocks.
    pub fn connect(config: kube::Config) -> Result<Arc<Self>, ClusterError> {
        let cluster =
            Self { wire: Wire::open(config)?, definitions: Mutex::default(), turn: Mutex::default() };
        cluster.wire.block_on(async {
            let doing = || "cannot ask the cluster what it holds".to_owned();
            let wire = |cause| ClusterError::Wire { doing: doing(), cause };
            let namespaces = cluster.wire.get("/api/v1/namespaces").await.map_err(wire)?.unwrap_or_default();
            let foreign: Vec<String> =
                names(&namespaces).into_iter().filter(|name| !SYSTEM.contains(&name.as_str())).collect();
            if foreign.is_empty() {
                return Ok(());
            }
            Err(ClusterError::InUse { what: "Namespaces", names: foreign })
        })?;
        Ok(Arc::new(cluster))
    }

    /// Takes the definitions away that scenarios needed. Blocks.
    pub fn finish(&self) -> Result<(), ClusterError> {
        let _turn = self.turn();
        self.wire.block_on(async {
            let made: Vec<String> = self.definitions().keys().cloned().collect();
            for name in made {
                self.undefine(&name).await?;
            }
            Ok(())
        })
    }

    /// One scenario at a time: they use the same names.
    pub(crate) fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn definitions(&self) -> MutexGuard<'_, BTreeMap<String, Defined>> {
        self.definitions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One scenario's use of a cluster.
#[derive(Clone)]
pub(crate) struct Stage {
    cluster: Arc<Cluster>,
    pub(crate) edge: Edge,
    pub(crate) stillness: stillness::Stillness,
}

impl Stage {
    /// Call it on the runtime of `stillness`, whose time stands still from here on.
    pub(crate) fn new(cluster: Arc<Cluster>, clock: VirtualClock, stillness: stillness::Stillness) -> Self {
        stillness.hold();
        Self { edge: Edge::new(Arc::clone(&cluster), clock), cluster, stillness }
    }

    /// Serves these kinds, and none of those.
    pub(crate) async fn define(&self, wanted: &[Value], unwanted: &[Value]) -> Result<(), ClusterError> {
        self.cluster.forget_changed().await?;
        for definition in unwanted {
            self.cluster.undefine(&text(definition, "/metadata/name")).await?;
        }
        for definition in wanted {
            self.cluster.define(definition).await?;
        }
        Ok(())
    }

    /// Waits until quotas count the kinds that were defined.
    pub(crate) async fn count(&self) -> Result<(), ClusterError> {
        self.cluster.count().await
    }

    /// An object as it is shown.
    pub(crate) async fn object(
        &self,
        kind: &KindInfo,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<Value>, WireError> {
        self.edge.read(&path(kind, namespace, Some(name), None)).await
    }

    /// All objects of a kind, in all namespaces.
    pub(crate) async fn objects(&self, kind: &KindInfo) -> Result<Vec<Value>, WireError> {
        let everywhere = KindInfo { namespaced: false, ..kind.clone() };
        let list = self.edge.read(&path(&everywhere, None, None, None)).await?;
        Ok(list.map(items).unwrap_or_default())
    }

    /// All objects of the kinds that anything was done to.
    pub(crate) async fn dump(&self) -> Result<Vec<Value>, WireError> {
        let mut objects = Vec::new();
        for collection in self.edge.touched() {
            objects.extend(self.edge.read(&collection).await?.map(items).unwrap_or_default());
        }
        Ok(objects)
    }
}

/// The objects of a list, each with its kind, which a list leaves out.
fn items(mut list: Value) -> Vec<Value> {
    let api_version = list["apiVersion"].take();
    let kind = list["kind"].as_str().map(|kind| kind.trim_end_matches("List").to_owned()).unwrap_or_default();
    let Value::Array(mut items) = list["items"].take() else { return Vec::new() };
    for item in items.iter_mut().filter_map(Value::as_object_mut) {
        item.entry("apiVersion").or_insert_with(|| api_version.clone());
        item.entry("kind").or_insert_with(|| kind.clone().into());
    }
    items
}

fn names(list: &Value) -> Vec<String> {
    list["items"].as_array().into_iter().flatten().map(|object| text(object, "/metadata/name")).collect()
}

fn text(object: &Value, pointer: &str) -> String {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// So many looks fit into a time.
fn looks(time: Duration) -> u128 {
    time.as_millis() / PAUSE.as_millis()
}

/// An error and its causes in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_is_found_again_where_it_was_made() {
        let made = json!({"metadata": {"namespace": "a", "name": "b"}});
        let place = Place::of("/apis/apps/v1/namespaces/a/deployments?fieldManager=x", &made);
        assert_eq!(place.collection, "/apis/apps/v1/deployments");
        assert_eq!(place.path(), "/apis/apps/v1/namespaces/a/deployments/b");
        let namespace = Place::of("/api/v1/namespaces", &json!({"metadata": {"name": "a"}}));
        assert_eq!(namespace.path(), "/api/v1/namespaces/a");
    }
}
