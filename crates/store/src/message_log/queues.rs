//! The queues of a log: what of each is unwritten, what is alive in the log, and how far it was handed out.

use crate::group::QueueCursor;
use crate::ids::{Position, QueueUid};
use crate::live_runs::LiveRuns;
use crate::recovery::FoundMessage;
use crate::uid_map::UidMap;
use std::collections::{BTreeMap, VecDeque};

/// Messages of neighbouring positions whose entries are neighbours, too.
#[derive(Clone, Copy)]
pub(super) struct PendingRun {
    pub first: u64,
    pub count: u64,
    /// The first one's entry.
    pub entry: u64,
}

impl PendingRun {
    /// What of it is from `first` to before `end`, and not in a group.
    #[inline]
    fn part(&self, first: u64, end: u64, first_unbegun: u64) -> Option<PendingRun> {
        let skipped = first.saturating_sub(self.first).max(first_unbegun.saturating_sub(self.entry));
        let taken = self.count.min(end - self.first);
        (skipped < taken).then(|| PendingRun {
            first: self.first + skipped,
            count: taken - skipped,
            entry: self.entry + skipped,
        })
    }
}

/// A priority level of a queue.
pub(super) struct Level {
    pub number: u8,
    pub cursor: QueueCursor,
    /// Unwritten messages, by their positions. Those whose entries have left the list are taken out later.
    pending: VecDeque<PendingRun>,
    pub live: LiveRuns,
    /// Settlements that are gathered for the group under construction: from here to before there.
    pub settled: Option<(u64, u64)>,
    /// Positions below this one were handed out.
    pub seen_end: u64,
    /// The log does not know that yet.
    pub is_seen_dirty: bool,
    /// The group that says so for messages that were moved.
    pub seen_group: Option<u64>,
    /// How often messages were returned.
    pub returned: BTreeMap<u64, u32>,
}

impl Level {
    pub fn new(uid: QueueUid, number: u8) -> Level {
        Level {
            number,
            cursor: QueueCursor::new(uid),
            pending: VecDeque::new(),
            live: LiveRuns::default(),
            settled: None,
            seen_end: 0,
            is_seen_dirty: false,
            seen_group: None,
            returned: BTreeMap::new(),
        }
    }

    /// Messages from this position on are in as many entries from this number on.
    #[inline]
    pub fn push_pending(&mut self, first: u64, count: u64, entry: u64, first_unbegun: u64) {
        self.forget_encoded(first_unbegun);
        match self.pending.back_mut() {
            Some(last) if last.first + last.count == first && last.entry + last.count == entry => last.count += count,
            Some(last) if last.first + last.count > first => {
                (0..count).for_each(|at| self.insert_pending(first + at, entry + at));
            }
            _ if count > 0 => self.pending.push_back(PendingRun { first, count, entry }),
            _ => {}
        }
    }

    /// A position that is before others, or was settled and is back.
    #[cold]
    fn insert_pending(&mut self, position: u64, entry: u64) {
        let at = self.pending.partition_point(|run| run.first + run.count <= position);
        let run = PendingRun { first: position, count: 1, entry };
        match self.pending.get(at).copied().filter(|run| run.first <= position) {
            Some(old) => {
                self.pending.remove(at);
                let before = position - old.first;
                let behind = old.count - before - 1;
                let parts = [
                    PendingRun { count: before, ..old },
                    run,
                    PendingRun { first: position + 1, count: behind, entry: old.entry + before + 1 },
                ];
                parts.into_iter().rev().filter(|run| run.count > 0).for_each(|run| self.pending.insert(at, run));
            }
            None => self.pending.insert(at, run),
        }
    }

    /// What happened to a message before.
    pub fn found(&self, position: u64) -> FoundMessage {
        FoundMessage {
            was_delivered: position < self.seen_end,
            times_returned: self.returned.get(&position).copied().unwrap_or(0),
        }
    }

    /// The unwritten messages from `first` to before `end`, as runs. Some of them may have been settled.
    pub fn unwritten_within(&self, first: u64, end: u64, first_unbegun: u64) -> impl Iterator<Item = PendingRun> {
        let from = self.pending.partition_point(|run| run.first + run.count <= first);
        let within = self.pending.range(from..).take_while(move |run| run.first < end);
        within.filter_map(move |run| run.part(first, end, first_unbegun))
    }

