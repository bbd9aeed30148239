//! The requests of a sequence.

use super::bodies::{Kind, strings_of};
use crate::case::Step;
use crate::chance::Chance;
use serde_json::{Value, json};

const NAMES: &[&str] = &["a", "b", "c"];
const MANAGERS: &[&str] = &["one", "two", "three"];

/// Label selectors, and labels that a marker needs to match each.
const SELECTORS: &[(&str, &str, &str)] = &[
    ("labelSelector=tier%3Da", "tier", "a"),
    ("labelSelector=tier!%3Da", "other", "x"),
    ("labelSelector=tier in (a,b)", "tier", "b"),
    ("labelSelector=!tier", "other", "x"),
    ("labelSelector=tier", "tier", "c"),
    ("fieldSelector=metadata.name!%3Da", "other", "x"),
    ("", "other", "x"),
];

/// Writes one request after the other.
pub struct Writer {
    /// What was written.
    pub steps: Vec<Step>,
    chance: Chance,
    kind: Kind,
    kept: usize,
    markers: usize,
    /// Whether a name was left to the server: two such would be listed in an order of chance.
    generated: bool,
}

type Write = fn(&mut Writer);

/// The requests and how often they come.
const REQUESTS: &[(usize, Write)] = &[
    (5, Writer::create),
    (4, Writer::update),
    (4, Writer::merge_patch),
    (3, Writer::json_patch),
    (3, Writer::strategic_patch),
    (12, Writer::apply),
    (4, Writer::status),
    (2, Writer::scale),
    (4, Writer::delete),
    (1, Writer::delete_collection),
    (2, Writer::own),
    (2, Writer::hold),
    (2, Writer::get),
    (3, Writer::list),
    (2, Writer::pages),
    (2, Writer::watch),
];

impl Writer {
    pub fn new(chance: Chance, kind: Kind) -> Writer {
        let mut writer = Writer { steps: Vec::new(), chance, kind, kept: 0, markers: 0, generated: false };
        if writer.chance.one_in(2) {
            writer.create();
        } else {
            writer.apply();
        }
        writer
    }

    /// Writes one request, or a few that belong together.
    pub fn request(&mut self) {
        let weights: Vec<usize> = REQUESTS.iter().map(|(weight, _)| *weight).collect();
        REQUESTS[self.chance.weighted(&weights)].1(self);
    }

