//! Bootstrap tokens: what a machine that was just made joins its cluster with.
//!
//! A token is a Secret of the cluster where the Nodes are, which is this one. Its public half, the id, follows from the
//! machine's UID, so that it is found again by whoever looks. Its secret half is drawn by the provider, since a plugin cannot
//! draw anything; the Secret is the only place where it is kept. It is made right before the VM is, and taken away as soon as
//! the machine has joined, has failed, or is to go.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use evenkeel_sdk::{Action, ObjectRef, Pass, Stop, act, reference, rfc3339, view};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret as CoreSecret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde_json::json;

use super::creation::CREATION_TIMEOUT;
use super::driver;
use crate::config::Config;
use crate::kinds::{Machine, Named};
use crate::names;

/// Where Kubernetes looks for tokens.
const NAMESPACE: &str = "kube-system";
/// What Kubernetes wants their Secrets to be called, before the id.
const PREFIX: &str = "bootstrap-token-";
/// The type of such a Secret.
const TYPE: &str = "bootstrap.kubernetes.io/token";
/// Of what both halves consist.
const ALPHABET: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
/// Characters of the id.
const ID_LENGTH: usize = 6;
/// Characters of the secret half.
const SECRET_LENGTH: usize = 16;

/// A token, whole. It does not print.
pub struct Token(String);

impl Token {
    /// From its two halves.
    pub fn of(id: &str, secret: &str) -> Self {
        Self(format!("{id}.{secret}"))
    }

    /// As it is written into user data.
    pub fn text(&self) -> &str {
        &self.0
    }
}

/// The Secret of a token. It does not print.
#[derive(Clone, Default, Deserialize)]
#[serde(default)]
pub struct TokenSecret {
    /// Its metadata.
    pub metadata: ObjectMeta,
    /// Its data, base64 as it is in the object.
    pub data: BTreeMap<String, String>,
}
view!(
    TokenSecret as CoreSecret: "/metadata/name", "/metadata/namespace", "/metadata/uid", "/metadata/annotations", "/data"
);

impl TokenSecret {
    /// Whether it was made for this machine. The name alone says nothing: anybody may make a Secret of it.
    fn is_of(&self, machine: &Machine) -> bool {
        let of = self.metadata.annotations.as_ref().and_then(|notes| notes.get(names::TOKEN_OF));
        of.is_some_and(|uid| !uid.is_empty() && uid == machine.uid())
    }

    /// The token, if it may still be joined with.
    fn token(&self, id: &str, now: Timestamp) -> Option<Token> {
        let until: Timestamp = self.text("expiration")?.parse().ok()?;
        let secret = self.text("token-secret").filter(|secret| is_secret_half(secret))?;
        (until > now).then(|| Token::of(id, &secret))
    }

    fn text(&self, key: &str) -> Option<String> {
        String::from_utf8(STANDARD.decode(self.data.get(key)?).ok()?).ok()
    }

    fn deletion(&self, id: &str) -> Action {
        act::delete(place(id)).uid(self.metadata.uid.clone().unwrap_or_default()).into()
    }
}

/// Whether a machine has its token.
pub enum Standing {
    /// It has this one.
    Ready(Token),
    /// It has to note its id first, so that the token is found again whatever becomes of this pass.
    ToBeNoted(String),
    /// Its Secret has to be made first; that runs the next pass.
    ToBeMade(Vec<Action>),
    /// A Secret of that name is somebody else's.
    Taken(String),
}

/// The machine's token; one is made if there is none, or none that is valid still.
pub fn ensure(pass: &Pass, machine: &Machine, config: &Config, now: Timestamp) -> Result<Standing, Stop> {
    let id = id(machine.uid());
    if machine.annotation(names::BOOTSTRAP_TOKEN) != Some(id.as_str()) {
        return Ok(Standing::ToBeNoted(id));
    }
    let found = pass.get::<TokenSecret>(&place(&id)).read()?;
    let mut making = Vec::new();
    if let Some(secret) = &found {
        if !secret.is_of(machine) {
            return Ok(Standing::Taken(format!("{NAMESPACE}/{PREFIX}{id}")));
        }
        if let Some(token) = secret.token(&id, now) {
            return Ok(Standing::Ready(token));
        }
        making.push(secret.deletion(&id));
    }
    let secret = driver::draw_token(pass, machine)?;
    if !is_secret_half(&secret) {
        return Err(Stop::transient("the provider drew no token that Kubernetes would take"));
    }
    making.push(act::create(&secret_of(machine, config, &id, &secret, now)).into());
    Ok(Standing::ToBeMade(making))
}

