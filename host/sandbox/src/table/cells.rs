//! Cells of built-in kinds, and the looks at objects that they share.

use crate::schema::columns::human_duration;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// An object under a clock.
pub(super) struct Look<'a> {
    pub object: &'a Value,
    pub now: Timestamp,
}

impl<'a> Look<'a> {
    /// What is at a dotted path, if it is not null.
    pub(super) fn at(&self, path: &str) -> Option<&'a Value> {
        let found = path.split('.').try_fold(self.object, |value, key| value.get(key));
        found.filter(|value| !value.is_null())
    }

    pub(super) fn string(&self, path: &str) -> String {
        match self.at(path) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Array(_) | Value::Object(_)) | None => String::new(),
            Some(other) => other.to_string(),
        }
    }

    pub(super) fn text(&self, path: &str) -> Value {
        json!(self.string(path))
    }

    pub(super) fn number(&self, path: &str) -> Value {
        json!(self.integer(path))
    }

    pub(super) fn integer(&self, path: &str) -> i64 {
        self.at(path).and_then(Value::as_i64).unwrap_or_default()
    }

    pub(super) fn list(&self, path: &str) -> &'a [Value] {
        self.at(path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    pub(super) fn length(&self, path: &str) -> Value {
        json!(self.list(path).len())
    }

    /// Entries of some maps together.
    pub(super) fn count(&self, paths: &[&str]) -> Value {
        let entries = |path: &&str| self.at(path).and_then(Value::as_object).map_or(0, serde_json::Map::len);
        json!(paths.iter().map(entries).sum::<usize>())
    }

    pub(super) fn or_none(&self, text: &str) -> Value {
        json!(if text.is_empty() { "<none>" } else { text })
    }

    /// How long ago a time was.
    pub(super) fn since(&self, time: &str) -> String {
        let parsed = time.parse::<Timestamp>().ok();
        parsed.map_or("<unknown>".into(), |time| human_duration(self.now.as_second() - time.as_second()))
    }

    fn since_at(&self, path: &str) -> Option<String> {
        self.at(path).and_then(Value::as_str).map(|time| self.since(time))
    }

    pub(super) fn age(&self) -> Value {
        json!(self.since_at("metadata.creationTimestamp").unwrap_or("<unknown>".into()))
    }

    pub(super) fn labels(&self, path: &str) -> Value {
        let pairs: Vec<String> = self
            .at(path)
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
            .collect();
        self.or_none(&pairs.join(","))
    }

    /// A label selector as text.
    pub(super) fn selector(&self, path: &str) -> Value {
        let mut parts: Vec<String> = Vec::new();
        let selector = self.at(path);
        for (key, value) in selector.and_then(|one| one["matchLabels"].as_object()).into_iter().flatten() {
            parts.push(format!("{key}={}", value.as_str().unwrap_or_default()));
        }
        for expression in selector.and_then(|one| one["matchExpressions"].as_array()).into_iter().flatten() {
            let key = expression["key"].as_str().unwrap_or_default();
            let values = strings(&expression["values"]).join(",");
            parts.push(match expression["operator"].as_str().unwrap_or_default() {
                "In" => format!("{key} in ({values})"),
                "NotIn" => format!("{key} notin ({values})"),
                "DoesNotExist" => format!("!{key}"),
                _ => key.to_owned(),
            });
        }
        parts.sort();
        self.or_none(&parts.join(","))
    }

    /// Names and images of containers.
    pub(super) fn containers(&self, path: &str) -> (Value, Value) {
        let join = |key: &str| {
            let texts: Vec<&str> = self.list(path).iter().filter_map(|one| one[key].as_str()).collect();
            json!(texts.join(","))
        };
        (join("name"), join("image"))
    }

    /// The controlling owner.
    pub(super) fn controller(&self) -> Value {
        let owners = self.list("metadata.ownerReferences");
        let Some(owner) = owners.iter().find(|owner| owner["controller"] == true) else {
            return json!("<none>");
        };
        let text = |key: &str| owner[key].as_str().unwrap_or_default();
        let group =
            text("apiVersion").split_once('/').map_or(String::new(), |(group, _)| format!(".{group}"));
        json!(format!("{}{group}/{}", text("kind").to_lowercase(), text("name")))
    }

    fn workload(&self, cells: Vec<Value>, selector: Value) -> Vec<Value> {
        let (names, images) = self.containers("spec.template.spec.containers");
        [cells, vec![names, images, selector]].concat()
    }
}

