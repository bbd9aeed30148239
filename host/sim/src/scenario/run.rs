//! Runs a scenario: its steps in order, and what is expected after them.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use evenkeel_core::guest::Guest;
use evenkeel_engine::PassRecord;
use evenkeel_engine::clock::VirtualClock;
use evenkeel_engine::directory::parse_settings;
use evenkeel_engine::plugin::PluginSettings;
use evenkeel_sandbox::Fault;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::expect::Difference;
use super::expected::{Assertion, ExpectedCalls};
use super::file::{self, Scenario};
use super::kinds::{KindError, KindInfo, Kinds};
use super::laid::Laid;
use super::log::Log;
use super::report::{Failure, Outcome};
use super::step::{
    BeforeStep, Effect, FailStep, Named, RefusedStep, RepeatStep, RestartTarget, Step, SwapTarget, WriteName,
};
use super::user::UserRequest;
use super::world::{CLOCK, Start, World, WorldError};
use super::{duration, verify};
use crate::cluster::stillness::StillRuntime;
use crate::cluster::{Cluster, Stage, chain};

/// Runs one file against a plugin, in a sandbox of its own. Blocks; any number may run side by side, each on a thread.
pub fn run_file(path: &Path, guest: &Arc<dyn Guest>) -> Outcome {
    run_file_on(None, path, guest)
}

/// Runs one file against a plugin, on a cluster where there is one. Blocks, also while another scenario has the cluster.
pub fn run_file_on(cluster: Option<&Arc<Cluster>>, path: &Path, guest: &Arc<dyn Guest>) -> Outcome {
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
            match tell_on(cluster, &scenario, guest) {
                Ok(told) => (outcome.failures, outcome.error) = (told.failures, told.error),
                Err(error) => outcome.error = Some(error),
            }
        }
    }
    outcome.micros = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
    outcome
}

