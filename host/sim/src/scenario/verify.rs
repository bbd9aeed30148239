//! Looks whether the world is as a scenario expects.

use serde_json::Value;

use super::expect::{Difference, in_order, lines, subset};
use super::file::{Expect, ExpectedEvent, ExpectedRequeue, FieldsAbsent, ObjectName, RequeueAfter};
use super::run::Teller;
use super::story;
use super::world::WorldError;

/// Everything that is otherwise than expected.
pub(super) async fn verify(teller: &mut Teller<'_>, expect: &Expect) -> Result<Vec<Difference>, WorldError> {
    let mut found = Vec::new();
    writes(teller, expect, &mut found);
    if expect.quiet {
        quiet(teller, expect, &mut found).await?;
    }
    for object in &expect.objects {
        present(teller, object, &mut found)?;
    }
    for object in &expect.absent {
        absent(teller, object, &mut found)?;
    }
    for fields in &expect.fields_absent {
        fields_absent(teller, fields, &mut found)?;
    }
    events(teller, expect, &mut found);
    for text in &expect.text_absent {
        text_absent(teller, text, &mut found);
    }
    if let Some(requeue) = &expect.requeue {
        requeued(teller, requeue, &mut found);
    }
    Ok(found)
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
    if let Some(calls) = expect.calls {
        let made: u64 = since.iter().map(|record| story::calls(record)).sum();
        if made != calls {
            found.push(Difference::new("calls of the plugin", calls.to_string(), made.to_string()));
        }
    }
    if let Some(expected) = &expect.writes {
        found.extend(lines("writes", expected, &actual));
    }
    if let Some(expected) = &expect.writes_include
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

fn present(teller: &Teller<'_>, expected: &Value, found: &mut Vec<Difference>) -> Result<(), WorldError> {
    let text = |pointer: &str| expected.pointer(pointer).and_then(Value::as_str);
    let kind = teller.kind(text("/apiVersion"), text("/kind").unwrap_or_default())?;
    let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name").unwrap_or_default());
    let actual = teller.world.object(kind, namespace, name);
    let at = label(&kind.gvk.kind, namespace, name);
    let mut wanted = expected.clone();
    if let Some(fields) = wanted.as_object_mut() {
        fields.entry("apiVersion").or_insert_with(|| kind.gvk.api_version().into());
        let exact = fields.remove("exact").is_some_and(|exact| exact == Value::Bool(true));
        if exact {
            if actual.as_ref() != Some(&wanted) {
                let show =
                    |value: Option<&Value>| value.map_or("nothing".into(), |value| format!("{value:#}"));
                found.push(Difference::new(at, show(Some(&wanted)), show(actual.as_ref())));
            }
            return Ok(());
        }
    }
    subset(&at, &wanted, actual.as_ref(), found);
    Ok(())
}

fn absent(teller: &Teller<'_>, object: &ObjectName, found: &mut Vec<Difference>) -> Result<(), WorldError> {
    let kind = teller.kind(object.api_version.as_deref(), &object.kind)?;
    if let Some(there) = teller.world.object(kind, object.namespace.as_deref(), &object.name) {
        let at = label(&object.kind, object.namespace.as_deref(), &object.name);
        let deleting = there.pointer("/metadata/deletionTimestamp").is_some();
        found.push(Difference::new(at, "nothing", if deleting { "there, being deleted" } else { "there" }));
    }
    Ok(())
}

fn fields_absent(
    teller: &Teller<'_>,
    fields: &FieldsAbsent,
    found: &mut Vec<Difference>,
) -> Result<(), WorldError> {
    let kind = teller.kind(fields.api_version.as_deref(), &fields.kind)?;
    let at = label(&fields.kind, fields.namespace.as_deref(), &fields.name);
    let Some(object) = teller.world.object(kind, fields.namespace.as_deref(), &fields.name) else {
        found.push(Difference::new(at, "an object without some fields", "no object"));
        return Ok(());
    };
    for pointer in &fields.pointers {
        if let Some(value) = object.pointer(pointer) {
            found.push(Difference::new(format!("{at}{pointer}"), "nothing", value.to_string()));
        }
    }
    Ok(())
}

/// An Event that the API server has.
struct Published {
    reason: String,
    severity: String,
    about: String,
    message: String,
}

fn published(teller: &Teller<'_>) -> Vec<Published> {
    let dump = teller.world.sandbox.dump();
    let events = dump.iter().filter(|object| object["kind"] == "Event");
    events
        .map(|event| {
            let text =
                |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
            let namespace = text("/involvedObject/namespace");
            Published {
                reason: text("/reason"),
                severity: text("/type"),
                about: label(
                    &text("/involvedObject/kind"),
                    Some(namespace.as_str()).filter(|namespace| !namespace.is_empty()),
                    &text("/involvedObject/name"),
                ),
                message: text("/message"),
            }
        })
        .collect()
}

fn events(teller: &Teller<'_>, expect: &Expect, found: &mut Vec<Difference>) {
    if expect.events.is_empty() && expect.no_events.is_empty() {
        return;
    }
    let published = published(teller);
    let shown = || {
        let lines =
            published.iter().map(|e| format!("{} {} {}: {}", e.severity, e.reason, e.about, e.message));
        lines.collect::<Vec<_>>().join("\n")
    };
    for wanted in &expect.events {
        if !published.iter().any(|event| is(wanted, event)) {
            let severity = wanted.severity.as_deref().unwrap_or("");
            let about = wanted.about.as_deref().unwrap_or("");
            let message = wanted.message.as_deref().unwrap_or("");
            let line = format!("{severity} {} {about}: {message}", wanted.reason);
            found.push(Difference::new("events", line.trim(), shown()));
        }
    }
    for reason in &expect.no_events {
        if published.iter().any(|event| event.reason == *reason) {
            found.push(Difference::new("events", format!("no {reason}"), shown()));
        }
    }
}

fn is(wanted: &ExpectedEvent, event: &Published) -> bool {
    wanted.reason == event.reason
        && wanted.severity.as_ref().is_none_or(|severity| *severity == event.severity)
        && wanted.about.as_ref().is_none_or(|about| *about == event.about)
        && wanted.message.as_ref().is_none_or(|part| event.message.contains(part))
}

/// The text stands in nothing that the host put out: no object but the given ones, no Event, no journal line.
fn text_absent(teller: &Teller<'_>, text: &str, found: &mut Vec<Difference>) {
    let inputs: Vec<_> = teller.given.iter().filter(|object| object.to_string().contains(text)).collect();
    let is_input = |object: &Value| {
        inputs.iter().any(|input| {
            ["/kind", "/metadata/namespace", "/metadata/name"]
                .iter()
                .all(|p| input.pointer(p) == object.pointer(p))
        })
    };
    for object in teller.world.sandbox.dump() {
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
}

fn requeued(teller: &Teller<'_>, expected: &ExpectedRequeue, found: &mut Vec<Difference>) {
    let of_key = teller.world.passes.iter().rev().find(|record| {
        story::concludes(record)
            && story::controller(record) == expected.controller
            && story::key(record) == expected.key
    });
    let at = format!("requeue of {} {}", expected.controller, expected.key);
    let show = |after: Option<super::duration::HumanDuration>| {
        after.map_or("none".into(), |after| after.to_string())
    };
    let RequeueAfter(wanted) = expected.after;
    match of_key {
        None => found.push(Difference::new(at, show(wanted), "no pass")),
        Some(record) => {
            let actual = story::requeue_after(record);
            if actual != wanted {
                found.push(Difference::new(at, show(wanted), show(actual)));
            }
        }
    }
}

/// `Kind name`, or `Kind namespace/name`.
fn label(kind: &str, namespace: Option<&str>, name: &str) -> String {
    match namespace {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    }
}
