//! Texts: an arena for the many short byte strings of bindings.
//!
//! Enters: strings of at most 255 bytes.  Leaves: 4-byte handles, and the strings again.
//! Owns:   their bytes, in places of 8-byte steps whose length byte comes first. Each chunk has places of one size; one in which
//!         nothing is left gives its memory back.

use crate::{copy_budget::CopyBudget, limits::NAME_BYTES_MAX};

/// A string in the arena: the number of the chunk and of the first 8-byte step in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TextId(u32);

const STEP_BYTES: usize = 8;
const CHUNK_BYTES: usize = 4 * 1024;
const CHUNK_STEPS: usize = CHUNK_BYTES / STEP_BYTES;
/// Steps that the longest string takes; also the number of sizes.
const STEPS_MAX: usize = (NAME_BYTES_MAX + 1).div_ceil(STEP_BYTES);
/// The end of a list of chunks.
const NO_CHUNK: u32 = u32::MAX;
/// The end of a list of places.
const NO_PLACE: u16 = u16::MAX;

const _: () = assert!(NAME_BYTES_MAX <= u8::MAX as usize && CHUNK_STEPS < NO_PLACE as usize);

#[derive(Clone)]
struct TextChunk {
    /// Without memory it is on the list of spare ones.
    bytes: Box<[u8]>,
    /// The other chunks with room for this size, or the next spare one.
    previous: u32,
    next: u32,
    /// The first free place, with the next one in its first two bytes.
    free: u16,
    /// Steps that have been in use.
    filled: u16,
    /// Strings in it.
    len: u16,
}

/// The arena. Handles address 32 GiB.
#[derive(Clone)]
pub(crate) struct TextArena {
    chunks: Vec<TextChunk>,
    /// The first chunk with room for each size; of size 0, which no string has, the first spare one.
    with_room: [u32; STEPS_MAX + 1],
    /// Chunks that have memory.
    used_chunks: usize,
}

impl Default for TextArena {
    fn default() -> Self {
        Self { chunks: Vec::new(), with_room: [NO_CHUNK; STEPS_MAX + 1], used_chunks: 0 }
    }
}

fn steps(bytes: usize) -> usize {
    (bytes + 1).div_ceil(STEP_BYTES)
}

impl TextArena {
    /// One without strings, for [`copy_part`](Self::copy_part).
    pub fn begin_copy(&self) -> Self {
        Self { chunks: Vec::new(), with_room: self.with_room, used_chunks: self.used_chunks }
    }

    /// Copies more strings, and which places are free. Returns whether none is left.
    pub fn copy_part(&self, copy: &mut Self, budget: &mut CopyBudget) -> bool {
        budget.copy_each(&self.chunks, &mut copy.chunks, |chunk| (chunk.clone(), chunk.bytes.len()))
    }

    /// Keeps a string of at most 255 bytes.
    pub fn keep(&mut self, text: &[u8]) -> TextId {
        assert!(text.len() <= NAME_BYTES_MAX, "a text longer than a short string reached the arena");
        let steps = steps(text.len());
        let number = match self.with_room[steps] {
            NO_CHUNK => self.begin_chunk(steps),
            number => number,
        };
        let chunk = &mut self.chunks[number as usize];
        let step = match chunk.free {
            NO_PLACE => {
                let step = chunk.filled;
                chunk.filled += steps as u16;
                step
            }
            step => step,
        };
        let bytes = &mut chunk.bytes[usize::from(step) * STEP_BYTES..];
        if step == chunk.free {
            chunk.free = u16::from_le_bytes([bytes[0], bytes[1]]);
        }
        bytes[0] = text.len() as u8;
        bytes[1..=text.len()].copy_from_slice(text);
        chunk.len += 1;
        if !chunk.has_capacity(steps) {
            self.unlist(number, steps);
        }
        TextId(number * CHUNK_STEPS as u32 + u32::from(step))
    }

    /// A chunk for strings of this size.
    fn begin_chunk(&mut self, steps: usize) -> u32 {
        let number = match self.with_room[0] {
            NO_CHUNK => {
                let handles = (self.chunks.len() + 1).checked_mul(CHUNK_STEPS);
                assert!(
                    handles.is_some_and(|handles| handles <= u32::MAX as usize),
                    "the share of definitions is below 32 GiB"
                );
                self.chunks.push(TextChunk::new(Box::default(), NO_CHUNK));
                (self.chunks.len() - 1) as u32
            }
            number => {
                self.with_room[0] = self.chunks[number as usize].next;
                number
            }
        };
        let bytes = vec![0; CHUNK_BYTES].into_boxed_slice();
        self.chunks[number as usize] = TextChunk::new(bytes, NO_CHUNK);
        self.used_chunks += 1;
        self.list(number, steps);
        number
    }

