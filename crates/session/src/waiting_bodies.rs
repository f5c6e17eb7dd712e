//! Large shared bodies that are sent a piece at a time.
//!
//! Enters: bodies of which some frames are written, and what follows each.  Leaves: their next frames, once what was written is sent.
//! Owns:   the order of all that.

use crate::body_frames::BodyFrames;
use slab::{Gather, Pool, Slice};
use std::collections::VecDeque;
use std::ops::ControlFlow;

#[derive(Debug)]
struct WaitingBody {
    frames: BodyFrames,
    body: Slice,
    /// What is sent after it.
    behind: Gather,
}

/// One body at least, of which a frame or what is sent after it waits.
#[derive(Debug, Default)]
pub(crate) struct WaitingBodies {
    bodies: VecDeque<WaitingBody>,
}

impl WaitingBodies {
    pub(crate) fn push(&mut self, frames: BodyFrames, body: Slice) {
        self.bodies.push_back(WaitingBody { frames, body, behind: Gather::new() });
    }

    /// Bytes of everything that waits.
    pub(crate) fn wire_bytes(&self) -> usize {
        self.bodies.iter().map(|waiting| waiting.frames.wire_bytes() + waiting.behind.bytes()).sum()
    }

    /// What follows all of it.
    pub(crate) fn end_mut(&mut self) -> &mut Gather {
        let Some(last) = self.bodies.back_mut() else { unreachable!("one waits at least") };
        &mut last.behind
    }

    /// Writes the next frames of the first body to an empty gather, or has it be what is behind that. Breaks off with the last of all.
    pub(crate) fn write_next(&mut self, pool: &Pool, to: &mut Gather) -> ControlFlow<()> {
        let Some(first) = self.bodies.front_mut() else { return ControlFlow::Break(()) };
        if first.frames.is_written() {
            *to = std::mem::take(&mut first.behind);
        } else {
            first.frames.write_piece(pool, to, &first.body);
        }
        if first.frames.is_written() && first.behind.is_empty() {
            self.bodies.pop_front();
        }
        if self.bodies.is_empty() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
