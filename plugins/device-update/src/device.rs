//! A Device as the spec files show it: sealed, and read leniently, since newer services may send more.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::names;
use crate::words::{AskWindow, DecommissionTarget};

/// A Device with its version.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Device {
    /// Its version as text; "" where it has none.
    pub version: String,
    /// Its fingerprint; "" where it has none.
    pub hash: String,
    /// Its spec, as far as it is known here.
    pub spec: Spec,
    /// The whole spec, to tell two of them apart.
    pub raw: Value,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
}

/// What a device shall be like.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Spec {
    /// The operating system.
    pub os: Os,
    /// Config files, by provider.
    pub config: Vec<ConfigProvider>,
    /// Applications.
    pub applications: Vec<Application>,
    /// Units to report.
    pub systemd: Systemd,
    /// Monitors, as they came; null for the defaults.
    pub resources: Option<Value>,
    /// When downloads and updates may happen.
    pub update_policy: UpdatePolicy,
    /// The end of the device's life.
    pub decommissioning: Option<Decommissioning>,
}

/// The operating system.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Os {
    /// Its image.
    pub image: Option<String>,
    /// A reference that the service should have resolved.
    pub catalog_item_ref: Option<Value>,
}

/// A provider of config files. Only inline ones reach a device; the rest is for the service to render.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ConfigProvider {
    /// Its name.
    pub name: String,
    /// Its files.
    pub inline: Option<Vec<InlineFile>>,
    /// A repository that the service should have rendered.
    pub git_ref: Option<Value>,
    /// A Secret that the service should have rendered.
    pub secret_ref: Option<Value>,
    /// An address that the service should have rendered.
    pub http_ref: Option<Value>,
}

/// A config file, its content as a digest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct InlineFile {
    /// Where it goes.
    pub path: String,
    /// Digest of its content.
    pub sha256: String,
    /// Why its content cannot be read.
    pub error: Option<String>,
    /// Permission bits; 0644.
    pub mode: Option<u32>,
    /// Its owner, `root`.
    pub user: Option<NameOrNumber>,
    /// Its group, `root`.
    pub group: Option<NameOrNumber>,
}

/// A user or a group.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum NameOrNumber {
    /// By number.
    Number(u32),
    /// By name.
    Name(String),
}

/// An application.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Application {
    /// `compose`, `quadlet`, `container`, `helm` or `vm`.
    pub app_type: String,
    /// Its name; that of its image where there is none.
    pub name: Option<String>,
    /// Its package, or its container.
    pub image: Option<String>,
    /// A reference that the service should have resolved.
    pub catalog_item_ref: Option<Value>,
    /// Whose it is.
    pub run_as: Option<String>,
    /// Its volumes.
    pub volumes: Vec<Volume>,
    /// Its files.
    pub inline: Option<Vec<InlineFile>>,
    /// `running` or `stopped`.
    pub desired_state: Option<String>,
    /// Raised to have it restarted.
    pub restart_generation: Option<i64>,
    /// Everything else that makes a difference.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// A volume of an application.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Volume {
    /// Its name.
    pub name: String,
    /// What is in it.
    pub image: Option<VolumeImage>,
}

/// What is in a volume.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VolumeImage {
    /// An OCI artifact.
    pub reference: Option<String>,
    /// A reference that the service should have resolved.
    pub catalog_item_ref: Option<Value>,
    /// When it is pulled.
    pub pull_policy: crate::words::PullPolicy,
}

/// Units to report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Systemd {
    /// Names or globs.
    pub match_patterns: Vec<String>,
}

/// When downloads and updates may happen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct UpdatePolicy {
    /// Downloads.
    pub download_schedule: Option<Schedule>,
    /// Updates.
    pub update_schedule: Option<Schedule>,
}

/// A repeated window of time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Schedule {
    /// An IANA name.
    pub time_zone: Option<String>,
    /// Five cron fields.
    pub at: String,
    /// How long it stays open.
    pub start_grace_duration: Option<String>,
}

/// The end of a device's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Decommissioning {
    /// What becomes of it.
    pub target: DecommissionTarget,
}

impl Device {
    /// From a Device as an answer has it.
    ///
    /// # Errors
    /// If its spec has another form; a sentence that shows nothing of it.
    pub fn read(value: &Value) -> Result<Self, String> {
        let annotations: BTreeMap<String, String> = value
            .pointer("/metadata/annotations")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
            .collect();
        let raw = value.get("spec").cloned().unwrap_or(json!({}));
        let spec = match &raw {
            Value::Null => Spec::default(),
            raw => Spec::deserialize(raw).map_err(|error| format!("its spec cannot be read: {error}"))?,
        };
        let of = |key: &str| annotations.get(key).cloned().unwrap_or_default();
        Ok(Self {
            version: of(names::RENDERED_VERSION),
            hash: of(names::RENDERED_HASH),
            spec,
            raw,
            annotations,
        })
    }

    /// Its version as a number; none where it is none.
    pub fn number(&self) -> Option<i64> {
        number(&self.version)
    }

    /// Its config files by path; the later of two entries wins.
    pub fn files(&self) -> BTreeMap<&str, &InlineFile> {
        let entries = self.spec.config.iter().filter_map(|provider| provider.inline.as_ref()).flatten();
        entries.map(|file| (file.path.as_str(), file)).collect()
    }

    /// Its applications by id.
    pub fn applications(&self) -> BTreeMap<String, &Application> {
        self.spec.applications.iter().map(|application| (application.id(), application)).collect()
    }

