//! Looks whether the world is as a scenario expects.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_core::contract::FailureKind;
use evenkeel_engine::PassRecord;
use serde_json::Value;

use super::expect::{Difference, in_order, lines, show, subset, woven};
use super::expected::{
    Assertion, Expect, ExpectedCalls, ExpectedEvent, ExpectedFailure, ExpectedRequeue, FieldsAbsent,
    ObjectName, RequeueAfter,
};
use super::run::Teller;
use super::step::Named;
use super::story;
use super::world::WorldError;

/// Everything that is otherwise than expected; what is found before something cannot be looked at stays found.
pub(super) async fn verify(
    teller: &mut Teller<'_>,
    expect: &Expect,
    found: &mut Vec<Difference>,
) -> Result<(), WorldError> {
    writes(teller, expect, found);
    if expect.quiet {
        quiet(teller, expect, found).await?;
    }
    for (index, object) in expect.objects.iter().enumerate() {
        let differences = present(teller, object).await?.into_iter();
        found.extend(differences.map(|difference| difference.below(["objects", &index.to_string()])));
    }
    for object in &expect.absent {
        absent(teller, object, found).await?;
    }
    for fields in &expect.fields_absent {
        fields_absent(teller, fields, found).await?;
    }
    for assertion in &expect.assert {
        asserted(teller, assertion, found).await?;
    }
    events(teller, expect, found).await?;
    for text in &expect.text_absent {
        text_absent(teller, text, found).await?;
    }
    if let Some(requeue) = &expect.requeue {
        requeued(teller, requeue, found);
    }
    if let Some(failed) = &expect.failed {
        found.extend(failure(teller, failed));
    }
    for (name, wanted) in &expect.provider {
        let differences = teller.world.twin(name)?.expect(wanted).err().unwrap_or_default();
        found.extend(
            differences.into_iter().map(|said| Difference::new(format!("provider {name}"), "", said)),
        );
    }
    Ok(())
}

/// What was written since the last look. A look that asks for no writes leaves them for the next.
fn writes(teller: &mut Teller<'_>, expect: &Expect, found: &mut Vec<Difference>) {
    let asks = expect.writes.is_some()
        || expect.writes_include.is_some()
        || expect.writes_exclude.is_some()
        || expect.calls.is_some();
    if !asks {
        return;
    }
    let since = &teller.world.passes[teller.passes_seen..];
    let actual: Vec<String> = since.iter().flat_map(|record| story::writes(record)).collect();
    // On a cluster the passes of different keys come in any order.
    let by_key = (!teller.world.in_order()).then(|| each_key(since));
    if let Some(expected) = &expect.calls {
        found.extend(calls(since, expected, teller.world.in_order()));
    }
    if let Some(expected) = &expect.writes
        && by_key.as_ref().is_none_or(|each| !woven(expected, each, true))
    {
        let difference = lines("writes", expected, &actual);
        found.extend(difference.map(|difference| difference.fixed_by(["writes"], actual.clone())));
    }
    if let Some(expected) = &expect.writes_include
        && by_key.as_ref().is_none_or(|each| !woven(expected, each, false))
        && let Some(missing) = in_order(expected, &actual)
    {
        let at = format!("writes (looking for {missing:?} in this order)");
        found.push(Difference::new(at, expected.join("\n"), actual.join("\n")));
    }
    if let Some(unwanted) = &expect.writes_exclude
        && let Some(hit) = unwanted.iter().find(|line| actual.contains(line))
    {
        found.push(Difference::new("writes", format!("no {hit:?}"), actual.join("\n")));
    }
    teller.passes_seen = teller.world.passes.len();
}

/// The writes of each controller for each of its keys.
fn each_key(since: &[Arc<PassRecord>]) -> Vec<Vec<String>> {
    let mut each: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for record in since {
        let key = (story::controller(record).to_owned(), story::key(record));
        each.entry(key).or_default().extend(story::writes(record));
    }
    each.into_values().collect()
}

