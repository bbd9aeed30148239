//! Lists: which revision they show, pages, and continue tokens.

use crate::error::{ApiError, Details, go_quote};
use crate::request::Query;
use crate::schema::FieldError;
use crate::selector::{FieldSelector, Filter, LabelSelector};
use crate::store::Store;
use crate::store::object::{Key, Stored};
use crate::turn::Target;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A page of objects and the metadata of the list.
pub(crate) struct Page {
    pub items: Vec<Arc<Stored>>,
    pub metadata: Value,
}

/// Reads the selectors of a query.
pub(crate) fn filter(target: &Target, query: &Query) -> Result<Filter, ApiError> {
    let labels = LabelSelector::parse(query.get("labelSelector").unwrap_or_default())
        .map_err(ApiError::bad_request)?;
    let fields = query.get("fieldSelector").unwrap_or_default();
    let fields =
        FieldSelector::parse(fields, &target.resource, target.version).map_err(ApiError::bad_request)?;
    let namespace = (!target.namespace.is_empty()).then(|| target.namespace.clone());
    Ok(Filter { namespace, labels, fields })
}

/// A revision from a query; absent and empty are `None`.
pub(crate) fn revision(query: &Query) -> Result<Option<u64>, ApiError> {
    let Some(text) = query.get("resourceVersion") else { return Ok(None) };
    text.parse().map(Some).map_err(|_| {
        let quoted = go_quote(text);
        let why = format!("strconv.ParseUint: parsing {quoted}: invalid syntax");
        ApiError::bad_request(format!("resourceVersion: Invalid value: {quoted}: {why}"))
    })
}

/// A revision that is not written yet.
pub(crate) fn too_new(asked: u64, current: u64) -> ApiError {
    let mut error = ApiError::new(
        504,
        "Timeout",
        format!("Timeout: Too large resource version: {asked}, current: {current}"),
    );
    error.details = Some(Box::new(Details { retry_after_seconds: 1, ..Details::default() }));
    error.with_cause("ResourceVersionTooLarge", "Too large resource version", "")
}

/// Where Go's decoder stops.
fn broken_at(text: &str, error: &base64::DecodeError) -> usize {
    match error {
        base64::DecodeError::InvalidByte(at, _) | base64::DecodeError::InvalidLastSymbol(at, _) => *at,
        base64::DecodeError::InvalidLength(_) | base64::DecodeError::InvalidPadding => {
            text.len() - text.len() % 4
        }
    }
}

/// Refuses combinations of options that mean nothing.
pub(crate) fn check_options(query: &Query, watch: bool) -> Result<(), ApiError> {
    let errors = if watch { watch_faults(query) } else { list_faults(query) };
    if errors.is_empty() {
        return Ok(());
    }
    let subject = crate::error::Subject { group: "meta.k8s.io", kind: "ListOptions" };
    Err(ApiError::invalid(subject, "", &errors))
}

const MATCH: &str = "resourceVersionMatch";
const NOT_OLDER: &str = "NotOlderThan";

fn list_faults(query: &Query) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Some(matching) = query.get(MATCH) {
        if query.get("resourceVersion").is_none() {
            let why = "resourceVersionMatch is forbidden unless resourceVersion is provided";
            errors.push(FieldError::forbidden(MATCH, why));
        }
        if query.get("continue").is_some() {
            let why = "resourceVersionMatch is forbidden when continue is provided";
            errors.push(FieldError::forbidden(MATCH, why));
        }
        if !matches!(matching, "Exact" | NOT_OLDER) {
            errors.push(FieldError::not_supported(MATCH, matching, &["Exact", NOT_OLDER, ""]));
        }
        if matching == "Exact" && query.get("resourceVersion") == Some("0") {
            let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            errors.push(FieldError::forbidden(MATCH, why));
        }
    }
    if query.has("sendInitialEvents") {
        errors.push(FieldError::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
    }
    errors
}

fn watch_faults(query: &Query) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let initial = query.has("sendInitialEvents");
    let matching = query.get(MATCH);
    if initial && matching != Some(NOT_OLDER) {
        let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        errors.push(FieldError::forbidden(MATCH, why));
    }
    if let Some(matching) = matching {
        if !initial {
            let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            errors.push(FieldError::forbidden(MATCH, why));
        }
        if matching != NOT_OLDER {
            errors.push(FieldError::not_supported(MATCH, matching, &[NOT_OLDER]));
        }
        if query.get("continue").is_some() {
            let why = "resourceVersionMatch is forbidden when continue is provided";
            errors.push(FieldError::forbidden(MATCH, why));
        }
    }
    errors
}

