//! The definition of the kind Device. Written out by hand: upstream's unions of providers and applications are looser than a Rust
//! type would make them, and a spec that a newer service rendered must be taken, unknown parts and all.

use serde_json::{Map, Value, json};

use crate::names;

/// The CustomResourceDefinition `devices.flightctl.io`.
pub fn device() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("devices.{}", names::GROUP)},
        "spec": {
            "group": names::GROUP,
            "names": {"kind": "Device", "listKind": "DeviceList", "plural": "devices", "singular": "device"},
            "scope": "Cluster",
            "versions": [{
                "name": names::VERSION,
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "description": "A machine, and what shall be on it.",
                    "properties": {
                        "apiVersion": string(), "kind": string(), "metadata": {"type": "object"},
                        "spec": spec(), "status": status(),
                    },
                }},
                "subresources": {"status": {}},
                "additionalPrinterColumns": [
                    column("Version", ".status.config.renderedVersion"),
                    column("Updating", ".status.conditions[?(@.type==\"Updating\")].reason"),
                    column("Summary", ".status.summary.status"),
                    column("Applications", ".status.applicationsSummary.status"),
                    {"name": "OS", "type": "string", "jsonPath": ".status.os.image", "priority": 1},
                ],
            }],
        },
    })
}

fn column(name: &str, path: &str) -> Value {
    json!({"name": name, "type": "string", "jsonPath": path})
}

fn string() -> Value {
    json!({"type": "string"})
}

fn text(length_max: u32) -> Value {
    json!({"type": "string", "maxLength": length_max})
}

fn integer() -> Value {
    json!({"type": "integer", "format": "int32"})
}

fn one_of(words: &[&str]) -> Value {
    json!({"type": "string", "enum": words})
}

fn list(items: Value) -> Value {
    json!({"type": "array", "items": items})
}

fn texts() -> Value {
    json!({"type": "object", "additionalProperties": {"type": "string"}})
}

/// An object with these fields, and whatever else a newer service knows.
fn open(fields: &[(&str, Value)]) -> Value {
    let mut schema = closed(fields);
    schema["x-kubernetes-preserve-unknown-fields"] = true.into();
    schema
}

fn closed(fields: &[(&str, Value)]) -> Value {
    let properties: Map<String, Value> =
        fields.iter().map(|(name, schema)| ((*name).to_owned(), schema.clone())).collect();
    json!({"type": "object", "properties": properties})
}

fn required(mut schema: Value, fields: &[&str]) -> Value {
    schema["required"] = json!(fields);
    schema
}

fn catalog_item() -> Value {
    let fields = ["catalog", "item", "version", "channel"].map(|name| (name, string()));
    required(open(&fields), &["catalog", "item", "version"])
}

fn spec() -> Value {
    let pattern = text(256);
    open(&[
        ("os", open(&[("image", string()), ("catalogItemRef", catalog_item())])),
        ("config", list(config_provider())),
        ("applications", list(application())),
        ("systemd", open(&[("matchPatterns", list(pattern))])),
        ("resources", list(monitor())),
        ("updatePolicy", open(&[("downloadSchedule", schedule()), ("updateSchedule", schedule())])),
        ("consoles", list(open(&[("sessionID", string()), ("sessionMetadata", string())]))),
        (
            "decommissioning",
            required(open(&[("target", one_of(&["Unenroll", "FactoryReset"]))]), &["target"]),
        ),
    ])
}

fn schedule() -> Value {
    let grace = json!({"type": "string", "pattern": r"^(?:[1-9]\d*)?\d[smh]$"});
    required(open(&[("timeZone", string()), ("at", string()), ("startGraceDuration", grace)]), &["at"])
}

