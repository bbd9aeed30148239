//! `evenkeel test`.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::ValueEnum;
use evenkeel_core::guest::Guest;
use evenkeel_sim::cluster::Cluster;
use evenkeel_sim::scenario::report::{self, Colour, Outcome};
use evenkeel_sim::scenario::{file, run as runner, update};

use super::plugin::{self, BuildFlags};
use super::serving::interrupted;
use super::{Exit, kubeconfig, values};
use crate::output::{self, note};

/// The exit code of what Ctrl-C ended, as shells have it.
const INTERRUPTED: i32 = 130;

/// Run a plugin's scenarios
///
/// Each runs the whole host on an embedded Kubernetes of its own, on virtual time. With --cluster they run on a real API server
/// instead, one after another: one that holds nothing else, for they make, change and delete what they like. The host's time
/// stays virtual.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel test plugins/kite
  evenkeel test plugins/kite/scenarios/042-new-machine.yaml
  evenkeel test kite.wasm scenarios --output junit > report.xml
  evenkeel test plugins/kite --update
  evenkeel test plugins/kite --cluster --context kind-throwaway")]
pub struct TestArgs {
    /// A component (`*.wasm`), the folder of a plugin's crate, or scenarios that lie in such a folder.
    plugin: PathBuf,
    /// Scenario files, or folders of them; the plugin folder's own `scenarios` where none is given.
    scenarios: Vec<PathBuf>,
    /// The form.
    #[arg(long, short, value_enum, default_value_t)]
    output: Form,
    /// Write what happened into the files, in place of what was expected, where it is a list of texts, a number, a time or
    /// a field of an object; read the difference.
    #[arg(long)]
    update: bool,
    /// Scenarios that run at once; the number of processors where absent.
    #[arg(long, short, value_name = "N", conflicts_with = "cluster", value_parser = values::at_least_one)]
    jobs: Option<usize>,
    /// Run them on a real API server, which must be empty but for what a new cluster has.
    #[arg(long, conflicts_with = "update")]
    cluster: bool,
    /// The kubeconfig; `KUBECONFIG`, `~/.kube/config` or the cluster around where absent.
    #[arg(long, value_name = "FILE", requires = "cluster")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig.
    #[arg(long, requires = "cluster")]
    context: Option<String>,
    #[command(flatten)]
    build: BuildFlags,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Form {
    /// For a person.
    #[default]
    Text,
    /// One JSON document.
    Json,
    /// JUnit's XML.
    Junit,
}

pub fn run(args: TestArgs) -> anyhow::Result<Exit> {
    let (plugin, folders) = subject(&args)?;
    let files = file::discover(&folders).context("cannot find the scenarios")?;
    if files.is_empty() {
        bail!(
            "no scenario files in {}",
            folders.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
        );
    }
    let runtime = plugin::runtime()?;
    let guest: Arc<dyn Guest> = plugin::block_on(plugin::load(&runtime, &plugin, &args.build))?;
    #[allow(clippy::disallowed_methods, reason = "how long it took is shown, nothing rests on it")]
    let began = std::time::Instant::now();
    let mut outcomes =
        if args.cluster { on_a_cluster(&args, &files, &guest)? } else { run_all(&files, &guest, args.jobs) };
    if args.update {
        for outcome in outcomes.iter().filter(|outcome| !outcome.failures.is_empty()) {
            let updated = update::rewrite(Path::new(&outcome.file), outcome)
                .with_context(|| format!("cannot update {}", outcome.file))?;
            let mut told = format!("{}: {} places written", outcome.file, updated.written);
            if updated.left > 0 {
                told.push_str(&format!(", {} differences left for you", updated.left));
            }
            note!("{told}");
        }
        outcomes = run_all(&files, &guest, args.jobs);
    }
    let took = began.elapsed();
    match args.output {
        Form::Json => output::json(&outcomes)?,
        Form::Junit => output::print(format_args!("{}", report::junit(&outcomes, took)))?,
        Form::Text => {
            let colour = if output::colour_stdout() { Colour::Always } else { Colour::Never };
            output::print(format_args!("{}", report::human(&outcomes, took, colour)))?;
        }
    }
    // Whoever breaks it off wants to know what came of the rest, too.
    if outcomes.len() < files.len() {
        bail!("only {} of {} scenarios were run", outcomes.len(), files.len());
    }
    Ok(if outcomes.iter().all(Outcome::passed) { Exit::Fine } else { Exit::Found })
}

/// Every file, one after another on the same cluster. Whoever breaks it off leaves nothing behind: the scenario under way is
/// told to its end.
fn on_a_cluster(args: &TestArgs, files: &[PathBuf], guest: &Arc<dyn Guest>) -> anyhow::Result<Vec<Outcome>> {
    let (kubeconfig, context) = (args.kubeconfig.as_deref(), args.context.as_deref());
    let config = plugin::block_on(kubeconfig::config(kubeconfig, context))?;
    note!("Running {} scenarios on {}", files.len(), config.cluster_url);
    let cluster = Cluster::connect(config)?;
    let broken_off = Arc::new(AtomicBool::new(false));
    break_off(&broken_off);
    let mut done = 0;
    let outcomes = runner::run_files_on(&cluster, files, guest, &mut |outcome| {
        done += 1;
        let mark = if outcome.passed() { "ok  " } else { "FAIL" };
        let seconds = Duration::from_micros(outcome.micros).as_secs_f64();
        note!("{done:>4}/{} {mark} {} ({seconds:.1} s)", files.len(), outcome.file);
        if broken_off.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    cluster.finish()?;
    Ok(outcomes)
}

/// Has Ctrl-C, or a SIGTERM, end the run after the scenario under way; a second one ends it at once.
fn break_off(broken_off: &Arc<AtomicBool>) {
    let broken_off = Arc::clone(broken_off);
    // It lives as long as the process.
    std::thread::spawn(move || {
        let listening: anyhow::Result<()> = plugin::block_on(async {
            interrupted().await?;
            note!("Stopping after this scenario; once more to stop at once and leave its objects behind");
            broken_off.store(true, Ordering::Relaxed);
            interrupted().await?;
            std::process::exit(INTERRUPTED)
        });
        if let Err(error) = listening {
            tracing::warn!("Ctrl-C ends this at once, and leaves objects on the cluster: {error:#}");
        }
    });
}

/// What is tested, and the files and folders of its scenarios. Scenarios alone are those of the crate that they lie in.
fn subject(args: &TestArgs) -> anyhow::Result<(PathBuf, Vec<PathBuf>)> {
    let given = &args.plugin;
    if !given.exists() {
        bail!("there is no {}: give a component (*.wasm) or the folder of a plugin's crate", given.display());
    }
    let is_scenarios = |path: &Path| match path.is_dir() {
        true => !path.join("Cargo.toml").exists(),
        false => path.extension().is_some_and(|ending| ending == "yaml" || ending == "yml"),
    };
    if is_scenarios(given) {
        let place =
            given.canonicalize().with_context(|| format!("cannot find out where {} is", given.display()))?;
        let Some(plugin) = place.ancestors().find(|folder| is_crate(folder)) else {
            bail!("{} is no plugin, and lies in no plugin's crate: name the plugin first", given.display());
        };
        let scenarios = std::iter::once(given).chain(&args.scenarios).cloned().collect();
        return Ok((plugin.to_owned(), scenarios));
    }
    if !args.scenarios.is_empty() {
        return Ok((given.clone(), args.scenarios.clone()));
    }
    let own = given.join("scenarios");
    if !own.is_dir() {
        bail!("{} has no folder scenarios: name the scenario files", given.display());
    }
    Ok((given.clone(), vec![own]))
}

/// Whether a folder is a crate; a workspace alone is none.
fn is_crate(folder: &Path) -> bool {
    let manifest = std::fs::read_to_string(folder.join("Cargo.toml"));
    manifest.is_ok_and(|text| text.lines().any(|line| line.trim() == "[package]"))
}

/// Every file, side by side; the outcomes are in the order of the files.
fn run_all(files: &[PathBuf], guest: &Arc<dyn Guest>, jobs: Option<usize>) -> Vec<Outcome> {
    let jobs = jobs
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get))
        .min(files.len());
    let next = AtomicUsize::new(0);
    let mut outcomes: Vec<(usize, Outcome)> = std::thread::scope(|scope| {
        let work = || {
            let mut done = Vec::new();
            while let Some(index) =
                Some(next.fetch_add(1, Ordering::Relaxed)).filter(|index| *index < files.len())
            {
                done.push((index, runner::run_file(&files[index], guest)));
            }
            done
        };
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap_or_default()).collect()
    });
    outcomes.sort_by_key(|(index, _)| *index);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use expect_test::{Expect, expect};

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: TestArgs,
    }

    /// A workspace with a crate and its scenarios, and scenarios of nobody beside it.
    fn check(words: &[&str], expected: Expect) -> anyhow::Result<()> {
        let root = tempfile::tempdir()?;
        let at = root.path().canonicalize()?;
        for folder in ["plugin/scenarios", "plugin/more", "bare", "stray"] {
            std::fs::create_dir_all(at.join(folder))?;
        }
        for (file, text) in [
            ("Cargo.toml", "[workspace]\n"),
            ("plugin/Cargo.toml", "[package]\nname = \"plugin\"\n"),
            ("bare/Cargo.toml", "[package]\nname = \"bare\"\n"),
            ("plugin/scenarios/001.yaml", ""),
            ("stray/002.yaml", ""),
            ("built.wasm", ""),
        ] {
            std::fs::write(at.join(file), text)?;
        }
        let words = words.iter().map(|word| at.join(word).display().to_string());
        let line = Line::try_parse_from(std::iter::once("test".to_owned()).chain(words))?;
        let said = match subject(&line.args) {
            Ok((plugin, scenarios)) => {
                let scenarios: Vec<String> =
                    scenarios.iter().map(|path| path.display().to_string()).collect();
                format!("{}: {}", plugin.display(), scenarios.join(" "))
            }
            Err(error) => format!("error: {error:#}"),
        };
        expected.assert_eq(&said.replace(&format!("{}/", at.display()), ""));
        Ok(())
    }

    #[test]
    fn a_plugin_is_tested_by_its_own_scenarios_or_by_those_that_are_named() -> anyhow::Result<()> {
        check(&["plugin"], expect!["plugin: plugin/scenarios"])?;
        check(&["plugin", "stray", "plugin/more"], expect!["plugin: stray plugin/more"])?;
        check(&["built.wasm", "stray"], expect!["built.wasm: stray"])?;
        check(&["bare"], expect!["error: bare has no folder scenarios: name the scenario files"])?;
        check(
            &["missing"],
            expect![
                "error: there is no missing: give a component (*.wasm) or the folder of a plugin's crate"
            ],
        )
    }

    #[test]
    fn scenarios_alone_are_those_of_the_crate_that_they_lie_in() -> anyhow::Result<()> {
        check(&["plugin/scenarios"], expect!["plugin: plugin/scenarios"])?;
        check(
            &["plugin/scenarios/001.yaml", "plugin/more"],
            expect!["plugin: plugin/scenarios/001.yaml plugin/more"],
        )?;
        check(
            &["stray"],
            expect!["error: stray is no plugin, and lies in no plugin's crate: name the plugin first"],
        )
    }
}
