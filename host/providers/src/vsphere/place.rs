//! Finds what a clone needs by inventory path, by name, or as the only one there is.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use tokio::time::Instant;

use super::data::{Data, MoRef, Object};
use super::limits::PATH_AGE_MAX;
use super::properties::Properties;
use super::server::Server;
use super::vcenter::{Call, CallError};
use super::view::is_card;
use super::words::{AskPlacement, Missing, Need, PlacementView, TemplateView, WhyMissing};

/// Properties of a template that a clone needs.
const TEMPLATE_PATHS: &[&str] = &["name", "config.hardware.device", "snapshot"];

/// Folders inside folders that are looked into for the only compute resource.
const FOLDERS_MAX: usize = 64;

/// Bytes of a GiB.
const GIB_IN_KIB: i64 = 1024 * 1024;

/// Everything a clone needs, found.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) template: Template,
    pub(crate) folder: MoRef,
    pub(crate) datastore: MoRef,
    pub(crate) pool: MoRef,
    /// In the order in which they were asked for.
    pub(crate) networks: Vec<MoRef>,
}

/// What a clone is made from.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    pub(crate) reference: MoRef,
    pub(crate) name: String,
    /// Network cards, as vCenter tells of them.
    pub(crate) cards: Vec<Object>,
    /// Disks, as vCenter tells of them.
    pub(crate) disks: Vec<Object>,
    pub(crate) snapshot: Option<MoRef>,
}

impl Place {
    pub(crate) fn view(&self) -> PlacementView {
        let sizes = self.template.disks.iter().map(|disk| {
            capacity_kib(disk).div_euclid(GIB_IN_KIB)
                + i64::from(capacity_kib(disk).rem_euclid(GIB_IN_KIB) > 0)
        });
        PlacementView {
            template: TemplateView {
                vm: self.template.reference.id.clone(),
                name: self.template.name.clone(),
                disk_gib: sizes.collect(),
                snapshot: self.template.snapshot.as_ref().map(|snapshot| snapshot.id.clone()),
            },
        }
    }
}

/// A disk's size, in KiB.
pub(crate) fn capacity_kib(disk: &Object) -> i64 {
    disk.get("capacityInKB").and_then(Data::int).unwrap_or_default()
}

/// What was found a moment ago, by what was looked for: a clone follows its placement, and machines come in numbers.
pub(crate) struct Found<K, V>(Mutex<BTreeMap<K, (V, Instant)>>);

/// Objects by their paths.
pub(crate) type Paths = Found<String, MoRef>;

/// Places by what was asked for.
pub(crate) type Places = Found<AskPlacement, Place>;

impl<K, V> Default for Found<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Ord, V: Clone> Found<K, V> {
    fn recall<Q: Ord + ?Sized>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (value, found) = all.get(key)?;
        (found.elapsed() < PATH_AGE_MAX).then(|| value.clone())
    }

    fn note(&self, key: K, value: V) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // What is old is of no use: it goes when there is something new.
        all.retain(|_, (_, found)| found.elapsed() < PATH_AGE_MAX);
        all.insert(key, (value, Instant::now()));
    }

    /// Nothing found before is taken to be so still.
    pub(crate) fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// A name as part of an inventory path.
pub(crate) fn escaped(name: &str) -> String {
    name.replace('%', "%25").replace('/', "%2f")
}

impl Server {
    /// The object at an inventory path.
    pub(crate) async fn at(&self, path: &str) -> Result<Option<MoRef>, CallError> {
        if let Some(reference) = self.paths.recall(path) {
            return Ok(Some(reference));
        }
        let content = self.session.content().await?;
        let call = Call::new(&content.search_index, "FindByInventoryPath").with("inventoryPath", path);
        let found = self.session.call(&call).await?.reference().cloned();
        if let Some(reference) = &found {
            self.paths.note(path.to_owned(), reference.clone());
        }
        Ok(found)
    }

    /// Finds all that a clone needs, or says what is missing.
    pub(crate) async fn place(&self, ask: &AskPlacement) -> Result<Result<Place, Vec<Missing>>, CallError> {
        if let Some(place) = self.places.recall(ask) {
            return Ok(Ok(place));
        }
        let place = self.look_for_place(ask).await?;
        if let Ok(place) = &place {
            self.places.note(ask.clone(), place.clone());
        }
        Ok(place)
    }

    /// Nothing found before is taken to be so still.
    pub(crate) fn forget_places(&self) {
        self.paths.forget();
        self.places.forget();
    }

