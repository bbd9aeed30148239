//! One call of a guest: an instance of its own, limits, and what went wrong in the host's words.

use std::time::Duration;

use evenkeel_core::contract::{Manifest, Request};
use evenkeel_core::guest::{CallError, CallStats, GuestReply};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;
use wasmtime::component::{self, ComponentExportIndex, InstancePre, TypedFunc};
use wasmtime::{Engine, Store, StoreContextMut, Trap, UpdateDeadline, WasmBacktrace, WasmCoreDump};

use crate::convert;
use crate::engine::FRAMES_MAX;
use crate::generated::evenkeel::reconciler::types as wit;
use crate::generated::{Reconciler, ReconcilerPre};
use crate::limits::{Limiter, Limits};
use crate::load::LoadError;
use crate::panic::Panic;
use crate::ticker::{Running, Ticker, ticks};

/// What a component of the contract exports.
const INTERFACE: &str = "evenkeel:reconciler/guest@0.1.0";
/// Frames of a trap that are told on.
const FRAMES_TOLD: usize = 4;

/// Gives guests their turn.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) engine: Engine,
    pub(crate) ticker: Ticker,
    pub(crate) slots: Semaphore,
    pub(crate) limits: Limits,
}

/// What a running instance carries with it.
#[derive(Debug)]
pub(crate) struct CallState {
    limiter: Limiter,
    ticks_left: u64,
}

/// An instance that has not been called yet.
struct Instance {
    store: Store<CallState>,
    guest: Reconciler,
}

