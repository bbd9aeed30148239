//! The contract's words in the component model's types, and back. Nothing else does that.

use std::sync::Arc;

use evenkeel_core::contract as core;

use crate::generated::evenkeel::reconciler::types as wit;

fn string(text: &Arc<str>) -> String {
    text.as_ref().to_owned()
}

fn optional(text: &Option<Arc<str>>) -> Option<String> {
    text.as_ref().map(string)
}

fn each<A, B>(items: Vec<A>, convert: impl FnMut(A) -> B) -> Vec<B> {
    items.into_iter().map(convert).collect()
}

fn each_of<A, B>(items: &[A], convert: impl FnMut(&A) -> B) -> Vec<B> {
    items.iter().map(convert).collect()
}

// ---- to the guest ------------------------------------------------------------------------------------------------

/// The argument of a call.
pub(crate) fn request(request: &core::Request) -> wit::Request {
    wit::Request {
        controller: request.controller.clone(),
        key: object_ref_out(&request.key),
        primary: optional(&request.primary),
        last_seen: optional(&request.last_seen),
        observations: each_of(&request.observations, observation_out),
        performed: each_of(&request.performed, performed_out),
        last_failure: request.last_failure.as_ref().map(failed_pass_out),
        config: string(&request.config),
    }
}

fn gvk_out(gvk: &core::Gvk) -> wit::Gvk {
    wit::Gvk { group: string(&gvk.group), version: string(&gvk.version), kind: string(&gvk.kind) }
}

fn object_ref_out(object: &core::ObjectRef) -> wit::ObjectRef {
    wit::ObjectRef {
        gvk: gvk_out(&object.gvk),
        namespace: optional(&object.namespace),
        name: string(&object.name),
    }
}

fn observation_out(observation: &core::Observation) -> wit::Observation {
    wit::Observation { query: query_out(&observation.query), answer: answer_out(&observation.answer) }
}

/// The pointers of a view in one text. Each text costs a call into the guest that makes room for it, and in a request of a dozen
/// answers the pointers would be half of all texts.
fn view_out(view: &[String]) -> String {
    view.join("\n")
}

fn query_out(query: &core::Query) -> wit::Query {
    match query {
        core::Query::Get(get) => {
            wit::Query::Get(wit::GetQuery { object: object_ref_out(&get.object), view: view_out(&get.view) })
        }
        core::Query::List(list) => wit::Query::List(wit::ListQuery {
            gvk: gvk_out(&list.gvk),
            namespace: optional(&list.namespace),
            labels: list.labels.clone(),
            fields: each_of(&list.fields, |field| wit::FieldMatch {
                pointer: field.pointer.clone(),
                value: string(&field.value),
            }),
            controlled_by: list.controlled_by.clone(),
            view: view_out(&list.view),
        }),
        core::Query::Clock => wit::Query::Clock,
        core::Query::External(external) => wit::Query::External(wit::ExternalQuery {
            provider: external.provider.clone(),
            question: external.question.clone(),
            arguments: string(&external.arguments),
        }),
    }
}

fn answer_out(answer: &core::Answer) -> wit::Answer {
    match answer {
        core::Answer::Object(object) => wit::Answer::Object(optional(object)),
        core::Answer::Objects(objects) => wit::Answer::Objects(each_of(objects, string)),
        core::Answer::Unserved => wit::Answer::Unserved,
        core::Answer::Time(time) => wit::Answer::Time(time.clone()),
        core::Answer::External(Ok(value)) => wit::Answer::External(Ok(string(value))),
        core::Answer::External(Err(failure)) => wit::Answer::External(Err(failure_out(failure))),
    }
}

fn performed_out(performed: &core::Performed) -> wit::Performed {
    wit::Performed {
        action: action_out(&performed.action),
        outcome: match &performed.outcome {
            Ok(object) => Ok(optional(object)),
            Err(failure) => Err(failure_out(failure)),
        },
    }
}

fn failed_pass_out(failed: &core::FailedPass) -> wit::FailedPass {
    wit::FailedPass {
        failure: failure_out(&failed.failure),
        action: failed.action.as_ref().map(action_out),
        count: failed.count,
    }
}

