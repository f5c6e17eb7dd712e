//! One end of a simulated connection. Only `wait` advances the connection's time.

use super::connection::{SimConnection, SimEndState, SimSide};
use crate::limits::{COPY_THRESHOLD_BYTES, GATHER_PARTS_MAX, SIM_WAIT_STEPS_MAX};
use crate::{AbortReason, Link, LinkCapabilities, LinkError, PeerAddress, ReceiveOutcome, SendOutcome, WaitFor};
use slab::Gather;
use std::io;
use std::time::Duration;

/// A simulated link. For what dropping it means see [`Link`].
pub struct SimLink {
    cable: SimConnection,
    side: SimSide,
    peer: PeerAddress,
    sending_ended: bool,
    receiving_ended: bool,
}

impl SimLink {
    pub(super) fn new(cable: SimConnection, side: SimSide) -> Self {
        let (here, there) = match side {
            SimSide::Left => ("sim:left", "sim:right"),
            SimSide::Right => ("sim:right", "sim:left"),
        };
        SimLink {
            cable,
            side,
            peer: PeerAddress::in_process(there, here),
            sending_ended: false,
            receiving_ended: false,
        }
    }

    fn end(&mut self) {
        self.sending_ended = true;
        self.receiving_ended = true;
    }

    fn is_ready(&self, what: WaitFor) -> bool {
        let mut state = self.cable.state();
        if *state.end_state(self.side) != SimEndState::Connected || (self.receiving_ended && self.sending_ended) {
            return true;
        }
        let incoming = state.inbound(self.side);
        let readable = self.receiving_ended || incoming.arrived() > 0 || incoming.end_arrived();
        let outgoing = state.outbound(self.side);
        let writable = self.sending_ended || outgoing.receiver_gone || outgoing.free_bytes() > 0;
        (what.wants_readable() && readable) || (what.wants_writable() && writable)
    }
}

fn reset() -> LinkError {
    LinkError::Lost(io::Error::new(io::ErrorKind::ConnectionReset, "the simulated connection was cut"))
}

impl Link for SimLink {
    fn receive(&mut self, direct: &mut [u8], scratch: &mut [u8]) -> Result<ReceiveOutcome, LinkError> {
        if self.receiving_ended {
            return Ok(ReceiveOutcome::Closed);
        }
        let mut state = self.cable.state();
        match *state.end_state(self.side) {
            SimEndState::Connected => {}
            SimEndState::Broken => {
                *state.end_state(self.side) = SimEndState::Closed;
                drop(state);
                self.end();
                return Err(reset());
            }
            SimEndState::Closed => {
                drop(state);
                self.end();
                return Ok(ReceiveOutcome::Closed);
            }
        }
        let room = direct.len() + scratch.len();
        if room == 0 {
            return Ok(ReceiveOutcome::Bytes { bytes: 0, drained: false });
        }
        let partial = state.options.partial_permille;
        let mut most = room.min(state.bytes_until_cut(self.side.other()));
        if state.chance.permille(partial) {
            most = most.min(state.chance.between(1, 300) as usize);
        }
        let direction = state.inbound(self.side);
        if direction.arrived() == 0 {
            if direction.end_arrived() {
                drop(state);
                self.receiving_ended = true;
                return Ok(ReceiveOutcome::Closed);
            }
            return Ok(ReceiveOutcome::Idle);
        }
        let from_direct = direct.len().min(most);
        let mut bytes = direction.read(&mut direct[..from_direct]);
        if bytes == direct.len() {
            let rest = scratch.len().min(most - from_direct);
            bytes += direction.read(&mut scratch[..rest]);
        }
        let drained = bytes < room && direction.arrived() == 0;
        if direction.sender_blocked && direction.free_bytes() > 0 {
            direction.sender_blocked = false;
            state.edges(self.side.other()).writable = true;
        }
        state.check_cut(self.side.other());
        Ok(ReceiveOutcome::Bytes { bytes, drained })
    }

    fn send(&mut self, from: &mut Gather) -> Result<SendOutcome, LinkError> {
        if self.sending_ended {
            return Err(LinkError::Closed);
        }
        let mut state = self.cable.state();
        match *state.end_state(self.side) {
            SimEndState::Connected => {}
            SimEndState::Broken => {
                *state.end_state(self.side) = SimEndState::Closed;
                drop(state);
                self.end();
                return Err(reset());
            }
            SimEndState::Closed => {
                drop(state);
                self.end();
                return Err(LinkError::Closed);
            }
        }
        if state.outbound(self.side).receiver_gone {
            drop(state);
            self.sending_ended = true;
            return Err(LinkError::Closed);
        }
        let partial = state.options.partial_permille;
        let mut most = state.outbound(self.side).free_bytes();
        if state.chance.permille(partial) {
            most = state.chance.between(0, most.min(300) as u64) as usize;
        }
        let due = state.arrival_step();
        let mut sent = 0;
        while sent < most && !from.is_empty() {
            let direction = state.outbound(self.side);
            let Some(part) = from.parts().next() else { break };
            let bytes = part.len().min(most - sent);
            direction.write(&part[..bytes], due);
            from.consume(bytes);
            sent += bytes;
        }
        if sent > 0 && state.outbound(self.side).arrived() > 0 {
            state.note_arrival(self.side.other());
        }
        if from.is_empty() {
            return Ok(SendOutcome::Drained);
        }
        state.outbound(self.side).sender_blocked = true;
        Ok(SendOutcome::Blocked)
    }

    fn abort(&mut self, _why: AbortReason) {
        self.end();
        let mut state = self.cable.state();
        if *state.end_state(self.side) != SimEndState::Closed {
            state.abort(self.side);
        }
    }

    fn close_sending(&mut self) {
        if std::mem::replace(&mut self.sending_ended, true) {
            return;
        }
        let mut state = self.cable.state();
        if *state.end_state(self.side) != SimEndState::Connected {
            return;
        }
        state.outbound(self.side).finished = true;
        if state.outbound(self.side).end_arrived() {
            state.note_arrival(self.side.other());
        }
    }

    fn capabilities(&self) -> LinkCapabilities {
        LinkCapabilities {
            gather_parts_max: GATHER_PARTS_MAX,
            copy_threshold_bytes: COPY_THRESHOLD_BYTES,
            lend_threshold_bytes: usize::MAX,
            pinned_bytes: 0,
            name: "sim",
        }
    }

    fn peer(&self) -> &PeerAddress {
        &self.peer
    }

    fn register(&mut self, _registry: &mio::Registry, _token: mio::Token) -> io::Result<()> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "a simulated link has no descriptor; its connection has edges"))
    }

    fn deregister(&mut self, _registry: &mio::Registry) -> io::Result<()> {
        Ok(())
    }

    /// Advances the connection's time until the link is ready. There is no clock, so a wait ends after
    /// `SIM_WAIT_STEPS_MAX` steps, or at once if `timeout` is zero.
    fn wait(&mut self, what: WaitFor, timeout: Option<Duration>) -> Result<bool, LinkError> {
        if self.is_ready(what) {
            return Ok(true);
        }
        if timeout.is_some_and(|timeout| timeout.is_zero()) {
            return Ok(false);
        }
        for _ in 0..SIM_WAIT_STEPS_MAX {
            self.cable.step();
            if self.is_ready(what) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Drop for SimLink {
    fn drop(&mut self) {
        let mut state = self.cable.state();
        match *state.end_state(self.side) {
            SimEndState::Closed => {}
            SimEndState::Broken => *state.end_state(self.side) = SimEndState::Closed,
            SimEndState::Connected => state.close_end(self.side, true),
        }
    }
}
