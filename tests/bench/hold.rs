//! A way to the API server on which watches can be held up, so that many events can wait at the door.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use evenkeel_sandbox::{ApiBody, ApiService};
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use tower::Service;

/// Whether watches are held up.
#[derive(Clone, Default)]
pub struct Hold(Arc<Mutex<Door>>);

#[derive(Default)]
struct Door {
    closed: bool,
    waiting: Vec<Waker>,
}

impl Hold {
    /// From now on nothing comes through.
    pub fn close(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
    }

    /// All that waits comes through.
    pub fn open(&self) {
        let mut door = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        door.closed = false;
        door.waiting.drain(..).for_each(Waker::wake);
    }

    fn is_closed_to(&self, context: &Context<'_>) -> bool {
        let mut door = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if door.closed {
            door.waiting.push(context.waker().clone());
        }
        door.closed
    }
}

/// The embedded API behind a hold.
#[derive(Clone)]
pub struct Held {
    pub api: ApiService,
    pub hold: Hold,
}

type Answer = Pin<Box<dyn Future<Output = Result<Response<HeldBody>, Infallible>> + Send>>;

impl<B> Service<Request<B>> for Held
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
        let watches = request.uri().query().is_some_and(|query| query.contains("watch="));
        let hold = watches.then(|| self.hold.clone());
        let answer = self.api.call(request);
        Box::pin(async move { Ok(answer.await?.map(|body| HeldBody { body: Box::pin(body), hold })) })
    }
}

/// A body that says nothing while it is held up.
pub struct HeldBody {
    body: Pin<Box<ApiBody>>,
    hold: Option<Hold>,
}

impl Body for HeldBody {
    type Data = <ApiBody as Body>::Data;
    type Error = <ApiBody as Body>::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        if self.hold.as_ref().is_some_and(|hold| hold.is_closed_to(context)) {
            return Poll::Pending;
        }
        self.body.as_mut().poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
