//! vcsim for tests: the simulator that vCenter's own Go library ships, behind a main of our own (`simulator/`).
//!
//! [`Vcsim::start`] builds it once from the Go module proxy into `target/vcsim`, starts it on loopback with TLS, and
//! ends it when it is dropped. What nobody can do to it over the wire is done by [`Vcsim::control`].

mod build;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail, ensure};

pub use build::{DEMAND, program_or_skip};

/// A running simulator.
#[derive(Debug)]
pub struct Vcsim {
    child: Child,
    ready: serde_json::Value,
    options: Options,
    program: PathBuf,
    folder: tempfile::TempDir,
}

/// How it is started.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The one user and the password; anybody may log in where there is none.
    pub login: Option<(String, String)>,
}

impl Vcsim {
    /// Starts one. Where it cannot be built, says so aloud and gives nothing: the test ends there.
    ///
    /// # Panics
    /// Where it is demanded (see [`DEMAND`]) and cannot be built, or does not start.
    pub fn start(test: &str, options: Options) -> Option<Vcsim> {
        let program = program_or_skip(test)?;
        match Self::of(program, options) {
            Ok(vcsim) => Some(vcsim),
            Err(error) => panic!("{test}: vcsim does not start: {error:#}"),
        }
    }

    /// Builds it where that was not done before, and starts it.
    ///
    /// # Errors
    /// If it cannot be built, or does not start.
    pub fn launch(options: Options) -> anyhow::Result<Vcsim> {
        Self::of(build::program()?, options)
    }

    fn of(program: PathBuf, options: Options) -> anyhow::Result<Vcsim> {
        let folder = tempfile::tempdir()?;
        let (child, ready) = launch(&program, &options, "127.0.0.1:0", &folder)?;
        Ok(Vcsim { child, ready, options, program, folder })
    }

    /// Ends it at once; what it knew is lost.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts it again at the same address with the same certificate, and without all that it knew.
    ///
    /// # Errors
    /// If it does not start.
    pub fn restart(&mut self) -> anyhow::Result<()> {
        self.kill();
        let address = self.text("address");
        (self.child, self.ready) = launch(&self.program, &self.options, &address, &self.folder)?;
        Ok(())
    }

    fn text(&self, member: &str) -> String {
        self.ready.get(member).and_then(|text| text.as_str()).unwrap_or_default().to_owned()
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.text("address").rsplit(':').next().and_then(|port| port.parse().ok()).unwrap_or_default()
    }

    /// The authority of its certificate, in PEM.
    pub fn authority(&self) -> String {
        self.text("ca")
    }

    /// The thumbprint of its certificate: SHA-256, or SHA-1 as vCenter's tools show it.
    pub fn thumbprint(&self, sha1: bool) -> String {
        self.text(if sha1 { "sha1" } else { "sha256" })
    }

    /// The path of the VM that clones are made from.
    pub fn template(&self) -> String {
        self.text("template")
    }

    /// Has something happen to it, such as `guest-ip?vm=vm-71&ip=10.0.0.9`.
    ///
    /// # Errors
    /// If it does not take the command.
    pub fn control(&self, command: &str) -> anyhow::Result<()> {
        self.request("POST", command).map(|_| ())
    }

    /// Calls that it has taken, by method.
    ///
    /// # Errors
    /// If it does not answer.
    pub fn calls(&self) -> anyhow::Result<serde_json::Value> {
        Ok(serde_json::from_str(&self.request("GET", "calls")?)?)
    }

    /// How long ago a task ended.
    ///
    /// # Errors
    /// If there is no such task, or it has not ended.
    pub fn since_task(&self, id: &str) -> anyhow::Result<Duration> {
        let micros = serde_json::from_str(&self.request("GET", &format!("since-task?id={id}"))?)?;
        Ok(Duration::from_micros(micros))
    }

    fn request(&self, method: &str, command: &str) -> anyhow::Result<String> {
        let mut stream = TcpStream::connect(self.text("control")).context("its control port")?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        let request = format!(
            "{method} /control/{command} HTTP/1.1\r\nHost: vcsim\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
        );
        stream.write_all(request.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").context("no answer in HTTP")?;
        ensure!(head.starts_with("HTTP/1.1 200"), "vcsim refuses {command}: {}", body.trim());
        Ok(body.to_owned())
    }
}

impl Drop for Vcsim {
    fn drop(&mut self) {
        self.kill();
    }
}

fn launch(
    program: &std::path::Path,
    options: &Options,
    address: &str,
    folder: &tempfile::TempDir,
) -> anyhow::Result<(Child, serde_json::Value)> {
    let mut command = Command::new(program);
    command.args(["-listen", address, "-certificate"]).arg(folder.path().join("certificate.pem"));
    if let Some((user, password)) = &options.login {
        command.args(["-user", user, "-password", password]);
    }
    // It ends when its standard input closes, however this process ends.
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot start {}", program.display()))?;
    let Some(stdout) = child.stdout.take() else { bail!("it has no output") };
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line)?;
    let ready = serde_json::from_str(&line).with_context(|| format!("it says {line:?}"))?;
    Ok((child, ready))
}
