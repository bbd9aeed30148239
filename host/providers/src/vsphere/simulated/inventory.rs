//! Datacenters, folders, pools, datastores, networks and hosts, with their paths.

use std::collections::BTreeMap;

use super::config::InventoryConfig;
use crate::vsphere::data::{Data, MoRef, Object};
use crate::vsphere::properties::Properties;

/// What is there besides VMs and tasks.
#[derive(Debug, Default)]
pub(crate) struct Inventory {
    entities: BTreeMap<MoRef, Entity>,
    numbers: u64,
}

#[derive(Debug)]
struct Entity {
    name: String,
    parent: Option<MoRef>,
    /// Of a datastore, in GiB.
    free_gib: i64,
}

/// The four folders of a datacenter, with the property that leads to each.
const FOLDERS: [(&str, &str); 4] = [
    ("vm", "vmFolder"),
    ("host", "hostFolder"),
    ("datastore", "datastoreFolder"),
    ("network", "networkFolder"),
];

/// The root of every inventory.
pub(crate) fn root() -> MoRef {
    MoRef::new("Folder", "group-d1")
}

impl Inventory {
    pub(crate) fn new(config: &InventoryConfig) -> Self {
        let mut inventory = Self { numbers: 1, ..Self::default() };
        inventory
            .entities
            .insert(root(), Entity { name: "Datacenters".to_owned(), parent: None, free_gib: 0 });
        for path in &config.datacenters {
            inventory.add("datacenter", path);
        }
        for path in &config.folders {
            inventory.add("folder", path);
        }
        for path in &config.resource_pools {
            inventory.add("resourcePool", path);
        }
        for datastore in &config.datastores {
            if let Some(reference) = inventory.add("datastore", &datastore.path) {
                inventory.set_free(&reference, datastore.free_gib);
            }
        }
        for path in &config.networks {
            inventory.add("network", path);
        }
        inventory
    }

    /// Adds what a path leads to, with all that is above it; none for a word that means nothing.
    pub(crate) fn add(&mut self, what: &str, path: &str) -> Option<MoRef> {
        let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
        let mut at = root();
        for (depth, name) in names.iter().enumerate() {
            let last = depth + 1 == names.len();
            let kind = match (what, depth) {
                ("datacenter", _) if last => "Datacenter",
                ("datacenter", _) => "Folder",
                (_, 0) => "Datacenter",
                (_, 1) => "Folder",
                ("resourcePool", 2) => "ClusterComputeResource",
                ("resourcePool", _) => "ResourcePool",
                ("datastore", _) if last => "Datastore",
                ("network", _) if last && *name == "VM Network" => "Network",
                ("network", _) if last => "DistributedVirtualPortgroup",
                ("folder" | "datastore" | "network", _) => "Folder",
                _ => return None,
            };
            at = match self.child(&at, name) {
                Some(child) => child,
                None => self.make(kind, name, &at),
            };
        }
        Some(at)
    }

    fn make(&mut self, kind: &str, name: &str, parent: &MoRef) -> MoRef {
        self.numbers += 1;
        let prefix = match kind {
            "Datacenter" => "datacenter",
            "ClusterComputeResource" => "domain-c",
            "ResourcePool" => "resgroup",
            "Datastore" => "datastore",
            "Network" => "network",
            "DistributedVirtualPortgroup" => "dvportgroup",
            "HostSystem" => "host",
            _ => "group-v",
        };
        let reference = MoRef::new(kind, &format!("{prefix}-{}", self.numbers));
        let entity = Entity { name: name.to_owned(), parent: Some(parent.clone()), free_gib: 1000 };
        self.entities.insert(reference.clone(), entity);
        if kind == "Datacenter" {
            for (folder, _) in FOLDERS {
                self.make("Folder", folder, &reference);
            }
        }
        reference
    }

    /// A host of that name; it is made where there is none.
    pub(crate) fn host(&mut self, name: &str) -> MoRef {
        let known =
            self.entities.iter().find(|(one, entity)| one.kind == "HostSystem" && entity.name == name);
        match known.map(|(one, _)| one.clone()) {
            Some(host) => host,
            None => self.make("HostSystem", name, &root()),
        }
    }

    pub(crate) fn remove(&mut self, path: &str) -> Option<MoRef> {
        let found = self.find(path)?;
        self.entities.remove(&found);
        Some(found)
    }

    pub(crate) fn set_free(&mut self, datastore: &MoRef, gib: i64) {
        if let Some(entity) = self.entities.get_mut(datastore) {
            entity.free_gib = gib;
        }
    }

