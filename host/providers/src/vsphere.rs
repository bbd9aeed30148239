//! vSphere: virtual machines of one or several vCenters.
//!
//! Every call is a method of a managed object with parameters ([`vcenter::Call`]); who carries it is behind
//! [`vcenter::Vcenter`]: SOAP or VI JSON over HTTPS, or the simulated vCenter in this process. Sessions, limits, bundled reads,
//! evidence before anything is started, and waiting for changes are the same code on both.

mod clone_spec;
pub mod credentials;
pub mod data;
mod fault;
pub mod http;
mod ledger;
pub mod limits;
mod perform;
mod place;
mod properties;
mod server;
mod session;
pub mod simulated;
pub mod soap;
pub mod tls;
pub mod vcenter;
pub mod vi_json;
mod view;
mod watch;
pub mod words;

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_core::contract::{ExternalQuery, Failure, FailureKind, Json, Operation};
use serde::de::DeserializeOwned;

use crate::changes::Changes;
use crate::provider::{Caller, Provider, ProviderFuture};
use crate::traffic::{Count, FarEnd};

use self::credentials::Credentials;
use self::data::MoRef;
use self::limits::CallLimits;
use self::perform::Deed;
use self::server::Server;
use self::vcenter::Vcenter;
use self::words::{
    Answer, AskPlacement, AskTask, AskVm, AskVmByName, AskVmByUuid, AskVmsOfGroup, Outcome, Reason, Unknown,
};

/// The questions, then the operations.
const CALLS: &[&str] = &[
    "task",
    "vm",
    "vm-by-uuid",
    "vm-by-name",
    "vms-of-group",
    "placement",
    "clone",
    "reconfigure",
    "power-on",
    "power-off",
    "shutdown-guest",
    "destroy",
];

/// The provider: vCenters by name.
#[derive(Default)]
pub struct Vsphere {
    servers: BTreeMap<String, Server>,
    changes: Arc<Changes>,
}

impl Vsphere {
    /// Without vCenters.
    pub fn new() -> Self {
        Self::default()
    }

    /// With one more; plugins name it so. Call it inside a tokio runtime; nothing is sent before somebody asks.
    pub fn with(
        mut self,
        name: &str,
        vcenter: Arc<dyn Vcenter>,
        credentials: Arc<dyn Credentials>,
        limits: CallLimits,
    ) -> Self {
        let server = Server::start(name, vcenter, credentials, limits, Arc::clone(&self.changes));
        self.servers.insert(name.to_owned(), server);
        self
    }

    /// Calls made so far, by vCenter and method.
    pub fn counts(&self) -> BTreeMap<&str, BTreeMap<&'static str, Count>> {
        self.servers.iter().map(|(name, server)| (name.as_str(), server.session.counts())).collect()
    }

    /// Objects watched now, by vCenter.
    pub fn watched(&self) -> BTreeMap<&str, usize> {
        self.servers.iter().map(|(name, server)| (name.as_str(), server.watch.len())).collect()
    }

    fn server(&self, name: &str) -> Result<&Server, Unknown> {
        self.servers.get(name).ok_or_else(|| Unknown {
            reason: Reason::NotConfigured,
            message: format!("the host knows no vCenter named {:?}", fault::cut(name)),
        })
    }

    /// The object that a question is about, where changes of the answer are changes of that object alone. Which VM bears a
    /// name or a UUID, and where a path leads, nobody tells when it changes.
    fn watchable(&self, query: &ExternalQuery) -> Option<(&Server, MoRef)> {
        let (server, object) = match Question::parse(query).ok()? {
            Question::Task(ask) => (ask.server, MoRef::new("Task", &ask.task)),
            Question::Vm(ask) => (ask.server, MoRef::new("VirtualMachine", &ask.vm)),
            Question::VmByUuid(_)
            | Question::VmByName(_)
            | Question::VmsOfGroup(_)
            | Question::Placement(_) => return None,
        };
        Some((self.servers.get(&server)?, object))
    }

    async fn ask(&self, query: &ExternalQuery) -> Result<Answer, Failure> {
        let asked = Question::parse(query)?;
        let server = match self.server(asked.server()) {
            Ok(server) => server,
            Err(unknown) => return Ok(Answer::Unknown(unknown)),
        };
        Ok(match &asked {
            Question::Task(ask) => server.task(ask, query).await,
            Question::Vm(ask) => server.vm(ask, query).await,
            Question::VmByUuid(ask) => server.vm_by_uuid(ask, query).await,
            Question::VmByName(ask) => server.vm_by_name(ask, query).await,
            Question::VmsOfGroup(ask) => server.vms_of_group(ask).await,
            Question::Placement(ask) => server.placement(ask).await,
        })
    }

    async fn act(&self, caller: &Caller, operation: &Operation) -> Result<Outcome, Failure> {
        let deed = parse_deed(operation)?;
        Ok(match self.server(deed.server()) {
            Ok(server) => server.perform(caller, &operation.key, &deed).await,
            Err(unknown) => Outcome::Unknown(unknown),
        })
    }
}

