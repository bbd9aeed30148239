//! Runs a scenario: its steps in order, and what is expected after them.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use evenkeel_core::guest::Guest;
use evenkeel_sandbox::Fault;
use jiff::Timestamp;
use serde_json::Value;

use super::expect::Difference;
use super::file::{self, DeleteStep, Effect, FailStep, PatchStep, Propagation, Scenario, Step};
use super::report::{Failure, Outcome};
use super::world::{Start, World, WorldError, delete_options, path};
use super::{duration, verify};

/// Where time starts unless a scenario says otherwise.
const CLOCK: &str = "2026-01-01T00:00:00Z";

/// Runs one file against a plugin. Blocks; any number may run side by side, each on a thread.
pub fn run_file(path: &Path, guest: &Arc<dyn Guest>) -> Outcome {
    #[allow(clippy::disallowed_methods, reason = "how long a test took is no input of anything")]
    let began = Instant::now();
    let mut outcome = Outcome {
        file: path.display().to_string(),
        scenario: String::new(),
        spec: None,
        error: None,
        failures: Vec::new(),
        micros: 0,
    };
    match file::load(path) {
        Err(error) => outcome.error = Some(chain(&error)),
        Ok(scenario) => {
            outcome.scenario.clone_from(&scenario.scenario);
            outcome.spec.clone_from(&scenario.spec);
            match run(&scenario, guest) {
                Ok(failures) => outcome.failures = failures,
                Err(error) => outcome.error = Some(error),
            }
        }
    }
    outcome.micros = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
    outcome
}

/// Runs a scenario; the failures are what was otherwise than expected, an error says that it could not be run.
pub fn run(scenario: &Scenario, guest: &Arc<dyn Guest>) -> Result<Vec<Failure>, String> {
    let clock = scenario.clock.as_deref().unwrap_or(CLOCK);
    let clock: Timestamp = clock.parse().map_err(|error| format!("clock: {clock:?} is no time: {error}"))?;
    if let Some(controllers) = &scenario.controllers {
        let known: Vec<_> =
            guest.manifest().controllers.iter().map(|controller| controller.name.as_str()).collect();
        if let Some(unknown) = controllers.iter().find(|name| !known.contains(&name.as_str())) {
            return Err(format!("controllers: the plugin has no {unknown:?}; it has {}", known.join(", ")));
        }
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .map_err(|error| format!("cannot start the asynchronous runtime: {error}"))?;
    runtime.block_on(async {
        let config = scenario.config.as_ref().map_or_else(|| "{}".to_owned(), Value::to_string);
        let world = World::start(Start {
            guest: Arc::clone(guest),
            config: config.into(),
            controllers: scenario.controllers.as_deref(),
            installed: scenario.installed.as_deref().unwrap_or_default(),
            stages: scenario.stages.unwrap_or(false),
            clock,
            seed: 1,
            given: &scenario.given,
        })
        .await
        .map_err(|error| chain(&error))?;
        Teller { world, passes_seen: 0, failures: Vec::new(), given: &scenario.given }
            .tell(&scenario.steps)
            .await
    })
}

/// A scenario under way.
pub(super) struct Teller<'a> {
    pub(super) world: World,
    /// Passes that an earlier look at the writes has taken in.
    pub(super) passes_seen: usize,
    pub(super) failures: Vec<Failure>,
    pub(super) given: &'a [Value],
}

