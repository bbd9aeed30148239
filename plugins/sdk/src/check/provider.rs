//! Providers that answer by a script: what a test says that the world is like.

use serde_json::Value;

use crate::{Action, ExternalQuery, Failure, FailureKind};

/// What providers answer and what comes of their operations.
#[derive(Default)]
pub(super) struct Script {
    answers: Vec<Answered>,
    outcomes: Vec<Outcome>,
}

struct Answered {
    provider: String,
    question: String,
    arguments: Value,
    answer: String,
}

struct Outcome {
    provider: String,
    operation: String,
    outcome: String,
}

impl Script {
    pub(super) fn answer(&mut self, provider: &str, question: &str, arguments: &str, answer: &str) {
        self.answers.push(Answered {
            provider: provider.to_owned(),
            question: question.to_owned(),
            arguments: yaml(arguments),
            answer: yaml(answer).to_string(),
        });
    }

    pub(super) fn perform(&mut self, provider: &str, operation: &str, outcome: &str) {
        self.outcomes.push(Outcome {
            provider: provider.to_owned(),
            operation: operation.to_owned(),
            outcome: yaml(outcome).to_string(),
        });
    }

    pub(super) fn perform_by_default(&mut self, provider: &str, operation: &str, outcome: &str) {
        self.perform(provider, operation, outcome);
        // The later word counts, and this is the least of them.
        self.outcomes.rotate_right(1);
    }

    /// The answer to a question.
    pub(super) fn answer_to(&self, query: &ExternalQuery) -> Result<String, Failure> {
        let ExternalQuery { provider, question, arguments } = query;
        let arguments: Value = serde_json::from_str(arguments).expect("a plugin's arguments are JSON");
        let found = self.answers.iter().rev().find(|known| {
            known.provider == *provider && known.question == *question && holds(&known.arguments, &arguments)
        });
        found.map(|known| known.answer.clone()).ok_or_else(|| {
            let message = format!("no answer of {provider} is told for {question} {arguments}");
            Failure { kind: FailureKind::NotFound, message, retry_after: None }
        })
    }

    /// What comes of an action; one that is no provider's is done.
    pub(super) fn outcome(&self, action: &Action) -> Result<Option<String>, Failure> {
        let Action::External(wanted) = action else { return Ok(None) };
        let found = self
            .outcomes
            .iter()
            .rev()
            .find(|known| known.provider == wanted.provider && known.operation == wanted.operation);
        let found = found.unwrap_or_else(|| {
            panic!("the check was not told what comes of {} of {}", wanted.operation, wanted.provider)
        });
        Ok(Some(found.outcome.clone()))
    }
}

fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).expect("what a provider says in a check is YAML")
}

/// Whether everything in `part` is in `whole` too.
fn holds(part: &Value, whole: &Value) -> bool {
    match (part, whole) {
        (Value::Object(part), Value::Object(whole)) => {
            part.iter().all(|(key, value)| whole.get(key).is_some_and(|there| holds(value, there)))
        }
        _ => part == whole,
    }
}
