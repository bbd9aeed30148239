//! What is logged while a test runs on its own thread: spans, and lines with the spans around them.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;

/// Everything that was logged since it was started, on the thread that started it.
pub struct Logged {
    told: Told,
    _until_dropped: DefaultGuard,
}

#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<Line>>>);

struct Line {
    is_span: bool,
    level: Level,
    text: String,
}

impl Logged {
    pub fn start() -> Self {
        let told = Told::default();
        let subscriber = tracing_subscriber::registry().with(told.clone());
        Self { told, _until_dropped: tracing::subscriber::set_default(subscriber) }
    }

    /// The spans that were opened, as in `pass plugin=demo`.
    pub fn spans(&self) -> Vec<String> {
        self.texts(|line| line.is_span)
    }

    /// The warnings, each with the spans that it was logged in, as in `pass plugin=demo: it is late`.
    pub fn warnings(&self) -> Vec<String> {
        self.texts(|line| !line.is_span && line.level == Level::WARN)
    }

    fn texts(&self, which: impl Fn(&Line) -> bool) -> Vec<String> {
        let lines = self.told.0.lock().expect("no panic holds it");
        lines.iter().filter(|line| which(line)).map(|line| line.text.clone()).collect()
    }
}

/// A span's name and fields, kept with it.
struct Shown(String);

impl<S: Subscriber + for<'s> LookupSpan<'s>> Layer<S> for Told {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let metadata = attributes.metadata();
        if !metadata.target().starts_with("evenkeel") {
            return;
        }
        let mut text = Fields(metadata.name().to_owned());
        attributes.record(&mut text);
        self.push(Line { is_span: true, level: *metadata.level(), text: text.0.clone() });
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(Shown(text.0));
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut text = String::new();
        for span in context.event_scope(event).into_iter().flat_map(|scope| scope.from_root()) {
            if let Some(Shown(shown)) = span.extensions().get() {
                let _ = write!(text, "{shown}: ");
            }
        }
        let mut fields = Fields(String::new());
        event.record(&mut fields);
        text.push_str(fields.0.trim_start());
        self.push(Line { is_span: false, level: *event.metadata().level(), text });
    }
}

impl Told {
    fn push(&self, line: Line) {
        self.0.lock().expect("no panic holds it").push(line);
    }
}

struct Fields(String);

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let _ = match field.name() {
            "message" => write!(self.0, " {value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
    }
}
