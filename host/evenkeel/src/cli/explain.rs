//! `evenkeel explain`.

mod running;

use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::Arc;

use anyhow::bail;
use evenkeel_admin::pages::Explanation;
use evenkeel_core::contract::{Action, Answer, Json, Observation, Query};
use evenkeel_core::record::{CallReply, DeedOutcome, DeedRecord, End, PassRecord, Subject};
use evenkeel_core::target::verb;
use evenkeel_engine::journal;

use super::serving::DataArgs;
use super::{Exit, values};
use crate::output::{self, Format, Paint, note, paint};

/// Of what goes to providers and comes from them so much is shown: a task's outcome whole, a VM by its name and power.
const GIST_CHARS_MAX: usize = 240;

/// Answer why something was done, why not, and what is waited for
///
/// Reads the journal of a host, running or not: every pass about the object, and every pass that wrote to it. With
/// `--host` it asks a running one for what it has in memory.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel explain KiteUser ann
  evenkeel explain KiteVirtualMachine web -n tenant-ann --last 3
  evenkeel explain Service vps-web-web -n tenant-ann --output json
  kubectl -n evenkeel-system port-forward deployment/evenkeel 8080 &
  evenkeel explain KiteUser ann --host 127.0.0.1:8080")]
pub struct ExplainArgs {
    /// The kind, as in `KiteUser`; upper and lower case do not matter.
    kind: String,
    /// The object's name.
    name: String,
    /// The object's namespace; any where absent.
    #[arg(long, short, value_parser = values::namespace)]
    namespace: Option<String>,
    /// Ask the host that serves metrics or probes there, on loopback; `kubectl port-forward` leads to one in a cluster.
    #[arg(long, value_name = "ADDRESS")]
    host: Option<String>,
    /// Show only so many of the latest passes.
    #[arg(long, value_name = "N", default_value = "10", value_parser = values::at_least_one)]
    last: usize,
    /// The form.
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
    #[command(flatten)]
    data: DataArgs,
}

pub fn run(args: ExplainArgs) -> anyhow::Result<Exit> {
    let subject =
        Subject { kind: args.kind.clone(), namespace: args.namespace.clone(), name: args.name.clone() };
    let Explanation { records, of } = match &args.host {
        Some(address) => running::ask(address, &subject, args.last)?,
        None => from_files(&args.data, &subject, args.last)?,
    };
    if records.is_empty() {
        if args.output == Format::Json {
            output::json(&records)?;
        }
        note!("No pass about {} {} is in the journal.", args.kind, args.name);
        return Ok(Exit::Found);
    }
    match args.output {
        Format::Json => output::json(&records)?,
        Format::Text => output::print(format_args!("{}", text(&records, of, output::colour_stdout())))?,
    }
    Ok(Exit::Fine)
}

/// What a journal on disk holds, whether or not its host runs.
fn from_files(data: &DataArgs, subject: &Subject, last: usize) -> anyhow::Result<Explanation> {
    let folder = data.data_dir.join("journal");
    if !folder.is_dir() {
        bail!(
            "there is no journal in {}: name the data directory of the host with --data-dir, or a running host with --host",
            folder.display()
        );
    }
    let (mut records, mut of) = (VecDeque::new(), 0);
    let skipped = journal::read(&folder, |record| {
        if subject.concerns(&record) {
            of += 1;
            records.push_back(Arc::new(record));
            if records.len() > last {
                records.pop_front();
            }
        }
    })?;
    if skipped.lines > 0 {
        note!("({} lines of the journal are no records: a host was cut off while it wrote)", skipped.lines);
    }
    Ok(Explanation { records: records.into(), of })
}

fn text(records: &[Arc<PassRecord>], of: usize, colour: bool) -> String {
    let mut text = String::new();
    if records.len() < of {
        let _ = writeln!(text, "The latest {} of {of} passes; --last shows more.\n", records.len());
    }
    for record in records {
        pass(&mut text, record, colour);
        text.push('\n');
    }
    if let Some(last) = records.last() {
        let _ = writeln!(text, "{}", now(last));
    }
    text
}

/// One pass: why it ran, what it saw, what it did, how it ended.
fn pass(text: &mut String, record: &PassRecord, colour: bool) {
    let head = format!("{}  {} of {}", record.time, record.controller, record.key);
    let _ = writeln!(text, "{}", paint(&head, Paint::Bold, colour));
    let _ = writeln!(text, "  ran because {}", record.trigger);
    let _ = writeln!(text, "  by {} {} ({})", record.plugin, record.version, record.digest);
    if let Some(request) = &record.request {
        for observation in &request.observations {
            let _ = writeln!(text, "  saw {}", seen(observation));
        }
    }
    for call in &record.calls {
        match &call.reply {
            CallReply::Asked { answers, .. } => {
                for observation in answers {
                    let _ = writeln!(text, "  asked and saw {}", seen(observation));
                }
            }
            CallReply::Failed { failure } => {
                let _ = writeln!(text, "  the plugin reported: {}", failure.message);
            }
            CallReply::Died { error } => {
                let _ = writeln!(text, "  {error}");
            }
            CallReply::Performed { .. } | CallReply::Concluded { .. } => {}
        }
        for line in &call.log {
            let _ = writeln!(text, "  it said: {}", line.message);
        }
    }
    for one in &record.deeds {
        let _ = writeln!(text, "  {}", deed(one, colour));
    }
    let _ = writeln!(text, "  {}", end(record));
}

