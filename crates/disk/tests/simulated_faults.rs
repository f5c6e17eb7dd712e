//! What a simulated disk does wrong, and what it would hold if it did not.

use disk::{Disk, DiskFaults, SimulatedDisk};
use store::limits::{BLOCK_BYTES, SEGMENT_BYTES_MIN};
use store::{AlignedBuffer, Block, Completion, LogId, Request, SegmentId, SegmentNumber, SegmentReader};
use store::{Group, LogEnd, SealedGroup, StoreTag};

const LOG: LogId = LogId(3);
const SEGMENT: SegmentId = SegmentId { log: LOG, number: SegmentNumber(1) };

fn complete(disk: &mut SimulatedDisk, request: Request) -> Completion {
    disk.submit(request);
    disk.set_now(disk.due_us().expect("it is under way"));
    disk.poll().expect("it is due")
}

fn made(faults: DiskFaults) -> SimulatedDisk {
    let mut disk = SimulatedDisk::new(1, DiskFaults::default());
    let blocks = (SEGMENT_BYTES_MIN / BLOCK_BYTES as u64) as u32;
    complete(&mut disk, Request::Make { segment: SEGMENT, blocks, from: None });
    disk.set_faults(faults);
    disk
}

/// A group of two blocks or more.
fn group(text: &[u8]) -> SealedGroup {
    let mut group = Group::default();
    group.definition(1, &text.repeat(5_000 / text.len())).expect("it has capacity");
    let mut chain = LogEnd::empty(StoreTag(7), LOG).chain;
    let range = group.seal(&mut chain, SEGMENT.number, None);
    SealedGroup::new(group, range)
}

/// Writes a group, and returns what it should be.
fn write(disk: &mut SimulatedDisk, block: u32, text: &[u8]) -> Vec<u8> {
    let bytes = group(text).bytes().to_vec();
    let request = Request::Write { segment: SEGMENT, block: Block(block), group: group(text) };
    let Completion::Written { result: Ok(()), .. } = complete(disk, request) else { panic!("it is reported done") };
    bytes
}

fn read(reader: &mut impl SegmentReader, block: u32, bytes: usize) -> Vec<u8> {
    let mut buffer = AlignedBuffer::new(bytes);
    let filled = reader.read(SEGMENT, Block(block), &mut buffer).expect("it can be read");
    buffer[..filled].to_vec()
}

fn damaged(disk: &SimulatedDisk) -> Vec<u32> {
    disk.damage().places().map(|(_, block)| block.0).collect()
}

#[test]
fn a_lost_write_is_damage_until_it_is_written_again_or_repaired() {
    let mut disk = made(DiskFaults { lost_write: 1, ..DiskFaults::default() });
    let bytes = write(&mut disk, 3, b"lost");
    assert_eq!(damaged(&disk), [3, 4]);
    assert_eq!(read(&mut disk, 3, bytes.len()), vec![0; bytes.len()]);
    assert_eq!(read(&mut disk.undamaged(), 3, bytes.len()), bytes);
    disk.repair();
    assert_eq!((read(&mut disk, 3, bytes.len()), disk.damage().is_empty()), (bytes, true));
    write(&mut disk, 3, b"lost again");
    disk.set_faults(DiskFaults::default());
    write(&mut disk, 3, b"written");
    assert!(disk.damage().is_empty());
}

#[test]
fn a_misdirected_write_damages_both_places_and_what_was_there_is_known() {
    let mut disk = made(DiskFaults::default());
    let first = write(&mut disk, 1, b"first");
    disk.set_faults(DiskFaults { misdirected_write: 1, ..DiskFaults::default() });
    let second = write(&mut disk, 3, b"second");
    assert!(damaged(&disk).contains(&3) && damaged(&disk).iter().any(|&block| block < 3));
    assert_ne!(read(&mut disk, 0, 5 * BLOCK_BYTES), read(&mut disk.undamaged(), 0, 5 * BLOCK_BYTES));
    disk.repair();
    assert_eq!(read(&mut disk, 1, 2 * BLOCK_BYTES), first);
    assert_eq!(read(&mut disk, 3, 2 * BLOCK_BYTES), second);
}

#[test]
fn what_a_scrub_reads_of_damage_is_known_until_it_is_asked_for() {
    let mut disk = made(DiskFaults::default());
    write(&mut disk, 3, b"text");
    disk.flip_bit(SEGMENT, Block(4), 100);
    for (is_direct, first, is_read) in [(false, 3, false), (true, 2, false), (true, 3, true)] {
        let buffer = AlignedBuffer::new(2 * BLOCK_BYTES);
        complete(&mut disk, Request::Read { segment: SEGMENT, block: Block(first), buffer, is_direct });
        let asked = [3, 4, 4].map(|block| disk.take_scrubbed(SEGMENT, Block(block)));
        assert_eq!(asked, [false, is_read, false], "direct: {is_direct}, from block {first}");
    }
}

