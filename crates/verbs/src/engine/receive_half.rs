//! The receive half of a connection: received segments, lent memory, and the READ in flight.
//!
//! Bytes that are read into lent memory are never copied.

use crate::engine::PortCounters;
use crate::wire::RendezvousDescriptor;
use link::FilledMemory;
use slab::BlockMut;
use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

/// A segment of the received stream.
#[derive(Debug)]
pub(crate) enum StreamSegment {
    /// Bytes that have arrived: in a receive buffer or a landing block.
    Local { memory: BlockMut, at: usize, end: usize, landed: bool },
    /// Bytes in the peer's memory.
    Remote { descriptor: RendezvousDescriptor, read: u32 },
}

/// Memory that the owner has lent.
#[derive(Debug)]
struct LentMemory {
    /// `None` while a READ fills it.
    memory: Option<BlockMut>,
    at: usize,
    end: usize,
    copied_bytes: usize,
}

impl LentMemory {
    fn is_full(&self) -> bool {
        self.memory.is_some() && self.at == self.end
    }
}

#[derive(Debug)]
pub(crate) struct ReadInFlight {
    bytes: u32,
    pub landing: bool,
    pub deadline: Duration,
}

/// Memory that was read completely.
#[derive(Debug)]
pub(crate) enum FreedMemory {
    /// A receive buffer, whose credit is returned to the peer.
    Buffer(BlockMut),
    Landing(BlockMut),
}

/// A READ to issue.
#[derive(Debug)]
pub(crate) struct ReadRequest {
    pub into: BlockMut,
    pub at: usize,
    pub bytes: u32,
    pub address: u64,
    pub key: u32,
}

#[derive(Debug, Default)]
pub(crate) struct ReceiveHalf {
    segments: VecDeque<StreamSegment>,
    /// The peer has ended its stream.
    pub ended: bool,
    lent: Option<LentMemory>,
    pub read_in_flight: Option<ReadInFlight>,
    /// Rendezvous that are not read completely.
    pub open_rendezvous: u16,
    /// Bytes that were read of all of them.
    pub read_bytes_total: u64,
    /// The number of the peer's next rendezvous.
    pub next_number: u32,
    /// It waits for a landing block.
    pub wants_landing: bool,
}

impl ReceiveHalf {
    pub fn push(&mut self, piece: StreamSegment) {
        self.segments.push_back(piece);
    }

    /// Whether `receive` would return something other than `Idle`, or issue a READ.
    pub fn is_ready(&self) -> bool {
        if let Some(lent) = &self.lent {
            // After the end of the stream it will never be full.
            return lent.is_full() || self.is_closed();
        }
        match self.segments.front() {
            Some(StreamSegment::Local { .. }) => true,
            Some(StreamSegment::Remote { .. }) => self.read_in_flight.is_none() && !self.wants_landing,
            None => self.ended,
        }
    }

    /// Whether the stream has ended and everything is read.
    pub fn is_closed(&self) -> bool {
        self.ended && self.segments.is_empty()
    }

    /// Whether the stream has ended and all unread bytes have arrived.
    pub fn is_all_local(&self) -> bool {
        self.ended && self.segments.iter().all(|piece| matches!(piece, StreamSegment::Local { .. }))
    }

    pub fn is_lent(&self) -> bool {
        self.lent.is_some()
    }

    /// Whether the next bytes must be read from the peer's memory.
    pub fn wants_read(&self) -> bool {
        self.read_in_flight.is_none() && matches!(self.segments.front(), Some(StreamSegment::Remote { .. }))
    }

    /// Whether lent memory can be taken.
    pub fn is_lent_full(&self) -> bool {
        self.lent.as_ref().is_some_and(LentMemory::is_full)
    }

    pub fn lend(&mut self, memory: BlockMut, place: Range<usize>) -> Result<(), BlockMut> {
        // A READ into a landing block may be in flight: its bytes come first, and will arrive soon.
        if self.lent.is_some() || place.is_empty() || place.end > memory.len() {
            return Err(memory);
        }
        self.lent = Some(LentMemory { memory: Some(memory), at: place.start, end: place.end, copied_bytes: 0 });
        Ok(())
    }

    /// Takes lent memory that is full.
    pub fn take_filled(&mut self) -> Option<FilledMemory> {
        let LentMemory { memory, copied_bytes, .. } = self.lent.take_if(|lent| lent.is_full())?;
        Some(FilledMemory { memory: memory?, copied_bytes })
    }

