//! What a machine is made of: its class and the Secrets that the class refers to.

use std::collections::BTreeMap;

use evenkeel_sdk::{Pass, Stop};

use crate::kinds::{Machine, MachineClass, Named, Secret};

/// The content of a class, its Secrets included. It does not print.
pub struct Content {
    /// The class.
    pub class: MachineClass,
    /// What the Secrets hold, base64; credentials count before user data of the same key.
    pub secret_data: BTreeMap<String, String>,
    /// Secrets that the class refers to and that are not there, as `namespace/name`.
    pub missing_secrets: Vec<String>,
}

impl Content {
    /// Reads the class by name in the machine's namespace, and its Secrets; none where there is no such class.
    pub fn read(pass: &Pass, machine: &Machine) -> Result<Option<Self>, Stop> {
        let name = &machine.spec.class.name;
        if name.is_empty() {
            return Ok(None);
        }
        let class = pass.get::<MachineClass>((machine.namespace(), name)).read()?;
        class.map(|class| Self::of(pass, class)).transpose()
    }

    /// Reads the Secrets of a class.
    pub fn of(pass: &Pass, class: MachineClass) -> Result<Self, Stop> {
        let places: Vec<_> = [&class.secret_ref, &class.credentials_secret_ref]
            .into_iter()
            .filter_map(|reference| reference.as_ref()?.place(class.namespace()))
            .collect();
        let asked: Vec<_> = places.iter().map(|place| pass.get::<Secret>(*place).ask()).collect();
        let (mut secret_data, mut missing_secrets) = (BTreeMap::new(), Vec::new());
        for (question, (namespace, name)) in asked.into_iter().zip(&places) {
            match question.read()? {
                Some(secret) => secret_data.extend(secret.data),
                None => missing_secrets.push(format!("{namespace}/{name}")),
            }
        }
        missing_secrets.dedup();
        Ok(Self { class, secret_data, missing_secrets })
    }
}
