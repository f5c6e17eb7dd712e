//! What a store asks its disk for, and what the disk answers.

use crate::buffer::AlignedBuffer;
use crate::group::Group;
use crate::ids::{Block, SegmentId, SegmentNumber};
use crate::limits::BLOCK_BYTES;
use std::fmt;
use std::ops::Range;

/// A group that is to be written.
pub struct SealedGroup {
    pub(crate) group: Group,
    pub(crate) range: Range<usize>,
}

impl SealedGroup {
    /// A group for a disk without a log. The range is the one that [`Group::seal`] returned.
    pub fn new(group: Group, range: Range<usize>) -> Self {
        SealedGroup { group, range }
    }

    /// What is to be written: whole blocks in aligned memory.
    pub fn bytes(&self) -> &[u8] {
        &self.group.buffer()[self.range.clone()]
    }

    /// How many blocks that are.
    pub fn blocks(&self) -> u32 {
        (self.range.len() / BLOCK_BYTES) as u32
    }
}

impl fmt::Debug for SealedGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealedGroup({} blocks)", self.range.len() / BLOCK_BYTES)
    }
}

/// What a disk is asked to do.
#[derive(Debug)]
pub enum Request {
    /// Makes a segment of so many blocks, all of them written once, so that no later write changes the file's metadata. It and
    /// its name are durable when it is done. With `from` it is that segment, which is not needed any more, under a new name, and
    /// without its footer.
    Make { segment: SegmentId, blocks: u32, from: Option<SegmentNumber> },
    /// Writes a group. It is durable when it is done, unless the disk is one that syncs when it is asked to.
    Write { segment: SegmentId, block: Block, group: SealedGroup },
    /// Makes durable what was written to this segment, the last one, and to those before it.
    Sync { segment: SegmentId },
    /// Fills the buffer, as far as the segment goes; if it is direct, with what the disk has, whatever of it is in a cache.
    Read { segment: SegmentId, block: Block, buffer: AlignedBuffer, is_direct: bool },
    /// Removes a segment, with its footer.
    Remove { segment: SegmentId },
    /// Writes the footer of a segment that exists, in place of one that it has. It need not be durable when it is done.
    WriteFooter { segment: SegmentId, bytes: Vec<u8> },
}

/// What a disk has done. Requests are carried out and completed in any order, but for those that make a segment, make it into
/// another one or remove it: behind all earlier ones of that segment, and before all later ones.
#[derive(Debug)]
pub enum Completion {
    Made {
        segment: SegmentId,
        result: Result<(), DiskError>,
    },
    Written {
        segment: SegmentId,
        group: SealedGroup,
        result: Result<(), DiskError>,
    },
    Synced {
        segment: SegmentId,
        result: Result<(), DiskError>,
    },
    /// So many bytes of the buffer were read: fewer than it has only at the segment's end.
    Read {
        segment: SegmentId,
        block: Block,
        buffer: AlignedBuffer,
        result: Result<usize, DiskError>,
    },
    Removed {
        segment: SegmentId,
        result: Result<(), DiskError>,
    },
    FooterWritten {
        segment: SegmentId,
        result: Result<(), DiskError>,
    },
}

/// Why a disk could not do it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiskErrorKind {
    /// There is no space left.
    NoSpace,
    /// The segment does not exist.
    NotFound,
    /// The device, the file system or the operating system failed.
    Failed,
}

/// A request failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DiskError {
    pub kind: DiskErrorKind,
    /// The operation, the file and the system's error.
    pub text: String,
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for DiskError {}
