//! What is alive in a log, by queue: follows the entries of footers, and holds those of a commit back until its end.
//!
//! Enters: entries, in the order of the log.  Leaves: runs of messages with their extents, and where positions go on.

use super::found_runs::{FoundRun, FoundRuns};
use super::{Extent, RecoverySink};
use crate::footer::{FooterEntry, FooterQueue, MessageRun};
use crate::ids::{Position, QueueUid, SegmentNumber};
use crate::uid_map::UidMap;
use std::collections::BTreeMap;

/// A priority level of a queue.
pub(super) struct IndexedLevel<R> {
    pub number: u8,
    /// The position behind the highest that the log names.
    pub next: u64,
    /// Positions below this one were handed out.
    pub seen_end: u64,
    pub runs: R,
    /// How often messages were returned: this may be written before the message is, where that is moved.
    pub returned: BTreeMap<u64, u32>,
}

/// A queue of the log.
pub(super) struct IndexedQueue<R = Vec<FoundRun>> {
    pub uid: QueueUid,
    is_there: bool,
    pub levels: Vec<IndexedLevel<R>>,
}

impl IndexedQueue<FoundRuns> {
    /// The index of a level.
    fn level(&mut self, number: u8) -> usize {
        self.levels.iter().position(|level| level.number == number).unwrap_or_else(|| {
            let (runs, returned) = (FoundRuns::default(), BTreeMap::new());
            self.levels.push(IndexedLevel { number, next: 0, seen_end: 0, runs, returned });
            self.levels.len() - 1
        })
    }
}

/// A level, by the indexes of its queue and in that.
#[derive(Clone, Copy)]
struct LevelIndex {
    queue: usize,
    level: usize,
}

/// What an entry does to a level.
enum Change {
    Messages(FoundRun),
    Settled { first: u64, end: u64 },
    Seen { position: u64 },
    Returned { position: u64, times: u64 },
}

/// A large message whose body is not complete.
struct Large {
    level: Option<LevelIndex>,
    run: MessageRun,
    extent: u32,
    missing_bytes: u64,
}

/// What is alive, as far as the log has been read.
pub(super) struct LiveIndex<'a, S> {
    sink: &'a mut S,
    by_uid: UidMap<usize>,
    queues: Vec<IndexedQueue<FoundRuns>>,
    extents: Vec<Extent>,
    /// The segment whose entries follow, and its table; nothing for levels of queues that do not exist.
    segment: SegmentNumber,
    table: Vec<Option<LevelIndex>>,
    large: Option<Large>,
    /// What a commit without an end has so far.
    commit: Option<Vec<(LevelIndex, Change)>>,
}

/// All of it.
pub(super) struct LiveQueues {
    pub queues: Vec<IndexedQueue>,
    pub extents: Vec<Extent>,
    /// The log ends within a commit.
    pub has_open_commit: bool,
}

impl<'a, S: RecoverySink> LiveIndex<'a, S> {
    pub fn new(sink: &'a mut S) -> Self {
        LiveIndex {
            sink,
            by_uid: UidMap::default(),
            queues: Vec::new(),
            extents: Vec::new(),
            segment: SegmentNumber(0),
            table: Vec::new(),
            large: None,
            commit: None,
        }
    }

    pub fn sink(&mut self) -> &mut S {
        self.sink
    }

    /// The entries of a segment follow.
    pub fn begin_segment(&mut self, segment: SegmentNumber) {
        self.segment = segment;
        self.table.clear();
    }

    /// The last extent ends before this block, if its end is not known.
    pub fn end_extent(&mut self, block: u32) {
        if let Some(last) = self.extents.last_mut().filter(|last| last.segment == self.segment && last.end == 0) {
            last.end = block;
        }
    }

    /// Frames are missing: what they would have completed does not count.
    pub fn on_damage(&mut self) {
        self.large = None;
        self.commit = None;
    }

    fn extent(&self) -> u32 {
        self.extents.len() as u32 - 1
    }

    fn enter(&mut self, uid: QueueUid, level: u8) {
        let index = match self.by_uid.get(&uid) {
            Some(&index) => index,
            None => {
                self.queues.push(IndexedQueue { uid, is_there: self.sink.is_there(uid), levels: Vec::new() });
                self.by_uid.insert(uid, self.queues.len() - 1);
                self.queues.len() - 1
            }
        };
        let queue = &mut self.queues[index];
        let level = queue.is_there.then(|| LevelIndex { queue: index, level: queue.level(level) });
        self.table.push(level);
    }

    fn level(&self, queue: FooterQueue) -> Option<LevelIndex> {
        self.table.get(queue.0 as usize).copied().flatten()
    }