/// The function that a pass calls, in the types of the contract.
type Reconcile = TypedFunc<(&'static wit::Request,), (Result<wit::Reply, wit::Failure>,)>;

/// A component whose types are those of the contract. They are the same in each instance, so they are compared once, when this
/// is made, and not in each call.
pub(crate) struct Typed {
    pre: InstancePre<CallState>,
    reconcile: ComponentExportIndex,
}

impl Typed {
    /// Of an instance of which all types were compared.
    fn of(pre: &ReconcilerPre<CallState>, _instance: &Instance) -> Result<Self, LoadError> {
        let pre = pre.instance_pre().clone();
        let component = pre.component();
        let interface = component.get_export_index(None, INTERFACE);
        let reconcile =
            interface.and_then(|interface| component.get_export_index(Some(&interface), "reconcile"));
        let missing = || LoadError::OtherTypes { reason: format!("{INTERFACE} has no function `reconcile`") };
        Ok(Self { reconcile: reconcile.ok_or_else(missing)?, pre })
    }

    /// The function in an instance of this component.
    #[allow(unsafe_code, reason = "its types were compared when this was made")]
    fn reconcile(&self, instance: &component::Instance, store: &mut Store<CallState>) -> Option<Reconcile> {
        let func = instance.get_func(store, self.reconcile)?;
        // SAFETY: The function's types are the component's, and of this component there was an instance before in which this
        // very export was compared with these very types: `Typed::of` asks for it.
        Some(unsafe { TypedFunc::new_unchecked(func) })
    }
}

/// Why there is no answer: what wasmtime says, and what the limits know.
struct Broken {
    error: wasmtime::Error,
    memory_refused: bool,
    out_of_time: bool,
    panic: Option<Panic>,
}

/// The part of all slots that one plugin may have at once, so that a slow one leaves some to the others.
const SHARE: (usize, usize) = (3, 4);

/// How many calls of one plugin may run at once.
pub(crate) fn share(slots: usize) -> usize {
    (slots * SHARE.0 / SHARE.1).max(1)
}

impl Caller {
    /// The trial call of a component that is being loaded.
    pub(crate) async fn describe(
        &self,
        pre: &ReconcilerPre<CallState>,
    ) -> Result<(Typed, Manifest), LoadError> {
        let permit = permit(&self.slots).await.map_err(LoadError::Describe)?;
        let _running = self.ticker.running();
        let mut instance = self.typed(pre).await?;
        let typed = Typed::of(pre, &instance)?;
        let called = instance.guest.evenkeel_reconciler_guest().call_describe(&mut instance.store).await;
        let outcome = called.map_err(|error| Broken::new(error, &instance.store));
        drop(permit);
        outcome
            .map(|manifest| (typed, convert::manifest(manifest)))
            .map_err(|broken| LoadError::Describe(broken.into_call_error(&self.limits)))
    }

    /// Whether a component of which all else is known has the types of this host: they are compared when there is an
    /// instance.
    pub(crate) async fn try_types(&self, pre: &ReconcilerPre<CallState>) -> Result<Typed, LoadError> {
        let _permit = permit(&self.slots).await.map_err(LoadError::Describe)?;
        let _running = self.ticker.running();
        Typed::of(pre, &self.typed(pre).await?)
    }

    /// An instance; where types differ, that is no doing of the guest.
    async fn typed(&self, pre: &ReconcilerPre<CallState>) -> Result<Instance, LoadError> {
        let mut store = self.store();
        match pre.instantiate_async(&mut store).await {
            Ok(guest) => Ok(Instance { store, guest }),
            Err(error) => {
                let broken = Broken::new(error, &store);
                Err(match broken.is_of_types() {
                    true => LoadError::OtherTypes { reason: format!("{:#}", broken.error) },
                    false => LoadError::Describe(broken.into_call_error(&self.limits)),
                })
            }
        }
    }

    /// One call of a pass. `share` is what the plugin may have of the slots.
    pub(crate) async fn reconcile(
        &self,
        typed: &Typed,
        share: &Semaphore,
        request: &Request,
    ) -> Result<GuestReply, CallError> {
        let started = Instant::now();
        // In this order: whoever waits for a call of its own plugin to end keeps nobody else waiting.
        let _share = permit(share).await?;
        let _permit = permit(&self.slots).await?;
        let _running: Running = self.ticker.running();
        let mut store = self.store();
        let called = call(typed, &mut store, request).await;
        let outcome = called.map_err(|error| Broken::new(error, &store).into_call_error(&self.limits))?;
        let stats = CallStats { elapsed: started.elapsed(), memory: store.data().limiter.memory() };
        Ok(GuestReply { outcome: outcome.map(convert::reply).map_err(convert::failure), stats })
    }

    /// Of an instance that is to be made.
    fn store(&self) -> Store<CallState> {
        let state = CallState { limiter: Limiter::new(&self.limits), ticks_left: ticks(self.limits.time) };
        let mut store = Store::new(&self.engine, state);
        store.limiter(|state| &mut state.limiter);
        store.set_hostcall_fuel(usize::try_from(self.limits.reply).unwrap_or(usize::MAX));
        store.set_epoch_deadline(1);
        store.epoch_deadline_callback(tick);
        store
    }
}

/// Makes an instance and calls it.
async fn call(
    typed: &Typed,
    store: &mut Store<CallState>,
    request: &Request,
) -> wasmtime::Result<Result<wit::Reply, wit::Failure>> {
    let instance = typed.pre.instantiate_async(&mut *store).await?;
    let reconcile = typed.reconcile(&instance, store);
    let reconcile = reconcile.ok_or_else(|| wasmtime::Error::msg("the component has no `reconcile`"))?;
    let request = convert::request(request);
    let (outcome,) = reconcile.call_async(store, (&request,)).await?;
    Ok(outcome)
}

async fn permit(slots: &Semaphore) -> Result<SemaphorePermit<'_>, CallError> {
    let closed = |_| CallError::Host { reason: "it is shutting down".to_owned() };
    slots.acquire().await.map_err(closed)
}

/// Each tick that a guest is running: others get a turn, or its time is over. Counting turns and not the clock means
/// that a guest on a busy host is not blamed for the time that others took.
fn tick(mut store: StoreContextMut<'_, CallState>) -> wasmtime::Result<UpdateDeadline> {
    let state = store.data_mut();
    state.ticks_left = state.ticks_left.saturating_sub(1);
    Ok(if state.ticks_left == 0 { UpdateDeadline::Interrupt } else { UpdateDeadline::Yield(1) })
}

