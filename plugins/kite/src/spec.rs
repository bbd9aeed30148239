//! What a user wants of a machine, checked: past this module a specification is valid.
//!
//! Every problem is told at once, by field and never by value: a value may be a password or a page of control
//! characters.

use crate::api::machine::KiteVirtualMachineSpec;
use crate::names::{self, is_dns_label, is_dns_subdomain};
use crate::quantity::Quantity;

/// Most virtual processors.
const CPU_MAX: i64 = 128;
/// Memory from this on.
const MEMORY_MIN: Quantity = Quantity::mebibytes(64);
/// Memory up to this.
const MEMORY_MAX: Quantity = Quantity::tebibytes(4);
/// Disks from this on.
const DISK_MIN: Quantity = Quantity::gibibytes(1);
/// Disks up to this.
const DISK_MAX: Quantity = Quantity::tebibytes(64);
/// Longest password, in bytes.
const PASSWORD_BYTES_MAX: usize = 128;
/// Most public keys.
const KEYS_MAX: usize = 16;
/// Longest public key, in bytes.
const KEY_BYTES_MAX: usize = 4096;
/// Longest login name.
const LOGIN_MAX: usize = 32;

/// Accounts that the images have, and that nobody may log in as.
const SYSTEM_ACCOUNTS: [&str; 20] = [
    "root", "daemon", "bin", "sys", "sync", "games", "man", "lp", "mail", "news", "uucp", "proxy",
    "www-data", "backup", "list", "irc", "gnats", "nobody", "sshd", "syslog",
];

/// What public keys begin with.
const KEY_TYPES: [&str; 7] = [
    "ssh-ed25519 ",
    "ssh-rsa ",
    "ecdsa-sha2-nistp256 ",
    "ecdsa-sha2-nistp384 ",
    "ecdsa-sha2-nistp521 ",
    "sk-ssh-ed25519@openssh.com ",
    "sk-ecdsa-sha2-nistp256@openssh.com ",
];

/// Whether a machine shall run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Power {
    /// It shall.
    On,
    /// It shall not.
    Off,
}

impl Power {
    /// As the specification says it; off where it says nothing, none where it says something else.
    pub fn wanted(spec: &KiteVirtualMachineSpec) -> Option<Self> {
        match spec.power_state.as_deref().unwrap_or_default().trim() {
            "On" => Some(Self::On),
            "Off" | "" => Some(Self::Off),
            _ => None,
        }
    }

    /// KubeVirt's run strategy for it.
    pub fn run_strategy(self) -> &'static str {
        match self {
            Self::On => "Always",
            Self::Off => "Halted",
        }
    }

    /// As a status says it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::On => "On",
            Self::Off => "Off",
        }
    }
}

/// A valid specification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// Virtual processors.
    pub cpu: i64,
    /// Memory in the user's own notation.
    pub memory: String,
    /// Name of the golden image.
    pub image: String,
    /// Size of the disk in the user's own notation.
    pub disk: String,
    /// The same as an amount.
    pub disk_size: Quantity,
    /// Whether it shall run.
    pub power: Power,
    /// Login name.
    pub login: String,
    /// Password in clear text, if any.
    pub password: Option<crate::api::hidden::Hidden>,
    /// Public keys.
    pub keys: Vec<String>,
}