/// Takes the machine's token away, if there is one: who has joined needs it no more, and who did not shall not.
pub fn retire(pass: &Pass, machine: &Machine) -> Result<Option<Action>, Stop> {
    if machine.annotation(names::BOOTSTRAP_TOKEN).is_none() {
        // Nothing is asked for, which most grants would not allow.
        return Ok(None);
    }
    let id = id(machine.uid());
    let found = pass.get::<TokenSecret>(&place(&id)).read()?;
    Ok(found.filter(|secret| secret.is_of(machine)).map(|secret| secret.deletion(&id)))
}

fn place(id: &str) -> ObjectRef {
    reference::<TokenSecret>((NAMESPACE, format!("{PREFIX}{id}")))
}

fn secret_of(
    machine: &Machine,
    config: &Config,
    id: &str,
    secret: &str,
    now: Timestamp,
) -> serde_json::Value {
    let timeout = machine.spec.creation_timeout.unwrap_or(CREATION_TIMEOUT).0;
    let timeout = SignedDuration::try_from(timeout).unwrap_or(SignedDuration::MAX);
    let until = now.checked_add(timeout).unwrap_or(Timestamp::MAX);
    let mut data = BTreeMap::from([
        ("description", format!("machine {}/{} joins with it", machine.namespace(), machine.name())),
        ("token-id", id.to_owned()),
        ("token-secret", secret.to_owned()),
        ("expiration", rfc3339(until)),
        ("usage-bootstrap-authentication", "true".to_owned()),
        ("usage-bootstrap-signing", "true".to_owned()),
    ]);
    if !config.bootstrap_groups.is_empty() {
        data.insert("auth-extra-groups", config.bootstrap_groups.join(","));
    }
    let data: BTreeMap<&str, String> =
        data.into_iter().map(|(key, text)| (key, STANDARD.encode(text))).collect();
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": TYPE,
        "metadata": {
            "namespace": NAMESPACE, "name": format!("{PREFIX}{id}"),
            "annotations": {names::TOKEN_OF: machine.uid()},
        },
        "data": data,
    })
}

/// The id of a machine's token: public, and the same whenever it is asked for.
fn id(uid: &str) -> String {
    // FNV-1a: it has to spread, not to hide anything.
    let mut hash = uid.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mut id = String::with_capacity(ID_LENGTH);
    for _ in 0..ID_LENGTH {
        let at = usize::try_from(hash % 36).unwrap_or_default();
        id.extend(ALPHABET.get(at).map(|byte| char::from(*byte)));
        hash /= 36;
    }
    id
}

fn is_secret_half(text: &str) -> bool {
    text.len() == SECRET_LENGTH && text.bytes().all(|byte| ALPHABET.contains(&byte))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn an_id_is_as_kubernetes_wants_it_and_each_machine_has_its_own() {
        let uid = |n: u32| format!("5f0c1b9e-0000-4000-8000-{n:012}");
        let ids: BTreeSet<String> = (0..2000).map(|n| id(&uid(n))).collect();
        assert_eq!(ids.len(), 2000);
        assert!(ids.iter().all(|id| id.len() == 6 && id.bytes().all(|byte| ALPHABET.contains(&byte))));
        assert_eq!(id(&uid(1)), id(&uid(1)));
    }

    #[test]
    fn a_secret_half_is_sixteen_letters_and_digits() {
        assert!(is_secret_half("0123456789abcdef"));
        for other in ["", "0123456789abcde", "0123456789abcdeF", "0123456789abcde-", "0123456789abcdef0"] {
            assert!(!is_secret_half(other), "{other}");
        }
    }
}
