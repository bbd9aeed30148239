//! Objects of the kinds that sequences are about, mostly valid.

use crate::chance::Chance;
use serde_json::{Map, Value, json};

/// A kind and what is particular about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// As in `apiVersion`.
    pub api_version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    /// Whether it has a status subresource.
    pub status: bool,
    /// Whether it has a scale subresource.
    pub scale: bool,
    /// Whether strategic merge patches are taken.
    pub builtin: bool,
}

const fn kind(api_version: &'static str, kind: &'static str, plural: &'static str) -> Kind {
    Kind { api_version, kind, plural, status: false, scale: false, builtin: true }
}

/// The kinds; custom ones and those with lists of many sorts come more often.
pub const KINDS: &[Kind] = &[
    kind("v1", "ConfigMap", "configmaps"),
    kind("v1", "Secret", "secrets"),
    Kind { status: true, ..kind("v1", "Service", "services") },
    Kind { status: true, scale: true, ..kind("apps/v1", "Deployment", "deployments") },
    Kind { status: true, scale: true, ..kind("apps/v1", "Deployment", "deployments") },
    kind("rbac.authorization.k8s.io/v1", "Role", "roles"),
    kind("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies"),
    kind("coordination.k8s.io/v1", "Lease", "leases"),
    Kind { status: true, ..kind("v1", "ResourceQuota", "resourcequotas") },
    WIDGET,
    WIDGET,
    WIDGET,
    WIDGET,
    Kind { builtin: false, ..kind("differential.test/v1", "Gadget", "gadgets") },
];

const WIDGET: Kind =
    Kind { status: true, scale: true, builtin: false, ..kind("differential.test/v1", "Widget", "widgets") };

impl Kind {
    /// The path of its collection.
    pub fn path(&self) -> String {
        let root = if self.api_version.contains('/') { "apis" } else { "api" };
        format!("/{root}/{}/namespaces/$ns/{}", self.api_version, self.plural)
    }

    /// An object with some of its fields; `whole` has those that are required.
    pub fn object(&self, chance: &mut Chance, name: &str, whole: bool) -> Value {
        let mut object =
            json!({"apiVersion": self.api_version, "kind": self.kind, "metadata": metadata(chance, name)});
        for (key, value) in self.content(chance, whole) {
            object[key] = value;
        }
        object
    }

    fn content(&self, chance: &mut Chance, whole: bool) -> Vec<(&'static str, Value)> {
        match self.kind {
            "ConfigMap" => {
                let mut fields = vec![("data", strings(chance))];
                if chance.one_in(5) {
                    fields.push(("binaryData", json!({"raw": "AAEC"})));
                }
                if chance.one_in(25) {
                    fields.push(("immutable", json!(true)));
                }
                fields
            }
            "Secret" => {
                let mut fields = vec![("data", json!({"k": "djE=", "l": chance.pick(&["djI=", "djM="])}))];
                if chance.one_in(3) {
                    fields.push(("stringData", json!({"k": chance.pick(&["one", "two"])})));
                }
                if chance.one_in(8) {
                    fields.push(("type", json!("example.com/own")));
                }
                fields
            }
            "Service" => vec![("spec", service(chance))],
            "Deployment" => vec![("spec", deployment(chance, whole))],
            "Role" => vec![("rules", rules(chance))],
            "NetworkPolicy" => vec![("spec", policy(chance))],
            "Lease" => vec![("spec", lease(chance))],
            "ResourceQuota" => {
                vec![(
                    "spec",
                    json!({"hard": {"pods": chance.pick(&["1", "10"]), "requests.cpu": chance.pick(&["500m", "2"])}}),
                )]
            }
            "Widget" => {
                let mut fields = vec![("spec", widget(chance))];
                if chance.one_in(6) {
                    fields.push(("status", status(chance)));
                }
                fields
            }
            _ => vec![
                ("spec", json!({"any": strings(chance), "list": [1, "two", {"three": null}]})),
                ("extra", json!(chance.below(3))),
            ],
        }
    }

