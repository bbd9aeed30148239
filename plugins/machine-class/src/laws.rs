//! Laws over generated lives: what must hold at every moment, whoever does what, and wherever the host dies.
//!
//! M2 is looked at in each call of the driver, the rest after each event.

use proptest::prelude::*;

mod world;

use world::{MACHINES, World};

use crate::names;

/// Something that happens.
#[derive(Clone, Debug)]
enum Event {
    /// A pass; the host dies after so many of its actions, if it does.
    Pass(usize, Option<usize>),
    CreateMachine(usize),
    DeleteMachine(usize),
    CreateClass,
    DeleteClass,
    /// Somebody takes our finalizer off the class.
    StripClass,
    CreateSecret,
    DeleteSecret,
    /// The machine's Node joins.
    Join(usize),
    /// The cloud fails every call, or works.
    Cloud(bool),
    /// A VM vanishes.
    LoseVm(usize),
    /// The machine's Node is well, or not.
    Ready(usize, bool),
    /// Somebody wants the machine to be kept, or not.
    Keep(usize, &'static str),
    /// The machine's Node gets a label of an update in place, or loses them.
    Update(usize, Option<(&'static str, &'static str)>),
    /// So many minutes pass.
    Time(i64),
}

/// What may be asked for a machine that failed.
const WISHES: [&str; 6] = ["now", "when-failed", "auto-preserved", "false", "", "nonsense"];
/// What may be said of an update in place.
const LABELS: [(&str, &str); 4] = [
    (names::UPDATE_CANDIDATE, "true"),
    (names::UPDATE_SELECTED, "true"),
    (names::UPDATE_RESULT, "successful"),
    (names::UPDATE_RESULT, "failed"),
];

fn event() -> impl Strategy<Value = Event> {
    let machine = || 0..MACHINES.len();
    prop_oneof![
        12 => (0..World::PASSES, prop::option::weighted(0.2, 0..4usize)).prop_map(|(pass, dies)| Event::Pass(pass, dies)),
        3 => machine().prop_map(Event::CreateMachine),
        2 => machine().prop_map(Event::DeleteMachine),
        3 => Just(Event::CreateClass),
        1 => Just(Event::DeleteClass),
        1 => Just(Event::StripClass),
        2 => Just(Event::CreateSecret),
        1 => Just(Event::DeleteSecret),
        1 => machine().prop_map(Event::Join),
        1 => any::<bool>().prop_map(Event::Cloud),
        1 => machine().prop_map(Event::LoseVm),
        1 => (machine(), any::<bool>()).prop_map(|(index, ready)| Event::Ready(index, ready)),
        1 => (machine(), prop::sample::select(&WISHES[..])).prop_map(|(index, wish)| Event::Keep(index, wish)),
        2 => (machine(), prop::option::weighted(0.8, prop::sample::select(&LABELS[..])))
            .prop_map(|(index, label)| Event::Update(index, label)),
        1 => prop::sample::select(&[1, 15, 600, 6000][..]).prop_map(Event::Time),
    ]
}

fn happen(world: &mut World, event: &Event) {
    match *event {
        Event::Pass(pass, dies) => world.pass(pass, dies),
        Event::CreateMachine(index) => world.create_machine(MACHINES[index]),
        Event::DeleteMachine(index) => world.delete("Machine", MACHINES[index]),
        Event::CreateClass => world.create_class(),
        Event::DeleteClass => world.delete("MachineClass", "a"),
        Event::StripClass => world.strip("MachineClass", "a"),
        Event::CreateSecret => world.create_secret(),
        Event::DeleteSecret => world.delete("Secret", "s1"),
        Event::Join(index) => world.join(MACHINES[index]),
        Event::Cloud(works) => world.cloud_works = works,
        Event::LoseVm(index) => world.lose_vm(MACHINES[index]),
        Event::Ready(index, ready) => world.set_ready(MACHINES[index], ready),
        Event::Keep(index, wish) => world.keep(MACHINES[index], wish),
        Event::Update(index, label) => world.label_node(MACHINES[index], label),
        Event::Time(minutes) => world.minutes += minutes,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn no_vm_without_a_held_class_and_none_without_its_machine(
        events in prop::collection::vec(event(), 1..60),
        order in Just(["Machine", "MachineClass", "Secret"]).prop_shuffle(),
    ) {
        let mut world = World::default();
        for event in &events {
            happen(&mut world, event);
            prop_assert_eq!(world.broken.clone(), Vec::<String>::new());
            prop_assert_eq!(world.orphans(), Vec::<String>::new(), "a VM outlives its machine");
            prop_assert_eq!(world.idle_tokens(), Vec::<String>::new(), "a token outlives its purpose");
        }

        // M11: what lost its class says so once its pass has run.
        world.cloud_works = true;
        world.rest();
        prop_assert_eq!(world.silent_losses(), Vec::<String>::new());
        prop_assert_eq!(world.stray_taints(), Vec::<String>::new(), "a Node is held back for nothing");
        prop_assert_eq!(world.broken.clone(), Vec::<String>::new());

        // And when all is there again and then deleted, in whatever order, nothing remains.
        world.create_class();
        world.create_secret();
        world.rest();
        for kind in order {
            world.delete_all(kind);
            world.rest();
        }
        // A class that somebody deleted without its finalizer may have gone before its machines: it comes back for them.
        world.create_class();
        world.create_secret();
        world.rest();
        for kind in ["Machine", "MachineClass", "Secret"] {
            world.delete_all(kind);
        }
        world.rest();
        prop_assert_eq!(world.left(), Vec::<String>::new());
        prop_assert_eq!(world.broken.clone(), Vec::<String>::new());
    }
}

#[test]
fn the_law_notices_a_vm_of_a_class_that_is_not_held() {
    let mut world = World::default();
    world.cloud_works = true;
    world.create_class();
    world.create_secret();
    world.create_machine("m1");
    world.rest();
    assert_eq!(world.vms(), ["m1"]);
    world.strip("MachineClass", "a");
    world.note_creation("m2");
    assert_eq!(world.broken, ["a VM of m2 was made while its class was not held"]);
}
