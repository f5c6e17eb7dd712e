//! In which order a disk carries requests out: a segment is made, made into another one or removed in its turn among the requests
//! about it, and nothing else waits for that.

use super::*;
use std::collections::BTreeSet;
use store::{Group, SealedGroup};

/// Submits a read of the first block of a segment.
fn submit_read(disk: &mut dyn TestDisk, number: u64) {
    let buffer = AlignedBuffer::new(BLOCK_BYTES);
    disk.submit(Request::Read {
        segment: segment(number),
        block: Block(0),
        buffer,
        is_direct: number.is_multiple_of(2),
    });
}

/// A group that says which one it is, for a segment.
fn group(number: u64, text: u8) -> SealedGroup {
    let mut group = Group::default();
    group.definition(1, &[text; 100]).expect("it has capacity");
    let mut chain = LogEnd::empty(STORE, LOG).chain;
    let range = group.seal(&mut chain, SegmentNumber(number), None);
    SealedGroup::new(group, range)
}

fn write(disk: &mut dyn TestDisk, number: u64, text: u8) -> Vec<u8> {
    let group = group(number, text);
    let bytes = group.bytes().to_vec();
    disk.submit(Request::Write { segment: segment(number), block: Block(0), group });
    let Completion::Written { result, .. } = complete(disk) else { panic!("another completion") };
    assert_eq!(result, Ok(()));
    bytes
}

/// The disks, the simulated one with many seeds.
fn each_disk_and_seed(test: impl Fn(&mut dyn TestDisk)) {
    each_disk(&test);
    for seed in 2..200 {
        test(&mut SimulatedDisk::new(seed, DiskFaults::default()));
    }
}

/// More than all threads of a disk hold.
const MANY_READS: usize = 3 * disk::limits::REQUESTS_MAX;

