//! The same kubectl commands on both servers, and what kubectl prints.

use crate::arena::Arena;
use anyhow::{Context, bail};
use evenkeel_sandbox::ListenOptions;
use evenkeel_test_cluster::Parts;
use regex::Regex;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;
use tokio::process::Command;

/// Longest that a script may run on one server.
const SCRIPT_MAX: Duration = Duration::from_secs(300);

/// What must differ in printed text, and what it is replaced by; in this order.
static MASKS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    [
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID"),
        (r"20(2[4-9]|[3-9]\d)-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", "TIME"),
        (r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} 20\d\d \d\d:\d\d:\d\d [+-]\d{4}", "TIME"),
        (r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ [+-]\d{4}", "TIME"),
        (r#"(resourceVersion"?): ?"?\d+"?"#, "$1: VERSION"),
        (r"Resource Version: +\d+", "Resource Version: VERSION"),
        (r"made-[a-z0-9]{5}", "made-NAME"),
        // The fields of a patched object come in the order of Go's structs.
        (r#"patch: Invalid value: "(\\.|[^"\\])*""#, "patch: Invalid value: PATCHED"),
        (r"\b10\.96\.\d+\.\d+\b", "ADDRESS"),
        (r"https://127\.0\.0\.1:\d+", "SERVER"),
        (r"/tmp/LIVE-\d+|/tmp/MERGED-\d+", "FILE"),
        (r"/[\w/.-]*edit-\d+\.yaml", "FILE"),
        (r"\b(\d+d)?(\d+h)?(\d+m)?\d+s\b", "AGE"),
        (r"<invalid>", "AGE"),
        (r"(?m) {2,}", "  "),
        (r"(?m) +$", ""),
    ]
    .map(|(pattern, stands)| (Regex::new(pattern).expect("a pattern"), stands))
    .to_vec()
});

/// Runs every script of `kubectl/` on both servers, or those whose name contains `filter`; what differs, a text each.
///
/// # Errors
/// Where kubectl cannot be run, or a script does not end.
pub async fn compare_kubectl(arena: &Arena, parts: &Parts, filter: &str) -> anyhow::Result<Vec<String>> {
    let listening =
        arena.sandbox.serve(ListenOptions::default()).await.context("the sandbox cannot listen")?;
    let folder = tempfile::tempdir()?;
    let bin = folder.path().join("bin");
    fs::create_dir(&bin)?;
    // Another kubectl may be on the path.
    std::os::unix::fs::symlink(parts.program("kubectl").canonicalize()?, bin.join("kubectl"))?;
    let real = folder.path().join("real.kubeconfig");
    fs::copy(arena.plane.kubeconfig("admin"), &real)?;
    let sandbox = folder.path().join("sandbox.kubeconfig");
    listening.write_kubeconfig(&sandbox)?;
    let mut differences = Vec::new();
    for script in scripts(filter)? {
        let name = script.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let mut said = Vec::new();
        for (server, kubeconfig) in [("real", &real), ("sandbox", &sandbox)] {
            let home = folder.path().join(format!("{server}-{name}"));
            fs::create_dir(&home)?;
            said.push(normal(&run(&script, &name, kubeconfig, &home, &bin).await?));
        }
        if said[0] != said[1] {
            let diff = similar::TextDiff::from_lines(&said[0], &said[1]);
            let text = diff.unified_diff().context_radius(4).header("real", "sandbox").to_string();
            differences.push(format!("kubectl/{name}.sh\n{text}"));
        }
    }
    Ok(differences)
}

fn scripts(filter: &str) -> anyhow::Result<Vec<PathBuf>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("kubectl");
    let mut found: Vec<PathBuf> =
        fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?.iter().map(|entry| entry.path()).collect();
    found.retain(|path| path.to_string_lossy().contains(filter));
    found.sort();
    Ok(found)
}

/// All that a script prints, its commands included, on one server.
async fn run(
    script: &Path,
    name: &str,
    kubeconfig: &Path,
    home: &Path,
    bin: &Path,
) -> anyhow::Result<String> {
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    let namespace = format!("kubectl-{name}");
    let prepare = format!(
        "kubectl create namespace {namespace} >/dev/null && kubectl config set-context --current --namespace={namespace} \
         >/dev/null && exec bash -v \"$0\" 2>&1"
    );
    let child = Command::new("bash")
        .args(["-c", &prepare])
        .arg(script)
        .current_dir(home)
        .env_clear()
        .env("PATH", path)
        .env("HOME", home)
        .env("KUBECONFIG", kubeconfig)
        .env("NS", &namespace)
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(SCRIPT_MAX, child)
        .await
        .with_context(|| format!("kubectl/{name}.sh does not end"))?
        .context("cannot run bash")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if text.is_empty() {
        bail!("kubectl/{name}.sh: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(text)
}

fn normal(text: &str) -> String {
    MASKS
        .iter()
        .fold(text.to_owned(), |text, (pattern, stands)| pattern.replace_all(&text, *stands).into_owned())
}