    /// A status for the subresource.
    pub fn status_of(&self, chance: &mut Chance) -> Value {
        match self.kind {
            "Widget" => status(chance),
            "Deployment" => {
                json!({"replicas": chance.below(4), "observedGeneration": chance.below(3), "conditions": [
                {"type": "Available", "status": chance.pick(&["True", "False"]), "reason": "Why"}]})
            }
            "Service" => json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}),
            _ => json!({"hard": {"pods": "1"}, "used": {"pods": "0"}}),
        }
    }
}

fn metadata(chance: &mut Chance, name: &str) -> Value {
    let mut out = json!({"name": name});
    if chance.one_in(2) {
        out["labels"] = strings_of(chance, &["tier", "app", "x.test/zone"], &["a", "b", ""]);
    }
    if chance.one_in(3) {
        out["annotations"] = strings_of(chance, &["note", "x.test/why"], &["one", "two words", ""]);
    }
    if chance.one_in(10) {
        out["finalizers"] = json!(["differential.test/hold"]);
    }
    if chance.one_in(12) {
        out["namespace"] = json!("$ns");
    }
    out
}

/// A map of some keys to strings.
pub fn strings_of(chance: &mut Chance, keys: &[&str], values: &[&str]) -> Value {
    let keys = chance.some(keys);
    keys.into_iter().map(|key| ((*key).to_owned(), json!(chance.pick(values)))).collect::<Map<_, _>>().into()
}

fn strings(chance: &mut Chance) -> Value {
    strings_of(chance, &["k", "l", "m", "n"], &["1", "2", "3"])
}

fn service(chance: &mut Chance) -> Value {
    let names = ["web", "api", "dns"];
    let ports: Vec<Value> = chance
        .some(&names)
        .into_iter()
        .enumerate()
        .map(|(at, name)| {
            let mut port = json!({"name": name, "port": 80 + at});
            if chance.one_in(3) {
                port["protocol"] = json!(chance.pick(&["TCP", "UDP"]));
            }
            if chance.one_in(3) {
                port["targetPort"] = chance.pick(&[json!(8080), json!("http")]).clone();
            }
            port
        })
        .collect();
    let mut spec = json!({"selector": strings_of(chance, &["app", "tier"], &["a", "b"]), "ports": ports});
    if ports_empty(&spec) {
        spec["ports"] = json!([{"port": 80}]);
    }
    if chance.one_in(6) {
        spec["clusterIP"] = json!("None");
    }
    if chance.one_in(6) {
        spec["sessionAffinity"] = json!("ClientIP");
    }
    if chance.one_in(12) {
        spec["type"] = json!(chance.pick(&["ClusterIP", "NodePort", "LoadBalancer"]));
    }
    spec
}

fn ports_empty(spec: &Value) -> bool {
    spec["ports"].as_array().is_none_or(Vec::is_empty)
}

fn deployment(chance: &mut Chance, whole: bool) -> Value {
    let names = ["main", "side"];
    let mut containers: Vec<Value> =
        chance.some(&names).into_iter().map(|name| container(chance, name)).collect();
    if containers.is_empty() && whole {
        containers.push(container(chance, "main"));
    }
    let mut pod = json!({"containers": containers});
    if chance.one_in(4) {
        pod["volumes"] = json!([{"name": "v", "emptyDir": {}}]);
    }
    if chance.one_in(4) {
        pod["nodeSelector"] = strings_of(chance, &["disk", "zone"], &["a", "b"]);
    }
    if chance.one_in(5) {
        pod["tolerations"] = json!([{"key": "k", "operator": "Exists"}]);
    }
    let mut spec = json!({
        "selector": {"matchLabels": {"app": "a"}},
        "template": {"metadata": {"labels": {"app": "a"}}, "spec": pod},
    });
    if chance.one_in(2) {
        spec["replicas"] = json!(chance.below(5));
    }
    if chance.one_in(6) {
        spec["strategy"] = chance
            .pick(&[
                json!({"type": "Recreate"}),
                json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "50%"}}),
            ])
            .clone();
    }
    spec
}

