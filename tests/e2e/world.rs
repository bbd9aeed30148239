//! A control plane on which the host has the rights that `deploy/` and `scaffold rbac` give it, and no more.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use bytes::Bytes;
use evenkeel_test_cluster::{Answer, Client, ControlPlane, Parts, PlaneOptions, parts_or_skip};
use http::Request;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::host::{HostOptions, HostProcess};

/// Longer than anything here takes on a machine that does other things too.
pub const PATIENCE: Duration = Duration::from_secs(90);
/// After this a forgotten process is killed.
pub const LIMIT: Duration = Duration::from_secs(400);

/// A control plane with the kinds and the accounts of Kite.
pub struct World {
    pub plane: ControlPlane,
    pub parts: Parts,
    pub admin: Client,
    folder: TempDir,
}

impl World {
    /// None where there is no control plane. Without controllers: what is seen is the host's doing.
    pub async fn start(test: &str) -> Option<World> {
        World::with(test, PlaneOptions { controllers: vec![], ..PlaneOptions::default() }).await
    }

    /// The same, on a control plane of one's own making.
    pub async fn with(test: &str, options: PlaneOptions) -> Option<World> {
        let world = World::bare(test, options).await?;
        let base = root().join("deploy/base");
        for file in ["namespace.yaml", "serviceaccount.yaml", "rbac.yaml"] {
            world.kubectl(&["apply", "--server-side", "-f", &base.join(file).display().to_string()], "");
        }
        let component = kite_component().display().to_string();
        for what in ["crds", "rbac"] {
            let documents = evenkeel(&["scaffold", what, &component]);
            world.kubectl(&["apply", "--server-side", "-f", "-"], &documents);
        }
        world.settings();
        Some(world)
    }

    /// A control plane on which nothing was installed.
    pub async fn bare(test: &str, options: PlaneOptions) -> Option<World> {
        let parts = parts_or_skip(test)?;
        let options = PlaneOptions { limit: LIMIT, ..options };
        let plane = ControlPlane::start(&parts, &options).await.expect("a control plane");
        let admin = plane.client("admin").expect("a client");
        let folder = tempfile::Builder::new().prefix("evenkeel-e2e-").tempdir().expect("a folder");
        Some(World { plane, parts, admin, folder })
    }

    /// The folder of plugins: Kite, whose writes are sent in its own account's name.
    fn settings(&self) {
        std::fs::create_dir_all(self.plugins()).expect("a folder");
        std::fs::copy(kite_component(), self.plugins().join("kite.wasm")).expect("the component is copied");
        let settings = "serviceAccount: evenkeel-system/evenkeel-kite\n";
        std::fs::write(self.plugins().join("kite.yaml"), settings).expect("settings");
    }

    /// The folder of plugins of all hosts.
    pub fn plugins(&self) -> PathBuf {
        self.folder.path().join("plugins")
    }