fn strings(list: &Value) -> Vec<String> {
    crate::store::object::strings(Some(list))
}

pub(super) fn replicas(look: &Look<'_>) -> Vec<Value> {
    let cells = vec![
        look.number("spec.replicas"),
        look.number("status.replicas"),
        look.number("status.readyReplicas"),
        look.age(),
    ];
    let plain =
        look.at("spec.selector.matchLabels").is_none() && look.at("spec.selector.matchExpressions").is_none();
    let selector = if plain { look.labels("spec.selector") } else { look.selector("spec.selector") };
    look.workload(cells, selector)
}

pub(super) fn daemons(look: &Look<'_>) -> Vec<Value> {
    let mut cells: Vec<Value> = [
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    ]
    .iter()
    .map(|field| look.number(&format!("status.{field}")))
    .collect();
    cells.extend([look.labels("spec.template.spec.nodeSelector"), look.age()]);
    look.workload(cells, look.selector("spec.selector"))
}

pub(super) fn deployment(look: &Look<'_>) -> Vec<Value> {
    let ready = format!("{}/{}", look.integer("status.readyReplicas"), look.integer("spec.replicas"));
    let cells = vec![
        json!(ready),
        look.number("status.updatedReplicas"),
        look.number("status.availableReplicas"),
        look.age(),
    ];
    // The only kind whose printer has no word for an empty selector.
    let selector = look.selector("spec.selector");
    look.workload(cells, if selector == "<none>" { json!("") } else { selector })
}

pub(super) fn stateful(look: &Look<'_>) -> Vec<Value> {
    let ready = format!("{}/{}", look.integer("status.readyReplicas"), look.integer("spec.replicas"));
    let (names, images) = look.containers("spec.template.spec.containers");
    vec![json!(ready), look.age(), names, images]
}

pub(super) fn cron(look: &Look<'_>) -> Vec<Value> {
    let (names, images) = look.containers("spec.jobTemplate.spec.template.spec.containers");
    vec![
        look.text("spec.schedule"),
        look.or_none(&look.string("spec.timeZone")),
        json!(match look.at("spec.suspend").and_then(Value::as_bool) {
            Some(true) => "True",
            Some(false) => "False",
            None => "<unset>",
        }),
        look.length("status.active"),
        json!(look.since_at("status.lastScheduleTime").unwrap_or("<none>".into())),
        look.age(),
        names,
        images,
        look.selector("spec.jobTemplate.spec.selector"),
    ]
}