fn failure_out(failure: &core::Failure) -> wit::Failure {
    wit::Failure {
        kind: match failure.kind {
            core::FailureKind::Transient => wit::FailureKind::Transient,
            core::FailureKind::Invalid => wit::FailureKind::Invalid,
            core::FailureKind::Denied => wit::FailureKind::Denied,
            core::FailureKind::Conflict => wit::FailureKind::Conflict,
            core::FailureKind::NotFound => wit::FailureKind::NotFound,
        },
        message: failure.message.clone(),
        retry_after: failure.retry_after,
    }
}

fn action_out(action: &core::Action) -> wit::Action {
    match action {
        core::Action::Create(apply) => wit::Action::Create(apply_out(apply)),
        core::Action::Apply(apply) => wit::Action::Apply(apply_out(apply)),
        core::Action::ApplyStatus(apply) => wit::Action::ApplyStatus(apply_out(apply)),
        core::Action::Delete(deletion) => wit::Action::Delete(wit::Deletion {
            object: object_ref_out(&deletion.object),
            uid: deletion.uid.clone(),
            propagation: match deletion.propagation {
                core::Propagation::Background => wit::Propagation::Background,
                core::Propagation::Foreground => wit::Propagation::Foreground,
                core::Propagation::Orphan => wit::Propagation::Orphan,
            },
        }),
        core::Action::AddFinalizer(finalizer) => wit::Action::AddFinalizer(finalizer_out(finalizer)),
        core::Action::RemoveFinalizer(finalizer) => wit::Action::RemoveFinalizer(finalizer_out(finalizer)),
        core::Action::Patch(patch) => wit::Action::Patch(wit::Patch {
            object: object_ref_out(&patch.object),
            merge: string(&patch.merge),
        }),
        core::Action::Publish(event) => wit::Action::Publish(wit::Event {
            about: object_ref_out(&event.about),
            severity: match event.severity {
                core::EventType::Normal => wit::EventType::Normal,
                core::EventType::Warning => wit::EventType::Warning,
            },
            reason: event.reason.clone(),
            message: event.message.clone(),
        }),
        core::Action::Enqueue(enqueue) => wit::Action::Enqueue(wit::Enqueue {
            controller: enqueue.controller.clone(),
            object: object_ref_out(&enqueue.object),
        }),
        core::Action::External(operation) => wit::Action::External(wit::Operation {
            key: operation.key.clone(),
            provider: operation.provider.clone(),
            operation: operation.operation.clone(),
            arguments: string(&operation.arguments),
        }),
    }
}

fn apply_out(apply: &core::Apply) -> wit::Apply {
    wit::Apply { object: string(&apply.object), force: apply.force, controlled: apply.controlled }
}

fn finalizer_out(finalizer: &core::Finalizer) -> wit::Finalizer {
    wit::Finalizer { object: object_ref_out(&finalizer.object), name: finalizer.name.clone() }
}

// ---- from the guest ----------------------------------------------------------------------------------------------

/// A guest's answer.
pub(crate) fn reply(reply: wit::Reply) -> core::Reply {
    core::Reply { step: step(reply.step), log: each(reply.log, log_line) }
}

/// A failure that a guest reported.
pub(crate) fn failure(failure: wit::Failure) -> core::Failure {
    core::Failure {
        kind: match failure.kind {
            wit::FailureKind::Transient => core::FailureKind::Transient,
            wit::FailureKind::Invalid => core::FailureKind::Invalid,
            wit::FailureKind::Denied => core::FailureKind::Denied,
            wit::FailureKind::Conflict => core::FailureKind::Conflict,
            wit::FailureKind::NotFound => core::FailureKind::NotFound,
        },
        message: failure.message,
        retry_after: failure.retry_after,
    }
}

/// What a guest says of itself.
pub(crate) fn manifest(manifest: wit::Manifest) -> core::Manifest {
    core::Manifest {
        name: manifest.name,
        version: manifest.version,
        summary: manifest.summary,
        controllers: each(manifest.controllers, |controller| core::Controller {
            name: controller.name,
            primary: gvk(controller.primary),
            labels: controller.labels,
            view: view(&controller.view),
            resync: controller.resync,
        }),
        permissions: each(manifest.permissions, |permission| core::Permission {
            gvk: gvk(permission.gvk),
            verbs: each(permission.verbs, verb),
            names: permission.names,
        }),
        providers: each(manifest.providers, |used| core::ProviderUse {
            provider: used.provider,
            questions: used.questions,
            operations: used.operations,
        }),
        crds: each(manifest.crds, Into::into),
        config_schema: manifest.config_schema.map(Into::into),
    }
}

