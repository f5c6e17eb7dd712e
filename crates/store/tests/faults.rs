//! Logs from a seed, with power cuts, flipped bits and recycled segments: what was durable is found, a torn write is never
//! taken for damage, and damage is never taken for a torn write.

use splitmix::SplitMix64;
use std::collections::{BTreeMap, HashMap};
use store::limits::{BLOCK_BYTES, MARK_DELAY_US, SEGMENT_BYTES_MIN};
use store::{
    AlignedBuffer, Block, Completion, Damage, DiskError, DiskErrorKind, FrameHeader, FrameSequence, GroupNumber,
    LogEnd, LogEvent, LogId, LogWriter, OnDamage, Record, RecordVisitor, Request, ScanError, ScanResult, SegmentHeader,
    SegmentId, SegmentNumber, SegmentReader, SegmentStart, StoreTag, UnreadableEnd, scan,
};

const STORE: StoreTag = StoreTag(0xabcd);
const LOG: LogId = LogId(2);
const SECTOR_BYTES: usize = 512;

/// Segments in memory: only the blocks that were written.
#[derive(Clone, Default)]
struct Segments(BTreeMap<SegmentNumber, HashMap<u32, Vec<u8>>>);

impl Segments {
    fn block_mut(&mut self, segment: SegmentNumber, block: u32) -> &mut Vec<u8> {
        let blocks = self.0.get_mut(&segment).expect("a segment that was made");
        blocks.entry(block).or_insert_with(|| vec![0; BLOCK_BYTES])
    }

    /// Writes the sectors that `chosen` chooses.
    fn write(&mut self, segment: SegmentNumber, block: Block, bytes: &[u8], mut chosen: impl FnMut() -> bool) {
        for (at, sector) in bytes.chunks(SECTOR_BYTES).enumerate() {
            if chosen() {
                let byte = at * SECTOR_BYTES;
                let to = self.block_mut(segment, block.0 + (byte / BLOCK_BYTES) as u32);
                to[byte % BLOCK_BYTES..][..sector.len()].copy_from_slice(sector);
            }
        }
    }
}

impl SegmentReader for Segments {
    fn read(&mut self, segment: SegmentId, block: Block, buffer: &mut AlignedBuffer) -> Result<usize, DiskError> {
        let missing = || DiskError { kind: DiskErrorKind::NotFound, text: format!("{segment} does not exist") };
        let blocks = self.0.get(&segment.number).ok_or_else(missing)?;
        // What lies behind the last block that was written is zero.
        let end = blocks.keys().max().map_or(1, |last| last + 3);
        let mut filled = 0;
        for (block, to) in (block.0..end).zip(buffer.chunks_mut(BLOCK_BYTES)) {
            match blocks.get(&block) {
                Some(bytes) => to.copy_from_slice(bytes),
                None => to.fill(0),
            }
            filled += BLOCK_BYTES;
        }
        Ok(filled)
    }

    fn read_footer(&mut self, _: SegmentId) -> Result<Option<Vec<u8>>, DiskError> {
        Ok(None)
    }
}

/// Where a frame lies, and the numbers that it holds.
struct FoundFrame {
    segment: SegmentNumber,
    block: Block,
    blocks: u32,
    bytes: usize,
    sequence: FrameSequence,
    numbers: Vec<u64>,
}

#[derive(Default)]
struct Found {
    frames: Vec<FoundFrame>,
    damage: Vec<Damage>,
}

impl Found {
    fn numbers(&self) -> Vec<u64> {
        self.frames.iter().flat_map(|frame| frame.numbers.iter().copied()).collect()
    }
}

impl RecordVisitor for Found {
    fn on_frame(&mut self, segment: SegmentId, block: Block, header: &FrameHeader) {
        let blocks = header.blocks();
        let bytes = 64 + header.bytes as usize;
        let segment = segment.number;
        self.frames.push(FoundFrame { segment, block, blocks, bytes, sequence: header.sequence, numbers: Vec::new() });
    }

    fn on_record(&mut self, record: Record<'_>) {
        let Record::Definition { version, bytes } = record else { panic!("only numbers are written: {record:?}") };
        assert!(bytes.iter().all(|&byte| byte == version as u8));
        self.frames.last_mut().expect("a frame").numbers.push(version);
    }

    fn on_damage(&mut self, damage: &Damage) {
        self.damage.push(*damage);
    }
}

