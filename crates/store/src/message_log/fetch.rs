//! A fetch: the messages of a queue that are alive in a range of positions, collected from the list of what is unwritten and
//! from pieces of the log.
//!
//! It holds positions only, and looks up where the next message is whenever it goes on: messages may be written, moved and
//! settled meanwhile.

use super::LoggedMessage;
use super::damage::MessageDamage;
use super::pending::PendingList;
use super::pieces::{LargeRest, Piece, Take};
use super::queues::{Level, QueueTable};
use super::segments::SegmentUses;
use crate::ids::{Position, QueueUid};
use crate::limits::{BLOCK_BYTES, FETCH_READ_BYTES};
use crate::record::StoredMessage;
use crate::recovery::FoundMessage;
use std::ops::Range;

/// The number that whoever wants messages has given to that wish.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FetchId(pub u64);

/// A message that was fetched.
#[derive(Debug)]
pub struct FetchedMessage<M> {
    pub position: Position,
    pub message: M,
    pub found: FoundMessage,
}

/// What was fetched: all that is alive, in the order of its positions.
#[derive(Debug)]
pub struct Fetched<M> {
    pub id: FetchId,
    pub queue: QueueUid,
    pub messages: Vec<FetchedMessage<M>>,
}

/// What a fetch looks into.
pub(super) struct Sources<'a, M> {
    pub list: &'a PendingList<M>,
    pub queues: &'a mut QueueTable,
    pub segments: &'a SegmentUses,
    /// Groups before this one are in the segments.
    pub readable: u64,
}

impl<M> Sources<'_, M> {
    fn level(&mut self, queue: QueueUid, position: u64) -> Option<(&mut Level, &PendingList<M>)> {
        let queue = self.queues.find(queue)?;
        let level = self.queues.get(queue).level(Position(position).level())?;
        Some((level, self.list))
    }
}

/// A large message of which a part was read.
struct LargeRead {
    rest: LargeRest,
    /// The group in which its body goes on.
    next_group: u64,
}

/// Groups that a fetch needs next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Wanted {
    pub group: u64,
    /// The last one that is worth reading with it.
    pub last: u64,
}

/// Why a fetch does not go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pause {
    /// It has everything.
    Done,
    /// It needs what was not read, or not written yet.
    Waiting,
}

pub(super) struct Fetch<M> {
    id: FetchId,
    queue: QueueUid,
    /// What is before this position was collected, but for a large message.
    at: u64,
    end: u64,
    /// Ranges that are not wanted, in their order.
    except: Vec<Range<u64>>,
    messages: Vec<(u64, M)>,
    bytes: usize,
    large: Option<LargeRead>,
}

impl<M: LoggedMessage + Clone> Fetch<M> {
    pub fn new(id: FetchId, queue: QueueUid, wanted: Range<Position>, except: Vec<Range<u64>>) -> Self {
        let Range { start, end } = wanted;
        Fetch { id, queue, at: start.0, end: end.0, except, messages: Vec::new(), bytes: 0, large: None }
    }

    /// Bytes of what it has collected.
    pub fn heap_bytes(&self) -> usize {
        self.bytes + self.large.as_ref().map_or(0, |large| large.rest.message.heap_bytes())
    }

    /// What it needs of the log next, if that is written.
    pub fn wanted(&self, sources: &mut Sources<'_, M>) -> Option<Wanted> {
        let readable = sources.readable;
        let (level, _) = sources.level(self.queue, self.at)?;
        if let Some(large) = &self.large {
            let last = large.next_group + (FETCH_READ_BYTES / BLOCK_BYTES) as u64;
            return (large.next_group < readable)
                .then_some(Wanted { group: large.next_group, last: last.min(readable - 1) });
        }
        let (position, group) = self.first_live(level)?;
        if group >= readable {
            return None;
        }
        // A group has a block at least.
        let limit = readable.min(group + (FETCH_READ_BYTES / BLOCK_BYTES) as u64);
        let following = level.live.within(position, self.end).take_while(|run| (group..limit).contains(&run.group));
        Some(Wanted { group, last: following.map(|run| run.group).max().unwrap_or(group) })
    }

