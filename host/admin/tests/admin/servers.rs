//! The pages over HTTP.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_admin::metrics::Metrics;
use evenkeel_admin::pages::Pages;
use evenkeel_admin::server::{Serves, Serving, serve};
use evenkeel_engine::plugin::PluginSettings;
use evenkeel_engine::{Host, HostOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::plugin::{Copier, config_map, sandbox};

struct World {
    host: Host,
    metrics: Serving,
    probes: Serving,
    sandbox: evenkeel_sandbox::Sandbox,
}

async fn world() -> World {
    let sandbox = sandbox(jiff::Timestamp::now);
    let counts = Metrics::new("api.example:6443");
    let client = kube::Client::new(sandbox.service(), "default");
    let options = HostOptions { observer: Some(counts.clone()), ..HostOptions::new(client) };
    let host = Host::start(options).expect("a host");
    let pages = Pages::new(host.clone(), counts, false, None);
    let on = |metrics, probes| serve("127.0.0.1:0", Arc::clone(&pages), Serves { metrics, probes });
    let metrics = on(true, false).await.expect("a port on loopback");
    let probes = on(false, true).await.expect("a port on loopback");
    World { host, metrics, probes, sandbox }
}

/// Sends a request and reads the answer to its end.
async fn ask(server: &Serving, request: &str) -> String {
    let mut stream = TcpStream::connect(server.address).await.expect("a connection");
    let request = format!("{request} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("a request that is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    answer
}

async fn until_ready(world: &World) {
    for _ in 0..500 {
        if ask(&world.probes, "GET /readyz").await.starts_with("HTTP/1.1 200") && world.host.idle() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{}", ask(&world.probes, "GET /readyz").await);
}

#[tokio::test]
async fn each_server_has_its_pages_and_no_others() {
    let world = world().await;
    world.host.load(Copier::new(), PluginSettings::default()).await.expect("a plugin that loads");
    until_ready(&world).await;
    let metrics = ask(&world.metrics, "GET /metrics").await;
    assert!(metrics.starts_with("HTTP/1.1 200"), "{metrics}");
    assert!(metrics.contains("content-type: text/plain; version=0.0.4"), "{metrics}");
    assert!(
        metrics.contains("\nevenkeel_plugin_info{plugin=\"demo\",version=\"1.0.0\",digest=\"sha256:1\"} 1"),
        "{metrics}"
    );
    let ready = ask(&world.probes, "GET /readyz").await;
    assert!(
        ready.contains("\n[+] plugin demo 1.0.0\n") && ready.ends_with("readyz check passed\n"),
        "{ready}"
    );
    for (server, request, code) in [
        (&world.metrics, "GET /readyz", 404),
        (&world.probes, "GET /metrics", 404),
        (&world.probes, "GET /", 404),
        (&world.probes, "POST /livez", 405),
        (&world.probes, "GET /livez", 200),
        (&world.probes, "GET /healthz", 200),
    ] {
        let answer = ask(server, request).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {code}")), "{request}: {answer}");
    }
}

#[tokio::test]
async fn a_plugin_that_is_held_is_named_and_the_host_lives_on() {
    let world = world().await;
    world.host.load(Copier::new(), PluginSettings::default()).await.expect("a plugin that loads");
    for number in 0..6 {
        world.sandbox.put(config_map(&format!("bad-{number}"), "trap")).expect("an object");
    }
    let mut ready = String::new();
    for _ in 0..500 {
        ready = ask(&world.probes, "GET /readyz").await;
        if ready.starts_with("HTTP/1.1 503") && ready.contains("is held") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(ready.contains("[-] plugin demo is held: ") && ready.contains("unreachable executed"), "{ready}");
    let alive = ask(&world.probes, "GET /livez").await;
    assert!(alive.starts_with("HTTP/1.1 200") && alive.contains("[!] plugin demo is held: "), "{alive}");
    let metrics = ask(&world.metrics, "GET /metrics").await;
    assert!(metrics.contains("\nevenkeel_plugin_held{plugin=\"demo\"} 1"), "{metrics}");
}
