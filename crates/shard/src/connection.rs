//! A connection: a link, the parser of its bytes, and the state of its login and its end.

use crate::connection_limits::Reservation;
use crate::connection_time::ConnectionTime;
use crate::connection_traffic::ConnectionTraffic;
use crate::link_id::FederationLinkId;
use crate::move_state::MoveState;
use crate::tokens::TokenOwner;
use broker::ConnectionSlot;
use catalog::{SessionId, UserId, VhostId};
use link::{FilledMemory, Link};
use queues::ChangeList;
use session::{BodyRoom, Heartbeat, Inbound, Tuning};
use slab::Pool;
use std::time::Instant;
use verbs::RdmaToken;

/// The phase of a connection. All but `Open` must end by the connection's deadline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConnectionPhase {
    /// Nobody has logged in yet.
    Greeting,
    /// A user has logged in, and must choose a virtual host.
    LoggedIn { user: UserId },
    /// The client has a session and sends commands.
    Open { user: UserId, vhost: VhostId },
    /// The broker has sent `connection.close` and waits for `close-ok`.
    Closing,
    /// The last bytes are being sent; input is discarded until the peer has closed the link.
    Leaving,
}

/// The state of the sending direction of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HalfClose {
    /// Output is sent.
    Open,
    /// The direction is closed once all output is sent.
    Pending,
    /// The direction is closed; the peer's end is awaited.
    Closed,
}

/// A connection of the shard.
pub(crate) struct Connection {
    pub link: Box<dyn Link>,
    /// The parser, with the state of the protocol.
    pub inbound: Inbound,
    /// Bytes that were received and not parsed yet: usually the beginning of a frame.
    pub unconsumed: Vec<u8>,
    /// `unconsumed` may hold whole events, because the connection was stopped between two.
    pub has_unparsed: bool,
    /// Distinguishes the connections that use the slot one after another.
    pub serial: u32,
    /// A verifier thread checks its password.
    pub is_verifying_password: bool,
    pub phase: ConnectionPhase,
    pub half_close: HalfClose,
    /// When the phase must be over, unless it is `Open`.
    pub deadline: Instant,
    pub connected_at: Instant,
    /// The SASL mechanism by which the client has logged in.
    pub mechanism: Box<str>,
    /// What the client says about itself, in wire form; empty if it is too long to be kept.
    pub client_properties: Box<[u8]>,
    /// What was negotiated.
    pub tuning: Option<Tuning>,
    pub traffic: ConnectionTraffic,
    pub time: ConnectionTime,
    /// The virtual host that it has opened, for which its traffic counts to its end.
    pub vhost: Option<VhostId>,
    /// A reader of reports knows it as it is.
    pub is_reported: bool,
    /// When bytes last arrived.
    pub received_at: Instant,
    /// When bytes were last sent.
    pub sent_at: Instant,
    /// The heartbeat that was negotiated.
    pub heartbeat: Option<Heartbeat>,
    /// The link may have bytes to receive.
    pub readable: bool,
    /// Bytes have arrived, read or not, since the heartbeat was last checked.
    pub received_since_check: bool,
    /// The peer has closed the link.
    pub peer_closed: bool,
    /// It is on the list of turns.
    pub is_queued: bool,
    /// Bytes that wait for the disk by its last turn, and by those that it has had since the disk was last behind.
    pub stored_bytes: usize,
    /// The optional methods that the client understands.
    pub capabilities: session::Capabilities,
    /// The token in its greeting, by which the client may connect again over RDMA.
    pub token: Option<RdmaToken>,
    /// Who it is, if it was admitted by a token and has not logged in.
    pub token_owner: Option<TokenOwner>,
    /// Counts it for the limits of its virtual host and user, while its session is open.
    pub reservation: Option<Reservation>,
    /// The link is lent memory for bodies of at least so many bytes; `usize::MAX`: never.
    pub lend_threshold_bytes: usize,
    /// Bytes of the memory that it is lent.
    pub lent_bytes: u64,
    /// The federation link of which this is the connection: this broker is the client.
    pub federation_link: Option<FederationLinkId>,
    /// The federation link that has ended this connection, and dials again when it is gone.
    pub closes_link: Option<FederationLinkId>,
    /// Memory for a body in which nothing had arrived when its last turn ended.
    pub body_room: BodyRoom,
    /// Its timer; timer entries of other times are outdated.
    pub timer_at: Option<Instant>,
    /// Where it belongs, and its way there.
    pub moves: MoveState,
    /// The id that it had on its first shard, if it has moved: its name may have it.
    pub first_id: Option<SessionId>,
}

