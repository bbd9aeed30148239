//! `evenkeel run` as a process of its own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use evenkeel_test_cluster::{Process, Program};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::world::{LIMIT, cache, until};

/// How a host is started.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostOptions {
    /// It acts only while it holds the Lease.
    pub elects: bool,
    /// It logs everything that it has to say.
    pub talkative: bool,
}

/// A host. Dropping it kills it.
pub struct HostProcess {
    process: Process,
    log: PathBuf,
    data: PathBuf,
    /// Bytes of the log that earlier lives wrote.
    earlier: usize,
}

impl HostProcess {
    /// Starts one; `folder` is its own.
    pub fn start(plugins: &Path, kubeconfig: &Path, folder: &Path, options: HostOptions) -> Self {
        std::fs::create_dir_all(folder).expect("a folder");
        let (log, data) = (folder.join("log"), folder.join("data"));
        let mut arguments = vec![
            "run".to_owned(),
            format!("--plugins={}", plugins.display()),
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--data-dir={}", data.display()),
            "--metrics-bind-address=127.0.0.1:0".to_owned(),
            "--health-probe-bind-address=127.0.0.1:0".to_owned(),
            "--log-format=json".to_owned(),
            format!("--log={}", if options.talkative { "trace" } else { "info,kube_client=off" }),
        ];
        if options.elects {
            arguments.push("--leader-elect".to_owned());
        }
        let program = Program {
            path: env!("CARGO_BIN_EXE_evenkeel").into(),
            arguments,
            environment: vec![("XDG_CACHE_HOME".to_owned(), cache().display().to_string())],
            log: log.clone(),
            limit: LIMIT,
        };
        let process = Process::of(program).expect("the host starts");
        Self { process, log, data, earlier: 0 }
    }

    /// Its data directory.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// What it wrote to its output, in all its lives.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// The process itself.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Kills it in the middle of whatever it does, and starts it anew on the same data.
    pub async fn crash(&mut self) {
        self.process.kill();
        self.earlier = self.log().len();
        self.process.start_again().await.expect("the host starts");
    }

    /// Where it serves its pages, once it does.
    pub fn address(&self) -> Option<String> {
        let log = self.log();
        let (_, rest) = log.get(self.earlier..)?.split_once(" on http://")?;
        rest.split_whitespace().next().map(str::to_owned)
    }

    /// A page of its server; none where it does not answer.
    pub async fn page(&self, path: &str) -> Option<(u16, String)> {
        let address = self.address()?;
        tokio::time::timeout(Duration::from_secs(5), get(&address, path)).await.ok()?.ok()
    }

    /// Waits until it is ready; returns how long that took.
    pub async fn ready(&self) -> Duration {
        until("the host is ready", async || match self.page("/readyz").await {
            Some((200, _)) => Ok(()),
            Some((_, text)) => Err(text),
            None => Err(format!("no answer; its log ends with {}", last_lines(&self.log()))),
        })
        .await
    }

    /// Its metrics: each series with its labels as it stands there, and the value.
    pub async fn metrics(&self) -> BTreeMap<String, f64> {
        let mut text = String::new();
        until("the metrics are told", async || match self.page("/metrics").await {
            Some((200, page)) => {
                text = page;
                Ok(())
            }
            Some((code, page)) => Err(format!("{code} {page}")),
            None => Err(format!("no answer; its log ends with {}", last_lines(&self.log()))),
        })
        .await;
        text.lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| line.rsplit_once(' '))
            .filter_map(|(series, value)| Some((series.to_owned(), value.parse().ok()?)))
            .collect()
    }

    /// The sum of a metric's series of which each word is a part.
    pub async fn sum(&self, metric: &str, words: &[&str]) -> f64 {
        let of_metric = |series: &str| series.split('{').next() == Some(metric);
        let metrics = self.metrics().await;
        let found = metrics
            .iter()
            .filter(|(series, _)| of_metric(series) && words.iter().all(|word| series.contains(word)));
        found.map(|(_, value)| value).sum()
    }

    /// Its resident memory, in MiB.
    pub async fn memory(&self) -> f64 {
        self.sum("process_resident_memory_bytes", &[]).await / f64::from(1 << 20)
    }
}

impl Drop for HostProcess {
    fn drop(&mut self) {
        // A test that failed is told what the host had to say.
        if std::thread::panicking() {
            eprintln!("--- {} ends with\n{}", self.log.display(), last_lines(&self.log()));
        }
    }
}

/// A GET over plain HTTP.
pub async fn get(address: &str, path: &str) -> std::io::Result<(u16, String)> {
    exchange(address, &format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n")).await
}

/// A POST of JSON over plain HTTP.
pub async fn post(address: &str, path: &str, body: &str) -> std::io::Result<(u16, String)> {
    let length = body.len();
    let head =
        format!("POST {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {length}");
    exchange(address, &format!("{head}\r\ncontent-type: application/json\r\n\r\n{body}")).await
}

/// One request to a server that closes the connection after its answer.
async fn exchange(address: &str, request: &str) -> std::io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    let answer = String::from_utf8_lossy(&answer);
    let code = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    let (_, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    Ok((code, body.to_owned()))
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(12)..].join("\n")
}
