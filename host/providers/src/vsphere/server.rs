//! One vCenter: its session, what was read and done there, and what is watched.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use evenkeel_core::contract::ExternalQuery;
use tokio::task::JoinSet;

use crate::changes::Changes;

use super::credentials::Credentials;
use super::data::{Data, MoRef};
use super::ledger::Ledger;
use super::limits::CallLimits;
use super::place::{Paths, Places, escaped};
use super::properties::{Properties, Read, Reader};
use super::session::Session;
use super::vcenter::{Call, CallError, Vcenter};
use super::view::{self, GROUP_PATHS, Names, TASK_PATHS, VM_PATHS};
use super::watch::Watch;
use super::words::{
    Answer, AskPlacement, AskTask, AskVm, AskVmByName, AskVmByUuid, AskVmsOfGroup, Hit, Unknown, UuidKind,
    VmView,
};

/// One vCenter.
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) session: Arc<Session>,
    pub(crate) reader: Arc<Reader>,
    pub(crate) watch: Arc<Watch>,
    pub(crate) ledger: Ledger,
    pub(crate) paths: Paths,
    pub(crate) places: Places,
    /// Read by whoever starts a clone.
    pub(crate) cloning: tokio::sync::RwLock<()>,
    names: Mutex<Names>,
    /// Ended with it.
    _tasks: JoinSet<()>,
}

impl Server {
    /// Starts it; call it inside a tokio runtime. Nothing is sent before somebody asks.
    pub(crate) fn start(
        name: &str,
        vcenter: Arc<dyn Vcenter>,
        credentials: Arc<dyn Credentials>,
        limits: CallLimits,
        changes: Arc<Changes>,
    ) -> Self {
        let session = Arc::new(Session::new(vcenter, credentials, limits));
        let (reader, reading) = Reader::new(Arc::clone(&session));
        let reader = Arc::new(reader);
        let watch = Arc::new(Watch::new(name, changes));
        let mut tasks = JoinSet::new();
        tasks.spawn(reading);
        tasks.spawn(Arc::clone(&watch).run(Arc::clone(&session), Arc::clone(&reader)));
        Self {
            name: name.to_owned(),
            session,
            reader,
            watch,
            ledger: Ledger::default(),
            paths: Paths::default(),
            places: Places::default(),
            cloning: tokio::sync::RwLock::default(),
            names: Mutex::default(),
            _tasks: tasks,
        }
    }

    fn told(&self, result: Result<Answer, CallError>) -> Answer {
        result.unwrap_or_else(|error| Answer::Unknown(Unknown::of(&self.name, &error)))
    }

    // ---- questions -----------------------------------------------------------------------------------------------

    pub(crate) async fn task(&self, ask: &AskTask, query: &ExternalQuery) -> Answer {
        self.told(self.look_at_task(ask, query).await)
    }

    async fn look_at_task(&self, ask: &AskTask, query: &ExternalQuery) -> Result<Answer, CallError> {
        let task = MoRef::new("Task", &ask.task);
        if let Some(properties) = self.watch.known(&task, query) {
            return Ok(seen_task(&task, &properties, true));
        }
        let asking = self.watch.begin(&self.session, &task, query).await;
        let Some(properties) = self.properties(&task, TASK_PATHS).await? else {
            asking.does_not_rest();
            return Ok(Answer::Absent);
        };
        let answer = seen_task(&task, &properties, asking.watched);
        if view::has_ended(&properties) {
            // It never changes again.
            asking.does_not_rest();
            view::touched_by(&properties).for_each(|object| self.watch.distrust(object));
        } else {
            asking.rests_on(properties);
        }
        Ok(answer)
    }

