//! No-op suppression against the merge of the API server: whatever is there and whoever put it there, an apply is left
//! out only where sending it would change nothing at all, and is never sent twice in a row.

use std::collections::BTreeMap;

use evenkeel_core::admit::{Answered, Circumstances, Verdict, Write, admit};
use evenkeel_core::contract::{Action, Apply, Gvk};
use evenkeel_core::object::CachedObject;
use evenkeel_core::target::ActionTarget;
use evenkeel_sandbox::{Sandbox, SandboxOptions};
use futures::FutureExt;
use http::Request;
use http_body_util::BodyExt;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::crd;

const OURS: &str = "evenkeel/demo/apply";

/// A kind with an object of it to apply fields of.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Without a schema: maps are merged, lists are whole.
    Widget,
    /// With lists by key, defaults, and values that the API server fills in.
    Service,
}

impl Kind {
    fn gvk(self) -> Gvk {
        match self {
            Self::Widget => Gvk::new("demo.dev", "v1", "Widget"),
            Self::Service => Gvk::new("", "v1", "Service"),
        }
    }

    fn path(self) -> &'static str {
        match self {
            Self::Widget => "/apis/demo.dev/v1/namespaces/default/widgets/x",
            Self::Service => "/api/v1/namespaces/default/services/x",
        }
    }

    fn object(self, spec: &Value, labels: &Value) -> Value {
        let mut metadata = json!({"namespace": "default", "name": "x"});
        if !labels.is_null() {
            metadata["labels"] = labels.clone();
        }
        json!({
            "apiVersion": self.gvk().api_version(), "kind": self.gvk().kind,
            "metadata": metadata, "spec": spec,
        })
    }
}

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new(SandboxOptions::default());
    sandbox.put(crd("Widget", "widgets")).expect("a definition");
    sandbox
}

fn apply(sandbox: &Sandbox, kind: Kind, manager: &str, body: &str) {
    let manager = manager.replace('/', "%2F");
    let request = Request::builder()
        .method("PATCH")
        .uri(format!("{}?fieldManager={manager}&force=true", kind.path()))
        .header("content-type", "application/apply-patch+yaml")
        .header("accept", "application/json")
        .body(body.to_owned().into())
        .expect("a request");
    let response = sandbox.service().answer(request);
    let status = response.status();
    let answer = response.into_body().collect().now_or_never().expect("an answer at hand").expect("a body");
    assert!(status.is_success(), "{body}: {}", String::from_utf8_lossy(&answer.to_bytes()));
}

/// As the API server has it, with its revision and with who owns what.
fn raw(sandbox: &Sandbox, kind: Kind) -> Option<Value> {
    sandbox.get(&kind.gvk().api_version(), &kind.gvk().kind, "default", "x")
}

fn stored(sandbox: &Sandbox, kind: Kind) -> Option<CachedObject> {
    let object = raw(sandbox, kind)?;
    Some(CachedObject::parse(&kind.gvk(), &object.to_string()).expect("an object"))
}

/// Applies as the host does, and tells whether it was left out. Where it was, it is sent all the same, to see that nothing
/// comes of it.
fn host_applies(sandbox: &Sandbox, kind: Kind, answered: &mut Answered, object: &Value) -> bool {
    let action = Action::Apply(Apply { object: object.to_string().into(), force: true, controlled: false });
    let target = ActionTarget::of(&action).expect("a valid action");
    let before = stored(sandbox, kind);
    let circumstances =
        Circumstances { manager: OURS, primary: None, seen: before.as_ref(), answered: &*answered };
    match admit(&target, &circumstances) {
        Verdict::Skip(_) => {
            let as_it_was = raw(sandbox, kind);
            apply(sandbox, kind, OURS, &object.to_string());
            assert_eq!(raw(sandbox, kind), as_it_was, "left out, though it changes {object}");
            true
        }
        Verdict::Send(write) => {
            let Write::Apply { body, manager, .. } = &write else { panic!("{write:?}") };
            apply(sandbox, kind, manager, body);
            answered.note(&write, &stored(sandbox, kind).expect("it was applied"));
            false
        }
        other => panic!("{other:?}"),
    }
}

fn some_labels() -> impl Strategy<Value = Value> {
    // Not an empty map: the API server does not keep one in metadata, so that who applies it never owns it for good.
    prop_oneof![Just(Value::Null), Just(json!({"a": "1"})), Just(json!({"a": "2", "b": "1"}))]
}

fn some_scalar() -> impl Strategy<Value = Value> {
    prop_oneof![Just(json!(1)), Just(json!("text")), Just(json!(true))]
}

