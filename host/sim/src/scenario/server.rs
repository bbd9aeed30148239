//! The API server of a world: the embedded one, or a real one.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use evenkeel_sandbox::{ApiBody, ApiService, Cut, Fault, Sandbox};
use http::{Request, Response};
use http_body::Body;
use serde_json::Value;
use tower::Service;

use super::kinds::{KindInfo, Kinds};
use super::world::WorldError;
use crate::cluster::{Edge, Stage, WireError, chain};

/// Whose requests they are, for those who keep watches apart.
pub(super) const USER: u32 = 0;
pub(super) const STAND_INS: u32 = 1;
/// The first host; those after it count up.
pub(super) const HOST: u32 = 2;

/// Where the objects of a world are.
pub(super) enum Server {
    /// In here: all that it does, it does at once.
    Embedded(Sandbox),
    /// On a cluster, which takes its time.
    Cluster(Stage),
}

impl Server {
    /// The way of a client.
    pub(super) fn way(&self, client: u32) -> Way {
        match self {
            Self::Embedded(sandbox) => Way::Embedded(sandbox.service()),
            Self::Cluster(stage) => Way::Cluster(stage.edge.of_client(client)),
        }
    }

    /// Serves the kinds of these definitions, and none of those.
    pub(super) async fn define(&self, wanted: &[Value], unwanted: &[Value]) -> Result<(), WorldError> {
        match self {
            // A new sandbox serves none that were not asked for.
            Self::Embedded(sandbox) => wanted
                .iter()
                .try_for_each(|crd| sandbox.put(crd.clone()))
                .map_err(|error| WorldError::Host(error.to_string())),
            Self::Cluster(stage) => {
                let defined = stage.define(wanted, unwanted).await;
                defined.map_err(|error| WorldError::Host(chain(&error)))
            }
        }
    }

    /// Has quotas count the kinds that were defined. In the sandbox they count nothing.
    pub(super) async fn count(&self) -> Result<(), WorldError> {
        match self {
            Self::Embedded(_) => Ok(()),
            Self::Cluster(stage) => stage.count().await.map_err(|error| WorldError::Host(chain(&error))),
        }
    }

    /// Puts objects in place as they are written.
    pub(super) async fn put(&self, given: &[Value], kinds: &Kinds) -> Result<(), WorldError> {
        match self {
            Self::Embedded(sandbox) => given.iter().enumerate().try_for_each(|(index, object)| {
                let given = |reason: String| WorldError::Given { index: index + 1, reason };
                sandbox.put(object.clone()).map_err(|error| given(error.to_string()))
            }),
            Self::Cluster(stage) => stage.put(given, kinds).await,
        }
    }

    /// The state of an object.
    pub(super) async fn object(
        &self,
        kind: &KindInfo,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<Value>, WorldError> {
        match self {
            Self::Embedded(sandbox) => {
                // As for kubectl: what lies in a namespace lies in this one where none is named.
                let namespace = if kind.namespaced { namespace.unwrap_or("default") } else { "" };
                Ok(sandbox.get(&kind.gvk.api_version(), &kind.gvk.kind, namespace, name))
            }
            Self::Cluster(stage) => stage.object(kind, namespace, name).await.map_err(unread),
        }
    }

    /// All objects of a kind, in all namespaces.
    pub(super) async fn objects(&self, kind: &KindInfo) -> Result<Vec<Value>, WorldError> {
        match self {
            Self::Embedded(sandbox) => {
                let (api_version, mut objects) = (kind.gvk.api_version(), sandbox.dump());
                objects.retain(|object| {
                    object["apiVersion"] == *api_version && object["kind"] == *kind.gvk.kind
                });
                Ok(objects)
            }
            Self::Cluster(stage) => stage.objects(kind).await.map_err(unread),
        }
    }

    /// Every object; on a cluster those of the kinds that anything was done to.
    pub(super) async fn dump(&self) -> Result<Vec<Value>, WorldError> {
        match self {
            Self::Embedded(sandbox) => Ok(sandbox.dump()),
            Self::Cluster(stage) => stage.dump().await.map_err(unread),
        }
    }

    /// Makes the next requests fail that match. On a cluster that happens on the way there.
    pub(super) fn fail(&self, mut fault: Fault, kinds: &Kinds) {
        match self {
            Self::Embedded(sandbox) => sandbox.fail_next(fault),
            Self::Cluster(stage) => {
                fault.kind = fault.kind.map(|kind| plural(&kind, kinds));
                stage.edge.fail(fault);
            }
        }
    }

    /// The marks of faults that have hit nothing yet. On a cluster, where one pass may do what in the sandbox two do, none
    /// are told.
    pub(super) fn idle_faults(&self) -> Vec<usize> {
        match self {
            Self::Embedded(sandbox) => sandbox.idle_faults().iter().map(|fault| fault.mark).collect(),
            Self::Cluster(_) => Vec::new(),
        }
    }

    /// Whether a kind or a plural is called so that may be served now. A cluster may serve more than is known here.
    pub(super) fn may_serve(&self, kind: &str) -> bool {
        match self {
            Self::Embedded(sandbox) => sandbox.serves(kind),
            Self::Cluster(_) => true,
        }
    }

    /// Ends watches of a kind, or all.
    pub(super) fn cut(&self, kind: Option<String>, kinds: &Kinds) {
        match self {
            Self::Embedded(sandbox) => sandbox.cut_watches(&Cut { kind, expire: false }),
            Self::Cluster(stage) => stage.edge.cut(kind.map(|kind| plural(&kind, kinds))),
        }
    }
}

fn unread(error: WireError) -> WorldError {
    WorldError::Unread(Box::new(error))
}

/// A kind as it stands in paths; what is no kind may be that already.
fn plural(kind: &str, kinds: &Kinds) -> String {
    kinds.find(None, kind).map_or_else(|_| kind.to_owned(), |found| found.plural.clone())
}

/// A client's way to the API server.
#[derive(Clone)]
pub(super) enum Way {
    Embedded(ApiService),
    Cluster(Edge),
}

impl<B> Service<Request<B>> for Way
where
    B: Body + Send + 'static,
    B::Data: Send,
{
    type Response = Response<ApiBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        match self {
            Self::Embedded(service) => service.call(request),
            Self::Cluster(edge) => edge.call(request),
        }
    }
}