    /// Takes room off a datastore; tells whether there was enough.
    pub(crate) fn take_room(&mut self, datastore: &MoRef, gib: i64) -> bool {
        let Some(entity) = self.entities.get_mut(datastore) else { return false };
        let enough = entity.free_gib >= gib;
        if enough {
            entity.free_gib -= gib;
        }
        enough
    }

    pub(crate) fn contains(&self, reference: &MoRef) -> bool {
        self.entities.contains_key(reference)
    }

    pub(crate) fn name(&self, reference: &MoRef) -> Option<&str> {
        self.entities.get(reference).map(|entity| entity.name.as_str())
    }

    pub(crate) fn named(&self, kind: &str, name: &str) -> Option<MoRef> {
        let found = self.entities.iter().find(|(one, entity)| one.kind == kind && entity.name == name);
        found.map(|(one, _)| one.clone())
    }

    pub(crate) fn child(&self, parent: &MoRef, name: &str) -> Option<MoRef> {
        let children = self.entities.iter().filter(|(_, entity)| entity.parent.as_ref() == Some(parent));
        children.into_iter().find(|(_, entity)| entity.name == name).map(|(one, _)| one.clone())
    }

    pub(crate) fn find(&self, path: &str) -> Option<MoRef> {
        path.split('/')
            .filter(|name| !name.is_empty())
            .try_fold(root(), |at, name| self.child(&at, &name.replace("%2f", "/").replace("%25", "%")))
    }

    /// Whether one object is at or below another.
    pub(crate) fn is_below(&self, object: &MoRef, above: &MoRef) -> bool {
        let mut at = Some(object.clone());
        while let Some(one) = at {
            if one == *above {
                return true;
            }
            at = self.entities.get(&one).and_then(|entity| entity.parent.clone());
        }
        false
    }

    fn children(&self, parent: &MoRef, kinds: &[&str]) -> Vec<MoRef> {
        let children = self.entities.iter().filter(|(_, entity)| entity.parent.as_ref() == Some(parent));
        let of_kind = children.filter(|(one, _)| kinds.is_empty() || kinds.contains(&one.kind.as_str()));
        of_kind.map(|(one, _)| one.clone()).collect()
    }

    pub(crate) fn properties(&self, reference: &MoRef) -> Option<Properties> {
        let entity = self.entities.get(reference)?;
        let mut properties = Properties::from([("name".to_owned(), Data::any_text(&entity.name))]);
        let mut set = |path: &str, value: Data| properties.insert(path.to_owned(), value);
        match reference.kind.as_str() {
            "Datacenter" => {
                for (folder, path) in FOLDERS {
                    if let Some(folder) = self.child(reference, folder) {
                        set(path, Data::Ref(folder));
                    }
                }
                let below = |kind: &str| {
                    let all = self.entities.keys().filter(|one| one.kind == kind);
                    all.filter(|one| self.is_below(one, reference)).cloned().collect::<Vec<_>>()
                };
                set("datastore", below("Datastore").into());
            }
            "Folder" => {
                set("childEntity", self.children(reference, &[]).into());
            }
            "ClusterComputeResource" => {
                if let Some(pool) = self.children(reference, &["ResourcePool"]).first() {
                    set("resourcePool", pool.into());
                }
            }
            "DistributedVirtualPortgroup" => {
                set("config.key", Data::any_text(&reference.id));
                set("config.distributedVirtualSwitch", switch().into());
            }
            _ => {}
        }
        Some(properties)
    }
}

/// The one distributed switch.
pub(crate) fn switch() -> MoRef {
    MoRef::new("VmwareDistributedVirtualSwitch", "dvs-1")
}

/// Its properties.
pub(crate) fn switch_properties() -> Properties {
    Properties::from([("uuid".to_owned(), Data::any_text("50 1e 00 00 00 00 00 01-00 00 00 00 00 00 00 01"))])
}

/// The service content.
pub(crate) fn content() -> Object {
    let singleton = |kind: &str, id: &str| MoRef::new(kind, id);
    let about = Object::new("AboutInfo").with("apiType", "VirtualCenter").with("apiVersion", "8.0.3.0");
    Object::new("ServiceContent")
        .with("rootFolder", root())
        .with("propertyCollector", singleton("PropertyCollector", "propertyCollector"))
        .with("about", about)
        .with("sessionManager", singleton("SessionManager", "SessionManager"))
        .with("searchIndex", singleton("SearchIndex", "SearchIndex"))
        .with("viewManager", singleton("ViewManager", "ViewManager"))
}