impl Teller<'_> {
    async fn tell(mut self, steps: &[Step]) -> Result<Vec<Failure>, String> {
        for (index, step) in steps.iter().enumerate() {
            let number = index + 1;
            let found = match step {
                Step::Expect(expect) => verify::verify(&mut self, expect).await,
                step => self.act(step).await.map(|()| Vec::new()),
            };
            match found {
                Ok(found) => {
                    self.failures
                        .extend(found.into_iter().map(|difference| Failure { step: number, difference }));
                }
                Err(error @ WorldError::Restless { .. }) => {
                    let difference = Difference::new("the host", "comes to rest", error.to_string());
                    self.failures.push(Failure { step: number, difference });
                    break;
                }
                Err(error) => return Err(format!("step {number}: {}", chain(&error))),
            }
        }
        Ok(self.failures)
    }

    async fn act(&mut self, step: &Step) -> Result<(), WorldError> {
        match step {
            Step::Apply(object) => self.apply(object).await,
            Step::Create(object) => self.send("POST", object).await,
            Step::Replace(object) => self.send("PUT", object).await,
            Step::Patch(patch) => self.patch(patch).await,
            Step::Delete(delete) => self.delete(delete).await,
            Step::Advance(duration::HumanDuration(by)) => self.world.advance(*by).await,
            Step::Restart(file::RestartTarget::Host) => self.world.restart().await,
            Step::Swap(file::SwapTarget::Plugin) => self.world.swap().await,
            Step::CutWatches(cut) => self.world.cut_watches(cut.kind.clone()).await,
            Step::Install(names) => {
                self.world.install(names)?;
                self.world.settle().await
            }
            Step::Uninstall(names) => self.world.uninstall(names).await,
            Step::Fail(fail) => {
                self.world.fail(fault(fail));
                Ok(())
            }
            Step::Resync(times) => {
                for _ in 0..*times {
                    self.world.resync().await?;
                }
                Ok(())
            }
            Step::Expect(_) => Ok(()),
        }
    }

    async fn apply(&mut self, object: &Value) -> Result<(), WorldError> {
        let target = self.target(object, true)?;
        let target = format!("{target}?fieldManager=user&force=true");
        self.world
            .request("PATCH", &target, "application/apply-patch+yaml", object.to_string().into_bytes())
            .await?;
        self.world.settle().await
    }

    async fn send(&mut self, method: &str, object: &Value) -> Result<(), WorldError> {
        let target = self.target(object, method == "PUT")?;
        let target = format!("{target}?fieldManager=user");
        self.world.request(method, &target, "application/json", object.to_string().into_bytes()).await?;
        self.world.settle().await
    }

    async fn patch(&mut self, step: &PatchStep) -> Result<(), WorldError> {
        let kind = self.kind(step.api_version.as_deref(), &step.kind)?;
        let target = path(kind, step.namespace.as_deref(), Some(&step.name), step.subresource.as_deref());
        let manager = step.manager.as_deref().unwrap_or("user");
        let target = format!("{target}?fieldManager={manager}");
        self.world
            .request("PATCH", &target, "application/merge-patch+json", step.merge.to_string().into_bytes())
            .await?;
        self.world.settle().await
    }

    async fn delete(&mut self, step: &DeleteStep) -> Result<(), WorldError> {
        let kind = self.kind(step.api_version.as_deref(), &step.kind)?;
        let target = path(kind, step.namespace.as_deref(), Some(&step.name), None);
        let propagation = match step.propagation {
            None | Some(Propagation::Background) => "Background",
            Some(Propagation::Foreground) => "Foreground",
            Some(Propagation::Orphan) => "Orphan",
        };
        self.world.request("DELETE", &target, "application/json", delete_options(propagation)).await?;
        self.world.settle().await
    }

    /// Where an object lives, or its collection.
    fn target(&self, object: &Value, named: bool) -> Result<String, WorldError> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        let kind = self.kind(text("/apiVersion"), text("/kind").unwrap_or_default())?;
        let name = text("/metadata/name").filter(|_| named);
        Ok(path(kind, text("/metadata/namespace"), name, None))
    }

    pub(super) fn kind(
        &self,
        api_version: Option<&str>,
        kind: &str,
    ) -> Result<&super::kinds::KindInfo, WorldError> {
        self.world.kinds.find(api_version, kind).map_err(|error| WorldError::Refused {
            what: "cannot tell what is meant".into(),
            reason: error.to_string(),
        })
    }
}

/// A fault as the sandbox takes it, from the words of scenario files.
fn fault(step: &FailStep) -> Fault {
    let (verb, subresource) = match step.verb.as_deref() {
        Some("apply-status") => (Some("apply"), Some("status")),
        Some("apply") => (Some("apply"), Some("")),
        Some("add-finalizer" | "remove-finalizer" | "patch") => (Some("patch"), Some("")),
        other => (other, None),
    };
    Fault {
        verb: verb.map(str::to_owned),
        kind: step.kind.clone(),
        subresource: subresource.map(str::to_owned),
        namespace: None,
        name: step.name.clone(),
        code: step.code,
        reason: step.reason.clone().unwrap_or_else(|| reason(step.code).to_owned()),
        message: step.message.clone().unwrap_or_else(|| "made to fail by the scenario".to_owned()),
        retry_after: None,
        times: step.times.unwrap_or(1),
        effect: match step.effect {
            Effect::None => evenkeel_sandbox::Effect::None,
            Effect::Written => evenkeel_sandbox::Effect::Written,
        },
    }
}

/// Kubernetes' reason for a status code.
fn reason(code: u16) -> &'static str {
    match code {
        400 => "BadRequest",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        410 => "Expired",
        422 => "Invalid",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "InternalError",
    }
}

/// An error and its causes in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
