//! Field selectors: `metadata.name=a,status.phase!=Running`, on the fields that a kind offers.

use crate::resources::Resource;
use crate::store::object::Stored;
use serde_json::Value;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    field: String,
    value: String,
    equal: bool,
}

/// A parsed field selector; the empty one selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldSelector {
    requirements: Vec<Requirement>,
}

/// What built-in kinds offer besides name and namespace.
fn offered(resource: &Resource) -> &'static [&'static str] {
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "pods") => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        ],
        ("", "nodes") => &["spec.unschedulable"],
        ("", "namespaces") => &["status.phase"],
        ("", "secrets") => &["type"],
        ("", "replicationcontrollers") | ("apps", "replicasets") => &["status.replicas"],
        ("", "services") => &["spec.clusterIP", "spec.type"],
        ("", "events") => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        ("events.k8s.io", "events") => &[
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "regarding.apiVersion",
            "regarding.resourceVersion",
            "regarding.fieldPath",
            "reason",
            "reportingController",
            "type",
        ],
        ("batch", "jobs") => &["status.successful"],
        ("certificates.k8s.io", "certificatesigningrequests") => &["spec.signerName"],
        _ => &[],
    }
}

/// Kinds without fields of their own have other words for it.
fn unknown_field(resource: &Resource, field: &str) -> String {
    if resource.is_custom() || !offered(resource).is_empty() {
        return format!("field label not supported: {field}");
    }
    format!("\"{field}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
}

impl FieldSelector {
    pub(crate) fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Selects one object.
    pub(crate) fn by_name(name: &str) -> FieldSelector {
        let field = "metadata.name".to_owned();
        FieldSelector { requirements: vec![Requirement { field, value: name.to_owned(), equal: true }] }
    }

    /// The name that the selector pins, if it asks for one object.
    pub(crate) fn name(&self) -> Option<&str> {
        let named = self.requirements.iter().find(|one| one.equal && one.field == "metadata.name");
        named.map(|one| one.value.as_str())
    }

    /// Parses the text of a `fieldSelector` parameter for a resource in one of its versions.
    pub(crate) fn parse(text: &str, resource: &Resource, version: usize) -> Result<FieldSelector, String> {
        let mut requirements = Vec::new();
        for term in split_terms(text) {
            let (field, value, equal) = split_term(&term)
                .ok_or_else(|| format!("invalid selector: '{text}'; can't understand '{term}'"))?;
            let selectable = &resource.versions[version].selectable;
            let known = field == "metadata.name"
                || (field == "metadata.namespace" && (resource.namespaced || !resource.is_custom()))
                || offered(resource).contains(&field)
                || selectable.iter().any(|path| path.trim_start_matches('.') == field);
            if !known {
                return Err(unknown_field(resource, field));
            }
            requirements.push(Requirement {
                field: stored_field(resource, field),
                value: unescape(value),
                equal,
            });
        }
        Ok(FieldSelector { requirements })
    }

    pub(crate) fn matches(&self, stored: &Stored) -> bool {
        if self.requirements.is_empty() {
            return true;
        }
        let mut tree = None;
        self.requirements.iter().all(|requirement| {
            let equal = match requirement.field.as_str() {
                "metadata.name" => *stored.head.name == *requirement.value,
                "metadata.namespace" => *stored.head.namespace == *requirement.value,
                field => field_text(tree.get_or_insert_with(|| stored.value()), field) == requirement.value,
            };
            equal == requirement.equal
        })
    }
}

/// Where the object as stored has a field that the API version calls otherwise.
fn stored_field(resource: &Resource, field: &str) -> String {
    if !resource.traits.converted_event {
        return field.to_owned();
    }
    match field {
        "reportingController" => "reportingComponent".to_owned(),
        _ => field.replacen("regarding.", "involvedObject.", 1),
    }
}

fn field_text(object: &Value, field: &str) -> String {
    let read = |field: &str| {
        let value = field.split('.').try_fold(object, |value, key| value.get(key));
        match value {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Bool(flag)) => flag.to_string(),
            Some(Value::Number(number)) => number.to_string(),
            _ => String::new(),
        }
    };
    let text = read(field);
    match field {
        "source" => Some(read("source.component"))
            .filter(|text| !text.is_empty())
            .unwrap_or(read("reportingComponent")),
        "status.successful" => {
            Some(read("status.succeeded")).filter(|text| !text.is_empty()).unwrap_or("0".into())
        }
        "spec.unschedulable" | "spec.hostNetwork" if text.is_empty() => "false".to_owned(),
        "status.replicas" if text.is_empty() => "0".to_owned(),
        _ => text,
    }
}

/// Splits at commas that no backslash escapes.
fn split_terms(text: &str) -> Vec<String> {
    let mut terms = vec![String::new()];
    let mut escaped = false;
    for c in text.chars() {
        if c == ',' && !escaped {
            terms.push(String::new());
        } else if let Some(term) = terms.last_mut() {
            term.push(c);
        }
        escaped = c == '\\' && !escaped;
    }
    terms.retain(|term| !term.is_empty());
    terms
}

fn split_term(term: &str) -> Option<(&str, &str, bool)> {
    let at = term.find('=')?;
    let (field, value) = (&term[..at], &term[at + 1..]);
    if let Some(field) = field.strip_suffix('!') {
        return Some((field, value, false));
    }
    Some((field, value.strip_prefix('=').unwrap_or(value), true))
}

fn unescape(value: &str) -> String {
    let mut out = String::new();
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.extend(chars.next()),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_split_and_unescaped() {
        assert_eq!(split_terms(r"a=b\,c,d!=e"), [r"a=b\,c", "d!=e"]);
        assert_eq!(split_term("a==b"), Some(("a", "b", true)));
        assert_eq!(split_term("a!=b"), Some(("a", "b", false)));
        assert_eq!(split_term("a"), None);
        assert_eq!(unescape(r"b\,c"), "b,c");
    }
}