fn owner() -> Value {
    json!({"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true})
}

fn config_provider() -> Value {
    let file = required(
        open(&[
            ("path", string()),
            ("content", string()),
            ("contentEncoding", string()),
            ("mode", integer()),
            ("user", owner()),
            ("group", owner()),
        ]),
        &["path"],
    );
    let any = || open(&[]);
    required(
        open(&[
            ("name", string()),
            ("inline", list(file)),
            ("gitRef", any()),
            ("secretRef", any()),
            ("httpRef", any()),
        ]),
        &["name"],
    )
}

fn application() -> Value {
    let file = required(
        open(&[("path", string()), ("content", string()), ("contentEncoding", string())]),
        &["path"],
    );
    let image = open(&[
        ("reference", string()),
        ("catalogItemRef", catalog_item()),
        ("pullPolicy", one_of(&["Always", "IfNotPresent", "Never"])),
    ]);
    let volume = required(
        open(&[
            ("name", string()),
            ("reclaimPolicy", string()),
            ("image", image),
            ("mount", open(&[("path", string())])),
        ]),
        &["name"],
    );
    required(
        open(&[
            // Which types there are, the plugin says: what it does not know it refuses with a sentence.
            ("appType", string()),
            ("name", text(253)),
            ("image", string()),
            ("catalogItemRef", catalog_item()),
            ("inline", list(file)),
            ("envVars", texts()),
            ("runAs", string()),
            ("volumes", list(volume)),
            ("ports", list(json!({"type": "string", "pattern": r"^\d+:\d+$"}))),
            (
                "publishPorts",
                list(json!({"type": "string", "pattern": r"^[0-9]+:[0-9]+(/(tcp|udp|sctp))?$"})),
            ),
            ("resources", open(&[])),
            ("namespace", string()),
            ("values", open(&[])),
            ("valuesFiles", list(string())),
            ("annotations", texts()),
            ("desiredState", one_of(&["running", "stopped"])),
            ("restartGeneration", json!({"type": "integer", "format": "int64"})),
        ]),
        &["appType"],
    )
}

fn monitor() -> Value {
    let rule = required(
        open(&[
            ("severity", one_of(&["Info", "Warning", "Critical"])),
            ("duration", json!({"type": "string", "pattern": r"^\d+[smh]$"})),
            ("percentage", json!({"type": "number", "minimum": 0, "maximum": 100})),
            ("description", string()),
        ]),
        &["severity", "duration", "percentage", "description"],
    );
    required(
        open(&[
            ("monitorType", one_of(&["CPU", "Memory", "Disk"])),
            ("samplingInterval", json!({"type": "string", "pattern": r"^[1-9]\d*[smh]$"})),
            ("alertRules", list(rule)),
            ("path", string()),
        ]),
        &["monitorType", "samplingInterval", "alertRules"],
    )
}

fn told(words: &[&str]) -> Value {
    closed(&[("status", one_of(words)), ("info", string())])
}

fn conditions() -> Value {
    let condition = required(
        closed(&[
            ("type", string()),
            ("status", one_of(&["True", "False", "Unknown"])),
            ("reason", string()),
            ("message", string()),
            ("observedGeneration", json!({"type": "integer", "format": "int64"})),
            ("lastTransitionTime", json!({"type": "string", "format": "date-time"})),
        ]),
        &["type", "status"],
    );
    let mut conditions = list(condition);
    conditions["x-kubernetes-list-type"] = "map".into();
    conditions["x-kubernetes-list-map-keys"] = json!(["type"]);
    conditions
}

fn application_status() -> Value {
    closed(&[
        ("name", string()),
        ("ready", string()),
        ("restarts", integer()),
        (
            "status",
            one_of(&[
                "Preparing",
                "Starting",
                "Running",
                "Error",
                "Unknown",
                "Completed",
                "Stopping",
                "Stopped",
            ]),
        ),
        ("embedded", json!({"type": "boolean"})),
        ("appType", string()),
        ("runAs", string()),
        ("volumes", list(closed(&[("name", string()), ("reference", string())]))),
    ])
}

fn status() -> Value {
    let health = || one_of(&["Healthy", "Warning", "Critical", "Error", "Unknown"]);
    let unit = ["unit", "description", "enableState", "loadState", "activeState", "subState"];
    open(&[
        ("conditions", conditions()),
        (
            "systemInfo",
            open(&[
                ("architecture", string()),
                ("bootID", string()),
                ("operatingSystem", string()),
                ("agentVersion", string()),
                ("customInfo", texts()),
            ]),
        ),
        ("applications", list(application_status())),
        ("applicationsSummary", told(&["Healthy", "Degraded", "Error", "Unknown", "NoApplications"])),
        ("resources", closed(&[("cpu", health()), ("memory", health()), ("disk", health())])),
        ("integrity", open(&[("status", string())])),
        ("config", closed(&[("renderedVersion", string())])),
        ("os", closed(&[("image", string()), ("imageDigest", string())])),
        ("updated", told(&["UpToDate", "OutOfDate", "Updating", "Unknown"])),
        (
            "summary",
            told(&[
                "Online",
                "Degraded",
                "Error",
                "Rebooting",
                "PoweredOff",
                "Unknown",
                "AwaitingReconnect",
                "ConflictPaused",
            ]),
        ),
        ("lifecycle", told(&["Unknown", "Enrolled", "Decommissioning", "Decommissioned"])),
        ("systemd", list(closed(&unit.map(|name| (name, string()))))),
        ("capabilities", closed(&[("osMode", one_of(&["image", "package"]))])),
    ])
}
