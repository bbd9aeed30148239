//! The API server's own account of who asked for what.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

/// Requests by verb.
pub type Counts = BTreeMap<String, usize>;

/// A request that somebody sent.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Asked {
    /// As RBAC has it: `get`, `list`, `watch`, `create`, `patch`, …
    pub verb: String,
    /// Path and query.
    pub uri: String,
}

/// The log of a control plane, read on from where it was left.
pub struct Audit {
    log: PathBuf,
    read: Mutex<Read>,
}

#[derive(Default)]
struct Read {
    bytes: u64,
    by_user: BTreeMap<String, Vec<Asked>>,
}

impl Audit {
    /// Of these users, in a folder; the flags for the API server come along.
    ///
    /// # Errors
    /// Where the folder cannot be written to.
    pub fn in_folder(folder: &Path, users: &[&str]) -> std::io::Result<(Self, Vec<String>)> {
        let (policy, log) = (folder.join("audit.yaml"), folder.join("audit.log"));
        fs::write(&policy, policy_of(users).to_string())?;
        let flags = vec![
            format!("--audit-policy-file={}", policy.display()),
            format!("--audit-log-path={}", log.display()),
        ];
        Ok((Self { log, read: Mutex::default() }, flags))
    }

    /// Requests of a user so far, whatever they were for, by verb.
    ///
    /// # Errors
    /// Where the log cannot be read.
    pub fn counts(&self, user: &str) -> anyhow::Result<Counts> {
        let mut counts = Counts::new();
        for asked in self.read_on()?.by_user.get(user).into_iter().flatten() {
            *counts.entry(asked.verb.clone()).or_default() += 1;
        }
        Ok(counts)
    }

    /// Requests of a user so far, in the order in which they were answered.
    ///
    /// # Errors
    /// Where the log cannot be read.
    pub fn requests(&self, user: &str) -> anyhow::Result<Vec<Asked>> {
        Ok(self.read_on()?.by_user.get(user).cloned().unwrap_or_default())
    }

    fn read_on(&self) -> anyhow::Result<MutexGuard<'_, Read>> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(mut file) = fs::File::open(&self.log) {
            file.seek(SeekFrom::Start(read.bytes))?;
            read.on(BufReader::new(file))?;
        }
        Ok(read)
    }
}

/// One line a request, without bodies. A watch is noted when it begins, everything else when it is done.
fn policy_of(users: &[&str]) -> Value {
    serde_json::json!({
        "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
        "rules": [{"level": "Metadata", "users": users}, {"level": "None"}],
    })
}

impl Read {
    /// Reads what came since; a line that is not whole yet is left for the next time.
    fn on(&mut self, mut log: impl BufRead) -> anyhow::Result<()> {
        let mut line = Vec::new();
        while log.read_until(b'\n', &mut line)? > 0 && line.ends_with(b"\n") {
            self.bytes += line.len() as u64;
            self.note(&serde_json::from_slice(&line)?);
            line.clear();
        }
        Ok(())
    }

    fn note(&mut self, event: &Value) {
        let text = |of: &Value| of.as_str().unwrap_or_default().to_owned();
        let (verb, stage) = (text(&event["verb"]), text(&event["stage"]));
        // A watch is counted when it begins: it may never be done.
        let counted = if verb == "watch" { "ResponseStarted" } else { "ResponseComplete" };
        if stage == counted {
            let asked = Asked { verb, uri: text(&event["requestURI"]) };
            self.by_user.entry(text(&event["user"]["username"])).or_default().push(asked);
        }
    }
}

/// What was added since.
pub fn since(before: &Counts, after: &Counts) -> Counts {
    let added = |(verb, count): (&String, &usize)| {
        let added = count - before.get(verb).copied().unwrap_or(0);
        (added > 0).then(|| (verb.clone(), added))
    };
    after.iter().filter_map(added).collect()
}

/// All of them.
pub fn sum(counts: &Counts) -> usize {
    counts.values().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_counts_once_it_is_whole_and_a_watch_when_it_begins() {
        let line = |verb: &str, stage: &str| {
            let event = serde_json::json!({"verb": verb, "stage": stage, "requestURI": "/a?b", "user": {"username": "a"}});
            format!("{event}\n")
        };
        let (get, began, ended) = (
            line("get", "ResponseComplete"),
            line("watch", "ResponseStarted"),
            line("watch", "ResponseComplete"),
        );
        let asked = |verb: &str| Asked { verb: verb.to_owned(), uri: "/a?b".to_owned() };
        let mut read = Read::default();
        let text = format!("{get}{began}{ended}{}", &get[..9]);
        read.on(text.as_bytes()).expect("an audit log");
        assert_eq!(read.by_user["a"], [asked("get"), asked("watch")]);
        read.on(get.as_bytes()).expect("an audit log");
        assert_eq!(read.by_user["a"].len(), 3);
        assert_eq!(read.bytes, (text.len() - 9 + get.len()) as u64);
    }
}
