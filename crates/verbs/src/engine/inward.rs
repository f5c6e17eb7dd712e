//! The receiving half of a connection: what has arrived and was not received, and where the rest shall land.
//!
//! Enters: messages, descriptors, memory that was lent, reads that ended.  Leaves: bytes in order, buffers that are free.
//! Owns:   unread buffers, what is lent, the one READ under way.
//! Never:  copies what is read into lent memory; talks to a device.

use crate::engine::Counters;
use crate::wire::Descriptor;
use link::FilledMemory;
use slab::BlockMut;
use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

/// Something of the stream.
#[derive(Debug)]
pub(crate) enum Piece {
    /// Bytes that are here: in a receive buffer, or in a landing block.
    Here { memory: BlockMut, at: usize, end: usize, landed: bool },
    /// Bytes that are still the peer's.
    Far { descriptor: Descriptor, read: u32 },
}

/// Memory that the owner lent.
#[derive(Debug)]
struct Lent {
    /// `None` while the device has it.
    memory: Option<BlockMut>,
    at: usize,
    end: usize,
    copied_bytes: usize,
}

impl Lent {
    fn is_full(&self) -> bool {
        self.memory.is_some() && self.at == self.end
    }
}

/// A READ under way.
#[derive(Debug)]
pub(crate) struct Reading {
    bytes: u32,
    pub landing: bool,
    pub deadline: Duration,
}

/// Memory that was used up.
#[derive(Debug)]
pub(crate) enum Free {
    /// A receive buffer: the peer gets a credit for it.
    Buffer(BlockMut),
    Landing(BlockMut),
}

/// A READ to issue.
#[derive(Debug)]
pub(crate) struct ReadWish {
    pub into: BlockMut,
    pub at: usize,
    pub bytes: u32,
    pub address: u64,
    pub key: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Inward {
    pieces: VecDeque<Piece>,
    /// The peer has ended its stream.
    pub ended: bool,
    lent: Option<Lent>,
    pub reading: Option<Reading>,
    /// Rendezvous taken in and not read to their end.
    pub open: u16,
    /// The number of the next rendezvous.
    pub next_number: u32,
    /// A landing block is waited for.
    pub wants_landing: bool,
}

impl Inward {
    pub fn push(&mut self, piece: Piece) {
        self.pieces.push_back(piece);
    }

    /// Whether `receive` has something to say or to begin.
    pub fn is_ready(&self) -> bool {
        if let Some(lent) = &self.lent {
            // It may be that what would fill it never comes.
            return lent.is_full() || self.is_over();
        }
        match self.pieces.front() {
            Some(Piece::Here { .. }) => true,
            Some(Piece::Far { .. }) => self.reading.is_none() && !self.wants_landing,
            None => self.ended,
        }
    }

    /// Whether nothing is left and nothing will come.
    pub fn is_over(&self) -> bool {
        self.ended && self.pieces.is_empty()
    }

    /// Whether all that is left is here.
    pub fn is_all_here(&self) -> bool {
        self.ended && self.pieces.iter().all(|piece| matches!(piece, Piece::Here { .. }))
    }

    pub fn is_lent(&self) -> bool {
        self.lent.is_some()
    }

    /// Whether the next bytes are the peer's still, and nobody reads them.
    pub fn wants_read(&self) -> bool {
        self.reading.is_none() && matches!(self.pieces.front(), Some(Piece::Far { .. }))
    }

    /// Whether lent memory waits to be taken back.
    pub fn is_lent_full(&self) -> bool {
        self.lent.as_ref().is_some_and(Lent::is_full)
    }

    pub fn lend(&mut self, memory: BlockMut, place: Range<usize>) -> Result<(), BlockMut> {
        // A READ into a landing block is under way: what it brings comes first, and is soon there.
        if self.lent.is_some() || place.is_empty() || place.end > memory.len() {
            return Err(memory);
        }
        self.lent = Some(Lent { memory: Some(memory), at: place.start, end: place.end, copied_bytes: 0 });
        Ok(())
    }

    /// Lent memory that is full.
    pub fn take_back(&mut self) -> Option<FilledMemory> {
        let Lent { memory, copied_bytes, .. } = self.lent.take_if(|lent| lent.is_full())?;
        Some(FilledMemory { memory: memory?, copied_bytes })
    }