fn read(segments: &Segments, on_damage: OnDamage) -> (Result<ScanResult, ScanError>, Found) {
    let mut found = Found::default();
    let numbers = segments.0.keys().copied().collect();
    let result = scan(LogEnd::empty(STORE, LOG).chain, numbers, on_damage, &mut segments.clone(), &mut found);
    (result, found)
}

/// Writes that a disk has completed and not synced, all of one segment.
#[derive(Default)]
struct VolatileWrites {
    writes: Vec<(SegmentNumber, Block, Vec<u8>)>,
    /// A sync is under way: of so many of them, with numbers below this one.
    syncing: Option<(usize, u64)>,
}

impl VolatileWrites {
    /// Syncs the first `count`.
    fn sync(&mut self, count: usize, to: &mut Segments) {
        for (segment, block, bytes) in self.writes.drain(..count) {
            to.write(segment, block, &bytes, || true);
        }
        self.syncing = self.syncing.map(|(all, next)| (all - count.min(all), next));
    }

    /// A disk syncs a segment before it writes to the next one.
    fn begin_segment(&mut self, segment: SegmentNumber, to: &mut Segments) {
        if self.writes.first().is_some_and(|(other, ..)| *other != segment) {
            self.sync(self.writes.len(), to);
        }
    }
}

/// A log that has had some lives.
struct World {
    /// The disk is synced so long after a write, and not with each.
    interval_us: Option<u64>,
    random: SplitMix64,
    segments: Segments,
    /// The number that is appended next.
    next: u64,
    /// Numbers below this one are durable.
    durable: u64,
    now_us: u64,
    cuts: u64,
    torn: u64,
    /// Writes that were complete and not synced at a power cut.
    lost: u64,
}

impl World {
    /// Appends and writes until so many writes are done; then the power fails, perhaps during a write.
    fn live(&mut self, end: LogEnd, writes: u64, large: bool) {
        let mut writer = LogWriter::new(end, SEGMENT_BYTES_MIN);
        self.interval_us.into_iter().for_each(|interval_us| writer.sync_later(interval_us));
        let mut unsynced = VolatileWrites::default();
        let mut written = self.durable;
        // The last number of each group.
        let mut groups: BTreeMap<GroupNumber, u64> = BTreeMap::new();
        let mut under_way = None;
        let mut done = 0;
        loop {
            for _ in 0..self.random.below(4) {
                let len = if large { self.random.below(200_000) } else { self.random.below(3_000) };
                let bytes = vec![self.next as u8; len as usize];
                let group = writer.append(|group| group.definition(self.next, &bytes));
                self.next += 1;
                groups.insert(group, self.next);
            }
            self.now_us += self.random.below(3) * MARK_DELAY_US;
            while let Some(request) = writer.poll(self.now_us, self.random.one_in(2)) {
                match request {
                    Request::Make { segment, from, .. } => {
                        let old = from.and_then(|from| self.segments.0.remove(&from)).unwrap_or_default();
                        self.segments.0.insert(segment.number, old);
                        assert_eq!(writer.complete(Completion::Made { segment, result: Ok(()) }, self.now_us), None);
                    }
                    Request::Write { segment, block, group } => {
                        assert!(under_way.is_none(), "one write at a time");
                        assert!(group.bytes().as_ptr().addr().is_multiple_of(BLOCK_BYTES));
                        assert!((block.0 as usize * BLOCK_BYTES + group.bytes().len()) as u64 <= SEGMENT_BYTES_MIN);
                        under_way = Some((segment, block, group));
                    }
                    Request::Remove { segment } => {
                        self.segments.0.remove(&segment.number);
                        assert_eq!(writer.complete(Completion::Removed { segment, result: Ok(()) }, self.now_us), None);
                    }
                    Request::Sync { .. } => {
                        assert!(unsynced.syncing.is_none() && self.interval_us.is_some(), "one sync at a time");
                        unsynced.syncing = Some((unsynced.writes.len(), written));
                    }
                    Request::Read { .. } | Request::WriteFooter { .. } => panic!("this writer does nothing else"),
                }
            }
            if done >= writes && (under_way.is_some() || self.random.one_in(4)) {
                break;
            }
            if let Some((count, next)) = unsynced.syncing.filter(|_| self.random.one_in(3)) {
                unsynced.sync(count, &mut self.segments);
                unsynced.syncing = None;
                let segment = SegmentId { log: LOG, number: SegmentNumber(0) };
                assert_eq!(writer.complete(Completion::Synced { segment, result: Ok(()) }, self.now_us), None);
                self.durable = next;
            }
            let Some((segment, block, group)) = under_way.take_if(|_| self.random.one_in(2)) else { continue };
            unsynced.begin_segment(segment.number, &mut self.segments);
            unsynced.writes.push((segment.number, block, group.bytes().to_vec()));
            done += 1;
            let event = writer.complete(Completion::Written { segment, group, result: Ok(()) }, self.now_us);
            let Some(LogEvent::Durable(group)) = event else { panic!("{event:?}") };
            let durable = groups.range(..=group).next_back().map_or(self.durable, |(_, &next)| next);
            assert!(durable >= written);
            written = durable;
            if self.interval_us.is_none() {
                unsynced.sync(1, &mut self.segments);
                self.durable = written;
            }
        }
        if let Some((segment, ..)) = &under_way {
            unsynced.begin_segment(segment.number, &mut self.segments);
        }
        // Of what was not synced the disk has some, in any order.
        for (segment, block, bytes) in unsynced.writes {
            self.lost += 1;
            let random = &mut self.random;
            let share = random.below(3);
            self.segments.write(segment, block, &bytes, || share > 0 && !random.one_in(share));
        }
        if let Some((segment, block, group)) = under_way {
            self.cuts += 1;
            let random = &mut self.random;
            let share = 1 + random.below(5);
            let spared = random.one_in(8);
            self.segments.write(segment.number, block, group.bytes(), || spared || !random.one_in(share));
        }
    }

