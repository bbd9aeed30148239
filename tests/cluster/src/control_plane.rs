//! etcd, kube-apiserver and kube-controller-manager on loopback.

use crate::client::Client;
use crate::parts::Parts;
use crate::process::Process;
use anyhow::{Context, bail};
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// Longest from the start to `/readyz`; a loaded machine takes 6 s.
const START_MAX: Duration = Duration::from_secs(90);
/// How often `/readyz` is asked.
const POLL: Duration = Duration::from_millis(100);

/// Somebody whom the API server knows.
#[derive(Clone, Debug)]
pub struct User {
    /// Its name.
    pub name: String,
    /// Its groups; `system:masters` may do everything.
    pub groups: Vec<String>,
}

impl User {
    /// A user in these groups.
    pub fn new(name: &str, groups: &[&str]) -> User {
        User { name: name.into(), groups: groups.iter().map(|group| (*group).into()).collect() }
    }
}

/// What a control plane is started with.
#[derive(Clone, Debug)]
pub struct PlaneOptions {
    /// Users besides `admin`.
    pub users: Vec<User>,
    /// Further flags of the API server.
    pub apiserver: Vec<String>,
    /// The controllers that run; none leaves the controller manager out.
    pub controllers: Vec<String>,
    /// After this everything is killed, whoever forgot it.
    pub limit: Duration,
}

impl Default for PlaneOptions {
    /// Namespaces, garbage, quotas, ServiceAccounts and deleted claims are looked after; ends after an hour.
    fn default() -> PlaneOptions {
        let controllers = [
            "namespace-controller",
            "garbage-collector-controller",
            "resourcequota-controller",
            "serviceaccount-controller",
            "persistentvolumeclaim-protection-controller",
            "root-ca-certificate-publisher-controller",
        ];
        PlaneOptions {
            users: Vec::new(),
            apiserver: Vec::new(),
            controllers: controllers.map(str::to_owned).to_vec(),
            limit: Duration::from_secs(3600),
        }
    }
}

/// A running control plane. Dropping it kills its processes and removes its data.
#[derive(Debug)]
pub struct ControlPlane {
    address: SocketAddr,
    etcd: SocketAddr,
    tokens: Vec<(String, String)>,
    // By name, in the order in which they end: controllers first.
    processes: Vec<(String, Process)>,
    folder: TempDir,
}

