//! Bytes to send, in order: small ones copied into chunks, large ones by reference.
//!
//! An empty gather holds no memory. Bytes never move once they are written.

use std::collections::VecDeque;
use std::fmt;
use std::io::IoSlice;
use std::mem;

use crate::block::BlockMut;
use crate::limits::{CHUNK_BYTES_MAX, CHUNK_BYTES_MIN};
use crate::pool::Pool;
use crate::slice::Slice;

/// A sequence of bytes to send. An empty one holds no memory.
pub struct Gather {
    bytes: usize,
    /// The chunk being written; empty if there is none.
    chunk: BlockMut,
    /// Bytes written to `chunk`.
    filled: usize,
    /// Bytes at the start of `chunk` that are consumed, or that belong to a run in `earlier`.
    sealed: usize,
    /// The size of the next chunk: grows while much is sent at once, shrinks when little is.
    chunk_bytes: u32,
    /// The parts before the open end of `chunk`.
    earlier: Option<Box<EarlierParts>>,
}

struct EarlierParts {
    parts: VecDeque<GatherPart>,
    /// Full chunks, oldest first.
    chunks: VecDeque<Slice>,
    /// Bytes consumed of the first chunk (which is the one being written if none is full).
    consumed: usize,
}

enum GatherPart {
    /// Copied bytes, next in the sequence of chunks; `ends_chunk` marks the last run of a chunk.
    Run {
        bytes: u32,
        ends_chunk: bool,
    },
    Borrowed(Slice),
}

const _: () = assert!(size_of::<GatherPart>() == 16);

impl Gather {
    pub const fn new() -> Self {
        Self {
            bytes: 0,
            chunk: BlockMut::empty(),
            filled: 0,
            sealed: 0,
            chunk_bytes: CHUNK_BYTES_MIN as u32,
            earlier: None,
        }
    }

    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// How many bytes [`reserve`](Self::reserve) appends without a new chunk.
    #[inline]
    pub fn chunk_room(&self) -> usize {
        self.chunk.len() - self.filled
    }

    /// Appends `n` contiguous bytes of arbitrary content, which the caller must fill.
    ///
    /// # Panics
    /// If `n` exceeds [`BLOCK_BYTES_MAX`](crate::BLOCK_BYTES_MAX).
    #[inline]
    pub fn reserve(&mut self, pool: &Pool, n: usize) -> &mut [u8] {
        if n > self.chunk_room() {
            self.begin_chunk(pool, n);
        }
        let start = self.filled;
        self.filled += n;
        self.bytes += n;
        &mut self.chunk[start..start + n]
    }

    /// Appends a copy of `bytes`.
    #[inline]
    pub fn extend(&mut self, pool: &Pool, bytes: &[u8]) {
        if bytes.len() <= self.chunk_room() {
            self.reserve(pool, bytes.len()).copy_from_slice(bytes);
        } else {
            self.extend_across_chunks(pool, bytes);
        }
    }