    /// Reads what is there after a power cut.
    fn recover(&mut self, seed: u64) -> LogEnd {
        let (result, found) = read(&self.segments, OnDamage::Fail);
        let result = result.unwrap_or_else(|error| panic!("seed {seed}: a torn write was taken for damage: {error}"));
        let numbers = found.numbers();
        let expected: Vec<u64> = (0..numbers.len() as u64).collect();
        assert_eq!(numbers, expected, "seed {seed}: in order, and without a gap");
        let found = numbers.len() as u64;
        assert!(found >= self.durable, "seed {seed}: {} were durable, {found} were found", self.durable);
        assert!(found <= self.next, "seed {seed}: what was never written was found");
        self.torn += u64::from(found < self.next);
        // What was found counts from now on: the next writer goes on behind it.
        (self.next, self.durable) = (found, found);
        result.end
    }

    /// Segments that nothing needs are given to the writer, with what is in them.
    fn add_unused(&mut self, end: &mut LogEnd) {
        let mut old = HashMap::new();
        if let Some((number, blocks)) = self.segments.0.iter().next()
            && self.random.one_in(2)
        {
            // As if an older segment had been copied: frames that check out, under a number that they do not say.
            assert!(*number < end.next_segment);
            old.clone_from(blocks);
        }
        self.segments.0.insert(end.next_segment, old);
        end.unused.push(end.next_segment);
        end.next_segment = SegmentNumber(end.next_segment.0 + 1);
    }
}

fn world(seed: u64) -> World {
    let (random, segments) = (SplitMix64::new(seed), Segments::default());
    World { interval_us: None, random, segments, next: 0, durable: 0, now_us: 1_000_000, cuts: 0, torn: 0, lost: 0 }
}

/// A log with some power cuts behind it, and where it ends.
fn lives(seed: u64) -> (World, LogEnd) {
    lives_of(world(seed), seed)
}

fn lives_of(mut world: World, seed: u64) -> (World, LogEnd) {
    let mut end = LogEnd::empty(STORE, LOG);
    let large = world.random.one_in(3);
    for _ in 0..1 + world.random.below(4) {
        if world.random.one_in(3) {
            world.add_unused(&mut end);
        }
        let writes = world.random.below(12);
        world.live(end, writes, large);
        end = world.recover(seed);
    }
    (world, end)
}

fn seeds() -> u64 {
    std::env::var("STORE_SEEDS").map_or(120, |seeds| seeds.parse().expect("STORE_SEEDS is a number"))
}

#[test]
fn after_power_cuts_all_that_was_durable_is_there_and_nothing_is_called_damage() {
    let (mut cuts, mut torn) = (0, 0);
    for seed in 0..seeds() {
        let (world, _) = lives(seed);
        cuts += world.cuts;
        torn += world.torn;
    }
    println!("{cuts} power cuts during a write, {torn} of which lost what was not durable");
    assert!(cuts > seeds() / 2 && torn > seeds() / 4, "the faults happened");
}