/// Runs files one after another on the same cluster, and tells of each; the outcomes are in the order of the files, of those up to
/// which nobody broke it off. Those that need the same kinds of stand-ins run one after another, since kinds that come and go
/// take time on a cluster.
pub fn run_files_on(
    cluster: &Arc<Cluster>,
    files: &[PathBuf],
    guest: &Arc<dyn Guest>,
    tell: &mut dyn FnMut(&Outcome) -> ControlFlow<()>,
) -> Vec<Outcome> {
    let installed = |path: &PathBuf| file::load(path).ok().and_then(|scenario| scenario.installed);
    let mut order: Vec<usize> = (0..files.len()).collect();
    // With the most first: the garbage collector of a cluster learns of kinds twice a minute, and it is those that need it.
    order.sort_by_cached_key(|at| std::cmp::Reverse(installed(&files[*at])));
    let mut outcomes: Vec<(usize, Outcome)> = Vec::with_capacity(files.len());
    for at in order {
        let outcome = run_file_on(Some(cluster), &files[at], guest);
        let goes_on = tell(&outcome);
        outcomes.push((at, outcome));
        if goes_on.is_break() {
            break;
        }
    }
    outcomes.sort_by_key(|(at, _)| *at);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

/// What happened in a scenario.
pub struct Told {
    /// What was otherwise than expected.
    pub failures: Vec<Failure>,
    /// Why it did not come to its end.
    pub error: Option<String>,
    /// The journal: every pass, in order.
    pub passes: Vec<Arc<PassRecord>>,
}

/// Runs a scenario; the failures are what was otherwise than expected, an error says that it could not be run.
pub fn run(scenario: &Scenario, guest: &Arc<dyn Guest>) -> Result<Vec<Failure>, String> {
    tell(scenario, guest).map(|told| told.failures)
}

/// Runs a scenario and keeps its journal. The same scenario and plugin make the same journal, to the byte, each time.
pub fn tell(scenario: &Scenario, guest: &Arc<dyn Guest>) -> Result<Told, String> {
    let told = tell_on(None, scenario, guest)?;
    told.error.clone().map_or(Ok(told), Err)
}

fn tell_on(
    cluster: Option<&Arc<Cluster>>,
    scenario: &Scenario,
    guest: &Arc<dyn Guest>,
) -> Result<Told, String> {
    let settings = settings(scenario)?;
    let clock: Timestamp = match scenario.clock.as_deref() {
        Some(text) => text.parse().map_err(|error| format!("clock: {text:?} is no time: {error}"))?,
        None => CLOCK,
    };
    if let Some(controllers) = &scenario.controllers {
        let known: Vec<_> = names(guest).collect();
        if let Some(unknown) = controllers.iter().find(|name| !known.contains(&name.as_str())) {
            return Err(format!("controllers: the plugin has no {unknown:?}; it has {}", known.join(", ")));
        }
    }
    if let Some((number, controller)) = unknown_controller(scenario, guest) {
        let known: Vec<_> = names(guest).collect();
        return Err(format!(
            "step {number}: calls: the plugin has no {controller:?}; it has {}",
            known.join(", ")
        ));
    }
    let runtime =
        StillRuntime::new().map_err(|error| format!("cannot start the asynchronous runtime: {error}"))?;
    let (log, _listening) = if scenario.asks_about_text() {
        let (log, guard) = Log::listen();
        (Some(log), Some(guard))
    } else {
        (None, None)
    };
    let start = || Start {
        settings: settings.clone(),
        controllers: scenario.controllers.as_deref(),
        installed: scenario.installed.as_deref().unwrap_or_default(),
        stages: scenario.stages.unwrap_or(false),
        clock,
        providers: &scenario.providers,
        given: &scenario.given,
        ..Start::new(Arc::clone(guest))
    };
    let _turn = cluster.map(|cluster| cluster.turn());
    runtime.block_on(async {
        let stage = cluster.map(|cluster| {
            Stage::new(Arc::clone(cluster), VirtualClock::starting_at(clock), runtime.stillness().clone())
        });
        let told = match World::start_on(start(), stage.clone()).await {
            Ok(world) => {
                let (failures, laid, sent) = (Vec::new(), Vec::new(), Vec::new());
                let teller = Teller { world, scenario, passes_seen: 0, failures, laid, sent, log };
                Ok(teller.tell().await)
            }
            Err(error) => Err(chain(&error)),
        };
        if let Some(stage) = stage {
            // Whatever came of it: the next scenario needs an empty cluster.
            stage.clear().await.map_err(|error| chain(&error))?;
        }
        told
    })
}

/// What the operator says about the plugin, read as the settings file beside a component is.
fn settings(scenario: &Scenario) -> Result<PluginSettings, String> {
    let mut file = serde_json::Map::new();
    let parts = [("config", &scenario.config), ("grant", &scenario.grant)];
    file.extend(parts.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value.clone()?))));
    parse_settings(&Value::Object(file).to_string()).map_err(|error| chain(&error))
}

/// A scenario under way.
pub(super) struct Teller<'a> {
    pub(super) world: World,
    pub(super) scenario: &'a Scenario,
    /// Passes that an earlier look at the writes has taken in.
    pub(super) passes_seen: usize,
    pub(super) failures: Vec<Failure>,
    /// What was laid in the way of requests; its place in here is its mark.
    laid: Vec<Laid>,
    /// Objects that users have sent, where an expectation asks for texts.
    pub(super) sent: Vec<Value>,
    /// What is logged, where an expectation asks for it.
    pub(super) log: Option<Log>,
}

