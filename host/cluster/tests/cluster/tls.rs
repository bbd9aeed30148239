use std::sync::Arc;

use evenkeel_cluster::{Cluster, ClusterOptions, Depth, Scope};
use evenkeel_core::admit::Write;
use evenkeel_sandbox::{Cut, ListenOptions, Sandbox, SandboxOptions};
use kube::config::{KubeConfigOptions, Kubeconfig};

use crate::world::{config_map, gvk, show};

async fn client(kubeconfig: &str) -> kube::Client {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).expect("a kubeconfig");
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.expect("a config");
    kube::Client::try_from(config).expect("a client")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_works_over_tls_on_several_threads() {
    let clock = Arc::new(|| jiff::Timestamp::UNIX_EPOCH);
    let sandbox = Sandbox::new(SandboxOptions::new(clock.clone()));
    let listening = sandbox.serve(ListenOptions { port: 0 }).await.expect("loopback");
    let cluster = Cluster::new(client(&listening.kubeconfig).await, ClusterOptions::new(clock));
    let mut feed = cluster.events().expect("the first to ask");
    let kind = gvk("ConfigMap");
    cluster.want(&kind, Scope::All, Depth::Whole);
    cluster.settled(&kind, &Scope::All, Depth::Whole).await;
    while cluster.unread() > 0 {
        feed.recv().await;
    }
    // The same over a connection that was lost.
    for round in 0..3 {
        let name = format!("default/x{round}");
        let object = config_map(&name);
        let body = format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"x{round}","namespace":"default"}}}}"#
        );
        let write =
            Write::Create { object: object.clone(), body: body.into(), manager: "evenkeel/kite/user".into() };
        let written = cluster.write(&write).await.expect("it is written").expect("it is there");
        assert_eq!(show(&written), name);
        assert_eq!(cluster.peek(&object).as_deref(), Some(&*written));
        feed.recv().await.expect("our own write is told");
        let seen = serde_json::json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": format!("other{round}"), "namespace": "default" },
        });
        sandbox.put(seen).expect("a ConfigMap");
        // After a cut the list may be told as in sync, too.
        let other = config_map(&format!("default/other{round}"));
        while cluster.peek(&other).is_none() {
            feed.recv().await.expect("what another wrote comes by the watch");
        }
        sandbox.cut_watches(&Cut::default());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_not_there_is_told_in_words() {
    let config = kube::Config::new("https://127.0.0.1:9".parse().expect("an address"));
    let client = kube::Client::try_from(config).expect("a client");
    let cluster = Cluster::new(client, ClusterOptions::new(Arc::new(|| jiff::Timestamp::UNIX_EPOCH)));
    assert!(cluster.reach().await.is_err(), "nobody listens");
    let failure = cluster.resolve(&gvk("Deployment.apps")).await.expect_err("nobody listens");
    assert_eq!(failure.kind, evenkeel_core::contract::FailureKind::Transient);
    let message = failure.message;
    assert!(
        message.starts_with("cannot find Deployment.apps: the connection to the API server failed: "),
        "{message}"
    );
    assert!(message.contains("Connection refused"), "{message}");
}