    /// A level changes, with the commit where that is open. Its positions go on behind this one either way.
    fn change(&mut self, level: Option<LevelIndex>, at: u64, change: Change) {
        let Some(index) = level else { return };
        let level = &mut self.queues[index.queue].levels[index.level];
        level.next = level.next.max(at);
        match &mut self.commit {
            Some(changes) => changes.push((index, change)),
            None => apply(level, change),
        }
    }

    /// The next entry of the segment.
    pub fn add(&mut self, entry: &FooterEntry) {
        match *entry {
            FooterEntry::Part { bytes } => return self.part(bytes),
            FooterEntry::Extent { block } => {
                self.end_extent(block.0);
                self.extents.push(Extent { segment: self.segment, block: block.0, end: 0 });
                return;
            }
            FooterEntry::Queue { uid, level } => return self.enter(uid, level),
            _ => {}
        }
        // A body whose parts do not follow was never written to its end.
        self.large = None;
        match *entry {
            FooterEntry::Messages { queue, run } => {
                let extent = self.extent();
                let found = FoundRun { run, extent, last_extent: extent };
                self.change(self.level(queue), run.first.0, Change::Messages(found));
            }
            FooterEntry::Large { queue, run } => {
                let (level, extent) = (self.level(queue), self.extent());
                self.change_next(level, run.first);
                self.large = Some(Large { level, run, extent, missing_bytes: run.body_bytes });
            }
            FooterEntry::Settled { queue, first, count } => {
                let end = first.0.saturating_add(count);
                self.change(self.level(queue), first.0, Change::Settled { first: first.0, end });
            }
            FooterEntry::Seen { queue, position } => {
                self.change(self.level(queue), position.0, Change::Seen { position: position.0 });
            }
            FooterEntry::Returned { queue, position, times } => {
                self.change(self.level(queue), position.0, Change::Returned { position: position.0, times });
            }
            FooterEntry::CommitBegin => self.commit = Some(Vec::new()),
            FooterEntry::CommitEnd => {
                for (index, change) in self.commit.take().unwrap_or_default() {
                    apply(&mut self.queues[index.queue].levels[index.level], change);
                }
            }
            FooterEntry::CommitAborted => self.commit = None,
            FooterEntry::Extent { .. } | FooterEntry::Queue { .. } | FooterEntry::Part { .. } => {}
        }
    }

    fn change_next(&mut self, level: Option<LevelIndex>, position: Position) {
        if let Some(index) = level {
            let level = &mut self.queues[index.queue].levels[index.level];
            level.next = level.next.max(position.0);
        }
    }

    fn part(&mut self, bytes: u64) {
        let Some(large) = &mut self.large else { return };
        large.missing_bytes = large.missing_bytes.saturating_sub(bytes);
        if large.missing_bytes > 0 {
            return;
        }
        let Some(Large { level, run, extent, .. }) = self.large.take() else { return };
        let found = FoundRun { run, extent, last_extent: self.extent() };
        self.change(level, run.first.0, Change::Messages(found));
    }

    /// The log ends: the queues that exist, in their order.
    pub fn finish(self) -> LiveQueues {
        let LiveIndex { mut queues, extents, commit, .. } = self;
        queues.retain(|queue| queue.is_there);
        queues.sort_unstable_by_key(|queue| queue.uid);
        let queues = queues.into_iter().map(|IndexedQueue { uid, is_there, levels }| {
            let mut levels: Vec<_> = levels.into_iter().map(IndexedLevel::finish).collect();
            levels.sort_unstable_by_key(|level| level.number);
            IndexedQueue { uid, is_there, levels }
        });
        LiveQueues { queues: queues.collect(), extents, has_open_commit: commit.is_some() }
    }
}

impl IndexedLevel<FoundRuns> {
    /// Nothing changes any more.
    fn finish(self) -> IndexedLevel<Vec<FoundRun>> {
        let IndexedLevel { number, next, seen_end, runs, returned } = self;
        IndexedLevel { number, next, seen_end, runs: runs.into_runs(), returned }
    }
}

fn apply(level: &mut IndexedLevel<FoundRuns>, change: Change) {
    match change {
        Change::Messages(found) => {
            level.next = level.next.max(found.run.end());
            level.runs.insert(found);
        }
        Change::Settled { first, end } => {
            level.next = level.next.max(end);
            level.runs.remove(first, end);
            while let Some((&returned, _)) = level.returned.range(first..end).next() {
                level.returned.remove(&returned);
            }
        }
        Change::Seen { position } => {
            level.seen_end = level.seen_end.max(position.saturating_add(1));
            level.next = level.next.max(level.seen_end);
        }
        Change::Returned { position, times } => {
            level.returned.insert(position, u32::try_from(times).unwrap_or(u32::MAX));
            // The message may never have been written: its position is used up all the same.
            level.next = level.next.max(position.saturating_add(1));
        }
    }
}
