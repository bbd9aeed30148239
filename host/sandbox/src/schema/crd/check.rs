//! Whether a CustomResourceDefinition may be.

use std::collections::BTreeSet;

use serde_json::Value;

use super::props::{Walk, check as check_props};
use super::structure;
use crate::schema::cel;
use crate::schema::field_error::FieldError;
use crate::schema::metadata;
use crate::schema::names::{self, NameRule};
use crate::schema::path::{child, index};
use crate::schema::structural::flag;

/// Past this sum of estimated costs the rules of one schema are too expensive.
const SCHEMA_COST_MAX: u64 = 100_000_000;
const SELECTABLE_FIELDS_MAX: i64 = 8;

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn set(value: &Value, field: &str) -> bool {
    value.get(field).is_some_and(|value| !value.is_null())
}

fn join(path: &str, value: &str, messages: &[String], lead: &str) -> Option<FieldError> {
    (!messages.is_empty()).then(|| FieldError::invalid(path, value, format!("{lead}{}", messages.join(","))))
}

/// Checks a new definition.
pub fn check_create(definition: &Value) -> Vec<FieldError> {
    let mut errors = metadata::check(definition, false, NameRule::Subdomain);
    let spec = &definition["spec"];
    let wanted = format!("{}.{}", text(&spec["names"], "plural"), text(spec, "group"));
    let name = text(&definition["metadata"], "name");
    if !name.is_empty() && name != wanted {
        let at = errors
            .iter()
            .position(|error| !matches!(error.field.as_str(), "metadata.name" | "metadata.generateName"))
            .unwrap_or(errors.len());
        let detail = "must be spec.names.plural+\".\"+spec.group";
        errors.insert(at, FieldError::invalid("metadata.name", name, detail));
    }
    errors.extend(check_spec(spec, None));
    errors.extend(check_status(definition));
    errors.extend(approval(definition, None));
    errors.extend(preserve_unknown(spec, None));
    errors
}

/// Checks a changed definition.
pub fn check_update(definition: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = metadata::check_update(definition, old);
    let (spec, old_spec) = (&definition["spec"], &old["spec"]);
    errors.extend(check_spec(spec, Some(old_spec)));
    let established = list(&old["status"], "conditions")
        .iter()
        .any(|condition| text(condition, "type") == "Established" && text(condition, "status") == "True");
    let mut frozen: Vec<(&str, &str)> = Vec::new();
    if established {
        frozen.extend([("/scope", "spec.scope"), ("/names/kind", "spec.names.kind")]);
    }
    frozen.extend([("/group", "spec.group"), ("/names/plural", "spec.names.plural")]);
    for (pointer, path) in frozen {
        if spec.pointer(pointer) != old_spec.pointer(pointer) {
            let value = spec.pointer(pointer).cloned().unwrap_or_default();
            errors.push(FieldError::invalid(path, value, "field is immutable"));
        }
    }
    errors.extend(check_status(definition));
    errors.extend(approval(definition, Some(old)));
    errors.extend(preserve_unknown(spec, Some(old_spec)));
    errors
}

/// Where all versions have one schema, upstream keeps and tells it once, at another place.
fn hoisted(errors: Vec<FieldError>, versions: &[Value], at: usize) -> Vec<FieldError> {
    if versions.iter().any(|version| version["schema"] != versions[0]["schema"]) {
        return errors;
    }
    let own = child(&index("spec.versions", at), "schema");
    let moved = errors.into_iter().filter_map(|mut error| {
        if let Some(rest) = error.field.strip_prefix(&own) {
            error.field = format!("spec.validation{rest}");
            return (at == 0).then_some(error);
        }
        Some(error)
    });
    moved.collect()
}