    /// Fills the current chunk, then new ones.
    fn extend_across_chunks(&mut self, pool: &Pool, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = match self.chunk_room() {
                0 => CHUNK_BYTES_MAX,
                room => room,
            };
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.reserve(pool, now.len()).copy_from_slice(now);
            bytes = later;
        }
    }

    /// Appends the bytes of `slice` without copying them.
    pub fn push(&mut self, slice: Slice) {
        if slice.is_empty() {
            return;
        }
        self.bytes += slice.len();
        self.seal(false).parts.push_back(GatherPart::Borrowed(slice));
    }

    /// Moves the bytes written since the last seal to the earlier parts.
    fn seal(&mut self, ends_chunk: bool) -> &mut EarlierParts {
        let bytes = self.filled - self.sealed;
        let earlier = self.earlier.get_or_insert_with(|| {
            Box::new(EarlierParts { parts: VecDeque::new(), chunks: VecDeque::new(), consumed: self.sealed })
        });
        self.sealed = self.filled;
        if bytes > 0 || ends_chunk {
            earlier.parts.push_back(GatherPart::Run { bytes: bytes as u32, ends_chunk });
        }
        earlier
    }

    #[cold]
    #[inline(never)]
    fn begin_chunk(&mut self, pool: &Pool, n: usize) {
        let had_chunk = !self.chunk.is_empty();
        if had_chunk {
            self.chunk_bytes = (self.chunk_bytes * 2).min(CHUNK_BYTES_MAX as u32);
        }
        // Allocated first: if `n` is beyond the limit it panics with nothing changed.
        let chunk = pool.block(n.max(self.chunk_bytes as usize));
        if had_chunk {
            let full = mem::take(&mut self.chunk);
            self.seal(true).chunks.push_back(full.freeze());
        }
        self.chunk = chunk;
        self.filled = 0;
        self.sealed = 0;
    }

    /// The parts in order; none is empty.
    pub fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let open = &self.chunk[self.sealed..self.filled];
        let earlier = self.earlier.iter().flat_map(|earlier| {
            let mut chunks = earlier.chunks.iter().map(|chunk| &chunk[..]).chain(Some(&self.chunk[..]));
            let mut chunk: &[u8] = chunks.next().map_or(&[], |chunk| &chunk[earlier.consumed..]);
            earlier.parts.iter().map(move |part| match part {
                GatherPart::Borrowed(slice) => &slice[..],
                GatherPart::Run { bytes, ends_chunk } => {
                    let (run, rest) = chunk.split_at(*bytes as usize);
                    chunk = if *ends_chunk { chunks.next().map_or(&[], |chunk| chunk) } else { rest };
                    run
                }
            })
        });
        earlier.chain(Some(open)).filter(|part| !part.is_empty())
    }

    /// All bytes, if they lie behind one another in one place.
    pub fn only_part(&self) -> Option<&[u8]> {
        let mut parts = self.parts();
        let first = parts.next()?;
        parts.next().is_none().then_some(first)
    }

    /// Fills `out` with the first parts, for a gathering write. Returns their number.
    pub fn io_slices<'a>(&'a self, out: &mut [IoSlice<'a>]) -> usize {
        let mut count = 0;
        for (place, part) in out.iter_mut().zip(self.parts()) {
            *place = IoSlice::new(part);
            count += 1;
        }
        count
    }

    /// Drops the first `n` bytes, which were sent.
    ///
    /// # Panics
    /// If there are fewer.
    #[inline]
    pub fn consume(&mut self, n: usize) {
        assert!(n <= self.bytes, "consuming {n} of {} bytes", self.bytes);
        self.bytes -= n;
        if self.bytes == 0 {
            self.release();
        } else if self.earlier.is_none() {
            self.sealed += n;
        } else {
            self.consume_earlier(n);
        }
    }

    fn consume_earlier(&mut self, mut n: usize) {
        let Some(earlier) = self.earlier.as_deref_mut() else {
            unreachable!("called only when there are earlier parts");
        };
        while n > 0 {
            let Some(part) = earlier.parts.front_mut() else {
                // Only bytes written since the last seal are left.
                self.sealed += n;
                break;
            };
            match part {
                GatherPart::Borrowed(slice) if n < slice.len() => {
                    slice.advance(n);
                    return;
                }
                GatherPart::Borrowed(slice) => n -= slice.len(),
                GatherPart::Run { bytes, .. } if n < *bytes as usize => {
                    *bytes -= n as u32;
                    earlier.consumed += n;
                    return;
                }
                GatherPart::Run { bytes, ends_chunk } => {
                    n -= *bytes as usize;
                    earlier.consumed += *bytes as usize;
                    if *ends_chunk {
                        earlier.consumed = 0;
                        earlier.chunks.pop_front();
                    }
                }
            }
            earlier.parts.pop_front();
        }
        if earlier.parts.is_empty() {
            debug_assert!(earlier.chunks.is_empty(), "a full chunk without its run");
            self.earlier = None;
        }
    }

    /// The length of the first part, and whether it was pushed rather than copied. `None` if the gather is empty.
    #[inline]
    pub fn front(&self) -> Option<(usize, bool)> {
        let parts = self.earlier.iter().flat_map(|earlier| &earlier.parts);
        let mut parts = parts.map(|part| match part {
            GatherPart::Borrowed(slice) => (slice.len(), true),
            GatherPart::Run { bytes, .. } => (*bytes as usize, false),
        });
        let open = self.filled - self.sealed;
        parts.find(|(bytes, _)| *bytes > 0).or((open > 0).then_some((open, false)))
    }

    /// Takes at most `bytes_max` bytes of the first part without copying them, for a device that reads them after this
    /// call. `None` if the gather is empty. The chunk they lie in is closed for writing.
    pub fn pop(&mut self, bytes_max: usize) -> Option<Slice> {
        let (bytes, is_borrowed) = self.front()?;
        let take = bytes.min(bytes_max);
        if self.earlier.is_none() && take == bytes {
            let mut slice = mem::take(&mut self.chunk).freeze();
            slice.truncate(self.filled);
            slice.advance(self.sealed);
            self.consume(take);
            return Some(slice);
        }
        self.drop_consumed_chunks();
        if !is_borrowed && self.earlier.as_ref().is_none_or(|earlier| earlier.chunks.is_empty()) {
            let open = mem::take(&mut self.chunk);
            self.seal(true).chunks.push_back(open.freeze());
            self.filled = 0;
            self.sealed = 0;
        }
        let earlier = self.earlier.as_ref()?;
        let slice = match earlier.parts.front()? {
            GatherPart::Borrowed(slice) => slice.slice(..take),
            GatherPart::Run { .. } => earlier.chunks.front()?.slice(earlier.consumed..earlier.consumed + take),
        };
        self.consume(take);
        Some(slice)
    }

    /// Puts a slice back in front.
    pub fn unpop(&mut self, slice: Slice) {
        if slice.is_empty() {
            return;
        }
        self.bytes += slice.len();
        let consumed = self.sealed;
        let earlier = self.earlier.get_or_insert_with(|| {
            Box::new(EarlierParts { parts: VecDeque::new(), chunks: VecDeque::new(), consumed })
        });
        earlier.parts.push_front(GatherPart::Borrowed(slice));
    }

    /// Drops consumed chunks whose empty last run is still in front.
    fn drop_consumed_chunks(&mut self) {
        let Some(earlier) = self.earlier.as_deref_mut() else { return };
        while let Some(GatherPart::Run { bytes: 0, .. }) = earlier.parts.front() {
            earlier.parts.pop_front();
            earlier.chunks.pop_front();
            earlier.consumed = 0;
        }
        if earlier.parts.is_empty() {
            self.earlier = None;
        }
    }

    pub fn clear(&mut self) {
        self.bytes = 0;
        self.release();
    }

    /// Frees all memory; there is nothing left to send.
    fn release(&mut self) {
        if self.earlier.is_some() {
            self.earlier = None;
        } else if self.filled * 4 <= self.chunk.len() {
            self.chunk_bytes = (self.chunk_bytes / 2).max(CHUNK_BYTES_MIN as u32);
        }
        self.chunk = BlockMut::empty();
        self.filled = 0;
        self.sealed = 0;
    }
}

impl Default for Gather {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Gather {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gather({} bytes)", self.bytes)
    }
}
