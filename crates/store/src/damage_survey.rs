//! Which messages are missing where a log is damaged, as far as the rest of the log can tell.
//!
//! Enters: a log that nobody writes, by whoever can read it.  Leaves: what is damaged, and which messages it has taken.
//!
//! The footer of a complete segment says what its frames had: it is no evidence that something is there, but a good one of what is
//! missing. Where there is no footer, two things are known: which positions are missing between the messages in front of
//! the damage and those behind it, and what the damaged frames seem to say. What is there elsewhere in the log, or was settled,
//! is not missing.

mod damage_neighbours;

use crate::buffer::AlignedBuffer;
use crate::footer::{Footer, FooterEntry};
use crate::frame::{Frame, FrameHeader};
use crate::group::Chain;
use crate::ids::{Block, LogId, Position, QueueUid, SegmentId, SegmentNumber, StoreTag};
use crate::limits::{BLOCK_BYTES, FRAME_BYTES_MAX, LOST_RUNS_MAX, SCAN_BYTES};
use crate::log_writer::LogEnd;
use crate::record::{Record, RecordReader, StoredMessage};
use crate::recovery::{FoundMessage, FoundPage, LiveTotals, RecoverySink, recover};
use crate::run_map::RunMap;
use crate::scan::{Damage, OnDamage, RecordVisitor, ScanError, SegmentReader, scan};
use crate::segment_header::{SegmentHeader, SegmentHeaderFault};
use damage_neighbours::{DamageNeighbours, DamagedPlace};
use std::collections::BTreeMap;
use std::ops::Range;

/// What damage has done to messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MessageLoss {
    /// They were there and alive, and are lost.
    Lost,
    /// They are not there, and lost as far as they were written and not settled: it is not known what all of the damage had.
    Missing,
    /// That their queue was done with them is lost: they are there again.
    Unsettled,
}

/// Messages of one level of a queue that damage concerns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LostMessages {
    /// Which damage, by its index in the survey.
    pub damage: usize,
    pub queue: QueueUid,
    pub first: Position,
    pub last: Position,
    pub loss: MessageLoss,
}

/// The damage of a log.
#[derive(Default, PartialEq, Debug)]
pub struct DamageSurvey {
    /// Each with whether everything is known that it had.
    pub damage: Vec<(Damage, bool)>,
    /// By damage, queue and position: `LOST_RUNS_MAX` runs at most.
    pub lost: Vec<LostMessages>,
    /// Runs beyond that limit.
    pub unnamed: usize,
}

