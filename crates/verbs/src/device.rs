//! The interface of a device: reliable connections, work requests, completions, and memory that changes owners.
//!
//! A device may refuse, delay and fail, but it never returns the same memory twice.

use crate::limits::{HEAD_BYTES_MAX, MESSAGE_PARTS_MAX};
use slab::{BlockMut, Slice};
use std::fmt;
use std::os::fd::RawFd;
use std::time::Duration;

/// One shard's share of a device: one completion queue, one shared receive queue, one channel of events, any number of
/// reliable connected queue pairs.
///
/// Only [`wait`](Device::wait) blocks. Posted memory belongs to the device until its completion is polled (of
/// unsignalled sends: that of a later send of the same queue pair), or until the queue pair is destroyed. A device
/// registers whole regions of message memory ([`Slice::region`]) on first use, for local access only; only
/// [`grant`](Device::grant) lets a peer read, and exactly the bytes of one slice.
pub trait Device: Send + 'static {
    fn capabilities(&self) -> DeviceCapabilities;

    /// The name of the card. All devices of one card reach the same peers.
    fn card(&self) -> String;

    /// Monotonic time since an arbitrary moment: the clock of all deadlines.
    fn now(&self) -> Duration;

    /// Lets peers read exactly these bytes until the grant is revoked. The device holds the slice until then.
    ///
    /// # Errors
    /// The device can make no more registrations, or the limit of locked memory is reached.
    fn grant(&mut self, memory: Slice) -> Result<ReadGrant, DeviceError>;

    /// Ends a grant: later READs fail.
    fn revoke(&mut self, grant: ReadGrant);

    /// Posts buffers to the shared receive queue and empties the list: one doorbell. The device checks that a message
    /// fits into its buffer.
    ///
    /// # Errors
    /// The device has failed. The list is emptied as well.
    fn post_receives(&mut self, buffers: &mut Vec<(WorkRequestId, BlockMut)>) -> Result<(), DeviceError>;

    /// Posts work requests to the send queue of a queue pair, in order, and empties the list: one doorbell.
    ///
    /// # Errors
    /// The queue pair or the device has failed. The list is emptied as well.
    fn post(&mut self, pair: QueuePairId, list: &mut Vec<WorkRequest>) -> Result<(), DeviceError>;

    /// Appends at most `most` completions. Returns their number.
    ///
    /// # Errors
    /// The completion queue has failed.
    fn poll(&mut self, into: &mut Vec<WorkCompletion>, most: usize) -> Result<usize, DeviceError>;

    /// Requests a notification of the next completion. Poll once more after this and before waiting.
    ///
    /// # Errors
    /// The device has failed.
    fn arm(&mut self) -> Result<(), DeviceError>;

    /// Makes the next call of [`events`](Device::events) poll in any case, for an owner that may have been woken by one
    /// of [`event_descriptors`](Device::event_descriptors). Otherwise a device polls for events from time to time, and
    /// after [`wait`](Device::wait).
    fn request_event_poll(&mut self) {}

    /// Blocks until there may be a completion (if armed) or an event, or until the time-out.
    ///
    /// # Errors
    /// The system cannot wait.
    fn wait(&mut self, timeout: Option<Duration>) -> Result<(), DeviceError>;

    /// The descriptors that are readable when [`wait`](Device::wait) would return at once, for an owner that waits for
    /// several things. They never change. If there are none, the owner has to poll.
    fn descriptors(&self) -> Vec<RawFd> {
        Vec::new()
    }

    /// Those of the descriptors that report events, and no completions.
    fn event_descriptors(&self) -> Vec<RawFd> {
        Vec::new()
    }

    /// Listens for requests.
    ///
    /// # Errors
    /// No device has the address, or it is in use.
    fn listen(&mut self, address: &str) -> Result<(), DeviceError>;

    /// Requests a connection; its result is an event.
    ///
    /// # Errors
    /// The address is invalid, or the device has no resources left.
    fn connect(&mut self, address: &str, private: &[u8], limits: &QueuePairLimits) -> Result<QueuePairId, DeviceError>;

    /// Accepts a request; [`ConnectionEvent::Established`] follows, or a failure.
    ///
    /// # Errors
    /// The request is gone, or the device has no resources left.
    fn accept(
        &mut self,
        request: ConnectRequestId,
        private: &[u8],
        limits: &QueuePairLimits,
    ) -> Result<QueuePairId, DeviceError>;

    /// Refuses a request.
    fn reject(&mut self, request: ConnectRequestId, private: &[u8]);

    /// Ends a connection: all of its work completes, most of it as [`CompletionStatus::Flushed`], and the peer is
    /// notified.
    fn disconnect(&mut self, pair: QueuePairId);

    /// Destroys a queue pair. Its completions may still be polled.
    fn destroy(&mut self, pair: QueuePairId);

    /// Appends connection events. `now` is the current value of [`now`](Device::now).
    ///
    /// # Errors
    /// The event channel has failed.
    fn events(&mut self, now: Duration, into: &mut Vec<ConnectionEvent>) -> Result<(), DeviceError>;
}

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

    fn connect(&mut self, address: &str, private: &[u8], limits: &QueuePairLimits) -> Result<QueuePairId, DeviceError> {
        (**self).connect(address, private, limits)
    }

    fn accept(
        &mut self,
        request: ConnectRequestId,
        private: &[u8],
        limits: &QueuePairLimits,
    ) -> Result<QueuePairId, DeviceError> {
        (**self).accept(request, private, limits)
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

/// A resolved route to a peer.
pub struct ResolvedRoute {
    /// The name of the card that routes to the peer, see [`Device::card`].
    pub card: String,
    /// The peer's numeric address: connecting to it looks no name up.
    pub address: String,
    /// Opens a device of that card.
    pub open: Box<dyn FnOnce() -> Result<AnyDevice, DeviceError> + Send>,
}

impl fmt::Debug for ResolvedRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ResolvedRoute({} by {})", self.address, self.card)
    }
}

