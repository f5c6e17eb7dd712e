//! The trait that every link implements, and the results of its calls; `contract` tests their meaning.

use std::io;
use std::ops::Range;
use std::time::Duration;

use slab::{BlockMut, Gather};

use crate::tls::{Certificate, TlsParameters};
use crate::{LinkError, PeerAddress, RdmaUsage};

/// One end of an ordered, reliable byte stream.
///
/// Only [`wait`](Link::wait) blocks. Readiness is edge-triggered: after an edge the owner calls until the result is
/// `drained`, [`ReceiveOutcome::Idle`] or [`SendOutcome::Blocked`], and only then may it wait for the next edge.
///
/// Dropping a link closes it. Dropping a TCP link with unread bytes resets the connection, and the peer may lose what
/// was sent last. To deliver last bytes, call [`close_sending`](Link::close_sending), read until
/// [`ReceiveOutcome::Closed`], then drop the link.
pub trait Link: Send {
    /// Reads into `direct` first, then into `scratch`, in one call to the system.
    ///
    /// If both are empty it returns `Bytes { bytes: 0, drained: false }`; so it does where very much has come of which the owner
    /// gets nothing, so that others are served before the rest of it.
    ///
    /// `drained` means that there is nothing more *now*. The end of the stream is not a byte: an owner whose edge
    /// reports that the peer closed (`mio::event::Event::is_read_closed`) keeps reading until
    /// [`ReceiveOutcome::Closed`].
    ///
    /// # Errors
    /// [`LinkError::Lost`] or [`LinkError::Tls`] once, when the connection is lost; from then on
    /// [`ReceiveOutcome::Closed`].
    fn receive(&mut self, direct: &mut [u8], scratch: &mut [u8]) -> Result<ReceiveOutcome, LinkError>;

    /// Lends memory whose range `place` is filled with the next bytes of the stream: a device may write them there in
    /// the background. Until the range is full, `receive` returns [`ReceiveOutcome::Idle`], or the end of the stream.
    /// Then it returns zero bytes, and [`take_filled`](Link::take_filled) returns the memory. Later bytes are received
    /// as usual. The bytes outside the range are not changed.
    ///
    /// Lending is optional. It pays off from [`LinkCapabilities::lend_threshold_bytes`] on.
    ///
    /// # Errors
    /// The memory, if this link takes none (most do not), has some already, or has ended; or if the range is empty or
    /// exceeds the memory.
    fn lend(&mut self, memory: BlockMut, place: Range<usize>) -> Result<(), BlockMut> {
        let _ = place;
        Err(memory)
    }

    /// The lent memory, once its range is full. A link that has ended does not return it.
    fn take_filled(&mut self) -> Option<FilledMemory> {
        None
    }

    /// How many of the next bytes of the stream lie in the peer's memory, announced but not yet transferred: memory
    /// lent for exactly so many will be filled, whatever follows. 0 for most links.
    fn announced_bytes(&self) -> usize {
        0
    }

    /// Sends from the front of `from` until it is empty or the link takes no more, and consumes what was taken. The
    /// caller must keep the rest in front for the next call: parts of it may be in flight already.
    ///
    /// # Errors
    /// [`LinkError::Closed`] if this end or the peer ended this direction, [`LinkError::Lost`] or [`LinkError::Tls`] if
    /// the connection is lost. Either way every later `send` fails as well (never [`SendOutcome::Blocked`]), and the
    /// bytes left in `from` will not arrive. After `Closed` there may still be bytes to receive.
    fn send(&mut self, from: &mut Gather) -> Result<SendOutcome, LinkError>;

    /// Ends both directions at once and discards unsent bytes: later calls of `receive` return
    /// [`ReceiveOutcome::Closed`], of `send` [`LinkError::Closed`]. The peer is notified at once where the transport
    /// can. The descriptor is closed; nothing needs to be deregistered.
    fn abort(&mut self, why: AbortReason);

    /// Ends the sending direction in order: what was sent before still arrives, then the peer reads the end of the
    /// stream. Receiving is not affected. Call it after `send` has returned [`SendOutcome::Drained`]; later `send`s
    /// fail.
    fn close_sending(&mut self);

    /// Whether the link has bytes of its own to send, such as a handshake's: then the owner calls `send` at the next
    /// writable edge, even with nothing to send.
    fn has_pending_output(&self) -> bool {
        false
    }

