//! Laws over generated inputs: scenarios 127, 128 and 130 of the specification.
//!
//! That equal input gives equal actions (130) is looked at in each of these passes: every call is made twice.

use evenkeel_sdk::Action;
use proptest::prelude::*;
use serde_json::{Value, json};

mod world;

use world::World;

/// Something that happens in a machine's life.
#[derive(Clone, Copy, Debug)]
enum Event {
    Pass(usize),
    Disk(&'static str),
    Machine(&'static str),
    Power(&'static str),
    Virtctl(&'static str),
    DeleteMachine,
    DeleteService,
    EditService,
    Node(bool),
}

fn event() -> impl Strategy<Value = Event> {
    let disks = vec!["", "CloneScheduled", "CloneInProgress", "WaitForFirstConsumer", "Succeeded"];
    let states = vec![
        "",
        "Provisioning",
        "Starting",
        "Running",
        "Stopping",
        "Stopped",
        "Migrating",
        "Weird",
        "Unknown",
    ];
    prop_oneof![
        6 => (0..world::PASSES.len()).prop_map(Event::Pass),
        1 => prop::sample::select(disks).prop_map(Event::Disk),
        2 => prop::sample::select(states).prop_map(Event::Machine),
        1 => prop::sample::select(vec!["On", "Off"]).prop_map(Event::Power),
        1 => prop::sample::select(vec!["Always", "Halted", "Manual"]).prop_map(Event::Virtctl),
        1 => Just(Event::DeleteMachine),
        1 => Just(Event::DeleteService),
        1 => Just(Event::EditService),
        1 => any::<bool>().prop_map(Event::Node),
    ]
}

fn happen(world: &mut World, event: Event) {
    let vm = ("VirtualMachine", "vm-a");
    match event {
        Event::Pass(index) => {
            world.pass(index);
        }
        Event::Disk(phase) => world.merge("DataVolume", "vm-a-disk", &json!({"status": {"phase": phase}})),
        Event::Machine(state) => world.merge(vm.0, vm.1, &json!({"status": {"printableStatus": state}})),
        Event::Power(power) => world.edit_spec(&json!({"powerState": power})),
        Event::Virtctl(strategy) => world.merge(vm.0, vm.1, &json!({"spec": {"runStrategy": strategy}})),
        Event::DeleteMachine => world.delete(vm.0, vm.1),
        Event::DeleteService => world.delete("Service", "vps-web-vm-a"),
        Event::EditService => {
            world.merge(
                "Service",
                "vps-access-vm-a",
                &json!({"spec": {"type": "NodePort", "selector": {"kite.anacnu.com/kite-vm-name": "x"}}}),
            );
        }
        Event::Node(true) => world.put(world::instance()),
        Event::Node(false) => world.delete("VirtualMachineInstance", "vm-a"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// 127: whatever happened in whatever order, the same end; then silence.
    #[test]
    fn every_order_of_events_ends_the_same(events in prop::collection::vec(event(), 0..40)) {
        let mut world = World::new();
        for event in events {
            happen(&mut world, event);
        }
        world.edit_spec(&json!({"powerState": "On"}));
        world.settle();
        world.merge("DataVolume", "vm-a-disk", &json!({"status": {"phase": "Succeeded", "progress": "100.0%"}}));
        world.merge("VirtualMachine", "vm-a", &json!({"status": {"printableStatus": "Running"}}));
        world.put(world::instance());
        world.settle();
        prop_assert_eq!(world.summary(), "Running On n1 VirtualMachineReady=Running ResourcesApplied=Applied DiskReady=DataVolumeReady");
        prop_assert_eq!(world.get("VirtualMachine", "vm-a").map(|vm| vm["spec"]["runStrategy"].clone()), Some("Always".into()));
        prop_assert_eq!(world.round(), 0, "a further look writes nothing");

        world.mark_deleted();
        world.settle();
        world.delete("VirtualMachine", "vm-a");
        world.delete("VirtualMachineInstance", "vm-a");
        world.settle();
        prop_assert_eq!(world.left(), Vec::<String>::new());
    }

    /// 128: whatever a user writes, no action reaches for another namespace or another machine's names.
    #[test]
    fn no_text_of_a_user_moves_an_action_elsewhere(texts in prop::array::uniform8(hostile()), which in 0..256_u32) {
        let mut spec = json!({"cpu": 2, "memory": "4Gi", "disk": "25Gi", "image": "ubuntu-22.04", "sshId": "alice"});
        let fields = ["memory", "image", "disk", "powerState", "domainPrefix", "sshId", "sshPassword"];
        for (index, (field, text)) in fields.into_iter().zip(&texts).enumerate() {
            if which & (1 << index) != 0 {
                spec[field] = text.as_str().into();
            }
        }
        if which & 128 != 0 {
            spec["sshAuthorizedKeys"] = json!([texts[7]]);
        }
        let mut world = World::new();
        world.edit_spec(&spec);
        for action in &world.conclusion(0) {
            let (namespace, name) = place(action);
            prop_assert!(namespace == "tenant-a" || name == "kite-runtime-config", "{namespace}/{name}");
            prop_assert!(world::NAMES.contains(&name.as_str()), "{name}");
        }
    }
}

/// Texts that break out of templates, shells, lines and documents; a long one now and then.
fn hostile() -> impl Strategy<Value = String> {
    let pieces = vec![
        "\n",
        "\r",
        "\0",
        "\"",
        "'",
        "{",
        "}",
        "---",
        ": ",
        "$(reboot)",
        "`",
        "\\",
        "../",
        "a",
        "4Gi",
        "ssh-rsa A",
        "ä",
        "\u{7f}",
        "namespace: victim",
    ];
    prop_oneof![
        20 => prop::collection::vec(prop::sample::select(pieces), 0..12).prop_map(|pieces| pieces.concat()),
        1 => Just("x".repeat(100_000)),
        1 => any::<String>(),
    ]
}

fn place(action: &Action) -> (String, String) {
    let of_text = |text: &str| {
        let object: Value = serde_json::from_str(text).expect("an action's object is JSON");
        let word = |key: &str| object["metadata"][key].as_str().unwrap_or_default().to_owned();
        (word("namespace"), word("name"))
    };
    let of_reference =
        |at: &evenkeel_sdk::ObjectRef| (at.namespace.clone().unwrap_or_default(), at.name.clone());
    match action {
        Action::Create(apply) | Action::Apply(apply) | Action::ApplyStatus(apply) => of_text(&apply.object),
        Action::Delete(deletion) => of_reference(&deletion.object),
        Action::AddFinalizer(finalizer) | Action::RemoveFinalizer(finalizer) => {
            of_reference(&finalizer.object)
        }
        Action::Patch(patch) => of_reference(&patch.object),
        Action::Publish(event) => of_reference(&event.about),
        Action::Enqueue(enqueue) => of_reference(&enqueue.object),
        Action::External(_) => (String::new(), "a provider".to_owned()),
    }
}
