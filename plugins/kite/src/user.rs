//! R1: a user's namespace, isolated and limited; and what is taken back when the user goes.
//!
//! A namespace that another user references, or that has an old user, is R2's business: it is never deleted here.

use std::time::Duration;

use evenkeel_sdk::{Action, Conclusion, Pass, Stop, act, reference};
use k8s_openapi::api::core::v1::{Namespace, ResourceQuota};

use crate::api::KiteUser;
use crate::config::{RuntimeConfig, USER_KEYS};
use crate::names;

mod deletion;
mod failure;
mod render;
mod status;
mod view;

#[cfg(test)]
mod tests;

use status::Verdict;
pub use view::PRIMARY as VIEW;
use view::{Claimant, Owned, Tenant, User};

/// When to look again at what only somebody else can mend.
const LOOK_AGAIN: Duration = Duration::from_secs(180);
/// When to look again at a namespace that is going away.
const TERMINATING: Duration = Duration::from_secs(5);

/// Bring a user's namespace about, and say in the status how far it got.
pub fn reconcile(pass: &Pass) -> Result<Conclusion, Stop> {
    let Some(user) = pass.primary::<User>()? else { return Ok(Conclusion::new()) };
    if user.metadata.deletion_timestamp.is_some() {
        return deletion::reconcile(pass, &user);
    }
    let mut end = Conclusion::new();
    if !user.has_finalizer() {
        end.push(act::add_finalizer(pass.key().clone(), names::USER_FINALIZER));
    }
    let wanted = user.spec.namespace.as_str();
    let clock = pass.clock();
    if !names::is_dns_label(wanted) {
        let message = "spec.namespace: not a DNS label (1 to 63 of a-z, 0-9 and -)";
        let verdict = Verdict::Failed("InvalidSpec", message.to_owned());
        return Ok(end.with(status::action(pass, &user, clock.read()?, verdict)));
    }
    let config = RuntimeConfig::ask(pass, USER_KEYS);
    let tenant = pass.get::<Tenant>(wanted).ask();
    let claimants = pass.list::<Claimant>().field("/spec/namespace", wanted).ask();
    let (now, config, tenant) = (clock.read()?, config.read()?, tenant.read()?);
    let (claimants, failed) = (claimants.read()?, failure::of_last_pass(pass));

    if config.is_reserved_namespace(wanted) {
        let verdict =
            Verdict::Failed("NamespaceReserved", format!("the name {wanted} belongs to the platform"));
        return Ok(end.with(status::action(pass, &user, now, verdict)));
    }
    if let Some((verdict, wait)) = obstacle(wanted, tenant.as_ref(), &failed) {
        return Ok(end.with(status::action(pass, &user, now, verdict)).requeue_after(wait));
    }
    if let failure::Last::Again(message) = failed {
        // Before the next try: should that fail too, the user has been told.
        end.push(status::action(pass, &user, now, Verdict::Failed("ApplyFailed", message)));
    }
    end.extend(namespace_actions(&user, wanted, tenant.as_ref()));
    end.push(act::apply(&render::ingress_policy(wanted, &config)).force());
    end.push(act::apply(&render::egress_policy(wanted, &config)).force());
    match &config.quota {
        Some(quota) => end.push(act::apply(&render::quota(wanted, quota)).force()),
        None => end.extend(surplus_quota(pass, wanted)?),
    }
    end.extend(config.complaint());
    end.extend(shared(pass, &user, &claimants));
    end.push(status::action(
        pass,
        &user,
        now,
        Verdict::Ready { namespace: wanted, quota: config.quota.is_some() },
    ));
    Ok(end)
}

/// Why nothing can be applied now, and when to look again.
fn obstacle(
    wanted: &str,
    tenant: Option<&Tenant>,
    failed: &failure::Last,
) -> Option<(Verdict<'static>, Duration)> {
    let verdict = match tenant {
        Some(tenant) if tenant.is_terminating() => {
            let message = format!("waiting until the old namespace {wanted} is gone");
            return Some((Verdict::Pending("NamespaceTerminating", message), TERMINATING));
        }
        Some(tenant) if !tenant.is_managed() => {
            Verdict::Failed("NamespaceNotManaged", format!("the namespace {wanted} exists and is not Kite's"))
        }
        Some(tenant) if tenant.name_label() != Some(wanted) && failed.is_label_conflict() => {
            Verdict::Failed("FieldConflict", failed.message())
        }
        Some(_) | None => match failed {
            failure::Last::Rejected(message) => Verdict::Failed("ApplyFailed", message.clone()),
            failure::Last::LabelConflict(_) | failure::Last::Again(_) | failure::Last::Nothing => {
                return None;
            }
        },
    };
    Some((verdict, LOOK_AGAIN))
}

/// The namespace itself: created, never taken over; its labels without force, for they decide whose it is.
fn namespace_actions(user: &User, wanted: &str, tenant: Option<&Tenant>) -> Vec<Action> {
    let Some(tenant) = tenant else {
        return vec![
            act::create(&render::new_namespace(wanted, &user.metadata.name, &user.metadata.uid)).into(),
        ];
    };
    let mut actions = Vec::new();
    if tenant.name_label() != Some(wanted) {
        // Where both labels are right nothing is written: who created the namespace may own them.
        actions.push(act::apply(&render::namespace_labels(wanted)).into());
    }
    if tenant.orphaned_since().is_some() {
        // Guarded by what this pass saw: it and R2's deletion cannot both succeed.
        actions.push(act::patch(reference::<Namespace>(wanted), &render::not_orphaned()));
    }
    actions
}

/// A quota of ours where quotas are off.
fn surplus_quota(pass: &Pass, wanted: &str) -> Result<Option<Action>, Stop> {
    let place = (wanted, names::QUOTA);
    let quota = pass.get::<Owned<ResourceQuota>>(place).read()?;
    Ok(quota
        .filter(Owned::is_ours)
        .map(|quota| act::delete(reference::<ResourceQuota>(place)).uid(quota.uid()).into()))
}

/// Tells a user who is not the first in a namespace that it is shared; once, when the namespace is taken.
fn shared(pass: &Pass, user: &User, claimants: &[Claimant]) -> Option<Action> {
    let wanted = user.spec.namespace.as_str();
    if user.status.observed_namespace.as_deref() == Some(wanted) {
        return None;
    }
    let first = claimants
        .iter()
        .filter(|other| other.is_live() && other.metadata.name != user.metadata.name)
        .find(|other| other.has_taken(wanted) || other.metadata.age() < user.metadata.age())?;
    let message = format!("the namespace {wanted} is shared with the user {}", first.metadata.name);
    Some(act::warning(reference::<KiteUser>(pass.name()), "SharedNamespace", message))
}
