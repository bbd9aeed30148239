use expect_test::{Expect, expect};

use super::*;

/// A machine that is fine but for the fields given.
fn check_spec(fields: &str, expected: Expect) {
    check_named("vm-a", fields, expected);
}

fn check_named(name: &str, fields: &str, expected: Expect) {
    let mut spec = serde_json::json!({
        "cpu": 2, "memory": "4Gi", "disk": "25Gi", "image": "ubuntu-22.04", "sshId": "alice",
    });
    let fields: serde_json::Map<_, _> = serde_saphyr::from_str(fields).unwrap();
    spec.as_object_mut().unwrap().extend(fields);
    let text = match check(name, &serde_json::from_value(spec).unwrap()) {
        Ok(spec) => format!(
            "cpu={} memory={} disk={} power={} login={} keys={}",
            spec.cpu,
            spec.memory,
            spec.disk,
            spec.power.as_str(),
            spec.login,
            spec.keys.len()
        ),
        Err(problems) => problems,
    };
    expected.assert_eq(&text);
}

#[test]
fn a_plain_machine_is_off() {
    check_spec("{}", expect!["cpu=2 memory=4Gi disk=25Gi power=Off login=alice keys=0"]);
    check_spec("powerState: ''", expect!["cpu=2 memory=4Gi disk=25Gi power=Off login=alice keys=0"]);
    check_spec("powerState: 'Off'", expect!["cpu=2 memory=4Gi disk=25Gi power=Off login=alice keys=0"]);
}

#[test]
fn the_user_s_own_notation_is_kept() {
    check_spec(
        "{memory: ' 4096Mi ', disk: '30G', powerState: 'On'}",
        expect!["cpu=2 memory=4096Mi disk=30G power=On login=alice keys=0"],
    );
}

#[test]
fn every_problem_is_told_sorted() {
    check_spec(
        "{cpu: 0, memory: 4gi, disk: '', sshId: Bob}",
        expect![
            "spec.cpu: must be 1 to 128; spec.disk: must be a quantity of 1Gi to 64Ti, as 25Gi; spec.memory: must be a quantity of 64Mi to 4Ti, as 4Gi; spec.sshId: must be a login name in lower case of at most 32 characters"
        ],
    );
}

#[test]
fn what_is_missing_is_a_problem() {
    check_spec(
        "{cpu: null, memory: null, disk: null, image: null, sshId: null}",
        expect![
            "spec.cpu: must be 1 to 128; spec.disk: must be a quantity of 1Gi to 64Ti, as 25Gi; spec.image: must be the name of an image; spec.memory: must be a quantity of 64Mi to 4Ti, as 4Gi; spec.sshId: must be a login name in lower case of at most 32 characters"
        ],
    );
}

#[test]
fn memory_in_another_notation_or_out_of_range_is_refused() {
    for memory in ["1e9", "-1Gi", "0", "4Gi\\n  x: y", "4Gi\\n", "63Mi", "5Ti"] {
        check_spec(
            &format!("memory: \"{memory}\""),
            expect!["spec.memory: must be a quantity of 64Mi to 4Ti, as 4Gi"],
        );
    }
}

#[test]
fn an_image_that_would_restructure_a_template_is_refused() {
    check_spec(r#"image: "x\n      namespace: victim""#, expect!["spec.image: must be the name of an image"]);
}

#[test]
fn another_power_state_is_refused() {
    check_spec("powerState: Paused", expect!["spec.powerState: must be On or Off"]);
}

#[test]
fn nobody_logs_in_as_a_system_account() {
    for login in ["root", "www-data", "syslog"] {
        check_spec(&format!("sshId: {login}"), expect!["spec.sshId: is a system account"]);
    }
    check_spec("sshId: _svc-1", expect!["cpu=2 memory=4Gi disk=25Gi power=Off login=_svc-1 keys=0"]);
    for login in ["1a", "-a", "a.b", "a b", "a\\nb"] {
        check_spec(
            &format!("sshId: \"{login}\""),
            expect!["spec.sshId: must be a login name in lower case of at most 32 characters"],
        );
    }
}

#[test]
fn a_password_that_shadow_files_cannot_hold_is_refused_without_being_shown() {
    for password in ["p: #x\\\"y", "a\\nb", "a\\u007fb"] {
        check_spec(
            &format!("sshPassword: \"{password}\""),
            expect!["spec.sshPassword: must not have a colon or control characters"],
        );
    }
    check_spec("sshPassword: ' a'", expect!["spec.sshPassword: must not begin or end with a space"]);
    check_spec("sshPassword: ''", expect!["spec.sshPassword: must have 1 to 128 bytes"]);
    check_spec(
        &format!("sshPassword: {}", "a".repeat(129)),
        expect!["spec.sshPassword: must have 1 to 128 bytes"],
    );
    check_spec(
        r#"sshPassword: "p #x\"y'""#,
        expect!["cpu=2 memory=4Gi disk=25Gi power=Off login=alice keys=0"],
    );
}

#[test]
fn keys_are_one_line_of_a_known_type() {
    check_spec(
        "sshAuthorizedKeys: [ssh-ed25519 AAAA me, sk-ssh-ed25519@openssh.com AAAA]",
        expect!["cpu=2 memory=4Gi disk=25Gi power=Off login=alice keys=2"],
    );
    for key in ["ssh-dss AAAA", "ssh-rsa ", "ssh-rsa AAAA\\nssh-rsa BBBB", "ssh-rsa ä", ""] {
        check_spec(
            &format!("sshAuthorizedKeys: [\"{key}\"]"),
            expect!["spec.sshAuthorizedKeys: must be public keys in OpenSSH's form, one a line"],
        );
    }
    check_spec(
        &format!("sshAuthorizedKeys: [{}]", vec!["ssh-rsa A"; 17].join(", ")),
        expect!["spec.sshAuthorizedKeys: must be at most 16 keys"],
    );
}

#[test]
fn a_name_leaves_room_for_its_services() {
    let longest = "a".repeat(52);
    check_named(&longest, "{}", expect!["cpu=2 memory=4Gi disk=25Gi power=Off login=alice keys=0"]);
    let too_long = "a".repeat(53);
    for name in [too_long.as_str(), "a.b", "A", "-a"] {
        check_named(name, "{}", expect!["metadata.name: must be a DNS label of at most 52 characters"]);
    }
}
