//! What every pass looks at first: the spec files, the boot, the service, applications and alerts.

use evenkeel_sdk::{Pass, Stop};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::config::{Config, Source};
use crate::device::{Device, number};
use crate::flow::Offered;
use crate::names;
use crate::primary::Primary;
use crate::state::State;
use crate::words::{
    self, AppsSeen, Boot, Identity, Known, NoArguments, Os, Rendered, ResourcesSeen, SpecFile, SpecFiles,
};

/// Answers as they came.
pub struct Observed {
    /// The four files.
    pub files: SpecFiles,
    /// The boot.
    pub boot: Boot,
    /// What the service sent; nothing where the goal is the object's own spec.
    pub rendered: Rendered,
    /// Who the device is.
    pub identity: Identity,
    /// Alerts.
    pub resources: ResourcesSeen,
    /// Applications.
    pub applications: AppsSeen,
    /// The operating system.
    pub os: Known<Os>,
}

/// Asks for all of it in one round.
///
/// # Errors
/// While an answer is not known yet, or the provider does not answer at all.
pub fn observe(pass: &Pass, config: &Config) -> Result<Observed, Stop> {
    fn put<'p, T: DeserializeOwned>(
        pass: &'p Pass,
        question: &str,
    ) -> evenkeel_sdk::Asked<'p, Result<T, evenkeel_sdk::Failure>> {
        pass.external(words::NAME, question, &NoArguments {}).ask()
    }
    let files = put::<SpecFiles>(pass, "spec-files");
    let boot = put::<Boot>(pass, "boot");
    let rendered = match config.source {
        Source::Management => Some(put::<Rendered>(pass, "rendered")),
        Source::Object => None,
    };
    let identity = put::<Identity>(pass, "identity");
    let resources = put::<ResourcesSeen>(pass, "resources");
    let applications = put::<AppsSeen>(pass, "applications");
    let os = put::<Known<Os>>(pass, "os");
    Ok(Observed {
        files: files.read()?.map_err(Stop::Fail)?,
        boot: boot.read()?.map_err(Stop::Fail)?,
        rendered: rendered
            .map(|asked| asked.read())
            .transpose()?
            .transpose()
            .map_err(Stop::Fail)?
            .unwrap_or_default(),
        identity: identity.read()?.map_err(Stop::Fail)?,
        resources: resources.read()?.map_err(Stop::Fail)?,
        applications: applications.read()?.map_err(Stop::Fail)?,
        os: os.read()?.map_err(Stop::Fail)?,
    })
}

/// What is offered, or what is wrong with it.
pub fn offered(config: &Config, rendered: &Rendered, primary: &Primary) -> Result<Option<Offered>, String> {
    match config.source {
        Source::Management => from_service(rendered),
        Source::Object => from_object(primary),
    }
}

fn from_service(rendered: &Rendered) -> Result<Option<Offered>, String> {
    let Some(version) = &rendered.version else { return Ok(None) };
    if number(version).is_none() {
        return Err(format!("the service sent version {version:?}, which is no number: ignored"));
    }
    let spec =
        rendered.device.as_ref().filter(|device| device.get("spec").is_some_and(|spec| !spec.is_null()));
    let Some(device) = spec else {
        return Err(format!("the service sent version {version} without a spec: ignored"));
    };
    let mut device =
        Device::read(device).map_err(|error| format!("version {version} is ignored: {error}"))?;
    device.version.clone_from(version);
    device.hash.clone_from(&rendered.spec_hash);
    Ok(Some(Offered { device, source: words::Source::Rendered(version.clone()), given: None }))
}

/// Most that the host lets through to a provider, less room for the state beside it.
const OBJECT_BYTES_MAX: usize = 200 * 1024;

fn from_object(primary: &Primary) -> Result<Option<Offered>, String> {
    if primary.spec.is_null() {
        return Ok(None);
    }
    let version = match primary.annotations.get(names::RENDERED_VERSION) {
        Some(version) => version.clone(),
        None => primary.generation.to_string(),
    };
    if number(&version).is_none() {
        return Err(format!("annotation {} is {version:?}, which is no number", names::RENDERED_VERSION));
    }
    let hash = primary.annotations.get(names::RENDERED_HASH).cloned().unwrap_or_default();
    let given = json!({
        "apiVersion": format!("{}/{}", names::GROUP, names::VERSION),
        "kind": "Device",
        "metadata": {
            "name": primary.name,
            "annotations": {names::RENDERED_VERSION: version, names::RENDERED_HASH: hash},
        },
        "spec": primary.spec,
    });
    let bytes = given.to_string().len();
    if bytes > OBJECT_BYTES_MAX {
        return Err(format!(
            "the spec is too large: {bytes} bytes, at most {OBJECT_BYTES_MAX} are taken from an object"
        ));
    }
    let device = Device::read(&given).map_err(|error| format!("generation {version} is ignored: {error}"))?;
    Ok(Some(Offered { device, source: words::Source::Given, given: Some(given) }))
}

/// A Device of a spec file; none where it is missing or damaged.
pub fn device_of(file: &SpecFile) -> Option<Device> {
    let content = file.content.as_ref().filter(|_| file.present && file.valid)?;
    let mut device = Device::read(content).ok()?;
    if device.version.is_empty() {
        device.version = "0".to_owned();
    }
    number(&device.version)?;
    Some(device)
}

/// The update state; none where it is missing or damaged.
pub fn state_of(file: &SpecFile) -> Option<State> {
    let content = file.content.as_ref().filter(|_| file.present && file.valid)?;
    let state: State = serde_json::from_value(content.clone()).ok()?;
    (state.schema == 1).then_some(state)
}

/// `rollback.json` cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged;

/// What `rollback.json` says: the way back, nothing, or that it is damaged.
pub fn way_back_of(file: &SpecFile) -> Result<Option<words::WayBack>, Damaged> {
    let content = file.content.as_ref().filter(|_| file.present && file.valid).ok_or(Damaged)?;
    let device = Device::read(content).map_err(|_| Damaged)?;
    let of = |key: &str| device.annotations.get(key).cloned().unwrap_or_default();
    let desired_version = of(names::DESIRED_VERSION);
    if device.version.is_empty() || desired_version.is_empty() {
        return Ok(None);
    }
    Ok(Some(words::WayBack {
        version: device.version.clone(),
        os_image: device.spec.os.image.clone().unwrap_or_default(),
        desired_version,
        desired_spec_hash: of(names::DESIRED_HASH),
    }))
}

/// The Device object's spec shows that there is none.
pub fn is_empty(spec: &Value) -> bool {
    spec.as_object().is_none_or(serde_json::Map::is_empty)
}
