//! What a story plays on: the embedded API server, or a real control plane.

use evenkeel_sandbox::{Sandbox, SandboxOptions};
use evenkeel_test_cluster::{ControlPlane, PlaneOptions, parts_or_skip};
use kube::api::{Api, DynamicObject, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, GroupVersionKind};

pub enum Ground {
    Embedded(Sandbox),
    Real(Box<ControlPlane>),
}

impl Ground {
    pub fn embedded() -> Self {
        Self::Embedded(Sandbox::new(SandboxOptions::default()))
    }

    /// None where there is no control plane.
    pub async fn real(test: &str) -> Option<Self> {
        let parts = parts_or_skip(test)?;
        let options = PlaneOptions { controllers: vec![], ..PlaneOptions::default() };
        let plane = ControlPlane::start(&parts, &options).await.expect("a control plane");
        Some(Self::Real(Box::new(plane)))
    }

    pub async fn client(&self) -> kube::Client {
        match self {
            Self::Embedded(sandbox) => kube::Client::new(sandbox.service(), "default"),
            Self::Real(plane) => {
                let kubeconfig = Kubeconfig::read_from(plane.kubeconfig("admin")).expect("a kubeconfig");
                let options = KubeConfigOptions::default();
                let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await;
                kube::Client::try_from(config.expect("a configuration")).expect("a client")
            }
        }
    }

    pub async fn make_namespace(&self, name: &str) {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Namespace"));
        let namespaces: Api<DynamicObject> = Api::all_with(self.client().await, &kind);
        let namespace = DynamicObject::new(name, &kind);
        namespaces.create(&PostParams::default(), &namespace).await.expect("a namespace");
    }
}