/// Calls of the plugin in these passes. Where what happens has no one order, one pass may take in what two would have, so
/// that it is at most so many.
fn calls(since: &[Arc<PassRecord>], expected: &ExpectedCalls, exactly: bool) -> Vec<Difference> {
    let made = |controller: Option<&str>| -> u64 {
        let of = since
            .iter()
            .filter(|record| controller.is_none_or(|controller| story::controller(record) == controller));
        of.map(|record| story::calls(record)).sum()
    };
    let difference = |at: String, expected: u64, made: u64| {
        let holds = made == expected || (!exactly && made < expected);
        (!holds).then(|| Difference::new(at, expected.to_string(), made.to_string()))
    };
    match expected {
        ExpectedCalls::Sum(expected) => {
            let made = made(None);
            let found = difference("calls of the plugin".to_owned(), *expected, made);
            found.map(|difference| difference.fixed_by(["calls"], made)).into_iter().collect()
        }
        ExpectedCalls::ByController(each) => each
            .iter()
            .filter_map(|(controller, expected)| {
                let made = made(Some(controller));
                let found = difference(format!("calls of {controller}"), *expected, made);
                found.map(|difference| difference.fixed_by(["calls", controller], made))
            })
            .collect(),
    }
}

/// Nothing since the last look, and nothing when everything is looked at twice more.
async fn quiet(
    teller: &mut Teller<'_>,
    expect: &Expect,
    found: &mut Vec<Difference>,
) -> Result<(), WorldError> {
    let asks_writes = expect.writes.is_some() || expect.writes_include.is_some();
    if asks_writes {
        // The writes up to here were looked at in this very step.
        teller.passes_seen = teller.world.passes.len();
    }
    teller.world.resync().await?;
    teller.world.resync().await?;
    let since = &teller.world.passes[teller.passes_seen..];
    let actual: Vec<String> = since.iter().flat_map(|record| story::writes(record)).collect();
    if !actual.is_empty() {
        found.push(Difference::new("quiet", "", actual.join("\n")));
    }
    teller.passes_seen = teller.world.passes.len();
    Ok(())
}

async fn present(teller: &Teller<'_>, expected: &Value) -> Result<Vec<Difference>, WorldError> {
    let named = Named::of(expected);
    let kind = teller.kind(&named)?;
    let actual = teller.world.object(kind, named.namespace, named.name).await?;
    let mut wanted = expected.clone();
    if let Some(fields) = wanted.as_object_mut() {
        fields.entry("apiVersion").or_insert_with(|| kind.gvk.api_version().into());
        let exact = fields.remove("exact").is_some_and(|exact| exact == Value::Bool(true));
        if exact && actual.as_ref() != Some(&wanted) {
            let show = |value: Option<&Value>| value.map_or("nothing".into(), |value| format!("{value:#}"));
            let difference = Difference::new(named.to_string(), show(Some(&wanted)), show(actual.as_ref()));
            return Ok(vec![difference]);
        }
    }
    Ok(subset(&named.to_string(), &wanted, actual.as_ref()))
}

async fn absent(
    teller: &Teller<'_>,
    object: &ObjectName,
    found: &mut Vec<Difference>,
) -> Result<(), WorldError> {
    let named = object.named();
    if let Some(there) = teller.world.object(teller.kind(&named)?, named.namespace, named.name).await? {
        let deleting = there.pointer("/metadata/deletionTimestamp").is_some();
        let there = if deleting { "there, being deleted" } else { "there" };
        found.push(Difference::new(named.to_string(), "nothing", there));
    }
    Ok(())
}

async fn fields_absent(
    teller: &Teller<'_>,
    fields: &FieldsAbsent,
    found: &mut Vec<Difference>,
) -> Result<(), WorldError> {
    let named = fields.named();
    let Some(object) = teller.world.object(teller.kind(&named)?, named.namespace, named.name).await? else {
        found.push(Difference::new(named.to_string(), "an object without some fields", "no object"));
        return Ok(());
    };
    for pointer in &fields.pointers {
        if let Some(value) = object.pointer(pointer) {
            found.push(Difference::new(format!("{named}{pointer}"), "nothing", value.to_string()));
        }
    }
    Ok(())
}

