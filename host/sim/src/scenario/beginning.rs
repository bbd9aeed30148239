//! What the worlds of many scenarios begin with alike: the kinds that are defined, and a sandbox that serves them.
//!
//! Defining the kinds of Kite, KubeVirt and CDI takes as long as a short scenario. So each set of definitions is put into one
//! sandbox, of which every world that begins with it is a fork.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use evenkeel_core::contract::Json;
use evenkeel_sandbox::standins;
use evenkeel_sandbox::{Clock, Sandbox, SandboxOptions};
use jiff::Timestamp;
use serde_json::Value;

use super::kinds::Kinds;
use super::world::WorldError;

/// Beginnings that are kept. A suite has one for each set of stand-ins; whoever makes more than this begins anew.
const KEPT_MAX: usize = 64;

/// What a beginning is made of; equal ones are one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Recipe {
    /// The plugin's definitions.
    crds: Vec<Json>,
    /// The stand-ins whose kinds are served.
    installed: Vec<String>,
    clock: Timestamp,
    seed: u64,
}

/// The kinds that a world begins with.
#[derive(Debug)]
pub(super) struct Beginning {
    /// Definitions of what is served.
    pub(super) wanted: Vec<Value>,
    /// Definitions of what is not, and may come.
    pub(super) unwanted: Vec<Value>,
    /// The kinds that a scenario may name: all of both.
    pub(super) kinds: Arc<Kinds>,
}

impl Beginning {
    pub(super) fn new(crds: &[Json], installed: &[String]) -> Result<Self, WorldError> {
        let mut wanted: Vec<Value> =
            crds.iter().filter_map(|text| serde_json::from_str::<Value>(text).ok()).collect();
        let known: Vec<&Value> = wanted.iter().chain(stand_ins().values().flatten()).collect();
        let kinds = Arc::new(Kinds::with_crds(known));
        for name in installed {
            wanted.extend(stand_in(name)?.iter().cloned());
        }
        let absent = stand_ins().iter().filter(|(name, _)| !installed.iter().any(|one| one == *name));
        let unwanted = absent.flat_map(|(_, crds)| crds.iter().cloned()).collect();
        Ok(Self { wanted, unwanted, kinds })
    }
}

/// A sandbox of one's own that serves the kinds, and the kinds that a scenario may name.
pub(super) fn sandbox(
    crds: &[Json],
    installed: &[String],
    (begins, clock): (Timestamp, Clock),
    seed: u64,
) -> Result<(Sandbox, Arc<Kinds>), WorldError> {
    static KEPT: Mutex<BTreeMap<Recipe, (Sandbox, Arc<Kinds>)>> = Mutex::new(BTreeMap::new());
    let recipe = Recipe { crds: crds.to_vec(), installed: installed.to_vec(), clock: begins, seed };
    // Held while one is made: those who want the same wait for it.
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let (first, kinds) = match kept.get(&recipe) {
        Some(known) => known.clone(),
        None => {
            let Beginning { wanted, kinds, .. } = Beginning::new(crds, installed)?;
            let standing: Clock = Arc::new(move || begins);
            let first = Sandbox::new(SandboxOptions { seed, ..SandboxOptions::new(standing) });
            for definition in wanted {
                first.put(definition).map_err(|error| WorldError::Host(error.to_string()))?;
            }
            if kept.len() >= KEPT_MAX {
                kept.clear();
            }
            kept.entry(recipe).or_insert((first, kinds)).clone()
        }
    };
    drop(kept);
    Ok((first.fork(clock), kinds))
}

/// The kinds of a stand-in.
pub(super) fn stand_in(name: &str) -> Result<&'static [Value], WorldError> {
    stand_ins().get(name).map(Vec::as_slice).ok_or_else(|| WorldError::StandIn(name.to_owned()))
}

/// The kinds of each stand-in, read from their text once for all worlds.
fn stand_ins() -> &'static BTreeMap<&'static str, Vec<Value>> {
    static STAND_INS: OnceLock<BTreeMap<&'static str, Vec<Value>>> = OnceLock::new();
    STAND_INS.get_or_init(|| {
        let named = ["kubevirt", "cdi"].into_iter();
        named.filter_map(|name| Some((name, standins::crds(name)?))).collect()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn begin(seed: u64) -> Sandbox {
        let clock: Clock = Arc::new(|| Timestamp::UNIX_EPOCH);
        let (sandbox, _) =
            sandbox(&[], &["cdi".to_owned()], (Timestamp::UNIX_EPOCH, clock), seed).expect("a sandbox");
        sandbox
    }

    #[test]
    fn worlds_that_begin_alike_are_alike_and_know_nothing_of_each_other() {
        let (one, other) = (begin(7), begin(7));
        assert_eq!(one.dump(), other.dump());
        assert_ne!(one.dump(), begin(8).dump(), "another seed gives other UIDs");
        let object = json!({"apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume",
            "metadata": {"namespace": "default", "name": "disk"}, "spec": {}});
        one.put(object).expect("the kind is served");
        assert_eq!(one.revision(), other.revision() + 1);
        assert_eq!(other.dump(), begin(7).dump());
    }

    #[test]
    fn a_stand_in_that_does_not_exist_is_an_error_and_leaves_nothing_behind() {
        for _ in 0..2 {
            let clock: Clock = Arc::new(|| Timestamp::UNIX_EPOCH);
            let made = sandbox(&[], &["nothing".to_owned()], (Timestamp::UNIX_EPOCH, clock), 0);
            assert!(matches!(made, Err(WorldError::StandIn(name)) if name == "nothing"));
        }
    }
}
