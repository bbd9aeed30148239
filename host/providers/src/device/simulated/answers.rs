//! Answers to questions.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::state::{FILES, State, device, hook_folder};
use crate::device::words::{
    AppsSeen, AskApplication, AskFiles, AskHooks, AskImages, AskOperation, AskSystemd, AskWindow, Boot,
    BootCheck, Error, FilesSeen, Health, HookFile, HooksSeen, Identity, ImageSeen, ImagesSeen, Known,
    NoArguments, OperationSeen, Origin, Os, OsMode, PullState, Rendered, ResourceSeen, ResourcesSeen, Spec,
    SpecFile, SpecFiles, UnitsSeen, Window,
};
use crate::device::{application, hooks, seal, window};

/// Where hook files are, and whose they are.
pub(super) const HOOK_FOLDERS: [(&str, Origin); 2] =
    [("/usr/lib/flightctl/hooks.d/", Origin::Vendor), ("/etc/flightctl/hooks.d/", Origin::Local)];

fn read<T: DeserializeOwned>(question: &str, arguments: &str) -> Result<T, String> {
    serde_json::from_str(arguments).map_err(|error| format!("{question}: {error}"))
}

impl State {
    /// The answer to a question.
    pub(super) fn answer(&mut self, question: &str, arguments: &str) -> Result<Value, String> {
        if !matches!(
            question,
            "files" | "hooks" | "images" | "application" | "window" | "schedule" | "systemd" | "operation"
        ) {
            read::<NoArguments>(question, arguments)?;
        }
        Ok(match question {
            "rendered" => json!(self.rendered()),
            "spec-files" => json!(self.spec_files()),
            "boot" => json!(Boot { boot_id: self.boot_id(), booted_at: Some(self.booted_at.clone()) }),
            "os" => json!(self.os()),
            "files" => json!(self.files(&read(question, arguments)?)),
            "hooks" => json!(self.hooks(&read(question, arguments)?)),
            "images" => json!(self.images_seen(&read(question, arguments)?)),
            "application" => json!(self.application(&read(question, arguments)?)),
            "applications" => {
                json!(AppsSeen { applications: self.apps.values().map(|app| app.seen.clone()).collect() })
            }
            "resources" => json!(self.resources()),
            "window" => json!(self.window(&read(question, arguments)?)),
            "schedule" => {
                let Window { error, .. } = self.window(&read(question, arguments)?);
                json!(Window { error, ..Window::default() })
            }
            "systemd" => {
                let AskSystemd { patterns: _ } = read(question, arguments)?;
                json!(UnitsSeen::default())
            }
            "operation" => json!(self.operation(&read(question, arguments)?)),
            "identity" => json!(self.identity()),
            other => return Err(format!("the provider device has no question {other:?}")),
        })
    }

    fn rendered(&self) -> Rendered {
        let service = &self.service;
        let offer = service.offer.as_ref();
        let sealed = offer
            .and_then(|offer| Some(seal::seal(&device(&offer.version, &offer.hash, offer.spec.as_ref()?))));
        Rendered {
            version: offer.map(|offer| offer.version.clone()),
            spec_hash: offer.map(|offer| offer.hash.clone()).unwrap_or_default(),
            device: sealed,
            received_at: offer.map(|_| service.received_at.clone()),
            reachable: service.reachable,
            gone: service.gone,
            error: (!service.reachable).then(|| "no route to host".to_owned()),
        }
    }

    fn spec_files(&self) -> SpecFiles {
        let [desired, current, rollback, state] = FILES.map(|name| self.spec_file(name));
        SpecFiles { desired, current, rollback, state }
    }

    fn spec_file(&self, name: &str) -> SpecFile {
        let Some(bytes) = self.specs.get(name) else { return SpecFile::default() };
        match serde_json::from_slice::<Value>(bytes) {
            Ok(value) if value.is_object() => {
                let content = if name == "state" { value } else { seal::seal(&value) };
                SpecFile { present: true, valid: true, error: None, content: Some(content) }
            }
            Ok(_) | Err(_) => SpecFile {
                present: true,
                valid: false,
                error: Some("it is no JSON object".to_owned()),
                content: None,
            },
        }
    }

