//! Logs of messages from a seed, with power cuts: after each, what was durable and not settled is there, what was durably
//! settled is not, and commits count as a whole.

mod messages;
mod model;
mod world;

use crate::model::Counts;
use crate::world::{Bodies, World};

fn seeds(default: u64) -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let from = number("STORE_FROM").unwrap_or(0);
    from..from + number("STORE_SEEDS").unwrap_or(default)
}

/// A few lives of a log, each with so many steps at most.
fn lives(seed: u64, bodies: Bodies, steps: u64) -> World {
    let mut world = World::new(seed, bodies);
    for _ in 0..1 + world.random.below(4) {
        for _ in 0..world.random.below(steps) {
            world.step();
        }
        if world.random.chance(3) {
            world.run_for(300_000);
        }
        world.crash();
    }
    assert_eq!(world.failures(), []);
    world
}

fn add(all: &mut Counts, counts: Counts) {
    all.found += counts.found;
    all.lost_unproven += counts.lost_unproven;
    all.settled_returned += counts.settled_returned;
    all.commits_lost += counts.commits_lost;
    all.commits_unproven_found += counts.commits_unproven_found;
    all.redelivered += counts.redelivered;
}

#[test]
fn after_power_cuts_messages_commits_and_settlements_are_there_as_promised() {
    for (bodies, steps, number) in [(Bodies::Small, 400, 300), (Bodies::Mixed, 200, 60)] {
        let mut counts = Counts::default();
        let range = seeds(number);
        let number = range.end - range.start;
        for seed in range {
            add(&mut counts, lives(seed, bodies, steps).model.counts);
        }
        println!("{number} seeds: {counts:?}");
        if number >= 50 {
            let happened = [
                counts.found,
                counts.lost_unproven,
                counts.settled_returned,
                counts.commits_lost,
                counts.commits_unproven_found,
                counts.redelivered,
            ];
            assert!(happened.iter().all(|&count| count > 0), "the faults happened: {counts:?}");
        }
    }
}
