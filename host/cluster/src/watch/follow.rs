//! The changes after a revision, as they come.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout_at};

use super::lines::Lines;
use super::stream::Initial;
use super::{State, Watch, WatchState, expired};
use crate::cache::revision;
use crate::failure::mix;
use crate::rest::{RestError, Status, lock};
use crate::scope::Place;
use crate::shared::write;

/// A server ends a watch itself at the time asked for; past this much more it is dead.
const GRACE: Duration = Duration::from_secs(15);

/// A connection that lasted as long was a good one, also if nothing happened.
const LONG: Duration = Duration::from_secs(5);

/// On the bookmark after which everything that there was is known.
const ALL_IN: &str = "k8s.io/initial-events-end";

/// A line of a watch; the object stays text.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// The part of a bookmark that matters.
#[derive(Deserialize)]
struct Bookmark {
    metadata: BookmarkMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BookmarkMeta {
    resource_version: String,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

/// How a connection ended.
pub(super) enum End {
    /// The server closed it, or it broke: nothing is lost, for the next goes on from the last revision.
    Closed,
    /// Nothing came for too long.
    Stalled,
    /// What it should go on from is no longer kept.
    Expired,
    /// The server does not begin a watch with what there is.
    Unoffered,
    /// What there is does not come, or does not come to an end.
    Incomplete,
    /// The server refused to go on.
    Failed(RestError),
}

/// A connection under way.
pub(super) struct Connection {
    pub(super) revision: String,
    /// Something came.
    pub(super) heard: bool,
    /// What there is, until all of it is in; none where that is known.
    pub(super) initial: Option<Initial>,
}

impl Watch {
    /// Follows until the connection ends, and says how to go on.
    pub(super) async fn follow(&mut self, path: String, revision: String) -> State {
        self.enter(WatchState::Following);
        self.followed(path, Connection { revision, heard: false, initial: None }).await
    }

    /// Reads a connection to its end, and says how to go on.
    pub(super) async fn followed(&mut self, path: String, mut connection: Connection) -> State {
        lock(&self.report).connections += 1;
        let started = Instant::now();
        let end = self.connect(&path, &mut connection).await;
        let Connection { revision, heard, initial } = connection;
        // Where not everything is in yet there is no revision to go on from.
        let on = |path: String| match initial {
            Some(_) => State::Stream { path },
            None => State::Follow { path, revision },
        };
        if heard || started.elapsed() >= LONG {
            self.failures = 0;
        }
        match end {
            // At once the first time: a server that restarts closes all. Then slower, so that nothing spins.
            End::Closed if self.failures == 0 => {
                self.failures = 1;
                on(path)
            }
            End::Closed => self.wait(None, on(path)),
            End::Stalled => {
                tracing::warn!(kind = %self.gvk, scope = %self.scope, "watch stands still, listing anew");
                lock(&self.report).stalled = true;
                self.anew(path)
            }
            End::Expired => self.anew(path),
            // Dead, or older than the question: a list tells.
            End::Incomplete => State::List { path, paged: true },
            End::Unoffered => {
                tracing::info!(
                    "the API server does not begin watches with what there is: lists are asked for"
                );
                self.shared.streams.store(false, Ordering::Relaxed);
                State::List { path, paged: true }
            }
            End::Failed(RestError::Status { code: 404, status, retry_after }) => {
                self.collection_gone(&RestError::Status { code: 404, status, retry_after }).await
            }
            End::Failed(error) => self.failed("watch", &error, on(path)),
        }
    }

    async fn connect(&mut self, path: &str, connection: &mut Connection) -> End {
        let lasting = self.lasting();
        let call = self
            .call("watch", path, self.accept())
            .with("watch", "true")
            .with("allowWatchBookmarks", "true")
            .with("resourceVersion", connection.revision.clone())
            .with("timeoutSeconds", lasting.as_secs().to_string());
        let call = if connection.initial.is_some() { Initial::asked_for(call) } else { call };
        let started = Instant::now();
        let body = match self.shared.rest.stream(call).await {
            Ok(body) => body,
            Err(error) if connection.initial.is_some() && Initial::is_refused(&error) => {
                return End::Unoffered;
            }
            Err(error) if expired(&error) => return End::Expired,
            Err(error) => return End::Failed(error),
        };
        self.connected();
        let mut lines = Lines::new(body);
        let over = started + lasting + GRACE;
        loop {
            let silent = Instant::now() + self.shared.options.stall_after;
            let until = match &connection.initial {
                // A server that does not know of it sends what there is and never says that this was all.
                Some(_) => Instant::now() + self.shared.options.request_timeout,
                None if self.bookmarks => over.min(silent),
                None => over,
            };
            let line = match timeout_at(until, lines.next()).await {
                Err(_) if connection.initial.is_some() => return End::Incomplete,
                Err(_) => return End::Stalled,
                Ok(Ok(Some(line))) => line,
                Ok(Ok(None)) => {
                    // It ended in order, so it was alive.
                    self.heard();
                    return End::Closed;
                }
                Ok(Err(error @ RestError::TooLarge { .. })) => return End::Failed(error),
                Ok(Err(error)) => {
                    tracing::debug!(kind = %self.gvk, %error, "watch connection broke");
                    return End::Closed;
                }
            };
            connection.heard = true;
            self.heard();
            if let Some(end) = self.line(&line, connection).await {
                return end;
            }
        }
    }

    /// Takes in one line; says so if it is the last.
    async fn line(&mut self, line: &[u8], connection: &mut Connection) -> Option<End> {
        let line: Line = match serde_json::from_slice(line) {
            Ok(line) => line,
            // Nobody knows what was in it: only a list can tell.
            Err(cause) => {
                tracing::error!(kind = %self.gvk, error = %cause, "a line of a watch cannot be read");
                lock(&self.report).undecodable += 1;
                return Some(End::Expired);
            }
        };
        let raw = line.object.get();
        match (&*line.kind, &mut connection.initial) {
            ("ADDED" | "MODIFIED", Some(initial)) => {
                initial.take(self.decode(raw).filter(|object| self.is_of(object)));
            }
            // All that there is comes first, and nothing of it goes.
            ("DELETED", Some(_)) => return Some(End::Expired),
            ("ADDED" | "MODIFIED", None) => {
                let object = self.decode(raw)?;
                connection.revision = object.head().resource_version.to_string();
                if !self.is_of(&object) {
                    return None;
                }
                let change = write(&self.kind).put(object, self.depth);
                self.shared.tell(change).await;
            }
            ("DELETED", None) => {
                let object = self.decode(raw)?;
                connection.revision = object.head().resource_version.to_string();
                if !self.is_of(&object) {
                    return None;
                }
                let place = Place::of_head(&object);
                let change = {
                    let mut kind = write(&self.kind);
                    kind.reached(revision(&object.head().resource_version));
                    kind.remove(&place, &object.head().uid)
                };
                self.shared.tell(change).await;
            }
            ("BOOKMARK", _) => {
                let Ok(bookmark) = serde_json::from_str::<Bookmark>(raw) else { return None };
                let ends = bookmark.metadata.annotations.get(ALL_IN).is_some_and(|said| said == "true");
                match connection.initial.take_if(|_| ends) {
                    Some(initial) => self.all_in(initial, &bookmark.metadata.resource_version).await,
                    None if connection.initial.is_some() => return None,
                    None => {}
                }
                connection.revision = bookmark.metadata.resource_version;
                self.bookmarks = true;
                write(&self.kind).reached(revision(&connection.revision));
            }
            ("ERROR", _) => {
                let status: Status = serde_json::from_str(raw).unwrap_or_default();
                let error = RestError::from_status(status.code, status, None);
                return Some(if expired(&error) { End::Expired } else { End::Failed(error) });
            }
            (other, _) => tracing::debug!(kind = %self.gvk, line = other, "a watch line of an unknown type"),
        }
        None
    }

    /// How long a connection is to last: not all end at once.
    fn lasting(&self) -> Duration {
        let most = self.shared.options.watch_timeout;
        let part = mix(self.seed ^ lock(&self.report).connections) % 256;
        most.mul_f64(0.75 + f64::from(u32::try_from(part).unwrap_or(0)) / 1024.0)
    }
}
