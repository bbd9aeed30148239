//! `evenkeel scaffold rbac`: the accounts and roles for one plugin, with nothing that its manifest does not name.

use evenkeel_core::contract::{Gvk, Manifest};
use evenkeel_core::rights::{Accounts, rights, roles};
use serde_json::Value;

/// Whose rights are printed.
#[derive(Clone, Debug, clap::Args)]
pub struct RbacArgs {
    /// Namespace of the accounts.
    #[arg(long, short, default_value = "evenkeel-system")]
    namespace: String,
    /// Service account of the host, which reads for all plugins and writes in the plugin's name.
    #[arg(long, value_name = "NAME", default_value = "evenkeel")]
    host_account: String,
    /// Let the host apply the CustomResourceDefinitions that the plugin brings along (`evenkeel run --install-crds`).
    #[arg(long)]
    install_crds: bool,
}

/// The documents. What RBAC cannot say as narrowly as the manifest does is told on stderr.
pub fn documents(manifest: &Manifest, args: &RbacArgs, plural: &dyn Fn(&Gvk) -> String) -> Vec<Value> {
    let needed = rights(manifest, plural);
    for sentence in &needed.wider {
        eprintln!("note: wider than the manifest, which the host still holds the plugin to: {sentence}");
    }
    let accounts = Accounts {
        plugin: &manifest.name,
        namespace: &args.namespace,
        host: &args.host_account,
        installs: args.install_crds,
    };
    roles(&accounts, &needed)
}
