//! Texts: an arena for the many short byte strings of bindings.
//!
//! Enters: strings of at most 255 bytes.  Leaves: 4-byte handles, and the strings again.
//! Owns:   their bytes, in places of 8-byte steps whose length byte comes first; freed places are reused by size.

use crate::{copy_budget::CopyBudget, limits::NAME_BYTES_MAX};

/// A string in the arena: the number of its first 8-byte place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TextId(u32);

const PLACE_BYTES: usize = 8;
const CHUNK_BYTES: usize = 64 * 1024;
const CHUNK_PLACES: usize = CHUNK_BYTES / PLACE_BYTES;
/// Places that the longest string takes; also the number of sizes.
const PLACES_MAX: usize = (NAME_BYTES_MAX + 1).div_ceil(PLACE_BYTES);

const _: () = assert!(NAME_BYTES_MAX <= u8::MAX as usize);

/// The arena. Handles address 32 GiB, beyond what the limits on bindings let it reach.
#[derive(Clone, Default)]
pub(crate) struct TextArena {
    chunks: Vec<Box<[u8]>>,
    /// Places used in the last chunk.
    filled: usize,
    /// Free places by size.
    free: Vec<Vec<TextId>>,
}

fn places(bytes: usize) -> usize {
    (bytes + 1).div_ceil(PLACE_BYTES)
}

impl TextArena {
    /// One without strings, for [`copy_part`](Self::copy_part).
    pub fn begin_copy(&self) -> Self {
        Self { chunks: Vec::new(), filled: self.filled, free: vec![Vec::new(); self.free.len()] }
    }

    /// Copies more strings, and which places are free. Returns whether none is left.
    pub fn copy_part(&self, copy: &mut Self, budget: &mut CopyBudget) -> bool {
        let mut free = self.free.iter().zip(&mut copy.free);
        budget.copy_each(&self.chunks, &mut copy.chunks, |chunk| (chunk.clone(), CHUNK_BYTES))
            && free.all(|(from, copy)| budget.copy_values(from, copy))
    }

    /// Keeps a string of at most 255 bytes.
    pub fn keep(&mut self, text: &[u8]) -> TextId {
        assert!(text.len() <= NAME_BYTES_MAX, "a text longer than a short string reached the arena");
        let places = places(text.len());
        let id = self.free.get_mut(places).and_then(Vec::pop).unwrap_or_else(|| self.fresh(places));
        let (chunk, at) = Self::place(id);
        let bytes = &mut self.chunks[chunk][at..];
        bytes[0] = text.len() as u8;
        bytes[1..=text.len()].copy_from_slice(text);
        id
    }

    fn fresh(&mut self, places: usize) -> TextId {
        if self.chunks.is_empty() || self.filled + places > CHUNK_PLACES {
            self.chunks.push(vec![0; CHUNK_BYTES].into_boxed_slice());
            self.filled = 0;
        }
        let place = (self.chunks.len() - 1) * CHUNK_PLACES + self.filled;
        self.filled += places;
        TextId(u32::try_from(place).expect("the limit on bindings keeps the arena below 2^32 places"))
    }

    /// Gives a string up.
    pub fn drop(&mut self, id: TextId) {
        let places = places(self.get(id).len());
        if self.free.is_empty() {
            self.free.resize_with(PLACES_MAX + 1, Vec::new);
        }
        self.free[places].push(id);
    }

    /// The string.
    #[inline]
    pub fn get(&self, id: TextId) -> &[u8] {
        let (chunk, at) = Self::place(id);
        let bytes = &self.chunks[chunk][at..];
        &bytes[1..=usize::from(bytes[0])]
    }

    pub fn bytes(&self) -> usize {
        self.chunks.capacity() * size_of::<Box<[u8]>>()
            + self.chunks.len() * CHUNK_BYTES
            + self.free.capacity() * size_of::<Vec<TextId>>()
            + self.free.iter().map(|ids| ids.capacity() * size_of::<TextId>()).sum::<usize>()
    }

    #[inline]
    fn place(id: TextId) -> (usize, usize) {
        let place = id.0 as usize;
        (place / CHUNK_PLACES, place % CHUNK_PLACES * PLACE_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::{TextArena, TextId};

    #[test]
    fn what_is_kept_comes_back_and_what_is_dropped_is_reused() {
        let mut texts = TextArena::default();
        let strings: Vec<Vec<u8>> = (0..20_000usize).map(|n| vec![n as u8; n % 256]).collect();
        let ids: Vec<TextId> = strings.iter().map(|text| texts.keep(text)).collect();
        for (id, text) in ids.iter().zip(&strings) {
            assert_eq!(texts.get(*id), text);
        }
        let chunks = texts.chunks.len();
        for _ in 0..10 {
            for id in &ids {
                texts.drop(*id);
            }
            for text in &strings {
                texts.keep(text);
            }
        }
        assert_eq!(texts.chunks.len(), chunks);
    }
}
