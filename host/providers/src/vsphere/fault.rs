//! Reads what vCenter says is wrong, in the three shapes that it comes in.

use super::data::{Data, Object};
use super::limits::MESSAGE_BYTES_MAX;
use super::vcenter::Fault;

/// A fault as a task's error, a missing property's fault or a call's answer has it: wrapped in a localized fault,
/// flattened, or either with boxed text inside.
pub(crate) fn read(data: &Data) -> Fault {
    let inner = data.get("fault").unwrap_or(data);
    let detail = inner.object().cloned().unwrap_or_default();
    let kind = if detail.kind.is_empty() { "MethodFault".to_owned() } else { detail.kind.clone() };
    let said = [data.text_of("localizedMessage"), data.text_of("faultstring"), inner.text_of("faultstring")];
    let message = said.into_iter().map(|text| text.trim().to_owned()).find(|text| !text.is_empty());
    fault(kind, message.unwrap_or_default(), detail)
}

/// From its parts; a message that is missing is made up from the fault's own ones, or its type.
pub(crate) fn fault(kind: String, message: String, detail: Object) -> Fault {
    let joined = || {
        let messages = detail.get("faultMessage").map(Data::items).unwrap_or_default();
        let texts: Vec<_> = messages.iter().map(|one| one.text_of("message").into_owned()).collect();
        texts.join("; ")
    };
    let message = if message.is_empty() { joined() } else { message };
    let message = if message.is_empty() { kind.clone() } else { cut(&message) };
    Fault { kind, message, detail }
}

/// A message of a far end, no longer than a status takes.
pub(crate) fn cut(message: &str) -> String {
    let mut end = message.len().min(MESSAGE_BYTES_MAX);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    message.get(..end).unwrap_or_default().to_owned()
}
