//! `metadata.managedFields`: reading, writing, and who a manager is.

use super::path::show;
use super::set::FieldSet;
use crate::error::{ApiError, Details, go_quote};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Managers by update that an object keeps; older ones are put together.
const UPDATERS_MAX: usize = 10;

/// How a manager came by its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operation {
    Apply,
    Update,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Operation::Apply => "Apply",
            Operation::Update => "Update",
        }
    }
}

/// Who a manager is. Applying in another version is still the same manager, updating is not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ManagerId {
    pub manager: String,
    pub operation: Operation,
    /// Empty for appliers.
    pub api_version: String,
    pub subresource: String,
}

impl ManagerId {
    pub(crate) fn new(
        manager: &str,
        operation: Operation,
        api_version: &str,
        subresource: &str,
    ) -> ManagerId {
        let manager = if manager.is_empty() { "unknown" } else { manager }.to_owned();
        let api_version = if operation == Operation::Apply { "" } else { api_version }.to_owned();
        ManagerId { manager, operation, api_version, subresource: subresource.to_owned() }
    }
}

/// What a manager owns, and since when.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub set: FieldSet,
    pub api_version: String,
    pub time: Option<String>,
}

/// The managers of an object.
#[derive(Clone, Debug, Default)]
pub(crate) struct Managers {
    pub entries: BTreeMap<ManagerId, Entry>,
}

impl Managers {
    /// Reads `metadata.managedFields` of an object; `None` if it is malformed.
    pub(crate) fn of(object: &Value) -> Option<Managers> {
        Managers::parse(object["metadata"].get("managedFields"))
    }

    pub(crate) fn parse(list: Option<&Value>) -> Option<Managers> {
        let mut managers = Managers::default();
        for entry in list.and_then(Value::as_array).into_iter().flatten() {
            let text = |key: &str| entry[key].as_str().unwrap_or_default();
            let operation = match text("operation") {
                "Apply" => Operation::Apply,
                "Update" => Operation::Update,
                _ => return None,
            };
            let set = match entry.get("fieldsV1") {
                Some(fields) => FieldSet::parse(fields)?,
                None => FieldSet::default(),
            };
            let id = ManagerId {
                manager: text("manager").into(),
                operation,
                api_version: if operation == Operation::Apply {
                    String::new()
                } else {
                    text("apiVersion").into()
                },
                subresource: text("subresource").into(),
            };
            let time = entry["time"].as_str().map(str::to_owned);
            managers.entries.insert(id, Entry { set, api_version: text("apiVersion").into(), time });
        }
        Some(managers)
    }

    /// The list for `metadata.managedFields`: appliers first, then by time and name.
    pub(crate) fn encode(&self) -> Value {
        let mut entries: Vec<(&ManagerId, &Entry)> = self.entries.iter().collect();
        entries.sort_by(|(a, x), (b, y)| {
            let order = |id: &ManagerId, entry: &Entry| {
                (
                    id.operation,
                    entry.time.clone(),
                    id.manager.clone(),
                    entry.api_version.clone(),
                    id.subresource.clone(),
                )
            };
            order(a, x).cmp(&order(b, y))
        });
        entries.into_iter().map(|(id, entry)| encode_entry(id, entry)).collect()
    }

    /// Writes the list into an object; removes it where there is no manager.
    pub(crate) fn write(&self, object: &mut Value) {
        if let Some(metadata) = object.pointer_mut("/metadata").and_then(Value::as_object_mut) {
            if self.entries.is_empty() {
                metadata.remove("managedFields");
            } else {
                metadata.insert("managedFields".into(), self.encode());
            }
        }
    }

    pub(super) fn drop_empty(&mut self) {
        self.entries.retain(|_, entry| !entry.set.is_empty());
    }

    /// Puts the oldest updaters of a version together where there are too many.
    pub(super) fn cap_updaters(&mut self) {
        let mut updaters: Vec<(String, ManagerId)> = self
            .entries
            .iter()
            .filter(|(id, _)| id.operation == Operation::Update)
            .map(|(id, entry)| (entry.time.clone().unwrap_or_default(), id.clone()))
            .collect();
        let mut count = updaters.len();
        if count <= UPDATERS_MAX {
            return;
        }
        updaters.sort();
        let mut first_of_version: BTreeMap<String, ManagerId> = BTreeMap::new();
        for (_, id) in updaters {
            if count <= UPDATERS_MAX {
                break;
            }
            let version = self.entries[&id].api_version.clone();
            let bucket = ManagerId::new("ancient-changes", Operation::Update, &version, "");
            let Some(first) = first_of_version.get(&version) else {
                first_of_version.insert(version, id);
                continue;
            };
            if !self.entries.contains_key(&bucket)
                && let Some(entry) = self.entries.remove(first)
            {
                self.entries.insert(bucket.clone(), entry);
            }
            if let Some(entry) = self.entries.remove(&id)
                && let Some(old) = self.entries.get_mut(&bucket)
            {
                old.set = std::mem::take(&mut old.set).union(&entry.set);
                old.time = entry.time;
                count -= 1;
            }
        }
    }
}