fn check_spec(spec: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let group = text(spec, "group");
    let bad_group = names::subdomain(group);
    if group.is_empty() {
        errors.push(FieldError::required("spec.group", ""));
    } else if let Some(error) = join("spec.group", group, &bad_group, "") {
        errors.push(error);
    } else if !group.contains('.') {
        errors.push(FieldError::invalid("spec.group", group, "should be a domain with at least one dot"));
    }
    errors.extend(one_of("spec.scope", text(spec, "scope"), &["Cluster", "Namespaced"]));
    let versions = list(spec, "versions");
    for (at, version) in versions.iter().enumerate() {
        if !set(&version["schema"], "openAPIV3Schema") {
            let path = child(&index("spec.versions", at), "schema.openAPIV3Schema");
            errors.push(FieldError::required(path, ""));
        }
    }
    for (at, version) in versions.iter().enumerate() {
        let path = index("spec.versions", at);
        let name = text(version, "name");
        errors.extend(join(&child(&path, "name"), name, &names::label_1035(name), ""));
        let before = old.and_then(|old| list(old, "versions").iter().find(|one| text(one, "name") == name));
        let unchanged = before.is_some_and(|before| before["schema"] == version["schema"]);
        errors.extend(hoisted(check_version(&path, version, unchanged), versions, at));
    }
    let all_versions = || Value::Array(versions.to_vec());
    let unique: BTreeSet<&str> = versions.iter().map(|version| text(version, "name")).collect();
    if unique.len() != versions.len() {
        errors.push(FieldError::invalid(
            "spec.versions",
            all_versions(),
            "must contain unique version names",
        ));
    }
    if versions.iter().filter(|version| flag(version, "storage")).count() != 1 {
        let detail = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid("spec.versions", all_versions(), detail));
    }
    for field in ["plural", "singular", "kind", "listKind"] {
        if text(&spec["names"], field).is_empty() {
            errors.push(FieldError::required(child("spec.names", field), ""));
        }
    }
    errors.extend(check_names("spec.names", &spec["names"]));
    errors.extend(check_conversion(spec));
    errors
}

fn one_of(path: &str, value: &str, accepted: &[&str]) -> Option<FieldError> {
    if value.is_empty() {
        return Some(FieldError::required(path, ""));
    }
    (!accepted.contains(&value)).then(|| FieldError::not_supported(path, value, accepted))
}

fn check_names(path: &str, names: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let label = |path: String, value: &str, lead: &str, errors: &mut Vec<FieldError>| {
        if !value.is_empty() {
            let checked = if lead.is_empty() { value.to_owned() } else { value.to_lowercase() };
            let messages = names::label_1035(&checked);
            errors.extend(join(&path, value, &messages, lead));
        }
    };
    let mixed = "may have mixed case, but should otherwise match: ";
    label(child(path, "plural"), text(names, "plural"), "", &mut errors);
    label(child(path, "singular"), text(names, "singular"), "", &mut errors);
    label(child(path, "kind"), text(names, "kind"), mixed, &mut errors);
    label(child(path, "listKind"), text(names, "listKind"), mixed, &mut errors);
    for (at, name) in list(names, "shortNames").iter().enumerate() {
        let name = name.as_str().unwrap_or_default();
        errors.extend(join(&index(&child(path, "shortNames"), at), name, &names::label_1035(name), ""));
    }
    let kind = text(names, "kind");
    if !kind.is_empty() && kind == text(names, "listKind") {
        let detail = "kind and listKind may not be the same";
        errors.push(FieldError::invalid(child(path, "listKind"), kind, detail));
    }
    for (at, name) in list(names, "categories").iter().enumerate() {
        let name = name.as_str().unwrap_or_default();
        errors.extend(join(&index(&child(path, "categories"), at), name, &names::label_1035(name), ""));
    }
    errors
}

