//! What stands in the way of a machine, and if nothing does, what it shall be made of.

use std::time::Duration;

use evenkeel_sdk::{Pass, Served, Stop};

use super::disk::{self, Disk};
use super::parts::{Child, Parts};
use crate::api::KiteVirtualMachine;
use crate::credentials::{self, Credentials};
use crate::domain::{self, Claimant, Domain};
use crate::identity::Identity;
use crate::kinds::Claim;
use crate::ownership::Ownership;
use crate::spec::{self, Spec};
use crate::verdict::{Reason, Verdict};

/// When to look again at what an operator has to mend.
const OPERATOR: Duration = Duration::from_secs(60);
/// When to look again at what the garbage collector is about to take.
pub(super) const COLLECTOR: Duration = Duration::from_secs(5);

/// What a machine shall be made of.
pub struct Plan {
    /// The checked specification.
    pub spec: Spec,
    /// How one logs in.
    pub login: Credentials,
    /// Its host name, or why it has none.
    pub domain: Domain,
    /// What to do about the disk.
    pub disk: Disk,
}

/// What stands in the way.
pub struct Obstacle {
    /// As the status says it.
    pub verdict: Verdict,
    /// When to look again, if no change announces that it is gone.
    pub again_after: Option<Duration>,
}

impl Obstacle {
    /// One that a change lifts.
    pub fn until_changed(reason: Reason, message: &str) -> Self {
        Self { verdict: Verdict::refused(reason, message), again_after: None }
    }
}

impl From<Verdict> for Obstacle {
    fn from(verdict: Verdict) -> Self {
        Self { verdict, again_after: None }
    }
}

/// Plans a machine; the first obstacle counts.
pub fn plan(
    pass: &Pass,
    machine: &KiteVirtualMachine,
    id: &Identity,
    parts: &Parts,
) -> Result<Result<Plan, Obstacle>, Stop> {
    let spec = match specification(machine, id, parts) {
        Ok(spec) => spec,
        Err(obstacle) => return Ok(Err(obstacle)),
    };
    let config = &parts.config;
    let wanted = domain::wanted(machine.spec.domain_prefix.as_deref(), config);
    let claimants = wanted.host().map(|_| {
        let prefix = machine.spec.domain_prefix.clone().unwrap_or_default();
        pass.list::<Claimant>().field("/spec/domainPrefix", prefix).ask()
    });
    let image = disk::is_wanted(machine, id, parts)
        .then(|| pass.get::<Claim>((&config.golden_image_namespace, &spec.image)).ask());
    let claimants = claimants.map(|claimants| claimants.read()).transpose()?.unwrap_or_default();
    let image = image.map(|image| image.read()).transpose()?.flatten();

    let domain = domain::settle(wanted, machine, &claimants);
    Ok(conflict(id, parts, &domain)
        .and_then(|()| {
            Ok(credentials::resolve(id, &spec, parts.guest_login.as_ref(), parts.ssh_key.as_ref())?)
        })
        .and_then(|login| Ok((login, disk::decide(machine, id, parts, &spec, image.as_ref())?)))
        .map(|(login, disk)| Plan { spec, login, domain, disk }))
}

/// The checks that need nothing but the machine, the configuration and the kinds that are served.
fn specification(machine: &KiteVirtualMachine, id: &Identity, parts: &Parts) -> Result<Spec, Obstacle> {
    let config = &parts.config;
    if config.is_reserved_namespace(&id.namespace) {
        let message = format!("the namespace {} belongs to the platform", id.namespace);
        return Err(Obstacle::until_changed(Reason::NamespaceNotAllowed, &message));
    }
    let spec = spec::check(&id.name, &machine.spec)
        .map_err(|problems| Obstacle::until_changed(Reason::InvalidSpec, &problems))?;
    if !config.allows_image(&spec.image) {
        let message = format!("the image {} is not among the allowed ones", spec.image);
        return Err(Obstacle::until_changed(Reason::ImageNotAllowed, &message));
    }
    let missing = |what: &str| {
        let verdict = Verdict::refused(Reason::DependencyMissing, &format!("{what} is not installed"));
        Obstacle { verdict, again_after: Some(OPERATOR) }
    };
    if matches!(parts.evidence.vm, Served::No) {
        return Err(missing("KubeVirt (kubevirt.io/v1)"));
    }
    if matches!(parts.evidence.volume, Served::No) {
        return Err(missing("CDI (cdi.kubevirt.io/v1beta1)"));
    }
    Ok(spec)
}

/// Whether a part's name is taken. An Ingress of somebody else is in the way only if one is wanted.
fn conflict(id: &Identity, parts: &Parts, domain: &Domain) -> Result<(), Obstacle> {
    let [volume, cloud_init, vm, ssh, web, ingress] = parts.all(id);
    let mut wanted = vec![volume, cloud_init, vm, ssh, web];
    if domain.host().is_some() {
        wanted.push(ingress);
    }
    let of = |ownership| wanted.iter().find(move |child| child.ownership == ownership);
    if let Some(child) = of(Ownership::Foreign) {
        return Err(taken(child));
    }
    if let Some(child) = of(Ownership::Stale) {
        let message = format!("waiting until {} of an earlier machine is gone", child.text());
        let verdict = Verdict::pending(Reason::PreviousInstanceTerminating, &message);
        return Err(Obstacle { verdict, again_after: Some(COLLECTOR) });
    }
    Ok(())
}

/// An object of somebody else has the name of a part.
pub(super) fn taken(child: &Child) -> Obstacle {
    let message = format!("{} exists and is somebody else's", child.text());
    Obstacle { verdict: Verdict::refused(Reason::ResourceConflict, &message), again_after: Some(OPERATOR) }
}