#[test]
fn damage_that_is_accepted_is_not_repaired() {
    let mut disk = made(DiskFaults { lost_write: 1, ..DiskFaults::default() });
    let bytes = write(&mut disk, 3, b"lost");
    disk.accept_damage(SEGMENT, Block(4), BLOCK_BYTES);
    disk.repair();
    let (first, second) = bytes.split_at(BLOCK_BYTES);
    assert_eq!(read(&mut disk, 3, BLOCK_BYTES), first);
    assert_ne!(read(&mut disk, 4, second.len()), second);
}

#[test]
fn a_segment_that_is_cut_off_reads_short() {
    let mut disk = made(DiskFaults::default());
    let bytes = write(&mut disk, 1, b"cut");
    disk.flip_bit(SEGMENT, Block(2), 77);
    disk.truncate(SEGMENT, Block(2));
    assert_eq!(read(&mut disk, 1, bytes.len()), bytes[..BLOCK_BYTES]);
    assert!(!disk.damage().is_empty());
    disk.repair();
    assert_eq!(read(&mut disk, 1, 3 * BLOCK_BYTES)[..bytes.len()], bytes[..]);
}

/// A disk whose power failed during a write, the bytes of the write, and what is there.
fn torn(seed: u64) -> (SimulatedDisk, Vec<u8>, Vec<u8>) {
    let mut disk = SimulatedDisk::new(seed, DiskFaults::default());
    let blocks = (SEGMENT_BYTES_MIN / BLOCK_BYTES as u64) as u32;
    complete(&mut disk, Request::Make { segment: SEGMENT, blocks, from: None });
    let bytes = group(b"torn").bytes().to_vec();
    disk.submit(Request::Write { segment: SEGMENT, block: Block(1), group: group(b"torn") });
    disk.cut_power();
    let found = read(&mut disk, 1, bytes.len());
    (disk, bytes, found)
}

#[test]
fn a_write_that_a_power_cut_tears_may_have_its_first_sectors_alone() {
    let mut prefixes = 0;
    for seed in 0..200 {
        let (disk, bytes, found) = torn(seed);
        let same = bytes.chunks(512).zip(found.chunks(512)).take_while(|(one, other)| one == other).count();
        let rest_is_old = found[(same * 512).min(found.len())..].iter().all(|&byte| byte == 0);
        prefixes += u32::from(same > 1 && found != bytes && rest_is_old);
        assert!(disk.damage().is_empty(), "what was under way is no damage");
    }
    assert!(prefixes > 20, "{prefixes}");
}

#[test]
fn a_disk_that_cannot_be_read_says_so_until_it_can_and_a_removal_may_fail() {
    let mut disk = made(DiskFaults { remove_error: 1, ..DiskFaults::default() });
    disk.set_unreadable(true);
    let mut buffer = AlignedBuffer::new(BLOCK_BYTES);
    assert!(disk.read(SEGMENT, Block(0), &mut buffer).is_err());
    disk.set_unreadable(false);
    assert!(disk.read(SEGMENT, Block(0), &mut buffer).is_ok());
    let Completion::Removed { result, .. } = complete(&mut disk, Request::Remove { segment: SEGMENT }) else {
        panic!("another completion")
    };
    assert!(result.is_err() && disk.segments(LOG) == [SEGMENT.number]);
}

#[test]
fn a_disk_with_lag_takes_longer() {
    let mut disk = made(DiskFaults { lag_us_max: 1_000_000, ..DiskFaults::default() });
    let before_us = disk.due_us();
    let slowest_us = (0..20).map(|at| {
        let began_us = at * 10_000_000;
        disk.set_now(began_us);
        disk.submit(Request::Read {
            segment: SEGMENT,
            block: Block(0),
            buffer: AlignedBuffer::new(BLOCK_BYTES),
            is_direct: false,
        });
        let took_us = disk.due_us().map_or(0, |due_us| due_us - began_us);
        disk.set_now(began_us + took_us);
        assert!(disk.poll().is_some());
        took_us
    });
    assert!(slowest_us.max() > Some(100_000) && before_us.is_none());
}