fn encode_entry(id: &ManagerId, entry: &Entry) -> Value {
    let mut out = Map::new();
    out.insert("manager".into(), json!(id.manager));
    out.insert("operation".into(), json!(id.operation.name()));
    out.insert("apiVersion".into(), json!(entry.api_version));
    if let Some(time) = &entry.time {
        out.insert("time".into(), json!(time));
    }
    out.insert("fieldsType".into(), json!("FieldsV1"));
    out.insert("fieldsV1".into(), entry.set.encode());
    if !id.subresource.is_empty() {
        out.insert("subresource".into(), json!(id.subresource));
    }
    Value::Object(out)
}

/// Makes two lists of managers equal where they differ in nothing but times.
pub(crate) fn keep_times(new: &mut Value, old: &Value) {
    let without_times = |list: Option<&Value>| -> Option<Vec<Value>> {
        let mut entries = list?.as_array()?.clone();
        for entry in &mut entries {
            entry.as_object_mut()?.remove("time");
        }
        Some(entries)
    };
    let old_list = old["metadata"].get("managedFields");
    let equal = {
        let new_list = new["metadata"].get("managedFields");
        match (without_times(new_list), without_times(old_list)) {
            (Some(mut a), Some(mut b)) => {
                // The order of the list follows the times.
                a.sort_by(super::path::compare_values);
                b.sort_by(super::path::compare_values);
                a == b
            }
            _ => false,
        }
    };
    if equal && let Some(list) = old_list {
        new["metadata"]["managedFields"] = list.clone();
    }
}

/// The error of an apply that would change what others own.
pub(crate) fn conflict_error(conflicts: &BTreeMap<ManagerId, (FieldSet, Option<String>)>) -> ApiError {
    let mut details = Details::default();
    let mut groups = Vec::new();
    let mut ordered: Vec<_> = conflicts.iter().collect();
    ordered.sort_by_cached_key(|(id, _)| identifier(id));
    for (id, (set, time)) in ordered {
        let who = describe(id, time.as_deref());
        let paths: Vec<String> = set.paths().iter().map(|path| show(path)).collect();
        for path in &paths {
            details.causes.push(crate::error::Cause {
                reason: "FieldManagerConflict".into(),
                message: format!("conflict with {who}"),
                field: path.clone(),
            });
        }
        groups.push((who, paths));
    }
    let count: usize = groups.iter().map(|(_, paths)| paths.len()).sum();
    let message = if count == 1 {
        let (who, paths) = &groups[0];
        format!("Apply failed with 1 conflict: conflict with {who}: {}", paths[0])
    } else {
        let lines: Vec<String> = groups
            .iter()
            .flat_map(|(who, paths)| {
                std::iter::once(format!("conflicts with {who}:"))
                    .chain(paths.iter().map(|path| format!("- {path}")))
            })
            .collect();
        format!("Apply failed with {count} conflicts: {}", lines.join("\n"))
    };
    ApiError { details: Some(Box::new(details)), ..ApiError::new(409, "Conflict", message) }
}

/// A manager as upstream writes it down, by which conflicts are ordered.
fn identifier(id: &ManagerId) -> String {
    let mut text =
        format!("{{\"manager\":{},\"operation\":{}", json!(id.manager), json!(id.operation.name()));
    for (field, value) in [("apiVersion", &id.api_version), ("subresource", &id.subresource)] {
        if !value.is_empty() {
            text.push_str(&format!(",\"{field}\":{}", json!(value)));
        }
    }
    text.push('}');
    text
}

fn describe(id: &ManagerId, _time: Option<&str>) -> String {
    let mut text = go_quote(&id.manager);
    if !id.subresource.is_empty() {
        text.push_str(&format!(" with subresource {}", go_quote(&id.subresource)));
    }
    if id.operation == Operation::Update {
        text.push_str(&format!(" using {}", id.api_version));
    }
    text
}