    /// Forgets the runs at the front whose entries are in groups.
    #[inline]
    fn forget_encoded(&mut self, first_unbegun: u64) {
        while self.pending.front().is_some_and(|run| run.entry + run.count <= first_unbegun) {
            self.pending.pop_front();
        }
    }

    /// The unwritten messages from `first` to before `end`, as runs.
    #[inline]
    pub fn pending_within(&mut self, first: u64, end: u64, first_unbegun: u64, mut found: impl FnMut(PendingRun)) {
        self.forget_encoded(first_unbegun);
        let is_front = self.pending.front().is_none_or(|run| run.first + run.count > first);
        let from = if is_front { 0 } else { self.pending.partition_point(|run| run.first + run.count <= first) };
        for run in self.pending.range(from..).take_while(|run| run.first < end) {
            run.part(first, end, first_unbegun).into_iter().for_each(&mut found);
        }
        // What is settled at the front will not be looked for again.
        if let Some(front) = self.pending.front_mut()
            && front.first == first
            && end - first < front.count
        {
            let count = end - first;
            *front = PendingRun { first: end, count: front.count - count, entry: front.entry + count };
        } else if self.pending.front().is_some_and(|run| run.first >= first && run.first + run.count <= end) {
            self.pending.pop_front();
        }
    }
}

/// A queue.
pub(super) struct LoggedQueue {
    pub uid: QueueUid,
    pub levels: Vec<Level>,
    pub is_dropped: bool,
}

impl LoggedQueue {
    #[inline]
    pub fn level(&mut self, number: u8) -> Option<&mut Level> {
        self.levels.iter_mut().find(|level| level.number == number)
    }

    #[inline]
    pub fn level_or_new(&mut self, number: u8) -> &mut Level {
        let at = match self.levels.iter().position(|level| level.number == number) {
            Some(at) => at,
            None => {
                self.levels.push(Level::new(self.uid, number));
                self.levels.len() - 1
            }
        };
        &mut self.levels[at]
    }
}

/// All queues, by dense numbers.
#[derive(Default)]
pub(super) struct QueueTable {
    by_uid: UidMap<u32>,
    states: Vec<LoggedQueue>,
    free: Vec<u32>,
    /// The one that was looked up last: most calls are about the queue of the call before.
    last: Option<(QueueUid, u32)>,
}

impl QueueTable {
    #[inline]
    pub fn find(&mut self, uid: QueueUid) -> Option<u32> {
        if let Some((last, queue)) = self.last
            && last == uid
        {
            return Some(queue);
        }
        let &queue = self.by_uid.get(&uid)?;
        self.last = Some((uid, queue));
        Some(queue)
    }

    #[inline]
    pub fn find_or_new(&mut self, uid: QueueUid) -> u32 {
        match self.find(uid) {
            Some(queue) => queue,
            None => self.insert(uid),
        }
    }

    #[cold]
    fn insert(&mut self, uid: QueueUid) -> u32 {
        let state = LoggedQueue { uid, levels: Vec::new(), is_dropped: false };
        let queue = match self.free.pop() {
            Some(queue) => {
                self.states[queue as usize] = state;
                queue
            }
            None => {
                self.states.push(state);
                (self.states.len() - 1) as u32
            }
        };
        self.by_uid.insert(uid, queue);
        self.last = Some((uid, queue));
        queue
    }

    #[inline]
    pub fn get(&mut self, queue: u32) -> &mut LoggedQueue {
        &mut self.states[queue as usize]
    }

    /// The levels of all queues.
    pub fn levels(&self) -> impl Iterator<Item = (QueueUid, &Level)> {
        self.states.iter().flat_map(|queue| queue.levels.iter().map(|level| (queue.uid, level)))
    }

    #[inline]
    pub fn level(&mut self, queue: u32, position: Position) -> &mut Level {
        self.get(queue).level_or_new(position.level())
    }

    /// The queue is not found any more; its number stays its own until it is freed.
    pub fn remove(&mut self, uid: QueueUid) -> Option<u32> {
        self.last = None;
        let queue = self.by_uid.remove(&uid)?;
        self.get(queue).is_dropped = true;
        Some(queue)
    }

    /// Nothing refers to the queue any more.
    pub fn free(&mut self, queue: u32) {
        self.get(queue).levels = Vec::new();
        self.free.push(queue);
    }
}
