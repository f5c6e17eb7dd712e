//! A relay: one direction of a connection, from the link that is read to the link that is written.
//!
//! Reading stops while the window is full. Well-filled reads are sent from where they lie; small ones are copied.

use crate::endpoint::Endpoint;
use crate::limits::{FILLED_PART_MIN, READ_BYTES_MAX, READ_BYTES_MIN, RECEIVED_BYTES_MIN, TURN_BYTES, WINDOW_BYTES};
use crate::totals::ProxyTotals;
use link::{FilledMemory, LinkError, ReceiveOutcome, SendOutcome};
use slab::{BlockMut, Gather, Pool};

/// The state of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RelayState {
    /// Bytes are read and sent.
    Open,
    /// The source has closed; its last bytes are still to be sent.
    Ending,
    /// The sink takes nothing more: bytes of the source are dropped until it closes.
    Dropping,
    /// The end of the stream was sent, or the sink takes it no more.
    Done,
}

/// What changes the state of a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RelayEvent {
    /// The source has closed.
    SourceEnded,
    /// All bytes before the end were sent.
    Sent,
    /// The sink takes nothing more.
    SinkClosed,
}

impl RelayState {
    fn next(self, event: RelayEvent) -> RelayState {
        match (self, event) {
            (RelayState::Open, RelayEvent::SourceEnded) => RelayState::Ending,
            (RelayState::Dropping, RelayEvent::SourceEnded) => RelayState::Done,
            (RelayState::Ending, RelayEvent::Sent | RelayEvent::SinkClosed) => RelayState::Done,
            (RelayState::Open, RelayEvent::SinkClosed) => RelayState::Dropping,
            (state, _) => state,
        }
    }
}

/// Which end failed.
#[derive(Debug)]
pub(crate) enum RelayError {
    Source(LinkError),
    Sink(LinkError),
}

/// One direction.
pub(crate) struct Relay {
    out: Gather,
    state: RelayState,
    /// Bytes read so far.
    pub bytes: u64,
    /// The size of the next block to read into: twice the last one if that was filled, half of it if it was nearly empty.
    read_bytes: usize,
    /// The source fills memory that it borrowed.
    is_lent: bool,
}

impl Relay {
    pub fn new() -> Self {
        Relay { out: Gather::new(), state: RelayState::Open, bytes: 0, read_bytes: READ_BYTES_MIN, is_lent: false }
    }

    pub fn state(&self) -> RelayState {
        self.state
    }

    /// Bytes that were read and not yet sent.
    pub fn waiting_bytes(&self) -> usize {
        self.out.bytes()
    }

    /// Relays what can be relayed now. Returns whether there is more for the next turn.
    pub fn run(
        &mut self,
        from: &mut Endpoint,
        to: &mut Endpoint,
        pool: &Pool,
        totals: &mut ProxyTotals,
    ) -> Result<bool, RelayError> {
        let mut turn_bytes = 0;
        loop {
            self.send(to).map_err(RelayError::Sink)?;
            let has_capacity =
                matches!(self.state, RelayState::Open | RelayState::Dropping) && self.out.bytes() < WINDOW_BYTES;
            if !has_capacity || !from.readable {
                return Ok(false);
            }
            if turn_bytes >= TURN_BYTES {
                return Ok(true);
            }
            let copy_threshold_bytes = to.link.capabilities().copy_threshold_bytes;
            let bytes = self.receive(from, copy_threshold_bytes, pool, totals).map_err(RelayError::Source)?;
            turn_bytes += bytes.max(RECEIVED_BYTES_MIN);
        }
    }

    /// Sends what was read, and then the end of the stream.
    fn send(&mut self, to: &mut Endpoint) -> Result<(), LinkError> {
        if to.writable && (!self.out.is_empty() || to.link.has_pending_output()) {
            match to.link.send(&mut self.out) {
                Ok(SendOutcome::Drained) => {}
                Ok(SendOutcome::Blocked) => to.writable = false,
                Err(LinkError::Closed) => {
                    self.out.clear();
                    self.state = self.state.next(RelayEvent::SinkClosed);
                }
                Err(error) => return Err(error),
            }
            // The link's own bytes are sent at the next edge.
            to.writable &= !to.link.has_pending_output();
        }
        if self.state == RelayState::Ending && self.out.is_empty() {
            to.link.close_sending();
            self.state = self.state.next(RelayEvent::Sent);
        }
        Ok(())
    }