#[test]
fn a_segment_that_is_made_into_another_one_is_read_before_and_the_other_one_behind() {
    each_disk_and_seed(|disk| {
        make(disk, 1, None);
        let old = write(disk, 1, b'o');
        (0..MANY_READS).for_each(|_| submit_read(disk, 1));
        disk.submit(Request::WriteFooter { segment: segment(1), bytes: b"footer".to_vec() });
        disk.submit(Request::Make { segment: segment(2), blocks: SEGMENT_BLOCKS, from: Some(SegmentNumber(1)) });
        let new = group(2, b'n');
        let new_bytes = new.bytes().to_vec();
        (0..3).for_each(|_| submit_read(disk, 1));
        disk.submit(Request::Write { segment: segment(2), block: Block(1), group: new });
        submit_read(disk, 2);
        let (mut before, mut behind, mut others) = (0, 0, 0);
        while disk.under_way() > 0 {
            match complete(disk) {
                Completion::Read { segment: of, buffer, result: Ok(BLOCK_BYTES), .. } => {
                    assert!(buffer[..] == old[..BLOCK_BYTES], "the bytes that it had under either name");
                    if of == segment(1) { before += 1 } else { behind += 1 }
                }
                Completion::Read { segment: of, result: Err(error), .. } => {
                    assert_eq!((of, error.kind), (segment(1), DiskErrorKind::NotFound));
                    assert_eq!(before, MANY_READS, "those before have been carried out");
                    behind += 1;
                }
                Completion::Made { result: Ok(()), .. }
                | Completion::FooterWritten { result: Ok(()), .. }
                | Completion::Written { result: Ok(()), .. } => others += 1,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((before, behind, others), (MANY_READS, 4, 3));
        assert_eq!((disk.footer(1), disk.footer(2)), (None, None), "the footer was written before, and went with it");
        assert_eq!(read(disk, 2, 1, new_bytes.len()), Ok(new_bytes));
    });
}

#[test]
fn a_segment_that_is_removed_is_read_before_and_one_that_is_made_again_behind() {
    each_disk_and_seed(|disk| {
        make(disk, 1, None);
        let old = write(disk, 1, b'o');
        (0..MANY_READS).for_each(|_| submit_read(disk, 1));
        disk.submit(Request::Remove { segment: segment(1) });
        disk.submit(Request::Make { segment: segment(1), blocks: SEGMENT_BLOCKS, from: None });
        submit_read(disk, 1);
        let (mut olds, mut news) = (0, 0);
        while disk.under_way() > 0 {
            match complete(disk) {
                Completion::Read { buffer, result: Ok(BLOCK_BYTES), .. } if buffer[..] == old[..BLOCK_BYTES] => {
                    olds += 1
                }
                Completion::Read { buffer, result: Ok(BLOCK_BYTES), .. } => {
                    assert!(buffer.iter().all(|&byte| byte == 0));
                    news += 1;
                }
                Completion::Removed { result: Ok(()), .. } | Completion::Made { result: Ok(()), .. } => {}
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((olds, news), (MANY_READS, 1));
    });
}

#[test]
fn what_is_written_and_read_does_not_wait_for_a_segment_that_is_being_made() {
    let mut disk = TestFileDisk::new();
    make(&mut disk, 1, None);
    // A segment that cannot be opened before somebody writes to it: who makes another one of it waits.
    let folder = SegmentFolder::open(&disk.path).expect("the folder is there");
    let fifo = folder.segment_path(segment(2));
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).expect("a fifo");
    disk.submit(Request::Make { segment: segment(3), blocks: SEGMENT_BLOCKS, from: Some(SegmentNumber(2)) });
    disk.submit(Request::Remove { segment: segment(4) });
    let bytes = write(&mut disk, 1, b'w');
    assert_eq!(read(&mut disk, 1, 0, bytes.len()), Ok(bytes));
    disk.submit(Request::Sync { segment: segment(1) });
    assert!(matches!(complete(&mut disk), Completion::Synced { result: Ok(()), .. }));
    assert_eq!(disk.under_way(), 2, "one is being made, and what came behind it waits");
    let _writer = std::fs::File::options().write(true).open(&fifo).expect("somebody reads it");
    let Completion::Made { result, .. } = complete(&mut disk) else { panic!("another completion") };
    assert_eq!(result, Ok(()));
    assert!(matches!(complete(&mut disk), Completion::Removed { result: Ok(()), .. }));
}

#[test]
fn a_gate_closes_while_a_segment_is_written_through_and_not_while_it_gets_its_name() {
    let gate = disk::WriteGate::default();
    let mut disk = TestFileDisk::with(|folder| folder.with_gate(gate.clone()));
    let folder = SegmentFolder::open_to_read(&disk.path).expect("the folder is there");
    let closed = gate.close();
    disk.submit(Request::Make { segment: segment(1), blocks: SEGMENT_BLOCKS, from: None });
    let new = folder.segment_path(segment(1)).with_extension("new");
    let is_written = || std::fs::metadata(&new).is_ok_and(|metadata| metadata.len() == SEGMENT_BYTES);
    while !is_written() {
        std::thread::yield_now();
    }
    assert_eq!((folder.segments(LOG), disk.poll().is_none()), (Ok(Vec::new()), true), "it waits for its name");
    drop(closed);
    assert!(matches!(complete(&mut disk), Completion::Made { result: Ok(()), .. }));
    assert_eq!(folder.segments(LOG), Ok(vec![SegmentNumber(1)]));
}

#[test]
fn the_simulated_disk_completes_writes_and_makes_in_any_order() {
    let (mut orders, mut written_meanwhile) = (BTreeSet::new(), 0);
    for seed in 0..200 {
        let mut disk = SimulatedDisk::new(seed, DiskFaults::default());
        make(&mut disk, 1, None);
        disk.submit(Request::Make { segment: segment(2), blocks: SEGMENT_BLOCKS, from: None });
        disk.submit(Request::Remove { segment: segment(3) });
        disk.submit(Request::Write { segment: segment(1), block: Block(0), group: group(1, b'w') });
        let mut order = Vec::new();
        while disk.under_way() > 0 {
            order.push(match complete(&mut disk) {
                Completion::Made { .. } => 'm',
                Completion::Removed { .. } => 'r',
                Completion::Written { .. } => 'w',
                other => panic!("{other:?}"),
            });
        }
        orders.insert(order);
        // One group after another, while a segment is made.
        disk.submit(Request::Make { segment: segment(4), blocks: SEGMENT_BLOCKS, from: None });
        let before = disk.metrics().segments_made;
        let mut writes = 0;
        while disk.metrics().segments_made == before {
            if disk.under_way() == 1 {
                disk.submit(Request::Write { segment: segment(1), block: Block(0), group: group(1, b'w') });
                writes += 1;
            }
            complete(&mut disk);
        }
        written_meanwhile = written_meanwhile.max(writes);
    }
    assert_eq!(orders.len(), 6, "{orders:?}");
    assert!(written_meanwhile > 4, "{written_meanwhile}");
}
