use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use expect_test::{Expect, expect};
use serde_json::Value;

use super::*;
use crate::config::RuntimeConfig;
use crate::credentials::{self, Credentials};
use crate::identity::Identity;
use crate::spec::{self, Spec};
use service::Which;

fn machine() -> Identity {
    Identity { namespace: "tenant-a".into(), name: "vm-a".into(), uid: "U1".into() }
}

fn spec(fields: &str) -> Spec {
    let mut spec = serde_json::json!({
        "cpu": 2, "memory": "4Gi", "disk": "25Gi", "image": "ubuntu-22.04", "sshId": "alice",
    });
    let fields: serde_json::Map<_, _> = serde_saphyr::from_str(fields).unwrap();
    spec.as_object_mut().unwrap().extend(fields);
    spec::check("vm-a", &serde_json::from_value(spec).unwrap()).unwrap()
}

fn config(data: &str) -> RuntimeConfig {
    let data: BTreeMap<String, String> = serde_saphyr::from_str(data).unwrap();
    RuntimeConfig::parse(&data)
}

/// The object less its metadata, which is the same for each.
fn check(mut object: Value, expected: Expect) {
    assert_eq!(object["metadata"]["namespace"], "tenant-a");
    assert_eq!(object["metadata"]["labels"], serde_json::json!(machine().labels()));
    object.as_object_mut().unwrap().retain(|key, _| key == "spec");
    expected.assert_eq(&object["spec"].to_string());
}

#[test]
fn a_disk_is_a_clone_of_its_image() {
    check(
        data_volume::data_volume(&machine(), &spec("{}"), &config("{}")),
        expect![[
            r#"{"pvc":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"25Gi"}}},"source":{"pvc":{"name":"ubuntu-22.04","namespace":"kite"}}}"#
        ]],
    );
    let other = config("{vmStorageClassName: fast, goldenImageNamespace: images}");
    check(
        data_volume::data_volume(&machine(), &spec("{}"), &other),
        expect![[
            r#"{"pvc":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"25Gi"}},"storageClassName":"fast"},"source":{"pvc":{"name":"ubuntu-22.04","namespace":"images"}}}"#
        ]],
    );
}

#[test]
fn a_machine_runs_by_its_power_state() {
    check(
        virtual_machine::virtual_machine(&machine(), &spec("{}")),
        expect![[
            r#"{"runStrategy":"Halted","template":{"metadata":{"labels":{"kite.anacnu.com/kite-vm-name":"vm-a","kite.anacnu.com/kite-vm-namespace":"tenant-a","kite.anacnu.com/managed-by":"kite-controller"}},"spec":{"domain":{"devices":{"disks":[{"disk":{"bus":"virtio"},"name":"rootdisk"},{"disk":{"bus":"virtio"},"name":"cloudinitdisk"}]},"resources":{"requests":{"cpu":"2","memory":"4Gi"}}},"volumes":[{"dataVolume":{"name":"vm-a-disk"},"name":"rootdisk"},{"cloudInitNoCloud":{"secretRef":{"name":"vm-a-cloud-init-userdata"}},"name":"cloudinitdisk"}]}}}"#
        ]],
    );
    let on = virtual_machine::virtual_machine(&machine(), &spec("powerState: 'On'"));
    assert_eq!(on["spec"]["runStrategy"], "Always");
}

#[test]
fn services_select_by_kite_s_own_labels() {
    check(
        service::service(&machine(), Which::Ssh),
        expect![[
            r#"{"ports":[{"name":"ssh","port":22,"protocol":"TCP","targetPort":22}],"selector":{"kite.anacnu.com/kite-vm-name":"vm-a","kite.anacnu.com/managed-by":"kite-controller"},"type":"ClusterIP"}"#
        ]],
    );
    check(
        service::service(&machine(), Which::Web),
        expect![[
            r#"{"ports":[{"name":"http","port":80,"protocol":"TCP","targetPort":80}],"selector":{"kite.anacnu.com/kite-vm-name":"vm-a","kite.anacnu.com/managed-by":"kite-controller"},"type":"ClusterIP"}"#
        ]],
    );
}

