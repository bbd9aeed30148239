//! How far a machine's disk is, from what CDI says.

use evenkeel_sdk::{ConditionStatus, clean_message};

use crate::kinds::{Condition, DataVolume, DataVolumeStatus};

/// Attempts after which a copy that keeps failing counts as failed: CDI itself never gives up.
const RESTARTS_MAX: i64 = 3;
/// Highest progress, in percent.
const PERCENT_MAX: u32 = 100;

/// How far a disk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskState {
    /// Filled.
    Ready,
    /// It will not become ready by itself.
    Failed,
    /// It is filled once the machine starts.
    WaitingConsumer,
    /// It is being filled.
    InProgress,
    /// Nothing has begun.
    Waiting,
    /// There is none.
    Missing,
}

/// A disk as a status shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// How far it is.
    pub state: DiskState,
    /// Status of the condition `DiskReady`.
    pub ready: ConditionStatus,
    /// Reason of that condition.
    pub reason: &'static str,
    /// What CDI says, fit for a status.
    pub message: String,
    /// CDI's phase; none where there is no DataVolume to say one.
    pub phase: Option<String>,
}

impl Disk {
    /// From the DataVolume, or where that was collected, from the claim that it left (`claimed`).
    pub fn of(volume: Option<&DataVolume>, claimed: bool) -> Self {
        match volume {
            Some(volume) => Self::of_status(&volume.status),
            None if claimed => Self {
                state: DiskState::Ready,
                ready: ConditionStatus::True,
                reason: "DataVolumeReady",
                message: "the disk is filled".to_owned(),
                phase: Some("Succeeded".to_owned()),
            },
            None => Self {
                state: DiskState::Missing,
                ready: ConditionStatus::False,
                reason: "DataVolumeMissing",
                message: "there is no DataVolume".to_owned(),
                phase: None,
            },
        }
    }

    fn of_status(status: &DataVolumeStatus) -> Self {
        let phase = status.phase.as_deref().filter(|phase| !phase.is_empty()).unwrap_or("Pending");
        let (state, ready, reason) = override_of(status).unwrap_or_else(|| by_phase(phase));
        let phase = clean_message(phase);
        let message = message_of(status).unwrap_or_else(|| format!("DataVolume phase is {phase}"));
        Self { state, ready, reason, message: clean_message(&message), phase: Some(phase) }
    }
}

/// A progress fit for a status: `N/A` or a percentage up to 100.
pub fn progress(text: &str) -> Option<&str> {
    if text == "N/A" {
        return Some(text);
    }
    let number = text.strip_suffix('%')?;
    let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str, most: usize| {
        (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    let plain = digits(whole, 3) && digits(decimals, 4);
    let percent: u32 = whole.parse().ok()?;
    let over = percent > PERCENT_MAX || percent == PERCENT_MAX && decimals.bytes().any(|digit| digit != b'0');
    (plain && !over).then_some(text)
}

/// Whether two progresses are the same to the whole percent: CDI writes a new one every two seconds.
pub fn is_same_percent(one: &str, other: &str) -> bool {
    let whole = |text: &str| text.split(['.', '%']).next().map(str::to_owned);
    whole(one) == whole(other)
}

type Judgement = (DiskState, ConditionStatus, &'static str);

fn by_phase(phase: &str) -> Judgement {
    match phase {
        "Succeeded" => (DiskState::Ready, ConditionStatus::True, "DataVolumeReady"),
        "Failed" => (DiskState::Failed, ConditionStatus::False, "DataVolumeFailed"),
        "WaitForFirstConsumer" | "PendingPopulation" => {
            (DiskState::WaitingConsumer, ConditionStatus::False, "WaitingForFirstConsumer")
        }
        "ImportScheduled"
        | "ImportInProgress"
        | "CloneScheduled"
        | "CloneInProgress"
        | "SnapshotForSmartCloneInProgress"
        | "CloneFromSnapshotSourceInProgress"
        | "SmartClonePVCInProgress"
        | "CSICloneInProgress"
        | "ExpansionInProgress"
        | "NamespaceTransferInProgress"
        | "PrepClaimInProgress"
        | "RebindInProgress"
        | "UploadScheduled"
        | "UploadReady"
        | "PVCBound" => (DiskState::InProgress, ConditionStatus::False, "DataVolumeProgress"),
        "Unknown" => (DiskState::Waiting, ConditionStatus::Unknown, "DataVolumePending"),
        // `Pending`, `Paused`, and what CDI may still invent.
        _ => (DiskState::Waiting, ConditionStatus::False, "DataVolumePending"),
    }
}

/// What the conditions know better than the phase: a crashing copy stays "in progress", a full quota stays "pending".
fn override_of(status: &DataVolumeStatus) -> Option<Judgement> {
    let running = condition(status, "Running");
    if running.is_some_and(|running| {
        running.status == "False" && ["Error", "ImagePullFailed"].contains(&running.reason.as_str())
    }) {
        if status.restart_count >= RESTARTS_MAX {
            return Some((DiskState::Failed, ConditionStatus::False, "DataVolumeError"));
        }
        let (state, ready, _) = by_phase(status.phase.as_deref().unwrap_or_default());
        if state != DiskState::Ready {
            return Some((state, ready, "DataVolumeRetrying"));
        }
    }
    let bound = condition(status, "Bound").filter(|bound| bound.status != "True")?;
    match bound.reason.as_str() {
        "ErrExceededQuota" => Some((DiskState::Waiting, ConditionStatus::False, "QuotaExceeded")),
        "CloneWithoutSource" => Some((DiskState::Waiting, ConditionStatus::False, "GoldenImageMissing")),
        _ => None,
    }
}

/// The condition message that says most: an error of the copying pod before the word that the claim is bound.
fn message_of(status: &DataVolumeStatus) -> Option<String> {
    let (running, bound) = (condition(status, "Running"), condition(status, "Bound"));
    let trouble = running
        .filter(|running| ["Error", "ImagePullFailed", "Unschedulable"].contains(&running.reason.as_str()));
    let unbound = bound.filter(|bound| bound.status != "True");
    [trouble, unbound, condition(status, "Ready"), running]
        .into_iter()
        .flatten()
        .map(|condition| condition.message.clone())
        .find(|message| !message.is_empty())
}

fn condition<'s>(status: &'s DataVolumeStatus, type_: &str) -> Option<&'s Condition> {
    status.conditions.iter().find(|condition| condition.type_ == type_)
}

#[cfg(test)]
mod tests;
