//! Columns of built-in kinds, with the headings of the real server's printers.

use super::cells::{self, Look};
use super::{Heading, pods, rare};
use crate::resources::Resource;
use jiff::Timestamp;
use serde_json::{Value, json};

/// Headings by group and plural: names apart by `|`, `*` for those that only `-o wide` shows, `:` before a type other
/// than string. `Name` comes first everywhere but in events.
const HEADINGS: &[(&str, &str, &str)] = &[
    ("", "componentstatuses", "Name|Status|Message|Error"),
    ("", "configmaps", "Name|Data|Age"),
    ("", "endpoints", "Name|Endpoints|Age"),
    ("", "events", "Last Seen|Type|Reason|Object|Subobject*|Source*|Message|First Seen*|Count*|Name*"),
    (
        "events.k8s.io",
        "events",
        "Last Seen|Type|Reason|Object|Subobject*|Source*|Message|First Seen*|Count*|Name*",
    ),
    ("", "namespaces", "Name|Status|Age"),
    (
        "",
        "nodes",
        "Name|Status|Roles|Age|Version|Internal-IP*|External-IP*|OS-Image*|Kernel-Version*|Container-Runtime*",
    ),
    (
        "",
        "persistentvolumeclaims",
        "Name|Status|Volume|Capacity|Access Modes|StorageClass|VolumeAttributesClass|Age|VolumeMode*",
    ),
    (
        "",
        "persistentvolumes",
        "Name|Capacity|Access Modes|Reclaim Policy|Status|Claim|StorageClass|VolumeAttributesClass|Reason|Age|VolumeMode*",
    ),
    ("", "pods", "Name|Ready|Status|Restarts|Age|IP*|Node*|Nominated Node*|Readiness Gates*"),
    ("", "podtemplates", "Name|Containers|Images|Pod Labels"),
    (
        "",
        "replicationcontrollers",
        "Name|Desired:integer|Current:integer|Ready:integer|Age|Containers*|Images*|Selector*",
    ),
    ("", "resourcequotas", "Name|Request|Limit|Age"),
    ("", "secrets", "Name|Type|Data|Age"),
    ("", "serviceaccounts", "Name|Age"),
    ("", "services", "Name|Type|Cluster-IP|External-IP|Port(s)|Age|Selector*"),
    ("apps", "controllerrevisions", "Name|Controller|Revision|Age"),
    (
        "apps",
        "daemonsets",
        "Name|Desired:integer|Current:integer|Ready:integer|Up-to-date:integer|Available:integer|Node Selector|Age|\
         Containers*|Images*|Selector*",
    ),
    ("apps", "deployments", "Name|Ready|Up-to-date|Available|Age|Containers*|Images*|Selector*"),
    (
        "apps",
        "replicasets",
        "Name|Desired:integer|Current:integer|Ready:integer|Age|Containers*|Images*|Selector*",
    ),
    ("apps", "statefulsets", "Name|Ready|Age|Containers*|Images*"),
    ("autoscaling", "horizontalpodautoscalers", "Name|Reference|Targets|MinPods|MaxPods|Replicas|Age"),
    (
        "batch",
        "cronjobs",
        "Name|Schedule|Timezone|Suspend:boolean|Active:integer|Last Schedule|Age|Containers*|Images*|Selector*",
    ),
    ("batch", "jobs", "Name|Status|Completions|Duration|Age|Containers*|Images*|Selector*"),
    ("networking.k8s.io", "ingressclasses", "Name|Controller|Parameters|Age"),
    ("networking.k8s.io", "ingresses", "Name|Class|Hosts|Address|Ports|Age"),
    ("networking.k8s.io", "networkpolicies", "Name|Pod-Selector|Age"),
    ("policy", "poddisruptionbudgets", "Name|Min Available|Max Unavailable|Allowed Disruptions:integer|Age"),
    ("rbac.authorization.k8s.io", "clusterrolebindings", "Name|Role|Age|Users*|Groups*|ServiceAccounts*"),
    ("rbac.authorization.k8s.io", "rolebindings", "Name|Role|Age|Users*|Groups*|ServiceAccounts*"),
    (
        "storage.k8s.io",
        "storageclasses",
        "Name|Provisioner|ReclaimPolicy|VolumeBindingMode|AllowVolumeExpansion|Age",
    ),
    ("storage.k8s.io", "volumeattributesclasses", "Name|DriverName|Age"),
    ("storage.k8s.io", "volumeattachments", "Name|Attacher|PV|Node|Attached:boolean|Age"),
    ("storage.k8s.io", "csinodes", "Name|Drivers:integer|Age"),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations", "Name|Webhooks:integer|Age"),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations", "Name|Webhooks:integer|Age"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies", "Name|Validations:integer|ParamKind|Age"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicybindings", "Name|PolicyName|ParamRef|Age"),
    (
        "scheduling.k8s.io",
        "priorityclasses",
        "Name|Value:integer|Global-Default:boolean|Age|PreemptionPolicy",
    ),
    ("coordination.k8s.io", "leases", "Name|Holder|Age"),
    ("node.k8s.io", "runtimeclasses", "Name|Handler|Age"),
    ("discovery.k8s.io", "endpointslices", "Name|AddressType|Ports|Endpoints|Age"),
    ("apiregistration.k8s.io", "apiservices", "Name|Service|Available|Age"),
    (
        "certificates.k8s.io",
        "certificatesigningrequests",
        "Name|Age|SignerName|Requestor|RequestedDuration|Condition",
    ),
    // Upstream has a cell for the age, and no heading for it.
    ("networking.k8s.io", "ipaddresses", "Name|ParentRef"),
    ("networking.k8s.io", "servicecidrs", "Name|CIDRs|Age"),
    (
        "storage.k8s.io",
        "csidrivers",
        "Name|AttachRequired:boolean|PodInfoOnMount:boolean|StorageCapacity:boolean|TokenRequests|\
         RequiresRepublish:boolean|Modes|Age",
    ),
    ("resource.k8s.io", "deviceclasses", "Name|Age"),
    ("resource.k8s.io", "resourceclaims", "Name|State|Age"),
    ("resource.k8s.io", "resourceclaimtemplates", "Name|Age"),
    ("resource.k8s.io", "resourceslices", "Name|Node|Driver|Pool|Age"),
    (
        "flowcontrol.apiserver.k8s.io",
        "flowschemas",
        "Name|PriorityLevel|MatchingPrecedence|DistinguisherMethod|Age|MissingPL",
    ),
    (
        "flowcontrol.apiserver.k8s.io",
        "prioritylevelconfigurations",
        "Name|Type|NominalConcurrencyShares|Queues|HandSize|QueueLengthLimit|Age",
    ),
];

