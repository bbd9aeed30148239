//! Built-in kinds: what Go's decoder, the defaulting functions, strategies and validators of kube-apiserver do to a body.

mod decode;
mod defaults;
pub(crate) mod quantity;

use std::sync::Arc;

use serde_json::Value;

use super::field_error::FieldError;
use super::names::NameRule;
use super::structural::Schema;
use super::{Gvk, crd, metadata};

pub(crate) use decode::decode_metadata;

/// A built-in kind.
#[derive(Debug)]
pub(crate) struct Native {
    group: String,
    kind: String,
    pub(crate) schema: Arc<Schema>,
}

impl Native {
    pub(crate) fn new(gvk: Gvk<'_>, schema: Arc<Schema>) -> Self {
        Native { group: gvk.group.to_owned(), kind: gvk.kind.to_owned(), schema }
    }

    pub(crate) fn decode(&self, body: &mut Value) -> Result<Vec<String>, String> {
        decode::decode(&self.kind, body, &self.schema)
    }

    pub(crate) fn default(&self, body: &mut Value) {
        defaults::apply(&self.group, &self.kind, body);
    }

    pub(crate) fn prepare_create(&self, _body: &mut Value) {}

    pub(crate) fn prepare_update(&self, _body: &mut Value, _old: &Value) {}

    fn is(&self, group: &str, kind: &str) -> bool {
        self.group == group && self.kind == kind
    }

    pub(crate) fn validate_create(&self, body: &Value) -> Vec<FieldError> {
        if self.is("apiextensions.k8s.io", "CustomResourceDefinition") {
            return crd::check_create(body);
        }
        let namespaced = body["metadata"]["namespace"].is_string();
        metadata::check(body, namespaced, self.name_rule())
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
        metadata::check_update(body, old)
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