impl ControlPlane {
    /// Starts one and waits until it is ready.
    ///
    /// # Errors
    /// Where a program does not start or is not ready in time; the end of its log is in the message.
    pub async fn start(parts: &Parts, options: &PlaneOptions) -> anyhow::Result<ControlPlane> {
        let folder = tempfile::Builder::new()
            .prefix("evenkeel-kubernetes-")
            .tempdir()
            .context("cannot make a folder for the control plane")?;
        let [api, etcd, peers] = free_ports()?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, api));
        let tokens = tokens(options)?;
        let etcd_address = SocketAddr::from((Ipv4Addr::LOCALHOST, etcd));
        let mut plane = ControlPlane { address, etcd: etcd_address, tokens, processes: Vec::new(), folder };
        plane.write_secrets(options)?;
        plane.run(parts, "etcd", etcd_flags(plane.path(), etcd, peers), options.limit)?;
        plane.run(parts, "kube-apiserver", plane.apiserver_flags(etcd, options), options.limit)?;
        plane.ready().await?;
        plane.write_kubeconfigs()?;
        plane.start_controllers(parts, options)?;
        Ok(plane)
    }

    /// Starts the controllers of `options`. Only needed where the control plane was started without: those that see to every
    /// kind look for new kinds each 30 s, so definitions are best made before.
    ///
    /// # Errors
    /// Where the controller manager cannot be run.
    pub fn start_controllers(&mut self, parts: &Parts, options: &PlaneOptions) -> anyhow::Result<()> {
        if options.controllers.is_empty() {
            return Ok(());
        }
        let flags = self.controller_flags(options);
        self.run(parts, "kube-controller-manager", flags, options.limit)
    }

    /// Where the API server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where etcd listens, without TLS.
    pub fn etcd(&self) -> SocketAddr {
        self.etcd
    }

    /// Its folder: kubeconfigs, logs, data.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The kubeconfig of a user.
    pub fn kubeconfig(&self, user: &str) -> PathBuf {
        self.path().join(format!("{user}.kubeconfig"))
    }

    /// A client of a user.
    ///
    /// # Errors
    /// Where the user is unknown or the server's certificate cannot be read.
    pub fn client(&self, user: &str) -> anyhow::Result<Client> {
        let Some((_, token)) = self.tokens.iter().find(|(name, _)| name == user) else {
            bail!("the control plane knows no user {user}");
        };
        let ca = fs::read(self.ca()).context("the API server has no certificate yet")?;
        Client::new(self.address, &ca, token)
    }

    /// The process groups, for a person who wants to end them by hand.
    pub fn process_ids(&self) -> Vec<u32> {
        self.processes.iter().map(|(_, process)| process.id()).collect()
    }

    /// One of its programs, such as `etcd` or `kube-apiserver`, for a test that makes it fail. [`ControlPlane::ready`] tells
    /// when it is well again.
    ///
    /// # Errors
    /// Where no program of that name runs.
    pub fn part(&mut self, name: &str) -> anyhow::Result<&mut Process> {
        let found = self.processes.iter_mut().find(|(has, _)| has == name);
        found.map(|(_, process)| process).with_context(|| format!("no {name} was started"))
    }

    fn ca(&self) -> PathBuf {
        self.path().join("pki/apiserver.crt")
    }

    fn run(&mut self, parts: &Parts, name: &str, flags: Vec<String>, limit: Duration) -> anyhow::Result<()> {
        let log = self.path().join(format!("{name}.log"));
        let process = Process::start(&parts.program(name), &flags, &log, limit)?;
        self.processes.insert(0, (name.to_owned(), process));
        Ok(())
    }

    fn write_secrets(&self, options: &PlaneOptions) -> anyhow::Result<()> {
        fs::create_dir_all(self.path().join("pki"))?;
        let key = rcgen::KeyPair::generate().context("cannot make a key for ServiceAccounts")?;
        fs::write(self.path().join("pki/sa.key"), key.serialize_pem())?;
        fs::write(self.path().join("pki/sa.pub"), key.public_key_pem())?;
        let groups = |name: &str| match name {
            "admin" => "system:masters".to_owned(),
            _ => options
                .users
                .iter()
                .find(|user| user.name == name)
                .map_or(String::new(), |u| u.groups.join(",")),
        };
        let lines = self
            .tokens
            .iter()
            .enumerate()
            .map(|(uid, (name, token))| format!("{token},{name},{uid},\"{}\"\n", groups(name)));
        fs::write(self.path().join("tokens.csv"), lines.collect::<String>())?;
        Ok(())
    }

    fn apiserver_flags(&self, etcd: u16, options: &PlaneOptions) -> Vec<String> {
        let at = |name: &str| self.path().join(name).display().to_string();
        let mut flags = vec![
            format!("--etcd-servers=http://127.0.0.1:{etcd}"),
            "--bind-address=127.0.0.1".into(),
            format!("--secure-port={}", self.address.port()),
            "--advertise-address=127.0.0.1".into(),
            "--endpoint-reconciler-type=none".into(),
            // A certificate signed by itself is made there; its file is the CA of the kubeconfigs.
            format!("--cert-dir={}", at("pki")),
            "--service-cluster-ip-range=10.96.0.0/16".into(),
            "--service-account-issuer=https://kubernetes.default.svc".into(),
            format!("--service-account-key-file={}", at("pki/sa.pub")),
            format!("--service-account-signing-key-file={}", at("pki/sa.key")),
            format!("--token-auth-file={}", at("tokens.csv")),
            "--authorization-mode=Node,RBAC".into(),
        ];
        flags.extend(options.apiserver.iter().cloned());
        flags
    }

    fn controller_flags(&self, options: &PlaneOptions) -> Vec<String> {
        vec![
            format!("--kubeconfig={}", self.kubeconfig(CONTROLLERS).display()),
            // Its own user may do next to nothing; each controller's ServiceAccount may do what it needs.
            "--use-service-account-credentials=true".into(),
            "--leader-elect=false".into(),
            "--secure-port=0".into(),
            format!("--controllers={}", options.controllers.join(",")),
            format!("--root-ca-file={}", self.ca().display()),
            format!("--service-account-private-key-file={}", self.path().join("pki/sa.key").display()),
        ]
    }

    /// Waits until the API server is ready.
    ///
    /// # Errors
    /// Where a program has ended, or it takes too long; the end of its log is in the message.
    pub async fn ready(&mut self) -> anyhow::Result<()> {
        let ready = tokio::time::timeout(START_MAX, async {
            loop {
                let ended =
                    self.processes.iter_mut().find_map(|(_, one)| (!one.runs()).then(|| one.last_words()));
                if let Some(words) = ended {
                    return Err(words);
                }
                if let Ok(client) = self.client("admin")
                    && let Ok(answer) = client.get("/readyz").await
                    && answer.status.is_success()
                {
                    return Ok(());
                }
                tokio::time::sleep(POLL).await;
            }
        });
        match ready.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(words)) => bail!("a part of the control plane ended at once:\n{words}"),
            Err(_) => {
                let words: Vec<_> = self.processes.iter().map(|(_, one)| one.last_words()).collect();
                bail!("the control plane is not ready after {START_MAX:?}:\n{}", words.join("\n"))
            }
        }
    }

    fn write_kubeconfigs(&self) -> anyhow::Result<()> {
        for (user, token) in &self.tokens {
            let text = format!(
                "apiVersion: v1\nkind: Config\ncurrent-context: test\n\
                 clusters: [{{name: test, cluster: {{server: \"https://{}\", certificate-authority: \"{}\"}}}}]\n\
                 users: [{{name: user, user: {{token: \"{token}\"}}}}]\n\
                 contexts: [{{name: test, context: {{cluster: test, user: user}}}}]\n",
                self.address,
                self.ca().display(),
            );
            fs::write(self.kubeconfig(user), text)?;
        }
        Ok(())
    }
}

