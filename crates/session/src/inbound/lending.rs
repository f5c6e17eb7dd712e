//! Lending: the place of a large body's next bytes, given away to be filled by somebody else.
//!
//! Enters: from how many bytes on it is worth it.  Leaves: memory with a place in it; the same, filled.
//! Owns:   how much is lent, and which content has memory ahead of what has come.

use super::{Inbound, PartialFrame};
use crate::assembly::{BodyRoom, ContentAssembly};
use crate::limits::{BODY_LENT_STEP_BYTES, BODY_STEP_BYTES, LARGE_BODY_BYTES};
use slab::{BlockMut, Pool};
use std::ops::Range;
use wire::ChannelNumber;

/// What is lent.
#[derive(Clone, Copy, Debug)]
pub(super) struct BodyBufferLoan {
    /// From so many bytes on a body has memory of its own.
    pub large_body_bytes: usize,
    /// From so many bytes on memory is lent.
    from_bytes: usize,
    /// Bytes of the place that is lent; zero: nothing is.
    lent_bytes: usize,
    /// Bytes of the memory from that place on.
    lent_block_bytes: usize,
    /// The channel whose body has memory ahead of what has come, one at a time: whatever a peer begins on other channels takes
    /// no more than what arrives there.
    pub ahead: Option<ChannelNumber>,
}

impl Default for BodyBufferLoan {
    fn default() -> Self {
        Self {
            large_body_bytes: LARGE_BODY_BYTES,
            from_bytes: usize::MAX,
            lent_bytes: 0,
            lent_block_bytes: 0,
            ahead: None,
        }
    }
}

impl BodyBufferLoan {
    pub fn is_lent(&self) -> bool {
        self.lent_bytes > 0
    }
}

impl Inbound {
    /// The link may be lent memory for `bytes` and more: bodies from there on have memory of their own.
    pub fn lend_from(&mut self, bytes: usize) {
        self.lending.from_bytes = bytes.max(1);
        self.lending.large_body_bytes = LARGE_BODY_BYTES.min(self.lending.from_bytes);
    }

    /// The memory in which the rest of the current frame's payload belongs, and its place there, if that is worth lending.
    /// Until it comes back, by [`filled`](Self::filled) or [`not_lent`](Self::not_lent), `next` takes nothing. All input must
    /// have been taken.
    pub fn lend(&mut self) -> Option<(BlockMut, Range<usize>)> {
        let PartialFrame::Body { channel, .. } = self.mid else { return None };
        let bytes = self.direct().len();
        if bytes < self.lending.from_bytes || self.lending.is_lent() {
            return None;
        }
        let assembly = self.channels.get_mut(channel).and_then(|channel| channel.assembly.as_deref_mut())?;
        self.lending.lent_bytes = bytes;
        let place = assembly.filled()..assembly.filled() + bytes;
        let memory = assembly.take_block();
        self.lending.lent_block_bytes = memory.len() - place.start;
        Some((memory, place))
    }

    /// What was lent, and is full now. Answers how many bytes that were.
    pub fn filled(&mut self, memory: BlockMut) -> usize {
        let bytes = std::mem::take(&mut self.lending.lent_bytes);
        self.put_back(memory);
        match &mut self.mid {
            PartialFrame::Body { .. } => self.direct_filled(bytes),
            // Its content ended meanwhile.
            PartialFrame::Skip { left } => *left -= bytes,
            PartialFrame::No => {}
        }
        bytes
    }

    /// What nobody took.
    pub fn not_lent(&mut self, memory: BlockMut) {
        self.lending.lent_bytes = 0;
        self.put_back(memory);
    }

    /// What nobody may take now: if little must be moved, its body gets memory for what arrives, frame by frame.
    pub fn refuse_loan(&mut self, memory: BlockMut, pool: &Pool) {
        self.not_lent(memory);
        let PartialFrame::Body { channel, .. } = self.mid else { return };
        let assembly = self.channels.get_mut(channel).and_then(|channel| channel.assembly.as_deref_mut());
        let Some(assembly) = assembly.filter(|assembly| !assembly.is_shrunk()) else { return };
        let (given_bytes, copied_bytes) = assembly.shrink(pool);
        if given_bytes > 0 {
            self.lending.ahead.take_if(|ahead| *ahead == channel);
        }
        self.copied_bytes += copied_bytes as u64;
    }

    fn put_back(&mut self, memory: BlockMut) {
        self.lending.lent_block_bytes = 0;
        if let PartialFrame::Body { channel, .. } = self.mid
            && let Some(assembly) = self.channels.get_mut(channel).and_then(|channel| channel.assembly.as_deref_mut())
        {
            assembly.put_block(memory);
        }
    }

    /// Whether memory is lent.
    pub fn is_lent(&self) -> bool {
        self.lending.is_lent()
    }

    /// The first piece of memory for a body; zero: as much as the frame at hand fills.
    pub(super) fn step_bytes(&mut self, channel: ChannelNumber) -> usize {
        let assembly = self.channels.get(channel).and_then(|channel| channel.assembly.as_deref());
        if assembly.is_none_or(ContentAssembly::is_shrunk) || *self.lending.ahead.get_or_insert(channel) != channel {
            return 0;
        }
        if self.lending.from_bytes == usize::MAX { BODY_STEP_BYTES } else { BODY_LENT_STEP_BYTES }
    }

    /// Memory for a body in which nothing has arrived. What is lent is not among it: a device holds it.
    #[inline]
    pub fn body_room(&self) -> BodyRoom {
        let Some(channel) = self.lending.ahead else { return BodyRoom::default() };
        let assembly = self.channels.get(channel).and_then(|channel| channel.assembly.as_deref());
        assembly.map_or(BodyRoom::default(), ContentAssembly::room)
    }

    /// Gives back the memory for a body in which nothing has arrived, if little must be moved. What comes of that body from
    /// now on gets memory frame by frame. Returns how many bytes that were.
    pub fn give_back_room(&mut self, pool: &Pool) -> usize {
        let Some(channel) = self.lending.ahead else { return 0 };
        let assembly = self.channels.get_mut(channel).and_then(|channel| channel.assembly.as_deref_mut());
        let (given_bytes, copied_bytes) = assembly.map_or((0, 0), |assembly| assembly.shrink(pool));
        if given_bytes > 0 {
            self.lending.ahead = None;
        }
        self.copied_bytes += copied_bytes as u64;
        given_bytes
    }

    /// Bytes that have arrived of contents that are not whole; with the memory that is lent for what is missing.
    pub fn partial_bytes(&self) -> usize {
        let assemblies = self.channels.iter().filter_map(|channel| channel.assembly.as_deref());
        self.lending.lent_block_bytes + assemblies.map(ContentAssembly::arrived_bytes).sum::<usize>()
    }

    /// The channels that are looked at for [`Self::partial_bytes`].
    pub fn channels_count(&self) -> usize {
        self.channels.count()
    }

    /// Bytes of large bodies that were copied here on the way to their place since the last call: what came in front of the
    /// rest, and what was moved because its memory had to grow. What a link copies is not among them.
    #[inline]
    pub fn take_copied_bytes(&mut self) -> u64 {
        std::mem::take(&mut self.copied_bytes)
    }
}