pub(super) fn job(look: &Look<'_>) -> Vec<Value> {
    let conditions = look.list("status.conditions");
    let has = |kind: &str| conditions.iter().any(|one| one["type"] == kind && one["status"] == "True");
    let deleting = look.at("metadata.deletionTimestamp").is_some();
    let status = match () {
        () if has("Complete") => "Complete",
        () if has("Failed") => "Failed",
        () if deleting => "Terminating",
        () if has("Suspended") => "Suspended",
        () if has("FailureTarget") => "FailureTarget",
        () if has("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    };
    let succeeded = look.integer("status.succeeded");
    let completions = match (look.at("spec.completions"), look.integer("spec.parallelism")) {
        (Some(completions), _) => format!("{succeeded}/{completions}"),
        (None, parallelism @ 2..) => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    };
    let second = |path: &str| Some(look.at(path)?.as_str()?.parse::<Timestamp>().ok()?.as_second());
    let end = second("status.completionTime").unwrap_or(look.now.as_second());
    let took = second("status.startTime").map(|start| human_duration(end - start)).unwrap_or_default();
    look.workload(
        vec![json!(status), json!(completions), json!(took), look.age()],
        look.selector("spec.selector"),
    )
}

pub(super) fn service(look: &Look<'_>) -> Vec<Value> {
    let ports: Vec<String> = look
        .list("spec.ports")
        .iter()
        .map(|port| {
            let protocol = port["protocol"].as_str().unwrap_or_default();
            match port["nodePort"].as_i64().unwrap_or_default() {
                0 => format!("{}/{protocol}", port["port"]),
                node => format!("{}:{node}/{protocol}", port["port"]),
            }
        })
        .collect();
    let external = look.at("spec.externalIPs").map(strings).unwrap_or_default();
    let external = match look.string("spec.type").as_str() {
        "ExternalName" => look.string("spec.externalName"),
        "LoadBalancer" => {
            let all = [addresses(look, "status.loadBalancer.ingress"), external].concat();
            if all.is_empty() { "<pending>".into() } else { all.join(",") }
        }
        "ClusterIP" | "NodePort" => external.join(","),
        _ => "<unknown>".into(),
    };
    vec![
        look.text("spec.type"),
        look.or_none(&look.string("spec.clusterIP")),
        look.or_none(&external),
        look.or_none(&ports.join(",")),
        look.age(),
        look.labels("spec.selector"),
    ]
}

fn addresses(look: &Look<'_>, path: &str) -> Vec<String> {
    let all: BTreeSet<String> = look
        .list(path)
        .iter()
        .filter_map(|one| one["ip"].as_str().or(one["hostname"].as_str()).map(str::to_owned))
        .collect();
    all.into_iter().collect()
}

/// The first three of some texts, and how many more there are.
fn shortened(all: &[String], empty: &str) -> Value {
    match all.len() {
        0 => json!(empty),
        count if count > 3 => json!(format!("{} + {} more...", all[..3].join(","), count - 3)),
        _ => json!(all.join(",")),
    }
}

pub(super) fn ingress(look: &Look<'_>) -> Vec<Value> {
    let hosts: Vec<String> =
        look.list("spec.rules").iter().filter_map(|rule| rule["host"].as_str().map(str::to_owned)).collect();
    let ports = if look.list("spec.tls").is_empty() { "80" } else { "80, 443" };
    vec![
        look.or_none(&look.string("spec.ingressClassName")),
        shortened(&hosts, "*"),
        json!(addresses(look, "status.loadBalancer.ingress").join(",")),
        json!(ports),
        look.age(),
    ]
}

pub(super) fn endpoints(look: &Look<'_>) -> Value {
    let mut all = Vec::new();
    for subset in look.list("subsets") {
        let ips: Vec<&str> = subset["addresses"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|one| one["ip"].as_str())
            .collect();
        let ports = subset["ports"].as_array().map_or(&[][..], Vec::as_slice);
        if ports.is_empty() {
            all.extend(ips.iter().map(|ip| (*ip).to_owned()));
        }
        for port in ports {
            all.extend(ips.iter().map(|ip| format!("{ip}:{}", port["port"])));
        }
    }
    shortened(&all, "<none>")
}

pub(super) fn slice(look: &Look<'_>) -> Vec<Value> {
    let ports: Vec<String> = look.list("ports").iter().map(|port| port["port"].to_string()).collect();
    let all: Vec<String> = look.list("endpoints").iter().flat_map(|one| strings(&one["addresses"])).collect();
    vec![look.text("addressType"), shortened(&ports, "<unset>"), shortened(&all, "<unset>"), look.age()]
}

pub(super) fn node(look: &Look<'_>) -> Vec<Value> {
    let ready = look.list("status.conditions").iter().find(|one| one["type"] == "Ready");
    let mut status = match ready {
        Some(ready) if ready["status"] == "True" => "Ready".to_owned(),
        Some(_) => "NotReady".to_owned(),
        None => "Unknown".to_owned(),
    };
    if look.at("spec.unschedulable") == Some(&json!(true)) {
        status.push_str(",SchedulingDisabled");
    }
    let labels = look.at("metadata.labels").and_then(Value::as_object);
    let roles: BTreeSet<String> = labels
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role.to_owned()),
            None if key == "kubernetes.io/role" => value.as_str().map(str::to_owned),
            None => None,
        })
        .filter(|role| !role.is_empty())
        .collect();
    let roles: Vec<String> = roles.into_iter().collect();
    let address = |kind: &str| {
        let found = look.list("status.addresses").iter().find(|one| one["type"] == kind);
        look.or_none(found.and_then(|one| one["address"].as_str()).unwrap_or_default())
    };
    let info = |field: &str| {
        let text = look.string(&format!("status.nodeInfo.{field}"));
        json!(if text.is_empty() { "<unknown>".to_owned() } else { text })
    };
    vec![
        json!(status),
        look.or_none(&roles.join(",")),
        look.age(),
        look.text("status.nodeInfo.kubeletVersion"),
        address("InternalIP"),
        address("ExternalIP"),
        info("osImage"),
        info("kernelVersion"),
        info("containerRuntimeVersion"),
    ]
}

