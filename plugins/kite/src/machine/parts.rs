//! A machine's parts as they are observed, each with whose it is.

use evenkeel_sdk::{Asked, Kind, ObjectRef, Pass, Served, Stop, reference};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Secret, Service};
use k8s_openapi::api::networking::v1::Ingress;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::config::{self, MACHINE_KEYS, RuntimeConfig};
use crate::evidence::{self, Evidence};
use crate::identity::Identity;
use crate::kinds::{DataVolume, Login, Part, VirtualMachine};
use crate::ownership::{Ownership, classify, is_input_of};
use crate::render::service::Which;

/// The questions, put together.
pub struct Questions<'p> {
    evidence: evidence::Questions<'p>,
    config: config::Question<'p>,
    cloud_init: Asked<'p, Option<Part<Secret>>>,
    guest_login: Asked<'p, Option<Login>>,
    ssh_key: Asked<'p, Option<Login>>,
    services: [Asked<'p, Option<Part<Service>>>; 2],
    ingress: Asked<'p, Option<Part<Ingress>>>,
}

/// The answers.
pub struct Parts {
    /// What the summary rests on.
    pub evidence: Evidence,
    /// The platform's configuration.
    pub config: RuntimeConfig,
    /// The Secret with the login, which others make.
    pub guest_login: Option<Login>,
    /// The Secret with the SSH key, which others make.
    pub ssh_key: Option<Login>,
    cloud_init: Option<Part<Secret>>,
    services: [Option<Part<Service>>; 2],
    ingress: Option<Part<Ingress>>,
}

/// One part.
pub struct Child {
    /// Where it is.
    pub at: ObjectRef,
    /// Whose it is.
    pub ownership: Ownership,
    /// Its UID; "" where there is none.
    pub uid: String,
    /// Whether it is being deleted already.
    pub is_going: bool,
}

/// Puts the questions.
pub fn ask<'p>(pass: &'p Pass, id: &Identity) -> Questions<'p> {
    let namespace = &id.namespace;
    Questions {
        evidence: evidence::ask(pass, namespace, &id.name),
        config: RuntimeConfig::ask(pass, MACHINE_KEYS),
        cloud_init: pass.get((namespace, id.cloud_init())).ask(),
        guest_login: pass.get((namespace, id.guest_login())).ask(),
        ssh_key: pass.get((namespace, id.ssh_key())).ask(),
        services: Which::BOTH.map(|which| pass.get((namespace, which.name(id))).ask()),
        ingress: pass.get((namespace, &id.name)).ask(),
    }
}

impl Questions<'_> {
    /// Reads the answers.
    pub fn read(self) -> Result<Parts, Stop> {
        let [ssh, web] = self.services;
        Ok(Parts {
            evidence: self.evidence.read()?,
            config: self.config.read()?,
            cloud_init: self.cloud_init.read()?,
            guest_login: self.guest_login.read()?,
            ssh_key: self.ssh_key.read()?,
            services: [ssh.read()?, web.read()?],
            ingress: self.ingress.read()?,
        })
    }
}

impl Parts {
    /// The disk.
    pub fn volume(&self, id: &Identity) -> Child {
        let volume = served(&self.evidence.volume).map(|volume| &volume.metadata);
        Child::of::<DataVolume>(id, id.disk(), volume)
    }

    /// The cloud-init Secret.
    pub fn cloud_init(&self, id: &Identity) -> Child {
        Child::of::<Secret>(id, id.cloud_init(), self.cloud_init.as_ref().map(|part| &part.metadata))
    }

    /// KubeVirt's machine.
    pub fn vm(&self, id: &Identity) -> Child {
        let vm = served(&self.evidence.vm).map(|vm| &vm.metadata);
        Child::of::<VirtualMachine>(id, id.name.clone(), vm)
    }

    /// One of the Services.
    pub fn service(&self, id: &Identity, which: Which) -> Child {
        Child::of::<Service>(id, which.name(id), self.service_metadata(which))
    }

    /// What one of the Services says of itself.
    pub fn service_metadata(&self, which: Which) -> Option<&ObjectMeta> {
        let [ssh, web] = &self.services;
        let part = match which {
            Which::Ssh => ssh,
            Which::Web => web,
        };
        part.as_ref().map(|part| &part.metadata)
    }

    /// The Ingress.
    pub fn ingress(&self, id: &Identity) -> Child {
        Child::of::<Ingress>(id, id.name.clone(), self.ingress.as_ref().map(|part| &part.metadata))
    }

    /// The disk's claim. Nobody but CDI and its labels say whose it is.
    pub fn claim(&self, id: &Identity) -> Child {
        let claim = self.evidence.claim.as_ref().map(|claim| &claim.metadata);
        let mut child = Child::of::<PersistentVolumeClaim>(id, id.disk(), claim);
        child.ownership = match claim {
            None => Ownership::Absent,
            Some(_) if self.evidence.own_claim(id).is_some() => Ownership::Owned,
            Some(_) => Ownership::Foreign,
        };
        child
    }

    /// The Secrets that others make for this machine and that go with it.
    pub fn inputs(&self, id: &Identity) -> [Child; 2] {
        let inputs = [(id.guest_login(), &self.guest_login), (id.ssh_key(), &self.ssh_key)];
        inputs.map(|(name, login)| {
            let metadata = login.as_ref().map(|login| &login.metadata);
            let mut child = Child::of::<Secret>(id, name, metadata);
            let is_controlled = metadata.is_some_and(|metadata| {
                metadata.owner_references.iter().flatten().any(|owner| owner.controller == Some(true))
            });
            // Without a controller the name alone says whose it is, unless the labels say something else.
            if !is_controlled && metadata.is_some_and(|metadata| is_input_of(metadata, id)) {
                child.ownership = Ownership::Legacy;
            }
            child
        })
    }

    /// All that R3 makes, in the order that it makes it.
    pub fn all(&self, id: &Identity) -> [Child; 6] {
        [
            self.volume(id),
            self.cloud_init(id),
            self.vm(id),
            self.service(id, Which::Ssh),
            self.service(id, Which::Web),
            self.ingress(id),
        ]
    }
}

impl Child {
    fn of<K: Kind>(id: &Identity, name: String, metadata: Option<&ObjectMeta>) -> Self {
        Self {
            at: reference::<K>((&id.namespace, name)),
            ownership: classify(metadata, id),
            uid: metadata.and_then(|metadata| metadata.uid.clone()).unwrap_or_default(),
            is_going: metadata.is_some_and(|metadata| metadata.deletion_timestamp.is_some()),
        }
    }

    /// `Kind/name`.
    pub fn text(&self) -> String {
        format!("{}/{}", self.at.gvk.kind, self.at.name)
    }
}

fn served<T>(answer: &Served<Option<T>>) -> Option<&T> {
    match answer {
        Served::Yes(answer) => answer.as_ref(),
        Served::No => None,
    }
}