    /// A folder of this world, for one host.
    pub fn place(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A kubeconfig of the host's service account, on the API server or on a proxy before it. Its token stands in the
    /// file `NAME.token` beside it, from where it is read again and again.
    pub fn kubeconfig(&self, name: &str, port: u16) -> PathBuf {
        let token = self.kubectl(&["-n", "evenkeel-system", "create", "token", "evenkeel"], "");
        let (file, config) =
            (self.place(&format!("{name}.token")), self.place(&format!("{name}.kubeconfig")));
        std::fs::write(&file, token.trim()).expect("a token");
        let text = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {
                "server": format!("https://127.0.0.1:{port}"),
                "certificate-authority": self.plane.path().join("pki/apiserver.crt"),
            }}],
            "users": [{"name": "host", "user": {"tokenFile": file}}],
            "contexts": [{"name": "test", "context": {
                "cluster": "test", "user": "host", "namespace": "evenkeel-system",
            }}],
        });
        std::fs::write(&config, text.to_string()).expect("a kubeconfig");
        config
    }

    /// A host on the API server itself.
    pub fn host(&self, name: &str, options: HostOptions) -> HostProcess {
        self.host_through(name, self.plane.address().port(), options)
    }

    /// A host that reaches the API server by another port.
    pub fn host_through(&self, name: &str, port: u16, options: HostOptions) -> HostProcess {
        let kubeconfig = self.kubeconfig(name, port);
        HostProcess::start(&self.plugins(), &kubeconfig, &self.place(name), options)
    }

    /// What kubectl prints, as the cluster's administrator.
    pub fn kubectl(&self, args: &[&str], input: &str) -> String {
        let mut command = Command::new(self.parts.program("kubectl"));
        command.args(args).env("KUBECONFIG", self.plane.kubeconfig("admin"));
        run(&mut command, input)
    }

    /// Sends a request as the cluster's administrator.
    pub async fn send(&self, method: &str, path: &str, body: &Value) -> anyhow::Result<Answer> {
        let content = match method {
            "PATCH" if path.contains("fieldManager=") => "application/apply-patch+yaml",
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
        let request = Request::builder().method(method).uri(path).header("content-type", content);
        self.admin.send(request.body(body)?).await
    }

    /// Sends a request that must succeed.
    pub async fn must(&self, method: &str, path: &str, body: &Value) -> Value {
        let answer = self.send(method, path, body).await.expect("an answer");
        let text = String::from_utf8_lossy(&answer.body);
        assert!(answer.status.is_success(), "{method} {path}: {} {text}", answer.status);
        serde_json::from_str(&text).unwrap_or(Value::Null)
    }

    /// An object; null where there is none.
    pub async fn get(&self, path: &str) -> Value {
        match self.send("GET", path, &Value::Null).await {
            Ok(answer) if answer.status.is_success() => {
                serde_json::from_slice(&answer.body).expect("an object")
            }
            Ok(_) | Err(_) => Value::Null,
        }
    }

    /// The aggregated form of `/api` or `/apis`.
    pub async fn aggregated(&self, path: &str) -> Value {
        let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        let request = Request::get(path).header("accept", accept).body(Bytes::new()).expect("a request");
        let answer = self.admin.send(request).await.expect("an answer");
        assert!(answer.status.is_success(), "{path}: {}", answer.status);
        serde_json::from_slice(&answer.body).expect("a document")
    }

    /// The items of a list.
    pub async fn list(&self, path: &str) -> Vec<Value> {
        let answer = self.must("GET", path, &Value::Null).await;
        answer["items"].as_array().cloned().unwrap_or_default()
    }
}

/// Waits until something is so; panics with what it found last where it never is.
pub async fn until(what: &str, mut look: impl AsyncFnMut() -> Result<(), String>) -> Duration {
    let began = Instant::now();
    loop {
        match look().await {
            Ok(()) => return began.elapsed(),
            Err(found) => assert!(began.elapsed() < PATIENCE, "never: {what}; at last: {found}"),
        }
        sleep(Duration::from_millis(50)).await;
    }
}

/// The checkout.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the checkout is there")
}

/// Where compiled components are kept: once for all tests.
pub fn cache() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("e2e-cache")
}

/// What a command of the program prints.
pub fn evenkeel(args: &[&str]) -> String {
    run(program().args(args), "")
}

/// The program, in an environment that is nobody's but the test's.
pub fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    command
        .env("XDG_CACHE_HOME", cache())
        .env("NO_COLOR", "1")
        .env_remove("EVENKEEL_LOG")
        .current_dir(root());
    command.env_remove("EVENKEEL_DATA_DIR").env_remove("KUBECONFIG");
    // What the outer cargo says of itself must not reach an inner one.
    command.env_remove("CARGO_TARGET_DIR");
    command
}

/// Kite's component, built once.
pub fn kite_component() -> PathBuf {
    static BUILT: OnceLock<()> = OnceLock::new();
    BUILT.get_or_init(|| {
        evenkeel(&["build", "plugins/kite"]);
    });
    root().join("target/plugins/kite.wasm")
}

/// Runs a command that must succeed.
fn run(command: &mut Command, input: &str) -> String {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    child.stdin.take().expect("its input").write_all(input.as_bytes()).expect("it reads its input");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