    /// Gives a string up.
    pub fn drop(&mut self, id: TextId) {
        let steps = steps(self.get(id).len());
        let (number, step) = Self::place(id);
        let chunk = &mut self.chunks[number];
        let was_listed = chunk.has_capacity(steps);
        let next = chunk.free.to_le_bytes();
        chunk.bytes[step * STEP_BYTES..][..2].copy_from_slice(&next);
        chunk.free = step as u16;
        chunk.len -= 1;
        let (is_empty, number) = (chunk.len == 0, number as u32);
        if is_empty {
            if was_listed {
                self.unlist(number, steps);
            }
            self.chunks[number as usize] = TextChunk::new(Box::default(), self.with_room[0]);
            self.with_room[0] = number;
            self.used_chunks -= 1;
        } else if !was_listed {
            self.list(number, steps);
        }
    }

    /// Puts a chunk in front of those with room for this size.
    fn list(&mut self, number: u32, steps: usize) {
        let next = std::mem::replace(&mut self.with_room[steps], number);
        let chunk = &mut self.chunks[number as usize];
        (chunk.previous, chunk.next) = (NO_CHUNK, next);
        if next != NO_CHUNK {
            self.chunks[next as usize].previous = number;
        }
    }

    /// Takes a chunk off those with room for this size.
    fn unlist(&mut self, number: u32, steps: usize) {
        let TextChunk { previous, next, .. } = self.chunks[number as usize];
        match previous {
            NO_CHUNK => self.with_room[steps] = next,
            previous => self.chunks[previous as usize].next = next,
        }
        if next != NO_CHUNK {
            self.chunks[next as usize].previous = previous;
        }
    }

    /// The string.
    #[inline]
    pub fn get(&self, id: TextId) -> &[u8] {
        let (chunk, step) = Self::place(id);
        let bytes = &self.chunks[chunk].bytes[step * STEP_BYTES..];
        &bytes[1..=usize::from(bytes[0])]
    }

    pub fn bytes(&self) -> usize {
        self.chunks.capacity() * size_of::<TextChunk>() + self.used_chunks * CHUNK_BYTES
    }

    #[inline]
    fn place(id: TextId) -> (usize, usize) {
        let step = id.0 as usize;
        (step / CHUNK_STEPS, step % CHUNK_STEPS)
    }
}

impl TextChunk {
    fn new(bytes: Box<[u8]>, next: u32) -> TextChunk {
        TextChunk { bytes, previous: NO_CHUNK, next, free: NO_PLACE, filled: 0, len: 0 }
    }

    fn has_capacity(&self, steps: usize) -> bool {
        self.free != NO_PLACE || usize::from(self.filled) + steps <= CHUNK_STEPS
    }
}

#[cfg(test)]
mod tests {
    use super::{TextArena, TextId};
    use crate::copy_budget::CopyBudget;

    #[test]
    fn what_is_kept_comes_back_and_what_is_dropped_is_reused() {
        let mut texts = TextArena::default();
        let strings: Vec<Vec<u8>> = (0..20_000usize).map(|n| vec![n as u8; n % 256]).collect();
        let mut ids: Vec<TextId> = strings.iter().map(|text| texts.keep(text)).collect();
        for (id, text) in ids.iter().zip(&strings) {
            assert_eq!(texts.get(*id), text);
        }
        let bytes = texts.bytes();
        for round in 1..10 {
            // Some stay each time.
            for (id, text) in ids.iter_mut().zip(&strings).filter(|(_, text)| text.len() % round != 1) {
                texts.drop(*id);
                *id = texts.keep(text);
            }
            let dropped: Vec<usize> = (0..ids.len()).filter(|at| at % round == 0).collect();
            dropped.iter().for_each(|&at| texts.drop(ids[at]));
            dropped.iter().rev().for_each(|&at| ids[at] = texts.keep(&strings[at]));
            assert!(ids.iter().zip(&strings).all(|(id, text)| texts.get(*id) == text), "round {round}");
        }
        assert_eq!(texts.bytes(), bytes);
    }

    #[test]
    fn memory_of_one_size_goes_to_another_once_it_is_free() {
        let mut texts = TextArena::default();
        let mut most = 0;
        let stays = texts.keep(b"stays");
        for bytes in 0..256 {
            let ids: Vec<TextId> = (0..1_000).map(|n| texts.keep(&vec![n as u8; bytes])).collect();
            most = most.max(texts.bytes());
            ids.iter().for_each(|id| texts.drop(*id));
            assert_eq!(texts.used_chunks, 1, "after {bytes}");
        }
        assert!(most < 300_000, "{most} bytes for 1,000 texts");
        assert_eq!(texts.get(stays), b"stays");
        let mut copy = texts.begin_copy();
        while !texts.copy_part(&mut copy, &mut CopyBudget::new(100)) {}
        assert_eq!(copy.get(stays), b"stays");
        (0..500).for_each(|n| assert_eq!(copy.keep(&[7; 40]), texts.keep(&[7; 40]), "{n}"));
    }
}