    /// Reads once. Returns the number of bytes.
    fn receive(
        &mut self,
        from: &mut Endpoint,
        copy_threshold_bytes: usize,
        pool: &Pool,
        totals: &mut ProxyTotals,
    ) -> Result<usize, LinkError> {
        if !self.is_lent {
            self.lend(from, pool);
        }
        let mut block = if self.is_lent { BlockMut::empty() } else { pool.block(self.read_bytes) };
        let received = from.link.receive(&mut block, &mut []);
        // If the read has completed a TLS handshake, bytes can be sent without an edge.
        from.writable |= from.link.capabilities().name == "tls";
        match received? {
            ReceiveOutcome::Bytes { bytes: 0, .. } if self.is_lent => Ok(self.take_back(from, totals)),
            ReceiveOutcome::Bytes { bytes, drained } => {
                from.readable = !drained || from.closed;
                self.enqueue(block, bytes, copy_threshold_bytes, pool, totals);
                Ok(bytes)
            }
            ReceiveOutcome::Idle => {
                // The flag may come from an edge of an earlier link with this token.
                (from.readable, from.closed) = (false, false);
                Ok(0)
            }
            ReceiveOutcome::Closed => {
                from.readable = false;
                self.state = self.state.next(RelayEvent::SourceEnded);
                Ok(0)
            }
        }
    }

    /// Lends the source memory for the bytes it has announced_bytes, which are not copied then.
    fn lend(&mut self, from: &mut Endpoint, pool: &Pool) {
        let bytes = from.link.announced_bytes().min(READ_BYTES_MAX);
        // If the link refuses the memory, the bytes are received like any others.
        self.is_lent = bytes > 0 && from.link.lend(pool.block(bytes), 0..bytes).is_ok();
    }

    fn take_back(&mut self, from: &mut Endpoint, totals: &mut ProxyTotals) -> usize {
        let Some(FilledMemory { memory, .. }) = from.link.take_filled() else { return 0 };
        self.is_lent = false;
        let bytes = memory.len();
        self.bytes += bytes as u64;
        totals.lent_bytes += bytes as u64;
        totals.shared_bytes += bytes as u64;
        if self.state == RelayState::Open {
            self.out.push(memory.freeze());
        }
        bytes
    }

    /// Queues what was read: the block itself if it is well filled, else a copy.
    fn enqueue(
        &mut self,
        mut block: BlockMut,
        bytes: usize,
        copy_threshold_bytes: usize,
        pool: &Pool,
        totals: &mut ProxyTotals,
    ) {
        self.bytes += bytes as u64;
        let capacity = block.len();
        if bytes == capacity {
            self.read_bytes = (self.read_bytes * 2).min(READ_BYTES_MAX);
        } else if bytes < capacity / FILLED_PART_MIN {
            self.read_bytes = (self.read_bytes / 2).max(READ_BYTES_MIN);
        }
        if self.state != RelayState::Open {
            return;
        }
        if bytes >= copy_threshold_bytes && bytes >= capacity / FILLED_PART_MIN {
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
    use super::{RelayEvent, RelayState};

    #[test]
    fn a_relay_ends_in_order_or_drops_what_the_sink_refuses() {
        use RelayState::{Done, Dropping, Ending, Open};
        let cases = [
            (Open, [Ending, Open, Dropping]),
            (Ending, [Ending, Done, Done]),
            (Dropping, [Done, Dropping, Dropping]),
            (Done, [Done, Done, Done]),
        ];
        for (state, expect) in cases {
            let found =
                [RelayEvent::SourceEnded, RelayEvent::Sent, RelayEvent::SinkClosed].map(|event| state.next(event));
            assert_eq!(found, expect, "{state:?}");
        }
    }
}
