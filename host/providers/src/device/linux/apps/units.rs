//! What is added to an application's files so that it can be run: its environment, and units around its containers.

use std::fmt::Write;

use evenkeel_core::contract::Failure;
use serde_json::Value;

use super::super::trouble::invalid;
use super::text;
use crate::device::application::Files;

/// Completes the files of an application of this type.
pub(super) fn complete(kind: &str, id: &str, app: &Value, files: &mut Files) -> Result<(), Failure> {
    match kind {
        "compose" => {
            if let Some(variables) = environment(app)? {
                files.insert(".env".to_owned(), variables.into_bytes());
            }
            Ok(())
        }
        "container" => {
            let unit = container(id, app)?;
            files.insert(format!("{id}.container"), unit.into_bytes());
            Ok(())
        }
        "quadlet" => Ok(()),
        other => Err(invalid(format!("this host does not run applications of type {other:?}"))),
    }
}

/// The services that systemd makes of quadlet files.
pub(super) fn services(files: &[String]) -> Vec<String> {
    let mut services: Vec<String> = files
        .iter()
        .filter_map(|path| {
            let name = path.rsplit('/').next()?;
            let (stem, ending) = name.rsplit_once('.')?;
            match ending {
                "container" | "kube" => Some(format!("{stem}.service")),
                "pod" => Some(format!("{stem}-pod.service")),
                _ => None,
            }
        })
        .collect();
    services.sort();
    services
}

fn variables(app: &Value) -> Result<Vec<(&str, &str)>, Failure> {
    let all = app.get("envVars").and_then(Value::as_object).into_iter().flatten();
    all.map(|(name, value)| {
        let value = value.as_str().unwrap_or_default();
        let good = !name.is_empty() && name.chars().all(|one| one.is_ascii_alphanumeric() || one == '_');
        if good && !value.contains(['\n', '\0', '\r']) {
            Ok((name.as_str(), value))
        } else {
            Err(invalid(format!("the variable {name:?} cannot be written down")))
        }
    })
    .collect()
}

fn environment(app: &Value) -> Result<Option<String>, Failure> {
    let variables = variables(app)?;
    if variables.is_empty() {
        return Ok(None);
    }
    Ok(Some(variables.iter().fold(String::new(), |mut text, (name, value)| {
        let value = value.replace('\\', "\\\\").replace('\'', "\\'");
        let _ = writeln!(text, "{name}='{value}'");
        text
    })))
}

fn container(id: &str, app: &Value) -> Result<String, Failure> {
    let image = text(app, "image");
    if image.is_empty() || image.contains(char::is_whitespace) {
        return Err(invalid(format!("the container {id} has no image")));
    }
    let mut unit =
        format!("[Unit]\nDescription={id}\n\n[Container]\nContainerName={id}\nImage={image}\nPull=never\n");
    for (name, value) in variables(app)? {
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%");
        let _ = writeln!(unit, "Environment=\"{name}={value}\"");
    }
    for port in app.get("ports").and_then(Value::as_array).into_iter().flatten() {
        let port = port.as_str().unwrap_or_default();
        let good = port.split(':').count() == 2 && port.chars().all(|one| one.is_ascii_digit() || one == ':');
        if !good {
            return Err(invalid(format!("a port of the container {id} is none such as 8080:80")));
        }
        let _ = writeln!(unit, "PublishPort={port}");
    }
    for volume in app.get("volumes").and_then(Value::as_array).into_iter().flatten() {
        let (name, path) = (text(volume, "name"), volume.pointer("/mount/path").and_then(Value::as_str));
        let Some(path) = path.filter(|path| path.starts_with('/') && !path.contains(char::is_whitespace))
        else {
            return Err(invalid(format!("a volume of the container {id} has no mount path")));
        };
        if name.is_empty() || !name.chars().all(|one| one.is_ascii_alphanumeric() || "-_.".contains(one)) {
            return Err(invalid(format!("a volume of the container {id} has no name")));
        }
        let _ = writeln!(unit, "Volume={id}-{name}:{path}");
    }
    let limit = |name: &str| app.pointer(&format!("/resources/limits/{name}")).and_then(Value::as_str);
    for (name, flag) in [("cpu", "--cpus"), ("memory", "--memory")] {
        if let Some(value) =
            limit(name).filter(|value| value.chars().all(|one| one.is_ascii_alphanumeric() || one == '.'))
        {
            let _ = writeln!(unit, "PodmanArgs={flag}={value}");
        }
    }
    unit.push_str("\n[Service]\nRestart=on-failure\n\n[Install]\nWantedBy=multi-user.target\n");
    Ok(unit)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_container_becomes_a_quadlet() {
        let app = json!({
            "appType": "container", "image": "quay.io/x/web:1", "envVars": {"A": "50% \"b\""}, "ports": ["8080:80"],
            "volumes": [{"name": "data", "mount": {"path": "/data"}}], "resources": {"limits": {"cpu": "0.5"}},
        });
        let mut files = Files::new();
        complete("container", "web-1", &app, &mut files).expect("complete");
        let unit = String::from_utf8(files.remove("web-1.container").expect("a unit")).expect("text");
        expect![[r#"
            [Unit]
            Description=web-1

            [Container]
            ContainerName=web-1
            Image=quay.io/x/web:1
            Pull=never
            Environment="A=50%% \"b\""
            PublishPort=8080:80
            Volume=web-1-data:/data
            PodmanArgs=--cpus=0.5

            [Service]
            Restart=on-failure

            [Install]
            WantedBy=multi-user.target
        "#]]
        .assert_eq(&unit);
        let bad = json!({"image": "x", "envVars": {"A": "b\n[Service]\nExecStart=/bin/evil"}});
        assert!(
            complete("container", "web-1", &bad, &mut files).is_err(),
            "a value cannot add lines to a unit"
        );
    }

    #[test]
    fn systemd_makes_a_service_of_each_container() {
        let files = ["web.container", "data.volume", "all.pod", "x/y.kube"].map(str::to_owned);
        assert_eq!(services(&files), ["all-pod.service", "web.service", "y.service"]);
    }
}
