//! R3's share of a machine's status.

use evenkeel_sdk::{Action, ConditionStatus};

use super::parts::Parts;
use super::plan::Plan;
use crate::api::KiteVirtualMachine;
use crate::domain::{self, Domain};
use crate::identity::Identity;
use crate::render::service::Which;
use crate::status::{self, Draft};
use crate::summary::Summary;
use crate::verdict::{self, Verdict};

/// The status of a machine whose parts are applied.
pub fn applied(
    machine: &KiteVirtualMachine,
    id: &Identity,
    parts: &Parts,
    plan: &Plan,
    verdict: &Verdict,
) -> (Action, Summary) {
    let summary = parts.evidence.summary(machine, Some(verdict));
    let mut draft = Draft::summarized(machine, parts.evidence.now, &summary);
    let fields = &mut draft.fields;
    fields.observed_generation = machine.metadata.generation;
    fields.domain = plan.domain.host().map(str::to_owned);
    fields.cloud_init_secret_name = Some(id.cloud_init());
    fields.ssh_key_secret_name = Some(id.ssh_key());
    fields.service_name = Some(Which::Ssh.name(id));
    fields.data_volume_name = Some(id.disk());
    draft.set(verdict::CONDITION, verdict.status(), verdict.reason(), verdict.message());
    match &plan.domain {
        Domain::None => {}
        Domain::Host(host) => {
            draft.set(domain::CONDITION, ConditionStatus::True, "Assigned", &format!("the domain is {host}"));
        }
        Domain::Refused(reason, message) => {
            draft.set(domain::CONDITION, ConditionStatus::False, reason, message);
        }
    }
    (draft.into_action(), summary)
}

/// The status of a machine whose parts are left as they are; none of what was applied is unsaid.
pub fn held(machine: &KiteVirtualMachine, parts: &Parts, verdict: &Verdict) -> (Action, Summary) {
    let summary = parts.evidence.summary(machine, Some(verdict));
    let mut draft = with_last(machine, parts, &summary);
    draft.fields.domain = status::of(machine).domain;
    draft.set(verdict::CONDITION, verdict.status(), verdict.reason(), verdict.message());
    draft.keep(domain::CONDITION);
    (draft.into_action(), summary)
}

/// The status of a machine that goes.
pub fn deleting(machine: &KiteVirtualMachine, parts: &Parts) -> (Action, Summary) {
    let summary = parts.evidence.summary(machine, None);
    let mut draft = with_last(machine, parts, &summary);
    draft.keep(verdict::CONDITION);
    (draft.into_action(), summary)
}

fn with_last<'m>(machine: &'m KiteVirtualMachine, parts: &Parts, summary: &Summary) -> Draft<'m> {
    let last = status::of(machine);
    let mut draft = Draft::summarized(machine, parts.evidence.now, summary);
    let fields = &mut draft.fields;
    fields.observed_generation = last.observed_generation;
    fields.cloud_init_secret_name = last.cloud_init_secret_name;
    fields.ssh_key_secret_name = last.ssh_key_secret_name;
    fields.service_name = last.service_name;
    fields.data_volume_name = last.data_volume_name;
    draft
}