const CONTROLLERS: &str = "system:kube-controller-manager";

fn etcd_flags(folder: &Path, client: u16, peers: u16) -> Vec<String> {
    let client = format!("http://127.0.0.1:{client}");
    let peers = format!("http://127.0.0.1:{peers}");
    vec![
        "--name=test".into(),
        format!("--data-dir={}", folder.join("etcd").display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peers}"),
        format!("--initial-advertise-peer-urls={peers}"),
        format!("--initial-cluster=test={peers}"),
        // Nobody needs the data after a crash.
        "--unsafe-no-fsync".into(),
        "--log-level=warn".into(),
    ]
}

/// Three ports that are free now; held together while they are chosen so that they differ.
fn free_ports() -> anyhow::Result<[u16; 3]> {
    let held = [(); 3].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
    let mut ports = [0; 3];
    for (port, listener) in ports.iter_mut().zip(held) {
        *port = listener.context("no free port on loopback")?.local_addr()?.port();
    }
    Ok(ports)
}

/// A random token a user, in the control plane's private folder only.
fn tokens(options: &PlaneOptions) -> anyhow::Result<Vec<(String, String)>> {
    let names = ["admin", CONTROLLERS].into_iter().chain(options.users.iter().map(|user| user.name.as_str()));
    names
        .map(|name| {
            let mut bytes = [0; 24];
            let chance = rustls::crypto::ring::default_provider().secure_random;
            chance.fill(&mut bytes).ok().context("the system has no random bytes")?;
            Ok((name.to_owned(), bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
        })
        .collect()
}
