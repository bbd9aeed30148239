//! The sandbox itself: what it is made with, and what a test can do to it besides requests.

use crate::Clock;
use crate::audit::{Audit, WriteRecord};
use crate::faults::{Aim, Fault, Faults};
use crate::identity::Identities;
use crate::lifecycle::{DEFAULT_NAMESPACES, set_condition};
use crate::resources::Registry;
use crate::service::ApiService;
use crate::services::Addresses;
use crate::store::Store;
use crate::turn::{State, Turn, WriteOptions, second};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// What a sandbox is made with.
#[derive(Clone)]
pub struct SandboxOptions {
    /// The clock of every timestamp that the server writes.
    pub clock: Clock,
    /// Seed of UIDs and generated names.
    pub seed: u64,
    /// Whether the namespaces of a fresh cluster (`default`, `kube-system` …) and the `kubernetes` Service are there.
    pub bootstrap: bool,
}

impl SandboxOptions {
    /// Options with the given clock: seed 0, with the namespaces of a fresh cluster.
    pub fn new(clock: Clock) -> SandboxOptions {
        SandboxOptions { clock, seed: 0, bootstrap: true }
    }
}

/// Time from the machine, seed 0, with the namespaces of a fresh cluster.
impl Default for SandboxOptions {
    fn default() -> SandboxOptions {
        SandboxOptions::new(Arc::new(Timestamp::now))
    }
}

impl std::fmt::Debug for SandboxOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SandboxOptions")
            .field("seed", &self.seed)
            .field("bootstrap", &self.bootstrap)
            .finish()
    }
}

/// Which watches to cut: all, or those of a kind.
#[derive(Clone, Debug, Default)]
pub struct Cut {
    /// Kind, as in `Namespace`, or plural; every kind where absent.
    pub kind: Option<String>,
    /// Also forget the history, so that a client that comes back with an old revision is told `410 Expired`.
    pub expire: bool,
}

/// Why an object cannot be put in place.
#[derive(Debug, thiserror::Error)]
pub enum PutError {
    /// No resource of that kind is served.
    #[error("nothing serves {kind} of {api_version}")]
    Unserved {
        /// `apiVersion` of the object.
        api_version: String,
        /// `kind` of the object.
        kind: String,
    },
    /// The object has no name.
    #[error("an object of kind {kind} has no name")]
    Unnamed {
        /// `kind` of the object.
        kind: String,
    },
    /// The file of the sandbox cannot be written.
    #[error("the object could not be kept")]
    Unkept,
    /// The object does not fit its schema.
    #[error("{kind} {name} cannot be decoded: {why}")]
    Undecodable {
        /// `kind` of the object.
        kind: String,
        /// `metadata.name` of the object.
        name: String,
        /// What is wrong.
        why: String,
    },
}

/// A Kubernetes API in memory. Cheap to clone; all clones are the same cluster.
#[derive(Clone)]
pub struct Sandbox {
    pub(crate) inner: Arc<Inner>,
}

impl std::fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sandbox").field("revision", &self.revision()).finish()
    }
}

pub(crate) struct Inner {
    state: RwLock<State>,
    faults: Mutex<Faults>,
    audit: Mutex<Audit>,
    clock: Clock,
}

impl Inner {
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, State> {
        // A panic while the lock was held is a bug that its own thread told; the state is whole between two writes.
        self.state.read().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(crate) fn audit(&self) -> MutexGuard<'_, Audit> {
        self.audit.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(crate) fn hit(&self, aim: &Aim<'_>) -> Option<Fault> {
        self.faults().hit(aim)
    }

    pub(crate) fn now(&self) -> Timestamp {
        (self.clock)()
    }
}

impl Sandbox {
    /// A fresh cluster.
    pub fn new(options: SandboxOptions) -> Sandbox {
        let registry = Registry::builtin();
        let mut store = Store::new();
        for resource in registry.all() {
            if store.table(resource.table).is_none() {
                store.add_table(resource.table);
            }
        }
        let state = State {
            store,
            registry,
            identities: Identities::new(options.seed),
            addresses: Addresses::default(),
            unclean: Default::default(),
            keeper: None,
        };
        let sandbox = Sandbox::of(state, options.clock);
        if options.bootstrap {
            sandbox.bootstrap();
        }
        sandbox
    }

