//! Who may come in: whoever shows the token of this start.

use crate::body::ApiBody;
use crate::error::ApiError;
use crate::service::ApiService;
use http::{HeaderMap, Request, Response, header};
use hyper::body::Incoming;
use rustls::crypto::CryptoProvider;
use sha2::{Digest, Sha256};
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Random bytes of a token: nobody guesses 24.
const TOKEN_BYTES: usize = 24;

/// What everybody may read, as on the real server.
const OPEN: &[&str] = &["/healthz", "/livez", "/readyz", "/version"];

/// A token that nobody had before.
pub(super) fn token(provider: &CryptoProvider) -> Result<String, rustls::Error> {
    let mut bytes = [0; TOKEN_BYTES];
    provider.secure_random.fill(&mut bytes).map_err(|_| rustls::Error::FailedToGetRandomBytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The API behind a token.
#[derive(Clone)]
pub(super) struct Door {
    service: ApiService,
    token: Arc<[u8]>,
}

impl Door {
    pub(super) fn new(service: ApiService, token: &str) -> Door {
        Door { service, token: digest(token).into() }
    }

    fn opens(&self, path: &str, headers: &HeaderMap) -> bool {
        let shown = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        match shown.and_then(|value| value.strip_prefix("Bearer ")) {
            // Digests are compared: how long it takes says nothing about the token.
            Some(shown) => *digest(shown.trim()) == *self.token,
            None => OPEN.iter().any(|open| path == *open || path.starts_with(&format!("{open}/"))),
        }
    }
}

fn digest(token: &str) -> Vec<u8> {
    Sha256::digest(token.as_bytes()).to_vec()
}

impl tower::Service<Request<Incoming>> for Door {
    type Response = Response<ApiBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<ApiBody>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        if self.opens(request.uri().path(), request.headers()) {
            return tower::Service::call(&mut self.service, request);
        }
        let refusal = crate::api::refusal(&ApiError::new(401, "Unauthorized", "Unauthorized"));
        Box::pin(std::future::ready(Ok(refusal)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Sandbox, SandboxOptions};

    fn check(path: &str, authorization: Option<&str>) -> bool {
        let door = Door::new(Sandbox::new(SandboxOptions::default()).service(), "right");
        let mut headers = HeaderMap::new();
        if let Some(value) = authorization {
            headers.insert(header::AUTHORIZATION, value.parse().expect("a header"));
        }
        door.opens(path, &headers)
    }

    #[test]
    fn only_the_token_opens_the_door() {
        assert!(check("/api/v1/pods", Some("Bearer right")));
        assert!(!check("/api/v1/pods", Some("Bearer wrong")));
        assert!(!check("/api/v1/pods", Some("Basic right")));
        assert!(!check("/api/v1/pods", None));
    }

    #[test]
    fn anybody_may_ask_how_the_server_is_but_not_with_a_wrong_token() {
        assert!(check("/readyz", None) && check("/livez/ping", None) && check("/version", None));
        assert!(!check("/readyzz", None));
        assert!(!check("/readyz", Some("Bearer wrong")));
    }

    #[test]
    fn two_tokens_are_never_the_same() {
        let provider = rustls::crypto::ring::default_provider();
        let (one, two) = (token(&provider).expect("chance"), token(&provider).expect("chance"));
        assert_eq!(one.len(), 2 * TOKEN_BYTES);
        assert_ne!(one, two);
    }
}
