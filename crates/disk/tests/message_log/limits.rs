//! A disk that is full, that fails, and from which segments are missing.

use crate::world::{Bodies, LOG, World};
use crate::{and, seeds};
use disk::DiskFaults;
use store::limits::{NO_SPACE_RETRY_US, SEGMENT_BYTES_MIN};
use store::{Block, DiskErrorKind, MessageDamage, MessageLogEvent, Position, ScanError, SegmentId};

fn has(world: &World, event: &MessageLogEvent) -> bool {
    world.events.contains(event)
}

/// Appends until the disk is full.
fn fill(world: &mut World, capacity_segments: u64) {
    world.disk.set_capacity(capacity_segments * SEGMENT_BYTES_MIN);
    world.events.clear();
    while !has(world, &MessageLogEvent::NoSpace) {
        let queue = world.any_queue();
        world.append_new(queue);
        world.log.await_durable(world.model.last_ticket());
        world.run_for(3_000);
    }
    // What publishers had sent before they heard of it.
    for _ in 0..world.random.below(30) {
        let queue = world.any_queue();
        world.append_new(queue);
    }
}

fn settle_all(world: &mut World) {
    for queue in world.queues.clone() {
        for position in world.model.live(queue) {
            // In runs, and one by one.
            world.settle(queue, position, 1);
        }
    }
}

fn is_all_durable(world: &mut World) -> bool {
    world.log.await_durable(world.model.last_ticket());
    world.run_for(2_000_000);
    world.model.durable() >= world.model.last_ticket()
}

/// So many messages, one after another, take the space of those before, and the last one is durable.
fn check_has_space(world: &mut World, messages: u32, seed: u64) {
    for _ in 0..messages {
        let queue = world.any_queue();
        let (position, _) = world.append_new(queue);
        world.log.await_durable(world.model.last_ticket());
        world.run_for(3_000);
        world.settle(queue, position, 1);
    }
    let queue = world.any_queue();
    world.append_new(queue);
    assert!(is_all_durable(world), "seed {seed}: what was settled is space");
    assert_eq!(world.failures(), [], "seed {seed}");
}

#[test]
fn a_full_disk_takes_settlements_and_goes_on_when_they_have_freed_segments() {
    for seed in seeds(30) {
        let mut world = World::new(seed, Bodies::Big);
        fill(&mut world, 8 + seed % 5);
        if world.random.one_in(3) {
            world.crash();
        }
        settle_all(&mut world);
        world.run_for(2_000_000);
        if world.random.one_in(3) {
            world.crash();
            settle_all(&mut world);
            world.run_for(2_000_000);
        }
        assert_eq!(world.log.live_bytes(), 0, "seed {seed}");
        check_has_space(&mut world, 100, seed);
        world.crash();
    }
}

#[test]
fn a_full_disk_is_left_alone_while_nothing_is_alive() {
    for capacity_segments in 3..6 {
        let mut world = World::new(1, Bodies::Big);
        fill(&mut world, capacity_segments);
        settle_all(&mut world);
        world.run_for(2_000_000);
        let (written_bytes, events) = (world.written_bytes, world.events.len());
        world.run_for(10_000_000);
        assert_eq!(world.written_bytes, written_bytes, "{capacity_segments} segments: nothing is written for nobody");
        assert_eq!(world.events.len(), events, "{capacity_segments} segments: publishers are not told again and again");
        world.crash();
    }
}

#[test]
fn after_a_full_disk_lives_in_which_nothing_is_written_do_not_lose_where_the_log_begins() {
    for seed in seeds(60) {
        let mut world = World::new(seed, Bodies::Big);
        fill(&mut world, 3 + seed % 8);
        if world.random.one_in(2) {
            settle_all(&mut world);
        }
        for queue in world.queues.clone() {
            for position in world.model.live(queue) {
                if world.random.one_in(2) {
                    world.settle(queue, position, 1);
                }
            }
        }
        let us = world.random.below(2_000_000);
        world.run_for(us);
        world.crash();
        world.disk.set_capacity(1_000 * SEGMENT_BYTES_MIN);
        for _ in 0..3 {
            world.run_for(2_000_000);
            world.crash();
        }
    }
}

#[test]
fn a_segment_that_a_full_disk_could_not_rename_is_used_once_it_can() {
    for seed in seeds(30) {
        let mut world = World::new(seed, Bodies::Big);
        fill(&mut world, 6 + seed % 5);
        world.disk.set_faults(DiskFaults { rename_no_space: 1, ..DiskFaults::default() });
        settle_all(&mut world);
        world.run_for(20 * NO_SPACE_RETRY_US);
        world.disk.set_faults(DiskFaults::default());
        world.run_for(2 * NO_SPACE_RETRY_US);
        assert_eq!(world.log.live_bytes(), 0, "seed {seed}");
        check_has_space(&mut world, 200, seed);
        world.crash();
    }
}

