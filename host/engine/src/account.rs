//! The service account of a plugin: whether it may do what the manifest asks for.

use std::collections::BTreeMap;

use evenkeel_cluster::Served;
use evenkeel_core::contract::Gvk;
use evenkeel_core::names::Glob;
use evenkeel_core::rights::rights;

use crate::plugin::{Held, Loaded};
use crate::shared::Shared;

impl Shared {
    /// Holds a plugin whose account lacks rights, before it finds out write by write.
    ///
    /// Where that cannot be asked, it is not held: the API server still refuses each write that is not allowed.
    pub(crate) async fn check_account(&self, loaded: &Loaded) -> Result<(), Held> {
        let (Some(account), Some(user)) = (&loaded.settings.service_account, &loaded.user) else {
            return Ok(());
        };
        let manifest = loaded.guest.manifest();
        let mut plurals: BTreeMap<Gvk, String> = BTreeMap::new();
        plurals.insert(Gvk::new("", "v1", "Event"), "events".to_owned());
        for permission in &manifest.permissions {
            if let Ok(Served::Yes { plural, .. }) = self.cluster.resolve(&permission.gvk).await {
                plurals.insert(permission.gvk.clone(), plural.to_string());
            }
        }
        // A kind that is not served has no plural, and cannot be written either.
        let needed = rights(manifest, &|gvk| plurals.get(gvk).cloned().unwrap_or_default());
        let rules: Vec<_> = needed
            .plugin
            .into_iter()
            .filter(|rule| {
                rule.resources.iter().all(|resource| !resource.is_empty() && !resource.starts_with('/'))
            })
            .collect();
        let namespaces = loaded.grant.namespaces().map(names);
        match self.cluster.lacks(user, &rules, namespaces.as_deref()).await {
            Ok(missing) if missing.is_empty() => Ok(()),
            Ok(missing) => Err(Held::Rights { account: account.clone(), missing }),
            Err(error) => {
                tracing::warn!(plugin = loaded.name(), %account, %error, "cannot ask what the account may do");
                Ok(())
            }
        }
    }
}

/// The namespaces among globs that are given by their very names.
fn names(globs: &[Glob]) -> Vec<String> {
    let plain = globs.iter().map(Glob::as_str).filter(|name| !name.contains(['*', '?', '[']));
    plain.map(str::to_owned).collect()
}
