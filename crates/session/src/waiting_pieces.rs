//! What is sent in pieces: large shared bodies, and whatever is written while very much waits already.
//!
//! Enters: bodies of which some frames are written, and what follows each.  Leaves: the next piece, once what was written is sent.
//! Owns:   the order of all that, and how many bytes it has.

use crate::body_frames::BodyFrames;
use slab::{Gather, Pool, Slice};
use std::collections::VecDeque;
use std::ops::ControlFlow;

/// A shared body of which some frames are not written.
#[derive(Debug)]
struct WaitingBody {
    frames: BodyFrames,
    body: Slice,
}

#[derive(Debug)]
struct Piece {
    body: Option<WaitingBody>,
    /// What is sent after it.
    behind: Gather,
}

/// One piece at least.
#[derive(Debug, Default)]
pub(crate) struct WaitingPieces {
    pieces: VecDeque<Piece>,
    /// Bytes of everything but what is behind the last body, to which more is written.
    bytes: usize,
}

impl WaitingPieces {
    /// A body goes on behind everything.
    pub(crate) fn push_body(&mut self, frames: BodyFrames, body: Slice) {
        self.push(Some(WaitingBody { frames, body }));
    }

    /// What is written from now on is sent by itself.
    pub(crate) fn push_piece(&mut self) {
        self.push(None);
    }

    fn push(&mut self, body: Option<WaitingBody>) {
        self.bytes += self.pieces.back().map_or(0, |last| last.behind.bytes());
        self.bytes += body.as_ref().map_or(0, |body| body.frames.wire_bytes());
        self.pieces.push_back(Piece { body, behind: Gather::new() });
    }

    /// Bytes of everything that waits.
    pub(crate) fn wire_bytes(&self) -> usize {
        self.bytes + self.pieces.back().map_or(0, |last| last.behind.bytes())
    }

    /// What follows all of it.
    pub(crate) fn end_mut(&mut self) -> &mut Gather {
        let Some(last) = self.pieces.back_mut() else { unreachable!("one waits at least") };
        &mut last.behind
    }

    /// Writes the next frames of the first body to an empty gather, or has it be what is behind that. Breaks off with the last of all.
    pub(crate) fn write_next(&mut self, pool: &Pool, to: &mut Gather) -> ControlFlow<()> {
        let is_last = self.pieces.len() == 1;
        let Some(first) = self.pieces.front_mut() else { return ControlFlow::Break(()) };
        match &mut first.body {
            Some(WaitingBody { frames, body }) => {
                self.bytes -= frames.wire_bytes();
                frames.write_piece(pool, to, body);
                self.bytes += frames.wire_bytes();
                if frames.is_written() {
                    first.body = None;
                }
            }
            None => {
                self.bytes -= if is_last { 0 } else { first.behind.bytes() };
                *to = std::mem::take(&mut first.behind);
            }
        }
        if first.body.is_none() && first.behind.is_empty() {
            self.pieces.pop_front();
        }
        if self.pieces.is_empty() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