/// What a query lists.
pub(crate) fn list(store: &Store, target: &Target, query: &Query) -> Result<Page, ApiError> {
    check_options(query, false)?;
    let filter = filter(target, query)?;
    let limit =
        query.number("limit")?.and_then(|limit| usize::try_from(limit).ok()).filter(|limit| *limit > 0);
    let asked = revision(query).map_err(|error| ApiError {
        message: format!("invalid resource version: {}", error.message),
        ..error
    })?;
    let current = store.revision();
    let Some(table) = store.table(target.resource.table) else { return Err(target.not_found()) };
    let token = query.get("continue").map(|text| Token::parse(text, asked)).transpose()?;
    if token.is_none() && asked.is_some_and(|asked| asked > current) {
        return Err(too_new(asked.unwrap_or_default(), current));
    }
    let exact = query.get("resourceVersionMatch") == Some("Exact")
        || (query.get("resourceVersionMatch").is_none() && limit.is_some());
    let at = match &token {
        Some(token) => token.revision,
        None => asked.filter(|asked| exact && *asked > 0),
    };
    let rewound;
    let (objects, shown): (&BTreeMap<Key, Arc<Stored>>, u64) = match at.filter(|at| *at < current) {
        Some(at) => {
            rewound = table.history.rewind(&table.objects, at).ok_or_else(|| match &token {
                Some(token) => token.expired(),
                None => ApiError::expired("The resourceVersion for the provided list is too old."),
            })?;
            (&rewound, at)
        }
        None => (&table.objects, current),
    };
    Ok(page(objects, shown, &filter, target.resource.namespaced, limit, token.as_ref()))
}

fn page(
    objects: &BTreeMap<Key, Arc<Stored>>,
    revision: u64,
    filter: &Filter,
    namespaced: bool,
    limit: Option<usize>,
    token: Option<&Token>,
) -> Page {
    let prefix = filter.namespace.as_ref().map(|namespace| format!("{namespace}/")).unwrap_or_default();
    // A selector that names one object needs no look at the others.
    let only = filter.fields.name().map(|name| Key::from(format!("{prefix}{name}")));
    let named = only.as_ref().filter(|_| !namespaced || filter.namespace.is_some());
    if let Some(key) = named {
        let found = objects.get(key).filter(|stored| filter.passes(stored));
        let metadata = json!({"resourceVersion": revision.to_string()});
        return Page { items: found.cloned().into_iter().collect(), metadata };
    }
    let start: Key = token.map_or(prefix.as_str(), |token| token.start.as_str()).into();
    let inside = |key: &Key| key.starts_with(prefix.as_str());
    let mut range = objects.range(start..).take_while(|(key, _)| inside(key));
    let mut items = Vec::new();
    // A page that is full goes on where anything follows, even if the selector passes none of it.
    let mut goes_on = false;
    for (_, stored) in range.by_ref() {
        if limit.is_some_and(|limit| items.len() == limit) {
            goes_on = true;
            break;
        }
        if filter.passes(stored) {
            items.push(stored.clone());
        }
    }
    let mut metadata = json!({"resourceVersion": revision.to_string()});
    if goes_on && let Some(last) = items.last() {
        let token = Token { revision: Some(revision), start: format!("{}\0", last.key()) };
        metadata["continue"] = json!(token.encode());
        if filter.selects_all() {
            metadata["remainingItemCount"] = json!(range.count() + 1);
        }
    }
    Page { items, metadata }
}

/// Where a list goes on: after which key, at which revision (none for the newest).
#[derive(Debug, PartialEq, Eq)]
struct Token {
    revision: Option<u64>,
    start: String,
}

impl Token {
    fn parse(text: &str, asked: Option<u64>) -> Result<Token, ApiError> {
        let invalid = |why: &str| {
            ApiError::bad_request(format!("invalid continue token: continue key is not valid: {why}"))
        };
        if asked.is_some_and(|asked| asked != 0) {
            return Err(ApiError::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        let bytes = URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).map_err(|error| {
            invalid(&format!("illegal base64 data at input byte {}", broken_at(text, &error)))
        })?;
        let token: Value = serde_json::from_slice(&bytes).map_err(|error| invalid(&error.to_string()))?;
        if token["v"] != "meta.k8s.io/v1" {
            return Err(invalid("server does not recognize this encoded version"));
        }
        let start = token["start"]
            .as_str()
            .filter(|start| !start.is_empty())
            .ok_or_else(|| invalid("encoded start key is empty"))?;
        let revision = token["rv"].as_i64().unwrap_or_default();
        let revision = u64::try_from(revision).ok();
        Ok(Token { revision, start: start.to_owned() })
    }

    fn encode(&self) -> String {
        let revision = self.revision.and_then(|revision| i64::try_from(revision).ok()).unwrap_or(-1);
        let token = json!({"v": "meta.k8s.io/v1", "rv": revision, "start": self.start});
        URL_SAFE_NO_PAD.encode(token.to_string())
    }

    /// The revision is forgotten: the client may go on at the newest one.
    fn expired(&self) -> ApiError {
        let next = Token { revision: None, start: self.start.clone() };
        let mut error = ApiError::expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a new list without the \
             continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing \
             with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the \
             time the first chunk was returned and now may show up in the list.",
        );
        error.continue_token = Some(next.encode().into());
        error
    }
}
