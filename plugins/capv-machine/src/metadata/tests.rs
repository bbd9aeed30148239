//! What a guest is told, and when two documents tell the same.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;
use crate::api::Network;
use crate::names;

const MACS: &[&str] = &["00:50:56:AA:BB:01", "00:50:56:aa:bb:02"];

fn network(yaml: &str) -> Network {
    serde_saphyr::from_str(yaml).unwrap()
}

fn check(given: &str, expected: Expect) {
    let document = render("m-0", &network(given), MACS);
    let text = STANDARD.decode(&encoded(&document)[names::METADATA]).unwrap();
    expected.assert_eq(&String::from_utf8(text).unwrap());
}

fn extra(metadata: &str, encoding: Option<&str>) -> BTreeMap<String, String> {
    let mut pairs = BTreeMap::from([(names::METADATA.to_owned(), metadata.to_owned())]);
    pairs.extend(encoding.map(|encoding| (names::METADATA_ENCODING.to_owned(), encoding.to_owned())));
    pairs
}

fn is_read_as_wanted(metadata: &str, encoding: Option<&str>) -> bool {
    let wanted = render("m-0", &network(DHCP), MACS);
    of_vm(&extra(metadata, encoding)).is_some_and(|present| present.tells_as(&wanted))
}

const DHCP: &str = "devices: [{networkName: n, dhcp4: true}]";

/// The document of [`DHCP`], with other keys first, another format, and letters in another case.
const SAME: &str = r#"{"network": {"ethernets": {"id0": {"dhcp6": false, "dhcp4": true, "set-name": "eth0",
    "wakeonlan": true, "match": {"macaddress": "00:50:56:aA:bB:01"}}}, "version": 2},
    "wait-on-network": {"ipv4": true}, "local-hostname": "m-0", "instance-id": "m-0"}"#;

