//! The fetches of a log, which are answered in their order, and the pieces of the log that are read for them.
//!
//! Enters: wishes, and what the disk has read.  Leaves: reads, a few at a time; messages.
//! Owns:   what was read and not handed over.

use super::LoggedMessage;
use super::damage::MessageDamage;
use super::fetch::{Fetch, Fetched, Pause, Sources, Wanted};
use super::pieces::Piece;
use super::segment_frames::SegmentFrames;
use crate::buffer::AlignedBuffer;
use crate::group::Chain;
use crate::ids::{Block, SegmentId, SegmentNumber};
use crate::limits::{BLOCK_BYTES, FETCH_KEEP_US, FETCH_PIECES_MAX, FETCH_READ_BYTES, FETCH_READS_MAX};
use crate::record::StoredMessage;
use crate::request::{DiskError, Request};
use crate::segment_header::SegmentStart;
use std::collections::VecDeque;

pub(super) struct Fetcher<M> {
    fetches: VecDeque<Fetch<M>>,
    /// The oldest first.
    pieces: Vec<Piece>,
    spare: Option<AlignedBuffer>,
    damage: VecDeque<MessageDamage>,
    /// Groups before this one are read alone: some of them could not be read with others.
    read_alone: u64,
    /// Something has changed since fetches were advanced.
    has_news: bool,
    /// When the last read was asked for.
    read_us: u64,
    /// That were fetched so far.
    messages: u64,
}

impl<M> Default for Fetcher<M> {
    fn default() -> Self {
        Fetcher {
            fetches: VecDeque::new(),
            pieces: Vec::new(),
            spare: None,
            damage: VecDeque::new(),
            read_alone: 0,
            has_news: false,
            read_us: 0,
            messages: 0,
        }
    }
}

impl<M> Fetcher<M> {
    /// Messages that were fetched so far.
    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// Whether a segment is being read.
    pub fn is_reading(&self, segment: SegmentNumber) -> bool {
        self.pieces.iter().any(|piece| !piece.is_ready() && piece.segment().number == segment)
    }

    /// Something was written: what waits for it can go on.
    pub fn on_written(&mut self) {
        self.has_news |= !self.fetches.is_empty();
    }

    /// Whether [`Fetcher::advance`] may have an answer.
    pub fn has_news(&self) -> bool {
        self.has_news
    }

    pub fn take_damage(&mut self) -> Option<MessageDamage> {
        self.damage.pop_front()
    }

    /// Whether this is what it has asked for.
    pub fn awaits(&self, segment: SegmentId, block: Block, buffer: &AlignedBuffer) -> bool {
        self.asked(segment, block, buffer).is_some()
    }

    fn asked(&self, segment: SegmentId, block: Block, buffer: &AlignedBuffer) -> Option<usize> {
        self.pieces.iter().position(|piece| {
            !piece.is_ready() && (piece.segment(), piece.block()) == (segment, block) && piece.bytes() == buffer.len()
        })
    }

    /// A read that it has asked for. Returns the error if a group cannot be read: its messages are found missing.
    pub fn on_read(
        &mut self,
        segment: SegmentId,
        block: Block,
        mut buffer: AlignedBuffer,
        result: Result<usize, DiskError>,
    ) -> Option<DiskError> {
        let at = self.asked(segment, block, &buffer)?;
        let groups = self.pieces[at].groups();
        let (filled, error) = match result {
            Ok(filled) => (filled, None),
            Err(_) if groups.end - groups.start > 1 => {
                self.read_alone = self.read_alone.max(groups.end);
                self.pieces.remove(at);
                return None;
            }
            Err(error) => {
                buffer.fill(0);
                (buffer.len(), Some(error))
            }
        };
        self.pieces[at].fill(buffer, filled);
        self.has_news = true;
        error
    }

    /// When what is kept is given back.
    pub fn timer_us(&self) -> Option<u64> {
        let is_kept = self.fetches.is_empty() && (!self.pieces.is_empty() || self.spare.is_some());
        is_kept.then_some(self.read_us + FETCH_KEEP_US)
    }

