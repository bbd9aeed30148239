//! Strikes secrets out of records: the keys stay, the values go.
//!
//! The data of Secrets goes whole. Elsewhere a text goes whose key says that it is a secret, as in `spec.sshPassword`:
//! custom resources hold such things too. So do files and variables that stand in an object: the `content` beside a `path`, and
//! what is in a map `envVars`.

use serde_json::Value;

use super::{CallReply, PassRecord};
use crate::contract::{Action, Answer, FailedPass, Gvk, Json, Observation, Query, Request};

/// What stands in the place of a value.
pub const STRUCK: &str = "(struck out)";

/// The member of a question's or an operation's arguments that nobody but its provider may see.
const SENSITIVE: &str = "sensitive";

/// How keys end, in small letters, of which the text is a secret.
const SECRET_KEYS: [&str; 8] =
    ["password", "passwd", "passphrase", "passwordhash", "token", "secretkey", "privatekey", "apikey"];

/// Everything in a record.
pub(super) fn record(record: &mut PassRecord) {
    if let Some(given) = &mut record.request {
        request(given);
    }
    for call in &mut record.calls {
        if let CallReply::Asked { queries, answers } = &mut call.reply {
            queries.iter_mut().for_each(query);
            answers.iter_mut().for_each(observation);
        }
    }
    for deed in &mut record.deeds {
        action(&mut deed.action);
        if let Some(said) = &mut deed.said {
            object_text(said);
        }
    }
}

fn request(request: &mut Request) {
    object_text(&mut request.config);
    for object in [&mut request.primary, &mut request.last_seen].into_iter().flatten() {
        object_text(object);
    }
    request.observations.iter_mut().for_each(observation);
    for performed in &mut request.performed {
        action(&mut performed.action);
        if let Ok(Some(object)) = &mut performed.outcome {
            object_text(object);
        }
    }
    if let Some(FailedPass { action: Some(failed), .. }) = &mut request.last_failure {
        action(failed);
    }
}

/// Whether there is anything in what a plugin is given that the journal would strike out.
pub(super) fn shows_secrets(given: &Request) -> bool {
    let mut struck = given.clone();
    request(&mut struck);
    struck != *given
}

fn query(query: &mut Query) {
    match query {
        Query::External(external) => strike_sensitive(&mut external.arguments),
        Query::Get(_) | Query::List(_) | Query::Clock => {}
    }
}

fn observation(observation: &mut Observation) {
    query(&mut observation.query);
    match &mut observation.answer {
        Answer::Object(Some(object)) => object_text(object),
        Answer::Objects(objects) => objects.iter_mut().for_each(object_text),
        Answer::External(Ok(answer)) => object_text(answer),
        Answer::Object(None) | Answer::Unserved | Answer::Time(_) | Answer::External(Err(_)) => {}
    }
}

fn action(action: &mut Action) {
    match action {
        Action::Create(apply) | Action::Apply(apply) | Action::ApplyStatus(apply) => {
            object_text(&mut apply.object)
        }
        Action::Patch(patch) if is_secret(&patch.object.gvk) => strike(&mut patch.merge),
        Action::Patch(patch) => object_text(&mut patch.merge),
        Action::External(operation) => {
            strike_sensitive(&mut operation.arguments);
            object_text(&mut operation.arguments);
        }
        Action::Delete(_)
        | Action::AddFinalizer(_)
        | Action::RemoveFinalizer(_)
        | Action::Publish(_)
        | Action::Enqueue(_) => {}
    }
}

/// What a question or an operation says itself to be sensitive, names included.
fn strike_sensitive(arguments: &mut Json) {
    if !arguments.contains(SENSITIVE) {
        return;
    }
    let Ok(Value::Object(mut members)) = serde_json::from_str::<Value>(arguments) else { return };
    if let Some(sensitive) = members.get_mut(SENSITIVE) {
        *sensitive = Value::String(STRUCK.to_owned());
        *arguments = Value::Object(members).to_string().into();
    }
}

fn is_secret(gvk: &Gvk) -> bool {
    gvk.group.is_empty() && &*gvk.kind == "Secret"
}

