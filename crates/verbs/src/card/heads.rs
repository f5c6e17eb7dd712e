//! Slots for the heads of messages, in registered memory.
//!
//! Enters: heads, by value.  Leaves: pieces to send, which come back with their completions.
//! Owns:   the slots, for all queue pairs of a card: an idle connection has none.
//! Never:  gives a slot to two: a head is read by the card after the call that posts it, until its completion.

use crate::limits::{HEAD_SLOT_BYTES, HEAD_SLOTS};
use ib::{Arena, Domain, Error, Filled, Key, Part, Peers, Piece, Region};

pub(super) struct Heads {
    domain: Domain,
    chunks: Vec<Region<Arena>>,
    /// Each with the number of its chunk.
    free: Vec<(Part, u32)>,
}

impl Heads {
    pub fn new(domain: &Domain) -> Self {
        Heads { domain: domain.clone(), chunks: Vec::new(), free: Vec::new() }
    }

    /// A piece with these bytes, and its key.
    pub fn fill(&mut self, bytes: &[u8]) -> Result<(Piece, Key), Error> {
        let (mut part, chunk) = match self.free.pop() {
            Some(slot) => slot,
            None => self.grow()?,
        };
        part[..bytes.len()].copy_from_slice(bytes);
        Ok((Piece::Own(Filled::new(part, bytes.len(), chunk)), self.chunks[chunk as usize].key()))
    }

    #[cold]
    fn grow(&mut self) -> Result<(Part, u32), Error> {
        let (arena, parts) = Arena::new(HEAD_SLOTS, HEAD_SLOT_BYTES)?;
        let chunk = self.chunks.len() as u32;
        self.chunks.push(Region::new(&self.domain, arena, Peers::Nothing)?);
        self.free.extend(parts.into_iter().map(|part| (part, chunk)));
        self.free.pop().ok_or(Error::Full)
    }

    /// What was sent: a slot is free again; message memory goes.
    pub fn take_back(&mut self, piece: Piece) {
        if let Piece::Own(filled) = piece {
            self.free.push(filled.into_part());
        }
    }
}
