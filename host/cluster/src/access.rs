//! Asks the API server what a user may do, before anything is done in that user's name.

use evenkeel_core::rights::Rule;
use http::Method;
use serde_json::{Value, json};

use crate::Cluster;
use crate::rest::{Call, RestError, group_path};

impl Cluster {
    /// The rules that a user lacks, as the API server judges; empty where it may do all of it. `namespaces` are those
    /// in which it must be allowed; none for all at once.
    ///
    /// Where the host may not impersonate the user, that is the one thing that is missing.
    ///
    /// # Errors
    /// If it cannot be asked, or if the API server is not ready: it knows no roles then, and would say no to everything.
    pub async fn lacks(
        &self,
        user: &str,
        rules: &[Rule],
        namespaces: Option<&[String]>,
    ) -> Result<Vec<String>, RestError> {
        let missing = self.lacks_now(user, rules, namespaces).await?;
        if missing.is_empty() {
            return Ok(missing);
        }
        self.shared.rest.expect_ready().await?;
        self.lacks_now(user, rules, namespaces).await
    }

    async fn lacks_now(
        &self,
        user: &str,
        rules: &[Rule],
        namespaces: Option<&[String]>,
    ) -> Result<Vec<String>, RestError> {
        let mut missing = Vec::new();
        for rule in rules {
            let mut lacked = Rule { verbs: Vec::new(), ..rule.clone() };
            for verb in &rule.verbs {
                match self.may(user, rule, verb, namespaces).await {
                    Ok(true) => {}
                    Ok(false) => lacked.verbs.push(verb.clone()),
                    Err(RestError::Status { code: 403, status, .. }) => {
                        return Ok(vec![status.message.clone()]);
                    }
                    Err(error) => return Err(error),
                }
            }
            if !lacked.verbs.is_empty() {
                missing.push(lacked.to_string());
            }
        }
        Ok(missing)
    }

    async fn may(
        &self,
        user: &str,
        rule: &Rule,
        verb: &str,
        namespaces: Option<&[String]>,
    ) -> Result<bool, RestError> {
        for question in questions(rule, verb, namespaces) {
            if !self.review(user, question).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether the user may do one thing. Everybody may ask that about itself, so it is asked in the user's name.
    async fn review(&self, user: &str, attributes: Value) -> Result<bool, RestError> {
        let body = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        });
        let path = format!("{}/selfsubjectaccessreviews", group_path("authorization.k8s.io", "v1"));
        let call = Call::write("review", Method::POST, path, body.to_string().into()).in_name_of(Some(user));
        let answer: Value = serde_json::from_str(&self.shared.rest.text(call).await?)
            .map_err(|cause| RestError::Decode(cause.into()))?;
        Ok(answer.pointer("/status/allowed") == Some(&Value::Bool(true)))
    }
}

/// One question for each thing that a rule allows with a verb.
fn questions(rule: &Rule, verb: &str, namespaces: Option<&[String]>) -> Vec<Value> {
    // "" is every namespace, and every name.
    let every = [String::new()];
    let names = if rule.resource_names.is_empty() { &every[..] } else { &rule.resource_names };
    let mut questions = Vec::new();
    for (group, resource) in
        rule.api_groups.iter().flat_map(|group| rule.resources.iter().map(move |one| (group, one)))
    {
        for namespace in namespaces.unwrap_or(&every) {
            questions.extend(names.iter().map(|name| attributes(group, resource, verb, namespace, name)));
        }
    }
    questions
}

fn attributes(group: &str, resource: &str, verb: &str, namespace: &str, name: &str) -> Value {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    json!({
        "group": group, "resource": resource, "subresource": subresource, "verb": verb,
        "namespace": namespace, "name": name,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subresource_is_asked_for_by_itself() {
        let asked = attributes("demo.dev", "widgets/status", "patch", "a", "");
        assert_eq!(
            asked,
            json!({
                "group": "demo.dev", "resource": "widgets", "subresource": "status", "verb": "patch",
                "namespace": "a", "name": "",
            })
        );
    }
}
