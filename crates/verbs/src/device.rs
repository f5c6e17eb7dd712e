//! What the engine needs of a device: reliable connections as verbs have them, with memory that changes hands.
//!
//! Enters: work and memory.  Leaves: completions, events of the connection manager, and the memory again.
//! Owns:   the words of both; no device.
//! Never:  knows the protocol. A device may refuse, delay and fail, but not lend the same memory to two.

use crate::limits::{HEAD_BYTES_MAX, MESSAGE_PARTS_MAX};
use slab::{BlockMut, Slice};
use std::fmt;
use std::os::fd::RawFd;
use std::time::Duration;

/// One shard's share of a device: one completion queue, one shared receive queue, one channel of events, any number of
/// reliable connected queue pairs.
///
/// Nothing here blocks but [`wait`](Device::wait). Memory that is posted belongs to the device until its completion is
/// polled (of sends without a completion of their own: that of a later send of the same queue pair), or until the queue
/// pair is destroyed. A device registers whole regions of message memory ([`Slice::region`]) when it first meets them,
/// for local use only; only [`grant`](Device::grant) lets a peer read, and it exactly the bytes of one slice.
pub trait Device: Send + 'static {
    /// What the device can do.
    fn capabilities(&self) -> DeviceCapabilities;

    /// The name of the card that it is a share of: what one share of a card can reach another can, too.
    fn card(&self) -> String;

    /// Time since some moment, which never goes back: all deadlines are counted by it.
    fn now(&self) -> Duration;

    /// Lets peers read these bytes, and no others, until the grant is revoked. The device holds the slice till then.
    ///
    /// # Errors
    /// The device has no room for another registration, or the system lets no more memory be pinned.
    fn grant(&mut self, memory: Slice) -> Result<ReadGrant, DeviceError>;

    /// Ends a grant: no read that arrives later finds the memory.
    fn revoke(&mut self, grant: ReadGrant);

    /// Puts buffers into the shared receive queue and empties the list: one doorbell. Only these have a length that the
    /// device checks by itself.
    ///
    /// # Errors
    /// The device is broken. The list is empty then, too.
    fn post_receives(&mut self, buffers: &mut Vec<(WorkRequestId, BlockMut)>) -> Result<(), DeviceError>;

    /// Puts work into the send queue of a queue pair, in order, and empties the list: one doorbell.
    ///
    /// # Errors
    /// The queue pair or the device is broken. The list is empty then, too.
    fn post(&mut self, pair: QueuePairId, list: &mut Vec<WorkRequest>) -> Result<(), DeviceError>;

    /// Appends at most `most` completions; how many.
    ///
    /// # Errors
    /// The completion queue is broken.
    fn poll(&mut self, into: &mut Vec<WorkCompletion>, most: usize) -> Result<usize, DeviceError>;

    /// Asks for a notice of the next completion. Whoever waits polls once more after this.
    ///
    /// # Errors
    /// The device is broken.
    fn arm(&mut self) -> Result<(), DeviceError>;

    /// The next [`events`](Device::events) look for all that there is, for an owner that was woken by one of
    /// [`news_descriptors`](Device::news_descriptors), or by something that it cannot tell from them. [`wait`](Device::wait)
    /// tells by itself. Else a device may look now and then alone.
    fn request_event_poll(&mut self) {}

    /// Blocks until there may be a completion (if armed) or an event, or so long.
    ///
    /// # Errors
    /// The system cannot wait.
    fn wait(&mut self, timeout: Option<Duration>) -> Result<(), DeviceError>;

    /// Descriptors that are readable when [`wait`](Device::wait) would answer at once, for an owner that waits for other
    /// things too; they stay the same for the device's life. None: it has to look by itself.
    fn descriptors(&self) -> Vec<RawFd> {
        Vec::new()
    }

    /// Those of them that tell of rare events, and of no completion.
    fn event_descriptors(&self) -> Vec<RawFd> {
        Vec::new()
    }

    /// Listens for requests.
    ///
    /// # Errors
    /// The address is no address of a device, or is taken.
    fn listen(&mut self, address: &str) -> Result<(), DeviceError>;

    /// Asks for a connection; an event says what became of it.
    ///
    /// # Errors
    /// The address is none, or the device has no room.
    fn connect(&mut self, address: &str, private: &[u8], wanted: &QueuePairLimits) -> Result<QueuePairId, DeviceError>;

    /// Accepts a request; [`Event::Established`] follows, or a failure.
    ///
    /// # Errors
    /// The request is gone, or the device has no room.
    fn accept(&mut self, request: ConnectRequestId, private: &[u8], wanted: &QueuePairLimits) -> Result<QueuePairId, DeviceError>;

    /// Refuses a request.
    fn reject(&mut self, request: ConnectRequestId, private: &[u8]);

    /// Ends a connection: all of its work completes, most of it as [`Status::Flushed`], and the peer is told.
    fn disconnect(&mut self, pair: QueuePairId);

    /// Forgets a queue pair and what it was given. Its completions may still be polled.
    fn destroy(&mut self, pair: QueuePairId);

    /// Appends what the connection manager has to tell. `now` is what [`now`](Device::now) has just said.
    ///
    /// # Errors
    /// The channel of events is broken.
    fn events(&mut self, now: Duration, into: &mut Vec<ConnectionEvent>) -> Result<(), DeviceError>;
}