fn container(chance: &mut Chance, name: &str) -> Value {
    let mut out = json!({"name": name, "image": chance.pick(&["img:1", "img", "img@sha256:0"])});
    if chance.one_in(2) {
        let names = ["A", "B", "C"];
        let env: Vec<Value> = chance
            .some(&names)
            .into_iter()
            .map(|name| json!({"name": name, "value": chance.pick(&["1", "2"])}))
            .collect();
        out["env"] = json!(env);
    }
    if chance.one_in(3) {
        out["ports"] = json!([{"containerPort": chance.pick(&[80, 81])}]);
    }
    if chance.one_in(4) {
        out["resources"] = json!({"limits": {"cpu": chance.pick(&["1", "1000m", "0.5"]), "memory": "1Gi"}});
    }
    if chance.one_in(5) {
        out["args"] = json!(["--x", chance.pick(&["1", "2"])]);
    }
    out
}

fn rules(chance: &mut Chance) -> Value {
    json!([{"apiGroups": [""], "resources": [chance.pick(&["pods", "secrets"])], "verbs": ["get", chance.pick(&["list", "watch"])]}])
}

fn policy(chance: &mut Chance) -> Value {
    let mut spec = json!({"podSelector": {"matchLabels": strings_of(chance, &["app", "tier"], &["a", "b"])}});
    if chance.one_in(2) {
        spec["ingress"] =
            json!([{"from": [{"podSelector": {}}], "ports": [{"port": chance.pick(&[80, 443])}]}]);
    }
    if chance.one_in(4) {
        spec["policyTypes"] = json!(["Ingress", "Egress"]);
    }
    spec
}

fn lease(chance: &mut Chance) -> Value {
    json!({"holderIdentity": chance.pick(&["one", "two"]), "leaseDurationSeconds": 1 + chance.below(20),
        "renewTime": chance.pick(&["2001-02-03T04:05:06.000007Z", "2001-02-03T04:05:06Z"])})
}

fn status(chance: &mut Chance) -> Value {
    let types = ["Ready", "Healthy"];
    let conditions: Vec<Value> = chance
        .some(&types)
        .into_iter()
        .map(|name| json!({"type": name, "status": chance.pick(&["True", "False"])}))
        .collect();
    let mut out = json!({"conditions": conditions});
    if chance.one_in(2) {
        out["phase"] = json!(chance.pick(&["Up", "Down"]));
    }
    if chance.one_in(3) {
        out["replicas"] = json!(chance.below(3));
        out["selector"] = json!("app=a");
    }
    out
}

/// A field of a Widget's spec: its name, and a value that is mostly valid.
type Field = (&'static str, fn(&mut Chance) -> Value);

const WIDGET_FIELDS: &[Field] = &[
    ("size", |c| c.pick(&[json!(2), json!(50), json!(100), json!(0)]).clone()),
    ("color", |c| json!(c.pick(&["red", "green", "blue"]))),
    ("ratio", |c| c.pick(&[json!(0.5), json!(2), json!(1.0)]).clone()),
    ("nick", |c| c.pick(&[json!("bob"), Value::Null, json!("alice")]).clone()),
    ("gone", |c| c.pick(&[json!("there"), Value::Null]).clone()),
    ("code", |c| json!(c.pick(&["ab-1", "c-22"]))),
    ("when", |_| json!("2001-02-03T04:05:06Z")),
    ("on", |c| json!(c.one_in(2))),
    ("port", |c| c.pick(&[json!(80), json!("http")]).clone()),
    ("low", |c| json!(c.below(10))),
    ("high", |c| json!(5 + c.below(10))),
    ("sealed", |c| json!(c.pick(&["wax", "wax", "tape"]))),
    ("replicas", |c| json!(c.below(4))),
    ("tags", |c| json!(c.some(&["a", "b", "c", "d"]))),
    ("rules", widget_rules),
    ("args", |c| json!(c.some(&["x", "y", "y", "z"]))),
    ("limits", |c| json!({"cpu": c.pick(&[json!(1), json!("1")]), "mem": "2"})),
    ("fixed", |c| c.pick(&[json!({"a": "1"}), json!({"a": "2", "b": 1}), json!({"b": 2})]).clone()),
    ("free", |c| c.pick(&[json!({}), json!({"x": {"y": [1, 2]}}), json!({"known": "z", "n": null})]).clone()),
    ("nested", |c| {
        c.pick(&[
            json!({"deep": {}}),
            json!({"deep": {"b": 1, "list": [{"id": 1}, {"id": 2, "on": false}]}}),
            json!({"deep": {"a": "q", "list": [{"id": 2}]}}),
        ])
        .clone()
    }),
    (
        "template",
        |_| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "t"}, "data": {"a": "b"}}),
    ),
];