    fn name(&mut self) -> &'static str {
        // The first is met most often, so that there is something to quarrel about.
        NAMES[self.chance.weighted(&[5, 2, 1])]
    }

    fn push(&mut self, mut step: Step) {
        if self.chance.one_in(3) {
            step.keep = format!("k{}", self.kept);
            self.kept += 1;
        }
        self.steps.push(step);
    }

    /// Parameters that any write takes.
    fn parameters(&mut self, first: &str) -> String {
        let mut out: Vec<String> = Vec::new();
        if !first.is_empty() {
            out.push(first.to_owned());
        }
        if self.chance.one_in(10) {
            out.push("dryRun=All".into());
        }
        match self.chance.below(8) {
            0 => out.push("fieldValidation=Strict".into()),
            1 => out.push("fieldValidation=Ignore".into()),
            2 => out.push("fieldValidation=Warn".into()),
            _ => {}
        }
        if out.is_empty() { String::new() } else { format!("?{}", out.join("&")) }
    }

    fn manager(&mut self) -> String {
        match self.chance.one_in(3) {
            true => String::new(),
            false => format!("fieldManager={}", self.chance.pick(MANAGERS)),
        }
    }

    /// A part of an answer that was kept; something else where none was.
    fn earlier(&mut self, pointer: &str) -> String {
        match self.kept {
            0 => "1".into(),
            kept => format!("${{k{}:{pointer}}}", self.chance.below(kept)),
        }
    }

    fn create(&mut self) {
        let name = self.name();
        let mut body = self.kind.object(&mut self.chance, name, true);
        if !self.generated && self.chance.one_in(8) {
            self.generated = true;
            body["metadata"]["generateName"] = json!("made-");
            if let Some(metadata) = body["metadata"].as_object_mut() {
                metadata.remove("name");
            }
        }
        let manager = self.manager();
        let query = self.parameters(&manager);
        self.push(Step::new(format!("POST {}{query}", self.kind.path())).with("json", body));
    }

    fn update(&mut self) {
        let name = self.name();
        let mut body = self.kind.object(&mut self.chance, name, true);
        if self.chance.one_in(2) {
            body["metadata"]["resourceVersion"] = json!(self.earlier("/metadata/resourceVersion"));
        }
        if self.chance.one_in(8) {
            body["metadata"]["uid"] = json!(self.earlier("/metadata/uid"));
        }
        let manager = self.manager();
        let query = self.parameters(&manager);
        self.push(Step::new(format!("PUT {}/{name}{query}", self.kind.path())).with("json", body));
    }

    /// A patch of part of an object, by merging; some fields are taken away.
    fn merge_patch(&mut self) {
        let name = self.name();
        let mut body = self.kind.object(&mut self.chance, name, false);
        self.thin(&mut body);
        if self.chance.one_in(6) {
            body["metadata"]["resourceVersion"] = json!(self.earlier("/metadata/resourceVersion"));
        }
        let manager = self.manager();
        let query = self.parameters(&manager);
        self.push(Step::new(format!("PATCH {}/{name}{query}", self.kind.path())).with("merge", body));
    }

    /// Drops identity, and nulls a field now and then.
    fn thin(&mut self, body: &mut Value) {
        if self.chance.one_in(2)
            && let Some(fields) = body.as_object_mut()
        {
            fields.remove("apiVersion");
            fields.remove("kind");
        }
        if self.chance.one_in(3)
            && let Some(spec) = body["spec"].as_object_mut()
            && let Some(key) = spec.keys().next().cloned()
        {
            spec.insert(key, Value::Null);
        }
        if self.chance.one_in(4) {
            body["metadata"]["labels"] = Value::Null;
        }
    }

    fn json_patch(&mut self) {
        let name = self.name();
        let mut operations = Vec::new();
        for _ in 0..=self.chance.below(3) {
            operations.push(match self.chance.below(7) {
                0 => json!({"op": "add", "path": "/metadata/labels", "value": {"tier": "b"}}),
                1 => json!({"op": "replace", "path": "/metadata/labels/tier", "value": "c"}),
                2 => json!({"op": "remove", "path": "/metadata/labels/tier"}),
                3 => json!({"op": "test", "path": "/metadata/name", "value": self.chance.pick(NAMES)}),
                4 => json!({"op": "add", "path": "/metadata/annotations", "value": {"note": "j"}}),
                5 => json!({"op": "copy", "from": "/metadata/name", "path": "/metadata/annotations/note"}),
                _ => {
                    let object = self.kind.object(&mut self.chance, name, true);
                    let key = ["spec", "data", "rules"].into_iter().find(|key| object.get(*key).is_some());
                    let key = key.unwrap_or("metadata");
                    json!({"op": self.chance.pick(&["add", "replace"]), "path": format!("/{key}"), "value": object[key]})
                }
            });
        }
        let query = self.parameters("");
        self.push(
            Step::new(format!("PATCH {}/{name}{query}", self.kind.path()))
                .with("jsonpatch", json!(operations)),
        );
    }

    fn strategic_patch(&mut self) {
        let name = self.name();
        let mut body = self.kind.object(&mut self.chance, name, false);
        self.thin(&mut body);
        if self.kind.kind == "Deployment" && self.chance.one_in(2) {
            let containers = [
                json!([{"name": "side", "$patch": "delete"}]),
                json!([{"name": "main", "env": [{"name": "A", "$patch": "delete"}]}]),
                json!([{"$patch": "replace"}, {"name": "main", "image": "new"}]),
                json!([{"name": "main", "$setElementOrder/env": [{"name": "B"}, {"name": "A"}], "env": [{"name": "B", "value": "9"}]}]),
            ];
            body = json!({"spec": {"template": {"spec": {"containers": self.chance.pick(&containers)}}}});
        }
        let query = self.parameters("");
        self.push(Step::new(format!("PATCH {}/{name}{query}", self.kind.path())).with("strategic", body));
    }

    fn apply(&mut self) {
        let name = self.name();
        let whole = self.chance.one_in(2);
        let body = self.kind.object(&mut self.chance, name, whole);
        let mut first = format!("fieldManager={}", self.chance.pick(MANAGERS));
        if self.chance.one_in(3) {
            first.push_str("&force=true");
        }
        let query = self.parameters(&first);
        self.push(Step::new(format!("PATCH {}/{name}{query}", self.kind.path())).with("apply", body));
    }

    fn status(&mut self) {
        let name = self.name();
        let status = self.kind.status_of(&mut self.chance);
        let path = format!("{}/{name}/status", self.kind.path());
        let small = json!({"apiVersion": self.kind.api_version, "kind": self.kind.kind, "metadata": {"name": name}, "status": status});
        let step = match self.chance.below(4) {
            0 => Step::new(format!("GET {path}")),
            1 => {
                let mut body = self.kind.object(&mut self.chance, name, true);
                body["status"] = status;
                Step::new(format!("PUT {path}")).with("json", body)
            }
            2 => Step::new(format!("PATCH {path}"))
                .with("merge", json!({"status": status, "metadata": {"labels": {"tier": "s"}}})),
            _ => Step::new(format!("PATCH {path}?fieldManager={}", self.chance.pick(MANAGERS)))
                .with("apply", small),
        };
        self.push(step);
    }

    fn scale(&mut self) {
        let name = self.name();
        let path = format!("{}/{name}/scale", self.kind.path());
        let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": name, "namespace": "$ns"},
            "spec": {"replicas": self.chance.below(5)}});
        let step = match self.chance.below(4) {
            0 => Step::new(format!("GET {path}")),
            1 => Step::new(format!("PUT {path}?fieldManager=scaler")).with("json", scale),
            2 => Step::new(format!("PATCH {path}"))
                .with("merge", json!({"spec": {"replicas": self.chance.below(5)}})),
            _ => Step::new(format!("PATCH {path}?fieldManager=one")).with("apply", scale),
        };
        self.push(step);
    }

    fn delete(&mut self) {
        let name = self.name();
        let mut options = json!({});
        if self.chance.one_in(3) {
            options["propagationPolicy"] = json!(self.chance.pick(&["Background", "Foreground", "Orphan"]));
        }
        if self.chance.one_in(6) {
            options["preconditions"] = json!({"uid": self.earlier("/metadata/uid")});
        }
        if self.chance.one_in(6) {
            options["preconditions"] = json!({"resourceVersion": self.earlier("/metadata/resourceVersion")});
        }
        if self.chance.one_in(8) {
            options["dryRun"] = json!(["All"]);
        }
        let step = Step::new(format!("DELETE {}/{name}", self.kind.path()));
        let step = match self.chance.one_in(3) {
            true => step,
            false => step.with("json", options),
        };
        self.push(step);
        self.settle();
    }

    /// After a deletion the garbage collector may be at work: its result is waited for, its steps are not compared.
    fn settle(&mut self) {
        let list = Step { eventually: true, ..Step::new(format!("GET {}", self.kind.path())) };
        self.steps.push(list);
    }

    fn delete_collection(&mut self) {
        let (selector, ..) = *self.chance.pick(SELECTORS);
        self.push(Step::new(format!("DELETE {}?{selector}", self.kind.path())));
        self.settle();
    }

    /// Makes one object the dependent of another.
    fn own(&mut self) {
        let owner = self.name();
        let dependent = self.name();
        if owner == dependent {
            return;
        }
        let keep = format!("owner{}", self.steps.len());
        self.steps
            .push(Step { keep: keep.clone(), ..Step::new(format!("GET {}/{owner}", self.kind.path())) });
        let reference = json!([{"apiVersion": self.kind.api_version, "kind": self.kind.kind, "name": owner,
            "uid": format!("${{{keep}:/metadata/uid}}"), "blockOwnerDeletion": self.chance.one_in(2)}]);
        let body = json!({"metadata": {"ownerReferences": reference}});
        self.push(Step::new(format!("PATCH {}/{dependent}", self.kind.path())).with("merge", body));
        self.settle();
    }

    /// Adds or takes away a finalizer.
    fn hold(&mut self) {
        let name = self.name();
        let finalizers =
            self.chance.pick(&[json!(["differential.test/hold"]), json!([]), Value::Null]).clone();
        let body = json!({"metadata": {"finalizers": finalizers}});
        self.push(Step::new(format!("PATCH {}/{name}", self.kind.path())).with("merge", body));
        self.settle();
    }

    fn get(&mut self) {
        let name = self.name();
        let accept = *self.chance.pick(&["", "table", "metadata"]);
        self.push(Step { accept: accept.into(), ..Step::new(format!("GET {}/{name}", self.kind.path())) });
    }

    fn list(&mut self) {
        let (selector, ..) = *self.chance.pick(SELECTORS);
        let accept = *self.chance.pick(&["", "table", "metadata-list"]);
        // Not kept: the version of a list depends on what others write.
        self.steps.push(Step {
            accept: accept.into(),
            ..Step::new(format!("GET {}?{selector}", self.kind.path()))
        });
    }

    fn pages(&mut self) {
        let (selector, ..) = *self.chance.pick(SELECTORS);
        let keep = format!("page{}", self.steps.len());
        let path = format!("{}?limit=1&{selector}", self.kind.path());
        self.steps.push(Step { keep: keep.clone(), ..Step::new(format!("GET {path}")) });
        // What happens between the pages must not show.
        if self.chance.one_in(2) {
            self.create();
        }
        self.steps.push(Step::new(format!("GET {path}&continue=${{{keep}:/metadata/continue}}")));
    }

    /// A watch from an earlier version up to a marker that is made now.
    fn watch(&mut self) {
        let (selector, label, value) = *self.chance.pick(SELECTORS);
        let marker = format!("z{}", self.markers);
        self.markers += 1;
        let mut body = self.kind.object(&mut self.chance, &marker, true);
        body["metadata"] = json!({"name": marker, "labels": strings_of(&mut self.chance, &["app"], &["a"])});
        body["metadata"]["labels"][label] = json!(value);
        self.mend(&mut body);
        let made = Step {
            keep: format!("made{marker}"),
            ..Step::new(format!("POST {}", self.kind.path())).with("json", body)
        };
        self.steps.push(made);
        let from = match self.chance.below(3) {
            0 => "${namespace:/metadata/resourceVersion}".to_owned(),
            1 if self.kept > 0 => self.earlier("/metadata/resourceVersion"),
            _ => format!("${{made{marker}:/metadata/resourceVersion}}"),
        };
        let initial = self.chance.one_in(4);
        let query = match initial {
            true => {
                "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true".to_owned()
            }
            false => format!("resourceVersion={from}"),
        };
        let accept = *self.chance.pick(&["", "", "table", "metadata"]);
        // A marker that was not made, or lies before the start, is not seen: the time limit ends the watch then.
        let request = format!("GET {}?watch=1&timeoutSeconds=1&{query}&{selector}", self.kind.path());
        let until = match initial {
            // Now and then what comes after is waited for as well.
            true if self.chance.one_in(4) => String::new(),
            true => "initial-events-end".to_owned(),
            false => marker,
        };
        self.steps.push(Step { until, accept: accept.into(), ..Step::new(request) });
    }

    /// Takes faults out of a body that has to be accepted.
    fn mend(&self, body: &mut Value) {
        if self.kind.kind == "Widget" {
            body["spec"] = json!({"size": 3});
        }
    }
}
