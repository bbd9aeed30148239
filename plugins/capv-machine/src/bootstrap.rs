//! The data of a machine's first boot, from its Secret into the VM's extraConfig.

use std::collections::BTreeMap;

use evenkeel_sdk::{Pass, Stop};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use serde::Deserialize;

use crate::metadata::packed;
use crate::names;

/// Of the Secret only what is read, and without a way to print it.
#[derive(Deserialize)]
struct Data {
    #[serde(default)]
    data: BTreeMap<String, ByteString>,
}
evenkeel_sdk::view!(Data as Secret: "/data/value", "/data/format");

/// The data of a machine's first boot. It has no way to print: it holds what joins a cluster.
pub enum Bootstrap {
    /// The pairs for the VM's extraConfig; none for a machine without a Secret.
    Ready(BTreeMap<String, String>),
    /// What it waits for.
    Waits(String),
}

/// Reads the Secret of a machine. A change of it wakes the machine.
pub fn read(pass: &Pass, secret: Option<&str>) -> Result<Bootstrap, Stop> {
    let Some(secret) = secret else { return Ok(Bootstrap::Ready(BTreeMap::new())) };
    let found = pass.get::<Data>((pass.namespace(), secret)).read()?;
    let Some(Data { data }) = found else {
        return Ok(Bootstrap::Waits(format!("Secret {secret} is not there yet")));
    };
    let Some(value) = data.get("value").filter(|value| !value.0.is_empty()) else {
        return Ok(Bootstrap::Waits(format!("Secret {secret} has no key \"value\" yet")));
    };
    let format = data.get("format").map(|format| String::from_utf8_lossy(&format.0).into_owned());
    Ok(pairs(secret, &value.0, format.as_deref().unwrap_or_default()))
}

fn pairs(secret: &str, value: &[u8], format: &str) -> Bootstrap {
    let (key, encoding_key) = match format.trim() {
        "" | "cloud-config" => (names::USERDATA, names::USERDATA_ENCODING),
        "ignition" => (names::IGNITION, names::IGNITION_ENCODING),
        // The word is not repeated: it may be anything.
        _ => {
            let message = format!("Secret {secret}: format has to be cloud-config or ignition");
            return Bootstrap::Waits(message);
        }
    };
    let (packed, encoding) = packed(value);
    Bootstrap::Ready(BTreeMap::from([
        (key.to_owned(), packed),
        (encoding_key.to_owned(), encoding.to_owned()),
    ]))
}