    /// Copies bytes that have arrived into lent memory. Returns the READ that must follow, if any.
    pub fn fill_lent(&mut self, frees: &mut Vec<FreedMemory>, counters: &mut PortCounters) -> Option<ReadRequest> {
        loop {
            if self.read_in_flight.is_some() {
                return None;
            }
            let lent = self.lent.as_mut().filter(|lent| lent.at < lent.end)?;
            match self.segments.front()? {
                StreamSegment::Local { .. } => {
                    let memory = lent.memory.as_mut()?;
                    let copied = copy_local(&mut self.segments, &mut memory[lent.at..lent.end], frees, counters);
                    lent.at += copied;
                    lent.copied_bytes += copied;
                }
                StreamSegment::Remote { descriptor, read } => {
                    let bytes = (descriptor.bytes - read).min(u32::try_from(lent.end - lent.at).unwrap_or(u32::MAX));
                    let address = descriptor.address + u64::from(*read);
                    let key = descriptor.key;
                    return Some(ReadRequest { into: lent.memory.take()?, at: lent.at, bytes, address, key });
                }
            }
        }
    }

    /// The next READ, into a landing block.
    pub fn read_into_landing(&mut self, into: BlockMut) -> Result<ReadRequest, BlockMut> {
        let Some(StreamSegment::Remote { descriptor, read }) = self.segments.front() else { return Err(into) };
        let bytes = (descriptor.bytes - read).min(u32::try_from(into.len()).unwrap_or(u32::MAX));
        let address = descriptor.address + u64::from(*read);
        Ok(ReadRequest { into, at: 0, bytes, address, key: descriptor.key })
    }

    pub fn on_read_issued(&mut self, bytes: u32, landing: bool, deadline: Duration) {
        self.read_in_flight = Some(ReadInFlight { bytes, landing, deadline });
    }

    /// The READ has succeeded. Returns the number of the rendezvous if it is read completely.
    pub fn on_read_completed(&mut self, memory: BlockMut, counters: &mut PortCounters) -> Option<u32> {
        let ReadInFlight { bytes, landing, .. } = self.read_in_flight.take()?;
        let Some(StreamSegment::Remote { descriptor, read }) = self.segments.front_mut() else { return None };
        *read += bytes;
        self.read_bytes_total += u64::from(bytes);
        let number = descriptor.number;
        let whole = *read == descriptor.bytes;
        if whole {
            self.segments.pop_front();
            self.open_rendezvous -= 1;
        }
        if landing {
            counters.landed_bytes += u64::from(bytes);
            self.segments.push_front(StreamSegment::Local { memory, at: 0, end: bytes as usize, landed: true });
        } else if let Some(lent) = &mut self.lent {
            counters.placed_bytes += u64::from(bytes);
            lent.at += bytes as usize;
            lent.memory = Some(memory);
        }
        whole.then_some(number)
    }

    /// Copies bytes that have arrived. Returns their number.
    pub fn copy(&mut self, out: &mut [u8], frees: &mut Vec<FreedMemory>, counters: &mut PortCounters) -> usize {
        let mut copied = 0;
        while copied < out.len() && matches!(self.segments.front(), Some(StreamSegment::Local { .. })) {
            copied += copy_local(&mut self.segments, &mut out[copied..], frees, counters);
        }
        copied
    }

    /// How many of the next bytes can be read into lent memory.
    pub fn announced_bytes(&self) -> usize {
        match self.segments.front() {
            Some(StreamSegment::Remote { descriptor, read })
                if self.read_in_flight.is_none() && self.lent.is_none() =>
            {
                (descriptor.bytes - read) as usize
            }
            _ => 0,
        }
    }

    /// Discards everything unread, and frees its memory.
    pub fn clear(&mut self, frees: &mut Vec<FreedMemory>) {
        self.lent = None;
        self.open_rendezvous = 0;
        self.wants_landing = false;
        for piece in self.segments.drain(..) {
            if let StreamSegment::Local { memory, landed, .. } = piece {
                frees.push(if landed { FreedMemory::Landing(memory) } else { FreedMemory::Buffer(memory) });
            }
        }
    }
}

/// Copies from the first segment, which is local.
fn copy_local(
    pieces: &mut VecDeque<StreamSegment>,
    out: &mut [u8],
    frees: &mut Vec<FreedMemory>,
    counters: &mut PortCounters,
) -> usize {
    let Some(StreamSegment::Local { memory, at, end, landed }) = pieces.front_mut() else { return 0 };
    let bytes = out.len().min(*end - *at);
    out[..bytes].copy_from_slice(&memory[*at..*at + bytes]);
    counters.copied_bytes += bytes as u64;
    *at += bytes;
    if at == end {
        let memory = std::mem::take(memory);
        frees.push(if *landed { FreedMemory::Landing(memory) } else { FreedMemory::Buffer(memory) });
        pieces.pop_front();
    }
    bytes
}
