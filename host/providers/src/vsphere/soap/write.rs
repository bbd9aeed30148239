//! Writes a call as an envelope. Members come in the order in which they are given: the schema's.

use std::fmt::Write;

use quick_xml::escape::escape;

use crate::vsphere::data::{Data, Object};
use crate::vsphere::vcenter::{Call, CallError, Fault};

const ENVELOPE: &str = "http://schemas.xmlsoap.org/soap/envelope/";
pub(super) const INSTANCE: &str = "http://www.w3.org/2001/XMLSchema-instance";
const SCHEMA: &str = "http://www.w3.org/2001/XMLSchema";

/// Types of XML Schema itself; all others are vSphere's.
pub(super) const PRIMITIVES: [&str; 10] =
    ["boolean", "byte", "short", "int", "long", "float", "double", "string", "base64Binary", "dateTime"];

/// The whole request.
pub(super) fn envelope(call: &Call) -> Result<String, CallError> {
    let mut out = String::with_capacity(1024);
    out.push_str(r#"<?xml version="1.0" encoding="UTF-8"?>"#);
    let _ = write!(
        out,
        r#"<e:Envelope xmlns:e="{ENVELOPE}" xmlns:xsi="{INSTANCE}" xmlns:xsd="{SCHEMA}"><e:Body><{} xmlns="urn:vim25">"#,
        call.method
    );
    element(&mut out, "_this", &Data::Ref(call.target.clone()))?;
    members(&mut out, &call.parameters)?;
    let _ = write!(out, "</{}></e:Body></e:Envelope>", call.method);
    Ok(out)
}

fn members(out: &mut String, object: &Object) -> Result<(), CallError> {
    object.members.iter().try_for_each(|(name, value)| element(out, name, value))
}

fn element(out: &mut String, name: &str, value: &Data) -> Result<(), CallError> {
    match value {
        Data::List(items) => return items.iter().try_for_each(|item| element(out, name, item)),
        Data::Bool(value) => {
            let _ = write!(out, "<{name}>{value}");
        }
        Data::Int(value) => {
            let _ = write!(out, "<{name}>{value}");
        }
        Data::Text(value) => {
            let _ = write!(out, "<{name}>{}", text(value)?);
        }
        Data::Typed { kind, text: value } => {
            let prefix = if PRIMITIVES.contains(&kind.as_str()) { "xsd:" } else { "" };
            let _ = write!(out, r#"<{name} xsi:type="{prefix}{}">{}"#, text(kind)?, text(value)?);
        }
        Data::Ref(reference) => {
            let _ = write!(out, r#"<{name} type="{}">{}"#, text(&reference.kind)?, text(&reference.id)?);
        }
        Data::Object(object) if object.kind.is_empty() => {
            let _ = write!(out, "<{name}>");
            members(out, object)?;
        }
        Data::Object(object) => {
            let _ = write!(out, r#"<{name} xsi:type="{}">"#, text(&object.kind)?);
            members(out, object)?;
        }
    }
    let _ = write!(out, "</{name}>");
    Ok(())
}

/// Text as XML has it. A character that XML cannot hold is refused: leaving it out would change what was meant.
fn text(value: &str) -> Result<std::borrow::Cow<'_, str>, CallError> {
    let foreign =
        |one: char| one < ' ' && !matches!(one, '\t' | '\n' | '\r') || matches!(one, '\u{fffe}' | '\u{ffff}');
    if value.contains(foreign) {
        let message = "A text holds a control character, which vCenter's protocol cannot carry.".to_owned();
        return Err(CallError::Fault(Fault {
            kind: "InvalidArgument".to_owned(),
            message,
            detail: Object::default(),
        }));
    }
    Ok(escape(value))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::vsphere::data::MoRef;

    #[test]
    fn a_call_keeps_the_order_of_its_members_and_says_every_type_that_a_field_leaves_open() {
        let spec = Object::new("VirtualMachineConfigSpec")
            .with("numCPUs", 2_i64)
            .with("deviceChange", vec![Object::new("VirtualDeviceConfigSpec").with("operation", "add")])
            .with(
                "extraConfig",
                vec![
                    Object::new("OptionValue").with("key", "a<b").with("value", Data::any_text("\"x\" & y")),
                ],
            );
        let call = Call::new(&MoRef::new("VirtualMachine", "vm-7"), "ReconfigVM_Task")
            .with("folder", MoRef::new("Folder", "group-2"))
            .with("spec", spec);
        let envelope = envelope(&call).expect("it can be written");
        let body = envelope.split("<e:Body>").nth(1).expect("a body").replace("><", ">\n<");
        expect![[r#"
            <ReconfigVM_Task xmlns="urn:vim25">
            <_this type="VirtualMachine">vm-7</_this>
            <folder type="Folder">group-2</folder>
            <spec xsi:type="VirtualMachineConfigSpec">
            <numCPUs>2</numCPUs>
            <deviceChange xsi:type="VirtualDeviceConfigSpec">
            <operation>add</operation>
            </deviceChange>
            <extraConfig xsi:type="OptionValue">
            <key>a&lt;b</key>
            <value xsi:type="xsd:string">&quot;x&quot; &amp; y</value>
            </extraConfig>
            </spec>
            </ReconfigVM_Task>
            </e:Body>
            </e:Envelope>"#]]
        .assert_eq(&body);
    }

    #[test]
    fn a_character_that_xml_cannot_hold_is_refused() {
        let call = Call::new(&MoRef::new("VirtualMachine", "vm-7"), "X").with("name", "a\u{0}b");
        assert!(envelope(&call).expect_err("a null byte").is_fault("InvalidArgument"));
    }
}
