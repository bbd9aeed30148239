//! A way to the API server on which the watches of a kind can be held up, so that the host goes blind without noticing,
//! and on which writes can take their time.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use evenkeel_sandbox::{ApiBody, ApiService};
use http::{Method, Request, Response};
use http_body::{Body, Frame, SizeHint};
use tower::Service;

/// Which watches are held up, by the plural of their kind, and for how long writes are.
#[derive(Clone, Default)]
pub struct Hold(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    plural: Option<String>,
    writes_take: Duration,
    waiting: Vec<Waker>,
}

impl Hold {
    pub fn hold(&self, plural: &str) {
        self.0.lock().expect("no panic holds it").plural = Some(plural.to_owned());
    }

    pub fn release(&self) {
        let mut inner = self.0.lock().expect("no panic holds it");
        inner.plural = None;
        inner.waiting.drain(..).for_each(Waker::wake);
    }

    /// Each write takes so long until it reaches the API server.
    pub fn slow_writes(&self, time: Duration) {
        self.0.lock().expect("no panic holds it").writes_take = time;
    }

    fn writes_take(&self) -> Duration {
        self.0.lock().expect("no panic holds it").writes_take
    }

    fn holds(&self, plural: &str, context: &Context<'_>) -> bool {
        let mut inner = self.0.lock().expect("no panic holds it");
        let held = inner.plural.as_deref() == Some(plural);
        if held {
            inner.waiting.push(context.waker().clone());
        }
        held
    }
}

/// The sandbox's service behind a hold.
#[derive(Clone)]
pub struct HeldService {
    pub inner: ApiService,
    pub hold: Hold,
}

type Answer = Pin<Box<dyn Future<Output = Result<Response<HeldBody>, Infallible>> + Send>>;

impl<B> Service<Request<B>> for HeldService
where
    B: Body + Send + 'static,
    B::Data: Send,
{
    type Response = Response<HeldBody>;
    type Error = Infallible;
    type Future = Answer;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Answer {
        let watched = request.uri().query().is_some_and(|query| query.contains("watch="));
        let plural = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
        let hold = self.hold.clone();
        let pause = if request.method() == Method::GET { Duration::ZERO } else { hold.writes_take() };
        let mut inner = self.inner.clone();
        Box::pin(async move {
            if pause > Duration::ZERO {
                tokio::time::sleep(pause).await;
            }
            let answer = inner.call(request);
            let plural = watched.then_some(plural);
            Ok(answer.await?.map(|inner| HeldBody { inner: Box::pin(inner), hold, plural }))
        })
    }
}

/// A body that says nothing while it is held up.
pub struct HeldBody {
    inner: Pin<Box<ApiBody>>,
    hold: Hold,
    /// Of a watch, what is watched.
    plural: Option<String>,
}

impl Body for HeldBody {
    type Data = <ApiBody as Body>::Data;
    type Error = <ApiBody as Body>::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        if self.plural.as_ref().is_some_and(|plural| self.hold.holds(plural, context)) {
            return Poll::Pending;
        }
        self.inner.as_mut().poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
