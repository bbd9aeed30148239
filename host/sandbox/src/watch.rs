//! Watches: the state at the start, then every change, until the client or the time ends it.

use crate::error::ApiError;
use crate::list;
use crate::request::Query;
use crate::sandbox::Inner;
use crate::selector::Filter;
use crate::show::View;
use crate::signal::Listener;
use crate::store::history::{Event, EventKind, event_line};
use crate::store::object::{Key, Stored, key_of};
use crate::turn::{State, Target};
use bytes::{Bytes, BytesMut};
use futures::Stream;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Events taken from the history at a time.
const BATCH: usize = 256;
/// How often a client that wants bookmarks gets one.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// How long a watch lasts where the client says nothing.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(1800);

/// A running watch.
struct Watch {
    inner: Arc<Inner>,
    view: View,
    filter: Filter,
    signal: Listener,
    cuts: u64,
    /// The revision up to which everything was sent.
    at: u64,
    initial: VecDeque<Arc<Stored>>,
    /// A bookmark closes the initial events.
    mark_initial: bool,
    bookmarks: bool,
    next_bookmark: Instant,
    ends: Instant,
    first: bool,
    over: bool,
    /// Nothing comes after what the history has.
    closing: bool,
    /// The one object that is watched, where it is one.
    single: Option<Key>,
    /// What was before the watch is sent; what comes now is heard of by the key.
    caught_up: bool,
}

/// Starts a watch; what is wrong with the request is an error before the stream begins.
pub(crate) fn start(
    inner: &Arc<Inner>,
    state: &mut State,
    target: &Target,
    view: View,
    query: &Query,
) -> Result<impl Stream<Item = Bytes> + Send + 'static, ApiError> {
    list::check_options(query, true)?;
    let mut filter = list::filter(target, query)?;
    if !target.name.is_empty() {
        filter.fields = crate::selector::FieldSelector::by_name(&target.name);
    }
    let asked = list::revision(query).map_err(|error| ApiError::new(500, "", error.message))?;
    let table = state.store.table(target.resource.table).ok_or_else(|| target.not_found())?;
    let current = state.store.revision();
    let send_initial = query.flag("sendInitialEvents");
    let without_initial = query.has("sendInitialEvents") && !send_initial;
    let from_now = asked.is_none_or(|asked| asked == 0);
    let mut at = asked.unwrap_or_default();
    let mut initial = VecDeque::new();
    if send_initial || (from_now && !without_initial) {
        if asked.is_some_and(|asked| asked > current) {
            return Err(list::too_new(asked.unwrap_or_default(), current));
        }
        initial = table.objects.values().filter(|stored| filter.passes(stored)).cloned().collect();
        at = current;
    } else if from_now {
        at = current;
    }
    let seconds = query.number("timeoutSeconds")?.and_then(|seconds| u64::try_from(seconds).ok());
    let timeout = seconds.filter(|seconds| *seconds > 0).map_or(DEFAULT_TIMEOUT, Duration::from_secs);
    let bookmarks = query.flag("allowWatchBookmarks");
    let single = single_key(target, &filter);
    let mut signal = match &single {
        Some(key) => state.store.listen(target.resource.table, key).ok_or_else(|| target.not_found())?,
        None => table.signal.listener(),
    };
    let cuts = signal.hear().cuts;
    let now = Instant::now();
    let watch = Watch {
        inner: inner.clone(),
        view,
        filter,
        signal,
        cuts,
        at,
        initial,
        mark_initial: send_initial && bookmarks,
        bookmarks,
        next_bookmark: now + BOOKMARK_EVERY,
        ends: now + timeout,
        first: true,
        over: false,
        closing: false,
        single,
        caught_up: false,
    };
    Ok(futures::stream::unfold(
        watch,
        |mut watch| async move { watch.next().await.map(|bytes| (bytes, watch)) },
    ))
}

