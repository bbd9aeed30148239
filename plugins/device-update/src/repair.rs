//! D1: spec files that are missing, damaged, or at odds with each other because a write was cut short.

use std::collections::BTreeMap;

use evenkeel_sdk::Pass;

use crate::config::Config;
use crate::device::Device;
use crate::flow::{Done, Flow, Halt};
use crate::names::events;
use crate::observe::{self, Observed};
use crate::primary::Primary;
use crate::staging;
use crate::state::{Ended, FailedVersion, From, Phase, State, Target, Update};
use crate::words::{Rollback, Source, WriteSpec};

/// What has to be written to have the files whole again.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Repair {
    /// Files that were not whole, by name.
    broken: Vec<&'static str>,
    /// None was there at all.
    first_start: bool,
    desired: Option<Source>,
    current: Option<Source>,
    clear_rollback: bool,
    /// The state has to be written down.
    state: bool,
    /// An update was made up that has to be told where it starts.
    made_up: bool,
}

/// Reads what was observed, with what is missing made up from the rest.
pub fn read(pass: &Pass, config: Config, primary: Primary, observed: Observed) -> (Flow<'_>, Repair) {
    let Observed { files, boot, rendered, identity, resources, applications, os } = observed;
    let mut remarks = Vec::new();
    let offered = observe::offered(&config, &rendered, &primary).unwrap_or_else(|remark| {
        pass.log(evenkeel_sdk::LogLevel::Warn, remark.clone());
        remarks.push(remark);
        None
    });
    remarks.extend(identity.skipped.iter().cloned());
    let (desired, current) = (observe::device_of(&files.desired), observe::device_of(&files.current));
    let way_back = observe::way_back_of(&files.rollback);
    let state = observe::state_of(&files.state);
    let (fixed, repair) = repaired(desired, current, way_back, state);
    let Fixed { desired, current, way_back, state } = fixed;
    let applications: BTreeMap<_, _> =
        applications.applications.into_iter().map(|seen| (seen.id.clone(), seen)).collect();
    let flow = Flow {
        pass,
        config,
        primary,
        state,
        desired,
        current,
        way_back,
        offered,
        remarks,
        boot,
        os,
        identity,
        resources,
        applications,
        events: Vec::new(),
        note: String::new(),
        again: None,
        done: Done::default(),
    };
    (flow, repair)
}

struct Fixed {
    desired: Device,
    current: Device,
    way_back: Option<crate::words::WayBack>,
    state: State,
}

fn empty() -> Device {
    Device { version: "0".to_owned(), ..Device::default() }
}

fn repaired(
    desired: Option<Device>,
    current: Option<Device>,
    way_back: Result<Option<crate::words::WayBack>, observe::Damaged>,
    state: Option<State>,
) -> (Fixed, Repair) {
    let mut repair = Repair::default();
    let lost = [desired.is_none(), current.is_none(), way_back.is_err(), state.is_none()];
    let names = ["desired.json", "current.json", "rollback.json", "update-state.json"];
    repair.broken = names.into_iter().zip(lost).filter(|(_, lost)| *lost).map(|(name, _)| name).collect();
    repair.clear_rollback = way_back.is_err();
    repair.first_start = lost.iter().all(|lost| *lost);
    let under_way = state.as_ref().is_some_and(|state| state.update.is_some());
    let (desired, current) = match (desired, current) {
        (None, None) => {
            repair.desired = Some(Source::Empty("0".to_owned()));
            repair.current = Some(Source::Empty("0".to_owned()));
            (empty(), empty())
        }
        (None, Some(current)) => {
            repair.desired = Some(Source::Current);
            (current.clone(), current)
        }
        (Some(desired), None) if under_way => {
            // What is managed tells which files are in the world.
            repair.current = Some(Source::Empty("0".to_owned()));
            (desired, empty())
        }
        (Some(desired), None) => {
            repair.current = Some(Source::Desired);
            (desired.clone(), desired)
        }
        (Some(desired), Some(current)) => (desired, current),
    };
    let way_back = way_back.unwrap_or_default();
    let mut fixed = match state {
        Some(state) => Fixed { desired, current, way_back, state },
        None => {
            repair.state = true;
            made_up(desired, current, way_back, &mut repair)
        }
    };
    cut_short(&mut fixed, &mut repair);
    (fixed, repair)
}

