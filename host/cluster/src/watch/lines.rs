//! A body cut into lines.

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use kube::client::Body;

use crate::limits;
use crate::rest::RestError;

/// Reads a body line by line.
pub(crate) struct Lines {
    body: Body,
    rest: BytesMut,
    /// Bytes of `rest` that are known to hold no line's end.
    searched: usize,
    over: bool,
}

impl Lines {
    pub(crate) fn new(body: Body) -> Self {
        Lines { body, rest: BytesMut::new(), searched: 0, over: false }
    }

    /// The next line, without its end; none at the end of the body. A last line that broke off is dropped. Nothing is
    /// lost if the future is dropped before it is ready.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, RestError> {
        loop {
            if let Some(end) = self.rest.iter().skip(self.searched).position(|byte| *byte == b'\n') {
                let mut line = self.rest.split_to(self.searched + end + 1);
                self.searched = 0;
                line.truncate(line.len() - 1);
                if line.is_empty() {
                    continue;
                }
                return Ok(Some(line.freeze()));
            }
            self.searched = self.rest.len();
            if self.over {
                return Ok(None);
            }
            if self.rest.len() > limits::WATCH_LINE_BYTES_MAX {
                return Err(RestError::TooLarge { limit: limits::WATCH_LINE_BYTES_MAX });
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.rest.extend_from_slice(&data);
                    }
                }
                Some(Err(cause)) => return Err(RestError::Connection(cause.into())),
                None => self.over = true,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_line_that_broke_off_is_no_line() {
        let mut lines = Lines::new(Body::from(b"{\"a\":1}\n\n{\"b\":2}\n{\"c\"".to_vec()));
        let mut seen = Vec::new();
        while let Some(line) = lines.next().await.expect("a body in memory") {
            seen.push(String::from_utf8(line.to_vec()).expect("text"));
        }
        assert_eq!(seen, ["{\"a\":1}", "{\"b\":2}"]);
    }
}