/// Reads a log of messages in the segments with these numbers, three times if it is damaged. What concerns queues that do not
/// exist is left out.
///
/// # Errors
/// The log cannot be read, for another reason than damage.
pub fn survey_damage(
    reader: &mut impl SegmentReader,
    store: StoreTag,
    log: LogId,
    mut segments: Vec<SegmentNumber>,
    is_there: impl Fn(QueueUid) -> bool,
) -> Result<DamageSurvey, ScanError> {
    segments.sort_unstable();
    let chain = LogEnd::empty(store, log).chain;
    let mut neighbours = DamageNeighbours::default();
    scan(chain, segments.clone(), OnDamage::Skip, reader, &mut neighbours)?;
    if neighbours.places.is_empty() {
        return Ok(DamageSurvey::default());
    }
    let mut missing = MissingMessages { is_there, queues: BTreeMap::new() };
    let mut damage = Vec::new();
    for (number, place) in neighbours.places.iter().enumerate() {
        let mut is_known = true;
        for (segment, blocks) in damaged_parts(place, &segments) {
            is_known &= missing.add_of_footer(reader, &chain, &segments, segment, &blocks, number)?;
        }
        damage.push((place.damage, is_known));
    }
    for run in &neighbours.interrupted {
        let loss = if run.is_settlement { MessageLoss::Unsettled } else { MessageLoss::Lost };
        missing.add(run.queue, run.positions.clone(), run.damage, loss);
    }
    for gap in &neighbours.gaps {
        // What is known of damage is all of it: it was another one.
        if let Some(number) = gap.damage.clone().find(|number| !damage[*number].1) {
            missing.add(gap.queue, gap.positions.clone(), number, MessageLoss::Missing);
        }
    }
    for (number, place) in neighbours.places.iter().enumerate().filter(|(number, _)| !damage[*number].1) {
        for (segment, blocks) in damaged_parts(place, &segments) {
            read_remains(reader, &chain, segment, blocks, &place.damage, |queue, position| {
                missing.add(queue, position.0..position.0 + 1, number, MessageLoss::Missing);
            })?;
        }
    }
    let mut alive = AliveQueues(&missing.is_there);
    let found = recover(reader, store, log, segments.clone(), OnDamage::Skip, &mut alive)?;
    let mut queues = found.queues.iter().peekable();
    for (uid, missing) in &mut missing.queues {
        let was_unsettled = std::mem::take(&mut missing.unsettled);
        // What is missing with its settlement was needed no more.
        was_unsettled.iter().for_each(|(first, end, _)| missing.lost.remove(first, end));
        // Both are in the order of their numbers.
        while queues.next_if(|queue| queue.uid < *uid).is_some() {}
        let levels = queues.peek().filter(|queue| queue.uid == *uid).into_iter().flat_map(|queue| &queue.levels);
        for run in levels.flat_map(|level| level.live.iter()) {
            missing.lost.remove(run.first, run.end());
            let again = was_unsettled.within(run.first, run.end());
            again.for_each(|(first, end, number)| missing.unsettled.insert(first, end, number));
        }
    }
    let mut settlements = SettledMessages { missing: &mut missing, queues: Vec::new(), commit: None };
    scan(chain, segments, OnDamage::Skip, reader, &mut settlements)?;
    let mut lost = missing.into_lost();
    // What is not known may have settled what was there before.
    let unknown = damage.iter().rposition(|(_, is_known)| !is_known);
    let is_certain = |damage: usize| unknown.is_none_or(|unknown| damage > unknown);
    for lost in lost.iter_mut().filter(|lost| lost.loss == MessageLoss::Lost && !is_certain(lost.damage)) {
        lost.loss = MessageLoss::Missing;
    }
    let unnamed = lost.len().saturating_sub(LOST_RUNS_MAX);
    lost.truncate(LOST_RUNS_MAX);
    Ok(DamageSurvey { damage, lost, unnamed })
}

/// The blocks of each segment that damage may have taken.
fn damaged_parts(place: &DamagedPlace, segments: &[SegmentNumber]) -> Vec<(SegmentId, Range<u32>)> {
    let DamagedPlace { damage, next } = place;
    let first = damage.segment.number;
    let last = next.map_or(SegmentNumber(u64::MAX), |(number, _)| number);
    let parts = segments.iter().copied().filter(|number| (first..=last).contains(number)).map(|number| {
        let begin = if number == first { damage.block.0 } else { 1 };
        let end = next.filter(|(next, _)| *next == number).map_or(u32::MAX, |(_, block)| block);
        (SegmentId { log: damage.segment.log, number }, begin..end)
    });
    parts.filter(|(_, blocks)| !blocks.is_empty()).collect()
}

/// What of a queue may be missing, with the numbers of the damage.
#[derive(Default)]
struct MissingRuns {
    lost: RunMap<(usize, MessageLoss)>,
    unsettled: RunMap<usize>,
}

/// What may be missing.
struct MissingMessages<F> {
    is_there: F,
    queues: BTreeMap<QueueUid, MissingRuns>,
}

impl<F: Fn(QueueUid) -> bool> MissingMessages<F> {
    fn add(&mut self, queue: QueueUid, positions: Range<u64>, damage: usize, loss: MessageLoss) {
        if !(self.is_there)(queue) {
            return;
        }
        let runs = self.queues.entry(queue).or_default();
        match loss {
            MessageLoss::Lost | MessageLoss::Missing => {
                runs.lost.insert(positions.start, positions.end, (damage, loss));
            }
            MessageLoss::Unsettled => runs.unsettled.insert(positions.start, positions.end, damage),
        }
    }

    /// Adds what these blocks of a segment had, by its footer. Returns whether it has one that is known to be its own.
    fn add_of_footer(
        &mut self,
        reader: &mut impl SegmentReader,
        chain: &Chain,
        segments: &[SegmentNumber],
        segment: SegmentId,
        blocks: &Range<u32>,
        damage: usize,
    ) -> Result<bool, ScanError> {
        // A footer that cannot be read is as good as none.
        let Some(bytes) = reader.read_footer(segment).ok().flatten() else { return Ok(false) };
        let Ok(footer) = Footer::read(&bytes) else { return Ok(false) };
        let next = segments.iter().copied().find(|number| *number > segment.number);
        let Some(next) = next else { return Ok(false) };
        let header = read_header(reader, SegmentId { number: next, ..segment })?;
        let is_own = (footer.store, footer.segment()) == (chain.store, segment);
        let is_followed = header.is_some_and(|header| {
            (header.number, header.first, header.previous_crc) == (next, footer.end.next, footer.end.last_crc)
        });
        if !is_own || !is_followed {
            return Ok(false);
        }
        self.add_entries(&footer, blocks, damage);
        Ok(true)
    }

