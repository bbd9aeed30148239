//! Strikes the data of Secrets out of records: the keys stay, the values go.

use serde_json::Value;

use super::{CallReply, PassRecord};
use crate::contract::{Action, Answer, FailedPass, Gvk, Json, Observation};

/// What stands in the place of a value.
const STRUCK: &str = "(struck out)";

/// Everything in a record.
pub(super) fn record(record: &mut PassRecord) {
    if let Some(request) = &mut record.request {
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
    for call in &mut record.calls {
        if let CallReply::Asked { answers, .. } = &mut call.reply {
            answers.iter_mut().for_each(observation);
        }
    }
    for deed in &mut record.deeds {
        action(&mut deed.action);
    }
}

fn observation(observation: &mut Observation) {
    match &mut observation.answer {
        Answer::Object(Some(object)) => object_text(object),
        Answer::Objects(objects) => objects.iter_mut().for_each(object_text),
        Answer::Object(None) | Answer::Unserved | Answer::Time(_) | Answer::External(_) => {}
    }
}

fn action(action: &mut Action) {
    match action {
        Action::Create(apply) | Action::Apply(apply) | Action::ApplyStatus(apply) => {
            object_text(&mut apply.object)
        }
        Action::Patch(patch) if is_secret(&patch.object.gvk) => strike(&mut patch.merge),
        Action::Patch(_)
        | Action::Delete(_)
        | Action::AddFinalizer(_)
        | Action::RemoveFinalizer(_)
        | Action::Publish(_)
        | Action::Enqueue(_)
        | Action::External(_) => {}
    }
}

fn is_secret(gvk: &Gvk) -> bool {
    gvk.group.is_empty() && &*gvk.kind == "Secret"
}

/// An object's text, if it is a Secret's. Others are not parsed: the word alone is looked for first.
fn object_text(text: &mut Json) {
    if !text.contains("Secret") {
        return;
    }
    let Ok(object) = serde_json::from_str::<Value>(text) else { return };
    if object.get("kind").and_then(Value::as_str) == Some("Secret")
        && object.get("apiVersion").and_then(Value::as_str) == Some("v1")
    {
        strike(text);
    }
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
    use crate::contract::{Apply, ObjectRef, Patch};
    use crate::record::{DeedOutcome, DeedRecord, End, Trigger};

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
        DeedRecord { action, object: Some(reference()), outcome: DeedOutcome::Done, repair: false }
    }

    #[test]
    fn a_secrets_data_stands_nowhere_in_a_record() {
        let get =
            crate::contract::Query::Get(crate::contract::GetQuery { object: reference(), view: vec![] });
        let seen = |answer| Observation { query: get.clone(), answer };
        let patch =
            Patch { object: reference(), merge: format!(r#"{{"data":{{"key":"{MARKER}"}}}}"#).into() };
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
            calls: vec![],
            deeds: vec![
                deed(Action::Apply(Apply { object: secret(), force: false, controlled: false })),
                deed(Action::Patch(patch)),
            ],
            end: End::Stands,
            micros: 0,
        };
        record.redact();
        let text = serde_json::to_string(&record).expect("a record serializes");
        assert!(!text.contains(MARKER), "{text}");
        assert!(text.contains("\\\"key\\\""), "the names of the keys stay: {text}");
    }

    #[test]
    fn other_objects_stay_as_they_are() {
        let mut object: Json = r#"{"apiVersion":"v1","kind":"ConfigMap","data":{"about":"Secret"}}"#.into();
        object_text(&mut object);
        assert!(object.contains("Secret") && !object.contains(STRUCK));
    }
}
