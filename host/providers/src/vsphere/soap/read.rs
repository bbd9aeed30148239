//! Reads an answer's envelope: a result, or a fault. Whatever else it holds is no answer of a vCenter.

use quick_xml::NsReader;
use quick_xml::escape::resolve_xml_entity;
use quick_xml::events::{BytesRef, BytesStart, Event};
use quick_xml::name::{Namespace, ResolveResult};

use super::write::{INSTANCE, PRIMITIVES};
use crate::vsphere::data::{Data, MoRef, Object};
use crate::vsphere::fault;
use crate::vsphere::limits::DEPTH_MAX;
use crate::vsphere::vcenter::{CallError, Fault};

/// An element with all that is in it.
#[derive(Debug, Default)]
struct Element {
    name: String,
    /// Its type, where it says so.
    kind: Option<String>,
    /// The managed object type, where it is a reference.
    reference: Option<String>,
    text: String,
    children: Vec<Element>,
}

/// The result of a call. `what` describes the answer for messages.
pub(super) fn answer(text: &str, what: &str) -> Result<Data, CallError> {
    let envelope =
        parse(text).map_err(|trouble| CallError::BadAnswer(format!("it answered {what}: {trouble}")))?;
    let no_soap = || CallError::BadAnswer(format!("it answered {what}, which is no SOAP"));
    let envelope = envelope.filter(|root| root.name == "Envelope");
    let body = envelope.and_then(|root| root.take("Body")).ok_or_else(no_soap)?;
    let response = body.children.into_iter().next().ok_or_else(no_soap)?;
    if response.name == "Fault" {
        return Err(CallError::Fault(read_fault(response)));
    }
    if !response.name.ends_with("Response") {
        return Err(no_soap());
    }
    let mut results: Vec<Data> =
        response.children.into_iter().filter(|child| child.name == "returnval").map(Element::data).collect();
    Ok(match results.len() {
        1 => results.pop().unwrap_or(Data::List(vec![])),
        _ => Data::List(results),
    })
}

fn read_fault(element: Element) -> Fault {
    let message = element.children.iter().find(|child| child.name == "faultstring");
    let message = message.map(|child| child.text.trim().to_owned()).unwrap_or_default();
    let detail = element.take("detail").and_then(|detail| detail.children.into_iter().next());
    let Some(detail) = detail else {
        return fault::fault("MethodFault".to_owned(), message, Object::default());
    };
    let by_name = detail.name.trim_end_matches("Fault").to_owned();
    let object = detail.object();
    let kind = if object.kind.is_empty() { by_name } else { object.kind.clone() };
    fault::fault(kind, message, object)
}

fn parse(text: &str) -> Result<Option<Element>, String> {
    let mut reader = NsReader::from_str(text);
    reader.config_mut().expand_empty_elements = true;
    let mut open: Vec<Element> = Vec::new();
    let mut root = None;
    loop {
        let event = reader.read_event().map_err(|error| error.to_string())?;
        match event {
            Event::Start(start) => {
                if open.len() >= DEPTH_MAX {
                    return Err(format!("more than {DEPTH_MAX} elements inside each other"));
                }
                open.push(begin(&reader, &start)?);
            }
            Event::End(_) => {
                let Some(done) = open.pop() else { return Err("an element that ends twice".to_owned()) };
                match open.last_mut() {
                    Some(parent) => parent.children.push(done),
                    None => root = Some(done),
                }
            }
            Event::Text(text) => push(&mut open, &text.xml10_content()),
            Event::CData(text) => push(&mut open, &text.xml10_content()),
            Event::GeneralRef(entity) => push(&mut open, &resolve(&entity)?),
            // Entities of its own could grow without end; no vCenter has any.
            Event::DocType(_) => return Err("a document type".to_owned()),
            Event::Eof if open.is_empty() => return Ok(root),
            Event::Eof => return Err("it ends midway".to_owned()),
            Event::Empty(_) | Event::Comment(_) | Event::Decl(_) | Event::PI(_) => {}
        }
    }
}

fn push(open: &mut [Element], text: &str) {
    if let Some(element) = open.last_mut() {
        element.text.push_str(text);
    }
}

fn resolve(entity: &BytesRef<'_>) -> Result<String, String> {
    if let Some(one) = entity.resolve_char_ref().map_err(|error| error.to_string())? {
        return Ok(one.to_string());
    }
    resolve_xml_entity(entity).map(str::to_owned).ok_or_else(|| "an unknown entity".to_owned())
}

fn begin(reader: &NsReader<&[u8]>, start: &BytesStart<'_>) -> Result<Element, String> {
    let mut element = Element { name: start.local_name().as_ref().to_owned(), ..Element::default() };
    for attribute in start.attributes() {
        let attribute = attribute.map_err(|error| error.to_string())?;
        let (namespace, name) = reader.resolver().resolve_attribute(attribute.key);
        if name.as_ref() != "type" {
            continue;
        }
        let value = attribute
            .normalized_value(quick_xml::XmlVersion::Implicit1_0)
            .map_err(|error| error.to_string())?;
        match namespace {
            // Only the one without a namespace makes a reference.
            ResolveResult::Unbound => element.reference = Some(value.into_owned()),
            ResolveResult::Bound(Namespace(INSTANCE)) => {
                element.kind = value.rsplit(':').next().map(str::to_owned);
            }
            ResolveResult::Bound(_) | ResolveResult::Unknown(_) => {}
        }
    }
    Ok(element)
}

