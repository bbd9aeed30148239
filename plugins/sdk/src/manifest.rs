//! What a plugin is and what it needs, by builders.
//!
//! The permissions are all that a plugin can ever do: the host refuses everything else, and an operator reads them.

use std::marker::PhantomData;
use std::time::Duration;

use crate::ask::view;
use crate::{Controller, Kind, Manifest, Permission, ProviderUse, Verb};

/// Starts a manifest.
pub fn manifest(name: &str, version: &str, summary: &str) -> ManifestBuilder {
    ManifestBuilder(Manifest {
        name: name.to_owned(),
        version: version.to_owned(),
        summary: summary.to_owned(),
        controllers: Vec::new(),
        permissions: Vec::new(),
        providers: Vec::new(),
        crds: Vec::new(),
        config_schema: None,
    })
}

/// A manifest under way.
pub struct ManifestBuilder(Manifest);

impl ManifestBuilder {
    /// With a controller.
    pub fn controller(mut self, controller: ControllerBuilder) -> Self {
        self.0.controllers.push(controller.0);
        self
    }

    /// With a permission.
    pub fn permit<K>(mut self, permission: PermissionBuilder<K>) -> Self {
        self.0.permissions.push(permission.permission);
        self
    }

    /// With a provider that the plugin asks these questions and has do these operations.
    pub fn provider(mut self, provider: &str, questions: &[&str], operations: &[&str]) -> Self {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        self.0.providers.push(ProviderUse {
            provider: provider.to_owned(),
            questions: owned(questions),
            operations: owned(operations),
        });
        self
    }

    /// With a CustomResourceDefinition that the plugin brings along; see [`crd`].
    pub fn crd(mut self, definition: &serde_json::Value) -> Self {
        self.0.crds.push(crate::act::json(definition));
        self
    }

    /// With settings of this type, whose JSON Schema the host holds an operator's config to.
    pub fn config<C: schemars::JsonSchema>(mut self) -> Self {
        self.0.config_schema = Some(crate::act::json(&schemars::schema_for!(C)));
        self
    }

    /// The manifest.
    pub fn build(self) -> Manifest {
        self.0
    }
}

/// The definition of a `#[derive(CustomResource)]` type.
pub fn crd<K: kube::CustomResourceExt>() -> serde_json::Value {
    // Types of k8s-openapi serialize.
    serde_json::to_value(K::crd()).expect("a CustomResourceDefinition serializes to JSON")
}

/// Starts a controller whose primary objects are of kind `K`.
pub fn controller<K: Kind>(name: &str) -> ControllerBuilder {
    ControllerBuilder(Controller {
        name: name.to_owned(),
        primary: K::gvk(),
        labels: String::new(),
        view: view(K::pointers()),
        resync: None,
    })
}

/// A controller under way.
pub struct ControllerBuilder(Controller);

impl ControllerBuilder {
    /// Only primaries that match this label selector.
    pub fn labels(mut self, selector: &str) -> Self {
        self.0.labels = selector.to_owned();
        self
    }

    /// Only these parts of the primary matter (JSON pointers): a change elsewhere runs no pass.
    pub fn view(mut self, pointers: &[&str]) -> Self {
        self.0.view = view(pointers);
        self
    }

    /// A pass of each primary at least this often.
    pub fn resync(mut self, every: Duration) -> Self {
        self.0.resync = Some(u64::try_from(every.as_millis()).unwrap_or(u64::MAX));
        self
    }
}

/// Starts a permission for kind `K`; nothing is permitted yet.
pub fn permit<K: Kind>() -> PermissionBuilder<K> {
    let permission = Permission { gvk: K::gvk(), verbs: Vec::new(), names: Vec::new() };
    PermissionBuilder { permission, kind: PhantomData }
}

/// A permission under way.
pub struct PermissionBuilder<K> {
    permission: Permission,
    kind: PhantomData<K>,
}

impl<K> PermissionBuilder<K> {
    /// To ask for one object. Without [`PermissionBuilder::list`] the host watches single objects only.
    pub fn get(self) -> Self {
        self.verb(Verb::Get)
    }

    /// To ask for many. With names it allows no list, but one watch of all that have such a name.
    pub fn list(self) -> Self {
        self.verb(Verb::List)
    }

    /// To ask for one and for many.
    pub fn read(self) -> Self {
        self.get().list()
    }

    /// To create.
    pub fn create(self) -> Self {
        self.verb(Verb::Create)
    }

    /// To apply.
    pub fn apply(self) -> Self {
        self.verb(Verb::Apply)
    }

    /// To apply to the status.
    pub fn apply_status(self) -> Self {
        self.verb(Verb::ApplyStatus)
    }

    /// To patch.
    pub fn patch(self) -> Self {
        self.verb(Verb::Patch)
    }

    /// To delete.
    pub fn delete(self) -> Self {
        self.verb(Verb::Delete)
    }

    /// To add and remove finalizers.
    pub fn finalize(self) -> Self {
        self.verb(Verb::Finalize)
    }

    /// To publish Events about it.
    pub fn publish(self) -> Self {
        self.verb(Verb::Publish)
    }

    /// Only objects whose name matches one of these globs.
    pub fn names(mut self, globs: &[&str]) -> Self {
        self.permission.names.extend(globs.iter().map(|&glob| glob.to_owned()));
        self
    }

    fn verb(mut self, verb: Verb) -> Self {
        if !self.permission.verbs.contains(&verb) {
            self.permission.verbs.push(verb);
        }
        self
    }
}
