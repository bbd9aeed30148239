//! D4: whether a newer spec becomes the goal.

use crate::device::Device;
use crate::flow::{Flow, Halt, Next, Offered};
use crate::names::events;
use crate::state::{From, Phase, Stage, Target, Update};
use crate::words::{Rollback, Source, WriteSpec};
use crate::{boot, image, staging};

/// The step of an update that overtook another one in its preparations.
pub const OVERTAKES: &str = "overtakes";

/// Takes what is offered, where it is newer than the goal and nothing speaks against it.
pub fn adopt(flow: &mut Flow<'_>) -> Result<Next, Halt> {
    retry_failed(flow)?;
    let Some(offered) = flow.offered.clone() else { return Ok(Next::Wait) };
    if offered.device.number() <= flow.desired.number() {
        return Ok(Next::Wait);
    }
    if flow.state.has_failed(&offered.device.version, &offered.device.hash) {
        return Ok(Next::Wait);
    }
    let idle = match &flow.state.update {
        None => true,
        Some(update) => update.phase.is_before_changes() || is_stuck(update),
    };
    if !idle || crate::decide::is_decommissioned(flow)? {
        return Ok(Next::Wait);
    }
    let given = offered.given.is_some();
    let next = if is_same(&flow.current, &offered.device) && flow.state.update.is_none() {
        bump(flow, offered)?
    } else {
        begin(flow, offered)?
    };
    // The provider has digests of what is in its files, and this pass has none of what it gave itself: the change of the file
    // wakes the next one.
    if given { Err(Halt::Later) } else { Ok(next) }
}

fn is_stuck(update: &Update) -> bool {
    update.phase == Phase::RollingBack
        && update.rollback.as_ref().is_some_and(|rollback| rollback.stage == Stage::Stuck)
}

fn is_same(current: &Device, offered: &Device) -> bool {
    (!offered.hash.is_empty() && offered.hash == current.hash) || offered.is_same_but_consoles(current)
}

/// An operator's word clears a failed version once; what failed again under the same word stays failed.
fn retry_failed(flow: &mut Flow<'_>) -> Result<(), Halt> {
    let Some(version) = flow.primary.retried().map(str::to_owned) else { return Ok(()) };
    let Some(failed) = flow.state.failed.iter().find(|failed| failed.version == version).cloned() else {
        return Ok(());
    };
    if flow.state.update.is_some() || flow.state.retried.as_deref() == Some(version.as_str()) {
        return Ok(());
    }
    // Its number stays, so that failing again is not taken for the first time.
    let same = |other: &str| !failed.spec_hash.is_empty() && other == failed.spec_hash;
    flow.state.failed.retain(|other| other.version != version && !same(&other.spec_hash));
    flow.state.retried = Some(version);
    flow.write_state("retry-failed")
}

/// A version that changes nothing: no hooks, no phases, and the condition stays.
fn bump(flow: &mut Flow<'_>, offered: Offered) -> Result<Next, Halt> {
    let Offered { device, source, given } = offered;
    let files = WriteSpec {
        desired: Some(source.clone()),
        current: Some(source),
        sensitive: crate::words::Sensitive { device: given },
        ..WriteSpec::default()
    };
    flow.write(&format!("bump-{}", device.version), files)?;
    flow.desired = device.clone();
    flow.current = device;
    Ok(Next::Go)
}

fn begin(flow: &mut Flow<'_>, offered: Offered) -> Result<Next, Halt> {
    let Offered { device, source, given } = offered;
    let (from, rebooted) = start(flow, &device)?;
    let target = Target { version: device.version.clone(), spec_hash: device.hash.clone() };
    // Pulls for a version that is overtaken are to be cancelled, also where this one needs none.
    let overtakes = flow.state.update.as_ref().is_some_and(|update| !update.steps.is_empty());
    let overtaken = flow.state.update.take().filter(|_| rebooted);
    let update = Update {
        elsewhere: overtaken.map(|overtaken| overtaken.elsewhere).unwrap_or_default(),
        steps: if overtakes { vec![OVERTAKES.to_owned()] } else { Vec::new() },
        target,
        from,
        phase: Phase::Preparing,
        attempt: 1,
        since: flow.now_text()?,
        rebooted,
        ..Update::default()
    };
    let way_back = rebooted.then(|| staging::way_back(&update));
    flow.state.update = Some(update);
    let files = WriteSpec {
        desired: Some(source),
        rollback: way_back.clone().map(Rollback::Set),
        sensitive: crate::words::Sensitive { device: given },
        ..WriteSpec::default()
    };
    flow.write("adopt", files)?;
    flow.way_back = way_back.or(flow.way_back.take());
    flow.tell(events::UPDATE_STARTED, format!("from version {} to {}", flow.current.version, device.version));
    flow.desired = device;
    Ok(Next::Go)
}

/// Where an update starts, and whether the machine has rebooted into its OS already: one that overtakes another there, and wants
/// the same OS, starts where that did. Nothing was in effect between.
fn start(flow: &Flow<'_>, device: &Device) -> Result<(From, bool), Halt> {
    let booted = flow.os()?.booted;
    let version = flow.current.version.clone();
    if let Some(overtaken) = &flow.state.update
        && boot::is_on_target(flow, overtaken)?
        && device.spec.os.image.as_ref().is_some_and(|image| image::is_of(&booted, image))
    {
        return Ok((From { version, os_image: overtaken.from.os_image.clone() }, true));
    }
    Ok((From { version, os_image: booted.image }, false))
}

/// The goal again, for an update to the version that is in effect: the OS that is booted is another one.
pub fn begin_again(flow: &mut Flow<'_>) -> Result<Next, Halt> {
    let os = flow.os()?;
    let version = flow.current.version.clone();
    flow.state.update = Some(Update {
        target: Target { version: version.clone(), spec_hash: flow.current.hash.clone() },
        from: From { version, os_image: os.booted.image },
        phase: Phase::Preparing,
        attempt: 1,
        since: flow.now_text()?,
        ..Update::default()
    });
    flow.write("adopt", WriteSpec { desired: Some(Source::Current), ..WriteSpec::default() })?;
    Ok(Next::Go)
}
