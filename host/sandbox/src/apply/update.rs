//! The two operations: apply an object for a manager, or note what an update changed.

use super::check::check;
use super::compare::Comparison;
use super::managers::{Entry, ManagerId, Managers, Operation, conflict_error};
use super::merge::merge;
use super::remove::remove;
use super::set::FieldSet;
use super::walk::{Ty, field_set};
use crate::error::ApiError;
use crate::schema::{Schema, go_json};
use serde_json::Value;
use std::collections::BTreeMap;

/// What others own that an apply would change.
pub(crate) type Conflict = BTreeMap<ManagerId, (FieldSet, Option<String>)>;

/// Who applies or updates, in which version, where, and when.
pub(crate) struct Applier<'a> {
    pub schema: &'a Schema,
    pub api_version: &'a str,
    pub manager: &'a str,
    pub subresource: &'a str,
    pub now: &'a str,
    /// Paths that this endpoint does not let a client set.
    pub ignored: &'a FieldSet,
    /// An object of the kind of which nothing was given, with what Go writes nevertheless.
    pub empty: &'a dyn Fn() -> Value,
}

/// Paths that nobody manages.
fn unmanaged() -> FieldSet {
    let names = [
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    ];
    let mut paths: Vec<Vec<&str>> = vec![vec!["apiVersion"], vec!["kind"], vec!["metadata"]];
    paths.extend(names.iter().map(|name| vec!["metadata", name]));
    let paths: Vec<&[&str]> = paths.iter().map(Vec::as_slice).collect();
    FieldSet::of_fields(&paths)
}

impl Applier<'_> {
    fn ty(&self) -> Ty<'_> {
        Ty::Known(self.schema)
    }

    /// Applies an object over the live one. The result carries the managers; it equals the live object where nothing
    /// is to be done. `live` has no managers of its own where the object is new.
    pub(crate) fn apply(&self, live: &Value, applied: &Value, force: bool) -> Result<Value, ApiError> {
        let managers = Managers::of(live)
            .ok_or_else(|| ApiError::new(500, "", "failed to decode managed fields: invalid fieldsV1"))?;
        let managers = if managers.entries.is_empty() { self.before_first_apply(live) } else { managers };
        let mut bare = live.clone();
        strip_managers(&mut bare);
        let faults = check(applied, self.ty());
        if !faults.is_empty() {
            return Err(ApiError::new(
                500,
                "",
                format!(
                    "failed to create typed patch object ({}): {}",
                    self.name_of(applied),
                    joined(&faults)
                ),
            ));
        }
        let force_for_kubectl = |conflicts: &Conflict| self.allowed_by_last_applied(&bare, conflicts);
        let (merged, managers) = self.merge_and_prune(&bare, applied, managers, force, force_for_kubectl)?;
        let mut result = merged;
        managers.write(&mut result);
        if self.manager == "kubectl" && result["metadata"]["annotations"][LAST_APPLIED].is_string() {
            result["metadata"]["annotations"][LAST_APPLIED] = last_applied_of(applied).into();
        }
        Ok(result)
    }

    /// The managers of an object that has none yet: whoever made it owns what it has.
    fn before_first_apply(&self, live: &Value) -> Managers {
        if !exists(live) {
            return Managers::default();
        }
        let mut owned = live.clone();
        Applier { manager: "before-first-apply", ..*self }.update(&(self.empty)(), &mut owned);
        Managers::of(&owned).unwrap_or_default()
    }

    fn merge_and_prune(
        &self,
        live: &Value,
        applied: &Value,
        mut managers: Managers,
        force: bool,
        forgive: impl Fn(&Conflict) -> Conflict,
    ) -> Result<(Value, Managers), ApiError> {
        let me = ManagerId::new(self.manager, Operation::Apply, self.api_version, self.subresource);
        let last = managers.entries.get(&me).cloned();
        let set = field_set(applied, self.ty()).recursive_difference(self.ignored);
        let time = last.as_ref().and_then(|entry| entry.time.clone());
        managers.entries.insert(me.clone(), Entry { set, api_version: self.api_version.into(), time });
        let merged = merge(live, applied, self.ty());
        let merged = match &last {
            Some(last) if !last.set.is_empty() => self.prune(&merged, &managers, &last.set),
            _ => merged,
        };
        let comparison = Comparison::of(live, &merged, self.ty()).without(self.ignored);
        let conflicts = changed_by(&comparison, &managers, &me);
        if !force && !conflicts.is_empty() {
            let left = forgive(&conflicts);
            if !left.is_empty() {
                return Err(conflict_error(&left));
            }
        }
        take_from_others(&comparison, &conflicts, &mut managers, &me);
        if let Some(entry) = managers.entries.get_mut(&me) {
            entry.set = entry.set.difference(&unmanaged());
            // Upstream leaves the time alone where only the ownership changed.
            if merged != *live {
                entry.time = Some(self.now.to_owned());
            }
        }
        managers.drop_empty();
        Ok((merged, managers))
    }

    /// Takes out what this manager applied last and not now, unless somebody else has it too.
    fn prune(&self, merged: &Value, managers: &Managers, last: &FieldSet) -> Value {
        let ty = self.ty();
        let named = |set: &FieldSet| set.with_named_fields(ty);
        let pruned = remove(merged, &named(last), ty);
        let owned = managers.entries.values().fold(FieldSet::default(), |all, entry| all.union(&entry.set));
        let merged_set = named(&field_set(merged, ty));
        let pruned_set = named(&field_set(&pruned, ty));
        // Give back what somebody owns …
        let pruned = remove(merged, &merged_set.difference(&pruned_set.union(&named(&owned))), ty);
        // … and what nobody applied before, such as items below a list item that goes.
        let pruned_set = named(&field_set(&pruned, ty));
        remove(merged, &merged_set.difference(&pruned_set).intersection(&named(last)), ty)
    }

    /// Notes in `new` who manages what after an update from `live` to `new`. `live` is empty for a create.
    pub(crate) fn update(&self, live: &Value, new: &mut Value) {
        let live_list = live["metadata"].get("managedFields");
        let new_list = new["metadata"].get("managedFields");
        let mut managers = if !self.subresource.is_empty() {
            Managers::parse(live_list).unwrap_or_default()
        } else if is_reset(new_list) {
            Managers::default()
        } else {
            match Managers::parse(new_list) {
                Some(managers) if !managers.entries.is_empty() => managers,
                _ => Managers::parse(live_list).unwrap_or_default(),
            }
        };
        strip_managers(new);
        // An object that nobody manages stays so until somebody applies.
        if managers.entries.is_empty() && exists(live) {
            return;
        }
        let mut bare = live.clone();
        strip_managers(&mut bare);
        let comparison = Comparison::of(&bare, new, self.ty()).without(self.ignored);
        let me = ManagerId::new(self.manager, Operation::Update, self.api_version, self.subresource);
        // The operation counts as somebody new first: what it changes is taken from everybody, itself included.
        let nobody = ManagerId { manager: String::new(), ..me.clone() };
        let conflicts = changed_by(&comparison, &managers, &nobody);
        take_from_others(&comparison, &conflicts, &mut managers, &nobody);
        let mine = comparison.modified.union(&comparison.added).difference(&unmanaged());
        if !mine.is_empty() {
            let entry = managers.entries.entry(me).or_insert_with(|| Entry {
                set: FieldSet::default(),
                api_version: self.api_version.into(),
                time: None,
            });
            entry.set = std::mem::take(&mut entry.set).union(&mine);
            entry.time = Some(self.now.to_owned());
        }
        managers.drop_empty();
        managers.cap_updaters();
        managers.write(new);
    }

    /// kubectl's own client-side apply may be taken over: what the last-applied annotation says and the live object
    /// still has is no conflict.
    fn allowed_by_last_applied(&self, live: &Value, conflicts: &Conflict) -> Conflict {
        let allowed = (self.manager == "kubectl").then(|| self.last_applied(live)).flatten();
        let Some(allowed) = allowed else { return conflicts.clone() };
        let left = conflicts
            .iter()
            .map(|(id, (set, time))| (id.clone(), (set.difference(&allowed), time.clone())))
            .filter(|(_, (set, _))| !set.is_empty());
        left.collect()
    }

    fn last_applied(&self, live: &Value) -> Option<FieldSet> {
        let text = live["metadata"]["annotations"][LAST_APPLIED].as_str()?;
        let last: Value = serde_json::from_str(text).ok()?;
        if last["apiVersion"].as_str() != Some(self.api_version) {
            return None;
        }
        let comparison = Comparison::of(&last, live, self.ty());
        let set = field_set(&last, self.ty());
        Some(
            set.difference(&comparison.modified)
                .difference(&comparison.added)
                .difference(&comparison.removed),
        )
    }

    fn name_of(&self, object: &Value) -> String {
        let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default().to_owned();
        let (group, version) = self.api_version.split_once('/').unwrap_or(("", self.api_version));
        let kind = object["kind"].as_str().unwrap_or_default();
        format!("{}/{}; {group}/{version}, Kind={kind}", text("namespace"), text("name"))
    }
}

