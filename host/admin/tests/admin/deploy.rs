//! What `deploy/` says of the host is so: its manifests are valid, its dashboards and alerts name metrics that exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use evenkeel_admin::metrics::catalogue::{self, Metric};
use evenkeel_sandbox::{Sandbox, SandboxOptions};
use http::Request;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").canonicalize().expect("the checkout is there")
}

fn read(path: &str) -> String {
    fs::read_to_string(deploy().join(path)).unwrap_or_else(|error| panic!("deploy/{path}: {error}"))
}

/// The documents of a YAML file.
fn documents(path: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(&read(path)).unwrap_or_else(|error| panic!("deploy/{path}: {error}"))
}

/// The documents of the base, in the order in which they are applied.
fn base() -> Vec<Value> {
    let kustomization = documents("base/kustomization.yaml").remove(0);
    let files = kustomization["resources"].as_array().expect("resources").clone();
    files
        .iter()
        .flat_map(|file| documents(&format!("base/{}", file.as_str().expect("a file's name"))))
        .collect()
}

fn of_kind(kind: &str) -> Value {
    base().into_iter().find(|document| document["kind"] == kind).unwrap_or_else(|| panic!("no {kind}"))
}

// ---- manifests -------------------------------------------------------------------------------------------------------

fn path_of(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (version, kind) = (text("/apiVersion"), text("/kind").to_lowercase());
    let root = if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") };
    let plural = kind.strip_suffix('y').map_or(format!("{kind}s"), |stem| format!("{stem}ies"));
    let namespace = match text("/metadata/namespace") {
        namespace if namespace.is_empty() => String::new(),
        namespace => format!("/namespaces/{namespace}"),
    };
    format!("{root}{namespace}/{plural}/{}", text("/metadata/name"))
}

async fn apply(sandbox: &Sandbox, object: &Value) -> (u16, String) {
    let request = Request::patch(format!("{}?fieldManager=test&fieldValidation=Strict", path_of(object)))
        .header("content-type", "application/apply-patch+yaml")
        .body(bytes::Bytes::from(object.to_string()))
        .expect("a request");
    let response = sandbox.service().answer(request);
    let code = response.status().as_u16();
    let body = response.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    (code, String::from_utf8_lossy(&body).into_owned())
}

#[tokio::test]
async fn the_api_server_takes_every_manifest_of_the_base() {
    let sandbox = Sandbox::new(SandboxOptions::default());
    for object in base() {
        let (code, answer) = apply(&sandbox, &object).await;
        assert!(
            code == 200 || code == 201,
            "{} {}: {code} {answer}",
            object["kind"],
            object["metadata"]["name"]
        );
    }
}

#[test]
fn every_file_of_the_base_is_a_part_of_it() {
    let listed: BTreeSet<String> = documents("base/kustomization.yaml").remove(0)["resources"]
        .as_array()
        .expect("resources")
        .iter()
        .map(|file| file.as_str().expect("a file's name").to_owned())
        .chain(["kustomization.yaml".to_owned()])
        .collect();
    let there: BTreeSet<String> = fs::read_dir(deploy().join("base"))
        .expect("deploy/base")
        .map(|entry| entry.expect("a readable entry").file_name().to_string_lossy().into_owned())
        .collect();
    assert_eq!(there, listed);
}