fn check_conversion(spec: &Value) -> Vec<FieldError> {
    let Some(conversion) = spec.get("conversion").filter(|conversion| conversion.is_object()) else {
        return Vec::new();
    };
    let path = "spec.conversion";
    let mut errors: Vec<FieldError> =
        one_of(&child(path, "strategy"), text(conversion, "strategy"), &["None", "Webhook"])
            .into_iter()
            .collect();
    let webhook = &conversion["webhook"];
    let config = webhook.get("clientConfig").filter(|config| config.is_object());
    let reviews = list(webhook, "conversionReviewVersions");
    if text(conversion, "strategy") == "Webhook" {
        let at = child(path, "webhookClientConfig");
        match config {
            None => errors.push(FieldError::required(at, "required when strategy is set to Webhook")),
            Some(config) if set(config, "url") == set(config, "service") => {
                errors.push(FieldError::required(at, "exactly one of url or service is required"));
            }
            Some(_) => {}
        }
        if reviews.is_empty() {
            errors.push(FieldError::required(child(path, "conversionReviewVersions"), ""));
        }
    } else {
        let detail = "should not be set when strategy is not set to Webhook";
        if config.is_some() {
            errors.push(FieldError::forbidden(child(path, "webhookClientConfig"), detail));
        }
        if !reviews.is_empty() {
            errors.push(FieldError::forbidden(child(path, "conversionReviewVersions"), detail));
        }
    }
    errors
}

fn check_version(path: &str, version: &Value, unchanged: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Some(warning) = version.get("deprecationWarning").and_then(Value::as_str) {
        let at = child(path, "deprecationWarning");
        let mut invalid = |detail: &str| errors.push(FieldError::invalid(&at, warning, detail));
        if flag(version, "deprecated") {
            if warning.len() > 256 {
                invalid("must be <= 256 characters long");
            }
            if warning.is_empty() {
                invalid("must not be an empty string");
            }
        } else {
            invalid("can only be set for deprecated versions");
        }
    }
    let status = set(&version["subresources"], "status");
    errors.extend(check_schema(&child(path, "schema"), &version["schema"], status, unchanged));
    errors.extend(check_scale(&child(path, "subresources"), &version["subresources"]["scale"]));
    for (at, column) in list(version, "additionalPrinterColumns").iter().enumerate() {
        errors.extend(check_column(&index(&child(path, "additionalPrinterColumns"), at), column));
    }
    let selectable = list(version, "selectableFields");
    if !selectable.is_empty() {
        let at = child(path, "selectableFields");
        let schema = &version["schema"]["openAPIV3Schema"];
        if schema.is_object() {
            errors.extend(check_selectable(&at, selectable, schema));
        } else {
            let detail = "may only be set when `version.schema.openAPIV3Schema` is not included";
            errors.push(FieldError::invalid(at, "", detail));
        }
    }
    errors
}

/// Go names of what may stand at the root of a schema if the status is a subresource.
const AT_ROOT: &str = "[Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength \
                       MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties \
                       ExternalDocs Example XPreserveUnknownFields XValidations]";

fn allowed_at_root(field: &str) -> bool {
    let name = match field.strip_prefix("x-kubernetes-") {
        Some("preserve-unknown-fields") => "XPreserveUnknownFields".to_owned(),
        Some("validations") => "XValidations".to_owned(),
        Some(_) => return false,
        None => {
            let mut letters = field.chars();
            letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
        }
    };
    AT_ROOT.trim_matches(['[', ']']).split(' ').any(|known| known == name)
}

fn check_schema(path: &str, holder: &Value, status: bool, unchanged: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let Some(schema) = holder.get("openAPIV3Schema").filter(|schema| schema.is_object()) else {
        return errors;
    };
    let at = child(path, "openAPIV3Schema");
    if status {
        errors.extend(check_root_fields(&at, schema));
    }
    if flag(schema, "nullable") {
        errors.push(FieldError::forbidden(child(&at, "nullable"), "nullable cannot be true at the root"));
    }
    let mut rules = None;
    let broken = structure::check(&at, schema);
    if broken.is_empty() {
        let defaults = super::defaults_check::check(&at, schema);
        if defaults.is_empty() {
            rules = Some(cel::SchemaContext::root(schema));
        }
        errors.extend(defaults);
    } else {
        errors.extend(broken);
    }
    let walk =
        Walk { no_defaults: None, inside_meta: false, uncorrelatable: None, rules, any_cost: unchanged };
    let found = check_props(&at, schema, &walk, true);
    errors.extend(found.schema);
    errors.extend(found.rules);
    let total = found.costs.iter().fold(0u64, |sum, (_, cost)| sum.saturating_add(*cost));
    if total > SCHEMA_COST_MAX {
        let mut costs = found.costs;
        costs.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
        for (rule, _) in costs.iter().take(4).filter(|(_, cost)| *cost > SCHEMA_COST_MAX / 100) {
            let detail =
                "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            errors.push(FieldError::forbidden(rule, detail));
        }
        let name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        errors.push(FieldError::forbidden(&at, cel::cost_message(name, total, SCHEMA_COST_MAX)));
    }
    errors
}