    fn add_entries(&mut self, footer: &Footer<'_>, blocks: &Range<u32>, damage: usize) {
        let extents = footer.entries().filter_map(|entry| match entry {
            FooterEntry::Extent { block } => Some(block.0),
            _ => None,
        });
        let mut ends = extents.skip(1).chain([footer.end.block.0]);
        let (mut table, mut large, mut is_damaged) = (Vec::new(), None, false);
        // What may turn out not to count, as its commit was aborted.
        let mut found: Vec<(QueueUid, Range<u64>, MessageLoss)> = Vec::new();
        for entry in footer.entries() {
            match entry {
                FooterEntry::Extent { block } => {
                    let end = ends.next().unwrap_or(footer.end.block.0);
                    is_damaged = block.0 < blocks.end && end > blocks.start;
                }
                FooterEntry::Queue { uid, .. } => table.push(uid),
                FooterEntry::Messages { queue, run } if is_damaged => {
                    found.push((table[queue.0 as usize], run.first.0..run.end(), MessageLoss::Lost));
                }
                FooterEntry::Large { queue, run } => {
                    large = Some((table[queue.0 as usize], run.first.0..run.end()));
                }
                FooterEntry::Settled { queue, first, count } if is_damaged => {
                    let end = first.0.saturating_add(count);
                    found.push((table[queue.0 as usize], first.0..end, MessageLoss::Unsettled));
                }
                FooterEntry::CommitBegin | FooterEntry::CommitEnd => self.add_all(&mut found, damage),
                FooterEntry::CommitAborted => found.clear(),
                _ => {}
            }
            // One that begins in front of the damage, and goes on there.
            let is_of_large = matches!(entry, FooterEntry::Large { .. } | FooterEntry::Part { .. });
            if let Some((queue, positions)) = large.clone().filter(|_| is_damaged && is_of_large) {
                found.push((queue, positions, MessageLoss::Lost));
            }
        }
        self.add_all(&mut found, damage);
    }

    fn add_all(&mut self, found: &mut Vec<(QueueUid, Range<u64>, MessageLoss)>, damage: usize) {
        found.drain(..).for_each(|(queue, positions, loss)| self.add(queue, positions, damage, loss));
    }

    /// All of it, by damage, queue and position.
    fn into_lost(self) -> Vec<LostMessages> {
        let mut all = Vec::new();
        for (&queue, runs) in &self.queues {
            let lost = runs.lost.iter().map(|(first, end, (damage, loss))| (first, end, damage, loss));
            let unsettled = runs.unsettled.iter();
            let unsettled = unsettled.map(|(first, end, damage)| (first, end, damage, MessageLoss::Unsettled));
            for (first, end, damage, loss) in lost.chain(unsettled) {
                let first = Position(first);
                match all.last_mut() {
                    Some(LostMessages { damage: d, queue: q, last, loss: l, .. })
                        if (*d, *q, *l, last.0 + 1) == (damage, queue, loss, first.0) =>
                    {
                        *last = Position(end - 1);
                    }
                    _ => all.push(LostMessages { damage, queue, first, last: Position(end - 1), loss }),
                }
            }
        }
        all.sort_by_key(|lost| lost.damage);
        all
    }
}

/// The header of a segment, if it has one.
fn read_header(reader: &mut impl SegmentReader, segment: SegmentId) -> Result<Option<SegmentHeader>, ScanError> {
    let mut block = AlignedBuffer::new(BLOCK_BYTES);
    let filled = reader.read(segment, Block(0), &mut block)?;
    match SegmentHeader::read(&block[..filled]) {
        Ok(header) => Ok(Some(header)),
        Err(SegmentHeaderFault::NoHeader) => Ok(None),
        Err(SegmentHeaderFault::UnknownFormat(format)) => Err(ScanError::UnknownFormat { segment, format }),
    }
}

