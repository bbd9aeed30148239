//! Writes parameters as JSON. Each data object and reference says its type, and says it first: servers want both.

use std::fmt::Write;

use crate::vsphere::data::{Data, Object};

/// The body of a call.
pub(super) fn parameters(parameters: &Object) -> String {
    let mut out = String::with_capacity(512);
    object(&mut out, "", &parameters.members);
    out
}

/// A part of a path: ids of a session's own collectors hold brackets.
pub(super) fn segment(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

fn object(out: &mut String, kind: &str, members: &[(String, Data)]) {
    out.push('{');
    if !kind.is_empty() {
        out.push_str(r#""_typeName":"#);
        text(out, kind);
    }
    for (number, (name, member)) in members.iter().enumerate() {
        if number > 0 || !kind.is_empty() {
            out.push(',');
        }
        text(out, name);
        out.push(':');
        value(out, member);
    }
    out.push('}');
}

fn value(out: &mut String, data: &Data) {
    match data {
        Data::Bool(value) => {
            let _ = write!(out, "{value}");
        }
        Data::Int(value) => {
            let _ = write!(out, "{value}");
        }
        Data::Text(value) => text(out, value),
        Data::Typed { kind, text: value } => {
            out.push_str(r#"{"_typeName":"#);
            text(out, kind);
            out.push_str(r#","_value":"#);
            match kind.as_str() {
                // These are bare in JSON; a text that is none of them was none when it was read.
                "boolean" | "byte" | "short" | "int" | "long" | "float" | "double" => out.push_str(value),
                _ => text(out, value),
            }
            out.push('}');
        }
        Data::Ref(reference) => {
            out.push_str(r#"{"_typeName":"ManagedObjectReference","type":"#);
            text(out, &reference.kind);
            out.push_str(r#","value":"#);
            text(out, &reference.id);
            out.push('}');
        }
        Data::Object(inner) => object(out, &inner.kind, &inner.members),
        Data::List(items) => {
            out.push('[');
            for (number, item) in items.iter().enumerate() {
                if number > 0 {
                    out.push(',');
                }
                value(out, item);
            }
            out.push(']');
        }
    }
}

fn text(out: &mut String, value: &str) {
    out.push_str(&serde_json::Value::from(value).to_string());
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::vsphere::data::MoRef;

    #[test]
    fn objects_and_references_say_their_type_first() {
        let spec = Object::new("VirtualMachineConfigSpec").with("numCPUs", 2_i64).with(
            "extraConfig",
            vec![Object::new("OptionValue").with("key", "a\"b").with("value", Data::any_text("x"))],
        );
        let body =
            parameters(&Object::default().with("folder", MoRef::new("Folder", "group-2")).with("spec", spec));
        expect![[r#"{"folder":{"_typeName":"ManagedObjectReference","type":"Folder","value":"group-2"},"spec":{"_typeName":"VirtualMachineConfigSpec","numCPUs":2,"extraConfig":[{"_typeName":"OptionValue","key":"a\"b","value":{"_typeName":"string","_value":"x"}}]}}"#]]
            .assert_eq(&body);
        assert!(serde_json::from_str::<serde_json::Value>(&body).is_ok());
        assert_eq!(parameters(&Object::default()), "{}");
        assert_eq!(segment("session[1]2"), "session%5B1%5D2");
    }
}