fn check_root_fields(at: &str, schema: &Value) -> Option<FieldError> {
    for (field, value) in schema.as_object()? {
        let zero = match value {
            Value::Null | Value::Bool(false) => true,
            Value::String(text) => text.is_empty(),
            _ => false,
        };
        if zero {
            continue;
        }
        if field == "type" {
            if value != "object" {
                let detail = "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
                return Some(FieldError::invalid(child(at, "type"), value.clone(), detail));
            }
        } else if !allowed_at_root(field) {
            let detail = format!(
                "only {AT_ROOT} fields are allowed at the root of the schema if the status subresource is enabled"
            );
            return Some(FieldError::invalid(at, schema.clone(), detail));
        }
    }
    None
}

fn check_scale(path: &str, scale: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if !scale.is_object() {
        return errors;
    }
    for (field, roots, words) in [
        ("specReplicasPath", &[".spec."][..], "should be a json path under .spec"),
        ("statusReplicasPath", &[".status."][..], "should be a json path under .status"),
    ] {
        let at = format!("{path}.scale.{field}");
        let value = text(scale, field);
        if value.is_empty() {
            errors.push(FieldError::required(at, ""));
        } else if let Some(error) = simple_path(&at, value) {
            errors.push(error);
        } else if !roots.iter().any(|root| value.starts_with(root)) {
            errors.push(FieldError::invalid(at, value, words));
        }
    }
    let selector = text(scale, "labelSelectorPath");
    if !selector.is_empty() {
        let at = format!("{path}.scale.labelSelectorPath");
        if let Some(error) = simple_path(&at, selector) {
            errors.push(error);
        } else if !selector.starts_with(".spec.") && !selector.starts_with(".status.") {
            let detail = "should be a json path under either .spec or .status";
            errors.push(FieldError::invalid(at, selector, detail));
        }
    }
    errors
}

fn simple_path(at: &str, value: &str) -> Option<FieldError> {
    (!value.starts_with('.'))
        .then(|| FieldError::invalid(at, value, "must be a simple json path starting with ."))
}

fn check_column(path: &str, column: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if text(column, "name").is_empty() {
        errors.push(FieldError::required(child(path, "name"), ""));
    }
    let types = ["boolean", "date", "integer", "number", "string"];
    let words = format!("must be one of {}", types.join(","));
    match text(column, "type") {
        "" => errors.push(FieldError::required(child(path, "type"), words)),
        ty if !types.contains(&ty) => errors.push(FieldError::invalid(child(path, "type"), ty, words)),
        _ => {}
    }
    let formats = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
    let format = text(column, "format");
    if !format.is_empty() && !formats.contains(&format) {
        let words = format!("must be one of {}", formats.join(","));
        errors.push(FieldError::invalid(child(path, "format"), format, words));
    }
    match text(column, "jsonPath") {
        "" => errors.push(FieldError::required(child(path, "JSONPath"), "")),
        value => errors.extend(simple_path(&child(path, "JSONPath"), value)),
    }
    errors
}

