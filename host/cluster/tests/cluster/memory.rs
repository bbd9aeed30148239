//! What 10,000 objects of 3 KB take.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::sync::Arc;

use evenkeel_cluster::{Cluster, ClusterOptions, Depth, Scope};
use http::{Request, Response};
use kube::client::Body;

use crate::world::gvk;

const OBJECTS: usize = 10_000;

/// A ConfigMap of about 3 KB, of which managed fields are 500 bytes, as they are on real ones.
fn object(number: usize, out: &mut String) {
    let _ = write!(
        out,
        r#"{{"metadata":{{"name":"object-{number:05}","namespace":"tenant-{}","uid":"3f2c1d8e-0000-4000-8000-{number:012}","resourceVersion":"{}","creationTimestamp":"2026-01-01T00:00:00Z","labels":{{"app.kubernetes.io/name":"kite","app.kubernetes.io/instance":"object-{number}"}},"managedFields":[{{"manager":"kubectl","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{{"f:data":{{"f:{}":{{}}}}}}}}]}},"data":{{"text":"{}"}}}}"#,
        number / 100,
        1_000 + number,
        "k".repeat(400),
        "v".repeat(2_100),
    );
}

/// Serves a list in pages and a watch that says nothing, and keeps none of it.
async fn answer(request: Request<Body>) -> Result<Response<Body>, Infallible> {
    let uri = request.uri();
    let query = uri.query().unwrap_or_default();
    let text = if uri.path() == "/api/v1" {
        r#"{"resources":[{"name":"configmaps","kind":"ConfigMap","namespaced":true,"verbs":["list","watch"]}]}"#.into()
    } else if query.contains("watch=true") {
        std::future::pending::<()>().await;
        String::new()
    } else {
        let from = query.split("continue=").nth(1).and_then(|from| from.parse().ok()).unwrap_or(0);
        let to = (from + 500).min(OBJECTS);
        let mut text = String::from(r#"{"items":["#);
        for number in from..to {
            if number > from {
                text.push(',');
            }
            object(number, &mut text);
        }
        let next = if to < OBJECTS { to.to_string() } else { String::new() };
        let _ = write!(text, r#"],"metadata":{{"resourceVersion":"50000","continue":"{next}"}}}}"#);
        text
    };
    Ok(Response::new(Body::from(text.into_bytes())))
}

fn resident_kib() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.parse().ok())
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_objects_stay_small() {
    let client = kube::Client::new(tower::service_fn(answer), "default");
    let cluster = Cluster::new(client, ClusterOptions::new(Arc::new(|| jiff::Timestamp::UNIX_EPOCH)));
    let before = resident_kib();
    cluster.want(&gvk("ConfigMap"), Scope::All, Depth::Whole);
    cluster.settled(&gvk("ConfigMap"), &Scope::All, Depth::Whole).await;
    let after = resident_kib();
    let stats = &cluster.stats().kinds[0];
    assert_eq!(stats.objects, OBJECTS);
    // Other tests share the process, so what it has in all is told and only what we count is held to the limit.
    let counted = stats.bytes as f64 / OBJECTS as f64 / 1024.0;
    let resident = before.zip(after).map_or(0.0, |(before, after)| (after - before) / OBJECTS as f64);
    println!("KiB an object: counted {counted:.2}, resident {resident:.2}");
    assert!(counted < 3.6, "{counted} KiB an object");
}