impl Broken {
    fn new(error: wasmtime::Error, store: &Store<CallState>) -> Self {
        let state = store.data();
        Self {
            panic: panic(&error, store),
            memory_refused: state.limiter.refused(),
            out_of_time: state.ticks_left == 0,
            error,
        }
    }

    /// No guest code had run: nothing trapped and nothing was refused.
    fn is_of_types(&self) -> bool {
        self.error.downcast_ref::<Trap>().is_none()
            && self.error.downcast_ref::<WasmBacktrace>().is_none()
            && !self.memory_refused
            && !is_of_pool(&self.error)
    }

    fn into_call_error(self, limits: &Limits) -> CallError {
        let trap = self.error.downcast_ref::<Trap>().copied();
        let (frames, deep) = frames(&self.error);
        match trap {
            Some(Trap::Interrupt) if self.out_of_time => {
                CallError::Deadline { limit: whole_millis(limits.time) }
            }
            _ if self.memory_refused => CallError::Memory { limit: limits.memory },
            Some(Trap::StackOverflow) => CallError::Stack { frames },
            // Compilers put the stack of locals at the bottom of memory, so deep recursion ends below address zero.
            Some(Trap::MemoryOutOfBounds) if deep => CallError::Stack { frames },
            Some(trap) if is_of_the_reply(trap) => CallError::InvalidReply { reason: words(trap) },
            Some(trap) => match self.panic {
                Some(Panic { place, message }) => CallError::Panic { place, message, frames },
                None => CallError::Trap { reason: words(trap), frames },
            },
            None => untrapped(&self.error, limits),
        }
    }
}

/// Errors without a trap come from wasmtime's reading of the reply, or from its allocator.
fn untrapped(error: &wasmtime::Error, limits: &Limits) -> CallError {
    let reason = format!("{error:#}");
    if is_of_pool(error) {
        return CallError::Host { reason };
    }
    // wasmtime keeps the type of this error to itself, so it is known by the end of its own text, which no guest has
    // a say in; a test holds on to it.
    if error.root_cause().to_string().ends_with("fuel allocated for hostcalls has been exhausted") {
        return CallError::ReplyTooLarge { limit: limits.reply };
    }
    CallError::InvalidReply { reason }
}

/// What the guest left behind when it ended itself. Any other trap is not the end of a panic.
fn panic(error: &wasmtime::Error, store: &Store<CallState>) -> Option<Panic> {
    let Some(Trap::UnreachableCodeReached) = error.downcast_ref::<Trap>() else { return None };
    let dump = error.downcast_ref::<WasmCoreDump>()?;
    dump.memories().iter().find_map(|memory| Panic::find(memory.data(store)))
}

fn is_of_pool(error: &wasmtime::Error) -> bool {
    error.downcast_ref::<wasmtime::PoolConcurrencyLimitError>().is_some()
}

/// Traps that wasmtime raises where it reads what the guest returned.
fn is_of_the_reply(trap: Trap) -> bool {
    matches!(
        trap,
        Trap::InvalidChar
            | Trap::StringOutOfBounds
            | Trap::ListOutOfBounds
            | Trap::InvalidDiscriminant
            | Trap::UnalignedPointer
    )
}

fn words(trap: Trap) -> String {
    let text = trap.to_string();
    text.strip_prefix("wasm trap: ").unwrap_or(&text).to_owned()
}

/// The innermost functions by name, and whether there were more than are kept.
fn frames(error: &wasmtime::Error) -> (Vec<String>, bool) {
    let Some(backtrace) = error.downcast_ref::<WasmBacktrace>() else { return (Vec::new(), false) };
    let named = backtrace.frames().iter().take(FRAMES_TOLD).map(|frame| {
        let name = frame.func_name().map(demangled);
        name.unwrap_or_else(|| format!("function {}", frame.func_index()))
    });
    (named.collect(), backtrace.frames().len() >= FRAMES_MAX)
}

/// A Rust name without its hash; names of other languages stay as they are.
fn demangled(name: &str) -> String {
    let name = rustc_demangle::demangle(name);
    format!("{name:#}").chars().take(200).collect()
}

fn whole_millis(time: Duration) -> Duration {
    Duration::from_millis(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}