impl Watch {
    /// The next lines; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.over || self.signal.hear().cuts != self.cuts {
                return None;
            }
            if let Some(lines) = self.initial_lines().or_else(|| self.event_lines()) {
                return Some(lines);
            }
            if self.over || self.closing {
                return None;
            }
            let wake = if self.bookmarks { self.next_bookmark.min(self.ends) } else { self.ends };
            tokio::select! {
                biased; // The same order in each run.
                changed = self.signal.changed() => {
                    // The resource is no longer served.
                    self.closing = changed.is_err();
                }
                () = tokio::time::sleep_until(wake) => {
                    if wake >= self.ends {
                        return None;
                    }
                    self.next_bookmark += BOOKMARK_EVERY;
                    let mut lines = BytesMut::from(&self.event_lines().unwrap_or_default()[..]);
                    if !self.over {
                        lines.extend_from_slice(&self.bookmark(false));
                    }
                    return Some(lines.freeze());
                }
            }
        }
    }

    fn initial_lines(&mut self) -> Option<Bytes> {
        let mut lines = BytesMut::new();
        while let Some(stored) = self.initial.pop_front() {
            let line = self.line(EventKind::Added, &stored);
            lines.extend_from_slice(&line);
            if lines.len() > 256 * 1024 {
                return Some(lines.freeze());
            }
        }
        if std::mem::take(&mut self.mark_initial) {
            let line = self.bookmark(true);
            lines.extend_from_slice(&line);
        }
        (!lines.is_empty()).then(|| lines.freeze())
    }

    /// Lines of the events since the last look; an error line where some are forgotten.
    fn event_lines(&mut self) -> Option<Bytes> {
        loop {
            let (events, newest) = {
                let state = self.inner.read();
                let table = self.view.target.resource.table;
                let key = self.single.as_ref().filter(|_| self.caught_up);
                let history = key.and_then(|key| state.store.single(table, key));
                let Some(history) = history.or_else(|| state.store.history(table)) else {
                    self.over = true;
                    return None;
                };
                (history.after(self.at, BATCH), state.store.revision())
            };
            let Some(events) = events else {
                self.over = true;
                return Some(expired(self.at));
            };
            if events.is_empty() {
                self.at = self.at.max(newest);
                self.caught_up = true;
                return None;
            }
            let mut single = None;
            let mut lines = BytesMut::new();
            for event in &events {
                self.at = event.revision();
                let Some(line) = self.event_line(event) else { continue };
                match single.take() {
                    None if lines.is_empty() => single = Some(line),
                    before => {
                        lines.extend(before);
                        lines.extend_from_slice(&line);
                    }
                }
            }
            if single.is_some() {
                return single;
            }
            if !lines.is_empty() {
                return Some(lines.freeze());
            }
        }
    }

    fn event_line(&mut self, event: &Event) -> Option<Bytes> {
        let filter = &self.filter;
        let (kind, object) = event.seen_by(|stored| filter.passes(stored))?;
        if self.view.is_verbatim() && kind == event.kind {
            return Some(event.line());
        }
        Some(self.line(kind, &object))
    }

    fn line(&mut self, kind: EventKind, stored: &Stored) -> Bytes {
        if self.view.is_verbatim() {
            return event_line(kind, &stored.json);
        }
        let first = std::mem::take(&mut self.first);
        event_line(kind, &self.view.watched(stored, self.inner.now(), first))
    }

    fn bookmark(&mut self, ends_initial_events: bool) -> Bytes {
        let first = std::mem::take(&mut self.first);
        let object = self.view.bookmark(self.at, ends_initial_events, self.inner.now(), first);
        let mut line = Vec::with_capacity(object.len() + 40);
        line.extend_from_slice(b"{\"type\":\"BOOKMARK\",\"object\":");
        line.extend_from_slice(&object);
        line.extend_from_slice(b"}\n");
        Bytes::from(line)
    }
}

/// The key of the object that a watch is about, where it can be about one only.
fn single_key(target: &Target, filter: &Filter) -> Option<Key> {
    let name = filter.fields.name()?;
    let placed = !target.resource.namespaced || filter.namespace.is_some();
    placed.then(|| key_of(filter.namespace.as_deref().unwrap_or_default(), name))
}

fn expired(at: u64) -> Bytes {
    let error = ApiError::expired(format!("too old resource version: {at} ({at})"));
    Bytes::from(format!("{{\"type\":\"ERROR\",\"object\":{}}}\n", error.status()))
}