#[test]
fn with_later_syncs_all_that_was_synced_is_there_and_nothing_is_called_damage() {
    let (mut lost, mut torn) = (0, 0);
    for seed in 0..seeds() {
        let world = World { interval_us: Some(1 + seed % 3 * MARK_DELAY_US), ..world(seed) };
        let (world, _) = lives_of(world, seed);
        lost += world.lost;
        torn += world.torn;
    }
    println!("{lost} writes were not synced when the power failed, and {torn} times something was lost");
    assert!(lost > seeds() / 2 && torn > seeds() / 4, "the faults happened");
}

/// Without these bytes of its header a frame is not known as one of its segment: magic number, format, kind, flags and log; segment;
/// store.
const UNKNOWN_AS_FRAME: [std::ops::Range<usize>; 3] = [0..12, 16..24, 60..64];

#[test]
fn a_flipped_bit_in_what_a_later_frame_proves_is_damage_and_the_rest_is_read() {
    let (mut told, mut last, mut ends_told) = (0, 0, 0);
    for seed in 0..seeds() {
        let (mut world, end) = lives(seed);
        let (_, before) = read(&world.segments, OnDamage::Fail);
        if before.frames.is_empty() {
            continue;
        }
        let target = world.random.below(before.frames.len() as u64) as usize;
        let frame = &before.frames[target];
        let byte = world.random.below(frame.bytes as u64) as usize;
        let block = frame.block.0 + (byte / BLOCK_BYTES) as u32;
        world.segments.block_mut(frame.segment, block)[byte % BLOCK_BYTES] ^= 1 << world.random.below(8);
        let (result, after) = read(&world.segments, OnDamage::Skip);
        let result = result.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let kept: Vec<u64> = before.frames[..target].iter().flat_map(|frame| frame.numbers.clone()).collect();
        // The frames of the last group alone may have nobody behind them who proves that they were durable.
        if result.damage.is_empty() {
            last += 1;
            assert_eq!(after.numbers(), kept, "seed {seed}: the log ends before it");
            assert!(result.end.chain.next <= frame.sequence && frame.sequence < end.chain.next, "seed {seed}");
            let place = UnreadableEnd { segment: SegmentId { log: LOG, number: frame.segment }, block: frame.block };
            let is_known = !UNKNOWN_AS_FRAME.iter().any(|bytes| bytes.contains(&byte));
            assert_eq!(result.unreadable_end, Some(place).filter(|_| is_known), "seed {seed}: byte {byte}");
            ends_told += u64::from(is_known);
            continue;
        }
        told += 1;
        let [damage] = result.damage[..] else { panic!("seed {seed}: {:?}", result.damage) };
        assert_eq!(after.damage, [damage]);
        assert_eq!(
            (damage.first, damage.next),
            (frame.sequence, frame.sequence.next()),
            "seed {seed}: this frame alone"
        );
        assert_eq!((damage.segment.number, damage.block), (frame.segment, frame.block), "seed {seed}");
        let behind = before.frames[target + 1..].iter().flat_map(|frame| frame.numbers.clone());
        let expected: Vec<u64> = kept.into_iter().chain(behind).collect();
        assert_eq!(after.numbers(), expected, "seed {seed}: all other frames are read");
        let (strict, _) = read(&world.segments, OnDamage::Fail);
        assert_eq!(strict, Err(ScanError::Damaged(damage)), "seed {seed}");
        assert!(frame.blocks >= 1);
    }
    println!(
        "{told} flips told as damage, {last} in frames that nothing proves, {ends_told} of which are the end that is told"
    );
    assert!(ends_told > last / 2, "the last frame is told to be unreadable");
    assert!(told > seeds() / 4 && told > 2 * last, "the faults happened");
}

