//! Both servers, and a case that is sent to both.

use crate::case::{Case, Step};
use crate::normal::Normalizer;
use crate::server::{Raw, Server};
use crate::substitute::Kept;
use anyhow::{Context, bail};
use bytes::Bytes;
use evenkeel_sandbox::{Sandbox, SandboxOptions};
use evenkeel_test_cluster::{Client, ControlPlane, Parts, PlaneOptions};
use http::Request;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Longest that controllers of the real server may be at work; a namespace is emptied in rounds of 5 s.
const EVENTUALLY_MAX: Duration = Duration::from_secs(20);
/// How often they are looked after.
const POLL: Duration = Duration::from_millis(100);

/// What a watch is read up to that is only to tell what is there.
const INITIAL_END: &str = "initial-events-end";

/// The definitions that every case finds.
const DEFINITIONS: [&str; 2] =
    [include_str!("../definitions/widgets.yaml"), include_str!("../definitions/gadgets.yaml")];

/// Both servers with the same definitions in place.
#[derive(Debug)]
pub struct Arena {
    /// The embedded server.
    pub sandbox: Sandbox,
    /// The real one.
    pub plane: ControlPlane,
    /// How long the control plane took until it was ready.
    pub started: Duration,
    client: Client,
    namespaces: AtomicUsize,
}

/// The first step that was answered differently.
#[derive(Clone, Debug)]
pub struct Difference {
    /// Its number, from 0.
    pub step: usize,
    /// Both answers, line by line: `-` is the real server's, `+` the sandbox's.
    pub text: String,
}

impl Arena {
    /// Starts both.
    ///
    /// # Errors
    /// Where the control plane does not start, or a definition is not accepted.
    pub async fn start(parts: &Parts) -> anyhow::Result<Arena> {
        let quiet = PlaneOptions {
            // Pods are made without the ServiceAccount that another controller would have to make first.
            apiserver: vec!["--disable-admission-plugins=ServiceAccount".into()],
            controllers: Vec::new(),
            ..PlaneOptions::default()
        };
        let began = tokio::time::Instant::now();
        let mut plane = ControlPlane::start(parts, &quiet).await?;
        let started = began.elapsed();
        let client = plane.client("admin")?;
        let sandbox = Sandbox::new(SandboxOptions::default());
        let servers = [Server::Real(client.clone()), Server::Sandbox(sandbox.service())];
        for text in DEFINITIONS {
            let definition: Value = serde_saphyr::from_str(text).context("a definition of the tests")?;
            for server in &servers {
                define(server, &definition).await?;
            }
        }
        let controllers =
            ["namespace-controller", "garbage-collector-controller"].map(str::to_owned).to_vec();
        plane.start_controllers(parts, &PlaneOptions { controllers, ..PlaneOptions::default() })?;
        Ok(Arena { sandbox, plane, started, client, namespaces: AtomicUsize::new(0) })
    }

    /// The real server and the sandbox, each behind the same face.
    pub(crate) fn servers(&self) -> [Server; 2] {
        [Server::Real(self.client.clone()), Server::Sandbox(self.sandbox.service())]
    }

    /// Sends a case to both servers, in a new namespace, up to the first difference.
    ///
    /// # Errors
    /// As [`Arena::differences`].
    pub async fn run(&self, case: &Case) -> anyhow::Result<Option<Difference>> {
        Ok(self.differences(case, 1).await?.pop())
    }

    /// Sends a case to both servers, in a new namespace; goes on after a difference, until there are `most` of them.
    ///
    /// # Errors
    /// Where a server cannot be reached, or a step is no request.
    pub async fn differences(&self, case: &Case, most: usize) -> anyhow::Result<Vec<Difference>> {
        let mut found = Vec::new();
        let namespace = format!("case-{}", self.namespaces.fetch_add(1, Ordering::Relaxed));
        let mut real = Side::new(Server::Real(self.client.clone()), &namespace);
        let mut sandbox = Side::new(Server::Sandbox(self.sandbox.service()), &namespace);
        for side in [&mut real, &mut sandbox] {
            side.make_namespace().await?;
        }
        for (number, step) in case.steps.iter().enumerate() {
            let (left, right) = match step.eventually {
                false => (real.take(step).await?, sandbox.take(step).await?),
                true => until_alike(&mut real, &mut sandbox, step).await?,
            };
            if left != right {
                let text = format!("step {}: {}\n{}", number + 1, step.request, compare(&left, &right));
                found.push(Difference { step: number, text });
                if found.len() == most {
                    break;
                }
            }
        }
        Ok(found)
    }
}

