//! The providers of a running host: which there are stands in a file, who logs in stands in Secrets.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use anyhow::Context;
use evenkeel_agent::yaml;
use evenkeel_providers::Providers;
use evenkeel_providers::config::{ProvidersConfig, SecretRef};
use evenkeel_providers::vsphere::credentials::{Credentials, Login, NoCredentials};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;

/// Which systems outside Kubernetes plugins may use.
#[derive(Debug, clap::Args)]
pub struct ProvidersArgs {
    /// The systems outside Kubernetes that plugins may use, such as vCenters; none where absent.
    #[arg(long = "providers", value_name = "FILE")]
    file: Option<PathBuf>,
}

impl ProvidersArgs {
    /// Makes them. Nothing is sent before a plugin asks; credentials are read by this client at each login.
    pub fn make(&self, client: &kube::Client) -> anyhow::Result<Providers> {
        let Some(file) = &self.file else { return Ok(Providers::default()) };
        let of_file = || format!("cannot use the providers of {}", file.display());
        let text = std::fs::read_to_string(file).with_context(of_file)?;
        let config: ProvidersConfig = yaml::one(&text).with_context(of_file)?;
        let credentials = |secret: &SecretRef| -> Arc<dyn Credentials> {
            Arc::new(OfSecret { client: client.clone(), secret: secret.clone() })
        };
        config.make(&credentials).with_context(of_file)
    }
}

/// Credentials that a Secret holds: read whenever somebody logs in, and kept nowhere.
struct OfSecret {
    client: kube::Client,
    secret: SecretRef,
}

impl OfSecret {
    async fn read(&self) -> Result<Login, NoCredentials> {
        let SecretRef { namespace, name } = &self.secret;
        let missing = |what: &str| NoCredentials(format!("the Secret {namespace}/{name} {what}"));
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let secret = match secrets.get_opt(name).await {
            Ok(secret) => secret.ok_or_else(|| missing("is not there"))?,
            Err(kube::Error::Api(status)) if status.code == 403 => {
                return Err(missing("may not be read by the host"));
            }
            Err(_) => return Err(missing("cannot be read")),
        };
        let value = |key: &str| {
            let bytes = secret.data.as_ref().and_then(|data| data.get(key));
            let bytes = bytes.ok_or_else(|| missing(&format!("has no {key:?}")))?;
            String::from_utf8(bytes.0.clone()).map_err(|_| missing(&format!("has a {key:?} that is no text")))
        };
        Ok(Login { user: value("username")?, password: value("password")? })
    }
}

impl Credentials for OfSecret {
    fn get(&self) -> Pin<Box<dyn Future<Output = Result<Login, NoCredentials>> + Send + '_>> {
        Box::pin(self.read())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use evenkeel_sandbox::{Sandbox, SandboxOptions};
    use k8s_openapi::ByteString;
    use kube::api::PostParams;

    use super::*;

    /// What logging in comes to with a Secret of these keys; none for no Secret.
    async fn check(data: Option<&[(&str, &[u8])]>, expected: &str) {
        let sandbox = Sandbox::new(SandboxOptions::default());
        let client = kube::Client::new(sandbox.service(), "default");
        if let Some(data) = data {
            let data: BTreeMap<String, ByteString> =
                data.iter().map(|(key, value)| ((*key).to_owned(), ByteString(value.to_vec()))).collect();
            let mut secret = Secret { data: Some(data), ..Secret::default() };
            secret.metadata.name = Some("vcenter".to_owned());
            let secrets: Api<Secret> = Api::namespaced(client.clone(), "default");
            secrets.create(&PostParams::default(), &secret).await.expect("it is created");
        }
        let secret = SecretRef { namespace: "default".to_owned(), name: "vcenter".to_owned() };
        let said = match (OfSecret { client, secret }).get().await {
            Ok(Login { user, password }) => format!("{user} with a password of {} bytes", password.len()),
            Err(none) => none.to_string(),
        };
        assert_eq!(said, expected);
    }

    #[tokio::test]
    async fn what_is_wrong_with_a_secret_of_credentials_is_told_without_a_word_of_it() {
        let (user, password) = (("username", &b"ann"[..]), ("password", &b"secret"[..]));
        check(Some(&[user, password]), "ann with a password of 6 bytes").await;
        check(None, "the Secret default/vcenter is not there").await;
        check(Some(&[user]), "the Secret default/vcenter has no \"password\"").await;
        check(
            Some(&[("password", &[0xff]), user]),
            "the Secret default/vcenter has a \"password\" that is no text",
        )
        .await;
    }
}
