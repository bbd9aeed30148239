//! The store: an embedded Kubernetes in a file.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};

use anyhow::Context as _;
use evenkeel_providers::device::linux::steps::Steps;
use evenkeel_sandbox::{ApiBody, ApiService, OpenError, Sandbox, SandboxOptions};
use http::{Method, Request, Response};
use kube::client::Body;
use tower::Service;

/// Opens the store, or makes it. One that is spoilt is kept aside: what the device is and is to be stands in files of its own, and
/// a new store comes to the same.
pub(super) fn open(data_dir: &Path) -> anyhow::Result<Sandbox> {
    let path = data_dir.join("store");
    match Sandbox::open(SandboxOptions::default(), &path) {
        Ok(sandbox) => Ok(sandbox),
        Err(error @ (OpenError::Damaged { .. } | OpenError::Foreign { .. } | OpenError::Unserved { .. })) => {
            let aside = aside(&path);
            std::fs::rename(&path, &aside)
                .with_context(|| format!("cannot keep the spoilt store as {}", aside.display()))?;
            tracing::error!(%error, kept = %aside.display(), "the store is spoilt: a new one is begun");
            Sandbox::open(SandboxOptions::default(), &path).context("cannot make a new store")
        }
        Err(error) => Err(error).context("cannot open the store"),
    }
}

/// A name that is free.
fn aside(path: &Path) -> PathBuf {
    let name = |number: u32| path.with_extension(format!("corrupt-{number}"));
    (1..).map(name).find(|path| !path.exists()).unwrap_or_else(|| name(0))
}

/// The way to the store; each write is told before it is made, and when it is answered.
pub(super) fn client(sandbox: &Sandbox, steps: &Steps) -> kube::Client {
    kube::Client::new(Told { inner: sandbox.service(), steps: steps.clone() }, "default")
}

/// The store, with its writes told.
#[derive(Clone)]
struct Told {
    inner: ApiService,
    steps: Steps,
}

impl Service<Request<Body>> for Told {
    type Response = Response<ApiBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Service::<Request<Body>>::poll_ready(&mut self.inner, context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if matches!(*request.method(), Method::GET | Method::HEAD) {
            return self.inner.call(request);
        }
        self.steps.made("store: to be written");
        let (answer, steps) = (self.inner.call(request), self.steps.clone());
        Box::pin(async move {
            let answer = answer.await;
            steps.made("store: written");
            answer
        })
    }
}