/// An object, or each of a list, without what hides the rest from a person.
fn without_managed_fields(subject: &Value) -> Value {
    let mut shown = subject.clone();
    let objects = match &mut shown {
        Value::Array(objects) => objects.as_mut_slice(),
        object => std::slice::from_mut(object),
    };
    for object in objects {
        if let Some(metadata) = object.pointer_mut("/metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
    }
    shown
}

/// A rule holds for an object, or for the list of all objects of a kind.
pub(super) async fn asserted(
    teller: &Teller<'_>,
    assertion: &Assertion,
    found: &mut Vec<Difference>,
) -> Result<(), WorldError> {
    let Assertion { api_version, kind, namespace, name, that, message } = assertion;
    let any = Named {
        api_version: api_version.as_deref(),
        kind,
        namespace: namespace.as_deref(),
        name: name.as_deref().unwrap_or_default(),
    };
    let kind = teller.kind(&any)?;
    let expected =
        message.as_ref().map_or_else(|| that.text.clone(), |message| format!("{message}: {}", that.text));
    let subject = match name {
        Some(name) => match teller.world.object(kind, namespace.as_deref(), name).await? {
            Some(object) => object,
            None => {
                found.push(Difference::new(assertion.about(), expected, "no object"));
                return Ok(());
            }
        },
        None => teller.world.objects(kind, namespace.as_deref()).await?.into(),
    };
    let shown = || show(&without_managed_fields(&subject));
    let now = teller.world.now().to_string().into();
    let actual = match that.expression.holds(&[("self", &subject), ("now", &now)]) {
        Ok(true) => return Ok(()),
        Ok(false) => format!("it does not hold of {}", shown()),
        Err(reason) => format!("{reason}, of {}", shown()),
    };
    found.push(Difference::new(assertion.about(), expected, actual));
    Ok(())
}

/// An Event that the API server has.
struct Published {
    reason: String,
    severity: String,
    about: String,
    message: String,
}

async fn published(teller: &Teller<'_>) -> Result<Vec<Published>, WorldError> {
    let dump = teller.world.dump().await?;
    let events = dump.iter().filter(|object| object["kind"] == "Event");
    let published = events.map(|event| {
        let text =
            |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (kind, name) = (text("/involvedObject/kind"), text("/involvedObject/name"));
        let namespace = text("/involvedObject/namespace");
        let namespace = Some(namespace.as_str()).filter(|namespace| !namespace.is_empty());
        let about = Named { api_version: None, kind: &kind, namespace, name: &name };
        Published {
            reason: text("/reason"),
            severity: text("/type"),
            about: about.to_string(),
            message: text("/message"),
        }
    });
    Ok(published.collect())
}

async fn events(teller: &Teller<'_>, expect: &Expect, found: &mut Vec<Difference>) -> Result<(), WorldError> {
    if expect.events.is_empty() && expect.no_events.is_empty() {
        return Ok(());
    }
    let published = published(teller).await?;
    let shown = || {
        let lines =
            published.iter().map(|e| format!("{} {} {}: {}", e.severity, e.reason, e.about, e.message));
        lines.collect::<Vec<_>>().join("\n")
    };
    for wanted in &expect.events {
        let there = published.iter().filter(|event| is(wanted, event)).count();
        if wanted.count.map_or(there == 0, |count| count != there) {
            let severity = wanted.severity.as_deref().unwrap_or("");
            let about = wanted.about.as_deref().unwrap_or("");
            let message = wanted.message.as_deref().unwrap_or("");
            let line = format!("{severity} {} {about}: {message}", wanted.reason);
            let times = wanted.count.map_or_else(String::new, |count| format!(" ({count} of them)"));
            found.push(Difference::new("events", format!("{}{times}", line.trim()), shown()));
        }
    }
    for reason in &expect.no_events {
        if published.iter().any(|event| event.reason == *reason) {
            found.push(Difference::new("events", format!("no {reason}"), shown()));
        }
    }
    Ok(())
}

fn is(wanted: &ExpectedEvent, event: &Published) -> bool {
    wanted.reason == event.reason
        && wanted.severity.as_ref().is_none_or(|severity| *severity == event.severity)
        && wanted.about.as_ref().is_none_or(|about| *about == event.about)
        && wanted.message.as_ref().is_none_or(|part| event.message.contains(part))
}

/// Where an object lies that names no namespace.
fn namespace_of(object: &Value) -> &str {
    Named::of(object).namespace.unwrap_or("default")
}

/// The text stands in nothing that the host put out: no object but those given or sent by users, no Event, no line of the
/// journal or the log.
async fn text_absent(teller: &Teller<'_>, text: &str, found: &mut Vec<Difference>) -> Result<(), WorldError> {
    let inputs = teller.scenario.given.iter().chain(&teller.sent);
    let inputs: Vec<_> = inputs.filter(|object| object.to_string().contains(text)).collect();
    let is_input = |object: &Value| {
        let named =
            |object: &Value| Named { namespace: Some(namespace_of(object)), ..Named::of(object) }.to_string();
        inputs.iter().any(|input| named(input) == named(object))
    };
    for object in teller.world.dump().await? {
        let mut shown = object.clone();
        if is_input(&object) {
            // The input holds it; what the host added to it must not.
            if let Some(fields) = shown.as_object_mut() {
                fields.remove("spec");
                fields.remove("data");
                fields.remove("stringData");
            }
        }
        if shown.to_string().contains(text) {
            let at = format!("{} {}", object["kind"], object["metadata"]["name"]);
            found.push(Difference::new(at, format!("no {text:?}"), shown.to_string()));
        }
    }
    for record in &teller.world.passes {
        if story::outputs(record).contains(text) {
            found.push(Difference::new("the journal", format!("no {text:?}"), story::title(record)));
        }
    }
    let logged = teller.log.iter().flat_map(|log| log.lines_with(text));
    found.extend(logged.map(|line| Difference::new("the log", format!("no {text:?}"), line)));
    Ok(())
}

fn requeued(teller: &Teller<'_>, expected: &ExpectedRequeue, found: &mut Vec<Difference>) {
    let of_key = teller.world.passes.iter().rev().find(|record| {
        story::concludes(record)
            && story::controller(record) == expected.controller
            && story::key(record) == expected.key
    });
    let at = format!("requeue of {} {}", expected.controller, expected.key);
    let wanted = expected.after;
    let Some(record) = of_key else {
        found.push(Difference::new(at, wanted.to_string(), "no pass"));
        return;
    };
    let actual = RequeueAfter(story::requeue_after(record));
    if actual != wanted {
        let difference = Difference::new(at, wanted.to_string(), actual.to_string());
        found.push(difference.fixed_by(["requeue", "after"], actual.to_string()));
    }
}

/// How the last pass of a key failed.
fn failure(teller: &Teller<'_>, expected: &ExpectedFailure) -> Option<Difference> {
    let ExpectedFailure { controller, key, kind, message } = expected;
    let last = teller
        .world
        .passes
        .iter()
        .rev()
        .find(|record| story::controller(record) == *controller && story::key(record) == *key);
    let wanted = {
        let kind = kind.map_or_else(|| "a failure".to_owned(), |kind| word(kind).to_owned());
        message.as_ref().map_or_else(|| kind.clone(), |part| format!("{kind}: …{part}…"))
    };
    let at = format!("the last pass of {controller} {key}");
    let actual = match last.map(|record| story::failure(record)) {
        None => "no pass".to_owned(),
        Some(None) => "no failure".to_owned(),
        Some(Some(failure)) => {
            let fits = kind.is_none_or(|kind| kind == failure.kind)
                && message.as_ref().is_none_or(|part| failure.message.contains(part));
            if fits {
                return None;
            }
            format!("{}: {}", word(failure.kind), failure.message)
        }
    };
    Some(Difference::new(at, wanted, actual))
}

/// A kind of failure as scenario files call it.
fn word(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::Transient => "transient",
        FailureKind::Invalid => "invalid",
        FailureKind::Denied => "denied",
        FailureKind::Conflict => "conflict",
        FailureKind::NotFound => "not-found",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_of_failure_is_told_by_the_word_that_a_file_has_for_it() {
        for kind in [
            FailureKind::Transient,
            FailureKind::Invalid,
            FailureKind::Denied,
            FailureKind::Conflict,
            FailureKind::NotFound,
        ] {
            let read: FailureKind = serde_json::from_value(word(kind).into()).expect("a file may say so");
            assert_eq!(read, kind);
        }
    }
}
