//! The Secret controller: our finalizer holds a Secret while classes refer to it, so that credentials outlive the last VM.
//!
//! It sees metadata alone, never data.

use evenkeel_sdk::{Conclusion, Pass, Stop, act};

use crate::config::Config;
use crate::kinds::{ClassHead, Named, SecretHead, SecretReference};
use crate::names;
use crate::words::listed;

#[cfg(test)]
mod tests;

/// How a Secret stands, in the specification's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Z1: live, referred to, without our finalizer.
    Unprotected,
    /// Z2: live, referred to, held.
    Protected,
    /// Z3: held for nobody, whether or not it is being deleted.
    HeldForNobody,
    /// Z4: nobody's business.
    Unused,
    /// Z5: being deleted, held as it is referred to.
    Held,
    /// Z6: being deleted and referred to, and held by others at best.
    Slipping,
}

impl Standing {
    /// From what counts: is it being deleted, does any class refer to it, does it bear our finalizer.
    pub fn of(deleting: bool, referred: bool, held: bool) -> Self {
        match (deleting, referred, held) {
            (false, true, false) => Self::Unprotected,
            (false, true, true) => Self::Protected,
            (_, false, true) => Self::HeldForNobody,
            (_, false, false) => Self::Unused,
            (true, true, true) => Self::Held,
            (true, true, false) => Self::Slipping,
        }
    }
}

/// Hold the Secret while classes refer to it.
pub fn reconcile(pass: &Pass) -> Result<Conclusion, Stop> {
    let Some(secret) = pass.primary::<SecretHead>()? else { return Ok(Conclusion::new()) };
    let config: Config = pass.config()?;
    let classes = referring(pass, &config)?;
    let key = pass.key().clone();
    let held = secret.bears(names::SECRET_FINALIZER);
    let end = Conclusion::new();
    Ok(match Standing::of(secret.is_deleting(), !classes.is_empty(), held) {
        Standing::Unprotected => {
            end.with(act::add_finalizer(key, names::SECRET_FINALIZER)).requeue_after(config.long_retry.0)
        }
        Standing::Protected | Standing::Unused => end.requeue_after(config.long_retry.0),
        Standing::HeldForNobody => {
            let end = end.with(act::remove_finalizer(key, names::SECRET_FINALIZER));
            if secret.is_deleting() { end } else { end.requeue_after(config.long_retry.0) }
        }
        Standing::Held => end
            .with(act::warning(key, names::STILL_REFERENCED, still_refer_here(&classes)))
            .requeue_after(config.short_retry.0),
        Standing::Slipping => {
            let message = format!(
                "{}; it can no longer be given the finalizer {}",
                still_refer_here(&classes),
                names::SECRET_FINALIZER
            );
            end.with(act::warning(key, names::DELETED_WHILE_REFERENCED, message))
        }
    })
}

fn still_refer_here(classes: &[String]) -> String {
    let (plural, verb) = if classes.len() == 1 { ("", "refers") } else { ("es", "refer") };
    format!("{} class{plural} still {verb} to this Secret: {}", classes.len(), listed(classes))
}

/// The classes that refer to the Secret by either of their references, as `namespace/name`.
fn referring(pass: &Pass, config: &Config) -> Result<Vec<String>, Stop> {
    let mut asked = Vec::new();
    for field in ["/secretRef/name", "/credentialsSecretRef/name"] {
        let list = || pass.list::<ClassHead>().field(field, pass.name());
        match &config.namespaces {
            None => asked.push(list().ask()),
            Some(namespaces) => {
                asked.extend(namespaces.iter().map(|namespace| list().namespace(namespace).ask()));
            }
        }
    }
    let here = Some((pass.namespace(), pass.name()));
    let mut classes = Vec::new();
    for list in asked {
        for class in list.read()? {
            let means = |reference: &Option<SecretReference>| {
                reference.as_ref().and_then(|reference| reference.place(class.namespace())) == here
            };
            if means(&class.secret_ref) || means(&class.credentials_secret_ref) {
                classes.push(format!("{}/{}", class.namespace(), class.name()));
            }
        }
    }
    classes.sort();
    classes.dedup();
    Ok(classes)
}
