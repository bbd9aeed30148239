//! Everything at once, in pages.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{State, Watch, WatchState, expired};
use crate::cache::revision;
use crate::limits;
use crate::rest::{JSON, METADATA_LIST, RestError, lock};
use crate::scope::Depth;
use crate::shared::{read, write};

/// A page of a list; the items stay text.
#[derive(Deserialize)]
pub(crate) struct Page<'a> {
    #[serde(default)]
    pub(crate) metadata: ListMeta,
    #[serde(borrow, default)]
    pub(crate) items: Option<Vec<&'a RawValue>>,
}

/// A list's own metadata.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ListMeta {
    pub(crate) resource_version: String,
    #[serde(rename = "continue")]
    pub(crate) next: String,
}

impl Watch {
    /// Lists, tells what changed since, and goes on to follow.
    pub(super) async fn list(&mut self, path: String, paged: bool) -> State {
        self.enter(WatchState::Listing);
        match self.all_pages(&path, paged).await {
            Ok(revision) => {
                self.failures = 0;
                lock(&self.report).lists += 1;
                self.connected();
                self.shared.supersede(&self.gvk, &self.scope, self.depth);
                self.shared.synced(&self.gvk, &self.scope).await;
                State::Follow { path, revision }
            }
            Err(RestError::Status { code: 404, status, retry_after }) => {
                self.collection_gone(&RestError::Status { code: 404, status, retry_after }).await
            }
            // The token of a page was compacted away: all in one answer cannot expire.
            Err(error) if paged && expired(&error) => State::List { path, paged: false },
            Err(error) => self.failed("list", &error, State::List { path, paged: true }),
        }
    }

    /// The revision at which the list was taken.
    async fn all_pages(&mut self, path: &str, paged: bool) -> Result<String, RestError> {
        let mut relist = read(&self.kind).relist(&self.scope, self.depth);
        let mut next = String::new();
        loop {
            let mut call = self.call("list", path, self.accept_list());
            if paged {
                call = call.with("limit", limits::LIST_PAGE.to_string());
            }
            if !next.is_empty() {
                call = call.with("continue", next);
            }
            let text = self.shared.rest.text(call).await?;
            let page: Page = serde_json::from_str(&text).map_err(|cause| RestError::Decode(cause.into()))?;
            let at = revision(&page.metadata.resource_version);
            let items = page.items.unwrap_or_default();
            let decoded = items.iter().filter_map(|raw| self.decode(raw.get()));
            let objects = decoded.filter(|object| self.is_of(object)).collect();
            let changes = write(&self.kind).page(&mut relist, at, objects);
            self.shared.tell(changes).await;
            lock(&self.report).heard = Some(tokio::time::Instant::now());
            next = page.metadata.next;
            if next.is_empty() {
                let changes = write(&self.kind).listed(relist, at);
                self.shared.tell(changes).await;
                return Ok(page.metadata.resource_version);
            }
        }
    }

    fn accept_list(&self) -> &'static str {
        match self.depth {
            Depth::Metadata => METADATA_LIST,
            Depth::Whole => JSON,
        }
    }
}