impl Teller<'_> {
    /// What was otherwise than expected is told also where a later step cannot be done.
    async fn tell(mut self) -> Told {
        let (mut error, mut broken_off) = (None, false);
        let Scenario { steps, always, .. } = self.scenario;
        for (number, step) in one_after_another(steps) {
            let mut found = Vec::new();
            let mut done = match step {
                Step::Expect(expect) => verify::verify(&mut self, expect, &mut found).await,
                Step::Refused(refused) => {
                    self.refused(refused).await.map(|difference| found.extend(difference))
                }
                step => self.act(number, step).await,
            };
            if done.is_ok() {
                done = self.hold(always, &mut found).await;
            }
            self.failures.extend(found.into_iter().map(|difference| Failure { step: number, difference }));
            match done {
                Ok(()) => {}
                Err(error @ (WorldError::Restless { .. } | WorldError::ClusterRestless { .. })) => {
                    let difference = Difference::new("the world", "comes to rest", error.to_string());
                    self.failures.push(Failure { step: number, difference });
                    broken_off = true;
                }
                Err(cause) => error = Some(format!("step {number}: {}", chain(&cause))),
            }
            if broken_off || error.is_some() {
                return Told { failures: self.failures, error, passes: self.world.passes };
            }
        }
        let idle = self.world.idle().into_iter().filter_map(|mark| self.laid.get(mark));
        self.failures.extend(idle.map(Laid::unspent));
        Told { failures: self.failures, error, passes: self.world.passes }
    }

    /// What holds after every step.
    async fn hold(&self, always: &[Assertion], found: &mut Vec<Difference>) -> Result<(), WorldError> {
        for refused in self.world.ambushes.refused() {
            found.push(Difference::new("a request before a write", "is carried out", refused));
        }
        for (name, said) in self.world.broken_invariants() {
            found.push(Difference::new(format!("provider {name}, which must never be"), "", said));
        }
        for assertion in always {
            verify::asserted(self, assertion, found).await?;
        }
        Ok(())
    }

    async fn act(&mut self, number: usize, step: &Step) -> Result<(), WorldError> {
        let request = UserRequest::of(step, &self.world.kinds).map_err(no_kind)?;
        if let Some(request) = request {
            if self.log.is_some() {
                self.sent.extend(sent(step));
            }
            self.world.request(&request).await?;
            return self.world.settle().await;
        }
        match step {
            Step::Advance(duration::HumanDuration(by)) => self.world.advance(*by).await,
            Step::Restart(RestartTarget::Host) => self.world.restart().await,
            Step::Swap(SwapTarget::Plugin) => self.world.swap().await,
            Step::CutWatches(cut) => {
                self.check_kind(cut.kind.as_deref())?;
                self.world.cut_watches(cut.kind.clone()).await
            }
            Step::Install(names) => self.world.install(names).await,
            Step::Uninstall(names) => self.world.uninstall(names).await,
            Step::Fail(fail) => {
                self.check_kind(fail.kind.as_deref())?;
                self.world.fail(fault(fail, self.laid.len()));
                self.laid.push(Laid::fail(number, fail));
                Ok(())
            }
            Step::Before(before) => {
                self.lay(before)?;
                self.laid.push(Laid::before(number, before));
                Ok(())
            }
            Step::Resync(times) => {
                for _ in 0..*times {
                    self.world.resync().await?;
                }
                Ok(())
            }
            Step::Provider(commands) => self.world.control(commands).await,
            // These are requests, went before, or are looked at elsewhere.
            Step::Apply(_)
            | Step::Create(_)
            | Step::Replace(_)
            | Step::Patch(_)
            | Step::Delete(_)
            | Step::Repeat(_)
            | Step::Refused(_)
            | Step::Expect(_) => Ok(()),
        }
    }

    /// A request that must be refused.
    async fn refused(&mut self, step: &RefusedStep) -> Result<Option<Difference>, WorldError> {
        let RefusedStep { step, code, message } = step;
        let request =
            UserRequest::of(step, &self.world.kinds).map_err(no_kind)?.ok_or(WorldError::NoRequest)?;
        let about = format!("{} {}", request.method, request.target);
        let (wanted_code, wanted) = (*code, message.as_deref().unwrap_or_default());
        let expected = match code {
            Some(code) => format!("refused with {code}: …{wanted}…"),
            None => format!("refused: …{wanted}…"),
        };
        let outcome = self.world.request(&request).await;
        self.world.settle().await?;
        let actual = match outcome {
            Ok(_) => "carried out".to_owned(),
            Err(WorldError::Refused { code, reason, .. })
                if wanted_code.is_none_or(|wanted| code == Some(wanted)) && reason.contains(wanted) =>
            {
                return Ok(None);
            }
            Err(WorldError::Refused { code, reason, .. }) => {
                format!(
                    "refused with {}: {reason}",
                    code.map_or_else(|| "no code".to_owned(), |code| code.to_string())
                )
            }
            Err(other) => return Err(other),
        };
        Ok(Some(Difference::new(about, expected, actual)))
    }

    /// Requests of users wait for a write.
    fn lay(&self, before: &BeforeStep) -> Result<(), WorldError> {
        let BeforeStep { verb, kind, api_version, name, steps } = before;
        let kinds = &self.world.kinds;
        let plural = match kind {
            Some(kind) => Some(kinds.find(api_version.as_deref(), kind).map_err(no_kind)?.plural.clone()),
            None => None,
        };
        let mut requests = Vec::with_capacity(steps.len());
        for step in steps {
            requests.push(UserRequest::of(step, kinds).map_err(no_kind)?.ok_or(WorldError::NoRequest)?);
        }
        let write = WriteName { verb: verb.clone(), name: name.clone() };
        self.world.ambushes.lay(write, plural, requests, self.laid.len());
        Ok(())
    }

    /// A kind that is named alone, or a plural, is refused where nothing will ever be called so: neither what is known here or
    /// served now, nor what the scenario itself defines in whatever step.
    fn check_kind(&self, kind: Option<&str>) -> Result<(), WorldError> {
        let Some(kind) = kind else { return Ok(()) };
        let known = self.world.kinds.check(kind);
        if known.is_ok() || self.world.may_serve(kind) {
            return Ok(());
        }
        let own = self.scenario.definitions();
        if Kinds::with_crds(own).check(kind).is_ok() { Ok(()) } else { known.map_err(no_kind) }
    }

    /// The kind that is meant.
    pub(super) fn kind(&self, named: &Named<'_>) -> Result<&KindInfo, WorldError> {
        named.kind(&self.world.kinds).map_err(no_kind)
    }
}

