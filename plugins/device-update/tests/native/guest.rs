//! The plugin as a native function: what a component runs, without building one.

use evenkeel_core::contract as host;
use evenkeel_core::guest::{CallStats, Guest, GuestFuture, GuestReply};
use evenkeel_sdk as sdk;
use evenkeel_sdk::Plugin;

/// The plugin.
pub struct Native {
    manifest: host::Manifest,
}

impl Native {
    pub fn new() -> Self {
        Self { manifest: manifest(device_update::DeviceUpdate::describe()) }
    }
}

impl Guest for Native {
    fn manifest(&self) -> &host::Manifest {
        &self.manifest
    }

    fn digest(&self) -> &str {
        "sha256:native"
    }

    fn reconcile<'a>(&'a self, request: &'a host::Request) -> GuestFuture<'a> {
        let outcome = sdk::run::<device_update::DeviceUpdate>(to_request(request));
        let outcome = outcome.map(from_reply).map_err(|failure| from_failure(&failure));
        Box::pin(async move { Ok(GuestReply { outcome, stats: CallStats::default() }) })
    }
}

fn manifest(it: sdk::Manifest) -> host::Manifest {
    let sdk::Manifest { name, version, summary, controllers, permissions, providers, crds, config_schema } =
        it;
    host::Manifest {
        name,
        version,
        summary,
        controllers: controllers
            .into_iter()
            .map(|it| host::Controller {
                name: it.name,
                primary: from_gvk(&it.primary),
                labels: it.labels,
                view: it.view.lines().map(str::to_owned).collect(),
                resync: it.resync,
            })
            .collect(),
        permissions: permissions
            .into_iter()
            .map(|it| host::Permission {
                gvk: from_gvk(&it.gvk),
                verbs: it.verbs.into_iter().map(from_verb).collect(),
                names: it.names,
            })
            .collect(),
        providers: providers
            .into_iter()
            .map(|it| host::ProviderUse {
                provider: it.provider,
                questions: it.questions,
                operations: it.operations,
            })
            .collect(),
        crds: crds.into_iter().map(Into::into).collect(),
        config_schema: config_schema.map(Into::into),
    }
}

fn from_verb(verb: sdk::Verb) -> host::Verb {
    match verb {
        sdk::Verb::Get => host::Verb::Get,
        sdk::Verb::List => host::Verb::List,
        sdk::Verb::Create => host::Verb::Create,
        sdk::Verb::Apply => host::Verb::Apply,
        sdk::Verb::ApplyStatus => host::Verb::ApplyStatus,
        sdk::Verb::Patch => host::Verb::Patch,
        sdk::Verb::Delete => host::Verb::Delete,
        sdk::Verb::Finalize => host::Verb::Finalize,
        sdk::Verb::Publish => host::Verb::Publish,
    }
}

fn from_gvk(it: &sdk::Gvk) -> host::Gvk {
    host::Gvk::new(&it.group, &it.version, &it.kind)
}

fn to_gvk(it: &host::Gvk) -> sdk::Gvk {
    sdk::Gvk { group: it.group.to_string(), version: it.version.to_string(), kind: it.kind.to_string() }
}

fn from_object(it: &sdk::ObjectRef) -> host::ObjectRef {
    host::ObjectRef::new(from_gvk(&it.gvk), it.namespace.as_deref(), &it.name)
}

fn to_object(it: &host::ObjectRef) -> sdk::ObjectRef {
    sdk::ObjectRef {
        gvk: to_gvk(&it.gvk),
        namespace: it.namespace.as_ref().map(ToString::to_string),
        name: it.name.to_string(),
    }
}

fn text(json: &host::Json) -> String {
    json.to_string()
}

fn to_request(it: &host::Request) -> sdk::Request {
    sdk::Request {
        controller: it.controller.clone(),
        key: to_object(&it.key),
        primary: it.primary.as_ref().map(text),
        last_seen: it.last_seen.as_ref().map(text),
        observations: it
            .observations
            .iter()
            .map(|it| sdk::Observation { query: to_query(&it.query), answer: to_answer(&it.answer) })
            .collect(),
        performed: it
            .performed
            .iter()
            .map(|it| sdk::Performed {
                action: to_action(&it.action),
                outcome: match &it.outcome {
                    Ok(answer) => Ok(answer.as_ref().map(text)),
                    Err(failure) => Err(to_failure(failure)),
                },
            })
            .collect(),
        // The plugin does not look at it.
        last_failure: None,
        config: text(&it.config),
    }
}

