//! Which kind a Rust type stands for, and where an object lives.

use std::marker::PhantomData;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use crate::{Gvk, ObjectRef};

/// A Rust type that objects of one kind are read into.
///
/// Every kube and k8s-openapi type is one. A plugin that reads only a few fields writes a struct of just these and
/// says so with [`view!`](crate::view) (or [`kind!`](crate::kind) for a kind that has no Rust type): it parses faster, and a
/// change outside its fields does not run the pass again.
pub trait Kind {
    /// Group, version and kind.
    fn gvk() -> Gvk;

    /// JSON pointers of the parts that the type reads; empty for the whole object.
    fn pointers() -> &'static [&'static str] {
        &[]
    }
}

impl<K: kube::Resource<DynamicType = ()>> Kind for K {
    fn gvk() -> Gvk {
        Gvk {
            group: K::group(&()).into_owned(),
            version: K::version(&()).into_owned(),
            kind: K::kind(&()).into_owned(),
        }
    }
}

/// An object's metadata and nothing else of it: the host then watches only metadata.
#[derive(Clone, Debug, Deserialize)]
#[serde(bound = "")]
pub struct Meta<K> {
    /// The metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    #[serde(skip)]
    kind: PhantomData<K>,
}

impl<K: Kind> Kind for Meta<K> {
    fn gvk() -> Gvk {
        K::gvk()
    }

    fn pointers() -> &'static [&'static str] {
        &["/metadata"]
    }
}

/// Makes a struct of one's own a narrow view of a kind that has a Rust type.
///
/// ```
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// #[derive(serde::Deserialize)]
/// struct Data { data: std::collections::BTreeMap<String, String> }
/// evenkeel_sdk::view!(Data as ConfigMap: "/data");
/// ```
#[macro_export]
macro_rules! view {
    ($view:ty as $kind:ty: $($pointer:literal),+ $(,)?) => {
        impl $crate::Kind for $view {
            fn gvk() -> $crate::Gvk {
                <$kind as $crate::Kind>::gvk()
            }
            fn pointers() -> &'static [&'static str] {
                &[$($pointer),+]
            }
        }
    };
}

/// Makes a struct of one's own stand for a kind, as in `kind!(Machine = "kubevirt.io", "v1", "VirtualMachine")`, with
/// the pointers that it reads, if not all: `kind!(Machine = "kubevirt.io", "v1", "VirtualMachine"; "/spec", "/status")`.
#[macro_export]
macro_rules! kind {
    ($view:ty = $group:expr, $version:expr, $kind:expr $(; $($pointer:literal),+)? $(,)?) => {
        impl $crate::Kind for $view {
            fn gvk() -> $crate::Gvk {
                $crate::Gvk { group: $group.into(), version: $version.into(), kind: $kind.into() }
            }
            fn pointers() -> &'static [&'static str] {
                &[$($($pointer),+)?]
            }
        }
    };
}

/// A name, with a namespace for kinds that have one: made from `"name"` or `("namespace", "name")`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// None for a cluster-scoped kind.
    pub namespace: Option<String>,
    /// The name.
    pub name: String,
}

impl From<&str> for Place {
    fn from(name: &str) -> Self {
        Self { namespace: None, name: name.to_owned() }
    }
}

impl From<&String> for Place {
    fn from(name: &String) -> Self {
        Self::from(name.as_str())
    }
}

impl From<String> for Place {
    fn from(name: String) -> Self {
        Self { namespace: None, name }
    }
}

impl<N: AsRef<str>, M: AsRef<str>> From<(N, M)> for Place {
    fn from((namespace, name): (N, M)) -> Self {
        Self { namespace: Some(namespace.as_ref().to_owned()), name: name.as_ref().to_owned() }
    }
}

impl From<&ObjectRef> for Place {
    fn from(object: &ObjectRef) -> Self {
        Self { namespace: object.namespace.clone(), name: object.name.clone() }
    }
}

/// The reference to an object of kind `K`.
pub fn reference<K: Kind>(place: impl Into<Place>) -> ObjectRef {
    let Place { namespace, name } = place.into();
    ObjectRef { gvk: K::gvk(), namespace, name }
}