#[test]
fn pods_are_restricted() {
    let namespace = of_kind("Namespace");
    assert_eq!(namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"], "restricted");
    let spec = of_kind("Deployment")["spec"]["template"]["spec"].clone();
    let pod = &spec["securityContext"];
    assert_eq!(
        (&pod["runAsNonRoot"], &pod["seccompProfile"]["type"]),
        (&json!(true), &json!("RuntimeDefault"))
    );
    for container in spec["containers"].as_array().expect("containers") {
        let own = &container["securityContext"];
        assert_eq!(own["allowPrivilegeEscalation"], false);
        assert_eq!(own["readOnlyRootFilesystem"], true);
        assert_eq!(own["capabilities"], json!({"drop": ["ALL"]}));
        assert!(container["resources"]["limits"]["memory"].is_string());
    }
    for volume in spec["volumes"].as_array().expect("volumes") {
        assert!(volume.get("hostPath").is_none(), "{volume}");
    }
}

#[test]
fn probes_ports_and_policies_fit_each_other() {
    let spec = of_kind("Deployment")["spec"].clone();
    let container = &spec["template"]["spec"]["containers"][0];
    let ports: BTreeSet<&str> = container["ports"]
        .as_array()
        .expect("ports")
        .iter()
        .filter_map(|port| port["name"].as_str())
        .collect();
    for (probe, path) in
        [("startupProbe", "/livez"), ("livenessProbe", "/livez"), ("readinessProbe", "/readyz")]
    {
        let get = &container[probe]["httpGet"];
        assert_eq!(get["path"], path);
        assert!(ports.contains(get["port"].as_str().expect("a port's name")), "{probe}");
    }
    let labels = &spec["template"]["metadata"]["labels"];
    for (kind, pointer) in [
        ("Deployment", "/spec/selector/matchLabels"),
        ("PodDisruptionBudget", "/spec/selector/matchLabels"),
        ("NetworkPolicy", "/spec/podSelector/matchLabels"),
        ("Service", "/spec/selector"),
    ] {
        let selected = of_kind(kind).pointer(pointer).cloned().unwrap_or_else(|| panic!("{kind} {pointer}"));
        for (name, value) in selected.as_object().expect("labels") {
            assert_eq!(&labels[name], value, "{kind}");
        }
    }
}

#[test]
fn the_hosts_account_holds_no_right_that_no_plugin_asked_for() {
    for object in base() {
        let rules = object["rules"].as_array().cloned().unwrap_or_default();
        for rule in rules {
            let text = rule.to_string();
            assert!(
                !text.contains('*') && !text.contains("secrets") && !text.contains("impersonate"),
                "{text}"
            );
        }
        assert_ne!(object["roleRef"]["name"], "cluster-admin");
    }
}

// ---- dashboards and alerts -------------------------------------------------------------------------------------------

/// Every PromQL expression of the dashboards and alerts, with where it stands.
fn expressions() -> Vec<(String, String)> {
    let mut found = Vec::new();
    let dashboard: Value = serde_json::from_str(&read("dashboards/evenkeel.json")).expect("a dashboard");
    for panel in dashboard["panels"].as_array().expect("panels") {
        for target in panel["targets"].as_array().into_iter().flatten() {
            found.push((
                panel["title"].to_string(),
                target["expr"].as_str().expect("an expression").to_owned(),
            ));
        }
    }
    for rule in alerts() {
        found.push((rule["alert"].to_string(), rule["expr"].as_str().expect("an expression").to_owned()));
    }
    found
}

fn alerts() -> Vec<Value> {
    let rules = documents("alerts/evenkeel.yaml").remove(0);
    let groups = rules["spec"]["groups"].as_array().expect("groups").clone();
    groups.iter().flat_map(|group| group["rules"].as_array().expect("rules").clone()).collect()
}

/// The metrics and the labels that an expression names.
#[derive(Debug, Default, PartialEq, Eq)]
struct Named {
    metrics: BTreeSet<String>,
    labels: BTreeSet<String>,
}

/// Reads an expression as far as this needs: what stands in braces, or in the parentheses of `by`, is a label; what is
/// followed by a parenthesis is a function; what else is a word is a metric.
fn named(expression: &str) -> Named {
    const WORDS: [&str; 12] = [
        "by",
        "without",
        "on",
        "ignoring",
        "and",
        "or",
        "unless",
        "group_left",
        "group_right",
        "bool",
        "offset",
        "inf",
    ];
    let mut named = Named::default();
    let mut rest = expression;
    let (mut in_braces, mut in_labels, mut labels_next) = (false, false, false);
    while let Some(first) = rest.chars().next() {
        if first.is_ascii_alphabetic() || first == '_' {
            let end =
                rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != ':').unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            rest = after;
            if in_braces || in_labels {
                named.labels.insert(word.to_owned());
            } else if WORDS.contains(&word) {
                labels_next = matches!(word, "by" | "without" | "on" | "ignoring");
            } else if !after.trim_start().starts_with('(') && !expression_variable(expression, after, word) {
                let aggregation = after.trim_start().starts_with("by ");
                if !aggregation {
                    named.metrics.insert(word.to_owned());
                }
            }
            continue;
        }
        let skip = match first {
            // A text, or a range, holds no names.
            '"' => rest[1..].find('"').map_or(rest.len(), |end| end + 2),
            '[' => rest.find(']').map_or(rest.len(), |end| end + 1),
            _ if first.is_ascii_digit() => {
                rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len())
            }
            _ => first.len_utf8(),
        };
        match first {
            '{' => in_braces = true,
            '}' => in_braces = false,
            '(' => (in_labels, labels_next) = (labels_next, false),
            ')' => in_labels = false,
            _ => {}
        }
        rest = &rest[skip..];
    }
    named
}