/// Checks name and specification; the error lists all problems as `field: problem`, sorted.
pub fn check(name: &str, spec: &KiteVirtualMachineSpec) -> Result<Spec, String> {
    let mut problems = Vec::new();
    let mut note = |field: &str, problem: &str| problems.push(format!("{field}: {problem}"));
    if !is_machine_name(name) {
        note("metadata.name", "must be a DNS label of at most 52 characters");
    }
    if !spec.cpu.is_some_and(|cpu| (1..=CPU_MAX).contains(&cpu)) {
        note("spec.cpu", "must be 1 to 128");
    }
    let memory = quantity(spec.memory.as_deref(), MEMORY_MIN, MEMORY_MAX);
    if memory.is_none() {
        note("spec.memory", "must be a quantity of 64Mi to 4Ti, as 4Gi");
    }
    let disk = quantity(spec.disk.as_deref(), DISK_MIN, DISK_MAX);
    if disk.is_none() {
        note("spec.disk", "must be a quantity of 1Gi to 64Ti, as 25Gi");
    }
    if !spec.image.as_deref().is_some_and(is_dns_subdomain) {
        note("spec.image", "must be the name of an image");
    }
    let power = Power::wanted(spec);
    if power.is_none() {
        note("spec.powerState", "must be On or Off");
    }
    match spec.ssh_id.as_deref() {
        Some(login) if !is_login(login) => {
            note("spec.sshId", "must be a login name in lower case of at most 32 characters");
        }
        Some(login) if SYSTEM_ACCOUNTS.contains(&login) => note("spec.sshId", "is a system account"),
        Some(_) => {}
        None => note("spec.sshId", "must be a login name in lower case of at most 32 characters"),
    }
    if let Some(problem) = spec.ssh_password.as_ref().and_then(|password| password_problem(password.reveal()))
    {
        note("spec.sshPassword", problem);
    }
    if spec.ssh_authorized_keys.len() > KEYS_MAX {
        note("spec.sshAuthorizedKeys", "must be at most 16 keys");
    }
    if !spec.ssh_authorized_keys.iter().all(|key| is_public_key(key)) {
        note("spec.sshAuthorizedKeys", "must be public keys in OpenSSH's form, one a line");
    }
    problems.sort();
    let (Some((memory, _)), Some((disk, disk_size)), Some(power), true) =
        (memory, disk, power, problems.is_empty())
    else {
        return Err(problems.join("; "));
    };
    Ok(Spec {
        cpu: spec.cpu.unwrap_or_default(),
        memory,
        image: spec.image.clone().unwrap_or_default(),
        disk,
        disk_size,
        power,
        login: spec.ssh_id.clone().unwrap_or_default(),
        password: spec.ssh_password.clone(),
        keys: spec.ssh_authorized_keys.clone(),
    })
}

/// Whether a text is one public key in OpenSSH's form.
pub fn is_public_key(key: &str) -> bool {
    key.len() <= KEY_BYTES_MAX
        && key.bytes().all(|byte| (0x20..0x7f).contains(&byte))
        && KEY_TYPES.iter().any(|start| key.strip_prefix(start).is_some_and(|rest| !rest.trim().is_empty()))
}

/// The longest Service name has to be a DNS label, so a machine's name is shorter than Kubernetes allows, and has no dots.
fn is_machine_name(name: &str) -> bool {
    name.len() <= names::VM_NAME_MAX && is_dns_label(name)
}

fn quantity(text: Option<&str>, min: Quantity, max: Quantity) -> Option<(String, Quantity)> {
    let text = text?.trim_matches(' ');
    let amount = Quantity::parse(text)?;
    (min..=max).contains(&amount).then(|| (text.to_owned(), amount))
}

fn is_login(login: &str) -> bool {
    let mut bytes = login.bytes();
    let first = bytes.next().is_some_and(|byte| byte.is_ascii_lowercase() || byte == b'_');
    let rest = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_' || byte == b'-';
    login.len() <= LOGIN_MAX && first && bytes.all(rest)
}

fn password_problem(password: &str) -> Option<&'static str> {
    if password.is_empty() || password.len() > PASSWORD_BYTES_MAX {
        return Some("must have 1 to 128 bytes");
    }
    if password.trim() != password {
        return Some("must not begin or end with a space");
    }
    let forbidden = |byte: u8| byte == b':' || byte < 0x20 || byte == 0x7f;
    password.bytes().any(forbidden).then_some("must not have a colon or control characters")
}

#[cfg(test)]
mod tests;