#[test]
fn a_device_with_dhcp_says_so_for_both_families() {
    check(
        DHCP,
        expect![[r#"
            instance-id: 'm-0'
            local-hostname: 'm-0'
            wait-on-network:
              ipv4: true
              ipv6: false
            network:
              version: 2
              ethernets:
                id0:
                  match:
                    macaddress: '00:50:56:aa:bb:01'
                  set-name: 'eth0'
                  wakeonlan: true
                  dhcp4: true
                  dhcp6: false
                  accept-ra: false
        "#]],
    );
}

#[test]
fn static_addresses_count_for_what_the_guest_waits_for() {
    check(
        "devices: [{networkName: n, deviceName: ens192, ipAddrs: [10.0.0.11/24, '2001:DB8::11/64'], gateway4: 10.0.0.1, gateway6: '2001:db8::1', mtu: 9000, nameservers: [10.0.0.53], searchDomains: [lab.test]}]",
        expect![[r#"
            instance-id: 'm-0'
            local-hostname: 'm-0'
            wait-on-network:
              ipv4: true
              ipv6: true
            network:
              version: 2
              ethernets:
                id0:
                  match:
                    macaddress: '00:50:56:aa:bb:01'
                  set-name: 'ens192'
                  wakeonlan: true
                  dhcp4: false
                  dhcp6: false
                  accept-ra: false
                  addresses:
                  - '10.0.0.11/24'
                  - '2001:DB8::11/64'
                  gateway4: '10.0.0.1'
                  gateway6: '2001:db8::1'
                  mtu: 9000
                  nameservers:
                    addresses:
                    - '10.0.0.53'
                    search:
                    - 'lab.test'
        "#]],
    );
}

#[test]
fn routes_of_the_machine_are_given_to_each_device_and_never_to_the_network() {
    check(
        "{devices: [{networkName: n, dhcp4: true, routes: [{to: 10.2.0.0/16, via: 10.0.0.2}]}, {networkName: n, dhcp6: true}], routes: [{to: default, via: 10.0.0.1, metric: 7}]}",
        expect![[r#"
            instance-id: 'm-0'
            local-hostname: 'm-0'
            wait-on-network:
              ipv4: true
              ipv6: true
            network:
              version: 2
              ethernets:
                id0:
                  match:
                    macaddress: '00:50:56:aa:bb:01'
                  set-name: 'eth0'
                  wakeonlan: true
                  dhcp4: true
                  dhcp6: false
                  accept-ra: false
                  routes:
                  - to: '10.2.0.0/16'
                    via: '10.0.0.2'
                  - to: 'default'
                    via: '10.0.0.1'
                    metric: 7
                id1:
                  match:
                    macaddress: '00:50:56:aa:bb:02'
                  set-name: 'eth1'
                  wakeonlan: true
                  dhcp4: false
                  dhcp6: true
                  accept-ra: true
                  routes:
                  - to: 'default'
                    via: '10.0.0.1'
                    metric: 7
        "#]],
    );
}

#[test]
fn of_dhcp_only_what_is_set_is_overridden() {
    check(
        "devices: [{networkName: n, dhcp4: true, dhcp4Overrides: {useDNS: false, routeMetric: 5, useDomains: route}, dhcp6: true, dhcp6Overrides: {}}]",
        expect![[r#"
            instance-id: 'm-0'
            local-hostname: 'm-0'
            wait-on-network:
              ipv4: true
              ipv6: true
            network:
              version: 2
              ethernets:
                id0:
                  match:
                    macaddress: '00:50:56:aa:bb:01'
                  set-name: 'eth0'
                  wakeonlan: true
                  dhcp4: true
                  dhcp6: true
                  accept-ra: true
                  dhcp4-overrides:
                    route-metric: 5
                    use-dns: false
                    use-domains: 'route'
        "#]],
    );
}

#[test]
fn no_text_breaks_the_document() {
    for text in ["a\"b", "a: b", "- x", "#", "'", "yes", "1e3", "\\", "{", "é", "null", "~", "0x1f", "  "] {
        let mut given = network(DHCP);
        given.devices[0].search_domains = vec![text.to_owned()];
        let document = render(text, &given, MACS);
        let read = of_vm(&encoded(&document));
        assert_eq!(read.as_ref(), Some(&document), "{text:?}");
    }
}

#[test]
fn a_document_is_encoded_once() {
    let document = render("m-0", &network(DHCP), MACS);
    let pairs = encoded(&document);
    assert_eq!(pairs[names::METADATA_ENCODING], BASE64);
    let text = String::from_utf8(STANDARD.decode(&pairs[names::METADATA]).unwrap()).unwrap();
    assert!(text.starts_with("instance-id: 'm-0'\n"), "{text}");
}

#[test]
fn another_format_or_order_tells_the_same() {
    assert!(is_read_as_wanted(SAME, None));
    assert!(is_read_as_wanted(&STANDARD.encode(SAME), Some("base64")));
    assert!(is_read_as_wanted(&STANDARD.encode(SAME), Some("b64")));
    let lines = STANDARD.encode(SAME).replace('a', "a\n");
    assert!(is_read_as_wanted(&lines, Some("base64")));
}

#[test]
fn compressed_metadata_is_read() {
    use std::io::Write;
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(SAME.as_bytes()).unwrap();
    let packed = STANDARD.encode(gzip.finish().unwrap());
    assert!(is_read_as_wanted(&packed, Some("gzip+base64")));
    assert!(is_read_as_wanted(&packed, Some("gz+b64")));
    assert!(!is_read_as_wanted(&packed, Some("base64")));
}

#[test]
fn what_cannot_be_read_is_different() {
    assert!(!is_read_as_wanted("not base64 at all", Some("base64")));
    assert!(!is_read_as_wanted(SAME, Some("rot13")));
    assert!(!is_read_as_wanted("{", None));
    assert!(!is_read_as_wanted("", None));
    assert_eq!(of_vm(&BTreeMap::new()), None);
}

#[test]
fn a_value_that_unpacks_to_more_than_a_document_is_not_read() {
    use std::io::Write;
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(format!("instance-id: {}", "x".repeat(300 * 1024)).as_bytes()).unwrap();
    let bomb = STANDARD.encode(gzip.finish().unwrap());
    assert!(bomb.len() < 2048);
    assert_eq!(of_vm(&extra(&bomb, Some("gzip+base64"))), None);
}

#[test]
fn another_value_is_different() {
    for (from, to) in
        [("m-0", "m-1"), ("\"dhcp4\": true", "\"dhcp4\": false"), ("eth0", "eth1"), ("01\"", "02\"")]
    {
        let other = SAME.replace(from, to);
        assert_ne!(other, SAME);
        assert!(!is_read_as_wanted(&other, None), "{to}");
    }
    let more = SAME.replacen('{', "{\"public-keys\": [a], ", 1);
    assert!(!is_read_as_wanted(&more, None));
}

#[test]
fn user_data_is_encoded_once_even_where_it_looks_encoded() {
    assert_eq!(packed(b"dGVzdA=="), (STANDARD.encode("dGVzdA=="), "base64"));
}

#[test]
fn long_user_data_is_compressed_and_the_same_each_time() {
    let text = "line of user data\n".repeat(3000);
    let (value, encoding) = packed(text.as_bytes());
    assert_eq!(encoding, "gzip+base64");
    assert_eq!(packed(text.as_bytes()), (value.clone(), encoding));
    let mut read = String::new();
    std::io::Read::read_to_string(
        &mut flate2::read::GzDecoder::new(STANDARD.decode(value).unwrap().as_slice()),
        &mut read,
    )
    .unwrap();
    assert_eq!(read, text);
    assert_eq!(packed(&[b'x'; 36 * 1024]).1, "base64");
    assert_eq!(packed(&[b'x'; 36 * 1024 + 1]).1, "gzip+base64");
}

proptest! {
    #[test]
    fn what_was_written_is_read_as_the_same(
        name in "[a-z][a-z0-9.-]{0,20}",
        device in "[a-zA-Z0-9._-]{1,15}",
        domains in prop::collection::vec("\\PC{1,20}", 0..4),
        mtu in prop::option::of(1i32..65536),
        flags in any::<(bool, bool)>(),
    ) {
        let device = crate::api::Device {
            network_name: "n".into(),
            device_name: Some(device),
            search_domains: domains,
            mtu,
            dhcp4: flags.0,
            dhcp6: flags.1,
            ..Default::default()
        };
        let document = render(&name, &Network { devices: vec![device], routes: vec![] }, MACS);
        prop_assert_eq!(of_vm(&encoded(&document)), Some(document));
    }

    #[test]
    fn no_value_of_a_vm_does_harm(value in "\\PC{0,200}", encoding in "(base64|gzip\\+base64||x)") {
        let _ = of_vm(&extra(&value, Some(&encoding)));
    }
}