fn no_kind(error: KindError) -> WorldError {
    WorldError::Refused { what: "cannot tell what is meant".into(), reason: error.to_string(), code: None }
}

/// The names of a plugin's controllers.
fn names(guest: &Arc<dyn Guest>) -> impl Iterator<Item = &str> {
    guest.manifest().controllers.iter().map(|controller| controller.name.as_str())
}

/// A controller of which calls are expected, and which the plugin does not have.
fn unknown_controller<'s>(scenario: &'s Scenario, guest: &Arc<dyn Guest>) -> Option<(usize, &'s str)> {
    one_after_another(&scenario.steps).into_iter().find_map(|(number, step)| {
        let Step::Expect(expect) = step else { return None };
        let Some(ExpectedCalls::ByController(each)) = &expect.calls else { return None };
        let unknown = each.keys().find(|controller| !names(guest).any(|name| name == controller.as_str()));
        unknown.map(|controller| (number, controller.as_str()))
    })
}

/// What a user's request brings, as an object; none for one that brings nothing.
fn sent(step: &Step) -> Option<Value> {
    match step {
        Step::Apply(object) | Step::Create(object) | Step::Replace(object) => Some(object.clone()),
        Step::Patch(patch) => {
            let mut object = patch.merge.clone();
            let fields = object.as_object_mut()?;
            fields.insert("kind".to_owned(), patch.kind.clone().into());
            fields.insert("metadata".to_owned(), json!({ "namespace": patch.namespace, "name": patch.name }));
            Some(object)
        }
        _ => None,
    }
}

/// Every step with the number of the one in the file that it stands in.
fn one_after_another(steps: &[Step]) -> Vec<(usize, &Step)> {
    fn add<'a>(number: usize, step: &'a Step, all: &mut Vec<(usize, &'a Step)>) {
        match step {
            Step::Repeat(RepeatStep { steps }) => steps.iter().for_each(|step| add(number, step, all)),
            step => all.push((number, step)),
        }
    }
    let mut all = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        add(index + 1, step, &mut all);
    }
    all
}

/// A fault as the sandbox takes it, from the words of scenario files.
fn fault(step: &FailStep, mark: usize) -> Fault {
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
        mark,
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