/// Go's time where there is none.
const NO_TIME: &str = "0001-01-01T00:00:00Z";

/// What a kind without columns of its own has.
const DEFAULT: &str = "Name|Created At:date";

pub(super) fn has_columns(resource: &Resource) -> bool {
    HEADINGS.iter().any(|(group, plural, _)| resource.is(group, plural))
}

pub(super) fn headings(resource: &Resource) -> Vec<Heading> {
    let found = HEADINGS.iter().find(|(group, plural, _)| resource.is(group, plural));
    found.map_or(DEFAULT, |(.., headings)| headings).split('|').map(heading).collect()
}

fn heading(text: &'static str) -> Heading {
    let (text, kind) = text.split_once(':').unwrap_or((text, "string"));
    let (name, priority) = text.strip_suffix('*').map_or((text, 0), |name| (name, 1));
    Heading { name, kind, format: if matches!(name, "Name" | "Attacher") { "name" } else { "" }, priority }
}

pub(super) fn cells(resource: &Resource, object: &Value, now: Timestamp) -> Vec<Value> {
    let look = Look { object, now };
    let mut cells = match (resource.group.as_str(), resource.plural.as_str()) {
        (_, "events") => return cells::event(&look),
        ("", "pods") => pods::cells(&look),
        ("", "configmaps") => vec![look.count(&["data", "binaryData"]), look.age()],
        ("", "secrets") => vec![look.text("type"), look.count(&["data"]), look.age()],
        ("", "namespaces") => vec![look.text("status.phase"), look.age()],
        ("", "serviceaccounts") => vec![look.age()],
        ("", "services") => cells::service(&look),
        ("", "endpoints") => vec![cells::endpoints(&look), look.age()],
        ("", "nodes") => cells::node(&look),
        ("", "persistentvolumeclaims") => cells::claim(&look),
        ("", "persistentvolumes") => cells::volume(&look),
        ("", "resourcequotas") => cells::quota(&look),
        ("", "podtemplates") => {
            let (names, images) = look.containers("template.spec.containers");
            vec![names, images, look.labels("template.metadata.labels")]
        }
        ("", "replicationcontrollers") | ("apps", "replicasets") => cells::replicas(&look),
        ("apps", "controllerrevisions") => vec![look.controller(), look.number("revision"), look.age()],
        ("apps", "daemonsets") => cells::daemons(&look),
        ("apps", "deployments") => cells::deployment(&look),
        ("apps", "statefulsets") => cells::stateful(&look),
        ("autoscaling", "horizontalpodautoscalers") => cells::autoscaler(&look),
        ("batch", "cronjobs") => cells::cron(&look),
        ("batch", "jobs") => cells::job(&look),
        ("networking.k8s.io", "ingressclasses") => {
            let parameters = look.or_none(&match look.string("spec.parameters.kind").as_str() {
                "" => String::new(),
                kind => format!("{kind}/{}", look.string("spec.parameters.name")),
            });
            vec![look.text("spec.controller"), parameters, look.age()]
        }
        ("networking.k8s.io", "ingresses") => cells::ingress(&look),
        ("networking.k8s.io", "networkpolicies") => vec![look.selector("spec.podSelector"), look.age()],
        ("policy", "poddisruptionbudgets") => cells::disruption(&look),
        ("rbac.authorization.k8s.io", "clusterrolebindings" | "rolebindings") => cells::binding(&look),
        ("storage.k8s.io", "storageclasses") => cells::storage_class(&look),
        ("storage.k8s.io", "volumeattributesclasses") => vec![look.text("driverName"), look.age()],
        ("storage.k8s.io", "volumeattachments") => vec![
            look.text("spec.attacher"),
            look.text("spec.source.persistentVolumeName"),
            look.text("spec.nodeName"),
            json!(look.at("status.attached").and_then(Value::as_bool).unwrap_or_default()),
            look.age(),
        ],
        ("storage.k8s.io", "csinodes") => vec![look.length("spec.drivers"), look.age()],
        ("admissionregistration.k8s.io", plural) => cells::admission(&look, plural),
        ("scheduling.k8s.io", "priorityclasses") => vec![
            look.number("value"),
            json!(look.at("globalDefault").and_then(Value::as_bool).unwrap_or_default()),
            look.age(),
            look.text("preemptionPolicy"),
        ],
        _ => seldom(resource, &look),
    };
    cells.insert(0, look.text("metadata.name"));
    cells
}