fn deed(deed: &DeedRecord, colour: bool) -> String {
    let about = deed.object.as_ref().map_or_else(String::new, ToString::to_string);
    let what = match &deed.action {
        Action::Publish(event) => format!("event {} about {about}: {}", event.reason, event.message),
        Action::External(operation) => {
            let told = gist(&operation.arguments);
            format!("{} by {} {told} (key {})", operation.operation, operation.provider, operation.key)
        }
        action => format!("{} {about}", verb(action)),
    };
    let said = deed.said.as_ref().map(|said| format!(": {}", gist(said))).unwrap_or_default();
    let why = if deed.repair { " (repaired drift, without a call of the plugin)" } else { "" };
    match &deed.outcome {
        DeedOutcome::Done => paint(&format!("did {what}{said}{why}"), Paint::Good, colour),
        DeedOutcome::Skipped { reason } => {
            let reason = match reason {
                evenkeel_core::admit::SkipReason::AlreadySo => "it is so already",
                evenkeel_core::admit::SkipReason::AlreadyGone => "it is gone already",
                evenkeel_core::admit::SkipReason::BeingDeleted => "it is being deleted already",
                evenkeel_core::admit::SkipReason::TooManyEvents => "there were too many events about it",
            };
            paint(&format!("left out {what}: {reason}"), Paint::Dim, colour)
        }
        DeedOutcome::Failed { failure } => {
            paint(&format!("failed to {what}: {}", failure.message), Paint::Bad, colour)
        }
    }
}

fn seen(observation: &Observation) -> String {
    let question = match &observation.query {
        Query::Get(get) => get.object.to_string(),
        Query::List(list) => {
            let mut question = format!("the list of {}", list.gvk);
            if let Some(namespace) = &list.namespace {
                let _ = write!(question, " in {namespace}");
            }
            if !list.labels.is_empty() {
                let _ = write!(question, " with {}", list.labels);
            }
            for field in &list.fields {
                let _ = write!(question, " where {} is {}", field.pointer, field.value);
            }
            question
        }
        Query::Clock => "the time".to_owned(),
        Query::External(query) => {
            format!("{} of {} {}", query.question, query.provider, gist(&query.arguments))
        }
    };
    let answer = match &observation.answer {
        Answer::Object(Some(object)) => match generation(object) {
            Some(generation) => format!("there, generation {generation}"),
            None => "there".to_owned(),
        },
        Answer::Object(None) => "not there".to_owned(),
        Answer::Objects(objects) => format!("{} objects", objects.len()),
        Answer::Unserved => "not served by the API server".to_owned(),
        Answer::Time(time) => time.clone(),
        Answer::External(Ok(answer)) => gist(answer),
        Answer::External(Err(failure)) => failure.message.clone(),
    };
    format!("{question}: {answer}")
}

/// The beginning of what was said to a provider or by it; `--output json` has all of it.
fn gist(json: &Json) -> String {
    match json.char_indices().nth(GIST_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &json[..end]),
        None => json.to_string(),
    }
}

fn generation(object: &Json) -> Option<i64> {
    let object: serde_json::Value = serde_json::from_str(object).ok()?;
    object.pointer("/metadata/generation")?.as_i64()
}

fn end(record: &PassRecord) -> String {
    let took = format!("{} µs, {} calls", record.micros, record.calls.len());
    match &record.end {
        End::Concluded { .. } => format!("done in {took}"),
        End::Stands => {
            format!("nothing that it rests on has changed: what was concluded before stands ({took})")
        }
        End::Failed { failure, count, retry } => {
            format!("failed, {count} in a row: {} ({took}); {retry}", failure.message)
        }
        End::Stale => "what it rests on changed under it: it runs again at once".to_owned(),
        End::Waiting { gvk } => format!("waits for the list of {gvk}"),
        End::Slowed { millis } => format!("woke too often and is held back for {} s", millis.div_ceil(1000)),
        End::Paused => format!("is paused by the annotation {}", evenkeel_engine::PAUSED),
    }
}

/// What is waited for now, as far as the last pass tells.
fn now(record: &PassRecord) -> String {
    let runs = "It runs again when anything that it saw changes";
    match &record.end {
        End::Concluded { requeue_after: Some(millis) } => {
            format!("Now: {runs}, or {} s after that pass.", millis.div_ceil(1000))
        }
        End::Concluded { requeue_after: None } | End::Stands => format!("Now: it waits. {runs}."),
        End::Failed { retry, .. } => format!("Now: {retry}."),
        End::Stale => "Now: it runs again at once.".to_owned(),
        End::Waiting { gvk } => {
            format!("Now: it waits for the list of {gvk}; is the kind served, may the host list it?")
        }
        End::Slowed { .. } => "Now: it is held back; something keeps changing what it rests on.".to_owned(),
        End::Paused => {
            format!("Now: it is paused; remove the annotation {} to go on.", evenkeel_engine::PAUSED)
        }
    }
}
