//! A device without credentials gets some from the service, whatever the service does meanwhile.

use std::os::unix::fs::PermissionsExt;

use rcgen::{KeyPair, PublicKeyData, SignatureAlgorithm};
use ring::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use rustls::pki_types::CertificateSigningRequestDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};

use super::fixture::{Act, Fixture, device, wait_until};

/// A public key of P-256, as a point.
struct Point(Vec<u8>);

impl PublicKeyData for Point {
    fn der_bytes(&self) -> &[u8] {
        &self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &rcgen::PKCS_ECDSA_P256_SHA256
    }
}

/// The first element of some DER, the content of that, and what comes after it.
fn element(der: &[u8]) -> (&[u8], &[u8], &[u8]) {
    let (length, head) = match der[1] {
        short @ 0..=0x7f => (usize::from(short), 2),
        0x81 => (usize::from(der[2]), 3),
        _ => (usize::from(der[2]) << 8 | usize::from(der[3]), 4),
    };
    (&der[..head + length], &der[head..head + length], &der[head + length..])
}

/// The key that a signing request is for; it has signed the request, and the request bears the device's name.
fn signed_by(request: &Value) -> Point {
    let pem = request["spec"]["csr"].as_str().expect("a signing request");
    let der = CertificateSigningRequestDer::from_pem_slice(pem.as_bytes()).expect("PEM");
    let (_, whole, _) = element(&der);
    let (info, _, rest) = element(whole);
    let (_, _, rest) = element(rest);
    let (_, signature, _) = element(rest);
    assert!(info.windows(6).any(|bytes| bytes == b"device"), "the name is in it");
    // A bit string of 65 bytes that begins as an uncompressed point does.
    let at = info.windows(4).position(|bytes| bytes == [3, 0x42, 0, 4]).expect("a key");
    let point = info[at + 3..at + 68].to_vec();
    let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, &point);
    key.verify(info, &signature[1..]).expect("a signature by the key that is in it");
    Point(point)
}

fn condition(type_: &str, message: &str) -> Value {
    json!([{"type": type_, "status": "True", "reason": "r", "message": message}])
}

/// A device that may enrol, at a service that has version 6 for it.
async fn new(servers: usize) -> Fixture {
    let world = Fixture::new(servers).await;
    world.unenrol();
    world.let_enrol();
    for server in 0..servers {
        world.play(server, [Act::Answer(200, device("6"))]);
    }
    world
}

async fn asked(world: &Fixture, server: usize) -> Value {
    wait_until("it asks to be enrolled", || !world.enrolments(server).is_empty()).await;
    world.enrolments(server).pop().expect("a request")
}

async fn approve(world: &Fixture, server: usize) {
    let request = asked(world, server).await;
    let certificate = world.issue(&signed_by(&request));
    world.decide(server, json!({"conditions": condition("Approved", ""), "certificate": certificate}));
}

async fn is_enrolled(world: &Fixture) {
    let rendered = world.rendered(|rendered| rendered.version.is_some()).await;
    assert_eq!((rendered.version.as_deref(), rendered.error), (Some("6"), None));
}

async fn told(world: &Fixture, words: &str) {
    world.rendered(|rendered| rendered.error.as_ref().is_some_and(|error| error.contains(words))).await;
}