/// A device of whatever kind.
pub type AnyDevice = Box<dyn Device>;

impl Device for AnyDevice {
    fn capabilities(&self) -> DeviceCapabilities {
        (**self).capabilities()
    }

    fn card(&self) -> String {
        (**self).card()
    }

    fn now(&self) -> Duration {
        (**self).now()
    }

    fn grant(&mut self, memory: Slice) -> Result<ReadGrant, DeviceError> {
        (**self).grant(memory)
    }

    fn revoke(&mut self, grant: ReadGrant) {
        (**self).revoke(grant);
    }

    fn post_receives(&mut self, buffers: &mut Vec<(WorkRequestId, BlockMut)>) -> Result<(), DeviceError> {
        (**self).post_receives(buffers)
    }

    fn post(&mut self, pair: QueuePairId, list: &mut Vec<WorkRequest>) -> Result<(), DeviceError> {
        (**self).post(pair, list)
    }

    fn poll(&mut self, into: &mut Vec<WorkCompletion>, most: usize) -> Result<usize, DeviceError> {
        (**self).poll(into, most)
    }

    fn arm(&mut self) -> Result<(), DeviceError> {
        (**self).arm()
    }

    fn wait(&mut self, timeout: Option<Duration>) -> Result<(), DeviceError> {
        (**self).wait(timeout)
    }

    fn descriptors(&self) -> Vec<RawFd> {
        (**self).descriptors()
    }

    fn request_event_poll(&mut self) {
        (**self).request_event_poll();
    }

    fn event_descriptors(&self) -> Vec<RawFd> {
        (**self).event_descriptors()
    }

    fn listen(&mut self, address: &str) -> Result<(), DeviceError> {
        (**self).listen(address)
    }

    fn connect(&mut self, address: &str, private: &[u8], wanted: &QueuePairLimits) -> Result<QueuePairId, DeviceError> {
        (**self).connect(address, private, wanted)
    }

    fn accept(&mut self, request: ConnectRequestId, private: &[u8], wanted: &QueuePairLimits) -> Result<QueuePairId, DeviceError> {
        (**self).accept(request, private, wanted)
    }

    fn reject(&mut self, request: ConnectRequestId, private: &[u8]) {
        (**self).reject(request, private);
    }

    fn disconnect(&mut self, pair: QueuePairId) {
        (**self).disconnect(pair);
    }

    fn destroy(&mut self, pair: QueuePairId) {
        (**self).destroy(pair);
    }

    fn events(&mut self, now: Duration, into: &mut Vec<ConnectionEvent>) -> Result<(), DeviceError> {
        (**self).events(now, into)
    }
}

/// The way to a peer, looked up and not yet taken.
pub struct ResolvedRoute {
    /// The name of the card that leads there, see [`Device::card`].
    pub card: String,
    /// Where the peer is, in words that a device of that card need not look up: connecting there does not wait.
    pub address: String,
    /// A device of that card, for who has none.
    pub open: Box<dyn FnOnce() -> Result<AnyDevice, DeviceError> + Send>,
}

impl fmt::Debug for ResolvedRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Way({} by {})", self.address, self.card)
    }
}

/// What a device can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceCapabilities {
    /// Bytes that a send may carry within the work itself; 0: none.
    pub inline_bytes_max: usize,
    /// Parts that a send gathers, the head among them.
    pub sge_max: usize,
    /// READs that a queue pair has under way at once.
    pub reads_issued_max: u8,
    /// READs of its peer that a queue pair answers at once.
    pub reads_answered_max: u8,
    /// Receive buffers that the shared queue takes.
    pub receives_max: usize,
    /// The end that asked for a connection sends the first message, and the other none before it has come: iWARP's rule. That
    /// the connection stands is told to the end that accepted too early there.
    pub initiator_sends_first: bool,
}

/// What is wanted of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuePairLimits {
    /// Slots of its send queue.
    pub send_slots: usize,
    /// How often the device tries again when the peer has no receive buffer: never for ever.
    pub receiver_not_ready_retries: u8,
    /// READs under way at once.
    pub reads_issued_max: u8,
    /// READs answered at once.
    pub reads_answered_max: u8,
}

/// A queue pair of a device. A number is not given a second time while completions of its first owner can be polled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueuePairId(pub u32);

/// A request for a connection that was neither accepted nor rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConnectRequestId(pub u64);