fn check_selectable(path: &str, fields: &[Value], schema: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut seen = BTreeSet::new();
    for (at, field) in fields.iter().enumerate() {
        let at = child(&index(path, at), "jsonPath");
        let json_path = text(field, "jsonPath");
        if json_path.is_empty() {
            errors.push(FieldError::required(at, ""));
            continue;
        }
        let (found, target) = match cel::field_path(json_path, schema, false) {
            Ok(found) => found,
            Err(why) => {
                errors.push(FieldError::invalid(at, json_path, format!("is an invalid path: {why}")));
                continue;
            }
        };
        if found == "metadata" || found.starts_with("metadata.") {
            errors.push(FieldError::invalid(&at, json_path, "must not point to fields in metadata"));
        }
        if !matches!(text(target, "type"), "string" | "boolean" | "integer") {
            let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings \
                          with formats are allowed.";
            errors.push(FieldError::invalid(&at, json_path, detail));
        }
        if !seen.insert(found) {
            errors.push(FieldError::duplicate(at, json_path));
        }
    }
    let count = i64::try_from(seen.len()).unwrap_or(i64::MAX);
    if count > SELECTABLE_FIELDS_MAX {
        errors.push(FieldError::too_many(path, count, SELECTABLE_FIELDS_MAX));
    }
    errors
}

fn check_status(definition: &Value) -> Vec<FieldError> {
    let status = &definition["status"];
    let mut errors = check_names("status.acceptedNames", &status["acceptedNames"]);
    let path = "status.storedVersions";
    let stored = list(status, "storedVersions");
    let shown = status.get("storedVersions").cloned().unwrap_or_else(|| Value::Array(Vec::new()));
    if stored.is_empty() {
        errors.push(FieldError::invalid(path, shown, "must have at least one stored version"));
        return errors;
    }
    let versions = list(&definition["spec"], "versions");
    for version in versions.iter().filter(|version| flag(version, "storage")) {
        if !stored.contains(&version["name"]) {
            let detail = format!("must have the storage version {}", text(version, "name"));
            errors.push(FieldError::invalid(path, shown.clone(), detail));
        }
    }
    for (at, name) in stored.iter().enumerate() {
        if !versions.iter().any(|version| version["name"] == *name) {
            let v = name.as_str().unwrap_or_default();
            let detail = format!(
                "missing from spec.versions; {v} was previously a storage version, and must remain in spec.versions \
                 until a storage migration ensures no data remains persisted in {v} and removes {v} from \
                 status.storedVersions"
            );
            errors.push(FieldError::invalid(index(path, at), v, detail));
        }
    }
    errors
}

fn preserve_unknown(spec: &Value, old: Option<&Value>) -> Option<FieldError> {
    let keeps = |spec: &Value| spec.get("preserveUnknownFields") == Some(&Value::Bool(true));
    if old.is_some_and(keeps) || !keeps(spec) {
        return None;
    }
    let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
                  spec.versions[*].schema instead";
    Some(FieldError::invalid("spec.preserveUnknownFields", true, detail))
}

/// Groups of the Kubernetes project need a pointer to their approval.
fn approval(definition: &Value, old: Option<&Value>) -> Option<FieldError> {
    const ANNOTATION: &str = "api-approved.kubernetes.io";
    let group = text(&definition["spec"], "group");
    let community = |suffix: &str| group == &suffix[1..] || group.ends_with(suffix);
    if !community(".k8s.io") && !community(".kubernetes.io") {
        return None;
    }
    let read = |object: &Value| object["metadata"]["annotations"][ANNOTATION].as_str().map(str::to_owned);
    let state = |value: &Option<String>| match value.as_deref() {
        None | Some("") => 0,
        Some(text) if text.starts_with("unapproved") => 1,
        Some(text) if text.contains("://") => 2,
        Some(_) => 3,
    };
    let value = read(definition);
    if old.is_some_and(|old| state(&read(old)) == state(&value)) {
        return None;
    }
    let path = format!("metadata.annotations[{ANNOTATION}]");
    match state(&value) {
        0 => {
            let detail = "protected groups must have approval annotation \"api-approved.kubernetes.io\", see \
                          https://github.com/kubernetes/enhancements/pull/1111";
            Some(FieldError::required(path, detail))
        }
        3 => {
            let detail = "protected groups must have approval annotation \"api-approved.kubernetes.io\" with either a \
                          URL or a reason starting with \"unapproved\", see \
                          https://github.com/kubernetes/enhancements/pull/1111";
            Some(FieldError::invalid(path, value.unwrap_or_default(), detail))
        }
        _ => None,
    }
}