/// Where kubectl keeps what it applied last.
pub(crate) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// What other managers have among the changed paths.
fn changed_by(comparison: &Comparison, managers: &Managers, me: &ManagerId) -> Conflict {
    let changed = comparison.modified.clone().union(&comparison.added);
    if changed.is_empty() {
        return Conflict::new();
    }
    let others = managers.entries.iter().filter(|(id, _)| *id != me);
    others
        .map(|(id, entry)| (id.clone(), (entry.set.intersection(&changed), entry.time.clone())))
        .filter(|(_, (set, _))| !set.is_empty())
        .collect()
}

fn take_from_others(comparison: &Comparison, conflicts: &Conflict, managers: &mut Managers, me: &ManagerId) {
    for (id, entry) in managers.entries.iter_mut().filter(|(id, _)| *id != me) {
        if let Some((set, _)) = conflicts.get(id) {
            entry.set = entry.set.difference(set);
        }
        if !comparison.removed.is_empty() {
            entry.set = entry.set.difference(&comparison.removed);
        }
    }
    managers.entries.retain(|id, entry| id == me || !entry.set.is_empty());
}

/// A list of one empty entry, or an empty list, asks for all managers to be forgotten.
fn is_reset(list: Option<&Value>) -> bool {
    match list.and_then(Value::as_array).map(Vec::as_slice) {
        Some([]) => true,
        Some([one]) => one.as_object().is_some_and(serde_json::Map::is_empty),
        _ => false,
    }
}

/// Whether this is a stored object, and not what stands for one.
fn exists(live: &Value) -> bool {
    live["metadata"]["uid"].as_str().is_some_and(|uid| !uid.is_empty())
}

/// What kubectl's annotation says of an applied object.
fn last_applied_of(applied: &Value) -> String {
    let mut applied = applied.clone();
    if let Some(annotations) = applied.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove(LAST_APPLIED);
    }
    format!("{}\n", go_json(&applied))
}

fn strip_managers(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}

fn joined(faults: &[String]) -> String {
    match faults {
        [one] => one.clone(),
        many => format!(
            "errors:\n{}",
            many.iter().map(|fault| format!("  {fault}")).collect::<Vec<_>>().join("\n")
        ),
    }
}