    async fn look_for_place(&self, ask: &AskPlacement) -> Result<Result<Place, Vec<Missing>>, CallError> {
        let Some(datacenter) = self.at(&ask.datacenter).await?.filter(|found| found.kind == "Datacenter")
        else {
            let missing = Missing::new(Need::Datacenter, &ask.datacenter, WhyMissing::NotFound);
            return Ok(Err(vec![missing]));
        };
        let within = Within { server: self, path: &ask.datacenter, datacenter };
        let mut missing = Vec::new();
        let template = keep(&mut missing, within.template(ask).await?);
        let folder = keep(&mut missing, within.folder(ask.folder.as_deref()).await?);
        let datastore = keep(&mut missing, within.datastore(ask.datastore.as_deref()).await?);
        let pool = keep(&mut missing, within.pool(ask.resource_pool.as_deref()).await?);
        let mut networks = Vec::new();
        for network in &ask.networks {
            networks.extend(keep(&mut missing, within.network(network).await?));
        }
        match (template, folder, datastore, pool) {
            (Some(template), Some(folder), Some(datastore), Some(pool)) if missing.is_empty() => {
                Ok(Ok(Place { template, folder, datastore, pool, networks }))
            }
            _ => Ok(Err(missing)),
        }
    }

    pub(crate) async fn properties(
        &self,
        reference: &MoRef,
        paths: &'static [&'static str],
    ) -> Result<Option<Properties>, CallError> {
        self.reader.read(reference, paths).await?.found()
    }
}

impl Missing {
    fn new(what: Need, name: &str, why: WhyMissing) -> Self {
        Self { what, name: name.to_owned(), why }
    }
}

fn keep<T>(missing: &mut Vec<Missing>, found: Result<T, Missing>) -> Option<T> {
    found.map_err(|one| missing.push(one)).ok()
}

type Sought<T> = Result<Result<T, Missing>, CallError>;

/// A datacenter to look in.
struct Within<'a> {
    server: &'a Server,
    path: &'a str,
    datacenter: MoRef,
}

