//! One direction of a connection: from the link that is read to the one that is written.
//!
//! Enters: two ends.  Leaves: bytes, and the end of the stream, at the second.
//! Owns:   what was read and not yet sent, and how far the direction has come.
//! Never:  reads more while its window is full, copies what fills its memory well, reorders.

use crate::counts::Totals;
use crate::end::End;
use crate::limits::{FILLED_PART_MIN, READ_BYTES_MAX, READ_BYTES_MIN, TURN_BYTES, WINDOW_BYTES};
use link::{FilledMemory, LinkError, ReceiveOutcome, SendOutcome};
use slab::{BlockMut, Gather, Pool};

/// How far a direction has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Bytes go from one end to the other.
    Open,
    /// The source has ended; what it said last is still to be sent.
    Ending,
    /// The sink takes nothing more: what the source says is thrown away, until it ends.
    Dropping,
    /// The sink has been told the end, or will never hear of it.
    Done,
}

/// What changes the state of a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The source says that nothing more comes.
    SourceEnded,
    /// All of what came before the end was sent.
    Sent,
    /// The sink takes nothing more.
    SinkClosed,
}

impl State {
    fn next(self, step: Step) -> State {
        match (self, step) {
            (State::Open, Step::SourceEnded) => State::Ending,
            (State::Dropping, Step::SourceEnded) => State::Done,
            (State::Ending, Step::Sent | Step::SinkClosed) => State::Done,
            (State::Open, Step::SinkClosed) => State::Dropping,
            (state, _) => state,
        }
    }
}

/// Which end broke.
#[derive(Debug)]
pub(crate) enum Cut {
    Source(LinkError),
    Sink(LinkError),
}

/// One direction.
pub(crate) struct Flow {
    out: Gather,
    state: State,
    /// Bytes read so far.
    pub bytes: u64,
    /// The size of the next block to read into: twice the last if that was filled, half of it if little was.
    read_bytes: usize,
    /// The source writes into memory that it was lent.
    is_lent: bool,
}

impl Flow {
    pub fn new() -> Self {
        Flow { out: Gather::new(), state: State::Open, bytes: 0, read_bytes: READ_BYTES_MIN, is_lent: false }
    }

    pub fn state(&self) -> State {
        self.state
    }

    /// Bytes that were read and not sent.
    pub fn waiting_bytes(&self) -> usize {
        self.out.bytes()
    }

    /// Moves what can be moved now. Answers whether there is more for the next turn.
    pub fn run(&mut self, from: &mut End, to: &mut End, pool: &Pool, totals: &mut Totals) -> Result<bool, Cut> {
        let mut turn_bytes = 0;
        loop {
            self.send(to).map_err(Cut::Sink)?;
            let has_room = matches!(self.state, State::Open | State::Dropping) && self.out.bytes() < WINDOW_BYTES;
            if !has_room || !from.readable {
                return Ok(false);
            }
            if turn_bytes >= TURN_BYTES {
                return Ok(true);
            }
            let copy_below_bytes = to.link.capabilities().copy_threshold_bytes;
            turn_bytes += self.receive(from, copy_below_bytes, pool, totals).map_err(Cut::Source)?;
        }
    }

    /// Sends what waits, and the end behind it.
    fn send(&mut self, to: &mut End) -> Result<(), LinkError> {
        if to.writable && (!self.out.is_empty() || to.link.has_pending_output()) {
            match to.link.send(&mut self.out) {
                Ok(SendOutcome::Drained) => {}
                Ok(SendOutcome::Blocked) => to.writable = false,
                Err(LinkError::Closed) => {
                    self.out.clear();
                    self.state = self.state.next(Step::SinkClosed);
                }
                Err(error) => return Err(error),
            }
            // Bytes of the link's own wait for the next edge.
            to.writable &= !to.link.has_pending_output();
        }
        if self.state == State::Ending && self.out.is_empty() {
            to.link.close_sending();
            self.state = self.state.next(Step::Sent);
        }
        Ok(())
    }

    /// One read. Answers how many bytes.
    fn receive(
        &mut self,
        from: &mut End,
        copy_below_bytes: usize,
        pool: &Pool,
        totals: &mut Totals,
    ) -> Result<usize, LinkError> {
        if !self.is_lent {
            self.lend(from, pool);
        }
        let mut block = if self.is_lent { BlockMut::empty() } else { pool.block(self.read_bytes) };
        let received = from.link.receive(&mut block, &mut []);
        // A handshake that was completed by this makes room for bytes without an edge that says so.
        from.writable |= from.link.capabilities().name == "tls";
        match received? {
            ReceiveOutcome::Bytes { bytes: 0, .. } if self.is_lent => Ok(self.take_back(from, totals)),
            ReceiveOutcome::Bytes { bytes, drained } => {
                from.readable = !drained || from.closed;
                self.keep(block, bytes, copy_below_bytes, pool, totals);
                Ok(bytes)
            }
            ReceiveOutcome::Idle => {
                // An edge of an earlier link in this place may have said that it is closed.
                (from.readable, from.closed) = (false, false);
                Ok(0)
            }
            ReceiveOutcome::Closed => {
                from.readable = false;
                self.state = self.state.next(Step::SourceEnded);
                Ok(0)
            }
        }
    }

    /// Lends memory for what the source knows to come, so that nobody has to copy it.
    fn lend(&mut self, from: &mut End, pool: &Pool) {
        let bytes = from.link.announced_bytes().min(READ_BYTES_MAX);
        // What is refused is received like any other bytes.
        self.is_lent = bytes > 0 && from.link.lend(pool.block(bytes), 0..bytes).is_ok();
    }

    fn take_back(&mut self, from: &mut End, totals: &mut Totals) -> usize {
        let Some(FilledMemory { memory, .. }) = from.link.take_filled() else { return 0 };
        self.is_lent = false;
        let bytes = memory.len();
        self.bytes += bytes as u64;
        totals.lent_bytes += bytes as u64;
        totals.shared_bytes += bytes as u64;
        if self.state == State::Open {
            self.out.push(memory.freeze());
        }
        bytes
    }

    /// Puts what was read behind what waits: the memory itself if it is well filled, a copy if not.
    fn keep(&mut self, mut block: BlockMut, bytes: usize, copy_below_bytes: usize, pool: &Pool, totals: &mut Totals) {
        self.bytes += bytes as u64;
        let room = block.len();
        if bytes == room {
            self.read_bytes = (self.read_bytes * 2).min(READ_BYTES_MAX);
        } else if bytes < room / FILLED_PART_MIN {
            self.read_bytes = (self.read_bytes / 2).max(READ_BYTES_MIN);
        }
        if self.state != State::Open {
            return;
        }
        if bytes >= copy_below_bytes && bytes >= room / FILLED_PART_MIN {
            totals.shared_bytes += bytes as u64;
            block.truncate(bytes);
            self.out.push(block.freeze());
        } else {
            totals.copied_bytes += bytes as u64;
            self.out.extend(pool, &block[..bytes]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{State, Step};

    #[test]
    fn a_direction_ends_in_order_or_drops_what_nobody_takes() {
        use State::{Done, Dropping, Ending, Open};
        let cases = [
            (Open, [Ending, Open, Dropping]),
            (Ending, [Ending, Done, Done]),
            (Dropping, [Done, Dropping, Dropping]),
            (Done, [Done, Done, Done]),
        ];
        for (state, expect) in cases {
            let found = [Step::SourceEnded, Step::Sent, Step::SinkClosed].map(|step| state.next(step));
            assert_eq!(found, expect, "{state:?}");
        }
    }
}