/// A question with its arguments.
enum Question {
    Task(AskTask),
    Vm(AskVm),
    VmByUuid(AskVmByUuid),
    VmByName(AskVmByName),
    VmsOfGroup(AskVmsOfGroup),
    Placement(AskPlacement),
}

impl Question {
    fn parse(query: &ExternalQuery) -> Result<Self, Failure> {
        let (question, text) = (query.question.as_str(), &*query.arguments);
        Ok(match question {
            "task" => Self::Task(arguments(question, text)?),
            "vm" => Self::Vm(arguments(question, text)?),
            "vm-by-uuid" => Self::VmByUuid(arguments(question, text)?),
            "vm-by-name" => Self::VmByName(arguments(question, text)?),
            "vms-of-group" => Self::VmsOfGroup(arguments(question, text)?),
            "placement" => Self::Placement(arguments(question, text)?),
            other => return Err(invalid(format!("vsphere has no question {other:?}"))),
        })
    }

    fn server(&self) -> &str {
        match self {
            Self::Task(ask) => &ask.server,
            Self::Vm(ask) => &ask.server,
            Self::VmByUuid(ask) => &ask.server,
            Self::VmByName(ask) => &ask.server,
            Self::VmsOfGroup(ask) => &ask.server,
            Self::Placement(ask) => &ask.server,
        }
    }
}

fn parse_deed(operation: &Operation) -> Result<Deed, Failure> {
    let (name, text) = (operation.operation.as_str(), &*operation.arguments);
    if operation.key.is_empty() {
        return Err(invalid(format!("{name} has no key")));
    }
    Ok(match name {
        "clone" => Deed::Clone(Box::new(arguments(name, text)?)),
        "reconfigure" => Deed::Reconfigure(arguments(name, text)?),
        "power-on" => Deed::PowerOn(arguments(name, text)?),
        "power-off" => Deed::PowerOff(arguments(name, text)?),
        "shutdown-guest" => Deed::ShutdownGuest(arguments(name, text)?),
        "destroy" => Deed::Destroy(arguments(name, text)?),
        other => return Err(invalid(format!("vsphere has no operation {other:?}"))),
    })
}

fn arguments<T: DeserializeOwned>(name: &str, text: &str) -> Result<T, Failure> {
    serde_json::from_str(text).map_err(|error| {
        // Serde's text may quote a value, and some are secret: only where it is goes out.
        let (line, column) = (error.line(), error.column());
        let what = match error.classify() {
            serde_json::error::Category::Data => data_error(&error),
            _ => "it is no JSON".to_owned(),
        };
        invalid(format!("arguments of {name}: {what} (line {line}, column {column})"))
    })
}

/// What does not fit: names of members are told, values are not.
fn data_error(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let told =
        ["missing field", "unknown field", "duplicate field"].iter().any(|start| text.starts_with(start));
    if told {
        text.split(" at line ").next().unwrap_or_default().to_owned()
    } else {
        "a value does not fit".to_owned()
    }
}

fn invalid(message: String) -> Failure {
    Failure::new(FailureKind::Invalid, message)
}

fn json<T: serde::Serialize>(value: &T) -> Result<Json, Failure> {
    let text = serde_json::to_string(value);
    text.map(Into::into).map_err(|error| Failure::new(FailureKind::Transient, error.to_string()))
}

impl Provider for Vsphere {
    fn answer<'a>(&'a self, _caller: &'a Caller, query: &'a ExternalQuery) -> ProviderFuture<'a, Json> {
        Box::pin(async move { json(&self.ask(query).await?) })
    }

    fn perform<'a>(
        &'a self,
        caller: &'a Caller,
        operation: &'a Operation,
    ) -> ProviderFuture<'a, Option<Json>> {
        Box::pin(async move { json(&self.act(caller, operation).await?).map(Some) })
    }

    fn standing(&self, query: &ExternalQuery) -> Option<Json> {
        let (server, object) = self.watchable(query)?;
        json(&server.standing(&object, query)?).ok()
    }

    fn doubt(&self, query: &ExternalQuery) {
        if let Some((server, object)) = self.watchable(query) {
            server.watch.distrust(&object);
        }
    }

    fn changes(&self) -> Option<&Changes> {
        Some(&self.changes)
    }

    fn forget(&self, query: &ExternalQuery) {
        self.servers.values().for_each(|server| server.watch.forget(query));
    }

    /// Everything that answers rest on is watched, and all that happened was told.
    fn idle(&self) -> bool {
        self.servers.values().all(|server| server.watch.settled() && server.session.idle())
    }

    fn calls(&self) -> &'static [&'static str] {
        CALLS
    }

    fn is_trouble(&self, answer: &str) -> bool {
        // An answer begins with its result.
        answer.starts_with(r#"{"result":"unknown""#)
    }

    fn far_ends(&self) -> Vec<FarEnd> {
        let end = |(name, server): (&String, &Server)| FarEnd {
            name: name.clone(),
            requests: server.session.counts(),
            watched: server.watch.len(),
        };
        self.servers.iter().map(end).collect()
    }
}
