//! Sealing a Device: digests in the place of what may be secret, so that it can be compared and never read.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA256, digest};
use serde_json::{Map, Value, json};

/// `sha256:` and the digest in hex, as answers have it.
pub fn sha256(bytes: &[u8]) -> String {
    let hex: String = digest(&SHA256, bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

/// The bytes of an inline entry.
///
/// # Errors
/// A sentence without any of the content, where the encoding is unknown or the content is not in it.
pub fn content(entry: &Value) -> Result<Vec<u8>, String> {
    let text = match entry.get("content") {
        None | Some(Value::Null) => "",
        Some(Value::String(text)) => text,
        Some(_) => return Err("content is not a text".to_owned()),
    };
    match entry.get("contentEncoding") {
        None | Some(Value::Null) => Ok(text.as_bytes().to_vec()),
        Some(Value::String(encoding)) if encoding == "plain" => Ok(text.as_bytes().to_vec()),
        Some(Value::String(encoding)) if encoding == "base64" => {
            STANDARD.decode(text).map_err(|_| "content is not base64".to_owned())
        }
        Some(Value::String(encoding)) => Err(format!("unknown content encoding {encoding:?}")),
        Some(_) => Err("contentEncoding is not a text".to_owned()),
    }
}

/// The last inline entry of a config file in a Device: the later wins.
pub fn find_file<'d>(device: &'d Value, path: &str) -> Option<&'d Value> {
    let providers = device.pointer("/spec/config")?.as_array()?;
    let entries = providers.iter().filter_map(|provider| provider.get("inline")?.as_array()).flatten();
    let mut of_path = entries.filter(|entry| entry.get("path").and_then(Value::as_str) == Some(path));
    of_path.next_back()
}

/// An application of a Device by its name; one without a name is called by its image.
pub fn find_application<'d>(device: &'d Value, name: &str) -> Option<&'d Value> {
    let applications = device.pointer("/spec/applications")?.as_array()?;
    applications.iter().find(|application| {
        let text = |key: &str| application.get(key).and_then(Value::as_str);
        text("name").or_else(|| text("image")) == Some(name)
    })
}

/// A Device with contents of inline files, environment values and Helm values as digests.
///
/// An inline entry gets `sha256` and `size` for `content` and `contentEncoding`, or `error`.
pub fn seal(device: &Value) -> Value {
    let mut sealed = device.clone();
    for provider in items(sealed.pointer_mut("/spec/config")) {
        items(provider.get_mut("inline")).for_each(seal_entry);
    }
    for application in items(sealed.pointer_mut("/spec/applications")) {
        items(application.get_mut("inline")).for_each(seal_entry);
        if let Some(Value::Object(variables)) = application.get_mut("envVars") {
            variables.values_mut().for_each(seal_value);
        }
        if let Some(values) = application.get_mut("values") {
            seal_value(values);
        }
    }
    sealed
}

fn items(list: Option<&mut Value>) -> impl Iterator<Item = &mut Value> {
    list.and_then(Value::as_array_mut).into_iter().flatten()
}

fn seal_value(value: &mut Value) {
    *value = json!(sha256(value.to_string().as_bytes()));
}

fn seal_entry(entry: &mut Value) {
    let content = content(entry);
    let Value::Object(members) = entry else { return };
    members.remove("content");
    members.remove("contentEncoding");
    put(members, content);
}

fn put(members: &mut Map<String, Value>, content: Result<Vec<u8>, String>) {
    match content {
        Ok(bytes) => {
            members.insert("sha256".to_owned(), json!(sha256(&bytes)));
            members.insert("size".to_owned(), json!(bytes.len()));
        }
        Err(error) => {
            members.insert("error".to_owned(), json!(error));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_secret_is_a_digest_and_the_rest_is_as_it_was() {
        let device = json!({"spec": {
            "os": {"image": "quay.io/x/os:1"},
            "config": [{"name": "a", "inline": [
                {"path": "/etc/a", "content": "aGk=", "contentEncoding": "base64", "mode": 384},
                {"path": "/etc/b", "content": "%", "contentEncoding": "base64"},
                {"path": "/etc/c", "content": "x", "contentEncoding": "rot13"},
            ]}],
            "applications": [{"name": "app", "envVars": {"TOKEN": "hunter2"}, "values": {"a": "hunter2"}}],
        }});
        let sealed = seal(&device);
        assert!(!sealed.to_string().contains("hunter2"), "{sealed}");
        let entries = sealed.pointer("/spec/config/0/inline").expect("entries");
        let hi = sha256(b"hi");
        assert_eq!(entries[0], json!({"path": "/etc/a", "mode": 384, "sha256": hi, "size": 2}));
        assert_eq!(entries[1], json!({"path": "/etc/b", "error": "content is not base64"}));
        assert_eq!(entries[2], json!({"path": "/etc/c", "error": "unknown content encoding \"rot13\""}));
        assert_eq!(sealed.pointer("/spec/os"), device.pointer("/spec/os"));
    }

    #[test]
    fn of_several_entries_for_a_path_the_last_is_the_one() {
        let device = json!({"spec": {"config": [
            {"inline": [{"path": "/a", "content": "1"}]},
            {"inline": [{"path": "/a", "content": "2"}, {"path": "/b"}]},
        ]}});
        assert_eq!(content(find_file(&device, "/a").expect("an entry")), Ok(b"2".to_vec()));
        assert_eq!(content(find_file(&device, "/b").expect("an entry")), Ok(Vec::new()));
        assert_eq!(find_file(&device, "/c"), None);
    }
}
