//! The scrub: segments are read slowly, again and again, and what is damaged in them is told.

use crate::limits::reclaimed;
use crate::world::{LOG, World};
use disk::DiskFaults;
use std::ops::Range;
use store::limits::{BLOCK_BYTES, SCRUB_BEGIN_US, SCRUB_READ_BYTES, SEGMENT_BYTES_MIN};
use store::{Block, Damage, MessageLogEvent, ScanError, ScrubOptions, SegmentId, SegmentNumber};

const RATE: u64 = 2 << 20;
const INTERVAL_US: u64 = 3_600_000_000;

/// A log that is scrubbed, and its sealed segments. It may do without the first of them.
fn scrubbed(seed: u64) -> (World, Vec<SegmentNumber>) {
    let mut world = reclaimed(seed);
    while world.log.metrics().segments_in_use < 4 {
        let queue = world.any_queue();
        world.append_new(queue);
        world.log.await_durable(world.model.last_ticket());
        world.run_for(3_000);
    }
    world.run_for(1_000_000);
    let (_, recovered) = world.recover().expect("a log");
    let mut sealed: Vec<SegmentNumber> = recovered.end.segments.iter().map(|start| start.number).collect();
    sealed.pop();
    assert!(sealed.len() > 2);
    world.log.set_scrub(Some(ScrubOptions { bytes_per_s: RATE, interval_us: INTERVAL_US }));
    world.events.clear();
    (world, sealed)
}

fn found(world: &World) -> Vec<Damage> {
    let found = world.events.iter().filter_map(|event| match event {
        MessageLogEvent::Scrubbed(damage) => Some(*damage),
        _ => None,
    });
    found.collect()
}

fn passes(world: &World) -> u64 {
    world.log.metrics().scrubs_done
}

/// Ends the pass that is next.
fn pass(world: &mut World) {
    let (before, begun_us) = (passes(world), world.now_us);
    while passes(world) == before {
        world.run_for(5_000_000);
        assert!(world.now_us < begun_us + 2 * INTERVAL_US, "a pass ends");
    }
    assert_eq!(passes(world), before + 1);
}

fn flip(world: &mut World, number: SegmentNumber, blocks: Range<u32>) {
    for block in blocks {
        world.disk.flip_bit(SegmentId { log: LOG, number }, Block(block), 777);
    }
}

#[test]
fn a_sound_log_is_read_once_in_an_interval_no_faster_than_it_may_and_nothing_is_found() {
    let (mut world, sealed) = scrubbed(8);
    world.run_for(SCRUB_BEGIN_US - 2_000_000);
    assert_eq!(world.log.metrics().bytes_scrubbed, 0);
    world.run_for(4_000_000);
    let bytes = world.log.metrics().bytes_scrubbed;
    assert!((RATE..=3 * RATE).contains(&bytes), "{bytes} bytes in two seconds");
    world.run_for(60_000_000);
    let read = world.log.metrics().bytes_scrubbed;
    let (most, sealed) = (sealed.len() as u64 * SEGMENT_BYTES_MIN, sealed.len());
    assert!(read > most / 2 && read <= most + most / 2, "{read} bytes of {sealed} segments");
    world.run_for(INTERVAL_US - 100_000_000);
    assert_eq!((passes(&world), world.log.metrics().bytes_scrubbed), (1, read), "it rests");
    pass(&mut world);
    assert_eq!(world.log.metrics().bytes_scrubbed, 2 * read);
    assert_eq!((found(&world), world.log.metrics().damage_found, world.events.len()), (Vec::new(), 0, 0));
    assert!(world.log.heap_bytes() < 1 << 20, "its memory is given back");
    world.crash();
}