/// Values that break a rule of the schema.
const WIDGET_FAULTS: &[Field] = &[
    ("size", |c| c.pick(&[json!(101), json!(-1), json!("2"), json!(1.5), Value::Null]).clone()),
    ("color", |c| c.pick(&[json!("pink"), json!(3)]).clone()),
    ("ratio", |c| c.pick(&[json!(0), json!(0.7), json!("1")]).clone()),
    ("nick", |c| c.pick(&[json!("x"), json!("much too long a name")]).clone()),
    ("code", |c| c.pick(&[json!("AB"), json!("")]).clone()),
    ("when", |_| json!("yesterday")),
    ("on", |_| json!("yes")),
    ("port", |c| c.pick(&[json!(1.5), json!(true), json!([])]).clone()),
    ("low", |_| json!(99)),
    ("tags", |c| {
        c.pick(&[
            json!(["a", "a"]),
            json!(["a", null]),
            json!({"a": 1}),
            json!(["1", "2", "3", "4", "5", "6"]),
        ])
        .clone()
    }),
    ("rules", |c| {
        c.pick(&[
            json!([{"name": "bad"}]),
            json!([{"proto": "UDP"}]),
            json!([{"name": "n"}, {"name": "n"}]),
            json!([{"name": "n", "weight": 11}]),
            json!([{"name": "n", "extra": 1}]),
            json!(["n"]),
        ])
        .clone()
    }),
    ("limits", |c| c.pick(&[json!({"a": 1, "b": 1, "c": 1, "d": 1}), json!({"a": true})]).clone()),
    ("nested", |c| {
        c.pick(&[json!({}), json!({"deep": {"list": [{"id": 1}, {"id": 1}]}}), json!({"deep": []})]).clone()
    }),
    ("template", |c| {
        c.pick(&[
            json!({}),
            json!({"kind": "X"}),
            json!({"apiVersion": "v1", "kind": "X", "metadata": {"name": 1}}),
        ])
        .clone()
    }),
    ("stranger", |_| json!({"a": 1})),
    ("fixed", |_| json!({"a": "1", "c": 1})),
];

fn widget_rules(chance: &mut Chance) -> Value {
    let names = ["r", "s", "t"];
    let rules: Vec<Value> = chance
        .some(&names)
        .into_iter()
        .map(|name| {
            let mut rule = json!({"name": name});
            if chance.one_in(3) {
                rule["proto"] = json!(chance.pick(&["TCP", "UDP"]));
            }
            if chance.one_in(2) {
                rule["weight"] = json!(chance.below(9));
            }
            if chance.one_in(3) {
                rule["opts"] = strings_of(chance, &["o", "p"], &["1", "2"]);
            }
            rule
        })
        .collect();
    json!(rules)
}

fn widget(chance: &mut Chance) -> Value {
    let mut spec = Map::new();
    for (name, value) in WIDGET_FIELDS {
        if chance.one_in(4) {
            spec.insert((*name).to_owned(), value(chance));
        }
    }
    if chance.one_in(6) {
        let (name, value) = chance.pick(WIDGET_FAULTS);
        spec.insert((*name).to_owned(), value(chance));
    }
    Value::Object(spec)
}
