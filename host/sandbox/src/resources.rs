//! What is served: the built-in resources, and those that CustomResourceDefinitions add while the server runs.

mod builtin;

use crate::error::Subject;
use crate::schema::{self, Type};
use crate::store::TableId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// One resource of one group, in all versions in which it is served.
#[derive(Clone)]
pub(crate) struct Resource {
    /// Its table. Two resources may share one: core's `events` and those of `events.k8s.io`.
    pub table: TableId,
    pub group: String,
    pub plural: String,
    pub singular: String,
    pub kind: String,
    pub list_kind: String,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub namespaced: bool,
    pub versions: Vec<Version>,
    /// Index of the version in which objects are stored.
    pub storage: usize,
    pub traits: Traits,
    /// Name of the CustomResourceDefinition that made it.
    pub definition: Option<String>,
    /// The text of what defined it, to notice changes.
    pub shape: Arc<str>,
}

/// One version of a resource.
#[derive(Clone)]
pub(crate) struct Version {
    pub name: String,
    /// `group/version`, or `version` in the core group.
    pub api_version: String,
    pub served: bool,
    pub ty: Type,
    pub status: bool,
    pub scale: Option<Scale>,
    pub columns: Vec<schema::columns::Column>,
    pub selectable: Vec<String>,
    pub deprecation: Option<String>,
}

/// Where the fields of the scale subresource are; dotted paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scale {
    pub spec_replicas: String,
    pub status_replicas: String,
    pub selector: Option<String>,
}

/// In what built-in resources differ from each other.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traits {
    /// `metadata.generation` counts changes of the spec.
    pub generation: bool,
    /// A change of annotations counts too.
    pub generation_by_annotations: bool,
    /// A list or map that is spelled out although it is empty counts too: upstream compares Go's values, in which it is not
    /// the same as none.
    pub generation_by_empties: bool,
    /// `PUT` of an absent object creates it.
    pub create_on_update: bool,
    /// `DELETE` answers with the object, not with a `Status`.
    pub returns_deleted: bool,
    /// `PUT` without a resource version is taken as it is.
    pub unconditional_update: bool,
    /// Dependents are orphaned unless the client says otherwise.
    pub no_collection_delete: bool,
    /// Stored as core's Event and converted.
    pub converted_event: bool,
    /// What can be done with it at all.
    pub offers: Offers,
}

/// What a resource can be asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Offers {
    #[default]
    All,
    /// Only to be read, and nothing is ever stored: the state of components, of which there are none here.
    Reads,
    /// Only to be posted, and never stored: an order.
    Posts,
}

impl Offers {
    /// Whether a verb can be asked for.
    pub(crate) fn has(self, verb: &str) -> bool {
        match self {
            Offers::All => true,
            Offers::Reads => matches!(verb, "get" | "list"),
            Offers::Posts => verb == "create",
        }
    }
}

impl Resource {
    /// The resource as messages name it.
    pub(crate) fn subject(&self) -> Subject<'_> {
        Subject { group: &self.group, kind: &self.plural }
    }

    /// The kind as messages of invalid objects name it.
    pub(crate) fn kind_subject(&self) -> Subject<'_> {
        Subject { group: &self.group, kind: &self.kind }
    }

    pub(crate) fn version(&self, name: &str) -> Option<usize> {
        self.versions.iter().position(|version| version.served && version.name == name)
    }

    pub(crate) fn is_custom(&self) -> bool {
        self.definition.is_some()
    }

    pub(crate) fn is(&self, group: &str, plural: &str) -> bool {
        self.group == group && self.plural == plural
    }

    pub(crate) fn storage_version(&self) -> &Version {
        &self.versions[self.storage]
    }
}

/// All resources, found by group and plural.
#[derive(Clone)]
pub(crate) struct Registry {
    resources: BTreeMap<(String, String), Arc<Resource>>,
    by_table: BTreeMap<TableId, Arc<Resource>>,
    next_table: TableId,
    /// Groups in the order in which discovery tells them.
    groups: Vec<String>,
}

impl Registry {
    /// The built-in resources.
    pub(crate) fn builtin() -> Registry {
        let mut registry = Registry {
            resources: BTreeMap::new(),
            by_table: BTreeMap::new(),
            next_table: 1,
            groups: builtin::GROUPS.iter().map(|group| (*group).to_owned()).collect(),
        };
        for row in builtin::ROWS {
            let table = if row.flags.contains('E') {
                registry.find("", "events").map_or(registry.next_table, |events| events.table)
            } else {
                registry.new_table()
            };
            if let Some(resource) = row.resource(table) {
                registry.add(resource);
            }
        }
        registry
    }