    fn os(&mut self) -> Known<Os> {
        // A question is asked again and again: its fault lasts until it is taken away.
        if let Some(fault) = self.faults.iter().find(|fault| fault.question.as_deref() == Some("os")) {
            return Known::Unknown { unknown: Error { code: fault.code, message: fault.message.clone() } };
        }
        let os = &self.os;
        Known::Answer(Os {
            mode: os.mode,
            backend: if os.mode == OsMode::Image { "bootc" } else { "none" }.to_owned(),
            booted: os.booted.clone(),
            staged: os.staged.clone(),
            rollback: os.rollback.as_ref().map(|(image, _)| image.clone()),
            check: BootCheck { enabled: os.check_seconds.is_some(), state: os.check },
        })
    }

    /// The number of a user or group.
    pub(super) fn number(&self, name: &str) -> Option<u32> {
        match name {
            "root" => Some(0),
            name => {
                name.parse().ok().or_else(|| self.users.get(name).copied()).or_else(|| self.os.user(name))
            }
        }
    }

    fn files(&self, ask: &AskFiles) -> FilesSeen {
        let numbers = |names: &[String]| names.iter().map(|name| (name.clone(), self.number(name))).collect();
        FilesSeen {
            files: ask.paths.iter().map(|path| (path.clone(), self.disk.seen(path))).collect(),
            users: numbers(&ask.users),
            groups: numbers(&ask.groups),
        }
    }

    /// Hook files as they are on the disk: one of ours takes the place of a vendor's of the same name.
    pub(super) fn hooks(&self, ask: &AskHooks) -> HooksSeen {
        let executable = |word: &str| !self.missing.iter().any(|missing| missing == word);
        let folder = |path: &str| self.disk.get(path).is_none_or(|node| node.dir);
        let machine = hooks::Machine { executable: &executable, folder: &folder };
        let mut files = BTreeMap::<String, HookFile>::new();
        for (base, origin) in HOOK_FOLDERS {
            let prefix = format!("{base}{}/", hook_folder(ask.hook));
            for (path, node) in self.disk.files() {
                let Some(name) = path.strip_prefix(&prefix).filter(|name| name.ends_with(".yaml")) else {
                    continue;
                };
                files.insert(name.to_owned(), hooks::file(name, origin, &node.content, &machine));
            }
        }
        HooksSeen { files: files.into_values().collect() }
    }

    fn images_seen(&self, ask: &AskImages) -> ImagesSeen {
        let one = |reference: &str| match self.images.get(reference) {
            Some(image) => image.seen.clone(),
            None => ImageSeen {
                reference: reference.to_owned(),
                state: PullState::Absent,
                digest: String::new(),
                tries: 0,
                next_try: None,
                error: None,
            },
        };
        ImagesSeen { images: ask.refs.iter().map(|wanted| one(&wanted.reference)).collect() }
    }

    fn application(&self, ask: &AskApplication) -> crate::device::words::ApplicationContent {
        let file = match ask.spec {
            Spec::Desired => "desired",
            Spec::Current => "current",
        };
        let Some(device) = self.device(file) else { return Default::default() };
        let Some(app) = seal::find_application(&device, &ask.name) else { return Default::default() };
        application::content(app, &[], |program| !self.missing.iter().any(|missing| missing == program))
    }

    fn resources(&self) -> ResourcesSeen {
        let one = |status: Health, what: &str| ResourceSeen {
            status,
            description: (status != Health::Healthy).then(|| format!("{what} usage is above its limit")),
        };
        ResourcesSeen {
            cpu: one(self.alerts.cpu, "CPU"),
            memory: one(self.alerts.memory, "memory"),
            disk: one(self.alerts.disk, "disk"),
        }
    }

    fn window(&self, ask: &AskWindow) -> Window {
        let zone = match ask.time_zone.as_deref() {
            None => Ok(jiff::tz::TimeZone::UTC),
            some => window::zone(some),
        };
        match zone {
            Ok(zone) => window::answer(&zone, ask, self.now()),
            Err(error) => Window { error: Some(error), ..Window::default() },
        }
    }

    fn operation(&self, ask: &AskOperation) -> OperationSeen {
        let Some(deed) = self.operations.get(&ask.key) else { return OperationSeen::default() };
        OperationSeen {
            state: deed.state,
            started_at: Some(deed.began.clone()),
            exit_code: deed.exit_code,
            error: deed.error.clone(),
        }
    }

    fn identity(&self) -> Identity {
        Identity {
            device_name: "device".to_owned(),
            enrolled: self.enrolled,
            enrolment: self.service.enrolment.clone(),
            architecture: "amd64".to_owned(),
            operating_system: "linux".to_owned(),
            agent_version: "0.1.0".to_owned(),
            custom_info: BTreeMap::new(),
            skipped: self.skipped.clone(),
        }
    }
}
