//! What podman tells of containers as it happens, so that nobody has to ask again and again.

use std::io;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use super::super::lock;
use super::super::process::PATH;
use super::Apps;

/// podman's events of root's containers. It ends with this.
pub(in super::super) struct Events {
    lines: Lines<BufReader<ChildStdout>>,
    _podman: Child,
}

impl Events {
    /// Returns when something has happened; none where podman tells no more.
    pub(in super::super) async fn next(&mut self) -> Option<()> {
        // What it was does not matter: how the applications are is looked at as a whole.
        self.lines.next_line().await.ok().flatten().map(drop)
    }
}

impl Apps {
    /// Whether something is installed of which podman tells us: what root runs.
    pub(in super::super) fn tells(&self) -> bool {
        let installed = lock(&self.installed);
        let of_root = |user: &Option<String>| user.as_deref().is_none_or(|user| user == "root");
        self.podman.is_there() && !installed.is_empty() && installed.values().all(|app| of_root(&app.user))
    }

    /// Has podman tell of containers from now on.
    pub(in super::super) fn events(&self) -> io::Result<Option<Events>> {
        let Some(podman) = &self.podman.0 else { return Ok(None) };
        let mut podman = Command::new(podman)
            .args(["events", "--format", "json", "--filter", "type=container"])
            .env_clear()
            .envs([("PATH", PATH), ("HOME", "/root"), ("LC_ALL", "C.UTF-8")])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let out = podman.stdout.take();
        Ok(out.map(|out| Events { lines: BufReader::new(out).lines(), _podman: podman }))
    }
}
