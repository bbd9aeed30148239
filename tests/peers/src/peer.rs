//! Who is measured, and how each is built and started.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

/// Somebody who looks after Kite's users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// The host, with Kite as a component: the one of its controllers that the others are, or all six.
    Evenkeel,
    /// A native controller of kube-rs.
    KubeRs,
    /// A native operator of controller-runtime.
    ControllerRuntime,
}

/// A peer's command line, and its variables.
pub struct Start {
    pub path: PathBuf,
    pub arguments: Vec<String>,
    pub environment: Vec<(String, String)>,
}

impl Peer {
    /// All of them, in the order in which they run.
    pub const ALL: [Peer; 3] = [Peer::Evenkeel, Peer::KubeRs, Peer::ControllerRuntime];

    /// Its name, which is its user's too.
    pub fn name(self) -> &'static str {
        match self {
            Peer::Evenkeel => "evenkeel",
            Peer::KubeRs => "kube-rs",
            Peer::ControllerRuntime => "controller-runtime",
        }
    }

    /// Its program, built where it is out of date.
    pub fn program(self, evenkeel: &Path) -> anyhow::Result<PathBuf> {
        let (own, built) = (root().join("tests/peers").join(self.name()), root().join("target/peers"));
        match self {
            Peer::Evenkeel => {
                let program = evenkeel.canonicalize().with_context(|| {
                    format!("there is no {}: cargo build --release --bin evenkeel", evenkeel.display())
                })?;
                run(Command::new(&program).args(["build", "plugins/kite"]).current_dir(root()))?;
                Ok(program)
            }
            Peer::KubeRs => {
                let target = built.join("cargo");
                run(Command::new("cargo")
                    .args(["build", "--release", "--locked", "--quiet"])
                    .env("CARGO_TARGET_DIR", &target)
                    .current_dir(own))?;
                Ok(target.join("release/peer-kube-rs"))
            }
            Peer::ControllerRuntime => {
                let program = built.join("controller-runtime");
                run(Command::new("go")
                    .args(["build", "-trimpath", "-ldflags=-s -w", "-o"])
                    .arg(&program)
                    .arg(".")
                    .env("CGO_ENABLED", "0")
                    .current_dir(own))?;
                Ok(program)
            }
        }
    }

    /// How it is started, in a folder of its own; the host with all of Kite's controllers or with the others' one.
    pub fn start(self, program: &Path, kubeconfig: &Path, folder: &Path, all: bool) -> anyhow::Result<Start> {
        let kubeconfig = kubeconfig.display().to_string();
        let mut environment = vec![("KUBECONFIG".to_owned(), kubeconfig)];
        let mut arguments = Vec::new();
        if self == Peer::Evenkeel {
            let plugins = folder.join("plugins");
            std::fs::create_dir_all(&plugins)?;
            std::fs::copy(root().join("target/plugins/kite.wasm"), plugins.join("kite.wasm"))?;
            if !all {
                // What the others do, and no more.
                std::fs::write(plugins.join("kite.yaml"), "controllers: [kite-user]\n")?;
            }
            arguments = vec![
                "run".to_owned(),
                format!("--plugins={}", plugins.display()),
                format!("--data-dir={}", folder.join("data").display()),
            ];
            // Compiled once for all rounds, as in production.
            environment
                .push(("XDG_CACHE_HOME".into(), root().join("target/peers/cache").display().to_string()));
        }
        Ok(Start { path: program.to_owned(), arguments, environment })
    }
}

/// The checkout.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}