/// The write that begins a segment may be torn so that its header is not there, and its frame is.
#[test]
fn a_last_frame_that_cannot_be_read_is_told_in_a_segment_without_a_header() {
    let mut told = 0;
    for seed in 0..seeds() {
        let (mut world, _) = lives(seed);
        let (_, sound) = read(&world.segments, OnDamage::Fail);
        let Some(last) = sound.frames.last() else { continue };
        let is_alone = sound.frames.iter().filter(|frame| frame.segment == last.segment).count() == 1;
        if !is_alone || sound.frames.len() == 1 {
            continue;
        }
        world.segments.block_mut(last.segment, 0).fill(0);
        let (_, headerless) = read(&world.segments, OnDamage::Fail);
        assert_eq!(headerless.numbers(), sound.numbers(), "seed {seed}: the frame says where it belongs");
        world.segments.block_mut(last.segment, last.block.0)[40] ^= 1;
        let (result, _) = read(&world.segments, OnDamage::Fail);
        let Ok(ScanResult { unreadable_end: Some(end), .. }) = result else { panic!("seed {seed}: {result:?}") };
        assert_eq!((end.segment.number, end.block), (last.segment, last.block), "seed {seed}");
        told += 1;
    }
    assert!(told > seeds() / 50, "{told}");
}

#[test]
fn behind_damage_a_torn_write_counts_no_more_than_without() {
    let mut world = world(7);
    let mut writer = LogWriter::new(LogEnd::empty(STORE, LOG), SEGMENT_BYTES_MIN);
    let mut first_blocks = Vec::new();
    // One frame, and a group of three that proves it.
    for group in [0..1, 1..4] {
        group.for_each(|number| _ = writer.append(|group| group.definition(number, &[number as u8; 40_000])));
        while let Some(request) = writer.poll(0, true) {
            match request {
                Request::Make { segment, .. } => {
                    world.segments.0.insert(segment.number, HashMap::new());
                    writer.complete(Completion::Made { segment, result: Ok(()) }, 0);
                }
                Request::Write { segment, block, group } => {
                    first_blocks.push(block.0);
                    world.segments.write(segment.number, block, group.bytes(), || true);
                    writer.complete(Completion::Written { segment, group, result: Ok(()) }, 0);
                }
                _ => panic!("this writer does nothing else"),
            }
        }
    }
    let (_, whole) = read(&world.segments, OnDamage::Fail);
    assert_eq!(whole.numbers(), [0, 1, 2, 3]);
    assert!(whole.frames.len() > 2, "the second group has several frames");
    // It was torn: its first frame is not there, and others are.
    world.segments.block_mut(SegmentNumber(1), first_blocks[1]).fill(0);
    let (result, found) = read(&world.segments, OnDamage::Fail);
    assert!(result.is_ok() && found.numbers() == [0], "{result:?}");
    world.segments.block_mut(SegmentNumber(1), whole.frames[0].block.0)[100] ^= 1;
    let (result, found) = read(&world.segments, OnDamage::Skip);
    let ScanResult { end, damage, torn_frames, .. } = result.expect("it goes on in spite of damage");
    let [damage] = damage[..] else { panic!("{damage:?}") };
    assert_eq!((damage.first, damage.next), (FrameSequence(1), FrameSequence(2)), "what had been durable is missing");
    assert!(found.numbers().is_empty() && end.chain.next == FrameSequence(2), "what was not did not count before");
    assert_eq!(torn_frames, whole.frames.len() as u64 - 2);
    assert_eq!(read(&world.segments, OnDamage::Fail).0, Err(ScanError::Damaged(damage)));
}

