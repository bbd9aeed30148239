use super::*;
use crate::contract::{
    Apply, Controller, Deletion, Enqueue, Event, EventType, ExternalQuery, Finalizer, Operation, Patch,
    Propagation, ProviderUse,
};
use crate::testing::{gvk, query, reference};

/// `Pod get,list a-*,b`: a kind, its verbs, globs of names.
fn permission(text: &str) -> Permission {
    let mut words = text.split(' ');
    let gvk = gvk(words.next().expect("a kind"));
    let verbs = words
        .next()
        .expect("verbs")
        .split(',')
        .map(|word| serde_json::from_value(word.into()).unwrap_or_else(|_| panic!("no verb: {word}")));
    let names = words.next().into_iter().flat_map(|names| names.split(',')).map(Into::into);
    Permission { gvk, verbs: verbs.collect(), names: names.collect() }
}

fn permissions(text: &[&str]) -> Vec<Permission> {
    text.iter().map(|text| permission(text)).collect()
}

fn manifest(asked: &[&str]) -> Manifest {
    let controller = |name: &str| Controller {
        name: name.into(),
        primary: gvk("ConfigMap"),
        labels: String::new(),
        view: vec![],
        resync: None,
    };
    Manifest {
        name: "demo".into(),
        version: "0.1.0".into(),
        summary: String::new(),
        controllers: vec![controller("main")],
        permissions: permissions(asked),
        providers: vec![ProviderUse {
            provider: "vsphere".into(),
            questions: vec!["vm".into()],
            operations: vec!["clone".into()],
        }],
        crds: vec![],
        config_schema: None,
    }
}

/// What is said, without the line that is missing.
fn shown(allowed: Result<(), Denial>) -> String {
    let said = |Denial { verb, object, missing, line: _ }| format!("may not {verb} {object}: {missing}");
    allowed.map_or_else(said, |()| "yes".to_owned())
}

#[test]
fn a_denial_names_the_line_that_is_missing() {
    let grant =
        Grant::new(&manifest(&["Pod get web-*", "Secret get"]), Some(&permissions(&["Pod get"])), None);
    for (text, line) in [
        ("get Node n", Some("{apiVersion: v1, kind: Node, verbs: [get]}")),
        ("get Pod a/db", Some("{apiVersion: v1, kind: Pod, verbs: [get], names: [db]}")),
        ("get Secret a/login", Some("{apiVersion: v1, kind: Secret, verbs: [get], names: [login]}")),
        ("list Widget.example.org", Some("{apiVersion: example.org/v1, kind: Widget, verbs: [list]}")),
    ] {
        let denial = grant.allows_query(query(text).query()).expect_err(text);
        assert_eq!(denial.line.as_deref(), line, "{denial}");
        assert!(denial.to_string().ends_with(&format!("; the line {} is missing", line.unwrap_or_default())));
    }
    let narrowed = Grant::new(&manifest(&["Pod get"]), None, Some(&["a".to_owned()]));
    let denial = narrowed.allows_query(query("get Pod b/x").query()).expect_err("another namespace");
    assert_eq!(denial.line, None, "no line of permissions would help");
}

/// What a plugin with these permissions is told when it asks.
fn asks(grant: &Grant, cases: &[(&str, &str)]) {
    for (text, answer) in cases {
        assert_eq!(shown(grant.allows_query(query(text).query())), *answer, "{text}");
    }
}

/// What it is told when it acts in a pass of `ConfigMap a/primary`.
fn acts(grant: &Grant, action: &Action, answer: &str) {
    let target = ActionTarget::of(action).expect("a sound action");
    assert_eq!(shown(grant.allows_action(&target, &reference("ConfigMap a/primary"))), answer, "{action:?}");
}

