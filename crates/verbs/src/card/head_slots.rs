//! Registered slots for the headers of messages, shared by all queue pairs of a device.
//!
//! A slot is used from the call that posts it until its completion: the device reads it in between.

use crate::limits::{HEAD_SLOT_BYTES, HEAD_SLOTS};
use ib::{
    Arena, ArenaBlock, FilledArenaBlock, IbError, LocalKey, MemoryRegion, ProtectionDomain, RemoteAccess, SendSegment,
};

pub(super) struct HeadSlots {
    domain: ProtectionDomain,
    chunks: Vec<MemoryRegion<Arena>>,
    /// Each with the number of its chunk.
    free: Vec<(ArenaBlock, u32)>,
}

impl HeadSlots {
    pub fn new(domain: &ProtectionDomain) -> Self {
        HeadSlots { domain: domain.clone(), chunks: Vec::new(), free: Vec::new() }
    }

    /// A segment with these bytes, and its key.
    pub fn fill(&mut self, bytes: &[u8]) -> Result<(SendSegment, LocalKey), IbError> {
        let (mut part, chunk) = match self.free.pop() {
            Some(slot) => slot,
            None => self.grow()?,
        };
        part[..bytes.len()].copy_from_slice(bytes);
        Ok((SendSegment::Own(FilledArenaBlock::new(part, bytes.len(), chunk)), self.chunks[chunk as usize].key()))
    }

    #[cold]
    fn grow(&mut self) -> Result<(ArenaBlock, u32), IbError> {
        let (arena, parts) = Arena::new(HEAD_SLOTS, HEAD_SLOT_BYTES)?;
        let chunk = self.chunks.len() as u32;
        self.chunks.push(MemoryRegion::new(&self.domain, arena, RemoteAccess::None)?);
        self.free.extend(parts.into_iter().map(|part| (part, chunk)));
        self.free.pop().ok_or(IbError::QueueFull)
    }

    /// Frees the slot of a segment that was sent; message memory is dropped.
    pub fn release(&mut self, piece: SendSegment) {
        if let SendSegment::Own(filled) = piece {
            self.free.push(filled.into_block());
        }
    }
}
