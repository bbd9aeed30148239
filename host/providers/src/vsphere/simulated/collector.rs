//! Property collectors and list views: what they were told to look at, and what they told of it last.

use std::collections::BTreeMap;

use super::methods::not_found;
use super::state::State;
use crate::vsphere::data::{Data, MoRef, Object};
use crate::vsphere::vcenter::{Call, Fault};

/// A collector of one session.
#[derive(Debug, Default)]
pub(crate) struct Collector {
    filters: Vec<(MoRef, Data)>,
    /// The properties of each object as they were told last; none where it was told to be gone.
    told: BTreeMap<MoRef, Option<BTreeMap<String, Data>>>,
    /// The change up to which everything is told.
    pub(crate) told_up_to: u64,
}

impl State {
    pub(crate) fn make_collector(&mut self) -> MoRef {
        self.last_collector += 1;
        let id = format!("session[1]{}", self.last_collector);
        let collector = Collector { told_up_to: self.version, ..Collector::default() };
        self.collectors.insert(id.clone(), collector);
        MoRef::new("PropertyCollector", &id)
    }

    pub(crate) fn make_filter(&mut self, call: &Call) -> Result<Data, Fault> {
        let spec = call.parameters.get("spec").cloned().ok_or_else(not_found)?;
        for object in spec.items_of("objectSet").iter().filter_map(|object| object.get("obj")?.reference()) {
            if self.properties(object).is_none() && !self.views.contains_key(&object.id) {
                return Err(not_found());
            }
        }
        let collector = self.collectors.get_mut(&call.target.id).ok_or_else(not_found)?;
        let filter =
            MoRef::new("PropertyFilter", &format!("{}-{}", call.target.id, collector.filters.len() + 1));
        collector.filters.push((filter.clone(), spec));
        // The next look has to tell of it, changed or not.
        self.version += 1;
        Ok(Data::Ref(filter))
    }

    /// What changed since this collector told last; none where nothing did.
    pub(crate) fn updates(&mut self, collector: &MoRef) -> Result<Option<Data>, Fault> {
        let version = self.version;
        let taken = self.collectors.get_mut(&collector.id).map(std::mem::take);
        let mut taken = taken.ok_or_else(not_found)?;
        let mut sets = Vec::new();
        for (filter, spec) in &taken.filters {
            let changed: Vec<Object> = self
                .looked_at(spec)
                .filter_map(|object| update(&mut taken.told, object, self.selected(object, spec)))
                .collect();
            if !changed.is_empty() {
                sets.push(
                    Object::new("PropertyFilterUpdate").with("filter", filter).with("objectSet", changed),
                );
            }
        }
        taken.told_up_to = version;
        self.collectors.insert(collector.id.clone(), taken);
        let set = Object::new("UpdateSet").with("version", version.to_string());
        Ok((!sets.is_empty()).then(|| set.with("filterSet", sets).into()))
    }

    /// The objects of a filter: those that it names, and those that a view holds that it names.
    fn looked_at<'a>(&'a self, spec: &'a Data) -> impl Iterator<Item = &'a MoRef> {
        let named = spec.items_of("objectSet").iter().filter_map(|object| object.get("obj")?.reference());
        named.flat_map(|object| match self.views.get(&object.id) {
            Some(view) => view.iter().collect(),
            None => vec![object],
        })
    }

    pub(crate) fn make_view(&mut self, call: &Call) -> Result<Data, Fault> {
        let objects = references(call, "obj");
        if objects.iter().any(|object| self.properties(object).is_none()) {
            return Err(not_found());
        }
        self.last_view += 1;
        let id = format!("session[1]view-{}", self.last_view);
        self.views.insert(id.clone(), objects.into_iter().collect());
        Ok(Data::Ref(MoRef::new("ListView", &id)))
    }

    /// Tells which objects are not there.
    pub(crate) fn change_view(&mut self, call: &Call) -> Result<Data, Fault> {
        let (gone, there): (Vec<MoRef>, Vec<MoRef>) =
            references(call, "add").into_iter().partition(|object| self.properties(object).is_none());
        let view = self.views.get_mut(&call.target.id).ok_or_else(not_found)?;
        view.extend(there);
        references(call, "remove").iter().for_each(|object| {
            view.remove(object);
        });
        // The next look has to tell of what came, changed or not.
        self.version += 1;
        Ok(Data::List(gone.into_iter().map(Data::Ref).collect()))
    }

    /// Whether every collector has told of everything.
    pub(crate) fn all_told(&self) -> bool {
        self.collectors.values().all(|collector| collector.told_up_to == self.version)
    }
}

fn references(call: &Call, parameter: &str) -> Vec<MoRef> {
    let items = call.parameters.get(parameter).map(Data::items).unwrap_or_default();
    items.iter().filter_map(Data::reference).cloned().collect()
}

fn update(
    told: &mut BTreeMap<MoRef, Option<BTreeMap<String, Data>>>,
    object: &MoRef,
    now: Option<Vec<(String, Data)>>,
) -> Option<Object> {
    let now: Option<BTreeMap<String, Data>> = now.map(|properties| properties.into_iter().collect());
    let before = told.insert(object.clone(), now.clone());
    let (kind, changes) = match (before, now) {
        (None | Some(None), Some(now)) => ("enter", assignments(&now, &BTreeMap::new())),
        (None | Some(None), None) => return None,
        (Some(Some(_)), None) => ("leave", Vec::new()),
        (Some(Some(before)), Some(now)) => {
            let gone = before.keys().filter(|path| !now.contains_key(*path));
            let gone = gone.map(|path| change(path, "remove"));
            ("modify", assignments(&now, &before).into_iter().chain(gone).collect())
        }
    };
    let quiet = kind == "modify" && changes.is_empty();
    let update = Object::new("ObjectUpdate").with("kind", kind).with("obj", object);
    (!quiet).then(|| update.with("changeSet", changes))
}

fn assignments(now: &BTreeMap<String, Data>, before: &BTreeMap<String, Data>) -> Vec<Object> {
    let changed = now.iter().filter(|(path, value)| before.get(*path) != Some(value));
    changed.map(|(path, value)| change(path, "assign").with("val", value.clone())).collect()
}

fn change(path: &str, how: &str) -> Object {
    Object::new("PropertyChange").with("name", path).with("op", how)
}