/// Connections that a reader of reports does not know as they are, by slot and serial number.
pub(crate) type ConnectionChanges = ChangeList<(ConnectionSlot, u32)>;

impl Connection {
    /// It has changed: whoever knew it as it was is to be told.
    #[inline]
    pub fn note_change(&mut self, slot: ConnectionSlot, changes: &mut ConnectionChanges) {
        if self.is_reported {
            self.is_reported = false;
            changes.note((slot, self.serial));
        }
    }

    /// A connection that has just been accepted or made, and must be open by the deadline.
    pub fn new(link: Box<dyn Link>, inbound: Inbound, deadline: Instant, now: Instant) -> Self {
        Connection {
            link,
            inbound,
            unconsumed: Vec::new(),
            has_unparsed: false,
            serial: 0,
            is_verifying_password: false,
            phase: ConnectionPhase::Greeting,
            half_close: HalfClose::Open,
            deadline,
            connected_at: now,
            mechanism: Box::default(),
            client_properties: Box::default(),
            tuning: None,
            traffic: ConnectionTraffic::default(),
            time: ConnectionTime::default(),
            vhost: None,
            is_reported: false,
            received_at: now,
            sent_at: now,
            heartbeat: None,
            readable: true,
            received_since_check: false,
            peer_closed: false,
            is_queued: false,
            stored_bytes: 0,
            capabilities: Default::default(),
            token: None,
            token_owner: None,
            reservation: None,
            lend_threshold_bytes: usize::MAX,
            lent_bytes: 0,
            federation_link: None,
            closes_link: None,
            body_room: BodyRoom::default(),
            timer_at: None,
            moves: MoveState::default(),
            first_id: None,
        }
    }

    /// A user has opened a virtual host.
    pub fn open(&mut self, user: UserId, vhost: VhostId) {
        self.phase = ConnectionPhase::Open { user, vhost };
        self.vhost = Some(vhost);
    }

    /// How many bytes to receive into a buffer with so much space.
    pub fn receive_bytes_wanted(&self, free_bytes: usize) -> usize {
        self.inbound.scratch_bytes_wanted().min(free_bytes)
    }

    /// Bytes that have arrived of frames and messages that are not whole.
    pub fn partial_bytes(&self) -> usize {
        self.unconsumed.len() + self.inbound.partial_bytes()
    }

    /// Lends the link memory for the rest of a frame, unless its user has as much pinned as it may: then the body gets memory
    /// for what arrives, and is copied there.
    #[cold]
    pub fn lend_memory(&mut self, user_pinned_bytes_max: u64, pool: &Pool) {
        let Some((memory, place)) = self.inbound.lend() else { return };
        let bytes = memory.len() as u64;
        if self.reservation.as_mut().is_some_and(|reservation| !reservation.pin(bytes, user_pinned_bytes_max)) {
            return self.inbound.refuse_loan(memory, pool);
        }
        match self.link.lend(memory, place) {
            Ok(()) => self.lent_bytes = bytes,
            Err(memory) => {
                self.unpin(bytes);
                self.inbound.not_lent(memory);
            }
        }
    }

    fn unpin(&mut self, bytes: u64) {
        if let Some(reservation) = &mut self.reservation {
            reservation.unpin(bytes);
        }
    }

    /// Takes back memory that the link has filled, after a read that brought `direct` bytes otherwise. Returns how
    /// many bytes the memory holds, and how many bytes were copied.
    #[cold]
    pub fn take_back_memory(&mut self, direct: usize) -> (usize, usize) {
        let Some(FilledMemory { memory, copied_bytes }) = self.link.take_filled() else { return (0, direct) };
        let lent_bytes = std::mem::take(&mut self.lent_bytes);
        self.unpin(lent_bytes);
        (self.inbound.filled(memory), copied_bytes)
    }
}
