//! Built-in kinds: what Go's decoder, the defaulting functions, strategies and validators of kube-apiserver do to a body.

mod decode;
mod defaults;
mod pods;
pub(crate) mod quantity;
mod rules;

#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};

use super::field_error::FieldError;
use super::names::NameRule;
use super::structural::Schema;
use super::typed::Empty;
use super::{Gvk, builtin, crd, metadata};

pub(crate) use decode::decode_metadata;

/// A built-in kind.
#[derive(Debug)]
pub(crate) struct Native {
    group: String,
    kind: String,
    namespaced: bool,
    definition: &'static str,
    /// Read when it is needed: a server has some seventy kinds, and most programs use a few.
    schema: OnceLock<Arc<Schema>>,
}

impl Native {
    pub(crate) fn new(gvk: Gvk<'_>, definition: &'static str) -> Self {
        let (group, kind) = (gvk.group.to_owned(), gvk.kind.to_owned());
        Native { group, kind, namespaced: builtin::is_namespaced(gvk), definition, schema: OnceLock::new() }
    }

    pub(crate) fn schema(&self) -> &Schema {
        self.schema.get_or_init(|| builtin::definition(self.definition))
    }

    pub(crate) fn decode(&self, body: &mut Value) -> Result<Vec<String>, String> {
        decode::decode(&self.kind, body, self.schema())
    }

    /// The empty lists and maps that decoding takes away, with their paths.
    pub(crate) fn empties(&self, body: &Value) -> Vec<Empty> {
        let mut found = Vec::new();
        decode::empties("", "", body, self.schema(), &mut found);
        found
    }

    pub(crate) fn default(&self, body: &mut Value) {
        defaults::apply(&self.group, &self.kind, body, self.schema());
        decode::drop_nulls(body);
        self.fill_nulls(body);
    }

    pub(crate) fn fill_zero(&self, body: &mut Value) {
        defaults::fill_zero(body, self.schema());
        decode::drop_nulls(body);
        self.fill_nulls(body);
    }

    /// Lists and times that Go writes as null where there are none.
    fn fill_nulls(&self, body: &mut Value) {
        defaults::fill_times(body, self.schema());
        let role = self.is("rbac.authorization.k8s.io", "Role")
            || self.is("rbac.authorization.k8s.io", "ClusterRole");
        if role && let Some(fields) = body.as_object_mut() {
            fields.entry("rules").or_insert(Value::Null);
        }
    }

    /// Whether the status is a subresource: its authors are controllers.
    fn has_status(&self) -> bool {
        let answers = matches!(self.group.as_str(), "authentication.k8s.io" | "authorization.k8s.io");
        !answers && self.schema().property("status").is_some()
    }

    pub(crate) fn prepare_create(&self, body: &mut Value) {
        let Some(fields) = body.as_object_mut() else { return };
        if self.has_status() {
            fields.remove("status");
        }
        if self.is("", "Namespace") {
            if !body["spec"].is_object() {
                body["spec"] = json!({});
            }
            let finalizers = body["spec"]["finalizers"].as_array().cloned().unwrap_or_default();
            if !finalizers.contains(&json!("kubernetes")) {
                body["spec"]["finalizers"] = [finalizers, vec![json!("kubernetes")]].concat().into();
            }
        }
        if self.is("", "Pod") {
            body["status"] = json!({"phase": "Pending", "qosClass": pods::quality(&body["spec"])});
        }
        self.default(body);
    }

    pub(crate) fn prepare_update(&self, body: &mut Value, old: &Value) {
        if !self.has_status() {
            return;
        }
        let Some(fields) = body.as_object_mut() else { return };
        match old.get("status") {
            Some(status) => fields.insert("status".to_owned(), status.clone()),
            None => fields.remove("status"),
        };
        if self.is("", "Namespace")
            && let Some(finalizers) = old["spec"].get("finalizers")
        {
            body["spec"]["finalizers"] = finalizers.clone();
        }
        if self.is("apiextensions.k8s.io", "CustomResourceDefinition") {
            let versions = body["spec"]["versions"].as_array().into_iter().flatten();
            let storage =
                versions.clone().find(|version| version["storage"] == true).map(|one| one["name"].clone());
            let stored = body["status"]["storedVersions"].as_array().cloned().unwrap_or_default();
            if let Some(storage) = storage.filter(|storage| !stored.contains(storage)) {
                body["status"]["storedVersions"] = [stored, vec![storage]].concat().into();
            }
        }
    }

    fn is(&self, group: &str, kind: &str) -> bool {
        self.group == group && self.kind == kind
    }

    pub(crate) fn validate_create(&self, body: &Value) -> Vec<FieldError> {
        if self.is("apiextensions.k8s.io", "CustomResourceDefinition") {
            return crd::check_create(body);
        }
        let mut errors = metadata::check(body, self.namespaced(), self.name_rule());
        errors.extend(rules::check(&self.group, &self.kind, body));
        errors
    }

    pub(crate) fn validate_update(
        &self,
        body: &Value,
        old: &Value,
        subresource: Option<&str>,
    ) -> Vec<FieldError> {
        if self.is("apiextensions.k8s.io", "CustomResourceDefinition") && subresource.is_none() {
            return crd::check_update(body, old);
        }
        let mut errors = metadata::check_update(body, old);
        if subresource.is_none() {
            errors.extend(rules::check_update(&self.group, &self.kind, body, old));
            errors.extend(rules::check(&self.group, &self.kind, body));
        }
        if subresource == Some("status") {
            errors.extend(rules::check_status(&self.group, &self.kind, body));
        }
        errors
    }

    /// What is told of an object although it is taken.
    pub(crate) fn warnings(&self, body: &Value) -> Vec<String> {
        rules::warnings(&self.group, &self.kind, body)
    }

    /// Whether a path of the kind has a namespace in it.
    fn namespaced(&self) -> bool {
        self.namespaced
    }

    fn name_rule(&self) -> NameRule {
        match (self.group.as_str(), self.kind.as_str()) {
            ("", "Namespace") => NameRule::Label,
            ("", "Service") => NameRule::Label1035,
            ("rbac.authorization.k8s.io", _) => NameRule::PathSegment,
            _ => NameRule::Subdomain,
        }
    }
}