    /// The answer to a question, where nobody has to be asked for it.
    pub(crate) fn standing(&self, object: &MoRef, query: &ExternalQuery) -> Option<Answer> {
        let properties = self.watch.known(object, query)?;
        if object.kind == "Task" {
            // Whoever has seen its end does not ask for it again.
            return (!view::has_ended(&properties)).then(|| seen_task(object, &properties, true));
        }
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let is_named = view::named_by(&properties).iter().all(|named| names.contains_key(named));
        is_named.then(|| Answer::Hit { hit: Hit::Vm(view::vm(object, &properties, &names)), watched: true })
    }

    pub(crate) async fn vm(&self, ask: &AskVm, query: &ExternalQuery) -> Answer {
        let vm = MoRef::new("VirtualMachine", &ask.vm);
        let seen = self.view_watched(&vm, query).await;
        self.told(seen.map(hit_vm))
    }

    pub(crate) async fn vm_by_uuid(&self, ask: &AskVmByUuid, query: &ExternalQuery) -> Answer {
        self.told(self.look_for_uuid(ask, query).await)
    }

    async fn look_for_uuid(&self, ask: &AskVmByUuid, query: &ExternalQuery) -> Result<Answer, CallError> {
        let Some(datacenter) = self.at(&ask.datacenter).await? else { return Ok(Answer::Absent) };
        let found = self.find_uuid(&datacenter, &ask.uuid, ask.kind == UuidKind::Instance).await?;
        let mut vms = Vec::new();
        for vm in found {
            vms.extend(self.view_watched(&vm, query).await?.filter(|(view, _)| !view.template));
        }
        Ok(match vms.len() {
            0 | 1 => hit_vm(vms.pop()),
            _ => Answer::Ambiguous { vms: vms.into_iter().map(|(view, _)| view).collect() },
        })
    }

    pub(crate) async fn vm_by_name(&self, ask: &AskVmByName, query: &ExternalQuery) -> Answer {
        self.told(self.look_for_name(ask, query).await)
    }

    async fn look_for_name(&self, ask: &AskVmByName, query: &ExternalQuery) -> Result<Answer, CallError> {
        let folder = folder_path(&ask.datacenter, ask.folder.as_deref());
        let path = format!("{folder}/{}", escaped(&ask.name));
        // Whoever holds the name may have changed a moment ago.
        self.paths.forget();
        let Some(vm) = self.at(&path).await?.filter(|found| found.kind == "VirtualMachine") else {
            return Ok(Answer::Absent);
        };
        self.paths.forget();
        self.view_watched(&vm, query).await.map(hit_vm)
    }

    pub(crate) async fn vms_of_group(&self, ask: &AskVmsOfGroup) -> Answer {
        self.told(self.look_for_group(ask).await)
    }

    async fn look_for_group(&self, ask: &AskVmsOfGroup) -> Result<Answer, CallError> {
        let path = folder_path(&ask.datacenter, ask.folder.as_deref());
        let Some(folder) = self.at(&path).await?.filter(|found| found.kind == "Folder") else {
            return Ok(Answer::Absent);
        };
        let Some(properties) = self.properties(&folder, &["childEntity"]).await? else {
            return Ok(Answer::Absent);
        };
        let children = properties.get("childEntity").map(Data::items).unwrap_or_default();
        let mut vms: Vec<MoRef> = children.iter().filter_map(Data::reference).cloned().collect();
        vms.retain(|child| child.kind == "VirtualMachine");
        vms.sort_by_key(|vm| (vm.number(), vm.id.clone()));
        let reads = self.reader.read_all(&vms, GROUP_PATHS).await?;
        let found = vms.iter().zip(reads).filter_map(|(vm, read)| match read {
            Read::Found(properties) => view::of_group(vm, &properties, &ask.group),
            // What we may not see was not made by us.
            Read::Absent | Read::Refused(_) => None,
        });
        Ok(Answer::Group { vms: found.collect() })
    }

    pub(crate) async fn placement(&self, ask: &AskPlacement) -> Answer {
        self.told(self.place(ask).await.map(|place| match place {
            Ok(place) => Answer::Hit { hit: Hit::Placement(place.view()), watched: false },
            Err(missing) => Answer::Missing { missing },
        }))
    }

