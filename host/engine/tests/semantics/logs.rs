//! What the log says, and of whom.

use std::sync::Arc;

use evenkeel_core::contract::{Gvk, LogLevel, LogLine, Manifest, Request};
use evenkeel_core::guest::{Guest, GuestFuture};
use serde_json::json;

use crate::support::*;

/// Warns in each call.
struct Warning(Arc<Native>);

impl Guest for Warning {
    fn manifest(&self) -> &Manifest {
        Guest::manifest(&*self.0)
    }

    fn digest(&self) -> &str {
        Guest::digest(&*self.0)
    }

    fn reconcile<'a>(&'a self, request: &'a Request) -> GuestFuture<'a> {
        Box::pin(async move {
            let mut reply = self.0.reconcile(request).await?;
            if let Ok(reply) = &mut reply.outcome {
                reply.log.push(LogLine { level: LogLevel::Warn, message: "it is late".into() });
            }
            Ok(reply)
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_pass_is_one_span_and_what_is_logged_in_it_says_whose_pass_it_was() {
    let logged = Logged::start();
    let plugin = Native::new("demo")
        .controller("look", widget_kind(), |call| {
            // Two calls, one pass.
            call.get(&config_map("source"))?;
            done(vec![])
        })
        .may_all(config_map_kind())
        .may_all(widget_kind())
        .build();
    let world = World::with(Arc::new(Warning(plugin.clone()))).await;
    world.apply(widget("x")).await;
    world.settle().await;
    world.apply(widget("y")).await;
    world.settle().await;
    let of = |name: &str| format!("pass plugin=demo controller=look object=Widget a/{name}");
    // The first had to wait for the watch of what it asked for.
    assert_eq!(logged.spans(), [of("x"), of("x"), of("y")]);
    assert_eq!(plugin.calls(), 4);
    let warned = |name: &str| format!("{}: it is late plugin=demo object=Widget a/{name}", of(name));
    assert_eq!(logged.warnings(), [warned("x"), warned("x"), warned("y"), warned("y")]);

    // Nobody is called where nothing has changed, so there is no pass.
    world.host().resync();
    world.settle().await;
    assert_eq!(logged.spans().len(), 3);
}

fn fleet_kind() -> Gvk {
    Gvk::new("demo.dev", "v1", "Fleet")
}

#[tokio::test(start_paused = true)]
async fn a_controller_whose_kind_lies_in_no_namespace_says_so_under_a_grant_of_namespaces() {
    let logged = Logged::start();
    let plugin = || {
        Native::new("demo")
            .controller("fleets", fleet_kind(), |_| done(vec![]))
            .controller("widgets", widget_kind(), |_| done(vec![]))
            .may_all(fleet_kind())
            .may_all(widget_kind())
            .build()
    };
    let mut definition = crd("Fleet", "fleets");
    definition["spec"]["scope"] = json!("Cluster");
    let fleet = json!({"apiVersion": "demo.dev/v1", "kind": "Fleet", "metadata": {"name": "north"}});
    let looked_at = |plugin: &Native| -> Vec<String> {
        plugin.requests().iter().map(|request| request.key.to_string()).collect()
    };

    for granted in ["a", "a*"] {
        let (world, plugin) = (World::new().await, plugin());
        world.load_granted(plugin.clone(), &[granted]).await.expect("loaded");
        world.apply(widget("w")).await;
        world.settle().await;
        assert_eq!(world.plugin("demo").idle, [""; 0], "nobody knows of the kind yet");
        world.install(definition.clone()).await;
        world.advance(1).await;
        world.apply(fleet.clone()).await;
        world.settle().await;
        let reason = format!(
            "controller fleets looks after nothing: Fleet.demo.dev lies in no namespace, and the grant is of some \
             namespaces only; a grant without the line `namespaces: [{granted}]` is missing"
        );
        assert_eq!(world.plugin("demo").idle, std::slice::from_ref(&reason));
        assert_eq!(looked_at(&plugin), ["Widget a/w"]);
        let of_it: Vec<_> =
            logged.warnings().into_iter().filter(|warning| warning.contains(&reason)).collect();
        let warning = format!("a controller has nothing to look after plugin=demo reason={reason}");
        assert_eq!(of_it, [warning], "once");
        assert!(world.host().status().ready, "it may be meant: {:#?}", world.host().status());

        // With the whole cluster there is something to look after, and nothing to say.
        world.load(plugin.clone()).await;
        world.settle().await;
        assert_eq!(world.plugin("demo").idle, [""; 0]);
        assert!(looked_at(&plugin).contains(&"Fleet north".to_owned()), "{:?}", looked_at(&plugin));
    }
}