    /// Another cluster that begins as this one is: with its objects, kinds, revision, history and the identities that come next,
    /// but with a clock of its own, without faults that wait, without a log of writes, and kept in no file. What happens to one of
    /// the two is nothing to the other. This costs little, as objects are shared until one of the two writes them: where
    /// many clusters begin alike, as in a suite of tests, one is made and the others are forks of it.
    pub fn fork(&self, clock: Clock) -> Sandbox {
        Sandbox::of(self.inner.read().fork(), clock)
    }

    fn of(state: State, clock: Clock) -> Sandbox {
        let inner =
            Inner { state: RwLock::new(state), faults: Mutex::default(), audit: Mutex::default(), clock };
        Sandbox { inner: Arc::new(inner) }
    }

    pub(crate) fn bootstrap(&self) {
        for name in DEFAULT_NAMESPACES {
            let namespace = json!({
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
                "spec": {"finalizers": ["kubernetes"]},
                "status": {"phase": "Active"},
            });
            self.put(namespace).expect("namespaces are built in");
        }
        let service = json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {
                "name": "kubernetes",
                "namespace": "default",
                "labels": {"component": "apiserver", "provider": "kubernetes"},
            },
            "spec": {
                "clusterIP": "10.96.0.1",
                "clusterIPs": ["10.96.0.1"],
                "internalTrafficPolicy": "Cluster",
                "ipFamilies": ["IPv4"],
                "ipFamilyPolicy": "SingleStack",
                "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
                "sessionAffinity": "None",
                "type": "ClusterIP",
            },
            "status": {"loadBalancer": {}},
        });
        self.put(service).expect("services are built in");
    }

    /// The API as a service: `kube::Client::new(sandbox.service(), "default")`.
    pub fn service(&self) -> ApiService {
        ApiService::new(self.inner.clone())
    }

    /// The revision of the last write.
    pub fn revision(&self) -> u64 {
        self.inner.read().store.revision()
    }

    /// The time of the sandbox's clock.
    pub fn now(&self) -> Timestamp {
        self.inner.now()
    }

    /// Puts an object in place as it is: status, UID, generation, times and finalizers stay as written and are filled in
    /// where absent. No admission, no validation, no namespace needed; watchers are told. A
    /// CustomResourceDefinition is served when this returns.
    pub fn put(&self, mut object: Value) -> Result<(), PutError> {
        let now = self.inner.now();
        let mut state = self.inner.write();
        let text = |object: &Value, key: &str| object[key].as_str().unwrap_or_default().to_owned();
        let (api_version, kind) = (text(&object, "apiVersion"), text(&object, "kind"));
        let found =
            state.registry.find_kind(&api_version, &kind).map(|(resource, at)| (resource.clone(), at));
        let Some((resource, version)) = found else { return Err(PutError::Unserved { api_version, kind }) };
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        if name.is_empty() {
            return Err(PutError::Unnamed { kind });
        }
        if resource.namespaced && object["metadata"]["namespace"].as_str().is_none_or(str::is_empty) {
            object["metadata"]["namespace"] = json!("default");
        }
        let ty = &resource.versions[version].ty;
        ty.decode(&mut object).map_err(|error| PutError::Undecodable {
            kind,
            name,
            why: error.to_string(),
        })?;
        ty.default(&mut object);
        crate::verbs::admit::label_namespace(&resource, &mut object);
        if resource.is("", "namespaces") && object["metadata"]["deletionTimestamp"].is_null() {
            let fill = |at: &mut Value, value: Value| {
                if at.is_null() {
                    *at = value;
                }
            };
            fill(&mut object["spec"]["finalizers"], json!(["kubernetes"]));
            fill(&mut object["status"]["phase"], json!("Active"));
        }
        let uid = state.identities.uid();
        let metadata = &mut object["metadata"];
        for (field, value) in [("uid", json!(uid)), ("creationTimestamp", json!(second(now)))] {
            if metadata[field].is_null() {
                metadata[field] = value;
            }
        }
        if resource.traits.generation && metadata["generation"].is_null() {
            metadata["generation"] = json!(1);
        }
        if let Some(fields) = metadata.as_object_mut() {
            fields.retain(|_, value| !value.is_null());
        }
        if resource.is("", "services") {
            state.addresses.book(&object);
        }
        let target = crate::turn::Target {
            resource: resource.clone(),
            version,
            namespace: String::new(),
            name: String::new(),
            subresource: String::new(),
        };
        crate::verbs::finish::to_storage(&target, &mut object);
        if resource.is("apiextensions.k8s.io", "customresourcedefinitions") {
            accept(&mut object, &second(now));
        }
        let mut turn = Turn::new(&mut state, now, WriteOptions::default());
        turn.place(&resource, object);
        state.keep().map_err(|_| PutError::Unkept)
    }

    /// One object by kind, namespace and name, in its storage version.
    pub fn get(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Option<Value> {
        let state = self.inner.read();
        let (resource, _) = state.registry.find_kind(api_version, kind)?;
        let key = crate::store::object::key_of(if resource.namespaced { namespace } else { "" }, name);
        Some(state.store.get(resource.table, &key)?.value())
    }

    /// Every object, by table (built-in kinds first), namespace and name.
    pub fn dump(&self) -> Vec<Value> {
        let state = self.inner.read();
        state
            .store
            .tables()
            .flat_map(|(_, table)| table.objects.values().map(|stored| stored.value()))
            .collect()
    }

    /// Lets the next requests that match fail.
    pub fn fail_next(&self, fault: Fault) {
        self.inner.faults().add(fault);
    }

    /// Faults that have hit nothing yet.
    pub fn idle_faults(&self) -> Vec<Fault> {
        self.inner.faults().idle().cloned().collect()
    }

    /// Whether a kind or a plural is called so that is served now: what a fault or a cut may name.
    pub fn serves(&self, kind: &str) -> bool {
        self.inner.read().registry.all().any(|one| one.kind == kind || one.plural == kind)
    }

    /// Forgets faults that did not hit anything yet.
    pub fn clear_faults(&self) {
        self.inner.faults().clear();
    }

    /// Ends watches as a lost connection would.
    pub fn cut_watches(&self, cut: &Cut) {
        let mut state = self.inner.write();
        if cut.expire {
            state.store.compact();
        }
        let wanted = |one: &crate::resources::Resource| {
            cut.kind.as_ref().is_none_or(|kind| *kind == one.kind || *kind == one.plural)
        };
        for resource in state.registry.all().filter(|one| wanted(one)) {
            state.store.cut(resource.table);
        }
    }

    /// The requests that wrote, or tried to, after a sequence number (0 for all that are kept).
    pub fn writes(&self, after: u64) -> Vec<WriteRecord> {
        self.inner.audit().since(after)
    }

    /// Sequence number of the last request that wrote, or tried to.
    pub fn last_write(&self) -> u64 {
        self.inner.audit().sequence()
    }
}

/// What the control plane adds to a definition that it accepts.
fn accept(definition: &mut Value, now: &str) {
    let mut conditions = definition["status"]["conditions"].as_array().cloned().unwrap_or_default();
    set_condition(&mut conditions, now, "NamesAccepted", "True", "NoConflicts", "no conflicts found");
    definition["status"]["conditions"] = Value::Array(conditions);
}

impl Turn<'_> {
    /// Stores an object of the test's own making: only what makes kinds served is looked after.
    fn place(&mut self, resource: &Arc<crate::resources::Resource>, object: Value) {
        let stored = self.put(resource, object);
        let definition = resource.is("apiextensions.k8s.io", "customresourcedefinitions");
        self.forget_chores();
        if definition {
            self.written(resource, &stored);
            self.settle();
        }
    }
}