/// The number that its poster gave a piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WorkRequestId(pub u64);

/// Memory that a peer may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReadGrant {
    /// Where it begins, as the device counts.
    pub address: u64,
    /// The key that a peer must show.
    pub key: u32,
}

/// A few bytes by value: a device copies them into memory of its own when they are posted.
#[derive(Clone, Copy)]
pub struct MessageHead {
    bytes: [u8; HEAD_BYTES_MAX],
    len: u8,
}

impl MessageHead {
    /// Two pieces, one behind the other.
    ///
    /// # Panics
    /// If they are too long together.
    pub fn new(header: &[u8], payload: &[u8]) -> MessageHead {
        let mut bytes = [0; HEAD_BYTES_MAX];
        let len = header.len() + payload.len();
        bytes[..header.len()].copy_from_slice(header);
        bytes[header.len()..len].copy_from_slice(payload);
        MessageHead { bytes, len: len as u8 }
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl fmt::Debug for MessageHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Head({:02x?})", self.as_bytes())
    }
}

/// Something to do for a queue pair.
#[derive(Debug)]
pub enum WorkRequest {
    /// Sends a message: a head, then parts of message memory.
    Send {
        /// Its number.
        id: WorkRequestId,
        /// What comes first.
        head: MessageHead,
        /// What follows; those behind the last are empty.
        parts: [Slice; MESSAGE_PARTS_MAX],
        /// Whether the bytes go within the work itself.
        inline: bool,
        /// Whether its success gives a completion. A failure always does.
        signalled: bool,
    },
    /// Reads from the peer's memory; always gives a completion, with the memory.
    Read {
        /// Its number.
        id: WorkRequestId,
        /// Where the bytes go.
        into: BlockMut,
        /// Where in that memory they begin.
        at: usize,
        /// How many.
        bytes: u32,
        /// Where they come from, as the peer's device counts.
        address: u64,
        /// The key that the peer gave.
        key: u32,
    },
}

/// Something was done.
#[derive(Debug)]
pub struct WorkCompletion {
    /// What.
    pub id: WorkRequestId,
    /// For which queue pair.
    pub pair: QueuePairId,
    /// How it ended.
    pub status: CompletionStatus,
    /// Of a receive: how many bytes arrived.
    pub bytes: u32,
    /// The memory of a receive or a read; empty for a send.
    pub memory: BlockMut,
}

/// How a piece of work ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CompletionStatus {
    /// Well.
    Success,
    /// Not at all: its queue pair had failed before, or was disconnected.
    Flushed,
    /// The peer did not acknowledge it in time.
    RetryExceeded,
    /// The peer had no receive buffer for it in time.
    RnrRetryExceeded,
    /// The message was longer than the buffer that it met.
    LocalLength,
    /// Our own device may not use this memory.
    LocalProtection,
    /// The peer's device may not use this memory.
    RemoteAccess,
    /// Anything else, by the device's own number.
    Other(u32),
}

impl fmt::Display for CompletionStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CompletionStatus::Success => "done",
            CompletionStatus::Flushed => "the connection had ended",
            CompletionStatus::RetryExceeded => "the peer did not acknowledge in time",
            CompletionStatus::RnrRetryExceeded => "the peer had no receive buffer",
            CompletionStatus::LocalLength => "a message was longer than its buffer",
            CompletionStatus::LocalProtection => "local memory was not accessible",
            CompletionStatus::RemoteAccess => "the peer's memory was not accessible",
            CompletionStatus::Other(number) => return write!(f, "the device reports status {number}"),
        })
    }
}

/// What the connection manager tells.
#[derive(Debug)]
pub enum ConnectionEvent {
    /// Somebody asks for a connection.
    Request {
        /// To accept or reject it by.
        request: ConnectRequestId,
        /// What the peer sent with it.
        private: Vec<u8>,
        /// Who, and to which address of ours.
        peer: link::PeerAddress,
    },
    /// A connection stands. Messages of the peer may have been received before this.
    Established {
        /// Which.
        pair: QueuePairId,
        /// What the peer sent with its acceptance; nothing at the end that accepted.
        private: Vec<u8>,
    },
    /// The peer does not want it.
    Rejected {
        /// Which.
        pair: QueuePairId,
        /// What it says of that.
        private: Vec<u8>,
    },
    /// It could not be had.
    Failed {
        /// Which.
        pair: QueuePairId,
        /// In the words of the system.
        why: String,
    },
    /// The peer has ended it.
    Disconnected {
        /// Which.
        pair: QueuePairId,
    },
}

/// Why a device did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceError(pub String);

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RDMA: {}", self.0)
    }
}

impl std::error::Error for DeviceError {}

impl From<DeviceError> for std::io::Error {
    fn from(error: DeviceError) -> Self {
        std::io::Error::other(error)
    }
}
