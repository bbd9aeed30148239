//! The body of an answer: nothing, one piece, or a watch that goes on.

use bytes::Bytes;
use futures::Stream;
use http_body::{Body, Frame, SizeHint};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Body of an answer of the sandbox.
pub struct ApiBody(Kind);

enum Kind {
    Whole(Option<Bytes>),
    Stream(Pin<Box<dyn Stream<Item = Bytes> + Send>>),
}

impl ApiBody {
    /// One piece.
    pub fn whole(bytes: impl Into<Bytes>) -> ApiBody {
        let bytes = bytes.into();
        ApiBody(Kind::Whole((!bytes.is_empty()).then_some(bytes)))
    }

    /// Pieces that come one after another, as in a watch.
    pub fn stream(stream: impl Stream<Item = Bytes> + Send + 'static) -> ApiBody {
        ApiBody(Kind::Stream(Box::pin(stream)))
    }

    /// The whole body, if it is not a stream.
    pub fn bytes(&self) -> Option<&[u8]> {
        match &self.0 {
            Kind::Whole(bytes) => Some(bytes.as_deref().unwrap_or_default()),
            Kind::Stream(_) => None,
        }
    }
}

impl std::fmt::Debug for ApiBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Kind::Whole(bytes) => f.debug_tuple("Whole").field(bytes).finish(),
            Kind::Stream(_) => f.write_str("Stream"),
        }
    }
}

impl Body for ApiBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.0 {
            Kind::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Kind::Stream(stream) => {
                stream.as_mut().poll_next(context).map(|next| next.map(|b| Ok(Frame::data(b))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.0, Kind::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Kind::Stream(_) => SizeHint::default(),
        }
    }
}