fn verb(verb: wit::Verb) -> core::Verb {
    match verb {
        wit::Verb::Get => core::Verb::Get,
        wit::Verb::List => core::Verb::List,
        wit::Verb::Create => core::Verb::Create,
        wit::Verb::Apply => core::Verb::Apply,
        wit::Verb::ApplyStatus => core::Verb::ApplyStatus,
        wit::Verb::Patch => core::Verb::Patch,
        wit::Verb::Delete => core::Verb::Delete,
        wit::Verb::Finalize => core::Verb::Finalize,
        wit::Verb::Publish => core::Verb::Publish,
    }
}

fn step(step: wit::Step) -> core::Step {
    match step {
        wit::Step::Observe(queries) => core::Step::Observe(each(queries, query)),
        wit::Step::Perform(actions) => core::Step::Perform(each(actions, action)),
        wit::Step::Finish(conclusion) => core::Step::Finish(core::Conclusion {
            actions: each(conclusion.actions, action),
            prune: each(conclusion.prune, gvk),
            requeue_after: conclusion.requeue_after,
        }),
    }
}

fn log_line(line: wit::LogLine) -> core::LogLine {
    core::LogLine {
        level: match line.level {
            wit::LogLevel::Debug => core::LogLevel::Debug,
            wit::LogLevel::Info => core::LogLevel::Info,
            wit::LogLevel::Warn => core::LogLevel::Warn,
            wit::LogLevel::Error => core::LogLevel::Error,
        },
        message: line.message,
    }
}

fn gvk(gvk: wit::Gvk) -> core::Gvk {
    core::Gvk { group: gvk.group.into(), version: gvk.version.into(), kind: gvk.kind.into() }
}

fn object_ref(object: wit::ObjectRef) -> core::ObjectRef {
    core::ObjectRef {
        gvk: gvk(object.gvk),
        namespace: object.namespace.map(Into::into),
        name: object.name.into(),
    }
}

/// The pointers of a view, one a line.
fn view(text: &str) -> Vec<String> {
    if text.is_empty() { Vec::new() } else { text.split('\n').map(str::to_owned).collect() }
}

fn query(query: wit::Query) -> core::Query {
    match query {
        wit::Query::Get(get) => {
            core::Query::Get(core::GetQuery { object: object_ref(get.object), view: view(&get.view) })
        }
        wit::Query::List(list) => core::Query::List(core::ListQuery {
            gvk: gvk(list.gvk),
            namespace: list.namespace.map(Into::into),
            labels: list.labels,
            fields: each(list.fields, |field| core::FieldMatch {
                pointer: field.pointer,
                value: field.value.into(),
            }),
            controlled_by: list.controlled_by,
            view: view(&list.view),
        }),
        wit::Query::Clock => core::Query::Clock,
        wit::Query::External(external) => core::Query::External(core::ExternalQuery {
            provider: external.provider,
            question: external.question,
            arguments: external.arguments.into(),
        }),
    }
}

fn action(action: wit::Action) -> core::Action {
    match action {
        wit::Action::Create(given) => core::Action::Create(apply(given)),
        wit::Action::Apply(given) => core::Action::Apply(apply(given)),
        wit::Action::ApplyStatus(given) => core::Action::ApplyStatus(apply(given)),
        wit::Action::Delete(deletion) => core::Action::Delete(core::Deletion {
            object: object_ref(deletion.object),
            uid: deletion.uid,
            propagation: match deletion.propagation {
                wit::Propagation::Background => core::Propagation::Background,
                wit::Propagation::Foreground => core::Propagation::Foreground,
                wit::Propagation::Orphan => core::Propagation::Orphan,
            },
        }),
        wit::Action::AddFinalizer(given) => core::Action::AddFinalizer(finalizer(given)),
        wit::Action::RemoveFinalizer(given) => core::Action::RemoveFinalizer(finalizer(given)),
        wit::Action::Patch(patch) => {
            core::Action::Patch(core::Patch { object: object_ref(patch.object), merge: patch.merge.into() })
        }
        wit::Action::Publish(event) => core::Action::Publish(core::Event {
            about: object_ref(event.about),
            severity: match event.severity {
                wit::EventType::Normal => core::EventType::Normal,
                wit::EventType::Warning => core::EventType::Warning,
            },
            reason: event.reason,
            message: event.message,
        }),
        wit::Action::Enqueue(enqueue) => core::Action::Enqueue(core::Enqueue {
            controller: enqueue.controller,
            object: object_ref(enqueue.object),
        }),
        wit::Action::External(operation) => core::Action::External(core::Operation {
            key: operation.key,
            provider: operation.provider,
            operation: operation.operation,
            arguments: operation.arguments.into(),
        }),
    }
}