    pub(crate) fn new_table(&mut self) -> TableId {
        let table = self.next_table;
        self.next_table += 1;
        table
    }

    /// Adds a resource, or replaces the one of the same name.
    pub(crate) fn add(&mut self, resource: Resource) -> Arc<Resource> {
        if !self.groups.contains(&resource.group) {
            self.groups.push(resource.group.clone());
        }
        let resource = Arc::new(resource);
        self.resources.insert((resource.group.clone(), resource.plural.clone()), resource.clone());
        if !resource.traits.converted_event {
            self.by_table.insert(resource.table, resource.clone());
        }
        resource
    }

    pub(crate) fn remove(&mut self, group: &str, plural: &str) -> Option<Arc<Resource>> {
        let resource = self.resources.remove(&(group.to_owned(), plural.to_owned()))?;
        self.by_table.remove(&resource.table);
        if !self.resources.keys().any(|(other, _)| other == group) {
            self.groups.retain(|other| other != group);
        }
        Some(resource)
    }

    pub(crate) fn find(&self, group: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.resources.get(&(group.to_owned(), plural.to_owned()))
    }

    /// The resource that serves a kind, with the index of the version.
    pub(crate) fn find_kind(&self, api_version: &str, kind: &str) -> Option<(&Arc<Resource>, usize)> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let resource = self.resources.values().find(|one| one.group == group && one.kind == kind)?;
        Some((resource, resource.version(version)?))
    }

    /// The resource whose objects are in a table.
    pub(crate) fn of_table(&self, table: TableId) -> Option<&Arc<Resource>> {
        self.by_table.get(&table)
    }

    /// The resources of a group by plural.
    pub(crate) fn in_group<'a>(&'a self, group: &'a str) -> impl Iterator<Item = &'a Arc<Resource>> {
        self.resources.values().filter(move |resource| resource.group == group)
    }

    /// Every resource, by group and plural.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.values()
    }

    /// Groups in the order of discovery, with their served versions, preferred first.
    pub(crate) fn groups(&self) -> Vec<(String, Vec<String>)> {
        let groups = self.groups.iter().map(|group| (group.clone(), self.versions(group)));
        groups.filter(|(_, versions)| !versions.is_empty()).collect()
    }

    /// The served versions of a group, preferred first; none of a group that is not there.
    pub(crate) fn versions(&self, group: &str) -> Vec<String> {
        let mut versions: Vec<String> = Vec::new();
        for version in self.in_group(group).flat_map(|resource| &resource.versions) {
            if version.served && !versions.contains(&version.name) {
                versions.push(version.name.clone());
            }
        }
        versions.extend(builtin::virtual_versions(group));
        versions.sort_by_cached_key(|version| std::cmp::Reverse(version_rank(version)));
        versions.dedup();
        versions
    }
}

/// Orders versions as Kubernetes prefers them: stable before beta before alpha, higher numbers first, others last.
pub(crate) fn version_rank(version: &str) -> (u8, u64, u64, std::cmp::Reverse<String>) {
    let parsed = version.strip_prefix('v').and_then(|rest| {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let major = rest[..digits].parse::<u64>().ok()?;
        match &rest[digits..] {
            "" => Some((3, major, 0)),
            tail => {
                let (stage, minor) = match (tail.strip_prefix("beta"), tail.strip_prefix("alpha")) {
                    (Some(minor), _) => (2, minor),
                    (_, Some(minor)) => (1, minor),
                    _ => return None,
                };
                Some((stage, major, minor.parse().ok()?))
            }
        }
    });
    match parsed {
        Some((stage, major, minor)) => (stage, major, minor, std::cmp::Reverse(String::new())),
        None => (0, 0, 0, std::cmp::Reverse(version.to_owned())),
    }
}

/// The Go package of a group's internal types: messages name it.
pub(crate) fn go_package(group: &str) -> &str {
    match group.split('.').next() {
        None | Some("") => "core",
        Some(first) => first,
    }
}

/// `group/version`, or `version` in the core group.
pub(crate) fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_preferred_as_kubernetes_does() {
        let mut versions = vec!["v1alpha1", "foo10", "v2", "v11beta2", "v10", "v3beta1", "foo1", "v1"];
        versions.sort_by_key(|version| std::cmp::Reverse(version_rank(version)));
        assert_eq!(versions, ["v10", "v2", "v1", "v11beta2", "v3beta1", "v1alpha1", "foo1", "foo10"]);
    }

    #[test]
    fn every_row_of_the_built_in_resources_has_a_schema() {
        let registry = Registry::builtin();
        for row in builtin::ROWS {
            assert!(registry.find(row.group, row.plural).is_some(), "{}/{}", row.group, row.plural);
        }
    }
}
