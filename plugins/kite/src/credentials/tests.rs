use expect_test::{Expect, expect};

use super::*;

fn machine() -> Identity {
    Identity { namespace: "tenant-a".into(), name: "vm-a".into(), uid: "U1".into() }
}

/// `spec` has `sshPassword` and `sshAuthorizedKeys`; `secrets` has `guest` and `key`, with `stringData` for short.
fn check(spec: &str, secrets: &str, expected: Expect) {
    let mut fields = serde_json::json!({
        "cpu": 2, "memory": "4Gi", "disk": "25Gi", "image": "ubuntu-22.04", "sshId": "alice",
    });
    let given: serde_json::Map<_, _> = serde_saphyr::from_str(spec).unwrap();
    fields.as_object_mut().unwrap().extend(given);
    let spec = crate::spec::check("vm-a", &serde_json::from_value(fields).unwrap()).unwrap();
    let secrets: serde_json::Value = serde_saphyr::from_str(secrets).unwrap();
    let secret = |name: &str| -> Option<LoginSecret> {
        let mut secret = secrets.get(name)?.clone();
        let plain = secret.get("stringData").and_then(|data| data.as_object()).cloned().unwrap_or_default();
        for (key, value) in plain {
            secret["data"][key] = STANDARD.encode(value.as_str().unwrap()).into();
        }
        Some(serde_json::from_value(secret).unwrap())
    };
    let (guest, key) = (secret("guest"), secret("key"));
    let text = match resolve(&machine(), &spec, guest.as_ref(), key.as_ref()) {
        Ok(Credentials { hash, keys, plaintext }) => {
            format!(
                "hash={} keys={keys:?} plaintext={plaintext}",
                hash.as_ref().map_or("none", Hidden::reveal)
            )
        }
        Err(verdict) => format!("{}: {}", verdict.reason(), verdict.message()),
    };
    expected.assert_eq(&text);
}

#[test]
fn the_secret_comes_first() {
    check(
        "{sshPassword: secret, sshAuthorizedKeys: [ssh-rsa AAAA]}",
        "guest: {stringData: {passwordHash: $6$salt$12345678}}",
        expect![[r#"hash=$6$salt$12345678 keys=["ssh-rsa AAAA"] plaintext=false"#]],
    );
}

#[test]
fn an_invalid_hash_is_no_reason_to_fall_back_and_is_not_shown() {
    for secret in [
        "guest: {stringData: {passwordHash: plain}}",
        "guest: {stringData: {passwordHash: \"$6$salt$1234567 8\"}}",
        "guest: {stringData: {passwordHash: \"$6$12345678\\n\"}}",
        "guest: {stringData: {passwordHash: $1$salt$12345678}}",
        "guest: {stringData: {passwordHash: $6$1234567}}",
        "guest: {data: {passwordHash: '%%%'}}",
        "guest: {data: {passwordHash: /w==}}",
        "guest: {}",
    ] {
        check(
            "sshPassword: secret",
            secret,
            expect![
                "InvalidCredentials: the Secret vm-a-guest-login has no passwordHash in crypt form, as $6$salt$hash"
            ],
        );
    }
}

#[test]
fn a_secret_of_another_machine_is_refused() {
    check(
        "{}",
        "guest: {metadata: {labels: {kite.anacnu.com/kite-vm-name: vm-b}}, stringData: {passwordHash: $6$salt$12345678}}",
        expect!["InvalidCredentials: the Secret vm-a-guest-login is labelled for another machine"],
    );
}

#[test]
fn a_labelled_secret_is_this_machine_s() {
    check(
        "{}",
        "guest: {metadata: {labels: {kite.anacnu.com/managed-by: kite-controller, kite.anacnu.com/kite-vm-name: vm-a, kite.anacnu.com/kite-vm-namespace: tenant-a}}, stringData: {passwordHash: $y$j9T$12345678}}",
        expect!["hash=$y$j9T$12345678 keys=[] plaintext=false"],
    );
}

#[test]
fn a_password_becomes_a_hash_of_the_machine_s_own_salt() {
    check(
        r#"sshPassword: "p #x\"y'""#,
        "{}",
        expect![
            "hash=$6$Nsg38ZTa1IN7TfzE$r8zwZ2JiztKn9sJBEJSib5.skinlGs2Lu0F9.6qNecnwkKsR3yfiCoo2GpglRxpC0DUBmmglm0kobZwl1.v.a0 keys=[] plaintext=true"
        ],
    );
}

#[test]
fn keys_alone_are_enough() {
    check(
        "sshAuthorizedKeys: [ssh-rsa AAAA]",
        "key: {stringData: {id_rsa.pub: \"ssh-rsa BBBB me\\n\", id_rsa: private}}",
        expect![[r#"hash=none keys=["ssh-rsa AAAA", "ssh-rsa BBBB me"] plaintext=false"#]],
    );
    check(
        "{}",
        "key: {stringData: {id_rsa.pub: ssh-rsa AAAA}}",
        expect![[r#"hash=none keys=["ssh-rsa AAAA"] plaintext=false"#]],
    );
}

#[test]
fn an_unusable_key_is_as_none() {
    for secret in ["{}", "key: {stringData: {id_rsa.pub: nonsense}}", "key: {stringData: {id_rsa: private}}"]
    {
        check(
            "{}",
            secret,
            expect![
                "MissingCredentials: nobody could log in: create the Secret vm-a-guest-login with a passwordHash, or set spec.sshAuthorizedKeys"
            ],
        );
    }
}

#[test]
fn the_hash_is_that_of_crypt() {
    // What `openssl passwd -6 -salt saltstring "Hello world!"` says.
    let hash = crypt("Hello world!", "saltstring");
    expect![
        "$6$saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLiBFdcbYEdFCoEOfaS35inz1"
    ]
    .assert_eq(hash.reveal());
}

#[test]
fn two_machines_never_share_a_salt() {
    assert_ne!(salt("U1"), salt("U2"));
    assert_eq!(salt("U1").len(), SALT_LENGTH);
    for uid in 0..200 {
        assert!(!salt(&uid.to_string()).contains('+'));
    }
}