fn apply(apply: wit::Apply) -> core::Apply {
    core::Apply { object: apply.object.into(), force: apply.force, controlled: apply.controlled }
}

fn finalizer(finalizer: wit::Finalizer) -> core::Finalizer {
    core::Finalizer { object: object_ref(finalizer.object), name: finalizer.name }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> core::ObjectRef {
        core::ObjectRef::new(core::Gvk::new("apps", "v1", "Deployment"), Some("default"), "web")
    }

    fn every_query() -> Vec<core::Query> {
        vec![
            core::Query::Get(core::GetQuery { object: place(), view: vec!["/spec".into()] }),
            core::Query::List(core::ListQuery {
                gvk: core::Gvk::new("", "v1", "Pod"),
                namespace: None,
                labels: "app=web".into(),
                fields: vec![core::FieldMatch { pointer: "/spec/node".into(), value: "\"a\"".into() }],
                controlled_by: Some("uid-1".into()),
                view: vec![],
            }),
            core::Query::Clock,
            core::Query::External(core::ExternalQuery {
                provider: "vsphere".into(),
                question: "power".into(),
                arguments: "{}".into(),
            }),
        ]
    }

    fn every_action() -> Vec<core::Action> {
        let apply = core::Apply { object: "{\"kind\":\"Pod\"}".into(), force: true, controlled: false };
        let finalizer = core::Finalizer { object: place(), name: "example.org/hold".into() };
        let event = |severity| {
            core::Action::Publish(core::Event {
                about: place(),
                severity,
                reason: "Made".into(),
                message: "It is there.".into(),
            })
        };
        let delete = |propagation| {
            core::Action::Delete(core::Deletion { object: place(), uid: Some("uid-2".into()), propagation })
        };
        vec![
            core::Action::Create(apply.clone()),
            core::Action::Apply(core::Apply { force: false, controlled: true, ..apply.clone() }),
            core::Action::ApplyStatus(apply),
            delete(core::Propagation::Background),
            delete(core::Propagation::Foreground),
            delete(core::Propagation::Orphan),
            core::Action::AddFinalizer(finalizer.clone()),
            core::Action::RemoveFinalizer(finalizer),
            core::Action::Patch(core::Patch { object: place(), merge: "{\"spec\":null}".into() }),
            event(core::EventType::Normal),
            event(core::EventType::Warning),
            core::Action::Enqueue(core::Enqueue { controller: "other".into(), object: place() }),
            core::Action::External(core::Operation {
                key: "k".into(),
                provider: "device".into(),
                operation: "reboot".into(),
                arguments: "1".into(),
            }),
        ]
    }

    #[test]
    fn a_view_comes_back_as_it_went() {
        for there in [&[][..], &["/spec"], &["/metadata/labels", "/data/a~1b", "/spec"]] {
            let there: Vec<String> = there.iter().map(|&pointer| pointer.to_owned()).collect();
            assert_eq!(view(&view_out(&there)), there);
        }
        // What follows the break of a line is no pointer, and refused as such by whoever reads the view.
        assert_eq!(view("/data/a\nb"), ["/data/a", "b"]);
    }

    #[test]
    fn a_query_comes_back_as_it_went() {
        for there in every_query() {
            assert_eq!(query(query_out(&there)), there);
        }
    }

    #[test]
    fn an_action_comes_back_as_it_went() {
        for there in every_action() {
            assert_eq!(action(action_out(&there)), there);
        }
    }

    #[test]
    fn a_failure_comes_back_as_it_went() {
        use super::core::FailureKind::{Conflict, Denied, Invalid, NotFound, Transient};
        for kind in [Transient, Invalid, Denied, Conflict, NotFound] {
            let there = core::Failure { kind, message: "no".into(), retry_after: Some(u64::MAX) };
            assert_eq!(failure(failure_out(&there)), there);
        }
    }

    #[test]
    fn an_answer_keeps_none_apart_from_unserved() {
        assert!(matches!(answer_out(&core::Answer::Object(None)), wit::Answer::Object(None)));
        assert!(matches!(answer_out(&core::Answer::Unserved), wit::Answer::Unserved));
    }
}
