//! A user goes: what isolates the namespace is taken back, unless others or machines still need it. The namespace
//! itself is R2's, after its grace.

use evenkeel_sdk::{Conclusion, Kind, Meta, Pass, Stop, act, reference};
use k8s_openapi::api::core::v1::ResourceQuota;
use k8s_openapi::api::networking::v1::NetworkPolicy;

use super::status::{self, Verdict};
use super::view::{Claimant, Owned, Tenant, User};
use crate::api::KiteVirtualMachine;
use crate::config::{RuntimeConfig, USER_KEYS};
use crate::names;

/// Take back what the user had, then let the user go.
pub(super) fn reconcile(pass: &Pass, user: &User) -> Result<Conclusion, Stop> {
    if !user.has_finalizer() {
        return Ok(Conclusion::new());
    }
    let mut end = Conclusion::new();
    if namespace_is_to_be_opened(pass, user)? {
        let wanted = user.spec.namespace.as_str();
        let now = pass.clock();
        let quota = pass.get::<Owned<ResourceQuota>>((wanted, names::QUOTA)).ask();
        let egress = pass.get::<Owned<NetworkPolicy>>((wanted, names::EGRESS_POLICY)).ask();
        let ingress = pass.get::<Owned<NetworkPolicy>>((wanted, names::INGRESS_POLICY)).ask();
        let (now, quota, egress, ingress) = (now.read()?, quota.read()?, egress.read()?, ingress.read()?);
        if let Some(failed) = pass.last_failure() {
            // A clean-up that succeeds at once leaves nobody to read its status.
            let verdict = Verdict::Deleting(format!("cleanup is under way: {}", failed.failure.message));
            end.push(status::action(pass, user, now, verdict));
        }
        delete_ours(&mut end, wanted, names::QUOTA, quota);
        delete_ours(&mut end, wanted, names::EGRESS_POLICY, egress);
        delete_ours(&mut end, wanted, names::INGRESS_POLICY, ingress);
    }
    Ok(end.with(act::remove_finalizer(pass.key().clone(), names::USER_FINALIZER)))
}

/// Whether this was the last user of a namespace of ours in which no machine is left.
fn namespace_is_to_be_opened(pass: &Pass, user: &User) -> Result<bool, Stop> {
    let wanted = user.spec.namespace.as_str();
    if !names::is_dns_label(wanted) {
        return Ok(false);
    }
    let config = RuntimeConfig::ask(pass, USER_KEYS);
    let tenant = pass.get::<Tenant>(wanted).ask();
    let claimants = pass.list::<Claimant>().field("/spec/namespace", wanted).ask();
    let machines = pass.list::<Meta<KiteVirtualMachine>>().namespace(wanted).view(&["/metadata/name"]).ask();
    let (config, tenant, claimants, machines) =
        (config.read()?, tenant.read()?, claimants.read()?, machines.read()?);
    let ours = tenant.is_some_and(|tenant| tenant.is_managed() && !tenant.is_terminating());
    let referenced =
        claimants.iter().any(|other| other.is_live() && other.metadata.name != user.metadata.name);
    // Isolation must not drop while machines run: with them, the policies go when the namespace does.
    Ok(ours && !config.is_reserved_namespace(wanted) && !referenced && machines.is_empty())
}

fn delete_ours<K: Kind>(end: &mut Conclusion, namespace: &str, name: &str, object: Option<Owned<K>>) {
    if let Some(object) = object.filter(Owned::is_ours) {
        end.push(act::delete(reference::<K>((namespace, name))).uid(object.uid()));
    }
}
