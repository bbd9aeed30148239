//! A sequence of requests, as it stands in a file.

use anyhow::Context;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::Path;

/// A sequence of requests in a namespace of its own.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// What it shows, as a sentence.
    pub case: String,
    /// The requests, in order.
    pub steps: Vec<Step>,
}

/// One request. `$ns` stands for the case's namespace, `${name:/pointer}` for a part of an answer that was kept.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Step {
    /// Method and path with query: `PATCH /api/v1/namespaces/$ns/configmaps/a?fieldManager=one`.
    pub request: String,
    /// Content type, or one of `json`, `merge`, `strategic`, `apply`, `jsonpatch`, `yaml`.
    #[serde(rename = "type", skip_serializing_if = "String::is_empty")]
    pub content_type: String,
    /// What is accepted, or one of `table`, `metadata`, `metadata-list`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub accept: String,
    /// The body, sent as JSON.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub body: Value,
    /// The body as it is, where it is not to be tidied by a parser.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// The name under which the answer is kept.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub keep: String,
    /// For a watch: it is read up to the first event about an object of this name, or up to the bookmark `initial-events-end`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub until: String,
    /// The request is repeated until both answer alike: controllers are at work.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub eventually: bool,
    /// Only these parts of the answer are compared, as pointers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub only: Vec<String>,
}

impl Step {
    /// A request without a body.
    pub fn new(request: impl Into<String>) -> Step {
        Step { request: request.into(), ..Step::default() }
    }

    /// With a JSON body of a content type.
    pub fn with(mut self, content_type: &str, body: Value) -> Step {
        self.content_type = content_type.into();
        self.body = body;
        self
    }

    /// The method, and the path with its query.
    pub fn line(&self) -> (&str, &str) {
        self.request.split_once(' ').unwrap_or(("GET", &self.request))
    }

    /// Whether it is a watch.
    pub fn watches(&self) -> bool {
        let query = self.line().1.split_once('?').map_or("", |(_, query)| query);
        self.line().0 == "GET"
            && query.split('&').any(|part| matches!(part, "watch" | "watch=1" | "watch=true"))
    }
}

impl Case {
    /// As it stands in a file of cases.
    pub fn to_text(&self) -> String {
        let text = serde_json::to_string_pretty(&[self]).unwrap_or_default();
        serde_saphyr::to_string(&serde_json::from_str::<Value>(&text).unwrap_or_default()).unwrap_or(text)
    }
}

/// The cases of all files in `cases/`, each with the name of its file.
///
/// # Errors
/// Where a file cannot be read.
pub fn hand_written() -> anyhow::Result<Vec<(String, Case)>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases");
    let mut files: Vec<_> = std::fs::read_dir(&folder)?
        .collect::<Result<Vec<_>, _>>()?
        .iter()
        .map(|entry| entry.path())
        .collect();
    files.sort();
    let mut cases = Vec::new();
    for file in files {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&file)?;
        let read: Vec<Case> = serde_saphyr::from_str(&text).with_context(|| format!("cases/{name}.yaml"))?;
        cases.extend(read.into_iter().map(|case| (name.clone(), case)));
    }
    Ok(cases)
}
