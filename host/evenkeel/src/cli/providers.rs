//! The providers of a running host: which there are stands in a file, who logs in stands in Secrets.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use anyhow::Context;
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
        let config: ProvidersConfig = serde_saphyr::from_str(&text).with_context(of_file)?;
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
