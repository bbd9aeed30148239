//! The API server's own account of who asked for what.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use serde_json::Value;

/// One line a request, without bodies. A watch is noted when it begins, everything else when it is done.
pub const POLICY: &str = r#"
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, users: [evenkeel, kube-rs, controller-runtime]}
- {level: None}
"#;

/// Requests by verb.
pub type Counts = BTreeMap<String, usize>;

/// The log of a control plane.
pub struct Audit {
    log: PathBuf,
}

impl Audit {
    /// In a folder; the flags for the API server come along.
    pub fn in_folder(folder: &Path) -> std::io::Result<(Self, Vec<String>)> {
        let (policy, log) = (folder.join("audit.yaml"), folder.join("audit.log"));
        fs::write(&policy, POLICY)?;
        let flags = vec![
            format!("--audit-policy-file={}", policy.display()),
            format!("--audit-log-path={}", log.display()),
        ];
        Ok((Self { log }, flags))
    }

    /// Requests of a user so far, whatever they were for.
    pub fn counts(&self, user: &str) -> anyhow::Result<Counts> {
        let mut counts = Counts::new();
        let Ok(file) = fs::File::open(&self.log) else { return Ok(counts) };
        for line in BufReader::new(file).lines() {
            // The last line may not be whole yet.
            let Ok(event) = serde_json::from_str::<Value>(&line?) else { continue };
            let (verb, stage) =
                (event["verb"].as_str().unwrap_or_default(), event["stage"].as_str().unwrap_or_default());
            let counts_here =
                if verb == "watch" { stage == "ResponseStarted" } else { stage == "ResponseComplete" };
            if event["user"]["username"] == user && counts_here {
                *counts.entry(verb.to_owned()).or_default() += 1;
            }
        }
        Ok(counts)
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