    /// Whether it differs from another in nothing but open consoles.
    pub fn is_same_but_consoles(&self, other: &Self) -> bool {
        let without = |raw: &Value| {
            let mut raw = raw.clone();
            if let Some(members) = raw.as_object_mut() {
                members.remove("consoles");
            }
            raw
        };
        without(&self.raw) == without(&other.raw)
    }

    /// Parts of its spec that nobody here knows, by name.
    pub fn unknown_fields(&self) -> Vec<String> {
        const KNOWN: [&str; 8] = [
            "os",
            "config",
            "applications",
            "systemd",
            "resources",
            "updatePolicy",
            "consoles",
            "decommissioning",
        ];
        let members = self.raw.as_object().into_iter().flatten();
        members.map(|(key, _)| key.clone()).filter(|key| !KNOWN.contains(&key.as_str())).collect()
    }
}

/// A version as a number; none where it is no decimal number.
pub fn number(version: &str) -> Option<i64> {
    let digits = !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit());
    if digits { version.parse().ok() } else { None }
}

impl InlineFile {
    /// Permission bits.
    pub fn mode(&self) -> u32 {
        self.mode.unwrap_or(0o644)
    }

    /// Its owner, by name or number.
    pub fn user(&self) -> String {
        self.user.as_ref().map_or_else(|| "root".to_owned(), NameOrNumber::text)
    }

    /// Its group, by name or number.
    pub fn group(&self) -> String {
        self.group.as_ref().map_or_else(|| "root".to_owned(), NameOrNumber::text)
    }
}

impl NameOrNumber {
    fn text(&self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Name(name) => name.clone(),
        }
    }
}

impl Application {
    /// Its name, or its image's.
    pub fn name(&self) -> &str {
        self.name.as_deref().or(self.image.as_deref()).unwrap_or_default()
    }

    /// The name under which the device knows it: sanitised, with six digits of a checksum.
    pub fn id(&self) -> String {
        app_id(self.name())
    }

    /// Whether it shall run.
    pub fn shall_run(&self) -> bool {
        self.desired_state.as_deref() != Some("stopped")
    }

    /// A digest of all in it that makes a difference on disk: not whether it shall run, nor how often it was restarted.
    pub fn digest(&self) -> String {
        let mut rest = self.rest.clone();
        rest.remove("annotations");
        let inline: Vec<_> = self
            .inline
            .iter()
            .flatten()
            .map(|file| json!([file.path, file.sha256, file.mode, file.error]))
            .collect();
        let volumes: Vec<_> = self
            .volumes
            .iter()
            .map(|volume| {
                json!([volume.name, volume.image.as_ref().and_then(|image| image.reference.clone())])
            })
            .collect();
        let it = json!([self.app_type, self.name(), self.image, self.run_as, inline, volumes, rest]);
        digest(it.to_string().as_bytes())
    }
}

/// The id of an application by its name.
pub fn app_id(name: &str) -> String {
    let sanitised: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c.to_ascii_lowercase() } else { '-' })
        .collect();
    format!("{sanitised}-{:06}", crc32(name.as_bytes()) % 1_000_000)
}

/// The checksum of IEEE 802.3, bit by bit: names are short.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 1 { (crc >> 1) ^ 0xEDB8_8320 } else { crc >> 1 };
    !bytes.iter().fold(u32::MAX, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

/// `sha256:` and a digest in hex.
pub fn digest(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

impl Schedule {
    /// As the provider is asked.
    pub fn ask(&self) -> AskWindow {
        let local = |zone: &&String| zone.as_str() != "Local";
        AskWindow {
            time_zone: self.time_zone.as_ref().filter(local).cloned(),
            at: self.at.clone(),
            grace: self.start_grace_duration.clone().unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_the_sanitised_name_with_six_digits_of_its_checksum() {
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
        assert_eq!(app_id("My App"), format!("my-app-{:06}", crc32(b"My App") % 1_000_000));
    }

    #[test]
    fn a_version_is_a_decimal_number_and_nothing_else() {
        for (text, expected) in [
            ("0", Some(0)),
            ("17", Some(17)),
            ("", None),
            ("abc", None),
            ("-1", None),
            ("1.5", None),
            ("99999999999999999999", None),
        ] {
            assert_eq!(number(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_device_is_read_with_what_a_newer_service_adds_to_it() {
        let device = Device::read(&json!({
            "metadata": {"annotations": {names::RENDERED_VERSION: "7"}},
            "spec": {"os": {"image": "a"}, "hooks": {}, "consoles": [{"sessionID": "1"}]},
        }))
        .expect("a device");
        assert_eq!((device.number(), device.unknown_fields()), (Some(7), vec!["hooks".to_owned()]));
        let other = Device { raw: json!({"os": {"image": "a"}, "hooks": {}}), ..device.clone() };
        assert!(device.is_same_but_consoles(&other));
    }

    #[test]
    fn whether_an_application_shall_run_is_no_difference_of_its_files() {
        let read = |text: &str| serde_json::from_str::<Application>(text).expect("an application");
        let one = read(r#"{"appType":"container","name":"a","image":"i","desiredState":"running"}"#);
        let two = read(
            r#"{"appType":"container","name":"a","image":"i","desiredState":"stopped","restartGeneration":2}"#,
        );
        let other = read(r#"{"appType":"container","name":"a","image":"i","ports":["1:1"]}"#);
        assert_eq!(one.digest(), two.digest());
        assert_ne!(one.digest(), other.digest());
    }
}