#[test]
fn an_ingress_has_the_annotations_of_its_class() {
    let render = |data: &str| {
        let mut object = ingress::ingress(&machine(), "app.example.test", &config(data));
        let annotations = object["metadata"]["annotations"].take();
        object["spec"]["annotations"] = annotations;
        object
    };
    check(
        render("{}"),
        expect![[
            r#"{"annotations":{"traefik.ingress.kubernetes.io/router.entrypoints":"websecure","traefik.ingress.kubernetes.io/router.tls":"true"},"ingressClassName":"traefik","rules":[{"host":"app.example.test","http":{"paths":[{"backend":{"service":{"name":"vps-web-vm-a","port":{"number":80}}},"path":"/","pathType":"Prefix"}]}}],"tls":[{"hosts":["app.example.test"]}]}"#
        ]],
    );
    check(
        render("{ingressClassName: nginx, ingressTLSSecretName: tls}"),
        expect![[
            r#"{"annotations":null,"ingressClassName":"nginx","rules":[{"host":"app.example.test","http":{"paths":[{"backend":{"service":{"name":"vps-web-vm-a","port":{"number":80}}},"path":"/","pathType":"Prefix"}]}}],"tls":[{"hosts":["app.example.test"],"secretName":"tls"}]}"#
        ]],
    );
}

fn login(fields: &str) -> (Spec, Credentials) {
    let spec = spec(fields);
    let login = credentials::resolve(&machine(), &spec, None, None).unwrap();
    (spec, login)
}

#[test]
fn user_data_is_yaml_and_never_has_the_password() {
    let (spec, login) = login(r#"sshPassword: "p #x\"y'""#);
    let text = cloud_init::user_data(&machine(), &spec, &login, &config("{}"));
    assert!(text.starts_with("#cloud-config\n{"));
    assert!(!text.contains("p #x"));
    let data: Value = serde_saphyr::from_str(&text).unwrap();
    assert!(data["users"][0]["hashed_passwd"].as_str().unwrap().starts_with("$6$"));
    assert_eq!((&data["ssh_pwauth"], &data["users"][0]["lock_passwd"]), (&true.into(), &false.into()));
    assert_eq!(text, cloud_init::user_data(&machine(), &spec, &login, &config("{}")));
}

#[test]
fn keys_alone_lock_the_password() {
    let (spec, login) = login("sshAuthorizedKeys: [ssh-rsa AAAA]");
    expect![[r##"
        #cloud-config
        {"hostname":"vm-a","disable_root":true,"ssh_deletekeys":true,"ssh_pwauth":false,"users":[{"name":"alice","groups":["adm","sudo"],"shell":"/bin/bash","sudo":["ALL=(ALL) NOPASSWD:ALL"],"lock_passwd":true,"ssh_authorized_keys":["ssh-rsa AAAA"]}],"bootcmd":[["systemctl","mask","systemd-networkd-wait-online.service"],["systemctl","mask","NetworkManager-wait-online.service"]],"write_files":[{"path":"/usr/local/sbin/kite-network-restore.sh","permissions":"0755","content":"#!/bin/sh\n# Brings up the first network interface that is not the loopback, and gets it an address.\nset -u\nfor path in /sys/class/net/*; do\n    interface=$(basename \"$path\")\n    [ \"$interface\" = lo ] && continue\n    [ -e \"$path/device\" ] || continue\n    ip link set \"$interface\" up\n    if command -v dhclient >/dev/null 2>&1; then\n        dhclient \"$interface\"\n    elif command -v netplan >/dev/null 2>&1; then\n        netplan apply\n    else\n        systemctl restart systemd-networkd.service\n    fi\n    break\ndone\n"},{"path":"/etc/systemd/system/kite-network-restore.service","permissions":"0644","content":"[Unit]\nDescription=Bring up the network of a Kite machine\nAfter=systemd-udev-settle.service\nWants=systemd-udev-settle.service\n\n[Service]\nType=oneshot\nExecStart=/usr/local/sbin/kite-network-restore.sh\nRemainAfterExit=yes\n\n[Install]\nWantedBy=multi-user.target\n"}],"runcmd":[["systemctl","daemon-reload"],["systemctl","enable","--now","kite-network-restore.service"]],"final_message":"The Kite machine is ready."}
    "##]].assert_eq(&cloud_init::user_data(&machine(), &spec, &login, &config("{}")));
}

#[test]
fn an_operator_can_forbid_passwords_over_ssh() {
    let (spec, login) = login("sshPassword: secret");
    let text = cloud_init::user_data(&machine(), &spec, &login, &config("guestSSHPasswordAuth: 'false'"));
    assert!(text.contains("\"ssh_pwauth\":false"));
}

#[test]
fn the_secret_holds_the_user_data_as_data() {
    let (spec, login) = login("sshAuthorizedKeys: [ssh-rsa AAAA]");
    let secret = cloud_init::cloud_init(&machine(), &spec, &login, &config("{}"));
    let data = STANDARD.decode(secret["data"]["userdata"].as_str().unwrap()).unwrap();
    assert!(data.starts_with(b"#cloud-config\n"));
    assert_eq!(secret.get("stringData"), None);
}
