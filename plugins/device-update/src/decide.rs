//! The decisions of a pass, in order: the first that has something to do ends it, unless it says to go on.

use std::time::Duration;

use evenkeel_sdk::{Conclusion, Pass, Stop};

use crate::config::Config;
use crate::flow::{Flow, Halt, Next};
use crate::primary::{Object, Primary};
use crate::state::Phase;
use crate::{
    activating, adopt, applying, boot, failure, observe, preparing, repair, rollback, staging, status,
    steady, verifying,
};

/// After what could not be written or looked at, the next try.
const BLOCKED_RETRY: Duration = Duration::from_secs(10);

/// Most decisions of one pass: each enters another phase.
const TURNS_MAX: u32 = 32;

/// One pass of the device.
///
/// # Errors
/// While an answer or an outcome is missing, or the provider is not there.
pub fn reconcile(pass: &Pass) -> Result<Conclusion, Stop> {
    // D0
    let Some(object) = pass.primary::<Object>()? else { return Ok(Conclusion::new()) };
    let config: Config = pass.config()?;
    let primary = Primary::new(pass.name(), object);
    let observed = observe::observe(pass, &config)?;
    let gone = observed.rendered.gone;
    let (mut flow, repaired) = repair::read(pass, config, primary, observed);
    let end = if gone { boot::gone(&mut flow) } else { run(&mut flow, &repaired) };
    let blocked = match end {
        Ok(()) => None,
        Err(Halt::Stop(stop)) => return Err(stop),
        // What was written is told of, and wakes the next pass; this is for a provider that does not tell.
        Err(Halt::Later) => {
            flow.look_again(Duration::from_secs(1));
            None
        }
        Err(Halt::Blocked(why)) => {
            flow.log(why.clone());
            flow.look_again(BLOCKED_RETRY);
            Some(why)
        }
        Err(Halt::Failed(trouble)) => Some(trouble.to_string()),
    };
    conclude(flow, blocked.as_deref())
}

fn conclude(mut flow: Flow<'_>, blocked: Option<&str>) -> Result<Conclusion, Stop> {
    let status = match status::action(&mut flow, blocked) {
        Ok(status) => status,
        Err(Halt::Stop(stop)) => return Err(stop),
        Err(Halt::Failed(_) | Halt::Blocked(_) | Halt::Later) => None,
    };
    let Flow { events, again, .. } = flow;
    let mut conclusion = Conclusion::new();
    conclusion.extend(events);
    conclusion.extend(status);
    Ok(match again {
        Some(again) => conclusion.requeue_after(again),
        None => conclusion,
    })
}

fn run(flow: &mut Flow<'_>, repaired: &repair::Repair) -> Result<(), Halt> {
    repair::carry_out(flow, repaired)?;
    // D2, D3
    if boot::look(flow)? == Next::Wait {
        return Ok(());
    }
    for _ in 0..TURNS_MAX {
        match turn(flow) {
            Ok(Next::Go) => {}
            Ok(Next::Wait) => return Ok(()),
            Err(Halt::Failed(trouble)) => failure::failed(flow, trouble)?,
            Err(halt) => return Err(halt),
        }
    }
    Err(Halt::Later)
}

/// One decision of D4 to D13.
fn turn(flow: &mut Flow<'_>) -> Result<Next, Halt> {
    // D4
    if adopt::adopt(flow)? == Next::Go {
        return Ok(Next::Go);
    }
    // D5
    let Some(update) = flow.state.update.clone() else { return steady::steady(flow, steady::Scope::Whole) };
    // D6
    if let Some(next_try) = &update.next_try
        && failure::wait_for(flow, next_try)? == Next::Wait
    {
        return steady::steady(flow, steady::Scope::WhileWaiting);
    }
    match update.phase {
        Phase::Preparing | Phase::Ready => preparing::prepare(flow),
        Phase::Applying => applying::apply(flow),
        Phase::Staging => staging::stage(flow),
        Phase::Rebooting => staging::reboot(flow),
        Phase::Activating => activating::activate(flow),
        Phase::Verifying => verifying::verify(flow),
        Phase::RollingBack => rollback::roll_back(flow),
    }
}

/// Whether the device's life with its service has ended.
pub fn is_decommissioned(flow: &Flow<'_>) -> Result<bool, Halt> {
    if flow.current.spec.decommissioning.is_none() {
        return Ok(false);
    }
    let key = format!("{}/decommission", flow.primary.uid);
    Ok(flow.operation(&key)?.state == crate::words::OperationState::Succeeded)
}
