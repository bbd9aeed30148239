//! The settings of the component that decides: the agent's own, and drop-ins besides, which a spec may manage.
//!
//! A drop-in that is wrong must not be the end of a device that nobody can reach: it is left out and told.

use std::path::{Path, PathBuf};

use evenkeel_core::contract::Manifest;
use evenkeel_engine::plugin::{Held, check_config};
use serde_json::Value;

/// Where drop-ins are, below the root.
const FOLDER: &str = "etc/flightctl/conf.d";
/// Bytes of a drop-in.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// What the agent was started with, and no drop-in changes: a device must not lose its service by a config file.
const SOURCE: &str = "source";

/// Settings, and the drop-ins that are not among them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    /// All that fits.
    pub(super) config: Value,
    /// A sentence each, with the file's name and nothing of what is in it.
    pub(super) skipped: Vec<String>,
}

/// The agent's own settings with the drop-ins of the device, in order of their names: the later wins.
pub(super) fn read(root: &Path, own: &Value, manifest: &Manifest) -> Settings {
    let (mut config, mut skipped) = (own.clone(), Vec::new());
    for path in drop_ins(&root.join(FOLDER)) {
        match with(&path, &config, manifest) {
            Ok(merged) => config = merged,
            Err(why) => {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                tracing::warn!(path = %path.display(), why, "a drop-in is left out");
                skipped.push(format!("{name}: {why}"));
            }
        }
    }
    Settings { config, skipped }
}

fn drop_ins(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|end| end == "yaml" || end == "yml"))
        .collect();
    paths.sort();
    paths
}

/// The settings with one drop-in more.
fn with(path: &Path, config: &Value, manifest: &Manifest) -> Result<Value, String> {
    let unreadable = |error: std::io::Error| format!("it cannot be read: {error}");
    if std::fs::metadata(path).map_err(unreadable)?.len() > FILE_BYTES_MAX {
        return Err(format!("it has more than {} KiB", FILE_BYTES_MAX >> 10));
    }
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    // The parser's own words quote the file, which may be one that was meant for another place.
    let more: Value = crate::yaml::one(&text).map_err(|_| "it is no YAML".to_owned())?;
    if !more.is_object() {
        return Err("it is no mapping".to_owned());
    }
    if more.get(SOURCE).is_some_and(|source| config.get(SOURCE) != Some(source)) {
        return Err(format!("{SOURCE} is what the agent was started with"));
    }
    let mut merged = config.clone();
    merge(&mut merged, more);
    match check_config(manifest, &merged.to_string()) {
        Ok(()) => Ok(merged),
        Err(Held::Config { faults }) => {
            let mut places: Vec<&str> = faults.iter().filter_map(|fault| fault.split(':').next()).collect();
            places.dedup();
            Err(format!("it has what is no setting, at {}", places.join(", ")))
        }
        Err(other) => Err(other.to_string()),
    }
}

fn merge(into: &mut Value, more: Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (key, value) in more {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, more) => *into = more,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SCHEMA: &str = r#"{"type": "object", "additionalProperties": false, "properties": {
        "source": {"type": "string"}, "drift": {"enum": ["repair", "report"]},
        "retries": {"type": "object", "properties": {"apply": {"type": "integer"}, "prepare": {"type": "integer"}}}}}"#;

    fn settings(files: &[(&str, &str)]) -> Settings {
        let root = tempfile::tempdir().expect("a folder");
        let folder = root.path().join(FOLDER);
        std::fs::create_dir_all(&folder).expect("a folder");
        for (name, text) in files {
            std::fs::write(folder.join(name), text).expect("a file");
        }
        let manifest = Manifest {
            name: "p".to_owned(),
            version: "1.0.0".to_owned(),
            summary: String::new(),
            controllers: Vec::new(),
            permissions: Vec::new(),
            providers: Vec::new(),
            crds: Vec::new(),
            config_schema: Some(SCHEMA.into()),
        };
        read(root.path(), &json!({"source": "management", "retries": {"apply": 5}}), &manifest)
    }

    #[test]
    fn drop_ins_count_in_order_of_their_names_and_touch_nothing_else() {
        let all = settings(&[
            ("20-b.yaml", "retries: {prepare: 3}\ndrift: report"),
            ("10-a.yaml", "drift: repair"),
            ("readme.txt", "drift: nonsense"),
        ]);
        let config =
            json!({"source": "management", "drift": "report", "retries": {"apply": 5, "prepare": 3}});
        assert_eq!(all, Settings { config, skipped: Vec::new() });
    }

    #[test]
    fn what_is_wrong_is_left_out_and_told_without_a_word_of_it() {
        let all = settings(&[
            ("10-a.yaml", "drift: hunter2"),
            ("20-b.yaml", "hunter2: ["),
            ("30-c.yaml", "- hunter2"),
            ("40-d.yaml", "source: object"),
            ("50-e.yaml", "drift: report"),
        ]);
        assert_eq!(all.config["drift"], "report", "one that is right counts beside them");
        assert_eq!(
            all.skipped,
            [
                "10-a.yaml: it has what is no setting, at /drift",
                "20-b.yaml: it is no YAML",
                "30-c.yaml: it is no mapping",
                "40-d.yaml: source is what the agent was started with",
            ]
        );
    }
}
