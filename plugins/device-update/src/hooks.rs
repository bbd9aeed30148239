//! Hooks: which actions run, with which words, and how they stand.

mod command;
mod condition;

use crate::config::MissingExecutable;
use crate::files::Changes;
use crate::flow::{Flow, Halt};
use crate::names::events;
use crate::words::{
    AskHooks, Code, Error, FailurePolicy, Hook, HookAction, HookFile, HooksSeen, Known, OperationState,
    Origin, RunHook,
};

pub use command::Command;

/// An action may run this long where it does not say otherwise.
const TIMEOUT_MS: u64 = 10_000;

/// What conditions and variables refer to.
#[derive(Clone, Debug, Default)]
pub struct Context {
    /// How the config files change.
    pub changes: Changes,
    /// Whether the update rebooted the machine.
    pub rebooted: bool,
}

/// What becomes of an action that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFailure {
    /// It ends the hook.
    Stop,
    /// It is told of, and ends the hook; what comes after the hook goes on.
    Tell,
}

/// How a hook stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ran {
    /// This action is under way.
    Running(String),
    /// All that had to run did.
    Done,
    /// This action failed.
    Failed((String, Error)),
}

/// What is to be done for one action.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// Nothing: a condition does not hold, or a vendor's program is missing.
    Skip,
    /// It cannot run.
    Fail(Error),
    /// It runs.
    Run(Box<RunHook>),
}

/// The word for a hook's folder and for texts.
pub fn word(hook: Hook) -> &'static str {
    match hook {
        Hook::BeforeUpdating => "before-updating",
        Hook::AfterUpdating => "after-updating",
        Hook::BeforeRebooting => "before-rebooting",
        Hook::AfterRebooting => "after-rebooting",
    }
}

/// Has a hook's actions run, one after another, each once under its key; waits for the one under way.
pub fn run(
    flow: &mut Flow<'_>,
    hook: Hook,
    prefix: &str,
    context: &Context,
    on_failure: OnFailure,
) -> Result<Ran, Halt> {
    let seen: HooksSeen = flow.look("hooks", &AskHooks { hook })?;
    for file in &seen.files {
        (0..file.actions.len()).for_each(|index| flow.put_key(&format!("{prefix}/{}#{index}", file.path)));
    }
    for file in &seen.files {
        if let Some(error) = &file.error {
            let error = Error { code: Code::Invalid, message: error.clone() };
            return Ok(ended(flow, hook, &file.path, error, on_failure));
        }
        for (index, action) in file.actions.iter().enumerate() {
            let name = format!("{} {}#{index}", word(hook), file.path);
            let plan = plan(hook, file, index, action, context, flow.config.missing_executable);
            let failed = match plan {
                Plan::Skip => continue,
                Plan::Fail(error) => error,
                Plan::Run(run) => {
                    let key = format!("{prefix}/{}#{index}", file.path);
                    match stands(flow, hook, &key, &run)? {
                        Stands::Running => return Ok(Ran::Running(name)),
                        Stands::Done => continue,
                        Stands::Failed(error) => error,
                    }
                }
            };
            if action.failure_policy == FailurePolicy::Ignore {
                flow.warn(events::HOOK_FAILED, format!("{name}: {} (ignored)", failed.message));
                continue;
            }
            return Ok(ended(flow, hook, &format!("{}#{index}", file.path), failed, on_failure));
        }
    }
    Ok(Ran::Done)
}

fn ended(flow: &mut Flow<'_>, hook: Hook, element: &str, error: Error, on_failure: OnFailure) -> Ran {
    let name = format!("{} {element}", word(hook));
    match on_failure {
        OnFailure::Stop => Ran::Failed((name, error)),
        OnFailure::Tell => {
            flow.log(format!("hook {name}: {}", error.message));
            flow.warn(events::HOOK_FAILED, format!("{name}: {}", error.message));
            Ran::Done
        }
    }
}

enum Stands {
    Running,
    Done,
    Failed(Error),
}

fn stands(flow: &Flow<'_>, hook: Hook, key: &str, run: &RunHook) -> Result<Stands, Halt> {
    let arguments = serde_json::to_value(run).unwrap_or_default();
    Ok(match flow.keyed("run-hook", key, &arguments)? {
        Known::Answer(OperationState::Succeeded) => Stands::Done,
        // Whether it had its effect is not known, and it must not run twice: another attempt has another key.
        Known::Answer(OperationState::Lost) => {
            Stands::Failed(Error { code: Code::Transient, message: "it was cut short".to_owned() })
        }
        Known::Answer(_) => Stands::Running,
        Known::Unknown { unknown } if unknown.code == Code::Transient && hook == Hook::BeforeUpdating => {
            // Only a provider that could not begin says so: what a hook itself does is never worth another try.
            Stands::Failed(unknown)
        }
        Known::Unknown { unknown } => Stands::Failed(unknown),
    })
}

/// What is to be done for an action.
pub fn plan(
    hook: Hook,
    file: &HookFile,
    index: usize,
    action: &HookAction,
    context: &Context,
    missing: MissingExecutable,
) -> Plan {
    let Some(matched) = condition::matches(&action.conditions, context) else { return Plan::Skip };
    let invalid = |message: String| Plan::Fail(Error { code: Code::Invalid, message });
    let command = match Command::parse(&action.run, &matched) {
        Ok(command) => command,
        Err(message) => return invalid(message),
    };
    if !action.executable.found {
        let skipped = file.origin == Origin::Vendor || missing == MissingExecutable::Skip;
        let word = &action.executable.word;
        return if skipped { Plan::Skip } else { invalid(format!("there is no program {word:?}")) };
    }
    if !action.work_dir_exists {
        return invalid(format!("there is no folder {:?}", action.work_dir.as_deref().unwrap_or_default()));
    }
    if action.timeout_ms == Some(0) {
        return invalid("a timeout of nothing".to_owned());
    }
    let Command { env, argv } = command;
    Plan::Run(Box::new(RunHook {
        hook,
        file: file.path.clone(),
        sha256: file.sha256.clone(),
        index,
        argv,
        env,
        work_dir: action.work_dir.clone(),
        timeout_ms: action.timeout_ms.unwrap_or(TIMEOUT_MS),
    }))
}

/// Actions whose path condition matches these changes: what runs when files were repaired.
pub fn planned_for_repair(flow: &Flow<'_>, context: &Context) -> Result<Vec<(String, RunHook)>, Halt> {
    let seen: HooksSeen = flow.look("hooks", &AskHooks { hook: Hook::AfterUpdating })?;
    let mut runs = Vec::new();
    for file in seen.files.iter().filter(|file| file.error.is_none()) {
        for (index, action) in file.actions.iter().enumerate() {
            if !condition::asks_for_a_path(&action.conditions) {
                continue;
            }
            let missing = flow.config.missing_executable;
            if let Plan::Run(run) = plan(Hook::AfterUpdating, file, index, action, context, missing) {
                runs.push((format!("{}#{index}", file.path), *run));
            }
        }
    }
    Ok(runs)
}
