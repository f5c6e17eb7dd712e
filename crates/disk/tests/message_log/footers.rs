//! Footers that are not those of their segments: a recovery is what it is without them.

use crate::seeds;
use crate::world::{Bodies, LOG, World};
use disk::DiskFaults;
use store::{
    Footer, FrameSequence, LogId, MessageLogEvent, SegmentEnd, SegmentId, SegmentNumber, SegmentStart, StoreTag,
};

/// A log that has several segments with footers, when its process is killed.
pub fn filled(seed: u64) -> World {
    let mut world = World::new(seed, Bodies::Big);
    while world.disk.footers(LOG).len() < 4 {
        (0..50).for_each(|_| world.step());
    }
    world.run_for(300_000);
    world.disk.kill();
    assert_eq!(world.failures(), []);
    world
}

/// What a recovery says that uses footers: it is the one without. Returns how many it has used.
fn footers_used(world: &mut World) -> u64 {
    world.recover().unwrap_or_else(|error| panic!("seed {}: {error}", world.seed)).1.footers_used
}

/// The footer with one of the things changed that say of which segment it is.
fn of_others(own: &Footer<'_>) -> Vec<Vec<u8>> {
    let Footer { store, log, start, end, .. } = *own;
    let SegmentStart { number, first, previous_crc } = start;
    let starts = [
        SegmentStart { number: SegmentNumber(number.0 + 1), ..start },
        SegmentStart { first: FrameSequence(first.0 - 1), ..start },
        SegmentStart { previous_crc: previous_crc ^ 1, ..start },
    ];
    let ends = [
        SegmentEnd { next: FrameSequence(end.next.0 + 1), ..end },
        SegmentEnd { next: FrameSequence(end.next.0 - 1), ..end },
        SegmentEnd { last_crc: end.last_crc ^ 1, ..end },
    ];
    let starts = starts.map(|start| (store, log, start, end));
    let ends = ends.map(|end| (store, log, start, end));
    let names = [(StoreTag(store.0 + 1), log, start, end), (store, LogId(log.0 + 1), start, end)];
    let others = starts.into_iter().chain(ends).chain(names);
    let footers = others.map(|(store, log, start, end)| {
        let mut other = *own;
        (other.store, other.log, other.start, other.end) = (store, log, start, end);
        other.write()
    });
    footers.collect()
}

#[test]
fn a_footer_that_is_not_that_of_its_segment_is_not_used() {
    let mut unused = 0;
    for seed in seeds(1) {
        let mut world = filled(seed);
        // The same store, log and numbers, and another history: as in a folder to which old segments were copied.
        let mut other = filled(seed + 1_000_000);
        let numbers = world.disk.footers(LOG);
        let all = footers_used(&mut world);
        for &number in &numbers {
            let segment = SegmentId { log: LOG, number };
            let own = world.footer(number).expect("a footer");
            world.put_footer(number, Vec::new());
            let others = footers_used(&mut world);
            // The footer of a segment that is given back counts for nothing.
            unused += all - others;
            let mut wrong = of_others(&Footer::read(&own).expect("a footer"));
            wrong.extend(numbers.iter().filter(|&&next| next != number).filter_map(|&next| world.footer(next)));
            wrong.extend(numbers.iter().filter_map(|&number| other.footer(number)));
            wrong.push(own[..own.len() - 1].to_vec());
            for bytes in wrong {
                assert_ne!(bytes, own);
                world.put_footer(number, bytes);
                assert_eq!(footers_used(&mut world), others, "seed {seed}: {segment}");
            }
            world.put_footer(number, own);
            assert_eq!(footers_used(&mut world), all, "seed {seed}: its own is used");
            let bit = world.random.below(1 << 20) as usize;
            assert!(world.disk.flip_footer_bit(segment, bit));
            assert_eq!(footers_used(&mut world), others, "seed {seed}: bit {bit} of the footer of {segment}");
            assert!(world.disk.flip_footer_bit(segment, bit));
        }
    }
    assert!(unused > 0, "footers stand for segments");
}

/// Makes a footer what it is not: flipped, cut short, missing, or another one's.
fn spoil(world: &mut World, number: SegmentNumber, others: &[Vec<u8>]) {
    let own = world.footer(number).expect("a footer");
    let bytes = match world.random.below(4) {
        0 => {
            let (bit, mut own) = (world.random.below(8 * own.len() as u64) as usize, own);
            own[bit / 8] ^= 1 << (bit % 8);
            own
        }
        1 => own[..world.random.below(own.len() as u64) as usize].to_vec(),
        2 => Vec::new(),
        _ => others[world.random.below(others.len() as u64) as usize].clone(),
    };
    world.put_footer(number, bytes);
}

/// Whichever of them are damaged or stale, and however: what is found is what is found without any.
#[test]
fn any_number_of_footers_may_be_damaged_or_stale_at_once() {
    let (mut some_used, mut none_used, mut spoiled) = (0, 0, 0);
    for seed in seeds(3) {
        let mut world = filled(seed);
        let mut other = filled(seed + 2_000_000);
        let numbers = world.disk.footers(LOG);
        let sound: Vec<Vec<u8>> = numbers.iter().filter_map(|&number| world.footer(number)).collect();
        let stale = numbers.iter().filter_map(|&number| other.footer(number));
        let others: Vec<Vec<u8>> = sound.iter().cloned().chain(stale).collect();
        let (found, expected) = world.recover().expect("a sound log");
        for _ in 0..12 {
            let share = 1 + world.random.below(3);
            for &number in &numbers {
                if world.random.one_in(share) {
                    spoil(&mut world, number, &others);
                    spoiled += 1;
                }
            }
            // It compares with a recovery without footers.
            let (again, recovered) = world.recover().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            assert!(recovered == expected, "seed {seed}: another log");
            assert_eq!((&again.messages, &again.next), (&found.messages, &found.next), "seed {seed}");
            some_used += u64::from(recovered.footers_used > 0);
            none_used += u64::from(recovered.footers_used == 0);
            numbers.iter().zip(&sound).for_each(|(&number, bytes)| world.put_footer(number, bytes.clone()));
        }
    }
    assert!(some_used > 0 && none_used > 0 && spoiled > 50, "{some_used}, {none_used}, {spoiled}");
}

#[test]
fn a_segment_that_cannot_have_its_footer_does_without() {
    let mut world = World::new(7, Bodies::Big);
    while world.disk.footers(LOG).is_empty() {
        world.step();
    }
    let is_told = |world: &World| world.events.iter().any(|event| matches!(event, MessageLogEvent::NoFooter(_)));
    assert!(!is_told(&world));
    world.disk.set_faults(DiskFaults { footer_error: 1, ..DiskFaults::default() });
    while !is_told(&world) {
        world.step();
    }
    let before = world.disk.footers(LOG).len();
    world.run_for(300_000);
    (0..300).for_each(|_| world.step());
    assert_eq!(world.failures(), [], "the log goes on");
    assert!(world.disk.footers(LOG).len() <= before);
    world.crash();
    world.disk.set_faults(DiskFaults::default());
    world.run_for(300_000);
    assert!(world.disk.footers(LOG).len() > before, "the next life makes those that are missing");
}
