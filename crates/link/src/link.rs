//! What every link does: the trait and its small words.
//!
//! Leaves: `Link`, and the answers its calls give.
//! Owns:   the meaning of "drained", "blocked" and "closed"; `contract` tests that meaning.
//! Never:  knows which kind of link it is.

use std::io;
use std::ops::Range;
use std::time::Duration;

use slab::{BlockMut, Gather};

use crate::tls::Certificate;
use crate::{LinkError, PeerAddress};

/// One end of an ordered, reliable byte stream.
///
/// No call but [`wait`](Link::wait) ever blocks. Readiness is edge-triggered: after an edge the owner calls until it
/// is told `drained`, [`Received::Idle`] or [`Sent::Blocked`], and only then may it wait for the next edge.
///
/// Dropping a link closes it. On TCP a link that is dropped with received bytes unread resets the connection, and the
/// peer may lose what was last sent; who wants the peer to read a farewell calls
/// [`close_sending`](Link::close_sending), reads until [`Received::Closed`], and drops the link then.
pub trait Link: Send {
    /// Reads into `direct` first, then into `scratch`, in one call to the system.
    ///
    /// With no room in either it answers `Bytes { bytes: 0, drained: false }`.
    ///
    /// A drained link has nothing more *now*: the end of the stream is not a byte, so an owner whose edge said that
    /// the peer closed (`mio::event::Event::is_read_closed`) goes on until it is told [`Received::Closed`].
    ///
    /// # Errors
    /// [`LinkError::Lost`] or [`LinkError::Tls`] once, when the connection broke; from then on [`Received::Closed`].
    fn receive(&mut self, direct: &mut [u8], scratch: &mut [u8]) -> Result<ReceiveOutcome, LinkError>;

    /// Lends memory of which the bytes in `place` are the next of the stream to be received: a device may write them there
    /// while nobody waits. Until that place is full, `receive` answers [`Received::Idle`], or the end; then it answers that
    /// there are zero bytes, and [`take_back`](Link::take_back) has the memory. What comes behind it is received as ever. The
    /// bytes around the place stay as they are.
    ///
    /// It is worth its price from [`Shape::lend_from_bytes`] on. Whoever never lends receives everything all the same.
    ///
    /// # Errors
    /// The memory, if this link takes none: most do not, or have some already, or are over. An empty place, or one that is
    /// not all in the memory, is refused as well.
    fn lend(&mut self, memory: BlockMut, place: Range<usize>) -> Result<(), BlockMut> {
        let _ = place;
        Err(memory)
    }

    /// What was lent, once its place is full. Of a link that is over, nothing comes back.
    fn take_filled(&mut self) -> Option<FilledMemory> {
        None
    }

    /// How many of the next bytes of the stream are known to come, and are still the peer's: memory for just so many may be
    /// lent, and will be filled whatever becomes of the rest. 0 where nothing is known, as of most links.
    fn announced_bytes(&self) -> usize {
        0
    }

    /// Sends from the front of `from` until it is empty or the link takes no more; what was taken is consumed. What is
    /// left stays in front for the next call: parts of it may be under way already.
    ///
    /// # Errors
    /// [`LinkError::Closed`] if this end or the peer ended this direction, [`LinkError::Lost`] or [`LinkError::Tls`] if the
    /// connection broke. Either way every later `send` fails as well (never [`Sent::Blocked`]), and the bytes left in `from`
    /// will not arrive. After `Closed` there may still be bytes to receive.
    fn send(&mut self, from: &mut Gather) -> Result<SendOutcome, LinkError>;

    /// Ends both directions at once and drops what was not sent: later calls of `receive` answer
    /// [`Received::Closed`], of `send` [`LinkError::Closed`]. The peer learns of it at once where the transport can
    /// tell it. The descriptor is given back; nothing needs to be deregistered.
    fn abort(&mut self, why: AbortReason);

    /// Orderly end of the sending direction: what was sent before still arrives, then the peer reads the end of the
    /// stream. Receiving goes on. Call it when the last `send` said [`Sent::Drained`]; later `send`s fail.
    fn close_sending(&mut self);

    /// Whether the link has bytes of its own to send, such as a handshake's: then `send` is called at the next edge
    /// that says that it takes more, even with nothing to send.
    fn has_pending_output(&self) -> bool {
        false
    }

    /// The certificate by which the peer has proved who it is, if it has.
    fn certificate(&self) -> Option<&Certificate> {
        None
    }

