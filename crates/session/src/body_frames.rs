//! The frames of a body, written one after another.
//!
//! Enters: how long a body is, and what a frame holds.  Leaves: heads and ends of frames in a `Gather`, and which part lies between.
//! Owns:   how far it is written.

use crate::limits::{PIECE_BYTES, PIECE_FRAMES};
use crate::slice_writer::SliceWriter;
use slab::{Gather, Pool, Slice};
use std::ops::Range;
use wire::ChannelNumber;
use wire::frame::{FRAME_BODY, FRAME_END, FRAME_HEAD_BYTES, FRAME_OVERHEAD_BYTES, FrameHead};

/// How a body is divided into frames.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameSizes {
    /// Bytes of a body in one frame.
    pub payload_bytes_max: usize,
    /// Bytes of a body that the last of several frames has at least; 0 for any.
    pub last_bytes_min: usize,
}

/// The frames of a body of which some are not written yet.
#[derive(Debug)]
pub(crate) struct BodyFrames {
    channel: ChannelNumber,
    sizes: FrameSizes,
    at: usize,
    bytes: usize,
}

impl BodyFrames {
    pub(crate) fn new(channel: ChannelNumber, sizes: FrameSizes, bytes: usize) -> Self {
        Self { channel, sizes, at: 0, bytes }
    }

    pub(crate) fn is_written(&self) -> bool {
        self.at == self.bytes
    }

    /// Bytes of what is not written yet, the end of the last frame that is begun included.
    pub(crate) fn wire_bytes(&self) -> usize {
        let left = self.bytes - self.at;
        let end_bytes = usize::from(self.at > 0 && left > 0);
        left + left.div_ceil(self.sizes.payload_bytes_max) * FRAME_OVERHEAD_BYTES + end_bytes
    }

    /// Bytes of the next frame's part of the body.
    fn next_part(&self) -> Range<usize> {
        let FrameSizes { payload_bytes_max, last_bytes_min } = self.sizes;
        let left = self.bytes - self.at;
        let mut part_bytes = left.min(payload_bytes_max);
        if part_bytes < left && left - part_bytes < last_bytes_min {
            part_bytes = left - last_bytes_min;
        }
        self.at..self.at + part_bytes
    }

    /// Writes all frames that are left, none of them empty.
    pub(crate) fn write_all(&mut self, pool: &Pool, to: &mut Gather, mut push: impl FnMut(&mut Gather, Range<usize>)) {
        while !self.is_written() {
            self.write_frame(pool, to, &mut push);
        }
        to.extend(pool, &[FRAME_END]);
    }

    /// Writes as many frames as are sent at once.
    pub(crate) fn write_piece(&mut self, pool: &Pool, to: &mut Gather, body: &Slice) {
        let until = self.at + PIECE_BYTES;
        let mut push = |to: &mut Gather, part| to.push(body.slice(part));
        for _ in 0..PIECE_FRAMES {
            self.write_frame(pool, to, &mut push);
            if self.is_written() {
                return to.extend(pool, &[FRAME_END]);
            }
            if self.next_part().end > until {
                return;
            }
        }
    }

    /// Writes the next frame but for its end, which travels with the head of the next one: so a shared part costs one run.
    fn write_frame(&mut self, pool: &Pool, to: &mut Gather, push: &mut impl FnMut(&mut Gather, Range<usize>)) {
        let part = self.next_part();
        let end_bytes = usize::from(self.at > 0);
        let mut pen = SliceWriter::new(to.reserve(pool, end_bytes + FRAME_HEAD_BYTES));
        if end_bytes > 0 {
            pen.array([FRAME_END]);
        }
        // The frame bound fits 32 bits, and so does a part.
        let head = FrameHead { kind: FRAME_BODY, channel: self.channel, payload_bytes: part.len() as u32 };
        pen.array(head.to_bytes());
        pen.finish();
        self.at = part.end;
        push(to, part);
    }
}
