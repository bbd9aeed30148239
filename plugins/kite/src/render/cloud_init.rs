//! What a guest does at its first boot, as a Secret that cloud-init reads.
//!
//! The user data is one JSON document, which is YAML too: there is nothing to escape, and no value of a user stands in a
//! shell's words. Under `data`, not `stringData`: server-side apply could not tell that nothing changed.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::{Value, json};

use crate::api::hidden::Hidden;
use crate::config::RuntimeConfig;
use crate::credentials::Credentials;
use crate::identity::Identity;
use crate::spec::Spec;

/// Brings the first network interface up: a clone's image may know another one's name.
const RESTORE_SCRIPT: &str = include_str!("network-restore.sh");
/// Runs the script at each boot.
const RESTORE_UNIT: &str = include_str!("network-restore.service");

const SCRIPT_PATH: &str = "/usr/local/sbin/kite-network-restore.sh";
const UNIT_PATH: &str = "/etc/systemd/system/kite-network-restore.service";
const UNIT: &str = "kite-network-restore.service";

/// The Secret.
pub fn cloud_init(machine: &Identity, spec: &Spec, login: &Credentials, config: &RuntimeConfig) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": machine.metadata(&machine.cloud_init()),
        "type": "Opaque",
        "data": { "userdata": STANDARD.encode(user_data(machine, spec, login, config)) },
    })
}

/// The keys in the order that a person reads them in.
#[derive(Serialize)]
struct UserData<'u> {
    hostname: &'u str,
    disable_root: bool,
    ssh_deletekeys: bool,
    ssh_pwauth: bool,
    users: [User<'u>; 1],
    bootcmd: [[&'static str; 3]; 2],
    write_files: [File; 2],
    runcmd: [&'static [&'static str]; 2],
    final_message: &'static str,
}

#[derive(Serialize)]
struct User<'u> {
    name: &'u str,
    groups: [&'static str; 2],
    shell: &'static str,
    sudo: [&'static str; 1],
    lock_passwd: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    hashed_passwd: Option<&'u Hidden>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    ssh_authorized_keys: &'u [String],
}

#[derive(Serialize)]
struct File {
    path: &'static str,
    permissions: &'static str,
    content: &'static str,
}

/// The text that cloud-init reads.
pub fn user_data(machine: &Identity, spec: &Spec, login: &Credentials, config: &RuntimeConfig) -> String {
    let data = UserData {
        hostname: &machine.name,
        disable_root: true,
        ssh_deletekeys: true,
        ssh_pwauth: login.hash.is_some() && config.guest_ssh_password_auth,
        users: [User {
            name: &spec.login,
            groups: ["adm", "sudo"],
            shell: "/bin/bash",
            sudo: ["ALL=(ALL) NOPASSWD:ALL"],
            lock_passwd: login.hash.is_none(),
            hashed_passwd: login.hash.as_ref(),
            ssh_authorized_keys: &login.keys,
        }],
        bootcmd: [
            ["systemctl", "mask", "systemd-networkd-wait-online.service"],
            ["systemctl", "mask", "NetworkManager-wait-online.service"],
        ],
        write_files: [
            File { path: SCRIPT_PATH, permissions: "0755", content: RESTORE_SCRIPT },
            File { path: UNIT_PATH, permissions: "0644", content: RESTORE_UNIT },
        ],
        runcmd: [&["systemctl", "daemon-reload"], &["systemctl", "enable", "--now", UNIT]],
        final_message: "The Kite machine is ready.",
    };
    let document = serde_json::to_string(&data).expect("texts, lists and flags serialize to JSON");
    format!("#cloud-config\n{document}\n")
}
