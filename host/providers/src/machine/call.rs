//! What a call tells the driver.

use std::collections::BTreeMap;
use std::fmt;

use evenkeel_core::contract::{Failure, FailureKind};
use serde::Deserialize;
use serde_json::Value;

/// What `status`, `create`, `initialize` and `delete` are told.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Call {
    /// Whose VM it is.
    pub machine: Machine,
    /// What it is made of.
    pub class: Class,
    /// What nobody else is to see.
    pub sensitive: Sensitive,
    /// What the driver wanted to be told again.
    #[serde(default)]
    pub last_known_state: Option<String>,
}

/// Whose VM it is.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Machine {
    /// The Machine's namespace.
    pub namespace: String,
    /// The Machine's name: that of the VM, too.
    pub name: String,
    /// The Machine's UID.
    pub uid: String,
    /// The VM, where the Machine knows it.
    #[serde(default, rename = "providerID")]
    pub provider_id: Option<String>,
    /// The Node, where the Machine knows it.
    #[serde(default)]
    pub node_name: Option<String>,
}

/// What a VM is made of.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Class {
    /// The MachineClass.
    pub name: String,
    /// Its UID: what its VMs are marked with. "" where the class is not told apart from others of its name.
    #[serde(default)]
    pub uid: String,
    /// The driver that understands the rest.
    pub provider: String,
    /// The driver's own words.
    pub provider_spec: Value,
}

/// What the class' Secrets hold. It does not print.
#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Sensitive {
    /// Values in base64, as in the objects.
    pub secret_data: BTreeMap<String, String>,
}

impl fmt::Debug for Sensitive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.secret_data.keys()).finish()
    }
}

/// What `list` is told.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ListCall {
    /// Of which class.
    pub class: Class,
    /// What nobody else is to see.
    pub sensitive: Sensitive,
}

/// What `collect` is told.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Collect {
    /// Of which class.
    pub class: Class,
    /// What nobody else is to see.
    pub sensitive: Sensitive,
    /// VMs of the class that no machine owns: the names of the machines that they were made for, by their provider IDs.
    pub orphans: BTreeMap<String, String>,
    /// How long each has to have been one.
    pub wait_seconds: u64,
}

impl Collect {
    /// The deletion of one of them: it has no machine, and so no UID.
    pub(super) fn deletion(&self, namespace: &str, id: &str, machine: &str, state: Option<String>) -> Call {
        Call {
            machine: Machine {
                namespace: namespace.to_owned(),
                name: machine.to_owned(),
                uid: String::new(),
                provider_id: Some(id.to_owned()),
                node_name: None,
            },
            class: self.class.clone(),
            sensitive: self.sensitive.clone(),
            last_known_state: state,
        }
    }
}

/// What `operations` and `token` are told.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Whose {
    /// The Machine's UID.
    pub uid: String,
}

/// Reads arguments; what is wrong with them is the plugin's fault.
pub fn read<'t, T: Deserialize<'t>>(what: &str, arguments: &'t str) -> Result<T, Failure> {
    serde_json::from_str(arguments).map_err(|cause| {
        // The text may hold secrets, and serde quotes what it stumbles over: only the place is told.
        let message =
            format!("the arguments of {what} are not as they should be, at column {}", cause.column());
        Failure::new(FailureKind::Invalid, message)
    })
}

/// The UID of the machine that arguments are about; "" where they are about none.
pub(super) fn uid(arguments: &str) -> String {
    #[derive(Default, Deserialize)]
    struct About {
        #[serde(default)]
        uid: String,
        #[serde(default)]
        machine: Option<Uid>,
    }
    #[derive(Deserialize)]
    struct Uid {
        #[serde(default)]
        uid: String,
    }
    let about: About = serde_json::from_str(arguments).unwrap_or_default();
    about.machine.map_or(about.uid, |machine| machine.uid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_prints_the_names_of_secrets_and_no_value() {
        let text = r#"{"machine":{"namespace":"a","name":"b","uid":"u"},"class":{"name":"c","provider":"p","providerSpec":{}},"sensitive":{"secretData":{"userData":"aGlkZGVu"}}}"#;
        let call: Call = read("create", text).expect("it reads");
        let printed = format!("{call:?}");
        assert!(printed.contains("userData") && !printed.contains("aGlkZGVu"), "{printed}");
    }

    #[test]
    fn a_call_that_is_wrong_is_refused_without_a_word_of_it() {
        let failure = read::<Call>("create", r#"{"sensitive":"aGlkZGVu"}"#).expect_err("it is refused");
        assert_eq!(failure.kind, FailureKind::Invalid);
        assert_eq!(&*failure.message, "the arguments of create are not as they should be, at column 23");
    }
}