    /// What suits this link.
    fn capabilities(&self) -> LinkCapabilities;

    /// Who is at the other end.
    fn peer(&self) -> &PeerAddress;

    /// Reports both readiness edges of this link to `registry` under `token`.
    ///
    /// # Errors
    /// What the system says; `Unsupported` for a link that has no descriptor; `NotConnected` after `abort`.
    fn register(&mut self, registry: &mio::Registry, token: mio::Token) -> io::Result<()>;

    /// Undoes [`register`](Link::register), so that the link can move to another thread's registry.
    ///
    /// # Errors
    /// What the system says. After `abort` there is nothing to undo and this succeeds.
    fn deregister(&mut self, registry: &mio::Registry) -> io::Result<()>;

    /// Blocks until the link can make progress (an ended or broken link can: it answers at once) or `timeout` has
    /// passed; `None` waits for ever. Answers whether it is ready. For programs with one link and a thread to spare;
    /// the reactor registers instead.
    ///
    /// # Errors
    /// [`LinkError::Lost`] if the system cannot wait.
    fn wait(&mut self, what: WaitFor, timeout: Option<Duration>) -> Result<bool, LinkError>;
}

/// What [`Link::receive`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveOutcome {
    /// Bytes arrived: `direct` is filled first, and only when it is full does `scratch` hold the rest.
    Bytes {
        /// How many, in both buffers together.
        bytes: usize,
        /// Whether the link has nothing more now (a short read). If not, call again before waiting for an edge.
        drained: bool,
    },
    /// Nothing is there; wait for the next edge.
    Idle,
    /// The peer has ended its sending direction, or this end aborted. Nothing will ever come again.
    Closed,
}

/// What [`Link::take_back`] gives.
#[derive(Debug)]
pub struct FilledMemory {
    /// The memory.
    pub memory: BlockMut,
    /// How many of the bytes that it was lent for were copied there from memory of the link's: those that the peer sent, and
    /// did not leave to be fetched.
    pub copied_bytes: usize,
}

/// What [`Link::send`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOutcome {
    /// All of it went; the gather is empty.
    Drained,
    /// The link takes no more now; wait for the next edge.
    Blocked,
}

/// What [`Link::wait`] waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitFor {
    /// Until `receive` would not answer `Idle`.
    Readable,
    /// Until `send` would move a byte.
    Writable,
    /// Either of the two.
    Either,
}

impl WaitFor {
    /// Whether bytes to receive end this wait.
    pub fn wants_readable(self) -> bool {
        self != WaitFor::Writable
    }

    /// Whether room to send ends this wait.
    pub fn wants_writable(self) -> bool {
        self != WaitFor::Readable
    }
}

/// Why an owner gives a link up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AbortReason {
    /// The peer broke the protocol beyond an orderly close.
    Protocol,
    /// Nothing was heard from the peer for too long.
    Silent,
    /// The peer did not log in, or did not answer a close, in time.
    Overdue,
    /// The peer reads too slowly for what it must be sent.
    Slow,
    /// A limit on connections or memory leaves no room for it.
    Limit,
    /// What it was joined to has broken: the other half of a proxied connection.
    Broken,
    /// An operator asked for it.
    Operator,
    /// This process ends.
    Shutdown,
}

impl AbortReason {
    /// A word for logs.
    pub fn as_str(self) -> &'static str {
        match self {
            AbortReason::Protocol => "protocol",
            AbortReason::Silent => "silent",
            AbortReason::Overdue => "overdue",
            AbortReason::Slow => "slow",
            AbortReason::Limit => "limit",
            AbortReason::Broken => "broken",
            AbortReason::Operator => "operator",
            AbortReason::Shutdown => "shutdown",
        }
    }
}

/// What suits a link; its owner chooses between copying and gathering by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkCapabilities {
    /// Parts one call gathers at most. More parts are sent in several calls; nobody has to count them.
    pub gather_parts_max: usize,
    /// Bodies of fewer bytes than this are cheaper copied between the heads than gathered.
    pub copy_threshold_bytes: usize,
    /// From so many bytes on, memory for what is received may be lent (see [`Link::lend`]), and a part that is sent reaches
    /// such memory of the peer's without a copy; `usize::MAX`: never.
    pub lend_threshold_bytes: usize,
    /// The kind of link: `tcp`, `tls`, `unix`, `rdma`, `sim`.
    pub name: &'static str,
}
