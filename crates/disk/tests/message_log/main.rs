//! Logs of messages from a seed, with power cuts: after each, what was durable and not settled is there, what was durably
//! settled is not, and commits count as a whole.

mod fetches;
mod footers;
mod limits;
mod lost_messages;
mod messages;
mod model;
mod moving;
mod scrub;
mod world;

use crate::model::Counts;
use crate::world::{Bodies, World};

fn seeds(default: u64) -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let from = number("STORE_FROM").unwrap_or(0);
    from..from + number("STORE_SEEDS").unwrap_or(default)
}

/// Seeds that have found faults, beside those of the range.
fn and(range: std::ops::Range<u64>, found: &[u64]) -> Vec<u64> {
    range.chain(found.iter().copied()).collect()
}

/// A few lives of a log, each with so many steps at most.
fn lives(seed: u64, bodies: Bodies, steps: u64) -> World {
    let mut world = World::new(seed, bodies);
    for _ in 0..1 + world.random.below(4) {
        for _ in 0..world.random.below(steps) {
            world.step();
        }
        if world.random.one_in(3) {
            world.run_for(300_000);
            world.await_fetches();
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
        // A message that was settled unwritten left its count of returns to the next one at its position.
        let seeds = and(seeds(number), &[10_749]);
        let number = seeds.len();
        for seed in seeds {
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

/// Fills and drains queues until segments have been given back, with power cuts in between.
fn big_lives(seed: u64) -> World {
    let mut world = World::new(seed, Bodies::Big);
    for _ in 0..2 + world.random.below(2) {
        for _ in 0..world.random.below(500) {
            world.step();
            // What stays is one in so many.
            let queue = world.any_queue();
            let excess = world.model.live(queue).len().saturating_sub(20);
            for position in world.model.live(queue).into_iter().take(excess) {
                if !world.random.one_in(12) {
                    world.settle(queue, position, 1);
                }
            }
        }
        world.crash();
    }
    assert_eq!(world.failures(), []);
    world
}

#[test]
fn with_segments_given_back_and_moved_nothing_is_lost_and_the_disk_holds_little_more_than_what_is_alive() {
    let (mut counts, mut reads, mut removed, mut moved, mut footers) = (Counts::default(), 0, 0, 0, 0);
    let (mut fetches, mut messages) = (0, 0);
    // A moved message lost its count of returns when the power failed behind it.
    let seeds = and(seeds(40), &[1066, 1358]);
    let number = seeds.len();
    for seed in seeds {
        let mut world = big_lives(seed);
        world.await_fetches();
        (fetches, messages) = (fetches + world.fetched.0, messages + world.fetched.1);
        // Once idle, what is not alive takes little.
        for _ in 0..3 {
            world.log.await_durable(world.model.last_ticket());
            world.run_for(400_000);
        }
        assert!(world.model.durable() >= world.model.last_ticket(), "seed {seed}");
        let segments = world.disk.segments(world::LOG);
        let bytes = segments.len() as u64 * store::limits::SEGMENT_BYTES_MIN;
        let allowed = 2 * world.log.live_bytes() + 9 * store::limits::SEGMENT_BYTES_MIN;
        assert!(bytes <= allowed, "seed {seed}: {bytes} bytes are used, {} alive", world.log.live_bytes());
        removed += segments.last().map_or(0, |last| last.0 - segments.len() as u64);
        let metrics = world.log.metrics();
        assert_eq!(metrics.messages_moved == 0, metrics.bytes_moved == 0, "seed {seed}: {metrics:?}");
        moved += metrics.messages_moved;
        world.crash();
        add(&mut counts, world.model.counts);
        reads += world.reads;
        footers += world.footers_used;
    }
    println!(
        "{number} seeds: {removed} segments were given back, {reads} pieces were read, {moved} messages moved in \
         last lives, {footers} footers, {counts:?}"
    );
    println!("{fetches} fetches had {messages} messages");
    assert!(number < 20 || (reads > 20 && removed > 100 && moved > 20), "segments were moved");
    assert!(number < 20 || footers > 100, "footers were read in place of segments");
    assert!(number < 20 || (fetches > 100 && messages > 1_000), "messages were fetched");
}
