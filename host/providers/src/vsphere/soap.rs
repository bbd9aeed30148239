//! The SOAP protocol of every vCenter and ESXi, over HTTPS.

mod read;
mod write;

use std::sync::{Mutex, PoisonError};

use http::header::{CONTENT_TYPE, COOKIE, SET_COOKIE};
use http::{HeaderMap, HeaderValue, Method, StatusCode};

use super::data::Data;
use super::http::{Connections, Endpoint, Exchange};
use super::vcenter::{Call, CallError, CallFuture, Vcenter};

/// Every method that we call has been there since this release, and later ones take it.
const ACTION: &str = "urn:vim25/6.7";

/// The cookie that holds the session.
const SESSION_COOKIE: &str = "vmware_soap_session";

/// A vCenter that speaks SOAP.
pub struct Soap {
    connections: Connections,
    session: Mutex<Option<HeaderValue>>,
}

impl Soap {
    /// Connects when it is called first.
    pub fn new(endpoint: Endpoint) -> Self {
        Self { connections: Connections::new(endpoint), session: Mutex::default() }
    }

    async fn exchange(&self, call: &Call) -> Result<Data, CallError> {
        let body = write::envelope(call)?;
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/xml; charset=utf-8"));
        headers.insert("soapaction", HeaderValue::from_static(ACTION));
        if let Some(session) = self.session.lock().unwrap_or_else(PoisonError::into_inner).clone() {
            headers.insert(COOKIE, session);
        }
        let request = Exchange { method: Method::POST, path: "/sdk".to_owned(), headers, body: body.into() };
        let answer = self.connections.send(request).await?;
        self.keep_session(&answer.headers);
        let what = answer.in_words();
        // A fault comes with 500; what is neither is not of a vCenter, whatever it holds.
        if !matches!(answer.status, StatusCode::OK | StatusCode::INTERNAL_SERVER_ERROR) {
            return Err(CallError::BadAnswer(format!("it answered {what}")));
        }
        let text = std::str::from_utf8(&answer.body)
            .map_err(|_| CallError::BadAnswer(format!("it answered {what}, which is no text")))?;
        read::answer(text, &what)
    }

    fn keep_session(&self, headers: &HeaderMap) {
        let cookies = headers.get_all(SET_COOKIE).iter().filter_map(|cookie| cookie.to_str().ok());
        let mut pairs = cookies.filter_map(|cookie| cookie.split(';').next());
        let ours =
            pairs.find(|pair| pair.split('=').next().is_some_and(|name| name.trim() == SESSION_COOKIE));
        if let Some(mut session) = ours.and_then(|pair| HeaderValue::from_str(pair.trim()).ok()) {
            session.set_sensitive(true);
            *self.session.lock().unwrap_or_else(PoisonError::into_inner) = Some(session);
        }
    }
}

impl Vcenter for Soap {
    fn call<'a>(&'a self, call: &'a Call) -> CallFuture<'a> {
        Box::pin(self.exchange(call))
    }
}
