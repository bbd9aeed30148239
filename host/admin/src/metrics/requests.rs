//! What is counted of each request to the API server.

use evenkeel_cluster::RequestReport;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::catalogue as names;
use super::labels::{RequestLabels, RequestVerbLabels, VerbLabels};
use super::{buckets, register};

/// The client's metrics.
pub(super) struct RequestMetrics {
    host: String,
    requests: Family<RequestLabels, Counter>,
    seconds: Family<RequestVerbLabels, Histogram, fn() -> Histogram>,
    by_verb: Family<VerbLabels, Counter>,
}

impl RequestMetrics {
    pub(super) fn register(registry: &mut Registry, host: &str) -> Self {
        let seconds = Family::new_with_constructor(buckets::requests as fn() -> Histogram);
        Self {
            host: host.to_owned(),
            requests: register(registry, &names::REST_REQUESTS, Family::default()),
            seconds: register(registry, &names::REST_SECONDS, seconds),
            by_verb: register(registry, &names::API_REQUESTS, Family::default()),
        }
    }

    /// Counts a request.
    pub(super) fn ended(&self, report: &RequestReport) {
        let RequestReport { verb, code, elapsed } = *report;
        let (method, code, host) = (method(verb), code_label(code), self.host.clone());
        // client-go calls the method a verb here.
        let timed = RequestVerbLabels { verb: method, host: host.clone() };
        self.seconds.get_or_create(&timed).observe(elapsed.as_secs_f64());
        self.by_verb.get_or_create(&VerbLabels { verb, code: code.clone() }).inc();
        self.requests.get_or_create(&RequestLabels { code, method, host }).inc();
    }
}

/// The code as client-go has it. What no server should say is one value, so that none can make more than there are.
fn code_label(code: Option<u16>) -> String {
    match code {
        None => "<error>".into(),
        Some(code @ 100..600) => code.to_string(),
        Some(_) => "other".into(),
    }
}

fn method(verb: &str) -> &'static str {
    match verb {
        "create" | "review" => "POST",
        "apply" | "patch" => "PATCH",
        "update" => "PUT",
        "delete" => "DELETE",
        _ => "GET",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_one_of_few_words() {
        let words = [None, Some(200), Some(429), Some(999), Some(0)].map(code_label);
        assert_eq!(words, ["<error>", "200", "429", "other", "other"]);
    }
}