/// Two who write the same few members of one map, so that they take them from each other again and again.
fn some_clash() -> impl Strategy<Value = Value> {
    let member = || prop_oneof![Just(json!(1)), Just(json!(true))];
    (member(), proptest::option::weighted(0.2, member())).prop_map(|(y, z)| match z {
        Some(z) => json!({"deep": {"y": y, "z": z}}),
        None => json!({"deep": {"y": y}}),
    })
}

fn some_widget() -> impl Strategy<Value = Value> {
    let field = |name: &'static str, value: BoxedStrategy<Value>| {
        proptest::option::of(value).prop_map(move |value| value.map(|value| (name, value)))
    };
    let list = prop_oneof![Just(json!([])), Just(json!([1, 2])), Just(json!([{"name": "x"}]))];
    let deep = some_scalar().prop_map(|value| json!({"y": value}));
    (some_scalar(), field("deep", deep.boxed()), field("list", list.boxed())).prop_map(|(x, deep, list)| {
        let fields: BTreeMap<_, _> = [Some(("x", x)), deep, list].into_iter().flatten().collect();
        json!(fields)
    })
}

fn some_service() -> impl Strategy<Value = Value> {
    let port = |name: &'static str, port: u16| {
        prop_oneof![
            Just(json!({"name": name, "port": port})),
            Just(json!({"name": name, "port": port, "protocol": "TCP", "targetPort": port})),
            Just(json!({"name": name, "port": port, "targetPort": "web"})),
        ]
    };
    let ports = (port("a", 80), proptest::option::of(port("b", 81)));
    let selector = prop_oneof![Just(json!({"app": "x"})), Just(json!({"app": "x", "tier": "front"}))];
    (ports, selector).prop_map(|((first, second), selector)| {
        let ports: Vec<_> = [Some(first), second].into_iter().flatten().collect();
        json!({"selector": selector, "ports": ports})
    })
}

fn some_object(kind: Kind) -> BoxedStrategy<Value> {
    let spec = match kind {
        Kind::Widget => prop_oneof![some_widget(), some_clash()].boxed(),
        Kind::Service => some_service().boxed(),
    };
    (spec, some_labels()).prop_map(move |(spec, labels)| kind.object(&spec, &labels)).boxed()
}

fn some_story() -> impl Strategy<Value = (Kind, Vec<(bool, Value)>)> {
    prop_oneof![Just(Kind::Widget), Just(Kind::Service)].prop_flat_map(|kind| {
        let applies = proptest::collection::vec((any::<bool>(), some_object(kind)), 1..6);
        (Just(kind), applies)
    })
}

#[test]
fn what_has_one_owner_is_emptied_where_a_plugin_says_so() {
    let kept = [
        (Kind::Widget, json!({"list": [1, 2]}), json!({"list": []})),
        (
            Kind::Service,
            json!({"selector": {"app": "x"}, "ports": [{"port": 80}]}),
            json!({"selector": {}, "ports": [{"port": 80}]}),
        ),
    ];
    for (kind, filled, emptied) in kept {
        let (sandbox, mut answered) = (sandbox(), Answered::default());
        let object = |spec: &Value| kind.object(spec, &Value::Null);
        assert!(!host_applies(&sandbox, kind, &mut answered, &object(&filled)));
        assert!(!host_applies(&sandbox, kind, &mut answered, &object(&emptied)), "{emptied}");
        assert!(host_applies(&sandbox, kind, &mut answered, &object(&emptied)), "{emptied}");
    }
}

#[test]
fn a_member_that_somebody_took_is_taken_back_though_its_value_is_the_one_applied() {
    let (sandbox, mut answered) = (sandbox(), Answered::default());
    let deep = |y: Value| Kind::Widget.object(&json!({"deep": {"y": y}}), &Value::Null);
    assert!(!host_applies(&sandbox, Kind::Widget, &mut answered, &deep(json!(1))));
    apply(&sandbox, Kind::Widget, "user", &deep(json!(true)).to_string());
    assert!(
        !host_applies(&sandbox, Kind::Widget, &mut answered, &deep(json!(true))),
        "nobody else may drop it then"
    );
    assert!(host_applies(&sandbox, Kind::Widget, &mut answered, &deep(json!(true))));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn an_apply_is_left_out_only_where_the_api_server_would_change_nothing((kind, applies) in some_story()) {
        let (sandbox, mut answered) = (sandbox(), Answered::default());
        for (ours, object) in applies {
            if ours {
                host_applies(&sandbox, kind, &mut answered, &object);
                prop_assert!(host_applies(&sandbox, kind, &mut answered, &object), "{} is sent twice", object);
            } else {
                apply(&sandbox, kind, "user", &object.to_string());
            }
        }
    }
}