fn mode(world: &Fixture, name: &str) -> u32 {
    let found = std::fs::metadata(world.certificate_file(name)).expect("a file");
    found.permissions().mode() & 0o7777
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_device_makes_a_key_asks_for_a_certificate_and_waits_for_somebody_to_approve() {
    let mut world = new(1).await;
    world.start();
    let request = asked(&world, 0).await;
    assert_eq!(
        (request["kind"].as_str(), request["metadata"]["name"].as_str()),
        (Some("EnrollmentRequest"), Some("device"))
    );
    assert!(!request.to_string().contains("PRIVATE KEY"), "the key stays on the device");
    told(&world, "waiting until the service approves that device is enrolled").await;
    world.decide(0, json!({"conditions": condition("Approved", ""), "certificate": ""}));
    told(&world, "waiting until the service approves").await;
    assert!(!world.certificate_file("agent.crt").exists());
    assert_eq!(world.enrolments(0).len(), 1, "it asks once");
    approve(&world, 0).await;
    is_enrolled(&world).await;
    assert_eq!((mode(&world, "agent.key"), mode(&world, "agent.crt")), (0o600, 0o600));
    assert!(world.enrolment().0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_denial_is_told_with_its_reason_and_a_request_that_is_gone_is_made_anew() {
    let mut world = new(1).await;
    world.start();
    asked(&world, 0).await;
    world.decide(0, json!({"conditions": condition("Denied", "nobody knows it")}));
    told(&world, "the service has denied to enrol this device: nobody knows it").await;
    assert!(!world.certificate_file("agent.crt").exists());
    world.lose_enrolment(0);
    wait_until("it asks again", || world.enrolments(0).len() == 2).await;
    approve(&world, 0).await;
    is_enrolled(&world).await;
}

async fn check_hindrance(act: Act, words: &str) {
    let mut world = new(2).await;
    world.hinder(0, [act]);
    // It is asked next, and takes its time: until then the trouble stands.
    world.hinder(1, [Act::Hang]);
    world.start();
    told(&world, words).await;
    approve(&world, 0).await;
    is_enrolled(&world).await;
    assert_eq!(world.hindrances(1), 0, "the other server was asked");
    assert!(!format!("{:?}", world.now().error).contains("hunter2"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_fails_is_told_and_another_server_is_asked() {
    check_hindrance(Act::Answer(503, "hunter2".to_owned()), "HTTP 503").await;
    check_hindrance(Act::Answer(401, String::new()), "HTTP 401").await;
    check_hindrance(Act::Answer(200, "{\"status\": \"hunter2".to_owned()), "in no JSON object").await;
    check_hindrance(Act::Truncated("{}".to_owned()), "closed the connection in the midst of an answer").await;
    check_hindrance(Act::Close, "closed the connection").await;
    check_hindrance(Act::Hang, "does not answer in time").await;
    check_hindrance(Act::Garbage, "does not answer in HTTP").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_for_another_key_and_one_that_is_none_are_not_kept() {
    let mut world = new(1).await;
    world.start();
    asked(&world, 0).await;
    let other = world.issue(&KeyPair::generate().expect("a key"));
    let approved =
        |certificate: &str| json!({"conditions": condition("Approved", ""), "certificate": certificate});
    world.decide(0, approved(&other));
    told(&world, "the certificate that the service has issued is not for this device's key").await;
    world.decide(0, approved("hunter2"));
    told(&world, "the service has issued no certificate in PEM").await;
    assert!(!world.certificate_file("agent.crt").exists());
    approve(&world, 0).await;
    is_enrolled(&world).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_device_that_died_while_it_waited_goes_on_with_the_same_key() {
    let mut world = new(1).await;
    world.start();
    asked(&world, 0).await;
    world.stop();
    let key = std::fs::read(world.certificate_file("agent.key")).expect("a key");
    world.start();
    approve(&world, 0).await;
    is_enrolled(&world).await;
    assert_eq!(std::fs::read(world.certificate_file("agent.key")).expect("a key"), key);
    assert_eq!(world.enrolments(0).len(), 1, "the request was there already");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_device_that_the_service_forgot_enrols_itself_anew_with_another_key() {
    let mut world = Fixture::new(1).await;
    world.let_enrol();
    let before = std::fs::read(world.certificate_file("agent.key")).expect("a key");
    world.play(0, [Act::Answer(404, json!({"message": "Device \"device\" not found"}).to_string())]);
    world.start();
    world.rendered(|rendered| rendered.gone).await;
    world.play(0, [Act::Answer(200, device("6"))]);
    approve(&world, 0).await;
    is_enrolled(&world).await;
    assert_ne!(std::fs::read(world.certificate_file("agent.key")).expect("a key"), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_cannot_be_read_is_left_as_it_is_and_told() {
    let mut world = new(1).await;
    std::fs::write(world.certificate_file("agent.key"), "half a k").expect("a file");
    world.start();
    told(&world, "agent.key holds no key in PEM").await;
    assert_eq!(std::fs::read_to_string(world.certificate_file("agent.key")).expect("a file"), "half a k");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_that_is_renewed_is_taken_up_and_is_no_other_device() {
    let mut world = Fixture::new(1).await;
    world.play(0, [Act::Answer(200, device("6"))]);
    world.start();
    is_enrolled(&world).await;
    let before = world.enrolment();
    let pem = std::fs::read_to_string(world.certificate_file("agent.key")).expect("a key");
    let renewed = world.issue(&KeyPair::from_pem(&pem).expect("a key"));
    std::fs::write(world.certificate_file("agent.crt"), renewed).expect("a file");
    world.play(0, [Act::Close, Act::Answer(200, device("7"))]);
    let rendered = world.rendered(|rendered| rendered.version.as_deref() == Some("7")).await;
    assert!(rendered.reachable);
    assert_eq!(world.enrolment(), before);
}