/// Tells the messages that damaged frames seem to have, as far as their records can be parsed.
fn read_remains(
    reader: &mut impl SegmentReader,
    chain: &Chain,
    segment: SegmentId,
    blocks: Range<u32>,
    damage: &Damage,
    mut tell: impl FnMut(QueueUid, Position),
) -> Result<(), ScanError> {
    let mut buffer = AlignedBuffer::new(SCAN_BYTES);
    let mut block = blocks.start;
    while block < blocks.end {
        let filled = reader.read(segment, Block(block), &mut buffer)?;
        let is_last = filled < buffer.len();
        let mut at = 0;
        // As far as a whole frame is in the buffer.
        while block < blocks.end && at < filled && (is_last || at + FRAME_BYTES_MAX <= filled) {
            let frame = Frame::read_unchecked(&buffer[at..filled]).filter(|frame| {
                let header = &frame.header;
                (header.store, header.log, header.segment) == (chain.store, chain.log, segment.number)
                    && (damage.first..damage.next).contains(&header.sequence)
            });
            if let Some(frame) = &frame {
                tell_messages(frame, &mut tell);
            }
            let step = frame.map_or(1, |frame| frame.header.blocks());
            block += step;
            at += step as usize * BLOCK_BYTES;
        }
        if is_last {
            return Ok(());
        }
    }
    Ok(())
}

fn tell_messages(frame: &Frame<'_>, tell: &mut impl FnMut(QueueUid, Position)) {
    let (mut records, mut queues) = (RecordReader::new(frame), Vec::new());
    // Behind what does not parse nothing is known.
    while let Ok(Some(record)) = records.next_record() {
        match record {
            Record::Queue { uid, .. } => queues.push(uid),
            Record::Message { queue, position, .. }
            | Record::Again { queue, position }
            | Record::Large { queue, position, .. } => tell(queues[queue.0 as usize], position),
            _ => {}
        }
    }
}

/// Takes what is settled out of what may be missing.
struct SettledMessages<'a, F> {
    missing: &'a mut MissingMessages<F>,
    /// The table of the frame.
    queues: Vec<QueueUid>,
    /// What a commit settles that is open.
    commit: Option<Vec<(QueueUid, Range<u64>)>>,
}

impl<F> SettledMessages<'_, F> {
    fn settle(&mut self, queue: QueueUid, positions: Range<u64>) {
        if let Some(missing) = self.missing.queues.get_mut(&queue) {
            missing.lost.remove(positions.start, positions.end);
        }
    }
}

impl<F> RecordVisitor for SettledMessages<'_, F> {
    fn on_frame(&mut self, _segment: SegmentId, _block: Block, _header: &FrameHeader) {
        self.queues.clear();
    }

    fn on_record(&mut self, record: Record<'_>) {
        match record {
            Record::Queue { uid, .. } => self.queues.push(uid),
            Record::Settled { queue, first, count } => {
                let (queue, positions) = (self.queues[queue.0 as usize], first.0..first.0.saturating_add(count));
                match &mut self.commit {
                    Some(commit) => commit.push((queue, positions)),
                    None => self.settle(queue, positions),
                }
            }
            Record::CommitBegin => self.commit = Some(Vec::new()),
            Record::CommitEnd => {
                let commit = self.commit.take().unwrap_or_default();
                commit.into_iter().for_each(|(queue, positions)| self.settle(queue, positions));
            }
            Record::CommitAborted => self.commit = None,
            _ => {}
        }
    }

    fn on_damage(&mut self, _damage: &Damage) {
        self.commit = None;
    }
}

/// Is only told what is alive.
struct AliveQueues<'a, F>(&'a F);

impl<F: Fn(QueueUid) -> bool> RecoverySink for AliveQueues<'_, F> {
    type Message = ();

    fn is_there(&mut self, queue: QueueUid) -> bool {
        (self.0)(queue)
    }

    fn is_loaded(&mut self, _queue: QueueUid, _own: LiveTotals, _log: LiveTotals) -> bool {
        false
    }

    fn message(&mut self, _message: &StoredMessage<'_>) {}

    fn restore(&mut self, _queue: QueueUid, _position: Position, _message: (), _found: FoundMessage) {}

    fn restore_page(&mut self, _queue: QueueUid, _page: FoundPage) {}

    fn finish(&mut self, _queue: QueueUid, _next: &[Position]) {}

    fn on_damage(&mut self, _damage: &Damage) {}
}