    /// Memory for so many bytes: that of the last piece that was given up, if it has them.
    fn buffer(&mut self, bytes: usize) -> AlignedBuffer {
        match self.spare.take() {
            Some(mut buffer) if buffer.capacity() >= bytes => {
                buffer.set_len(bytes);
                buffer
            }
            _ => AlignedBuffer::new(bytes),
        }
    }

    /// Makes room for another piece. Returns whether there is.
    fn make_room(&mut self, wanted: &[Wanted]) -> bool {
        if self.pieces.len() < FETCH_PIECES_MAX {
            return true;
        }
        let is_needed = |piece: &Piece| wanted.iter().any(|wanted| piece.groups().contains(&wanted.group));
        let Some(at) = self.pieces.iter().position(|piece| piece.is_ready() && !is_needed(piece)) else { return false };
        self.spare = self.pieces.remove(at).into_buffer();
        true
    }
}

impl<M: LoggedMessage + Clone> Fetcher<M> {
    pub fn push(&mut self, fetch: Fetch<M>) {
        self.fetches.push_back(fetch);
        self.has_news = true;
    }

    /// Bytes that were read, and messages that were not handed over.
    pub fn heap_bytes(&self) -> usize {
        let spare = self.spare.as_ref().map_or(0, AlignedBuffer::capacity);
        let pieces: usize = self.pieces.iter().map(Piece::heap_bytes).sum();
        spare + pieces + self.fetches.iter().map(Fetch::heap_bytes).sum::<usize>()
    }

    /// What to read.
    pub fn poll(
        &mut self,
        sources: &mut Sources<'_, M>,
        (chain, starts): (&Chain, &VecDeque<SegmentStart>),
        now_us: u64,
    ) -> Option<Request> {
        if self.fetches.is_empty() {
            if self.timer_us().is_some_and(|timer_us| timer_us <= now_us) && self.pieces.iter().all(Piece::is_ready) {
                (self.pieces, self.spare) = (Vec::new(), None);
            }
            return None;
        }
        self.has_news |= self.fetches.front().is_some_and(|fetch| fetch.waits_for_nothing(sources));
        if self.pieces.iter().filter(|piece| !piece.is_ready()).count() >= FETCH_READS_MAX {
            return None;
        }
        let next = self.fetches.iter().take(FETCH_READS_MAX);
        let wanted: Vec<Wanted> = next.filter_map(|fetch| fetch.wanted(sources)).collect();
        let unread = |wanted: &&Wanted| !self.pieces.iter().any(|piece| piece.groups().contains(&wanted.group));
        let &Wanted { group, last } = wanted.iter().find(unread)?;
        let last = if group < self.read_alone { group } else { last };
        let segments = sources.segments;
        let place = segments.place_of(group, last, (FETCH_READ_BYTES / BLOCK_BYTES) as u32)?;
        let frames = SegmentFrames::of(chain, place.segment, starts)?;
        if !self.make_room(&wanted) {
            return None;
        }
        let begins = place.groups.clone().filter_map(|group| segments.place_of(group, group, 0));
        let begins = begins.map(|place| place.blocks.start).collect();
        let piece = Piece::new(place, begins, frames);
        let (segment, block, bytes) = (piece.segment(), piece.block(), piece.bytes());
        self.pieces.push(piece);
        self.read_us = now_us;
        Some(Request::Read { segment, block, buffer: self.buffer(bytes), is_direct: false })
    }

    /// Takes what the first fetch wants out of what was read. Returns it once it has everything.
    pub fn advance(
        &mut self,
        sources: &mut Sources<'_, M>,
        build: &mut impl FnMut(&StoredMessage<'_>) -> M,
    ) -> Option<Fetched<M>> {
        if !self.has_news {
            return None;
        }
        let Self { fetches, pieces, damage, .. } = self;
        let pause = fetches
            .front_mut()
            .map(|fetch| fetch.advance(sources, pieces, build, &mut |damaged| damage.push_back(damaged)));
        if pause != Some(Pause::Done) {
            self.has_news = false;
            return None;
        }
        let fetch = self.fetches.pop_front()?;
        self.has_news = !self.fetches.is_empty();
        let fetched = fetch.finish(sources);
        self.messages += fetched.messages.len() as u64;
        Some(fetched)
    }
}