/// What a device can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceCapabilities {
    /// Most bytes of an inline send; 0: none.
    pub inline_bytes_max: usize,
    /// Scatter/gather elements of a send, including the header.
    pub sge_max: usize,
    /// READs that a queue pair may have outstanding.
    pub reads_issued_max: u8,
    /// READs of its peer that a queue pair answers at once.
    pub reads_answered_max: u8,
    /// Receive buffers that the shared receive queue takes.
    pub receives_max: usize,
    /// iWARP's rule: the connecting end sends the first message, and the accepting end must not send before it has
    /// arrived. There the accepting end gets its [`ConnectionEvent::Established`] too early.
    pub initiator_sends_first: bool,
}

/// The capacities of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuePairLimits {
    pub send_slots: usize,
    /// How often the device retries when the peer has no receive posted; never without end.
    pub receiver_not_ready_retries: u8,
    /// READs outstanding at once.
    pub reads_issued_max: u8,
    /// READs answered at once.
    pub reads_answered_max: u8,
}

/// A queue pair of a device. A number is not reused while completions of its first queue pair can be polled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueuePairId(pub u32);

/// A connection request that was neither accepted nor rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConnectRequestId(pub u64);

/// The id of a work request (`wr_id`), chosen by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WorkRequestId(pub u64);

/// Memory that a peer may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReadGrant {
    /// Its start in the device's address space.
    pub address: u64,
    /// The remote key.
    pub key: u32,
}

/// A message's header and short payload, by value: a device copies them when they are posted.
#[derive(Clone, Copy)]
pub struct SendHead {
    bytes: [u8; HEAD_BYTES_MAX],
    len: u8,
}

impl SendHead {
    /// A header followed by a payload.
    ///
    /// # Panics
    /// If they are too long together.
    pub fn new(header: &[u8], payload: &[u8]) -> SendHead {
        let mut bytes = [0; HEAD_BYTES_MAX];
        let len = header.len() + payload.len();
        bytes[..header.len()].copy_from_slice(header);
        bytes[header.len()..len].copy_from_slice(payload);
        SendHead { bytes, len: len as u8 }
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl fmt::Debug for SendHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SendHead({:02x?})", self.as_bytes())
    }
}

#[derive(Debug)]
pub enum WorkRequest {
    /// Sends a message: a header, then parts of message memory.
    Send {
        /// Its number.
        id: WorkRequestId,
        /// The start of the message.
        head: SendHead,
        /// The rest of the message; unused parts are empty.
        parts: [Slice; MESSAGE_PARTS_MAX],
        /// Whether the bytes are copied into the work request.
        inline: bool,
        /// Whether it is signalled. A failure always gives a completion.
        signalled: bool,
    },
    /// RDMA READ of the peer's memory; always gives a completion, which returns the memory.
    Read {
        /// Its number.
        id: WorkRequestId,
        /// The memory to read into.
        into: BlockMut,
        /// The offset in that memory.
        at: usize,
        bytes: u32,
        /// The address in the peer's memory.
        address: u64,
        /// The remote key.
        key: u32,
    },
}

#[derive(Debug)]
pub struct WorkCompletion {
    pub id: WorkRequestId,
    pub pair: QueuePairId,
    /// How it ended.
    pub status: CompletionStatus,
    /// The number of received bytes.
    pub bytes: u32,
    /// The memory of a receive or a READ; empty for a send.
    pub memory: BlockMut,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CompletionStatus {
    /// Well.
    Success,
    /// Not executed: the queue pair had failed before, or was disconnected.
    Flushed,
    /// No acknowledgement after all retries.
    RetryExceeded,
    /// The peer had no receive posted after all retries.
    RnrRetryExceeded,
    /// The message was longer than its receive buffer.
    LocalLength,
    /// The local memory is not registered for this access.
    LocalProtection,
    /// The remote memory is not registered for this access.
    RemoteAccess,
    /// Another status, by its number.
    Other(u32),
}

impl fmt::Display for CompletionStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CompletionStatus::Success => "done",
            CompletionStatus::Flushed => "the connection has ended",
            CompletionStatus::RetryExceeded => "the peer did not acknowledge in time",
            CompletionStatus::RnrRetryExceeded => "the peer had no receive buffer",
            CompletionStatus::LocalLength => "a message was longer than its buffer",
            CompletionStatus::LocalProtection => "local memory was not accessible",
            CompletionStatus::RemoteAccess => "the peer's memory was not accessible",
            CompletionStatus::Other(number) => return write!(f, "the device reports status {number}"),
        })
    }
}

/// An event of the connection manager.
#[derive(Debug)]
pub enum ConnectionEvent {
    /// A peer requests a connection.
    Request {
        /// The id to accept or reject it.
        request: ConnectRequestId,
        /// The private data of the request.
        private: Vec<u8>,
        /// The peer's address, and the local one.
        peer: link::PeerAddress,
    },
    /// A connection is established. Messages of the peer may have been received before this event.
    Established {
        pair: QueuePairId,
        /// The private data of the acceptance; empty at the accepting end.
        private: Vec<u8>,
    },
    /// The peer has rejected it.
    Rejected {
        pair: QueuePairId,
        /// The private data of the rejection.
        private: Vec<u8>,
    },
    /// Connecting has failed.
    Failed { pair: QueuePairId, why: String },
    /// The connection has ended.
    Disconnected { pair: QueuePairId },
}

/// Why a call of a device failed.
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
