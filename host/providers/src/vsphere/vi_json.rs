//! VI JSON, the protocol of vCenter 8.0 U1 and later: the same methods, with parameters and results in JSON.

mod read;
mod write;

use std::sync::{Mutex, PoisonError};

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method};

use super::data::Data;
use super::http::{Connections, Endpoint, Exchange};
use super::vcenter::{Call, CallError, CallFuture, Vcenter};

/// The oldest release with this protocol; later servers take it.
const RELEASE: &str = "8.0.1.0";

/// The header that holds the session, in requests and answers.
const SESSION: &str = "vmware-api-session-id";

/// A vCenter that speaks VI JSON.
pub struct ViJson {
    connections: Connections,
    session: Mutex<Option<HeaderValue>>,
}

impl ViJson {
    /// Connects when it is called first.
    pub fn new(endpoint: Endpoint) -> Self {
        Self { connections: Connections::new(endpoint), session: Mutex::default() }
    }

    async fn exchange(&self, call: &Call) -> Result<Data, CallError> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(session) = self.session.lock().unwrap_or_else(PoisonError::into_inner).clone() {
            headers.insert(SESSION, session);
        }
        let target = &call.target;
        let (kind, id) = (write::segment(&target.kind), write::segment(&target.id));
        let path = format!("/sdk/vim25/{RELEASE}/{kind}/{id}/{}", call.method);
        let body = write::parameters(&call.parameters);
        let request = Exchange { method: Method::POST, path, headers, body: body.into() };
        let answer = self.connections.send(request).await?;
        if let Some(mut session) = answer.headers.get(SESSION).cloned() {
            session.set_sensitive(true);
            *self.session.lock().unwrap_or_else(PoisonError::into_inner) = Some(session);
        }
        read::answer(answer.status, &answer.body, &answer.in_words())
    }
}

impl Vcenter for ViJson {
    fn call<'a>(&'a self, call: &'a Call) -> CallFuture<'a> {
        Box::pin(self.exchange(call))
    }
}