#[test]
fn a_disk_has_refused_a_segment_until_there_is_room_or_nobody_asks_any_more() {
    let mut disk = made(DiskFaults::default());
    let second = SegmentId { number: SegmentNumber(2), ..SEGMENT };
    let make = |disk: &mut SimulatedDisk, from| {
        let blocks = (SEGMENT_BYTES_MIN / BLOCK_BYTES as u64) as u32;
        let completion = complete(disk, Request::Make { segment: second, blocks, from });
        matches!(completion, Completion::Made { result: Ok(()), .. })
    };
    disk.set_capacity(SEGMENT_BYTES_MIN);
    assert!(!disk.has_refused());
    assert_eq!((make(&mut disk, None), disk.has_refused()), (false, true));
    assert_eq!((make(&mut disk, Some(SEGMENT.number)), disk.has_refused()), (true, false), "it is made of another one");
    let third = SegmentId { number: SegmentNumber(3), ..SEGMENT };
    let ends: [fn(&mut SimulatedDisk); 3] =
        [SimulatedDisk::cut_power, SimulatedDisk::finish, |disk| disk.set_capacity(u64::MAX)];
    for ends in ends {
        complete(&mut disk, Request::Make { segment: third, blocks: 1, from: None });
        assert!(disk.has_refused());
        ends(&mut disk);
        assert!(!disk.has_refused());
    }
}

#[test]
fn a_write_that_a_power_cut_tears_may_lack_sectors_within() {
    let mut within = 0;
    for seed in 0..1_200 {
        let (_, bytes, found) = torn(seed);
        // What was never written has zeros.
        let sectors = found.chunks(512).zip(bytes.chunks(512)).filter(|(_, sent)| sent.iter().any(|&byte| byte != 0));
        let is_there: Vec<bool> = sectors.map(|(found, sent)| found == sent).collect();
        let ends = is_there.iter().zip(is_there.iter().skip(1)).filter(|(before, after)| before != after).count();
        let missing = is_there.iter().filter(|&&is_there| !is_there).count();
        // One row is missing, and what is behind it is there.
        within += u32::from(ends == 2 && is_there[0] && missing > 2);
    }
    assert!(within > 20, "{within}");
}

/// A disk that is synced when it is asked to, and what was written to it: one block synced, one not, and whether the power
/// fails.
fn synced_later(seed: u64, ends: impl FnOnce(&mut SimulatedDisk)) -> [bool; 2] {
    let mut disk = SimulatedDisk::new(seed, DiskFaults::default());
    let blocks = (SEGMENT_BYTES_MIN / BLOCK_BYTES as u64) as u32;
    complete(&mut disk, Request::Make { segment: SEGMENT, blocks, from: None });
    disk.sync_later(true);
    let first = write(&mut disk, 1, b"synced");
    assert!(disk.unsynced_since_us().is_some());
    let Completion::Synced { result: Ok(()), .. } = complete(&mut disk, Request::Sync { segment: SEGMENT }) else {
        panic!("it is synced")
    };
    assert_eq!(disk.unsynced_since_us(), None);
    let second = write(&mut disk, 4, b"unsynced");
    assert_eq!(read(&mut disk, 4, second.len()), second, "it is read from the cache");
    ends(&mut disk);
    assert_eq!(disk.unsynced_since_us(), None);
    [read(&mut disk, 1, first.len()) == first, read(&mut disk, 4, second.len()) == second]
}

#[test]
fn a_power_cut_takes_back_what_is_not_synced_and_a_kill_does_not() {
    let mut left = [0; 2];
    for seed in 0..100 {
        let [is_synced_there, is_rest_there] = synced_later(seed, SimulatedDisk::cut_power);
        assert!(is_synced_there);
        left[usize::from(is_rest_there)] += 1;
        assert_eq!(synced_later(seed, SimulatedDisk::kill), [true, true]);
        assert_eq!(synced_later(seed, SimulatedDisk::finish), [true, true]);
        let next_begins = |disk: &mut SimulatedDisk| {
            let next = SegmentId { log: LOG, number: SegmentNumber(2) };
            let blocks = (SEGMENT_BYTES_MIN / BLOCK_BYTES as u64) as u32;
            complete(disk, Request::Make { segment: next, blocks, from: None });
            complete(disk, Request::Write { segment: next, block: Block(1), group: group(b"next") });
            disk.cut_power();
        };
        assert_eq!(synced_later(seed, next_begins), [true, true], "a segment is synced before the next one is written");
    }
    assert!(left.iter().all(|&times| times > 10), "{left:?}");
}

#[test]
fn a_sync_that_fails_may_lose_what_was_written_since_the_last_one() {
    let fails = |disk: &mut SimulatedDisk| {
        disk.set_faults(DiskFaults { write_error: 1, ..DiskFaults::default() });
        let Completion::Synced { result: Err(_), .. } = complete(disk, Request::Sync { segment: SEGMENT }) else {
            panic!("it fails")
        };
        assert!(disk.lost_since_us().is_some());
        disk.finish();
    };
    let left = (0..100).map(|seed| synced_later(seed, fails));
    let lost = left.filter(|&[first, second]| first && !second).count();
    assert!((10..95).contains(&lost), "{lost}");
}
