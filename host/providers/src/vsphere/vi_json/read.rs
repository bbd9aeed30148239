//! Reads results and faults, whether primitives and arrays come bare or boxed.

use http::StatusCode;
use serde_json::{Map, Value};

use crate::vsphere::data::{Data, MoRef, Object};
use crate::vsphere::fault;
use crate::vsphere::limits::DEPTH_MAX;
use crate::vsphere::vcenter::CallError;

/// The result of a call. `what` describes the answer for messages.
pub(super) fn answer(status: StatusCode, body: &[u8], what: &str) -> Result<Data, CallError> {
    let bad = || CallError::BadAnswer(format!("it answered {what}, which is no answer of a vCenter"));
    if status.is_success() && body.iter().all(u8::is_ascii_whitespace) {
        return Ok(Data::List(Vec::new()));
    }
    // The parser itself refuses what is nested too deeply.
    let value: Value = serde_json::from_slice(body).map_err(|_| bad())?;
    let read = data(value, 0).ok_or_else(bad)?;
    if status.is_success() {
        return Ok(read);
    }
    match read {
        Data::Object(object) if status == StatusCode::INTERNAL_SERVER_ERROR && !object.kind.is_empty() => {
            Err(CallError::Fault(fault::read(&Data::Object(object))))
        }
        _ => Err(bad()),
    }
}

/// A value; none where it is nested too deeply.
fn data(value: Value, depth: usize) -> Option<Data> {
    if depth > DEPTH_MAX {
        return None;
    }
    Some(match value {
        Value::Null => Data::List(Vec::new()),
        Value::Bool(value) => Data::Bool(value),
        Value::Number(number) => number.as_i64().map_or_else(|| Data::Text(number.to_string()), Data::Int),
        Value::String(text) => Data::Text(text),
        Value::Array(items) => list(items, depth)?,
        Value::Object(members) => object(members, depth)?,
    })
}

fn list(items: Vec<Value>, depth: usize) -> Option<Data> {
    items.into_iter().map(|item| data(item, depth + 1)).collect::<Option<Vec<Data>>>().map(Data::List)
}

fn object(mut members: Map<String, Value>, depth: usize) -> Option<Data> {
    let kind = match members.remove("_typeName") {
        Some(Value::String(kind)) => kind,
        _ => String::new(),
    };
    if kind == "ManagedObjectReference" {
        let text = |name: &str| unboxed(members.get(name)).unwrap_or_default().to_owned();
        return Some(Data::Ref(MoRef { kind: text("type"), id: text("value") }));
    }
    if kind.starts_with("ArrayOf") {
        // The array stands under `_value`, or under the name of its elements' type.
        let inner = members.remove("_value").or_else(|| members.into_iter().next().map(|(_, inner)| inner));
        return data(inner.unwrap_or(Value::Null), depth + 1);
    }
    if let Some(value) = members.remove("_value") {
        return Some(match data(value, depth + 1)? {
            Data::Bool(value) => Data::Typed { kind, text: value.to_string() },
            Data::Int(value) => Data::Typed { kind, text: value.to_string() },
            Data::Text(text) => Data::Typed { kind, text },
            other => other,
        });
    }
    let mut read = Object::new(&kind);
    for (name, member) in members {
        // Unset may come as null; readers look for what is there.
        if !member.is_null() {
            read.members.push((name, data(member, depth + 1)?));
        }
    }
    Some(Data::Object(read))
}

fn unboxed(value: Option<&Value>) -> Option<&str> {
    let value = value?;
    value.as_str().or_else(|| value.get("_value")?.as_str())
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(status: u16, body: &str, expect: Expect) {
        let status = StatusCode::from_u16(status).expect("a status");
        let read = answer(status, body.as_bytes(), "HTTP (application/json)");
        expect.assert_eq(&match read {
            Err(CallError::Fault(fault)) => format!("fault {}: {}", fault.kind, fault.message),
            other => format!("{other:?}"),
        });
    }

    #[test]
    fn nothing_comes_in_three_ways() {
        check(204, "", expect!["Ok(List([]))"]);
        check(200, " \n", expect!["Ok(List([]))"]);
        check(200, "null", expect!["Ok(List([]))"]);
    }

    #[test]
    fn boxes_are_taken_off() {
        check(
            200,
            r#"{"val":{"_typeName":"ArrayOfString","_value":["a"]}, "old":{"_typeName":"ArrayOfString","string":["b"]}, "one":{"_typeName":"int","_value":3}, "unset":null}"#,
            expect![[
                r#"Ok(Object(Object { kind: "", members: [("old", List([Text("b")])), ("one", Typed { kind: "int", text: "3" }), ("val", List([Text("a")]))] }))"#
            ]],
        );
        check(
            200,
            r#"{"_typeName":"ManagedObjectReference","type":"VirtualMachine","value":"vm-71"}"#,
            expect![[r#"Ok(Ref(MoRef { kind: "VirtualMachine", id: "vm-71" }))"#]],
        );
    }

    #[test]
    fn a_fault_tells_its_type_and_its_message_in_every_shape() {
        check(
            500,
            r#"{"_typeName":"ManagedObjectNotFound","faultstring":"It is gone.","obj":{"_typeName":"ManagedObjectReference","type":"Task","value":"task-1"}}"#,
            expect!["fault ManagedObjectNotFound: It is gone."],
        );
        let shape = |error: &str| {
            let read = data(serde_json::from_str(error).expect("JSON"), 0).expect("not deep");
            let fault = fault::read(&read);
            format!("{}: {}", fault.kind, fault.message)
        };
        let shapes = [
            r#"{"_typeName":"InvalidArgument","faultstring":"flat","invalidProperty":"x"}"#,
            r#"{"_typeName":"LocalizedMethodFault","fault":{"_typeName":"DuplicateName"},"localizedMessage":"wrapped"}"#,
            r#"{"_typeName":"LocalizedMethodFault","fault":{"_typeName":"X"},"localizedMessage":{"_typeName":"string","_value":"boxed"}}"#,
            r#"{"_typeName":"Y","faultMessage":[{"_typeName":"LocalizableMessage","key":"k","message":"a"},{"message":"b"}]}"#,
            r#"{"_typeName":"Z"}"#,
        ];
        expect![[r#"
            InvalidArgument: flat
            DuplicateName: wrapped
            X: boxed
            Y: a; b
            Z: Z"#]]
        .assert_eq(&shapes.map(shape).join("\n"));
    }

    #[test]
    fn what_no_vcenter_sends_is_a_bad_answer() {
        let bad = "Err(BadAnswer(\"it answered HTTP (application/json), which is no answer of a vCenter\"))";
        for (status, body) in
            [(200, "<html>"), (404, "not found"), (500, "[]"), (503, "{}"), (200, "{\"a\":")]
        {
            let status = StatusCode::from_u16(status).expect("a status");
            assert_eq!(
                format!("{:?}", answer(status, body.as_bytes(), "HTTP (application/json)")),
                bad,
                "{body}"
            );
        }
        let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
        check(
            200,
            &deep,
            expect![[
                r#"Err(BadAnswer("it answered HTTP (application/json), which is no answer of a vCenter"))"#
            ]],
        );
    }
}
