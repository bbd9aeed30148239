mod enrolment;
mod fixture;

use std::time::Duration;

use serde_json::json;

use self::fixture::{Act, Fixture, device, wait_until};
use crate::device::words::Rendered;

/// The answer that nothing is new, after a while.
const NOTHING: Act = Act::Answer(204, String::new());

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_service_sends_is_known_and_asked_for_no_more() {
    let mut world = Fixture::new(1).await;
    world.play(
        0,
        [
            NOTHING,
            Act::Answer(200, device("6")),
            Act::Answer(200, device("5")),
            Act::Answer(409, String::new()),
        ],
    );
    world.start();
    let rendered = world.rendered(|rendered| rendered.version.is_some()).await;
    assert_eq!((rendered.version.as_deref(), rendered.reachable), (Some("6"), true));
    world.asked_at_least(0, 5).await;
    let paths = world.requests(0);
    let known: Vec<&str> =
        paths.iter().filter_map(|path| path.rsplit_once('=').map(|(_, known)| known)).collect();
    assert_eq!(known.get(..5), Some(&["0", "0", "6", "6", "6"][..]), "an older version changes nothing");
    assert!(
        paths
            .iter()
            .all(|path| path.starts_with("GET /api/v1/devices/device/rendered?knownRenderedVersion="))
    );
    assert_eq!(world.now().version.as_deref(), Some("6"));
}

async fn check_trouble(act: Act, words: &str) {
    let mut world = Fixture::new(2).await;
    world.play(0, [act]);
    world.play(1, [Act::Answer(200, device("7"))]);
    world.start();
    let bad = world.rendered(|rendered| rendered.error.is_some()).await;
    let error = bad.error.unwrap_or_default();
    assert!(error.contains(words) && !bad.reachable, "{error}");
    assert!(!error.contains("hunter2"), "{error}");
    // The other server is asked, and has it.
    let good = world.rendered(|rendered| rendered.version.is_some()).await;
    assert_eq!((good.version.as_deref(), good.reachable, good.error), (Some("7"), true, None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_fails_is_left_for_the_next_one() {
    check_trouble(Act::Answer(503, "hunter2".to_owned()), "HTTP 503").await;
    check_trouble(Act::Answer(404, "no such page".to_owned()), "HTTP 404").await;
    check_trouble(Act::Answer(401, String::new()), "HTTP 401").await;
    check_trouble(Act::Answer(200, "{\"spec\": \"hunter2".to_owned()), "in no JSON object").await;
    check_trouble(Act::Answer(200, "[]".to_owned()), "in no JSON object").await;
    check_trouble(Act::Truncated(device("9")), "closed the connection in the midst of an answer").await;
    check_trouble(Act::Close, "closed the connection").await;
    check_trouble(Act::Hang, "does not answer in time").await;
    check_trouble(Act::Garbage, "does not answer in HTTP").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_another_certificate_is_told_nothing() {
    let mut world = Fixture::new(1).await;
    world.distrust();
    world.play(0, [Act::Answer(200, device("6"))]);
    world.start();
    let rendered = world.rendered(|rendered| rendered.error.is_some()).await;
    let error = rendered.error.unwrap_or_default();
    assert!(error.contains("a certificate that is not trusted"), "{error}");
    assert_eq!(world.requests(0), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_device_that_the_service_does_not_know_loses_its_credentials_and_begins_anew_with_others() {
    let mut world = Fixture::new(1).await;
    world.play(
        0,
        [
            Act::Answer(200, device("9")),
            Act::Answer(404, json!({"message": "Device \"device\" not found"}).to_string()),
        ],
    );
    world.start();
    let gone = world.rendered(|rendered| rendered.gone).await;
    assert_eq!((gone.version, gone.device), (None, None));
    wait_until("the credentials are wiped", || !world.has_credentials()).await;
    let before = world.enrolment();
    assert!(!before.0);
    world.play(0, [Act::Answer(200, device("1"))]);
    world.enrol();
    let rendered = world.rendered(|rendered| rendered.version.is_some()).await;
    assert_eq!((rendered.version.as_deref(), rendered.gone), (Some("1"), false));
    assert!(world.enrolment().0 && world.enrolment().1 != before.1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_status_is_sent_when_it_changes_and_when_it_is_asked_for_and_again_where_that_failed() {
    let mut world = Fixture::new(1).await;
    world.refuse_status(1);
    world.start();
    world.set_status(json!({"summary": {"status": "Online"}}));
    wait_until("it is sent once more", || world.statuses().len() == 2).await;
    let body = world.statuses().pop().expect("a status");
    assert_eq!(body["status"]["summary"]["status"], "Online");
    assert_eq!((body["kind"].as_str(), body["metadata"]["name"].as_str()), (Some("Device"), Some("device")));
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(world.statuses().len(), 2, "nothing has changed: nothing is sent");
    world.report();
    wait_until("it is sent because it is asked for", || world.statuses().len() == 3).await;
    world.set_status(json!({"summary": {"status": "Degraded"}}));
    wait_until("a change is sent", || world.statuses().len() == 4).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_device_without_credentials_waits_for_them_and_says_so() {
    let mut world = Fixture::new(1).await;
    world.unenrol();
    world.play(0, [Act::Answer(200, device("6"))]);
    world.start();
    let rendered: Rendered = world.rendered(|rendered| rendered.error.is_some()).await;
    assert!(rendered.error.unwrap_or_default().starts_with("the device is not enrolled"));
    world.enrol();
    world.rendered(|rendered| rendered.version.is_some()).await;
}