    /// Whether all that it waits for was settled meanwhile: then no read and no write lets it go on.
    pub fn waits_for_nothing(&self, sources: &mut Sources<'_, M>) -> bool {
        let Some((level, _)) = sources.level(self.queue, self.at) else { return true };
        match &self.large {
            Some(large) => level.live.group_of(large.rest.position).is_none(),
            None => self.first_live(level).is_none(),
        }
    }

    /// The first position that is alive in the log and wanted, and its group.
    fn first_live(&self, level: &Level) -> Option<(u64, u64)> {
        let mut from = self.at;
        loop {
            let run = level.live.within(from, self.end).next()?;
            let position = Some(from.max(run.first)).filter(|&position| position < self.end)?;
            match self.excepted(position) {
                Some(excepted) => from = excepted.end,
                None => return Some((position, run.group)),
            }
        }
    }

    fn excepted(&self, position: u64) -> Option<&Range<u64>> {
        let at = self.except.partition_point(|range| range.end <= position);
        self.except.get(at).filter(|range| range.start <= position)
    }

    /// Collects what can be had. Damage is told, and what it took left out.
    pub fn advance(
        &mut self,
        sources: &mut Sources<'_, M>,
        pieces: &mut [Piece],
        build: &mut impl FnMut(&StoredMessage<'_>) -> M,
        damaged: &mut impl FnMut(MessageDamage),
    ) -> Pause {
        loop {
            let (segments, readable) = (sources.segments, sources.readable);
            let Some((level, list)) = sources.level(self.queue, self.at) else { return Pause::Done };
            if let Some(large) = &self.large {
                let is_alive = level.live.group_of(large.rest.position).is_some();
                let is_there = large.next_group >= readable || segments.place_of(large.next_group, 0, 0).is_some();
                if !is_alive || !is_there {
                    // It was settled, or moved: then it is looked for again.
                    self.at = if is_alive { self.at.min(large.rest.position) } else { self.at };
                    self.large = None;
                    continue;
                }
                let Some(piece) = ready(pieces, large.next_group) else { return Pause::Waiting };
                self.go_on_with_body(piece, build, damaged);
                continue;
            }
            let Some((position, group)) = self.first_live(level) else {
                self.collect_unwritten(level, list, self.end);
                return Pause::Done;
            };
            self.collect_unwritten(level, list, position);
            self.at = position;
            let Some(piece) = ready(pieces, group).filter(|_| group < readable) else { return Pause::Waiting };
            let stop = self.collect_written(level, piece, build, damaged);
            self.collect_unwritten(level, list, stop);
            self.at = stop;
        }
    }

    /// Clones what is unwritten before a position.
    fn collect_unwritten(&mut self, level: &Level, list: &PendingList<M>, stop: u64) {
        for (position, message) in unwritten(level, list, self.at..stop) {
            if self.excepted(position).is_none() {
                self.bytes += message.bytes();
                self.messages.push((position, message.clone()));
            }
        }
    }

    fn push(&mut self, position: u64, message: M) {
        self.bytes += message.bytes();
        self.messages.push((position, message));
    }

    /// Takes the messages out of a piece that has the first one of them. Returns the first position that it does not have.
    fn collect_written(
        &mut self,
        level: &Level,
        piece: &mut Piece,
        build: &mut impl FnMut(&StoredMessage<'_>) -> M,
        damaged: &mut impl FnMut(MessageDamage),
    ) -> u64 {
        let mut stop = self.end;
        let mut take = Take::new(self.queue);
        for run in level.live.within(self.at, self.end) {
            if !piece.groups().contains(&run.group) {
                stop = self.at.max(run.first);
                break;
            }
            self.for_each_wanted(run.first.max(self.at)..run.end().min(self.end), |range| take.want(range, run.group));
        }
        let queue = self.queue;
        let (found, rest) = piece.take_out(&mut take, |position, message| self.push(position, build(message)));
        self.large = rest.map(|rest| LargeRead { rest, next_group: piece.groups().end });
        if found < take.count() {
            let has = |position: u64| {
                self.large.as_ref().is_some_and(|large| large.rest.position == position)
                    || self.messages.iter().any(|&(other, _)| other == position)
            };
            let missing: Vec<(u64, u64)> = take.positions().filter(|&(position, _)| !has(position)).collect();
            if let (Some(&(first, group)), Some(&(last, _))) = (missing.first(), missing.last()) {
                let (first, end) = (Position(first), Position(last + 1));
                damaged(MessageDamage { segment: piece.segment(), block: piece.block_of(group), queue, first, end });
            }
        }
        stop
    }

    /// The parts of a range that are not excepted.
    fn for_each_wanted(&self, range: Range<u64>, mut wanted: impl FnMut(Range<u64>)) {
        let mut from = range.start;
        let at = self.except.partition_point(|excepted| excepted.end <= from);
        for excepted in self.except[at..].iter().take_while(|excepted| excepted.start < range.end) {
            if from < excepted.start {
                wanted(from..excepted.start);
            }
            from = excepted.end;
        }
        if from < range.end {
            wanted(from..range.end);
        }
    }

    /// Reads on in the body of a large message.
    fn go_on_with_body(
        &mut self,
        piece: &mut Piece,
        build: &mut impl FnMut(&StoredMessage<'_>) -> M,
        damaged: &mut impl FnMut(MessageDamage),
    ) {
        let Some(mut large) = self.large.take() else { return };
        let goes_on = piece.take_parts(large.next_group, &mut large.rest);
        let LargeRest { position, message, .. } = &large.rest;
        if message.is_whole() {
            return self.push(*position, build(&message.stored()));
        }
        if goes_on {
            large.next_group = piece.groups().end;
            self.large = Some(large);
            return;
        }
        let (first, end) = (Position(*position), Position(*position + 1));
        let (segment, block) = (piece.segment(), piece.block_of(large.next_group));
        damaged(MessageDamage { segment, block, queue: self.queue, first, end });
    }

    /// What is still alive of it.
    pub fn finish(mut self, sources: &mut Sources<'_, M>) -> Fetched<M> {
        let Fetch { id, queue, .. } = self;
        self.messages.sort_by_key(|&(position, _)| position);
        self.messages.dedup_by_key(|&mut (position, _)| position);
        let Some(&(first, _)) = self.messages.first() else { return Fetched { id, queue, messages: Vec::new() } };
        let Some((level, list)) = sources.level(queue, first) else {
            return Fetched { id, queue, messages: Vec::new() };
        };
        let mut alive = alive(level, list, first..self.end).into_iter().peekable();
        let mut messages = Vec::with_capacity(self.messages.len());
        for (position, message) in self.messages {
            while alive.next_if(|range| range.end <= position).is_some() {}
            if alive.peek().is_some_and(|range| range.start <= position) {
                let found = level.found(position);
                messages.push(FetchedMessage { position: Position(position), message, found });
            }
        }
        Fetched { id, queue, messages }
    }
}

/// The piece that has a group, if it was read.
fn ready(pieces: &mut [Piece], group: u64) -> Option<&mut Piece> {
    pieces.iter_mut().find(|piece| piece.is_ready() && piece.groups().contains(&group))
}

/// Messages that are in no group yet, by their positions.
fn unwritten<'a, M>(level: &Level, list: &'a PendingList<M>, wanted: Range<u64>) -> impl Iterator<Item = (u64, &'a M)> {
    level.unwritten_within(wanted.start, wanted.end, list.first_unbegun()).flat_map(|run| {
        let positions = (run.first..run.first + run.count).zip(run.entry..);
        positions.filter_map(|(position, entry)| Some((position, list.message(entry)?)))
    })
}

/// What is alive within a range, written or not, in the order of positions.
pub(super) fn alive<M>(level: &Level, list: &PendingList<M>, wanted: Range<u64>) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    let clip = |first: u64, end: u64| first.max(wanted.start)..end.min(wanted.end);
    ranges.extend(level.live.within(wanted.start, wanted.end).map(|run| clip(run.first, run.end())));
    let written = ranges.len();
    for (position, _) in unwritten(level, list, wanted.clone()) {
        match ranges[written..].last_mut() {
            Some(last) if last.end == position => last.end += 1,
            _ => ranges.push(position..position + 1),
        }
    }
    ranges.sort_unstable_by_key(|range| range.start);
    ranges.dedup_by(|next, last| {
        let is_joined = last.end >= next.start;
        if is_joined {
            last.end = last.end.max(next.end);
        }
        is_joined
    });
    ranges
}