fn to_query(it: &host::Query) -> sdk::Query {
    match it {
        host::Query::Clock => sdk::Query::Clock,
        host::Query::External(it) => sdk::Query::External(sdk::ExternalQuery {
            provider: it.provider.clone(),
            question: it.question.clone(),
            arguments: text(&it.arguments),
        }),
        host::Query::Get(_) | host::Query::List(_) => panic!("the plugin does not ask for objects: {it:?}"),
    }
}

fn from_query(it: sdk::Query) -> host::Query {
    match it {
        sdk::Query::Clock => host::Query::Clock,
        sdk::Query::External(it) => host::Query::External(host::ExternalQuery {
            provider: it.provider,
            question: it.question,
            arguments: it.arguments.into(),
        }),
        sdk::Query::Get(_) | sdk::Query::List(_) => panic!("the plugin does not ask for objects: {it:?}"),
    }
}

fn to_answer(it: &host::Answer) -> sdk::Answer {
    match it {
        host::Answer::Object(object) => sdk::Answer::Object(object.as_ref().map(text)),
        host::Answer::Objects(objects) => sdk::Answer::Objects(objects.iter().map(text).collect()),
        host::Answer::Unserved => sdk::Answer::Unserved,
        host::Answer::Time(time) => sdk::Answer::Time(time.clone()),
        host::Answer::External(Ok(answer)) => sdk::Answer::External(Ok(text(answer))),
        host::Answer::External(Err(failure)) => sdk::Answer::External(Err(to_failure(failure))),
    }
}

fn to_action(it: &host::Action) -> sdk::Action {
    match it {
        host::Action::External(it) => sdk::Action::External(sdk::Operation {
            key: it.key.clone(),
            provider: it.provider.clone(),
            operation: it.operation.clone(),
            arguments: text(&it.arguments),
        }),
        other => panic!("the plugin performs nothing of the kind: {other:?}"),
    }
}

fn from_action(it: sdk::Action) -> host::Action {
    match it {
        sdk::Action::External(it) => host::Action::External(host::Operation {
            key: it.key,
            provider: it.provider,
            operation: it.operation,
            arguments: it.arguments.into(),
        }),
        sdk::Action::ApplyStatus(it) => host::Action::ApplyStatus(host::Apply {
            object: it.object.into(),
            force: it.force,
            controlled: it.controlled,
        }),
        sdk::Action::Publish(it) => host::Action::Publish(host::Event {
            about: from_object(&it.about),
            severity: match it.severity {
                sdk::EventType::Normal => host::EventType::Normal,
                sdk::EventType::Warning => host::EventType::Warning,
            },
            reason: it.reason,
            message: it.message,
        }),
        other => panic!("the plugin does nothing of the kind: {other:?}"),
    }
}

fn kinds() -> [(sdk::FailureKind, host::FailureKind); 5] {
    [
        (sdk::FailureKind::Transient, host::FailureKind::Transient),
        (sdk::FailureKind::Invalid, host::FailureKind::Invalid),
        (sdk::FailureKind::Denied, host::FailureKind::Denied),
        (sdk::FailureKind::Conflict, host::FailureKind::Conflict),
        (sdk::FailureKind::NotFound, host::FailureKind::NotFound),
    ]
}

fn to_failure(it: &host::Failure) -> sdk::Failure {
    let kind = kinds().into_iter().find(|(_, kind)| *kind == it.kind).expect("every kind is listed").0;
    sdk::Failure { kind, message: it.message.clone(), retry_after: it.retry_after }
}

fn from_failure(it: &sdk::Failure) -> host::Failure {
    let kind = kinds().into_iter().find(|(kind, _)| *kind == it.kind).expect("every kind is listed").1;
    host::Failure { kind, message: it.message.clone(), retry_after: it.retry_after }
}

fn from_reply(it: sdk::Reply) -> host::Reply {
    let step = match it.step {
        sdk::Step::Observe(queries) => host::Step::Observe(queries.into_iter().map(from_query).collect()),
        sdk::Step::Perform(actions) => host::Step::Perform(actions.into_iter().map(from_action).collect()),
        sdk::Step::Finish(it) => host::Step::Finish(host::Conclusion {
            actions: it.actions.into_iter().map(from_action).collect(),
            prune: it.prune.iter().map(from_gvk).collect(),
            requeue_after: it.requeue_after,
        }),
    };
    let level = |level| match level {
        sdk::LogLevel::Debug => host::LogLevel::Debug,
        sdk::LogLevel::Info => host::LogLevel::Info,
        sdk::LogLevel::Warn => host::LogLevel::Warn,
        sdk::LogLevel::Error => host::LogLevel::Error,
    };
    let line = |it: sdk::LogLine| host::LogLine { level: level(it.level), message: it.message };
    host::Reply { step, log: it.log.into_iter().map(line).collect() }
}