fn body(kind: &str, place: &str, more: &str) -> Apply {
    let object = reference(&format!("{kind} {place}"));
    let namespace = object.namespace.as_deref().map_or(String::new(), |ns| format!(r#","namespace":"{ns}""#));
    let object = format!(
        r#"{{"apiVersion":"{}","kind":"{}","metadata":{{"name":"{}"{namespace}{more}}}}}"#,
        object.gvk.api_version(),
        object.gvk.kind,
        object.name,
    );
    Apply { object: object.into(), force: true, controlled: false }
}

#[test]
fn a_verb_goes_for_its_kind_and_names() {
    let grant = Grant::new(&manifest(&["Pod get web-*", "Pod list", "Widget.example.org get"]), None, None);
    asks(
        &grant,
        &[
            ("get Pod a/web-1", "yes"),
            ("get Pod a/db-1", "may not get Pod a/db-1: the plugin's manifest does not allow that name"),
            ("list Pod", "yes"),
            ("list Pod ns=a", "yes"),
            ("get Widget.example.org a/x", "yes"),
            (
                "get Widget.other.org a/x",
                "may not get Widget a/x: the plugin's manifest has no permission to get Widget.other.org",
            ),
            (
                "list Widget.example.org",
                "may not list Widget.example.org in all namespaces: the plugin's manifest has no permission to list Widget.example.org",
            ),
            ("clock", "yes"),
        ],
    );
}

#[test]
fn the_operator_narrows_and_never_widens() {
    let asked = manifest(&["Pod get,delete", "Node get"]);
    let allowed = permissions(&["Pod get,list web-*", "Service get"]);
    let grant = Grant::new(&asked, Some(&allowed), None);
    asks(
        &grant,
        &[
            ("get Pod a/web-1", "yes"),
            ("get Pod a/db-1", "may not get Pod a/db-1: the operator's grant does not allow that name"),
            ("get Node n", "may not get Node n: the operator's grant has no permission to get Node"),
            (
                "get Service a/x",
                "may not get Service a/x: the plugin's manifest has no permission to get Service",
            ),
            (
                "list Pod",
                "may not list Pod in all namespaces: the plugin's manifest has no permission to list Pod",
            ),
        ],
    );
    let nothing = Grant::new(&asked, Some(&[]), None);
    asks(
        &nothing,
        &[("get Node n", "may not get Node n: the operator's grant has no permission to get Node")],
    );
}

#[test]
fn namespaces_are_those_of_the_operator() {
    let asked = manifest(&["Pod get,list,apply", "Node get,list", "Namespace get"]);
    let namespaces = ["a".to_owned(), "tenant-*".to_owned()];
    let grant = Grant::new(&asked, None, Some(&namespaces));
    let only =
        |what: &str| format!("may not {what}: the operator's grant is for the namespaces a, tenant-* only");
    asks(
        &grant,
        &[
            ("get Pod a/x", "yes"),
            ("get Pod tenant-b/x", "yes"),
            ("get Pod b/x", &only("get Pod b/x")),
            ("list Pod ns=tenant-b", "yes"),
            ("list Pod ns=b", &only("list Pod in b")),
            ("list Pod", &only("list Pod in all namespaces")),
            ("get Namespace a", "yes"),
            ("get Namespace b", &only("get Namespace b")),
            ("get Node n", "yes"),
        ],
    );
    acts(&grant, &Action::Apply(body("Pod", "a/x", "")), "yes");
    acts(&grant, &Action::Apply(body("Pod", "b/x", "")), &only("apply Pod b/x"));
}

#[test]
fn a_grant_of_some_namespaces_allows_no_change_of_what_lies_in_none() {
    let every = "get,list,create,apply,apply-status,patch,delete,finalize,publish";
    let asked = manifest(&[&format!("Node {every}"), &format!("Namespace {every}")]);
    let grant = Grant::new(&asked, None, Some(&["a".to_owned()]));
    let changes = |object: ObjectRef| {
        let finalizer = || Finalizer { object: object.clone(), name: "demo.dev/x".into() };
        let text = format!(
            r#"{{"apiVersion":"v1","kind":"{}","metadata":{{"name":"{}"}}}}"#,
            object.gvk.kind, object.name
        );
        let apply = || Apply { object: text.as_str().into(), force: false, controlled: false };
        vec![
            Action::Create(apply()),
            Action::Apply(apply()),
            Action::ApplyStatus(apply()),
            Action::Delete(Deletion {
                object: object.clone(),
                uid: None,
                propagation: Propagation::Background,
            }),
            Action::AddFinalizer(finalizer()),
            Action::RemoveFinalizer(finalizer()),
            Action::Patch(Patch { object: object.clone(), merge: r#"{"spec":{}}"#.into() }),
            Action::Publish(Event {
                about: object.clone(),
                severity: EventType::Normal,
                reason: "Seen".into(),
                message: String::new(),
            }),
        ]
    };
    let is_allowed = |action: &Action| {
        let target = ActionTarget::of(action).expect("a sound action");
        grant.allows_action(&target, &reference("ConfigMap a/primary")).is_ok()
    };
    for action in changes(reference("Node n")).iter().chain(&changes(reference("Namespace b"))) {
        assert!(!is_allowed(action), "{action:?}");
    }
    for action in &changes(reference("Namespace a")) {
        assert!(is_allowed(action), "{action:?}");
    }
}

#[test]
fn a_key_is_enqueued_only_where_the_plugin_may_look_after_it() {
    let grant = Grant::new(&manifest(&[]), None, Some(&["a".to_owned()]));
    let enqueue = |object: &str| {
        let controller = manifest(&[]).controllers.first().expect("one").name.clone();
        Action::Enqueue(Enqueue { controller, object: reference(object) })
    };
    let only = "may not enqueue ConfigMap b/x: the operator's grant is for the namespaces a only";
    acts(&grant, &enqueue("ConfigMap a/x"), "yes");
    acts(&grant, &enqueue("ConfigMap b/x"), only);
}

#[test]
fn a_secret_is_seen_and_written_only_where_it_is_named() {
    let grant = Grant::new(&manifest(&["Secret get,list,apply,publish"]), None, None);
    let unnamed =
        |verb: &str| format!("may not {verb} Secret a/x: the plugin's manifest does not name that Secret");
    let unchosen =
        |verb: &str| format!("may not {verb} Secret a/x: the operator's grant does not name that Secret");
    asks(
        &grant,
        &[
            ("get Secret a/x", &unchosen("get")),
            ("list Secret ns=a", "may not list Secret in a: the plugin's manifest does not name that Secret"),
        ],
    );
    acts(&grant, &Action::Apply(body("Secret", "a/x", "")), &unchosen("apply"));
    for (names, answer) in
        [("x", "yes"), ("*-login,x*", "yes"), ("y", &unnamed("get")), ("*", &unnamed("get"))]
    {
        let grant = Grant::new(&manifest(&[&format!("Secret get {names}")]), None, None);
        asks(&grant, &[("get Secret a/x", answer)]);
    }
    // The operator's words count alike.
    let grant = Grant::new(&manifest(&["Secret get x"]), Some(&permissions(&["Secret get"])), None);
    asks(
        &grant,
        &[("get Secret a/x", "may not get Secret a/x: the operator's grant does not name that Secret")],
    );
    // A manifest that names none leaves it to the operator, who may choose by names or by namespaces.
    for (operator, namespaces, answer) in [
        (None, Some("a"), "yes".to_owned()),
        (Some("Secret get x"), None, "yes".to_owned()),
        (
            Some("Secret get *"),
            Some("a"),
            "may not get Secret a/x: the operator's grant does not name that Secret".to_owned(),
        ),
        (Some("Secret get"), Some("*"), unchosen("get")),
        (None, Some("*"), unchosen("get")),
    ] {
        let namespaces = namespaces.map(|name| [name.to_owned()]);
        let operator = operator.map(|words| permissions(&[words]));
        let grant = Grant::new(
            &manifest(&["Secret get"]),
            operator.as_deref(),
            namespaces.as_ref().map(|names| names.as_slice()),
        );
        asks(&grant, &[("get Secret a/x", &answer)]);
    }
    // A Secret of another group is no Secret.
    let grant = Grant::new(&manifest(&["Secret.example.org get"]), None, None);
    asks(&grant, &[("get Secret.example.org a/x", "yes")]);
}

#[test]
fn a_finalizer_of_a_secret_needs_no_name_as_its_content_is_not_shown() {
    let grant = Grant::new(&manifest(&["Secret finalize"]), None, None);
    let object = ObjectRef::new(Gvk::new("", "v1", "Secret"), Some("a"), "x");
    acts(&grant, &Action::AddFinalizer(Finalizer { object, name: "example.org/x".into() }), "yes");
}

#[test]
fn each_action_needs_its_own_verb() {
    let place = || reference("Pod a/x");
    let finalizer = || Finalizer { object: place(), name: "x/y".into() };
    let actions = [
        ("create", Action::Create(body("Pod", "a/x", ""))),
        ("apply", Action::Apply(body("Pod", "a/x", ""))),
        ("apply-status", Action::ApplyStatus(body("Pod", "a/x", ""))),
        ("delete", Action::Delete(Deletion { object: place(), uid: None, propagation: Propagation::Orphan })),
        ("finalize", Action::AddFinalizer(finalizer())),
        ("finalize", Action::RemoveFinalizer(finalizer())),
        ("patch", Action::Patch(Patch { object: place(), merge: "{}".into() })),
        (
            "publish",
            Action::Publish(Event {
                about: place(),
                severity: EventType::Normal,
                reason: "R".into(),
                message: String::new(),
            }),
        ),
    ];
    for (verb, action) in &actions {
        for (other, _) in &actions {
            let grant = Grant::new(&manifest(&[&format!("Pod {other}")]), None, None);
            let target = ActionTarget::of(action).expect("a sound action");
            let allowed = grant.allows_action(&target, &place()).is_ok();
            assert_eq!(allowed, verb == other, "{action:?} with {other}");
        }
    }
}

#[test]
fn finalizers_are_written_only_by_those_who_may_finalize() {
    let grant = Grant::new(&manifest(&["Pod apply,patch"]), None, None);
    let denied = |verb: &str| {
        format!("may not {verb} Pod a/x: the plugin's manifest has no permission to finalize Pod")
    };
    acts(&grant, &Action::Apply(body("Pod", "a/x", r#","finalizers":["x/y"]"#)), &denied("apply"));
    let merge = |merge: &str| Action::Patch(Patch { object: reference("Pod a/x"), merge: merge.into() });
    acts(&grant, &merge(r#"{"metadata":{"finalizers":null}}"#), &denied("patch"));
    acts(&grant, &merge(r#"{"metadata":{"labels":null}}"#), "yes");
    acts(
        &grant,
        &merge(r#"{"status":{"a":1}}"#),
        "may not patch Pod a/x: the plugin's manifest has no permission to apply the status of Pod",
    );
}

#[test]
fn what_is_controlled_lives_where_its_owner_does() {
    let grant = Grant::new(&manifest(&["Pod apply", "Node apply"]), None, None);
    let controlled =
        |kind: &str, place: &str| Action::Apply(Apply { controlled: true, ..body(kind, place, "") });
    acts(&grant, &controlled("Pod", "a/x"), "yes");
    let elsewhere = "its owner ConfigMap a/primary lives in another namespace";
    acts(&grant, &controlled("Pod", "b/x"), &format!("may not apply Pod b/x: {elsewhere}"));
    acts(&grant, &controlled("Node", "x"), &format!("may not apply Node x: {elsewhere}"));
    let target = controlled("Pod", "b/x");
    let target = ActionTarget::of(&target).expect("a sound action");
    assert_eq!(grant.allows_action(&target, &reference("Cluster x")), Ok(()), "an owner without a namespace");
}

#[test]
fn only_the_plugins_own_controllers_and_providers_are_called_on() {
    let grant = Grant::new(&manifest(&[]), None, None);
    let enqueue = |controller: &str, object: &str| {
        Action::Enqueue(Enqueue { controller: controller.into(), object: reference(object) })
    };
    acts(&grant, &enqueue("main", "ConfigMap a/x"), "yes");
    acts(
        &grant,
        &enqueue("main", "Pod a/x"),
        "may not enqueue Pod a/x: the plugin has no controller \"main\" for that kind",
    );
    acts(
        &grant,
        &enqueue("other", "ConfigMap a/x"),
        "may not enqueue ConfigMap a/x: the plugin has no controller \"other\" for that kind",
    );
    let operation = |operation: &str| {
        let arguments = "{}".into();
        Action::External(Operation {
            key: "k".into(),
            provider: "vsphere".into(),
            operation: operation.into(),
            arguments,
        })
    };
    acts(&grant, &operation("clone"), "yes");
    acts(
        &grant,
        &operation("destroy"),
        "may not perform vsphere: the plugin's manifest does not name \"destroy\" of the provider \"vsphere\"",
    );
    let ask = |provider: &str, question: &str| {
        let question =
            ExternalQuery { provider: provider.into(), question: question.into(), arguments: "{}".into() };
        shown(grant.allows_query(&Query::External(question)))
    };
    assert_eq!(ask("vsphere", "vm"), "yes");
    assert_eq!(
        ask("device", "vm"),
        "may not ask device: the plugin's manifest does not name \"vm\" of the provider \"device\""
    );
}

#[test]
fn a_kind_that_may_only_be_got_is_not_watched_as_a_whole() {
    let grant =
        Grant::new(&manifest(&["Secret get a-*", "Pod get,list", "Service get,list web"]), None, None);
    assert!(grant.may_list(&gvk("Pod")));
    assert!(!grant.may_list(&gvk("Secret")));
    assert!(!grant.may_list(&gvk("Service")), "a list would show other names");
    let narrowed = Grant::new(&manifest(&["Pod list"]), None, Some(&["a".to_owned()]));
    assert!(narrowed.may_list(&gvk("Pod")));
    assert_eq!(narrowed.namespaces().map(<[Glob]>::len), Some(1));
}

#[test]
fn one_watch_is_of_the_names_that_may_be_listed() {
    let asked = ["Pod list web-*,db-*,main", "Service get web", "Secret list login", "Node list"];
    let names = |operator: Option<&[&str]>, namespaces: Option<&[&str]>, object: &str| {
        let operator = operator.map(permissions);
        let namespaces: Option<Vec<String>> =
            namespaces.map(|names| names.iter().map(ToString::to_string).collect());
        let grant = Grant::new(&manifest(&asked), operator.as_deref(), namespaces.as_deref());
        let globs = grant.listed_names(&reference(object));
        globs.map(|globs| globs.iter().map(Glob::as_str).collect::<Vec<_>>().join(" "))
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(names(None, None, "Pod a/main"), some("main"), "an API server can select by one name");
    assert_eq!(names(None, None, "Pod a/web-1"), some("db-* web-*"), "but knows no patterns");
    assert_eq!(names(None, None, "Pod a/other"), None);
    assert_eq!(names(None, None, "Service a/web"), None, "it may not list");
    assert_eq!(names(None, None, "Secret a/login"), None, "Secrets are watched one by one");
    assert_eq!(names(None, None, "Node n"), None, "the kind is watched as a whole");
    assert_eq!(names(Some(&["Pod list"]), None, "Pod a/web-1"), some("db-* web-*"));
    assert_eq!(
        names(Some(&["Pod list web-1"]), None, "Pod a/web-1"),
        some("web-1"),
        "narrowed by the operator"
    );
    assert_eq!(names(Some(&["Pod list web-1"]), None, "Pod a/web-2"), None);
    assert_eq!(names(Some(&["Pod get"]), None, "Pod a/web-1"), None);
    assert_eq!(names(None, Some(&["a"]), "Pod a/main"), some("main"));
    assert_eq!(names(None, Some(&["a"]), "Pod b/main"), None);
}