/// Any JSON text. Most hold nothing of the kind and are not parsed: words are looked for first.
fn object_text(text: &mut Json) {
    if !may_hold_secrets(text) {
        return;
    }
    let Ok(mut object) = serde_json::from_str::<Value>(text) else {
        // What cannot be read cannot be told apart either.
        *text = STRUCK.into();
        return;
    };
    let named = |key: &str, name: &str| object.get(key).and_then(Value::as_str) == Some(name);
    if named("kind", "Secret") && named("apiVersion", "v1") {
        return strike(text);
    }
    if strike_by_key(&mut object) {
        *text = object.to_string().into();
    }
}

/// Whether a word occurs, in whatever case, that a Secret or a secret's key has in it. This reads every byte that goes
/// into the journal, so most of them are passed over by their first letter.
fn may_hold_secrets(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.iter().enumerate().any(|(at, byte)| {
        let words: &[&[u8]] = match byte.to_ascii_lowercase() {
            b's' => &[b"secret"],
            b'p' => &[b"passw", b"passphrase", b"privatekey"],
            b't' => &[b"token"],
            b'a' => &[b"apikey"],
            // The ends of the keys `content` and `envVars`.
            b'c' => &[b"content\""],
            b'v' => &[b"vars\""],
            _ => return false,
        };
        let here = |word: &&[u8]| {
            bytes.get(at..at + word.len()).is_some_and(|found| found.eq_ignore_ascii_case(word))
        };
        words.iter().any(here)
    })
}

/// Strikes texts out by their keys, at any depth; tells whether there were any.
fn strike_by_key(value: &mut Value) -> bool {
    match value {
        Value::Object(fields) => {
            let is_file = fields.get("path").is_some_and(Value::is_string);
            fields.iter_mut().fold(false, |struck, (key, value)| {
                let small = key.to_ascii_lowercase();
                let secret = SECRET_KEYS.iter().any(|end| small.ends_with(end));
                let here = match value {
                    Value::String(_) if secret || (is_file && key == "content") => strike_text(value),
                    Value::Object(variables) if key == "envVars" => {
                        variables.values_mut().fold(false, |struck, value| struck | strike_text(value))
                    }
                    other => strike_by_key(other),
                };
                struck | here
            })
        }
        Value::Array(items) => items.iter_mut().fold(false, |struck, item| struck | strike_by_key(item)),
        _ => false,
    }
}

/// Strikes a text out, if it is one with something in it; tells whether it is.
fn strike_text(value: &mut Value) -> bool {
    let is_text = value.as_str().is_some_and(|text| !text.is_empty());
    if is_text {
        *value = STRUCK.into();
    }
    is_text
}

