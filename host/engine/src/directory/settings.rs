//! `NAME.yaml` beside `NAME.wasm`: what the operator says about the plugin.

use evenkeel_core::contract::{Gvk, Permission, Verb};
use evenkeel_core::names::ServiceAccount;
use serde::Deserialize;

use crate::plugin::{OperatorGrant, PluginSettings};

/// Why a settings file is not valid.
#[derive(Debug, thiserror::Error)]
#[error("not valid settings")]
pub struct SettingsError(#[source] serde_saphyr::Error);

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
struct SettingsFile {
    /// Given to the plugin as it is.
    config: serde_json::Map<String, serde_json::Value>,
    /// What the plugin may do; without it all that its manifest asks for.
    grant: Option<GrantFile>,
    /// In whose name its writes are sent, as in `evenkeel-system/evenkeel-kite`; without it in the host's own.
    service_account: Option<ServiceAccount>,
    /// The only controllers that run; without it all do.
    controllers: Option<Vec<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct GrantFile {
    permissions: Option<Vec<PermissionFile>>,
    namespaces: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct PermissionFile {
    api_version: String,
    kind: String,
    verbs: Vec<Verb>,
    #[serde(default)]
    names: Vec<String>,
}

/// Reads a settings file; an error names line and column.
pub fn parse_settings(text: &str) -> Result<PluginSettings, SettingsError> {
    let file: SettingsFile = if text.trim().is_empty() {
        SettingsFile::default()
    } else {
        let options = serde_saphyr::options! { legacy_octal_numbers: true };
        serde_saphyr::from_str_with_options(text, options).map_err(SettingsError)?
    };
    let grant = file.grant.map(|grant| OperatorGrant {
        permissions: grant.permissions.map(|list| list.into_iter().map(permission).collect()),
        namespaces: grant.namespaces,
    });
    let config = serde_json::Value::Object(file.config).to_string().into();
    let SettingsFile { service_account, controllers, .. } = file;
    Ok(PluginSettings { config, grant, service_account, controllers })
}

fn permission(file: PermissionFile) -> Permission {
    let PermissionFile { api_version, kind, verbs, names } = file;
    Permission { gvk: Gvk::from_api_version(&api_version, &kind), verbs, names }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_hold_a_config_and_a_grant() {
        let text = "
config: {limit: 3}
grant:
  namespaces: [tenant-a]
  permissions:
  - {apiVersion: v1, kind: ConfigMap, verbs: [get, list, apply-status], names: [kite-*]}
";
        let settings = parse_settings(text).expect("valid settings");
        assert_eq!(&*settings.config, r#"{"limit":3}"#);
        let grant = settings.grant.expect("a grant");
        assert_eq!(grant.namespaces, Some(vec!["tenant-a".to_owned()]));
        let permissions = grant.permissions.expect("permissions");
        assert_eq!(permissions[0].verbs, [Verb::Get, Verb::List, Verb::ApplyStatus]);
    }

    #[test]
    fn settings_name_the_service_account_of_the_plugin() {
        let account = parse_settings("serviceAccount: evenkeel-system/evenkeel-kite").expect("settings");
        assert_eq!(
            account.service_account.map(|account| account.to_string()),
            Some("evenkeel-system/evenkeel-kite".into())
        );
        let error = parse_settings("serviceAccount: kite").expect_err("no namespace");
        let cause = std::error::Error::source(&error).expect("a cause").to_string();
        assert!(cause.contains("NAMESPACE/NAME"), "{cause}");
    }

    #[test]
    fn settings_choose_controllers() {
        let chosen = parse_settings("controllers: [kite-user]").expect("settings");
        assert_eq!(chosen.controllers, Some(vec!["kite-user".to_owned()]));
        assert_eq!(parse_settings("config: {}").expect("settings").controllers, None);
    }

    #[test]
    fn an_empty_file_says_nothing_and_a_typo_is_told_with_its_place() {
        assert_eq!(&*parse_settings("\n").expect("empty settings").config, "{}");
        let error = parse_settings("config: {}\ngarnt: {}\n").expect_err("a typo");
        let cause = std::error::Error::source(&error).expect("a cause").to_string();
        assert!(cause.contains("garnt") && cause.contains('2'), "{cause}");
    }
}