/// Access modes in their short form.
fn modes(look: &Look<'_>, path: &str) -> Value {
    let given = look.at(path).map(strings).unwrap_or_default();
    let all = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let short: Vec<&str> =
        all.iter().filter(|(long, _)| given.iter().any(|one| one == long)).map(|(_, short)| *short).collect();
    json!(short.join(","))
}

fn or_unset(look: &Look<'_>, path: &str) -> Value {
    let text = look.string(path);
    json!(if text.is_empty() { "<unset>".to_owned() } else { text })
}

pub(super) fn claim(look: &Look<'_>) -> Vec<Value> {
    let deleting = look.at("metadata.deletionTimestamp").is_some();
    let bound = !look.string("spec.volumeName").is_empty();
    vec![
        if deleting { json!("Terminating") } else { look.text("status.phase") },
        look.text("spec.volumeName"),
        if bound { look.text("status.capacity.storage") } else { json!("") },
        if bound { modes(look, "status.accessModes") } else { json!("") },
        look.text("spec.storageClassName"),
        or_unset(look, "spec.volumeAttributesClassName"),
        look.age(),
        or_unset(look, "spec.volumeMode"),
    ]
}

pub(super) fn volume(look: &Look<'_>) -> Vec<Value> {
    let deleting = look.at("metadata.deletionTimestamp").is_some();
    let claim = match look.string("spec.claimRef.name").as_str() {
        "" => String::new(),
        name => format!("{}/{name}", look.string("spec.claimRef.namespace")),
    };
    let capacity = look.at("spec.capacity.storage").cloned();
    vec![
        capacity.unwrap_or_else(|| json!("0")),
        modes(look, "spec.accessModes"),
        look.text("spec.persistentVolumeReclaimPolicy"),
        if deleting { json!("Terminating") } else { look.text("status.phase") },
        json!(claim),
        look.text("spec.storageClassName"),
        or_unset(look, "spec.volumeAttributesClassName"),
        look.text("status.reason"),
        look.age(),
        or_unset(look, "spec.volumeMode"),
    ]
}

pub(super) fn quota(look: &Look<'_>) -> Vec<Value> {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (name, hard) in look.at("status.hard").and_then(Value::as_object).into_iter().flatten() {
        let used =
            look.at("status.used").and_then(|used| used.get(name)).and_then(Value::as_str).unwrap_or("0");
        let text = format!("{name}: {used}/{}", hard.as_str().unwrap_or_default());
        if name.starts_with("limits.") { limits.push(text) } else { requests.push(text) }
    }
    vec![json!(requests.join(", ")), json!(limits.join(", ")), look.age()]
}

pub(super) fn autoscaler(look: &Look<'_>) -> Vec<Value> {
    let reference =
        format!("{}/{}", look.string("spec.scaleTargetRef.kind"), look.string("spec.scaleTargetRef.name"));
    let targets: Vec<String> = look
        .list("spec.metrics")
        .iter()
        .map(|metric| {
            let target = &metric["resource"]["target"];
            let name = metric["resource"]["name"].as_str().unwrap_or_default();
            match target["averageUtilization"].as_i64() {
                Some(percent) => format!("{name}: <unknown>/{percent}%"),
                None => format!("{name}: <unknown>/{}", target["averageValue"].as_str().unwrap_or("<auto>")),
            }
        })
        .collect();
    vec![
        json!(reference),
        look.or_none(&targets.join(", ")),
        json!(look.at("spec.minReplicas").map_or("<unset>".to_owned(), Value::to_string)),
        look.number("spec.maxReplicas"),
        look.number("status.currentReplicas"),
        look.age(),
    ]
}