#[test]
fn what_is_damaged_in_sealed_segments_is_told_by_frames_and_by_messages_each_time() {
    let (mut world, sealed) = scrubbed(9);
    // The middle of one segment, and all of another one.
    let spoiled = &sealed[sealed.len() - 2..];
    flip(&mut world, spoiled[0], 300..301);
    flip(&mut world, spoiled[1], 1..(SEGMENT_BYTES_MIN / BLOCK_BYTES as u64) as u32);
    pass(&mut world);
    // A pass begins anywhere.
    let mut told = found(&world);
    told.sort_unstable_by_key(|damage| damage.first);
    assert!(told[0].segment.number == spoiled[0] && told[0].block.0 <= 300, "{told:?}");
    assert_eq!(told[0].next.0, told[0].first.0 + 1);
    let Err(ScanError::Damaged(first)) = world.recover() else { panic!("it is damaged") };
    assert_eq!(first, told[0], "a start names the same");
    assert_eq!((told[1].segment.number, told[1].block), (spoiled[1], Block(1)));
    assert!(told[1..].iter().all(|damage| damage.segment.number == spoiled[1]));
    // What is alive there is named.
    let mut named = 0;
    for event in &world.events {
        let MessageLogEvent::Lost(lost) = event else { continue };
        assert!(spoiled.contains(&lost.segment.number), "{lost}");
        assert!(world.model.live(lost.queue).contains(&lost.first), "{lost}");
        named += 1;
    }
    assert!(named > 0);
    assert_eq!((world.log.metrics().damage_found, world.failures().len()), (told.len() as u64, 0));
    pass(&mut world);
    let mut again = found(&world).split_off(told.len());
    again.sort_unstable_by_key(|damage| damage.first);
    assert_eq!(again, told, "it is told each time");
}

#[test]
fn what_is_damaged_in_the_segment_that_is_being_filled_is_told_and_what_is_written_meanwhile_is_not() {
    let (mut world, sealed) = scrubbed(12);
    let number = SegmentNumber(sealed.last().expect("some are sealed").0 + 1);
    pass(&mut world);
    assert_eq!(found(&world), []);
    flip(&mut world, number, 1..2);
    let (before, queue) = (passes(&world), world.any_queue());
    while passes(&world) == before {
        // What is settled at once becomes a record, and there is always a group more.
        let (position, _) = world.append_new(queue);
        world.settle(queue, position, 1);
        world.log.await_durable(world.model.last_ticket());
        world.run_for(INTERVAL_US / 1_000);
    }
    let told = found(&world);
    let Err(ScanError::Damaged(first)) = world.recover() else { panic!("it is damaged") };
    assert_eq!(told, [first], "a start names the same");
    assert_eq!((first.segment.number, first.block), (number, Block(1)));
}

#[test]
fn a_segment_that_cannot_be_read_is_told_and_one_that_is_given_back_is_not() {
    let (mut world, sealed) = scrubbed(10);
    world.disk.set_faults(DiskFaults { read_error: 1, ..DiskFaults::default() });
    pass(&mut world);
    let told = found(&world);
    let mut numbers: Vec<SegmentNumber> = told.iter().map(|damage| damage.segment.number).collect();
    numbers.sort_unstable();
    let all: Vec<SegmentNumber> =
        sealed.iter().copied().chain(sealed.last().map(|last| SegmentNumber(last.0 + 1))).collect();
    assert!(numbers.len() > 1 && all.ends_with(&numbers), "{all:?} {told:?}");
    let errors = world.events.iter().filter(|event| matches!(event, MessageLogEvent::Unreadable(_))).count();
    assert_eq!(errors, numbers.len(), "the rest of a segment is not tried");
    world.disk.set_faults(DiskFaults::default());
    world.events.clear();
    // Segments are moved, given back and made into others while the scrub reads.
    for at in 0..3_000 {
        let queue = world.any_queue();
        let (position, _) = world.append_new(queue);
        world.settle(queue, position, 1);
        world.log.await_durable(world.model.last_ticket());
        world.run_for(if at % 50 == 0 { INTERVAL_US / 10 } else { 3_000 });
    }
    assert!(passes(&world) > 3, "{} passes", passes(&world));
    assert_eq!(found(&world), []);
    world.crash();
}

#[test]
fn a_log_that_is_always_written_to_is_scrubbed_all_the_same() {
    let (mut world, _) = scrubbed(11);
    world.run_for(SCRUB_BEGIN_US - 1_000_000);
    let queue = world.any_queue();
    for _ in 0..1_500 {
        // There is always something that waits for the disk.
        let (position, _) = world.append_new(queue);
        world.settle(queue, position, 1);
        world.append_new(queue);
        world.log.await_durable(world.model.last_ticket());
        world.now_us += 20_000;
        world.tick();
    }
    let read = world.log.metrics().bytes_scrubbed;
    assert!(read >= 10 * SCRUB_READ_BYTES as u64, "{read} bytes in half a minute");
    assert_eq!(found(&world), []);
}
