//! `/livez` and `/readyz`: what a kubelet asks, and what a person reads who wants to know why.
//!
//! A host is alive while its own tasks run: nothing else is mended by a restart. It is ready when every watch that it
//! needs is in step and every plugin runs, so that a rollout stops at a version that cannot work. A host that stands
//! by is ready as well: it could take over.

use std::fmt::Write as _;

use evenkeel_cluster::election::Standing;
use evenkeel_engine::directory::FileStatus;
use evenkeel_engine::status::{HostStatus, PluginState};

/// All that the probes look at.
#[derive(Clone, Debug)]
pub struct Health {
    /// Tasks of the host that ended though it runs.
    pub dead_tasks: Vec<&'static str>,
    /// How the host fares.
    pub status: HostStatus,
    /// The files of the folder of plugins; none before it was read for the first time, or where there is no folder.
    pub files: Option<Vec<FileStatus>>,
    /// Whether there is a folder of plugins to be read.
    pub awaits_files: bool,
    /// How the election stands; none where there is none.
    pub standing: Option<Standing>,
}

/// What a probe answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether all is well.
    pub ok: bool,
    /// A line a check, and one for the whole.
    pub text: String,
}

/// One line of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Check {
    Good(String),
    /// Not as it should be, but nothing that this probe is about.
    Note(String),
    Bad(String),
}

/// Whether a restart would mend anything.
pub fn livez(health: &Health) -> Verdict {
    let mut checks: Vec<Check> =
        health.dead_tasks.iter().map(|task| Check::Bad(format!("{task}: it ended"))).collect();
    if checks.is_empty() {
        checks.push(Check::Good("tasks".into()));
    }
    // Told here too, since this is where somebody looks; not counted, since a restart would lose the warm caches.
    checks.extend(readiness(health).into_iter().filter_map(|check| match check {
        Check::Bad(text) | Check::Note(text) => Some(Check::Note(text)),
        Check::Good(_) => None,
    }));
    verdict("livez", &checks)
}

/// Whether the host does its work, or could at once.
pub fn readyz(health: &Health) -> Verdict {
    verdict("readyz", &readiness(health))
}

fn readiness(health: &Health) -> Vec<Check> {
    let mut checks = Vec::new();
    watches(health, &mut checks);
    plugins(health, &mut checks);
    election(health, &mut checks);
    checks
}

fn watches(health: &Health, checks: &mut Vec<Check>) {
    let complaints = &health.status.complaints;
    checks.extend(complaints.iter().map(|complaint| Check::Bad(complaint.clone())));
    if complaints.is_empty() {
        checks.push(Check::Good(format!("watches ({})", health.status.watches.len())));
    }
}

fn plugins(health: &Health, checks: &mut Vec<Check>) {
    let files = health.files.as_deref().unwrap_or_default();
    if health.files.is_none() && health.awaits_files {
        checks.push(Check::Bad("plugins: the folder has not been read yet".into()));
    }
    for plugin in &health.status.plugins {
        let name = &plugin.name;
        checks.push(match &plugin.state {
            PluginState::Held { reason } => Check::Bad(format!("plugin {name} is held: {reason}")),
            PluginState::Active => Check::Good(format!("plugin {name} {}", plugin.version)),
        });
        if let Some(refused) = &plugin.refused {
            let version = &refused.version;
            checks.push(Check::Note(format!(
                "plugin {name}: version {version} was refused: {}",
                refused.reason
            )));
        }
        checks.extend(
            plugin.denied.iter().map(|denied| Check::Note(format!("plugin {name}: denied: {denied}"))),
        );
        checks.extend(plugin.idle.iter().map(|idle| Check::Note(format!("plugin {name}: {idle}"))));
    }
    // A file whose plugin runs in an older version is told of above.
    let runs = |file: &&FileStatus| {
        let name = file.plugin.as_deref();
        health.status.plugins.iter().any(|plugin| Some(plugin.name.as_str()) == name)
    };
    for file in files.iter().filter(|file| !runs(file)) {
        if let Some(reason) = &file.refused {
            checks.push(Check::Bad(format!("plugin file {} was refused: {reason}", file.file)));
        }
    }
}

fn election(health: &Health, checks: &mut Vec<Check>) {
    let Some(standing) = &health.standing else { return };
    checks.push(match (&standing.trouble, standing.leads, &standing.holder) {
        // Nothing can be taken over without the Lease.
        (Some(trouble), false, _) => Check::Bad(format!("election: {trouble}")),
        (Some(trouble), true, _) => Check::Note(format!("election: leads, but {trouble}")),
        (None, true, _) => Check::Good("election: leads".into()),
        (None, false, Some(holder)) => Check::Good(format!("election: stands by for {holder}")),
        (None, false, None) => Check::Good("election: nobody leads".into()),
    });
}

/// In the form of the API server's own probes.
fn verdict(probe: &str, checks: &[Check]) -> Verdict {
    let ok = !checks.iter().any(|check| matches!(check, Check::Bad(_)));
    let mut text = String::new();
    for check in checks {
        // Writing to a string cannot fail.
        let _ = match check {
            Check::Good(what) => writeln!(text, "[+] {what}"),
            Check::Note(what) => writeln!(text, "[!] {what}"),
            Check::Bad(what) => writeln!(text, "[-] {what}"),
        };
    }
    let _ = writeln!(text, "{probe} check {}", if ok { "passed" } else { "failed" });
    Verdict { ok, text }
}