pub(super) fn disruption(look: &Look<'_>) -> Vec<Value> {
    let or_na = |path: &str| match look.string(path) {
        text if text.is_empty() => json!("N/A"),
        text => json!(text),
    };
    vec![
        or_na("spec.minAvailable"),
        or_na("spec.maxUnavailable"),
        look.number("status.disruptionsAllowed"),
        look.age(),
    ]
}

pub(super) fn binding(look: &Look<'_>) -> Vec<Value> {
    let role = format!("{}/{}", look.string("roleRef.kind"), look.string("roleRef.name"));
    let names = |kind: &str| {
        let of_kind = look.list("subjects").iter().filter(|one| one["kind"] == kind);
        let texts: Vec<String> = of_kind
            .map(|one| {
                let name = one["name"].as_str().unwrap_or_default();
                match one["namespace"].as_str() {
                    Some(namespace) if kind == "ServiceAccount" => format!("{namespace}/{name}"),
                    _ => name.to_owned(),
                }
            })
            .collect();
        json!(texts.join(", "))
    };
    vec![json!(role), look.age(), names("User"), names("Group"), names("ServiceAccount")]
}

pub(super) fn storage_class(look: &Look<'_>) -> Vec<Value> {
    let text = |path: &str, default: &str| match look.string(path) {
        text if text.is_empty() => json!(default),
        text => json!(text),
    };
    vec![
        look.text("provisioner"),
        text("reclaimPolicy", "Delete"),
        text("volumeBindingMode", "Immediate"),
        json!(look.at("allowVolumeExpansion") == Some(&json!(true))),
        look.age(),
    ]
}

pub(super) fn admission(look: &Look<'_>, plural: &str) -> Vec<Value> {
    let or_unset = |text: String| json!(if text.is_empty() { "<unset>".to_owned() } else { text });
    match plural {
        "validatingadmissionpolicies" => {
            let param = match look.string("spec.paramKind.kind").as_str() {
                "" => String::new(),
                kind => format!("{}/{kind}", look.string("spec.paramKind.apiVersion")),
            };
            vec![look.length("spec.validations"), or_unset(param), look.age()]
        }
        "validatingadmissionpolicybindings" => {
            vec![look.text("spec.policyName"), or_unset(look.string("spec.paramRef.name")), look.age()]
        }
        _ => vec![look.length("webhooks"), look.age()],
    }
}

pub(super) fn event(look: &Look<'_>) -> Vec<Value> {
    // Both versions of Event are looked at by the older names.
    let mut core = look.object.clone();
    if core.get("regarding").is_some() {
        crate::convert::event_to_core(&mut core);
    }
    let look = Look { object: &core, now: look.now };
    let first = look.since_at("firstTimestamp").or(look.since_at("eventTime")).unwrap_or("<unknown>".into());
    let last =
        look.since_at("series.lastObservedTime").or(look.since_at("lastTimestamp")).unwrap_or(first.clone());
    let count = match (look.at("series.count"), look.integer("count")) {
        (Some(count), _) => count.clone(),
        (None, 0) => json!(1),
        (None, count) => json!(count),
    };
    let kind = look.string("involvedObject.kind").to_lowercase();
    let object = match look.string("involvedObject.name").as_str() {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let either = |a: &str, b: &str| match look.string(a) {
        text if text.is_empty() => look.string(b),
        text => text,
    };
    let source = match either("source.host", "reportingInstance").as_str() {
        "" => either("source.component", "reportingComponent"),
        host => format!("{}, {host}", either("source.component", "reportingComponent")),
    };
    vec![
        json!(last),
        look.text("type"),
        look.text("reason"),
        json!(object),
        look.text("involvedObject.fieldPath"),
        json!(source),
        json!(look.string("message").trim()),
        json!(first),
        count,
        look.text("metadata.name"),
    ]
}