    // ---- reading -------------------------------------------------------------------------------------------------

    /// VMs with a UUID, ordered as they were made.
    pub(crate) async fn find_uuid(
        &self,
        datacenter: &MoRef,
        uuid: &str,
        instance: bool,
    ) -> Result<Vec<MoRef>, CallError> {
        let content = self.session.content().await?;
        let call = Call::new(&content.search_index, "FindAllByUuid")
            .with("datacenter", datacenter)
            .with("uuid", uuid.to_ascii_lowercase())
            .with("vmSearch", true)
            .with("instanceUuid", instance);
        let found = match self.session.call(&call).await {
            // The datacenter went between two calls.
            Err(error) if error.is_fault("ManagedObjectNotFound") => return Ok(Vec::new()),
            found => found?,
        };
        let mut vms: Vec<MoRef> = found.items().iter().filter_map(Data::reference).cloned().collect();
        vms.sort_by_key(|vm| (vm.number(), vm.id.clone()));
        vms.dedup();
        Ok(vms)
    }

    /// A VM as it is now.
    pub(crate) async fn view(&self, vm: &MoRef) -> Result<Option<VmView>, CallError> {
        let Some(properties) = self.properties(vm, VM_PATHS).await? else { return Ok(None) };
        let names = self.names(view::named_by(&properties)).await?;
        Ok(Some(view::vm(vm, &properties, &names)))
    }

    /// A VM as it is now, and whether a change of it wakes whoever asked.
    async fn view_watched(
        &self,
        vm: &MoRef,
        query: &ExternalQuery,
    ) -> Result<Option<(VmView, bool)>, CallError> {
        if let Some(properties) = self.watch.known(vm, query) {
            let names = self.names(view::named_by(&properties)).await?;
            return Ok(Some((view::vm(vm, &properties, &names), true)));
        }
        let asking = self.watch.begin(&self.session, vm, query).await;
        let Some(properties) = self.properties(vm, VM_PATHS).await? else {
            asking.does_not_rest();
            return Ok(None);
        };
        let watched = asking.watched;
        let names = self.names(view::named_by(&properties)).await?;
        let view = view::vm(vm, &properties, &names);
        asking.rests_on(properties);
        Ok(Some((view, watched)))
    }

    /// Names of objects; they are asked for once. One that may not be seen has none.
    async fn names(&self, objects: Vec<MoRef>) -> Result<Names, CallError> {
        let known = self.names.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let unknown: BTreeSet<MoRef> =
            objects.iter().filter(|object| !known.contains_key(*object)).cloned().collect();
        if unknown.is_empty() {
            return Ok(known);
        }
        let unknown: Vec<MoRef> = unknown.into_iter().collect();
        let reads = self.reader.read_all(&unknown, &["name"]).await?;
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        for (object, read) in unknown.into_iter().zip(reads) {
            if let Read::Found(properties) = read
                && let Some(name) = properties.get("name").and_then(Data::text)
            {
                names.insert(object, name.into_owned());
            }
        }
        Ok(names.clone())
    }
}

/// The inventory path of a folder of VMs.
fn folder_path(datacenter: &str, folder: Option<&str>) -> String {
    let path = match folder.filter(|folder| !folder.is_empty()) {
        Some(folder) if folder.starts_with('/') => folder.to_owned(),
        Some(folder) => format!("{datacenter}/vm/{folder}"),
        None => format!("{datacenter}/vm"),
    };
    path.trim_end_matches('/').to_owned()
}

fn seen_task(task: &MoRef, properties: &Properties, watched: bool) -> Answer {
    Answer::Hit { hit: Hit::Task(view::task(task, properties)), watched }
}

fn hit_vm(seen: Option<(VmView, bool)>) -> Answer {
    seen.map_or(Answer::Absent, |(view, watched)| Answer::Hit { hit: Hit::Vm(view), watched })
}