fn strike(text: &mut Json) {
    let Ok(mut object) = serde_json::from_str::<Value>(text) else {
        // What cannot be read cannot be told apart either.
        *text = STRUCK.into();
        return;
    };
    for field in ["data", "stringData"] {
        match object.get_mut(field) {
            Some(Value::Object(values)) => values.values_mut().for_each(|value| *value = STRUCK.into()),
            Some(other) if !other.is_null() => *other = STRUCK.into(),
            _ => {}
        }
    }
    *text = object.to_string().into();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{Apply, ExternalQuery, ObjectRef, Operation, Patch};
    use crate::record::{CallRecord, DeedOutcome, DeedRecord, End, Trigger};

    const MARKER: &str = "bWFya2Vy";

    fn secret() -> Json {
        format!(
            r#"{{"apiVersion":"v1","kind":"Secret","metadata":{{"name":"a"}},"data":{{"key":"{MARKER}"}}}}"#
        )
        .into()
    }

    fn reference() -> ObjectRef {
        ObjectRef::new(Gvk::new("", "v1", "Secret"), Some("ns"), "a")
    }

    fn deed(action: Action) -> DeedRecord {
        DeedRecord {
            action,
            object: Some(reference()),
            outcome: DeedOutcome::Done,
            said: Some(format!(r#"{{"result":"done","vm":{{"adminPassword":"{MARKER}"}}}}"#).into()),
            repair: false,
        }
    }

    #[test]
    fn a_secrets_data_stands_nowhere_in_a_record() {
        let get =
            crate::contract::Query::Get(crate::contract::GetQuery { object: reference(), view: vec![] });
        let seen = |answer| Observation { query: get.clone(), answer };
        let patch =
            Patch { object: reference(), merge: format!(r#"{{"data":{{"key":"{MARKER}"}}}}"#).into() };
        let sensitive = || Json::from(format!(r#"{{"vm":"vm-1","sensitive":{{"key":"{MARKER}"}}}}"#));
        let ask = Query::External(ExternalQuery {
            provider: "p".into(),
            question: "q".into(),
            arguments: sensitive(),
        });
        let asked = Observation { query: ask.clone(), answer: Answer::External(Ok("{}".into())) };
        let mut record = PassRecord {
            time: String::new(),
            plugin: String::new(),
            version: String::new(),
            digest: String::new(),
            controller: String::new(),
            key: reference(),
            trigger: Trigger::Loaded,
            request: Some(crate::contract::Request {
                controller: String::new(),
                key: reference(),
                primary: Some(secret()),
                last_seen: Some(secret()),
                observations: vec![
                    seen(Answer::Object(Some(secret()))),
                    seen(Answer::Objects(vec![secret()])),
                ],
                performed: vec![],
                last_failure: None,
                config: "{}".into(),
            }),
            calls: vec![CallRecord {
                reply: CallReply::Asked { queries: vec![ask.clone()], answers: vec![asked] },
                log: vec![],
                micros: 0,
                memory: 0,
            }],
            deeds: vec![
                deed(Action::Apply(Apply { object: secret(), force: false, controlled: false })),
                deed(Action::Patch(patch)),
                deed(Action::External(Operation {
                    key: "k".into(),
                    provider: "p".into(),
                    operation: "o".into(),
                    arguments: sensitive(),
                })),
            ],
            end: End::Stands,
            micros: 0,
        };
        assert!(shows_secrets(record.request.as_ref().expect("a request")));
        record.redact();
        assert!(!shows_secrets(record.request.as_ref().expect("a request")), "they were struck out");
        let text = serde_json::to_string(&record).expect("a record serializes");
        assert!(!text.contains(MARKER), "{text}");
        assert!(text.contains("\\\"key\\\""), "the names of the keys stay: {text}");
    }

    #[test]
    fn a_text_goes_whose_key_says_that_it_is_a_secret() {
        for (given, left) in [
            (r#"{"spec":{"sshPassword":"x"}}"#, r#"{"spec":{"sshPassword":"(struck out)"}}"#),
            (r#"{"users":[{"PASSWD":"x"}]}"#, r#"{"users":[{"PASSWD":"(struck out)"}]}"#),
            (r#"{"apiKey":"x"}"#, r#"{"apiKey":"(struck out)"}"#),
            (r#"{"token":"x"}"#, r#"{"token":"(struck out)"}"#),
            (r#"{"password":""}"#, r#"{"password":""}"#),
            (r#"{"guestSSHPasswordAuth": "true"}"#, r#"{"guestSSHPasswordAuth": "true"}"#),
            (r#"{"automountServiceAccountToken": true}"#, r#"{"automountServiceAccountToken": true}"#),
            (r#"{"secretName": "x"}"#, r#"{"secretName": "x"}"#),
            (
                r#"{"inline":[{"path":"/etc/a","content":"x","mode":420}]}"#,
                r#"{"inline":[{"content":"(struck out)","mode":420,"path":"/etc/a"}]}"#,
            ),
            (r#"{"envVars":{"A":"x","B":""}}"#, r#"{"envVars":{"A":"(struck out)","B":""}}"#),
            (r#"{"status":{"content": "x"}}"#, r#"{"status":{"content": "x"}}"#),
        ] {
            let mut text: Json = given.into();
            object_text(&mut text);
            assert_eq!(&*text, left);
        }
    }

    #[test]
    fn what_cannot_be_read_and_may_hold_a_secret_goes_whole() {
        for broken in [
            format!(r#"{{"apiVersion":"v1","kind":"Secret","data":{{"key":"{MARKER}"}}"#),
            format!(r#"{{"apiVersion":"v1","kind":"Secret","data":{{"key":"{MARKER}"}}}} and more"#),
            format!(r#"{{"spec":{{"password":{MARKER}}}}}"#),
        ] {
            let mut text: Json = broken.into();
            object_text(&mut text);
            assert_eq!(&*text, STRUCK);
        }
    }

    #[test]
    fn other_objects_stay_as_they_are() {
        let mut object: Json = r#"{"apiVersion":"v1","kind":"ConfigMap","data":{"about":"Secret"}}"#.into();
        object_text(&mut object);
        assert!(object.contains("Secret") && !object.contains(STRUCK));
    }
}