impl Element {
    fn take(self, name: &str) -> Option<Self> {
        self.children.into_iter().find(|child| child.name == name)
    }

    fn data(self) -> Data {
        if let Some(kind) = self.reference {
            return Data::Ref(MoRef { kind, id: self.text.trim().to_owned() });
        }
        if self.kind.as_deref().is_some_and(|kind| kind.starts_with("ArrayOf")) {
            return Data::List(self.children.into_iter().map(Self::data).collect());
        }
        if !self.children.is_empty() {
            return Data::Object(self.object());
        }
        match self.kind {
            None => Data::Text(self.text),
            // A data object without members, such as most faults.
            Some(kind) if self.text.is_empty() && !PRIMITIVES.contains(&kind.as_str()) => {
                Data::Object(Object::new(&kind))
            }
            Some(kind) => Data::Typed { kind, text: self.text },
        }
    }

    fn object(self) -> Object {
        let mut members: Vec<(String, Data)> = Vec::with_capacity(self.children.len());
        for child in self.children {
            let name = child.name.clone();
            let value = child.data();
            // The elements of an array stand side by side.
            match members.last_mut().filter(|(last, _)| *last == name) {
                None => members.push((name, value)),
                Some((_, Data::List(items))) => items.push(value),
                Some((_, first)) => {
                    let one = std::mem::replace(first, Data::List(Vec::new()));
                    *first = Data::List(vec![one, value]);
                }
            }
        }
        Object { kind: self.kind.unwrap_or_default(), members }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(body: &str, expect: Expect) {
        let envelope = format!(
            r#"<?xml version="1.0" encoding="UTF-8"?><s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/" xmlns:_i="{INSTANCE}"><s:Body>{body}</s:Body></s:Envelope>"#
        );
        expect.assert_eq(&format!("{:?}", answer(&envelope, "200 OK")));
    }

    #[test]
    fn an_absent_result_is_nothing_and_a_single_one_is_itself() {
        check(r#"<FindByUuidResponse xmlns="urn:vim25"></FindByUuidResponse>"#, expect!["Ok(List([]))"]);
        check(
            r#"<FindByUuidResponse><returnval type="VirtualMachine">vm-7</returnval></FindByUuidResponse>"#,
            expect![[r#"Ok(Ref(MoRef { kind: "VirtualMachine", id: "vm-7" }))"#]],
        );
    }

    #[test]
    fn types_are_told_by_the_namespace_whatever_its_prefix() {
        check(
            r#"<XResponse><returnval><val _i:type="xsd:string">a &amp; b&#x21;</val><val _i:type="ArrayOfString"/><on _i:type="VirtualMachinePowerState">poweredOn</on></returnval></XResponse>"#,
            expect![[
                r#"Ok(Object(Object { kind: "", members: [("val", List([Typed { kind: "string", text: "a & b!" }, List([])])), ("on", Typed { kind: "VirtualMachinePowerState", text: "poweredOn" })] }))"#
            ]],
        );
    }

    #[test]
    fn a_fault_tells_its_type_its_message_and_its_members() {
        check(
            r#"<s:Fault><faultcode>ServerFaultCode</faultcode><faultstring>It is gone.</faultstring><detail><ManagedObjectNotFoundFault _i:type="ManagedObjectNotFound"><obj type="VirtualMachine">vm-7</obj></ManagedObjectNotFoundFault></detail></s:Fault>"#,
            expect![[
                r#"Err(Fault(Fault { kind: "ManagedObjectNotFound", message: "It is gone.", detail: Object { kind: "ManagedObjectNotFound", members: [("obj", Ref(MoRef { kind: "VirtualMachine", id: "vm-7" }))] } }))"#
            ]],
        );
    }

    #[test]
    fn what_no_vcenter_sends_is_a_bad_answer_that_says_what_it_is() {
        let bad = |text: &str| answer(text, "200 OK, text/html").expect_err("no SOAP").to_string();
        expect!["it answered 200 OK, text/html: a document type"]
            .assert_eq(&bad("<!DOCTYPE html><html><body>Hello</body></html>"));
        expect!["it answered 200 OK, text/html, which is no SOAP"]
            .assert_eq(&bad("<html><body>Hello</body></html>"));
        expect!["it answered 200 OK, text/html, which is no SOAP"].assert_eq(&bad(""));
        expect!["it answered 200 OK, text/html: it ends midway"].assert_eq(&bad("<s:Envelope><s:Body>"));
        let deep = format!("{}{}", "<a>".repeat(1000), "</a>".repeat(1000));
        expect!["it answered 200 OK, text/html: more than 64 elements inside each other"]
            .assert_eq(&bad(&deep));
    }
}
