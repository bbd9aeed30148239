//! How one logs in to a machine: a password hash, public keys, or both. Never a password.
//!
//! A component has no randomness, so keys are never made here, and the salt of a password in clear text comes from the
//! machine's UID: the same machine gets the same hash in each pass, and two machines never share one.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha_crypt::{ROUNDS_DEFAULT, Sha512Params, sha512_crypt_b64};
use sha2::{Digest, Sha256};

use crate::api::hidden::Hidden;
use crate::identity::Identity;
use crate::kinds::Login as LoginSecret;
use crate::ownership::is_input_of;
use crate::spec::{Spec, is_public_key};
use crate::verdict::{Reason, Verdict};

/// Key of the hash in the guest-login Secret.
const HASH_KEY: &str = "passwordHash";
/// Key of the public key in the SSH-key Secret.
const PUBLIC_KEY: &str = "id_rsa.pub";
/// Characters of a SHA-512 crypt salt.
const SALT_LENGTH: usize = 16;

/// A way to log in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// A crypt hash.
    pub hash: Option<Hidden>,
    /// Public keys.
    pub keys: Vec<String>,
    /// Whether the hash was made of a password in clear text, which deserves a warning.
    pub plaintext: bool,
}

/// Finds the way to log in: the guest-login Secret, else the password of the specification, else keys alone.
pub fn resolve(
    machine: &Identity,
    spec: &Spec,
    guest_login: Option<&LoginSecret>,
    ssh_key: Option<&LoginSecret>,
) -> Result<Credentials, Verdict> {
    let mut keys = spec.keys.clone();
    keys.extend(ssh_key.and_then(|secret| public_key(machine, secret)).filter(|key| !keys.contains(key)));
    if let Some(secret) = guest_login {
        let hash = stored_hash(machine, secret)?;
        return Ok(Credentials { hash: Some(hash), keys, plaintext: false });
    }
    if let Some(password) = &spec.password {
        let hash = crypt(password.reveal(), &salt(&machine.uid));
        return Ok(Credentials { hash: Some(hash), keys, plaintext: true });
    }
    if keys.is_empty() {
        let message = format!(
            "nobody could log in: create the Secret {} with a {HASH_KEY}, or set spec.sshAuthorizedKeys",
            machine.guest_login()
        );
        return Err(Verdict::refused(Reason::MissingCredentials, &message));
    }
    Ok(Credentials { hash: None, keys, plaintext: false })
}

/// The hash of the guest-login Secret. A Secret that is there and wrong is an error: falling back to another way to
/// log in would surprise who made it.
fn stored_hash(machine: &Identity, secret: &LoginSecret) -> Result<Hidden, Verdict> {
    let invalid = |problem: &str| {
        let message = format!("the Secret {} {problem}", machine.guest_login());
        Verdict::refused(Reason::InvalidCredentials, &message)
    };
    if !is_input_of(&secret.metadata, machine) {
        return Err(invalid("is labelled for another machine"));
    }
    let text = secret.data.get(HASH_KEY).and_then(|data| STANDARD.decode(data).ok());
    let text = text.and_then(|bytes| String::from_utf8(bytes).ok());
    match text {
        Some(text) if is_crypt_hash(&text) => Ok(Hidden::from(text.as_str())),
        _ => Err(invalid("has no passwordHash in crypt form, as $6$salt$hash")),
    }
}

/// The public key of the SSH-key Secret; an unusable one is left out, as there may be other ways in.
fn public_key(machine: &Identity, secret: &LoginSecret) -> Option<String> {
    if !is_input_of(&secret.metadata, machine) {
        return None;
    }
    let bytes = STANDARD.decode(secret.data.get(PUBLIC_KEY)?).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    let key = text.trim_end();
    is_public_key(key).then(|| key.to_owned())
}

/// `$5$`, `$6$` or `$y$`, then 8 to 240 characters of crypt's alphabet.
fn is_crypt_hash(text: &str) -> bool {
    let alphabet = |byte: u8| byte.is_ascii_alphanumeric() || b"./$=,".contains(&byte);
    ["$5$", "$6$", "$y$"]
        .iter()
        .filter_map(|start| text.strip_prefix(start))
        .any(|rest| (8..=240).contains(&rest.len()) && rest.bytes().all(alphabet))
}

fn salt(uid: &str) -> String {
    let digest = Sha256::new().chain_update(uid).chain_update(b"\0kite-guest").finalize();
    let mut salt = STANDARD.encode(digest).replace('+', ".");
    salt.truncate(SALT_LENGTH);
    salt
}

fn crypt(password: &str, salt: &str) -> Hidden {
    // Both fail for a number of rounds out of range only, and the default is in range.
    let rounds = Sha512Params::new(ROUNDS_DEFAULT).expect("the default number of rounds is allowed");
    let hash = sha512_crypt_b64(password.as_bytes(), salt.as_bytes(), &rounds);
    let hash = hash.expect("a hash of valid rounds has its characters");
    Hidden::from(format!("$6${salt}${hash}").as_str())
}

#[cfg(test)]
mod tests;
