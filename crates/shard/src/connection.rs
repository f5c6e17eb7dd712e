//! A connection of this shard: a link and the session that reads it.
//!
//! Enters: a link just accepted.  Leaves: nothing; the shard drives it.
//! Owns:   the link, the parser, the bytes that are not parsed yet, how far the connection has come.
//! Never:  knows a queue.

use crate::register::Seat;
use crate::tokens::Ticket;
use catalog::{UserId, VhostId};
use link::{FilledMemory, Link};
use session::{Heartbeat, Inbound};
use std::time::Instant;
use verbs::RdmaToken;

/// How far a connection has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Nobody has logged in yet; it must be over by the deadline.
    Greeting,
    /// A user has logged in, and must choose a virtual host.
    LoggedIn {
        /// Who.
        user: UserId,
    },
    /// Commands flow.
    Open {
        /// Who.
        user: UserId,
        /// Where.
        vhost: VhostId,
    },
    /// The broker has sent `connection.close` and waits for the answer.
    Closing,
    /// The last bytes are out or going out; what comes is thrown away until the peer has closed.
    Leaving,
}

/// What is done once all that has been written is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Farewell {
    /// Nothing: the connection lives.
    None,
    /// The sending direction is closed.
    WhenSent,
    /// It is closed; the peer's end is awaited.
    Sent,
}

/// A connection.
pub(crate) struct Connection {
    /// The link.
    pub link: Box<dyn Link>,
    /// The parser and protocol state.
    pub inbound: Inbound,
    /// Bytes that were read and not taken yet.
    pub kept: Vec<u8>,
    /// They may hold whole events: the connection was stopped in the middle of a batch.
    pub unparsed: bool,
    /// Tells the users of the slot apart.
    pub serial: u32,
    /// Its password is being checked, elsewhere.
    pub proving: bool,
    /// How far it has come.
    pub phase: Phase,
    /// What follows the last byte.
    pub farewell: Farewell,
    /// When the phase must be over, while it is not open.
    pub deadline: Instant,
    /// When bytes last came.
    pub received_at: Instant,
    /// When bytes last went.
    pub sent_at: Instant,
    /// The agreed heartbeat.
    pub heartbeat: Option<Heartbeat>,
    /// There may be something to read.
    pub readable: bool,
    /// Bytes have arrived, read or not, since the heartbeat was looked at.
    pub heard: bool,
    /// The link was closed by the peer.
    pub peer_closed: bool,
    /// It is on the list of those to read.
    pub queued: bool,
    /// What the client can hear.
    pub capabilities: session::Capabilities,
    /// What it was greeted with, to come again over RDMA by.
    pub token: Option<RdmaToken>,
    /// Who it is, if it has come by a token.
    pub ticket: Option<Ticket>,
    /// Its place in the register, while its session is open.
    pub seat: Option<Seat>,
    /// From so many bytes on the link is lent memory for what comes; `usize::MAX`: never.
    pub lend_from_bytes: usize,
    /// The federation link that it was made for: this broker is the client.
    pub tie: Option<u32>,
    /// The federation link that dials again when this connection is over.
    pub ends: Option<u32>,
    /// Its timer; entries for other times are out of date.
    pub timer_at: Option<Instant>,
}

impl Connection {
    /// How many bytes to read into a buffer with so much room.
    pub fn inbound_wanted(&self, room: usize) -> usize {
        self.inbound.scratch_bytes_wanted().min(room)
    }

    /// The rest of a frame is to come, and may come by itself.
    #[cold]
    pub fn lend(&mut self) {
        if let Some((memory, place)) = self.inbound.lend()
            && let Err(memory) = self.link.lend(memory, place)
        {
            self.inbound.not_lent(memory);
        }
    }

    /// After a read of a link that is lent memory, which brought `direct` bytes, or filled what is lent. Answers how many bytes
    /// that were, and how many of them the link has copied.
    #[cold]
    pub fn settle(&mut self, direct: usize) -> (usize, usize) {
        let Some(FilledMemory { memory, copied_bytes }) = self.link.take_filled() else { return (0, direct) };
        (self.inbound.filled(memory), copied_bytes)
    }
}