#[test]
fn with_a_mark_behind_it_each_flipped_bit_is_damage() {
    let mut world = world(7);
    let mut writer = LogWriter::new(LogEnd::empty(STORE, LOG), SEGMENT_BYTES_MIN);
    let mut run = |writer: &mut LogWriter, now_us: u64| {
        while let Some(request) = writer.poll(now_us, true) {
            match request {
                Request::Make { segment, .. } => {
                    world.segments.0.insert(segment.number, HashMap::new());
                    writer.complete(Completion::Made { segment, result: Ok(()) }, now_us);
                }
                Request::Write { segment, block, group } => {
                    world.segments.write(segment.number, block, group.bytes(), || true);
                    writer.complete(Completion::Written { segment, group, result: Ok(()) }, now_us);
                }
                Request::Read { .. } | Request::Remove { .. } | Request::Sync { .. } | Request::WriteFooter { .. } => {
                    panic!("this writer does nothing else")
                }
            }
        }
    };
    for number in 0..3 {
        writer.append(|group| group.definition(number, &[number as u8; 40]));
        run(&mut writer, 0);
    }
    let due_us = writer.timer_us().expect("a mark is due");
    run(&mut writer, due_us);
    assert_eq!(writer.timer_us(), None, "a mark needs no other");
    let (_, whole) = read(&world.segments, OnDamage::Fail);
    assert_eq!(whole.numbers(), [0, 1, 2]);
    for frame in &whole.frames[..3] {
        for bit in 0..frame.bytes * 8 {
            let mut flipped = world.segments.clone();
            flipped.block_mut(frame.segment, frame.block.0)[bit / 8] ^= 1 << (bit % 8);
            let (result, _) = read(&flipped, OnDamage::Fail);
            let Err(ScanError::Damaged(damage)) = result else { panic!("bit {bit}: {result:?}") };
            assert_eq!(damage.first, frame.sequence);
        }
    }
    // The header of the segment: its frames are found without it, and nothing is lost.
    for bit in 0..48 * 8 {
        let mut flipped = world.segments.clone();
        flipped.block_mut(SegmentNumber(1), 0)[bit / 8] ^= 1 << (bit % 8);
        let (result, found) = read(&flipped, OnDamage::Fail);
        assert!(result.is_ok() && found.numbers() == [0, 1, 2], "bit {bit}: {result:?}");
    }
    // A log that is cut off at any byte: damage if something proves it, or the end.
    let blocks = whole.frames.last().map_or(0, |frame| frame.block.0 + frame.blocks);
    for cut in 0..blocks as usize * BLOCK_BYTES / SECTOR_BYTES {
        let mut short = world.segments.clone();
        for block in 0..blocks {
            let from = (cut * SECTOR_BYTES).saturating_sub(block as usize * BLOCK_BYTES).min(BLOCK_BYTES);
            short.block_mut(SegmentNumber(1), block)[from..].fill(0);
        }
        let (result, found) = read(&short, OnDamage::Fail);
        assert!(result.is_ok(), "sector {cut}: what is behind is gone too, so that nothing proves it");
        let numbers = found.numbers();
        assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<_>>());
    }
}

#[test]
fn a_segment_that_is_gone_is_damage() {
    let mut seeds = 0..;
    let (world, whole) = loop {
        let (world, _) = lives(seeds.next().expect("some seed gives such a log"));
        let (_, whole) = read(&world.segments, OnDamage::Fail);
        let mut used: Vec<_> = whole.frames.iter().map(|frame| frame.segment).collect();
        used.dedup();
        if used.len() >= 3 {
            break (world, whole);
        }
    };
    let last = whole.frames.last().map(|frame| frame.segment);
    for frame in &whole.frames {
        let gone = frame.segment;
        let mut segments = world.segments.clone();
        segments.0.remove(&gone);
        let (result, _) = read(&segments, OnDamage::Fail);
        // Nothing is behind the last one that could prove that it was there.
        if Some(gone) == last {
            assert!(result.is_ok(), "{result:?}");
            continue;
        }
        let Err(ScanError::Damaged(damage)) = result else { panic!("{result:?}") };
        let lost = whole.frames.iter().find(|frame| frame.segment == gone).expect("its first frame");
        assert_eq!(damage.first, lost.sequence);
    }
}

#[test]
fn a_segment_of_another_store_or_log_is_refused() {
    let (world, _) = (1..).map(lives).find(|(world, _)| world.next > 0).expect("a log with something in it");
    let numbers: Vec<_> = world.segments.0.keys().copied().collect();
    for (store, log) in [(StoreTag(1), LOG), (STORE, LogId(3))] {
        let mut found = Found::default();
        let result = scan(
            LogEnd::empty(store, log).chain,
            numbers.clone(),
            OnDamage::Skip,
            &mut world.segments.clone(),
            &mut found,
        );
        assert!(matches!(result, Err(ScanError::Foreign { .. })), "{result:?}");
        assert!(found.frames.is_empty());
    }
}

#[test]
fn a_segment_that_begins_before_the_end_of_those_before_it_is_refused() {
    let (mut world, end) = (1..).map(lives).find(|(world, _)| world.next > 0).expect("a log with something in it");
    let number = end.next_segment;
    let log_start = SegmentStart { number: SegmentNumber(1), first: FrameSequence(1), previous_crc: 0 };
    let header = SegmentHeader { store: STORE, log: LOG, number, first: FrameSequence(1), previous_crc: 0, log_start };
    world.segments.0.insert(number, HashMap::new());
    header.write(world.segments.block_mut(number, 0));
    for on_damage in [OnDamage::Fail, OnDamage::Skip] {
        let (result, _) = read(&world.segments, on_damage);
        assert_eq!(result, Err(ScanError::OutOfOrder { segment: SegmentId { log: LOG, number } }));
    }
}