#[cfg(test)]
mod tests {
    use evenkeel_engine::status::{JournalStatus, PluginStatus, QueueStatus, Refusal};
    use expect_test::{Expect, expect};

    use super::*;

    fn plugin(name: &str, state: PluginState) -> PluginStatus {
        PluginStatus {
            name: name.into(),
            version: "1.2.0".into(),
            digest: "sha256:ab".into(),
            state,
            refused: None,
            controllers: vec![],
            denied: vec![],
            idle: vec![],
        }
    }

    fn healthy() -> Health {
        Health {
            dead_tasks: vec![],
            status: HostStatus {
                idle: true,
                ready: true,
                complaints: vec![],
                plugins: vec![plugin("kite", PluginState::Active)],
                watches: vec![],
                queue: QueueStatus::default(),
                journal: JournalStatus::default(),
            },
            files: Some(vec![]),
            awaits_files: true,
            standing: None,
        }
    }

    fn check(change: impl FnOnce(&mut Health), ready: Expect, alive: bool) {
        let mut health = healthy();
        change(&mut health);
        ready.assert_eq(&readyz(&health).text);
        assert_eq!(livez(&health).ok, alive, "{}", livez(&health).text);
    }

    #[test]
    fn a_host_that_does_its_work_is_ready() {
        let ready = expect![[r#"
            [+] watches (0)
            [+] plugin kite 1.2.0
            readyz check passed
        "#]];
        check(|_| {}, ready, true);
    }

    #[test]
    fn a_watch_that_stands_still_is_named_and_no_reason_to_restart() {
        let ready = expect![[r#"
            [-] watch of KiteUser.kite.dev in all namespaces stands still
            [+] plugin kite 1.2.0
            readyz check failed
        "#]];
        let stalled = "watch of KiteUser.kite.dev in all namespaces stands still";
        check(|health| health.status.complaints = vec![stalled.into()], ready, true);
    }

    #[test]
    fn a_plugin_that_is_held_is_named_with_the_reason() {
        let ready = expect![[r#"
            [+] watches (0)
            [-] plugin kite is held: 5 objects, as in KiteUser a: the plugin trapped
            [!] plugin kite: version 1.3.0 was refused: it asks for more than it was granted: delete Secret
            readyz check failed
        "#]];
        let held = |health: &mut Health| {
            let reason = "5 objects, as in KiteUser a: the plugin trapped".into();
            let mut plugin = plugin("kite", PluginState::Held { reason });
            let reason = "it asks for more than it was granted: delete Secret".into();
            plugin.refused = Some(Refusal { digest: "sha256:cd".into(), version: "1.3.0".into(), reason });
            health.status.plugins = vec![plugin];
        };
        check(held, ready, true);
    }

    #[test]
    fn a_controller_without_anything_to_look_after_is_told_and_may_be_meant() {
        let ready = expect![[r#"
            [+] watches (0)
            [+] plugin kite 1.2.0
            [!] plugin kite: controller users looks after nothing
            readyz check passed
        "#]];
        let idle = |health: &mut Health| {
            let mut plugin = plugin("kite", PluginState::Active);
            plugin.idle = vec!["controller users looks after nothing".into()];
            health.status.plugins = vec![plugin];
        };
        check(idle, ready, true);
    }

    #[test]
    fn a_file_that_was_refused_counts_only_where_no_version_of_its_plugin_runs() {
        let file = |file: &str, plugin: Option<&str>| FileStatus {
            file: file.into(),
            plugin: plugin.map(str::to_owned),
            digest: None,
            refused: Some("it is no component".into()),
        };
        let ready = expect![[r#"
            [+] watches (0)
            [+] plugin kite 1.2.0
            [-] plugin file new.wasm was refused: it is no component
            readyz check failed
        "#]];
        let files = vec![file("kite.wasm", Some("kite")), file("new.wasm", None)];
        check(|health| health.files = Some(files), ready, true);
    }

    #[test]
    fn a_host_that_has_not_read_its_plugins_is_not_ready() {
        let ready = expect![[r#"
            [+] watches (0)
            [-] plugins: the folder has not been read yet
            readyz check failed
        "#]];
        let starting = |health: &mut Health| {
            health.files = None;
            health.status.plugins.clear();
        };
        check(starting, ready, true);
    }

    #[test]
    fn a_host_that_stands_by_is_ready_unless_it_cannot_read_the_lease() {
        let ready = expect![[r#"
            [+] watches (0)
            [+] plugin kite 1.2.0
            [+] election: stands by for other_1
            readyz check passed
        "#]];
        let standing = |trouble: Option<&str>| {
            Some(Standing {
                leads: false,
                holder: Some("other_1".into()),
                trouble: trouble.map(str::to_owned),
            })
        };
        check(|health| health.standing = standing(None), ready, true);
        let unready = expect![[r#"
            [+] watches (0)
            [+] plugin kite 1.2.0
            [-] election: cannot read the Lease: leases.coordination.k8s.io is forbidden
            readyz check failed
        "#]];
        let forbidden = standing(Some("cannot read the Lease: leases.coordination.k8s.io is forbidden"));
        check(|health| health.standing = forbidden, unready, true);
    }

    #[test]
    fn a_task_that_ended_is_a_reason_to_restart() {
        let mut health = healthy();
        health.dead_tasks = vec!["event loop"];
        let verdict = livez(&health);
        assert!(!verdict.ok);
        assert_eq!(verdict.text, "[-] event loop: it ended\nlivez check failed\n");
    }
}