    /// Copies what is here into lent memory; answers with the READ that must come next, if one must.
    pub fn fill_lent(&mut self, frees: &mut Vec<Free>, counters: &mut Counters) -> Option<ReadWish> {
        loop {
            if self.reading.is_some() {
                return None;
            }
            let lent = self.lent.as_mut().filter(|lent| lent.at < lent.end)?;
            match self.pieces.front()? {
                Piece::Here { .. } => {
                    let memory = lent.memory.as_mut()?;
                    let copied = copy_here(&mut self.pieces, &mut memory[lent.at..lent.end], frees, counters);
                    lent.at += copied;
                    lent.copied_bytes += copied;
                }
                Piece::Far { descriptor, read } => {
                    let bytes = (descriptor.bytes - read).min(u32::try_from(lent.end - lent.at).unwrap_or(u32::MAX));
                    let address = descriptor.address + u64::from(*read);
                    let key = descriptor.key;
                    return Some(ReadWish { into: lent.memory.take()?, at: lent.at, bytes, address, key });
                }
            }
        }
    }

    /// The READ into a landing block that comes next.
    pub fn land(&mut self, into: BlockMut) -> Result<ReadWish, BlockMut> {
        let Some(Piece::Far { descriptor, read }) = self.pieces.front() else { return Err(into) };
        let bytes = (descriptor.bytes - read).min(u32::try_from(into.len()).unwrap_or(u32::MAX));
        let address = descriptor.address + u64::from(*read);
        Ok(ReadWish { into, at: 0, bytes, address, key: descriptor.key })
    }

    /// A READ was issued.
    pub fn reading(&mut self, bytes: u32, landing: bool, deadline: Duration) {
        self.reading = Some(Reading { bytes, landing, deadline });
    }

    /// It has ended well. Answers the number of the rendezvous if that was the last of it.
    pub fn read_done(&mut self, memory: BlockMut, counters: &mut Counters) -> Option<u32> {
        let Reading { bytes, landing, .. } = self.reading.take()?;
        let Some(Piece::Far { descriptor, read }) = self.pieces.front_mut() else { return None };
        *read += bytes;
        let number = descriptor.number;
        let whole = *read == descriptor.bytes;
        if whole {
            self.pieces.pop_front();
            self.open -= 1;
        }
        if landing {
            counters.landed_bytes += u64::from(bytes);
            self.pieces.push_front(Piece::Here { memory, at: 0, end: bytes as usize, landed: true });
        } else if let Some(lent) = &mut self.lent {
            counters.placed_bytes += u64::from(bytes);
            lent.at += bytes as usize;
            lent.memory = Some(memory);
        }
        whole.then_some(number)
    }

    /// Copies what is here; how many bytes.
    pub fn copy(&mut self, out: &mut [u8], frees: &mut Vec<Free>, counters: &mut Counters) -> usize {
        let mut copied = 0;
        while copied < out.len() && matches!(self.pieces.front(), Some(Piece::Here { .. })) {
            copied += copy_here(&mut self.pieces, &mut out[copied..], frees, counters);
        }
        copied
    }

    /// How many bytes of what is next can be read into memory that is lent now.
    pub fn announced(&self) -> usize {
        match self.pieces.front() {
            Some(Piece::Far { descriptor, read }) if self.reading.is_none() && self.lent.is_none() => {
                (descriptor.bytes - read) as usize
            }
            _ => 0,
        }
    }

    /// Forgets everything that was not received; the memory.
    pub fn clear(&mut self, frees: &mut Vec<Free>) {
        self.lent = None;
        self.open = 0;
        self.wants_landing = false;
        for piece in self.pieces.drain(..) {
            if let Piece::Here { memory, landed, .. } = piece {
                frees.push(if landed { Free::Landing(memory) } else { Free::Buffer(memory) });
            }
        }
    }
}

/// Copies from the first piece, which is here.
fn copy_here(pieces: &mut VecDeque<Piece>, out: &mut [u8], frees: &mut Vec<Free>, counters: &mut Counters) -> usize {
    let Some(Piece::Here { memory, at, end, landed }) = pieces.front_mut() else { return 0 };
    let bytes = out.len().min(*end - *at);
    out[..bytes].copy_from_slice(&memory[*at..*at + bytes]);
    counters.copied_bytes += bytes as u64;
    *at += bytes;
    if at == end {
        let memory = std::mem::take(memory);
        frees.push(if *landed { Free::Landing(memory) } else { Free::Buffer(memory) });
        pieces.pop_front();
    }
    bytes
}
