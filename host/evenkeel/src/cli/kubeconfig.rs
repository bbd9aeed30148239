//! Which cluster is meant, by the usual flags.

use std::path::Path;

use anyhow::Context;
use kube::config::{KubeConfigOptions, Kubeconfig};

/// The cluster of a kubeconfig and a context of it; where neither is named that of `KUBECONFIG` or `~/.kube/config`, or the
/// cluster around.
pub async fn config(kubeconfig: Option<&Path>, context: Option<&str>) -> anyhow::Result<kube::Config> {
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    match kubeconfig {
        Some(path) => {
            let kubeconfig = Kubeconfig::read_from(path)
                .with_context(|| format!("cannot use the kubeconfig {}", path.display()))?;
            kube::Config::from_custom_kubeconfig(kubeconfig, &options)
                .await
                .with_context(|| format!("cannot use the kubeconfig {}", path.display()))
        }
        None if context.is_some() => {
            kube::Config::from_kubeconfig(&options).await.context("cannot use the kubeconfig")
        }
        None => kube::Config::infer()
            .await
            .context("no cluster is configured: set KUBECONFIG, pass --kubeconfig, or run in a cluster"),
    }
}