#[test]
fn a_disk_that_gets_space_from_elsewhere_is_tried_again() {
    let mut world = World::new(1, Bodies::Big);
    fill(&mut world, 10);
    while !world.log.is_congested() {
        let queue = world.any_queue();
        world.append_new(queue);
        world.run_for(3_000);
    }
    assert!(!is_all_durable(&mut world), "there is no space for all of it");
    assert!(!has(&world, &MessageLogEvent::Space));
    world.disk.set_capacity(100 * SEGMENT_BYTES_MIN);
    world.run_for(2 * NO_SPACE_RETRY_US);
    assert!(is_all_durable(&mut world) && has(&world, &MessageLogEvent::Space));
    assert!(!world.log.is_congested());
    world.crash();
}

#[test]
fn after_an_error_of_the_disk_nothing_is_durable_any_more_and_what_was_is_found() {
    let mut failed = 0;
    // A message that was returned and settled, and whose settlement was lost, was not known to have been returned.
    for seed in and(seeds(60), &[1403]) {
        let mut world = World::new(seed, Bodies::Mixed);
        let once_in = 5 + seed as u32 % 60;
        let faults = match seed % 3 {
            0 => DiskFaults { write_error: once_in, ..DiskFaults::default() },
            1 => DiskFaults { make_error: 4, slow: 20, ..DiskFaults::default() },
            _ => DiskFaults { write_error: once_in, slow: 10, ..DiskFaults::default() },
        };
        world.disk.set_faults(faults);
        for _ in 0..300 {
            world.step();
            if !world.failures().is_empty() {
                break;
            }
        }
        if let [error] = &world.failures()[..] {
            assert_eq!(error.kind, DiskErrorKind::Failed);
            failed += 1;
            let durable = world.model.durable();
            for _ in 0..50 {
                world.step();
            }
            world.run_for(1_000_000);
            assert_eq!(world.model.durable(), durable, "seed {seed}: nothing is durable any more");
            assert_eq!(world.failures().len(), 1, "seed {seed}: it is told once");
        }
        world.disk.set_faults(DiskFaults::default());
        world.crash();
    }
    println!("{failed} logs failed");
    assert!(seeds(60).count() < 30 || failed > 20, "the faults happened");
}

/// A log that has given segments back and has some with something in them.
pub fn reclaimed(seed: u64) -> World {
    let mut world = World::new(seed, Bodies::Big);
    for at in 0..600 {
        let queue = world.any_queue();
        let (position, _) = world.append_new(queue);
        world.log.await_durable(world.model.last_ticket());
        world.run_for(3_000);
        if at % 20 > 0 {
            world.settle(queue, position, 1);
        }
    }
    world.run_for(1_000_000);
    assert!(world.disk.segments(LOG)[0].0 > 1, "segments were given back");
    world
}

#[test]
fn a_missing_first_segment_is_damage_although_the_log_once_began_earlier() {
    let mut world = reclaimed(3);
    let (_, recovered) = world.recover().expect("a log");
    let first = recovered.end.segments[0];
    let segment = SegmentId { log: LOG, number: first.number };
    // What nothing needs is no part of it.
    for number in recovered.end.unused {
        world.remove(SegmentId { log: LOG, number });
    }
    assert!(world.recover().is_ok());
    world.remove(segment);
    let Err(ScanError::Damaged(damage)) = world.recover() else { panic!("a segment is gone") };
    assert_eq!(damage.first, first.first);
}

/// What is told of messages that a segment was to be moved with and that cannot be read.
fn lost(world: &World) -> Vec<MessageDamage> {
    let lost = world.events.iter().filter_map(|event| match event {
        MessageLogEvent::Lost(damage) => Some(*damage),
        _ => None,
    });
    lost.collect()
}

/// Appends and settles until messages are lost: sooner or later segments are moved.
fn use_until_messages_are_lost(world: &mut World) {
    while lost(world).is_empty() {
        assert!(world.model.last_ticket().0 < 100_000, "segments are moved");
        let queue = world.any_queue();
        let (position, _) = world.append_new(queue);
        world.log.await_durable(world.model.last_ticket());
        world.run_for(3_000);
        world.settle(queue, position, 1);
    }
}

