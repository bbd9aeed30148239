//! What a conclusion left behind, held against what is there now; where it drifted, it is applied again without a
//! call of the plugin.

mod siblings;

use std::sync::{Arc, PoisonError};

use evenkeel_cluster::Lookup;
use evenkeel_core::admit::Verdict;
use evenkeel_core::contract::{Action, Apply};
use evenkeel_core::object::CachedObject;
use evenkeel_core::target::ActionTarget;
use serde_json::Value;

use super::act::need;
use super::look::{Look, Stop};
use crate::answers::action_depth;
use crate::keys::{Kept, Memo};

/// Looks at everything that the remembered conclusion applied, and repairs what drifted.
pub(super) async fn repair(look: &mut Look<'_>) -> Result<(), Stop> {
    let Some(memo) = look.taken.memo.clone() else { return Ok(()) };
    look.notes.repair();
    for kept in &memo.kept {
        if let Some(action) = drifted(look, kept)? {
            // Somebody may be at it as stubbornly as we are.
            if !look.shared.may_run(look.taken) {
                return Err(Stop::Slowed);
            }
            let target = ActionTarget::of(&action).map_err(|fault| look.stop_at(&action, fault.failure()))?;
            look.act(&target).await?;
        }
    }
    prune(look, &memo).await
}

/// Deletes what has come under the primary's control since and was never applied.
async fn prune(look: &mut Look<'_>, memo: &Memo) -> Result<(), Stop> {
    if memo.prune.is_empty() {
        return Ok(());
    }
    look.made = memo.made.clone();
    if look.victims(&memo.prune, &memo.made)?.is_empty() {
        return Ok(());
    }
    look.check_evidence(look.prune_queries(&memo.prune)).await?;
    look.prune(&memo.prune).await
}

/// The action that repairs what an earlier one left behind; none where it is as it was left.
pub(super) fn drifted(look: &Look<'_>, kept: &Kept) -> Result<Option<Action>, Stop> {
    let depth = action_depth(&kept.action);
    let current = match look.shared.cluster.get_at(&kept.object, depth) {
        Lookup::Found(current) => Some(current),
        Lookup::Absent => None,
        Lookup::Unserved => return Ok(None),
        Lookup::NotSynced => return Err(Stop::Wait(need(&kept.object, depth))),
    };
    let revision = current.as_ref().map(|current| &*current.head().resource_version);
    // Held for a moment only, and by one pass of this key at a time.
    let mut sound_at = kept.sound_at.lock().unwrap_or_else(PoisonError::into_inner);
    if revision.is_some() && sound_at.as_deref() == revision {
        return Ok(None);
    }
    let action = differs(look, kept, current.as_ref());
    if action.is_none() {
        *sound_at = revision.map(str::to_owned);
    }
    Ok(action)
}

fn differs(look: &Look<'_>, kept: &Kept, current: Option<&Arc<CachedObject>>) -> Option<Action> {
    let would_change = |action: &Action| {
        let target = ActionTarget::of(action).ok()?;
        Some(!matches!(look.admit(&target, current.map(|current| &**current)), Verdict::Skip(_)))
    };
    if !would_change(&kept.action)? {
        return None;
    }
    if look.shared.state().applied_by_another(look.taken.key, &kept.object, &kept.action) {
        return None;
    }
    match current.and_then(|current| without_siblings(look, &kept.action, current)) {
        // What is left of it once a sibling's fields are out is what may have drifted.
        Some(left) => would_change(&left)?.then_some(left),
        None => Some(kept.action.clone()),
    }
}

/// The action without the fields that a controller of the same plugin has taken over; none where it took none.
fn without_siblings(look: &Look<'_>, action: &Action, current: &CachedObject) -> Option<Action> {
    let (apply, subresource) = match action {
        Action::Apply(apply) => (apply, None),
        Action::ApplyStatus(apply) => (apply, Some("status")),
        _ => return None,
    };
    let manager = &look.taken.plan().manager;
    let family = format!("evenkeel/{}/", look.taken.loaded.name());
    let fields = |text: &str| serde_json::from_str::<Value>(text).ok();
    let ours = current.managed(manager, subresource).and_then(fields);
    let managed = current.head().managed.iter();
    let siblings: Vec<_> = managed
        .filter(|other| other.manager.starts_with(&family) && *other.manager != **manager)
        .filter(|other| other.subresource.as_deref() == subresource)
        .filter_map(|other| fields(&other.fields))
        .collect();
    if siblings.is_empty() {
        return None;
    }
    let applied: Value = serde_json::from_str(&apply.object).ok()?;
    let left = siblings::without_taken(&applied, ours.as_ref(), &siblings)?;
    let apply = Apply { object: left.to_string().into(), ..apply.clone() };
    Some(match subresource {
        Some(_) => Action::ApplyStatus(apply),
        None => Action::Apply(apply),
    })
}