/// D1, the state: what the other files tell of it.
fn made_up(
    desired: Device,
    current: Device,
    way_back: Option<crate::words::WayBack>,
    repair: &mut Repair,
) -> Fixed {
    let mut state = State::empty();
    // Nobody knows what was there before: what is dropped later is removed, as flightctl's own agent does.
    for path in current.files().keys() {
        state.manage(path, None);
    }
    if desired.version != current.version {
        let tried = way_back.as_ref().is_some_and(|back| back.desired_version == desired.version);
        state.update =
            Some(update_to(&desired, &current, if tried { Phase::Staging } else { Phase::Preparing }));
        repair.made_up = true;
    } else if let Some(back) = &way_back {
        state.mark_failed(FailedVersion {
            version: back.desired_version.clone(),
            spec_hash: back.desired_spec_hash.clone(),
            at: String::new(),
            reason: "the way back from it was taken before the state was lost".to_owned(),
        });
        repair.clear_rollback = true;
    }
    Fixed { desired, current, way_back, state }
}

fn update_to(desired: &Device, current: &Device, phase: Phase) -> Update {
    Update {
        target: Target { version: desired.version.clone(), spec_hash: desired.hash.clone() },
        from: From { version: current.version.clone(), os_image: String::new() },
        phase,
        attempt: 1,
        ..Update::default()
    }
}

/// D1b, D1c: a write of several files that was cut short.
fn cut_short(fixed: &mut Fixed, repair: &mut Repair) {
    let Fixed { desired, current, way_back, state } = fixed;
    if state.update.is_none() && way_back.is_some() {
        // The update that it belonged to has ended.
        repair.clear_rollback = true;
    }
    match &state.update {
        None if desired.version != current.version => {
            let updated = state
                .last_outcome
                .as_ref()
                .is_some_and(|last| last.result == Ended::Updated && last.version == desired.version);
            let same = desired.is_same_but_consoles(current) && desired.number() > current.number();
            if updated || same {
                repair.current = Some(Source::Desired);
                *current = desired.clone();
            } else if state.has_failed(&desired.version, &desired.hash) || desired.number() < current.number()
            {
                repair.desired = Some(Source::Current);
                *desired = current.clone();
            } else {
                state.update = Some(update_to(desired, current, Phase::Preparing));
                repair.made_up = true;
                repair.state = true;
            }
        }
        // The rest, which needs what is offered, is decided when it is carried out.
        Some(_) | None => {}
    }
}

/// Writes down what was repaired, so that nothing is done before it is on disk.
pub fn carry_out(flow: &mut Flow<'_>, repair: &Repair) -> Result<(), Halt> {
    let Repair { broken, first_start, desired, current, clear_rollback, state, made_up } = repair;
    let mut files = WriteSpec { desired: desired.clone(), current: current.clone(), ..WriteSpec::default() };
    if *clear_rollback {
        files.rollback = Some(Rollback::Clear);
        flow.way_back = None;
    }
    let mut write = *state || desired.is_some() || current.is_some() || *clear_rollback;
    if *made_up {
        let os = flow.os()?;
        let now = flow.now_text()?;
        let back = flow.way_back.clone();
        if let Some(update) = &mut flow.state.update {
            update.from.os_image = back.map_or(os.booted.image, |back| back.os_image);
            update.since = now;
        }
    }
    if other_target(flow, &mut files)? {
        write = true;
    }
    if !write {
        return Ok(());
    }
    if files.rollback.is_some() || !broken.is_empty() || *made_up || write {
        flow.write("repair", files)?;
    }
    if !broken.is_empty() && !first_start {
        flow.warn(events::SPEC_FILES_REPAIRED, format!("put together again: {}", broken.join(", ")));
    }
    Ok(())
}

/// D1c: the state knows of an update that never came to desired.json.
fn other_target(flow: &mut Flow<'_>, files: &mut WriteSpec) -> Result<bool, Halt> {
    let Some(update) = &flow.state.update else { return Ok(false) };
    if update.target.version == flow.desired.version {
        return Ok(false);
    }
    match &flow.offered {
        Some(offered) if offered.device.version == update.target.version => {
            files.desired = Some(offered.source.clone());
            files.sensitive.device.clone_from(&offered.given);
            flow.desired = offered.device.clone();
        }
        // It was to overtake another one on the OS of both. Whatever it was is not known any more, but what it overtook is:
        // that one goes on. Dropped, it would leave the machine on an OS that no spec in effect names.
        Some(_) | None if update.rebooted && flow.desired.version != flow.current.version => {
            let target =
                Target { version: flow.desired.version.clone(), spec_hash: flow.desired.hash.clone() };
            let resumed = Update { target, ..update.clone() };
            let way_back = staging::way_back(&resumed);
            files.rollback = Some(Rollback::Set(way_back.clone()));
            flow.way_back = Some(way_back);
            flow.state.update = Some(resumed);
        }
        Some(_) | None => {
            flow.state.update = None;
            if flow.desired.version != flow.current.version {
                // Without the update that it belonged to, the goal is what is in effect.
                files.desired = Some(Source::Current);
                flow.desired = flow.current.clone();
            }
        }
    }
    Ok(true)
}