/// Whether the word is one of Grafana's variables, as in `$job`.
fn expression_variable(expression: &str, after: &str, word: &str) -> bool {
    let start = expression.len() - after.len() - word.len();
    expression[..start].ends_with('$')
}

#[test]
fn the_reader_of_expressions_knows_metrics_from_labels() {
    let expression = r#"sum by (le, kind) (rate(a_bucket{code=~"5..|x", host="$host"}[5m])) / ignoring(pod) b > 1e3 and c offset 5m"#;
    let want = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(
        named(expression),
        Named {
            metrics: want(&["a_bucket", "b", "c"]),
            labels: want(&["le", "kind", "code", "host", "pod"])
        }
    );
}

#[test]
fn dashboards_and_alerts_name_only_metrics_that_exist() {
    let known: BTreeSet<String> = catalogue::ALL.iter().flat_map(Metric::series).collect();
    let expressions = expressions();
    assert!(expressions.len() > 40, "they were read");
    for (place, expression) in expressions {
        let Named { metrics, labels } = named(&expression);
        assert!(!metrics.is_empty(), "{place}: {expression}");
        for metric in &metrics {
            assert!(known.contains(metric), "{place}: there is no {metric}");
        }
        // What Prometheus adds to every series, and to buckets.
        let added = ["le", "job", "instance"];
        let of_metrics =
            catalogue::ALL.iter().filter(|one| one.series().iter().any(|name| metrics.contains(name)));
        let has: BTreeSet<&str> = of_metrics.flat_map(|one| one.labels).copied().chain(added).collect();
        let strange: Vec<_> = labels.iter().filter(|label| !has.contains(label.as_str())).collect();
        assert!(strange.is_empty(), "{place}: no such label {strange:?} in {expression}");
    }
}

#[test]
fn an_alert_says_what_is_wrong_and_where_to_look_next() {
    let mut names = BTreeSet::new();
    for alert in alerts() {
        assert!(names.insert(alert["alert"].to_string()), "{} stands there twice", alert["alert"]);
        let text = |field: &str| alert["annotations"][field].as_str().unwrap_or_default().to_owned();
        assert!(text("summary").ends_with('.') && text("runbook").ends_with('.'), "{alert}");
        assert!(
            ["critical", "warning", "info"]
                .contains(&alert["labels"]["severity"].as_str().unwrap_or_default())
        );
    }
}

#[test]
fn the_operators_guide_lists_the_metrics_as_they_are() {
    let path = deploy().join("metrics.md");
    let want = format!(
        "# Metrics\n\nServed at `/metrics` of `--metrics-bind-address`. A `controller` is `PLUGIN/CONTROLLER`; no label \
         ever holds an object's name.\n\n{}",
        catalogue::table()
    );
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(&path, &want).expect("deploy/metrics.md can be written");
    }
    assert!(
        read("metrics.md") == want,
        "deploy/metrics.md is out of date: run this test with UPDATE_EXPECT=1"
    );
}
