//! `evenkeel scaffold rbac`: the accounts and roles for one plugin, with nothing that its manifest does not name.

use evenkeel_core::contract::{Gvk, Manifest};
use evenkeel_core::rights::{Accounts, Only, rights, roles};
use evenkeel_sim::scenario::kinds::Kinds;
use serde_json::Value;

use crate::cli::values;
use crate::output::note;

/// Whose rights are printed.
#[derive(Clone, Debug, clap::Args)]
pub struct RbacArgs {
    /// Namespace of the accounts.
    #[arg(long, short, default_value = "evenkeel-system", value_parser = values::namespace)]
    namespace: String,
    /// Service account of the host, which reads for all plugins and writes in the plugin's name.
    #[arg(long, value_name = "NAME", default_value = "evenkeel", value_parser = values::subdomain)]
    host_account: String,
    /// Let the host apply the CustomResourceDefinitions that the plugin brings along (`evenkeel run --install-crds`).
    #[arg(long)]
    install_crds: bool,
    /// A namespace of the grant in the plugin's settings; may be repeated. Roles there take the place of ClusterRoles.
    #[arg(long = "grant-namespace", value_name = "NAMESPACE", value_delimiter = ',', value_parser = values::namespace)]
    grant_namespaces: Vec<String>,
}

/// The documents. What RBAC cannot say as narrowly as the manifest does is told on stderr.
pub fn documents(manifest: &Manifest, args: &RbacArgs, plural: &dyn Fn(&Gvk) -> String) -> Vec<Value> {
    let cluster_wide = cluster_wide(manifest).into_iter();
    let cluster_wide = cluster_wide.map(|gvk| (gvk.group.to_string(), plural(&gvk))).collect();
    let only = Only { namespaces: &args.grant_namespaces, cluster_wide };
    let needed = rights(manifest, plural);
    for sentence in &needed.wider {
        note!("note: wider than the manifest, which the host still holds the plugin to: {sentence}");
    }
    let accounts = Accounts {
        plugin: &manifest.name,
        namespace: &args.namespace,
        host: &args.host_account,
        installs: args.install_crds,
        only: (!args.grant_namespaces.is_empty()).then_some(only),
    };
    roles(&accounts, &needed)
}

/// The kinds of a manifest that live in no namespace. One that is neither built in nor the plugin's own counts as
/// namespaced: a Role too few is noticed, a ClusterRole too many is not.
fn cluster_wide(manifest: &Manifest) -> Vec<Gvk> {
    let crds: Vec<Value> = manifest.crds.iter().filter_map(|text| serde_json::from_str(text).ok()).collect();
    let kinds = Kinds::with_crds(&crds);
    let named = manifest.controllers.iter().map(|controller| &controller.primary);
    let named = named.chain(manifest.permissions.iter().map(|permission| &permission.gvk));
    let is_wide =
        |gvk: &&Gvk| kinds.find(Some(&gvk.api_version()), &gvk.kind).is_ok_and(|kind| !kind.namespaced);
    named.filter(is_wide).cloned().collect()
}