impl Within<'_> {
    /// A path as it is; a bare name below one of the datacenter's four folders.
    fn absolute(&self, below: &str, name: &str) -> String {
        if name.starts_with('/') {
            name.to_owned()
        } else {
            format!("{}/{below}/{name}", self.path.trim_end_matches('/'))
        }
    }

    async fn named(&self, need: Need, below: &str, name: &str, kinds: &[&str]) -> Sought<MoRef> {
        let found = self.server.at(&self.absolute(below, name)).await?;
        Ok(match found {
            None => Err(Missing::new(need, name, WhyMissing::NotFound)),
            Some(found) if kinds.contains(&found.kind.as_str()) => Ok(found),
            Some(_) => Err(Missing::new(need, name, WhyMissing::WrongKind)),
        })
    }

    async fn folder(&self, name: Option<&str>) -> Sought<MoRef> {
        match given(name) {
            Some(name) => self.named(Need::Folder, "vm", name, &["Folder"]).await,
            None => {
                let folder = self.property(&self.datacenter, &["vmFolder"], "vmFolder").await?;
                let folder = folder.as_ref().and_then(Data::reference).cloned();
                Ok(folder.ok_or_else(|| Missing::new(Need::Folder, "", WhyMissing::NotFound)))
            }
        }
    }

    async fn datastore(&self, name: Option<&str>) -> Sought<MoRef> {
        match given(name) {
            Some(name) => self.named(Need::Datastore, "datastore", name, &["Datastore"]).await,
            None => {
                let all = self.property(&self.datacenter, &["datastore"], "datastore").await?;
                Ok(only(Need::Datastore, &references(all.as_ref())))
            }
        }
    }

    async fn pool(&self, name: Option<&str>) -> Sought<MoRef> {
        const COMPUTE: [&str; 2] = ["ComputeResource", "ClusterComputeResource"];
        let found = match given(name) {
            Some(name) => {
                let kinds = ["ResourcePool", "VirtualApp", COMPUTE[0], COMPUTE[1]];
                self.named(Need::ResourcePool, "host", name, &kinds).await?
            }
            None => only(Need::ResourcePool, &self.compute_resources().await?),
        };
        let found = match found {
            Ok(found) if COMPUTE.contains(&found.kind.as_str()) => found,
            pool_or_missing => return Ok(pool_or_missing),
        };
        let root = self.property(&found, &["resourcePool"], "resourcePool").await?;
        let root = root.as_ref().and_then(Data::reference).cloned();
        Ok(root.ok_or_else(|| Missing::new(Need::ResourcePool, name.unwrap_or(""), WhyMissing::NotFound)))
    }

    /// Every compute resource of the datacenter, in folders, too.
    async fn compute_resources(&self) -> Result<Vec<MoRef>, CallError> {
        let root = self.property(&self.datacenter, &["hostFolder"], "hostFolder").await?;
        let mut folders = references(root.as_ref());
        let mut found = Vec::new();
        let mut looked_into = 0;
        while let Some(folder) = folders.pop() {
            looked_into += 1;
            if looked_into > FOLDERS_MAX {
                break;
            }
            let children = self.property(&folder, &["childEntity"], "childEntity").await?;
            for child in references(children.as_ref()) {
                if child.kind == "Folder" { folders.push(child) } else { found.push(child) }
            }
        }
        Ok(found)
    }

    async fn network(&self, name: &str) -> Sought<MoRef> {
        let kinds = ["Network", "DistributedVirtualPortgroup", "OpaqueNetwork"];
        self.named(Need::Network, "network", name, &kinds).await
    }

    async fn template(&self, ask: &AskPlacement) -> Sought<Template> {
        let by_uuid = if is_uuid(&ask.template) {
            self.server.find_uuid(&self.datacenter, &ask.template, true).await?.into_iter().next()
        } else {
            None
        };
        let reference = match by_uuid {
            Some(reference) => reference,
            None => match self.named(Need::Template, "vm", &ask.template, &["VirtualMachine"]).await? {
                Ok(reference) => reference,
                Err(missing) => return Ok(Err(missing)),
            },
        };
        let gone = || Missing::new(Need::Template, &ask.template, WhyMissing::NotFound);
        let Some(properties) = self.server.properties(&reference, TEMPLATE_PATHS).await? else {
            self.server.forget_places();
            return Ok(Err(gone()));
        };
        let devices = properties.get("config.hardware.device").map(Data::items).unwrap_or_default();
        let objects = |which: &dyn Fn(&Data) -> bool| -> Vec<Object> {
            devices.iter().filter(|device| which(device)).filter_map(Data::object).cloned().collect()
        };
        let wanted = given(ask.snapshot.as_deref());
        let snapshot = snapshot(properties.get("snapshot"), wanted);
        if let (Some(wanted), None) = (wanted, &snapshot) {
            return Ok(Err(Missing::new(Need::Snapshot, wanted, WhyMissing::NotFound)));
        }
        Ok(Ok(Template {
            reference,
            name: properties.get("name").and_then(Data::text).unwrap_or_default().into_owned(),
            cards: objects(&is_card),
            disks: objects(&|device| device.get("capacityInKB").is_some()),
            snapshot,
        }))
    }

    async fn property(
        &self,
        of: &MoRef,
        paths: &'static [&'static str],
        path: &str,
    ) -> Result<Option<Data>, CallError> {
        Ok(self.server.properties(of, paths).await?.and_then(|mut found| found.remove(path)))
    }
}

fn given(name: Option<&str>) -> Option<&str> {
    name.filter(|name| !name.is_empty())
}

fn references(data: Option<&Data>) -> Vec<MoRef> {
    data.map(Data::items).unwrap_or_default().iter().filter_map(Data::reference).cloned().collect()
}

fn only(need: Need, all: &[MoRef]) -> Result<MoRef, Missing> {
    match all {
        [] => Err(Missing::new(need, "", WhyMissing::NotFound)),
        [one] => Ok(one.clone()),
        [_, _, ..] => Err(Missing::new(need, "", WhyMissing::Ambiguous)),
    }
}

/// The snapshot of that name, oldest first, or the current one.
fn snapshot(info: Option<&Data>, name: Option<&str>) -> Option<MoRef> {
    let info = info?;
    let Some(name) = name else { return info.get("currentSnapshot")?.reference().cloned() };
    let mut trees: Vec<&Data> = info.items_of("rootSnapshotList").iter().rev().collect();
    while let Some(tree) = trees.pop() {
        if tree.text_of("name") == name {
            return tree.get("snapshot")?.reference().cloned();
        }
        trees.extend(tree.items_of("childSnapshotList").iter().rev());
    }
    None
}

/// Whether it is written as a UUID: 8-4-4-4-12 hexadecimal digits.
pub(crate) fn is_uuid(text: &str) -> bool {
    let groups: Vec<&str> = text.split('-').collect();
    groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
        && groups.iter().all(|group| group.bytes().all(|byte| byte.is_ascii_hexdigit()))
}