    /// The peer's verified certificate, if it has shown one.
    fn certificate(&self) -> Option<&Certificate> {
        None
    }

    /// What the handshake of a TLS link has agreed on; `None` before its end, and for other links.
    fn tls_parameters(&self) -> Option<TlsParameters> {
        None
    }

    fn capabilities(&self) -> LinkCapabilities;

    fn peer(&self) -> &PeerAddress;

    /// Credits and rendezvous of an RDMA connection; `None` for other links.
    fn rdma_usage(&self) -> Option<RdmaUsage> {
        None
    }

    /// Reports both readiness edges of this link to `registry` under `token`.
    ///
    /// # Errors
    /// The operating system's error; `Unsupported` for a link that has no descriptor; `NotConnected` after `abort`.
    fn register(&mut self, registry: &mio::Registry, token: mio::Token) -> io::Result<()>;

    /// Undoes [`register`](Link::register), so that the link can move to another thread's registry.
    ///
    /// # Errors
    /// The operating system's error. After `abort` there is nothing to undo and this succeeds.
    fn deregister(&mut self, registry: &mio::Registry) -> io::Result<()>;

    /// Blocks until the link is ready (an ended link always is) or `timeout` has passed; `None` waits without limit.
    /// Returns whether it is ready. For programs with one link and a thread to spare; the reactor registers instead.
    ///
    /// # Errors
    /// [`LinkError::Lost`] if the system cannot wait.
    fn wait(&mut self, what: WaitFor, timeout: Option<Duration>) -> Result<bool, LinkError>;
}

/// The result of [`Link::receive`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveOutcome {
    /// Bytes arrived: in `direct`, and once that is full in `scratch`.
    Bytes {
        /// The number of bytes in both buffers together.
        bytes: usize,
        /// Whether the link has nothing more now (a short read). Otherwise call again before waiting for an edge.
        drained: bool,
    },
    /// Nothing has arrived; wait for the next edge.
    Idle,
    /// The peer has ended its sending direction, or this end aborted. Nothing will arrive any more.
    Closed,
}

/// The result of [`Link::take_filled`].
#[derive(Debug)]
pub struct FilledMemory {
    pub memory: BlockMut,
    /// How many bytes of the lent range were copied from the link's own buffers: those that the peer sent, instead of
    /// offering them for an RDMA READ.
    pub copied_bytes: usize,
}

/// The result of [`Link::send`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOutcome {
    /// Everything was taken; the gather is empty.
    Drained,
    /// The link takes no more now; wait for the next edge.
    Blocked,
}

/// Which readiness [`Link::wait`] waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitFor {
    /// Until `receive` would not return `Idle`.
    Readable,
    /// Until `send` would move a byte.
    Writable,
    /// Either of the two.
    Either,
}

impl WaitFor {
    pub fn wants_readable(self) -> bool {
        self != WaitFor::Writable
    }

    pub fn wants_writable(self) -> bool {
        self != WaitFor::Readable
    }
}

/// Why an owner aborts a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AbortReason {
    /// The peer violated the protocol so that no orderly close is possible.
    Protocol,
    /// Nothing was received from the peer for too long.
    Silent,
    /// The peer did not log in, or did not answer a close, in time.
    Overdue,
    /// The peer reads too slowly for what it must be sent.
    Slow,
    /// A limit on connections or memory was reached.
    Limit,
    /// The other half of a proxied connection was lost.
    Broken,
    /// An operator closed it.
    Operator,
    /// This process shuts down.
    Shutdown,
}

impl AbortReason {
    /// The reason in one word, for logs.
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

/// Properties of a link by which its owner chooses between copying, gathering and lending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkCapabilities {
    /// Most parts that one call gathers. More parts are sent in several calls, by the link itself.
    pub gather_parts_max: usize,
    /// Bodies of fewer bytes than this are cheaper to copy between the headers than to gather.
    pub copy_threshold_bytes: usize,
    /// From this many bytes on it pays to lend memory for receiving (see [`Link::lend`]), and a part that is sent
    /// reaches memory lent by the peer without a copy; `usize::MAX`: never.
    pub lend_threshold_bytes: usize,
    /// Bytes of memory that are pinned as long as the link is there: its receive buffers.
    pub pinned_bytes: usize,
    /// The kind of link: `tcp`, `tls`, `unix`, `rdma`, `sim`.
    pub name: &'static str,
}
