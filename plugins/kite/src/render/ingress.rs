//! The way in from the web, for a machine with a domain.

use serde_json::{Value, json};

use crate::config::RuntimeConfig;
use crate::identity::Identity;
use crate::render::service::Which;

/// The one class that needs annotations.
const TRAEFIK: &str = "traefik";

/// The Ingress.
pub fn ingress(machine: &Identity, host: &str, config: &RuntimeConfig) -> Value {
    let mut metadata = machine.metadata(&machine.name);
    if config.ingress_class == TRAEFIK {
        metadata["annotations"] = json!({
            "traefik.ingress.kubernetes.io/router.entrypoints": "websecure",
            "traefik.ingress.kubernetes.io/router.tls": "true",
        });
    }
    let mut tls = json!({ "hosts": [host] });
    if let Some(secret) = &config.ingress_tls_secret {
        tls["secretName"] = secret.as_str().into();
    }
    let (_, port) = Which::Web.port();
    let backend = json!({ "service": { "name": Which::Web.name(machine), "port": { "number": port } } });
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": metadata,
        "spec": {
            "ingressClassName": config.ingress_class,
            "tls": [tls],
            "rules": [{
                "host": host,
                "http": { "paths": [{ "path": "/", "pathType": "Prefix", "backend": backend }] },
            }],
        },
    })
}
