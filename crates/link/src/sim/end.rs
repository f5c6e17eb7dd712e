//! One end of a simulated connection.
//!
//! Enters: bytes to send.  Leaves: bytes received.
//! Owns:   its side of the cable.
//! Never:  blocks, but in `wait`, where it moves the cable's time on.

use super::cable::{Cable, Side, Standing};
use crate::limits::{COPY_BELOW_BYTES, GATHER_PARTS_MAX, SIM_WAIT_STEPS_MAX};
use crate::{Abort, Link, LinkError, Peer, Received, Sent, Shape, Wait};
use slab::Gather;
use std::io;
use std::time::Duration;

/// A simulated link. Dropping it is leaving: see [`Link`].
pub struct SimLink {
    cable: Cable,
    side: Side,
    peer: Peer,
    sending_ended: bool,
    receiving_ended: bool,
}

impl SimLink {
    pub(super) fn new(cable: Cable, side: Side) -> Self {
        let (here, there) = match side {
            Side::Left => ("sim:left", "sim:right"),
            Side::Right => ("sim:right", "sim:left"),
        };
        SimLink { cable, side, peer: Peer::inside(there, here), sending_ended: false, receiving_ended: false }
    }

    fn end(&mut self) {
        self.sending_ended = true;
        self.receiving_ended = true;
    }

    fn is_ready(&self, what: Wait) -> bool {
        let mut state = self.cable.state();
        if *state.standing(self.side) != Standing::Alive || (self.receiving_ended && self.sending_ended) {
            return true;
        }
        let inward = state.inward(self.side);
        let readable = self.receiving_ended || inward.arrived() > 0 || inward.end_arrived();
        let outward = state.outward(self.side);
        let writable = self.sending_ended || outward.deaf || outward.room() > 0;
        (what.wants_readable() && readable) || (what.wants_writable() && writable)
    }
}

fn reset() -> LinkError {
    LinkError::Lost(io::Error::new(io::ErrorKind::ConnectionReset, "the simulated connection was cut"))
}

impl Link for SimLink {
    fn receive(&mut self, direct: &mut [u8], scratch: &mut [u8]) -> Result<Received, LinkError> {
        if self.receiving_ended {
            return Ok(Received::Closed);
        }
        let mut state = self.cable.state();
        match *state.standing(self.side) {
            Standing::Alive => {}
            Standing::Broken => {
                *state.standing(self.side) = Standing::Over;
                drop(state);
                self.end();
                return Err(reset());
            }
            Standing::Over => {
                drop(state);
                self.end();
                return Ok(Received::Closed);
            }
        }
        let room = direct.len() + scratch.len();
        if room == 0 {
            return Ok(Received::Bytes { bytes: 0, drained: false });
        }
        let partial = state.options.partial_permille;
        let mut most = room.min(state.until_cut(self.side.other()));
        if state.chance.permille(partial) {
            most = most.min(state.chance.between(1, 300) as usize);
        }
        let way = state.inward(self.side);
        if way.arrived() == 0 {
            if way.end_arrived() {
                drop(state);
                self.receiving_ended = true;
                return Ok(Received::Closed);
            }
            return Ok(Received::Idle);
        }
        let from_direct = direct.len().min(most);
        let mut bytes = way.pull(&mut direct[..from_direct]);
        if bytes == direct.len() {
            let rest = scratch.len().min(most - from_direct);
            bytes += way.pull(&mut scratch[..rest]);
        }
        let drained = bytes < room && way.arrived() == 0;
        if way.sender_waits && way.room() > 0 {
            way.sender_waits = false;
            state.edges(self.side.other()).writable = true;
        }
        state.check_cut(self.side.other());
        Ok(Received::Bytes { bytes, drained })
    }

    fn send(&mut self, from: &mut Gather) -> Result<Sent, LinkError> {
        if self.sending_ended {
            return Err(LinkError::Closed);
        }
        let mut state = self.cable.state();
        match *state.standing(self.side) {
            Standing::Alive => {}
            Standing::Broken => {
                *state.standing(self.side) = Standing::Over;
                drop(state);
                self.end();
                return Err(reset());
            }
            Standing::Over => {
                drop(state);
                self.end();
                return Err(LinkError::Closed);
            }
        }
        if state.outward(self.side).deaf {
            drop(state);
            self.sending_ended = true;
            return Err(LinkError::Closed);
        }
        let partial = state.options.partial_permille;
        let mut most = state.outward(self.side).room();
        if state.chance.permille(partial) {
            most = state.chance.between(0, most.min(300) as u64) as usize;
        }
        let due = state.due();
        let mut sent = 0;
        while sent < most && !from.is_empty() {
            let way = state.outward(self.side);
            let Some(part) = from.parts().next() else { break };
            let bytes = part.len().min(most - sent);
            way.push(&part[..bytes], due);
            from.consume(bytes);
            sent += bytes;
        }
        if sent > 0 && state.outward(self.side).arrived() > 0 {
            state.note_arrival(self.side.other());
        }
        if from.is_empty() {
            return Ok(Sent::Drained);
        }
        state.outward(self.side).sender_waits = true;
        Ok(Sent::Blocked)
    }

    fn abort(&mut self, _why: Abort) {
        self.end();
        let mut state = self.cable.state();
        if *state.standing(self.side) != Standing::Over {
            state.abort(self.side);
        }
    }

    fn close_sending(&mut self) {
        if std::mem::replace(&mut self.sending_ended, true) {
            return;
        }
        let mut state = self.cable.state();
        if *state.standing(self.side) != Standing::Alive {
            return;
        }
        state.outward(self.side).finished = true;
        if state.outward(self.side).end_arrived() {
            state.note_arrival(self.side.other());
        }
    }

    fn shape(&self) -> Shape {
        Shape {
            gather_parts_max: GATHER_PARTS_MAX,
            copy_below_bytes: COPY_BELOW_BYTES,
            lend_from_bytes: usize::MAX,
            name: "sim",
        }
    }

    fn peer(&self) -> &Peer {
        &self.peer
    }

    fn register(&mut self, _registry: &mio::Registry, _token: mio::Token) -> io::Result<()> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "a simulated link has no descriptor; its cable has edges"))
    }

    fn deregister(&mut self, _registry: &mio::Registry) -> io::Result<()> {
        Ok(())
    }

    /// Moves the cable's time on until the link is ready. `timeout` bounds nothing here but whether to try at all:
    /// there is no clock, so a wait ends after [`SIM_WAIT_STEPS_MAX`] steps.
    fn wait(&mut self, what: Wait, timeout: Option<Duration>) -> Result<bool, LinkError> {
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
        match *state.standing(self.side) {
            Standing::Over => {}
            Standing::Broken => *state.standing(self.side) = Standing::Over,
            Standing::Alive => state.leave(self.side, true),
        }
    }
}
