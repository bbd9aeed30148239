//! Label selectors inside of objects.

use serde_json::Value;

use super::{all, list, text};
use crate::schema::field_error::FieldError;
use crate::schema::metadata;
use crate::schema::names;
use crate::schema::path::{child, index};

pub(super) fn check(path: &str, selector: Option<&Value>) -> Vec<FieldError> {
    let Some(selector) = selector else { return Vec::new() };
    let mut errors = metadata::labels(&child(path, "matchLabels"), selector.get("matchLabels"));
    for (at, requirement) in list(selector, "matchExpressions").iter().enumerate() {
        let path = index(&child(path, "matchExpressions"), at);
        let values = list(requirement, "values");
        match text(requirement, "operator") {
            "In" | "NotIn" if values.is_empty() => {
                let detail = "must be specified when `operator` is 'In' or 'NotIn'";
                errors.push(FieldError::required(child(&path, "values"), detail));
            }
            "In" | "NotIn" => {}
            "Exists" | "DoesNotExist" if values.is_empty() => {}
            "Exists" | "DoesNotExist" => {
                let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.push(FieldError::forbidden(child(&path, "values"), detail));
            }
            other => {
                errors.push(FieldError::invalid(
                    child(&path, "operator"),
                    other,
                    "not a valid selector operator",
                ));
            }
        }
        let name = text(requirement, "key");
        errors.extend(all(&child(&path, "key"), name, names::qualified_name(name)));
        for (at, value) in values.iter().enumerate() {
            let value = value.as_str().unwrap_or_default();
            errors.extend(all(&index(&child(&path, "values"), at), value, names::label_value(value)));
        }
    }
    errors
}

/// Whether labels fit a selector.
pub(super) fn fits(selector: &Value, labels: &Value) -> bool {
    let exact = super::entries(selector, "matchLabels").all(|(name, value)| labels.get(name) == Some(value));
    exact
        && list(selector, "matchExpressions").iter().all(|requirement| {
            let found = labels.get(text(requirement, "key"));
            let among = found.is_some_and(|found| list(requirement, "values").contains(found));
            match text(requirement, "operator") {
                "In" => among,
                "NotIn" => !among,
                "Exists" => found.is_some(),
                _ => found.is_none(),
            }
        })
}
