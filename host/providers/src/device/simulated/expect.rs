//! What a scenario may want to know of a simulated device.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use super::state::State;
use crate::device::words::AppState;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Wanted {
    /// Exactly these since the last look, spec files, reports and pruning aside.
    ops: Option<Vec<String>>,
    /// Exactly these since the last look.
    all_ops: Option<Vec<String>>,
    /// These among them, in this order.
    #[serde(default)]
    ops_include: Option<Vec<String>>,
    /// None that begins so.
    #[serde(default)]
    ops_exclude: Option<Vec<String>>,
    /// Files: their content, `{content, mode}`, or null for nothing.
    #[serde(default)]
    disk: BTreeMap<String, Value>,
    /// Applications by name, and how they are; exactly these.
    apps: Option<BTreeMap<String, AppState>>,
    /// Versions of spec files.
    #[serde(default)]
    versions: BTreeMap<String, String>,
    /// Fields of the update state, subset.
    state: Option<Value>,
    /// Files that were kept aside.
    aside: Option<Vec<String>>,
    /// The booted image.
    booted: Option<String>,
    /// What is staged; "" for nothing.
    staged: Option<String>,
    boot: Option<String>,
    /// Images that are there or on their way, sorted.
    images: Option<Vec<String>>,
    /// Exactly these words of hooks since the last look.
    argv: Option<Vec<Vec<String>>>,
    /// Versions that failed, in order.
    failed: Option<Vec<String>>,
}

impl State {
    /// What is otherwise than it is wanted.
    pub(super) fn differences(&mut self, wanted: &Value) -> Vec<String> {
        let wanted = match Wanted::deserialize(wanted) {
            Ok(wanted) => wanted,
            Err(error) => return vec![format!("what is expected of the device is not understood: {error}")],
        };
        let mut found = self.operations_differ(&wanted);
        let mut compare = |what: &str, wanted: Value, is: Value| {
            if wanted != is {
                found.push(format!("{what}: expected {wanted}, found {is}"));
            }
        };
        for (path, wanted) in &wanted.disk {
            let is = match self.disk.get(path) {
                None => Value::Null,
                Some(node) => {
                    let content = String::from_utf8_lossy(&node.content).into_owned();
                    if wanted.is_object() {
                        json!({"content": content, "mode": node.mode})
                    } else {
                        json!(content)
                    }
                }
            };
            compare(path, wanted.clone(), is);
        }
        if let Some(wanted) = wanted.apps {
            let is: BTreeMap<_, _> =
                self.apps.values().map(|app| (app.seen.name.clone(), app.seen.observed)).collect();
            compare("apps", json!(wanted), json!(is));
        }
        for (name, wanted) in wanted.versions {
            compare(&name, json!(wanted), json!(self.version(&name)));
        }
        if let Some(wanted) = wanted.argv {
            compare("argv", json!(wanted), json!(std::mem::take(&mut self.argv)));
        }
        let state = self.update_state();
        if let Some(wanted) = wanted.state
            && !holds(&wanted, &state)
        {
            compare("state", wanted, state.clone());
        }
        if let Some(wanted) = wanted.aside {
            compare("aside", json!(wanted), json!(self.aside));
        }
        if let Some(wanted) = wanted.booted {
            compare("booted", json!(wanted), json!(self.os.booted.image));
        }
        if let Some(wanted) = wanted.staged {
            let is = self.os.staged.as_ref().map(|staged| staged.image.clone()).unwrap_or_default();
            compare("staged", json!(wanted), json!(is));
        }
        if let Some(wanted) = wanted.boot {
            compare("boot", json!(wanted), json!(self.boot_id()));
        }
        if let Some(wanted) = wanted.images {
            compare("images", json!(wanted), json!(self.images.keys().collect::<Vec<_>>()));
        }
        if let Some(wanted) = wanted.failed {
            let failed = state.get("failed").and_then(Value::as_array).into_iter().flatten();
            let is: Vec<_> = failed.filter_map(|failed| failed.get("version")).collect();
            compare("failed", json!(wanted), json!(is));
        }
        found
    }

    fn operations_differ(&mut self, wanted: &Wanted) -> Vec<String> {
        let Wanted { ops, all_ops, ops_include, ops_exclude, .. } = wanted;
        let mut found = Vec::new();
        if ops.is_none() && all_ops.is_none() && ops_include.is_none() && ops_exclude.is_none() {
            return found;
        }
        let all = std::mem::take(&mut self.log);
        let aside = ["write-spec", "report", "prune", "set-monitors", "prefetch"];
        let effects: Vec<String> =
            all.iter().filter(|op| !aside.iter().any(|name| op.starts_with(name))).cloned().collect();
        if let Some(ops) = ops
            && *ops != effects
        {
            found.push(format!("ops: expected {ops:#?}, found {effects:#?}"));
        }
        if let Some(ops) = all_ops
            && *ops != all
        {
            found.push(format!("all-ops: expected {ops:#?}, found {all:#?}"));
        }
        let mut rest = all.iter();
        for op in ops_include.iter().flatten() {
            if !rest.any(|is| is == op) {
                found.push(format!("ops-include: {op:?} is not among them, in order: {all:#?}"));
                break;
            }
        }
        for op in ops_exclude.iter().flatten() {
            if let Some(is) = all.iter().find(|is| is.starts_with(op.as_str())) {
                found.push(format!("ops-exclude: {is:?}"));
            }
        }
        found
    }
}

/// Whether everything in `part` is in `whole` too; lists are compared item by item.
fn holds(part: &Value, whole: &Value) -> bool {
    match (part, whole) {
        (Value::Object(part), Value::Object(whole)) => part
            .iter()
            .all(|(key, value)| whole.get(key).map_or(value.is_null(), |there| holds(value, there))),
        (Value::Array(part), Value::Array(whole)) => {
            part.len() == whole.len() && part.iter().zip(whole).all(|(part, whole)| holds(part, whole))
        }
        _ => part == whole,
    }
}