/// The cells of kinds that few people list.
fn seldom(resource: &Resource, look: &Look<'_>) -> Vec<Value> {
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("coordination.k8s.io", "leases") => vec![look.text("spec.holderIdentity"), look.age()],
        ("node.k8s.io", "runtimeclasses") => vec![look.text("handler"), look.age()],
        ("discovery.k8s.io", "endpointslices") => cells::slice(look),
        ("certificates.k8s.io", "certificatesigningrequests") => rare::signing_request(look),
        ("networking.k8s.io", "ipaddresses") => vec![rare::parent(look), look.age()],
        ("networking.k8s.io", "servicecidrs") => vec![rare::joined(look, "spec.cidrs"), look.age()],
        ("storage.k8s.io", "csidrivers") => rare::driver(look),
        ("resource.k8s.io", "deviceclasses" | "resourceclaimtemplates") => vec![look.age()],
        ("resource.k8s.io", "resourceclaims") => vec![rare::claim_state(look), look.age()],
        ("resource.k8s.io", "resourceslices") => vec![
            look.text("spec.nodeName"),
            look.text("spec.driver"),
            look.text("spec.pool.name"),
            look.age(),
        ],
        ("flowcontrol.apiserver.k8s.io", "flowschemas") => rare::flow_schema(look),
        ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations") => rare::priority_level(look),
        ("apiregistration.k8s.io", "apiservices") => vec![
            json!("Local"),
            json!(if look.at("status.conditions").is_some() { "True" } else { "Unknown" }),
            look.age(),
        ],
        _ => vec![look.at("metadata.creationTimestamp").cloned().unwrap_or_else(|| json!(NO_TIME))],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::{Offers, Registry};

    #[test]
    fn every_row_has_as_many_cells_as_headings() {
        let registry = Registry::builtin();
        let now = Timestamp::from_second(1_767_225_600).unwrap();
        // Of what is not stored there is never a row.
        for resource in registry.all().filter(|resource| resource.traits.offers == Offers::All) {
            let object = json!({"metadata": {"name": "a", "creationTimestamp": "2025-12-31T23:00:00Z"}});
            let (headings, cells) = (headings(resource), cells(resource, &object, now));
            let more = usize::from(resource.is("networking.k8s.io", "ipaddresses"));
            assert_eq!(headings.len() + more, cells.len(), "{}/{}", resource.group, resource.plural);
        }
    }
}