#[test]
fn a_segment_that_is_damaged_when_it_is_moved_stays_until_what_it_has_lost_is_settled() {
    let mut world = reclaimed(4);
    let (_, recovered) = world.recover().expect("a log");
    for start in &recovered.end.segments {
        for block in 1..1000 {
            world.disk.flip_bit(SegmentId { log: LOG, number: start.number }, Block(block), 1000);
        }
    }
    use_until_messages_are_lost(&mut world);
    let told = lost(&world);
    for damage in &told {
        assert!(recovered.end.segments.iter().any(|start| start.number == damage.segment.number), "{damage}");
        assert!(world.model.live(damage.queue).contains(&damage.first), "{damage}");
        assert!(damage.to_string().contains(&format!(" is damaged at block {}: of queue ", damage.block.0)));
    }
    let is_there = |world: &World| world.disk.segments(LOG).contains(&told[0].segment.number);
    for _ in 0..2_000 {
        let queue = world.any_queue();
        let (position, _) = world.append_new(queue);
        world.settle(queue, position, 1);
        world.log.await_durable(world.model.last_ticket());
        world.run_for(3_000);
    }
    assert_eq!(lost(&world), told, "it is told once");
    assert!(is_there(&world));
    assert_eq!(world.failures(), []);
    settle_all(&mut world);
    for _ in 0..200 {
        let queue = world.any_queue();
        let (position, _) = world.append_new(queue);
        world.log.await_durable(world.model.last_ticket());
        world.run_for(3_000);
        world.settle(queue, position, 1);
    }
    assert!(!is_there(&world), "nothing in it is needed");
    assert!(world.log.log_bytes() <= 8 * SEGMENT_BYTES_MIN, "{} bytes", world.log.log_bytes());
    world.crash();
}

#[test]
fn a_read_error_while_a_segment_is_moved_leaves_it_as_it_is() {
    let mut world = reclaimed(5);
    world.disk.set_faults(DiskFaults { read_error: 1, ..DiskFaults::default() });
    use_until_messages_are_lost(&mut world);
    assert!(world.events.iter().any(|event| matches!(event, MessageLogEvent::Unreadable(_))));
    assert!(is_all_durable(&mut world), "the log goes on");
    assert_eq!(world.failures(), []);
    world.disk.set_faults(DiskFaults::default());
    world.crash();
}

/// Fetches everything.
fn fetch_all(world: &mut World) {
    for queue in world.queues.clone() {
        for level in [0, 7] {
            let begin = level << 56;
            world.fetch_range(queue, Position(begin)..Position(begin + (1 << 40)), 0..0);
        }
    }
    world.await_fetches();
}

#[test]
fn messages_that_cannot_be_read_are_told_by_segment_block_queue_and_positions_and_the_others_are_fetched() {
    let mut world = reclaimed(6);
    fetch_all(&mut world);
    let (_, alive) = world.fetched;
    let (_, recovered) = world.recover().expect("a log");
    let spoiled = recovered.end.segments[recovered.end.segments.len() / 2].number;
    let segment = SegmentId { log: LOG, number: spoiled };
    for block in 1..1024 {
        world.disk.flip_bit(segment, Block(block), 4321);
    }
    // What was read before is not kept for long.
    world.run_for(3_000_000);
    world.fetched = (0, 0);
    fetch_all(&mut world);
    let mut missing = 0;
    for event in &world.events {
        let MessageLogEvent::Damaged(damage) = event else { continue };
        assert_eq!(damage.segment, segment);
        let text = damage.to_string();
        assert!(text.starts_with(&format!("{segment} is damaged at block {}: of queue", damage.block.0)), "{text}");
        let live = world.model.live(damage.queue);
        let named = live.iter().filter(|position| (damage.first..damage.end).contains(position)).count() as u64;
        assert!(live.contains(&damage.first) && damage.block.0 > 0 && named > 0);
        missing += named;
    }
    let (_, found) = world.fetched;
    assert!(missing > 0 && found > 0 && found < alive && found + missing >= alive, "{alive} {found} {missing}");
    assert_eq!(world.failures(), [], "the log goes on");
}

/// Messages that were told to be missing from fetches.
fn missing(world: &World) -> u64 {
    let damaged = world.events.iter().filter_map(|event| match event {
        MessageLogEvent::Damaged(damage) => Some(damage),
        _ => None,
    });
    let named = |damage: &MessageDamage| {
        let live = world.model.live(damage.queue);
        live.iter().filter(|position| (damage.first..damage.end).contains(position)).count() as u64
    };
    damaged.map(named).sum()
}

#[test]
fn what_a_disk_cannot_read_is_missing_and_is_there_when_it_can() {
    for one_in in [1, 3] {
        let mut world = reclaimed(7);
        fetch_all(&mut world);
        let (_, alive) = world.fetched;
        world.run_for(3_000_000);
        world.fetched = (0, 0);
        world.disk.set_faults(DiskFaults { read_error: one_in, ..DiskFaults::default() });
        fetch_all(&mut world);
        let (_, found) = world.fetched;
        let missing = missing(&world);
        assert!(missing > 0 && found + missing >= alive, "one in {one_in}: {alive} {found} {missing}");
        assert!(found > 0 || one_in == 1, "what can be read without its neighbours is");
        assert!(world.events.iter().any(|event| matches!(event, MessageLogEvent::Unreadable(_))));
        assert_eq!(world.failures(), [], "the log goes on");
        world.disk.set_faults(DiskFaults::default());
        world.run_for(3_000_000);
        (world.fetched, world.events) = ((0, 0), Vec::new());
        fetch_all(&mut world);
        assert_eq!((world.fetched.1, world.events.len()), (alive, 0));
    }
}
