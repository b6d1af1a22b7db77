//! Random histories: a born ordinal never becomes creatable, and `next` never falls.

use crate::common::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// What happens between two passes.
#[derive(Clone, Debug)]
enum Event {
    /// The controller's plan is carried out as far as it creates things.
    Works,
    /// A pod becomes Ready.
    Ready(u32),
    LosePod(u32),
    LoseClaim(u32, &'static str),
    LoseStatus,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let who = 0..4u32;
    let claim = prop::sample::select(vec!["data", "wal"]);
    let event = prop_oneof![
        4 => Just(Event::Works),
        3 => who.clone().prop_map(Event::Ready),
        2 => who.clone().prop_map(Event::LosePod),
        2 => (who, claim).prop_map(|(o, c)| Event::LoseClaim(o, c)),
        1 => Just(Event::LoseStatus),
    ];
    prop::collection::vec(event, 1..40)
}

/// One pass, carried out: what is created exists, marks and status are stored.
fn work(world: &mut World, born: &BTreeSet<u32>) {
    let plan = world.plan();
    for name in created_members(&plan) {
        let ordinal: u32 = name.rsplit('-').next().unwrap().parse().unwrap();
        match name
            .strip_prefix("Claim ")
            .and_then(|c| c.split('-').next())
        {
            Some(claim) => {
                assert!(
                    !born.contains(&ordinal),
                    "{name} is created although it was born"
                );
                world.claim(claim, ordinal);
            }
            None => {
                world.member_pod(ordinal);
                world.unhealthy(ordinal, NOW);
            }
        }
    }
    let marked = written(&plan).contains(&"Patch Ensemble orders".to_owned());
    if marked {
        world.meta(&serde_json::json!({"annotations": {"ensemble.dev/born": "true"}}));
    }
    world.store_status();
}

fn next(world: &World) -> u32 {
    let ledger = world.snapshot().ensemble.status.ledger;
    ledger.get("members").map_or(0, |l| l.next)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..Default::default() })]

    #[test]
    fn a_born_ordinal_never_gets_an_empty_claim(replicas in 1..4u32, events in events()) {
        let mut world = World::begun(replicas);
        let mut born = BTreeSet::new();
        for event in events {
            let before = next(&world);
            match event {
                Event::Works => {
                    work(&mut world, &born);
                    prop_assert!(next(&world) >= before);
                }
                // The controller sees it Ready at once, as it does while it runs.
                Event::Ready(o) if world.pods.contains_key(&format!("orders-{o}")) => {
                    world.ready(o);
                    work(&mut world, &born);
                    work(&mut world, &born);
                    born.insert(o);
                }
                Event::LosePod(o) => { world.gone(o); }
                Event::LoseClaim(o, claim) => {
                    world.claims.remove(&format!("{claim}-orders-{o}"));
                }
                Event::LoseStatus => { world.lose_status(); }
                Event::Ready(_) => {}
            }
        }
    }
}
