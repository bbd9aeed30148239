//! Shows each decision as it is made.

use std::io::Write;
use std::sync::Arc;

use evenkeel_core::contract::Action;
use evenkeel_core::record::{DeedOutcome, DeedRecord, End};
use evenkeel_core::target::verb;
use evenkeel_engine::PassRecord;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use crate::output::{Paint, note, paint};

/// Prints what was done and what failed, until the host is gone.
pub async fn follow(mut passes: Receiver<Arc<PassRecord>>, colour: bool) {
    loop {
        match passes.recv().await {
            Ok(pass) => show(&pass, colour),
            Err(RecvError::Lagged(missed)) => note!("  ({missed} passes were too quick to show)"),
            Err(RecvError::Closed) => return,
        }
    }
}

fn show(pass: &PassRecord, colour: bool) {
    let mut out = std::io::stdout().lock();
    for deed in pass.deeds.iter().filter(|deed| !matches!(deed.outcome, DeedOutcome::Skipped { .. })) {
        let (mark, tail) = match &deed.outcome {
            DeedOutcome::Failed { failure } => (Paint::Bad, format!(": {}", failure.message)),
            DeedOutcome::Done | DeedOutcome::Skipped { .. } => (Paint::Good, String::new()),
        };
        let who = paint(&format!("{:<16}", pass.controller), Paint::Dim, colour);
        // Whoever reads us may be gone.
        let _ = writeln!(out, "  {who} {}{tail}", paint(&line(deed), mark, colour));
    }
    if let End::Failed { failure, retry, .. } = &pass.end
        && !pass.deeds.iter().any(|deed| matches!(deed.outcome, DeedOutcome::Failed { .. }))
    {
        let text = format!("{}: {} ({retry})", pass.key, failure.message);
        let _ = writeln!(out, "  {:<16} {}", pass.controller, paint(&text, Paint::Bad, colour));
    }
}

fn line(deed: &DeedRecord) -> String {
    let about = deed.object.as_ref().map_or_else(String::new, ToString::to_string);
    match &deed.action {
        Action::Publish(event) => format!("event {} about {about}: {}", event.reason, event.message),
        Action::External(deed) => format!("{} by {}", deed.operation, deed.provider),
        action => format!("{} {about}", verb(action)),
    }
}