async fn define(server: &Server, definition: &Value) -> anyhow::Result<()> {
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let request = Request::post(path).header("content-type", "application/json");
    let answer = server.send(request.body(definition.to_string().into())?).await?;
    if answer.status != 201 {
        bail!("a definition is refused: {}", String::from_utf8_lossy(&answer.body));
    }
    let group = definition["spec"]["group"].as_str().unwrap_or_default();
    let version = definition["spec"]["versions"][0]["name"].as_str().unwrap_or_default();
    let plural = definition["spec"]["names"]["plural"].as_str().unwrap_or_default();
    let served = tokio::time::timeout(EVENTUALLY_MAX, async {
        loop {
            let request = Request::get(format!("/apis/{group}/{version}/{plural}")).body(Bytes::new())?;
            if server.send(request).await?.status == 200 {
                return anyhow::Ok(());
            }
            tokio::time::sleep(POLL).await;
        }
    });
    served.await.with_context(|| format!("{plural}.{group} is not served"))?
}

/// Repeats a step until both sides answer alike; what they said last, where they never do.
async fn until_alike(real: &mut Side, sandbox: &mut Side, step: &Step) -> anyhow::Result<(Value, Value)> {
    let mut last = (Value::Null, Value::Null);
    let alike = tokio::time::timeout(EVENTUALLY_MAX, async {
        loop {
            last = (real.take(step).await?, sandbox.take(step).await?);
            if last.0 == last.1 {
                return anyhow::Ok(());
            }
            tokio::time::sleep(POLL).await;
        }
    })
    .await;
    if let Ok(answer) = alike {
        answer?;
    }
    Ok(last)
}

/// One server within a case.
struct Side {
    server: Server,
    kept: Kept,
    normalizer: Normalizer,
}

impl Side {
    fn new(server: Server, namespace: &str) -> Side {
        let kept = Kept { namespace: namespace.to_owned(), ..Kept::default() };
        Side { server, kept, normalizer: Normalizer::default() }
    }

    async fn make_namespace(&mut self) -> anyhow::Result<()> {
        let body =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.kept.namespace}});
        let step =
            Step { keep: "namespace".into(), ..Step::new("POST /api/v1/namespaces").with("json", body) };
        let answer = self.take(&step).await?;
        if answer["status"] != 201 {
            bail!("the namespace of a case is refused: {answer}");
        }
        Ok(())
    }

    async fn take(&mut self, step: &Step) -> anyhow::Result<Value> {
        let request = self.request(step)?;
        let raw = if step.watches() {
            let needle = match step.until.as_str() {
                INITIAL_END => format!("k8s.io/{INITIAL_END}"),
                name => format!("\"name\":\"{name}\""),
            };
            let last =
                |line: &[u8]| !step.until.is_empty() && String::from_utf8_lossy(line).contains(&needle);
            self.server.watch(request, last).await?
        } else {
            self.server.send(request).await?
        };
        if !step.keep.is_empty() {
            let value = parse_kept(&raw);
            self.kept.answers.insert(step.keep.clone(), value);
        }
        let generate_name = step.body["metadata"]["generateName"].as_str();
        let answer = self.normalizer.answer(&raw, generate_name, step.watches());
        if step.only.is_empty() {
            return Ok(answer);
        }
        let parts = step.only.iter().map(|at| (at.clone(), answer.pointer(at).cloned().unwrap_or_default()));
        Ok(Value::Object(parts.collect()))
    }

    fn request(&self, step: &Step) -> anyhow::Result<Request<Bytes>> {
        let (method, path) = step.line();
        let path = self.kept.fill(path).replace(' ', "%20");
        let mut request =
            Request::builder().method(method).uri(&path).header("user-agent", "differential/1.0");
        let body = match (&step.body, step.text.as_str()) {
            (Value::Null, "") => Bytes::new(),
            (Value::Null, text) => self.kept.fill(text).into(),
            (body, _) => self.kept.fill_value(body).to_string().into(),
        };
        if !body.is_empty() || !step.content_type.is_empty() {
            request = request.header("content-type", content_type(&step.content_type));
        }
        request = request.header("accept", accept(&step.accept));
        request.body(body).with_context(|| format!("{} is no request", step.request))
    }
}

fn parse_kept(raw: &Raw) -> Value {
    serde_json::from_slice(&raw.body).unwrap_or_default()
}

fn content_type(word: &str) -> &str {
    match word {
        "" | "json" => "application/json",
        "merge" => "application/merge-patch+json",
        "jsonpatch" => "application/json-patch+json",
        "strategic" => "application/strategic-merge-patch+json",
        "apply" => "application/apply-patch+yaml",
        "yaml" => "application/yaml",
        other => other,
    }
}

fn accept(word: &str) -> &str {
    match word {
        "" => "application/json",
        "table" => "application/json;as=Table;v=v1;g=meta.k8s.io",
        "metadata" => "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
        "metadata-list" => "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
        other => other,
    }
}

/// Lines that differ, with a few around them.
fn compare(real: &Value, sandbox: &Value) -> String {
    let lines = |value: &Value| serde_json::to_string_pretty(value).unwrap_or_default();
    let (left, right) = (lines(real), lines(sandbox));
    similar::TextDiff::from_lines(&left, &right)
        .unified_diff()
        .context_radius(4)
        .header("real", "sandbox")
        .to_string()
}
