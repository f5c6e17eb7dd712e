//! Completion queues, the channels that notify of new completions, and the completions themselves.

use std::fmt;
use std::io;
use std::mem;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use libc::c_int;

use crate::abi;
use crate::device::{DeviceContext, nonblocking};
use crate::error::IbError;
use crate::limits::POLL_BATCH;

/// A completion channel: readable when an armed queue has a completion.
#[derive(Clone)]
pub struct CompletionChannel(Arc<CompletionChannelHandle>);

struct CompletionChannelHandle {
    context: DeviceContext,
    raw: *mut abi::IbvCompChannel,
}

// SAFETY: libibverbs takes its own locks; the descriptor does not change.
unsafe impl Send for CompletionChannelHandle {}
// SAFETY: as above.
unsafe impl Sync for CompletionChannelHandle {}

impl Drop for CompletionChannelHandle {
    fn drop(&mut self) {
        // SAFETY: made below; every queue on it held a clone of the `Arc` that ends here.
        let answer = unsafe { (self.context.verbs().ibv_destroy_comp_channel)(self.raw) };
        debug_assert_eq!(answer, 0, "a channel goes while a queue uses it");
    }
}

impl CompletionChannel {
    /// A channel with a non-blocking descriptor.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn new(context: &DeviceContext) -> Result<Self, IbError> {
        // SAFETY: the context is open, and stays so while the channel exists, which holds it.
        let raw = unsafe { (context.verbs().ibv_create_comp_channel)(context.raw()) };
        if raw.is_null() {
            return Err(IbError::last_os_error("ibv_create_comp_channel"));
        }
        let channel = Self(Arc::new(CompletionChannelHandle { context: context.clone(), raw }));
        // SAFETY: made just now.
        nonblocking(unsafe { (*raw).fd })?;
        Ok(channel)
    }

    /// Takes and acknowledges all notifications. Returns their number. The queues must be armed again.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn drain(&self) -> Result<u32, IbError> {
        self.take(u32::MAX)
    }

    /// The same for at most `most` notifications. An armed queue notifies once, so a caller that knows how often it
    /// armed saves the call that finds nothing.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn take(&self, most: u32) -> Result<u32, IbError> {
        let verbs = self.0.context.verbs();
        let mut woken = 0;
        while woken < most {
            let (mut queue, mut owner) = (ptr::null_mut(), ptr::null_mut());
            // SAFETY: the channel exists, and both places are ours to write to.
            if unsafe { (verbs.ibv_get_cq_event)(self.0.raw, &mut queue, &mut owner) } != 0 {
                let error = io::Error::last_os_error();
                return match error.kind() {
                    io::ErrorKind::WouldBlock => Ok(woken),
                    io::ErrorKind::Interrupted => continue,
                    _ => Err(IbError::CallFailed { call: "ibv_get_cq_event", error }),
                };
            }
            // SAFETY: the queue exists: its destruction waits until this event is acknowledged, which is done once.
            unsafe { (verbs.ibv_ack_cq_events)(queue, 1) };
            woken += 1;
        }
        Ok(woken)
    }
}

impl AsFd for CompletionChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is open while the channel exists, which `self` holds.
        unsafe { BorrowedFd::borrow_raw((*self.0.raw).fd) }
    }
}

/// A completion queue of queue pairs and shared receive queues.
pub struct CompletionQueue {
    shared: Arc<CompletionQueueHandle>,
    /// The array that [`poll`](Self::poll) passes to the device.
    batch: Box<[abi::IbvWc]>,
}

/// What queue pairs hold of the queue: it is destroyed after them.
pub(crate) struct CompletionQueueHandle {
    context: DeviceContext,
    raw: *mut abi::IbvCq,
    entries: u32,
    _channel: Option<CompletionChannel>,
}

// SAFETY: libibverbs takes its own locks.
unsafe impl Send for CompletionQueueHandle {}
// SAFETY: as above.
unsafe impl Sync for CompletionQueueHandle {}

impl Drop for CompletionQueueHandle {
    fn drop(&mut self) {
        // SAFETY: made below; every queue pair on it held a clone of the `Arc` that ends here, and every event was
        // acknowledged by who took it.
        let answer = unsafe { (self.context.verbs().ibv_destroy_cq)(self.raw) };
        debug_assert_eq!(answer, 0, "a completion queue goes while something uses it");
    }
}

impl CompletionQueueHandle {
    pub(crate) fn raw(&self) -> *mut abi::IbvCq {
        self.raw
    }

    pub(crate) fn context(&self) -> &DeviceContext {
        &self.context
    }
}

impl CompletionQueue {
    /// A queue of at least `entries`: as many as there can be outstanding work requests. An overflow loses completions
    /// and every queue pair that uses the queue.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn new(context: &DeviceContext, entries: u32, channel: Option<&CompletionChannel>) -> Result<Self, IbError> {
        let on = channel.map_or(ptr::null_mut(), |channel| channel.0.raw);
        if channel.is_some_and(|channel| channel.0.context != *context) {
            return Err(IbError::InvalidState("the channel belongs to another device"));
        }
        let count = c_int::try_from(entries).unwrap_or(c_int::MAX);
        // SAFETY: the context is open and the channel exists; both stay so while the queue does, which holds them.
        let raw = unsafe { (context.verbs().ibv_create_cq)(context.raw(), count, ptr::null_mut(), on, 0) };
        if raw.is_null() {
            return Err(IbError::last_os_error("ibv_create_cq"));
        }
        // SAFETY: made just now.
        let entries = u32::try_from(unsafe { (*raw).cqe }).unwrap_or(entries);
        let shared =
            Arc::new(CompletionQueueHandle { context: context.clone(), raw, entries, _channel: channel.cloned() });
        // SAFETY: a structure of numbers, for which zero is a value.
        let empty: abi::IbvWc = unsafe { mem::zeroed() };
        Ok(Self { shared, batch: vec![empty; POLL_BATCH].into() })
    }

    pub(crate) fn shared(&self) -> &Arc<CompletionQueueHandle> {
        &self.shared
    }

    /// The capacity in completions.
    pub fn entries(&self) -> u32 {
        self.shared.entries
    }

    /// Appends at most [`POLL_BATCH`] completions to `into` and returns their number. A smaller number means that there
    /// are no more.
    ///
    /// # Errors
    /// The device's error; then the queue is unusable.
    pub fn poll(&mut self, into: &mut Vec<Completion>) -> Result<usize, IbError> {
        let poll =
            self.shared.context.ops().poll_cq.ok_or(IbError::InvalidState("the provider does not support polling"))?;
        // SAFETY: the queue exists, and the batch has room for as many completions.
        let count = unsafe { poll(self.shared.raw, self.batch.len() as c_int, self.batch.as_mut_ptr()) };
        let Ok(count) = usize::try_from(count) else {
            return Err(IbError::CallFailed { call: "ibv_poll_cq", error: io::Error::from_raw_os_error(libc::EIO) });
        };
        into.extend(self.batch[..count.min(POLL_BATCH)].iter().map(Completion::of));
        Ok(count)
    }

    /// Requests a notification of the next completion. Poll once more after this and before waiting: completions that
    /// are there already do not notify.
    ///
    /// # Errors
    /// The device's error.
    pub fn arm(&mut self) -> Result<(), IbError> {
        let arm = self
            .shared
            .context
            .ops()
            .req_notify_cq
            .ok_or(IbError::InvalidState("the provider does not support notifications"))?;
        // SAFETY: the queue exists.
        IbError::check("ibv_req_notify_cq", unsafe { arm(self.shared.raw, 0) })
    }
}

/// The queue pair or shared receive queue of a completion. Never reused in a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WorkQueueId(u32);

impl WorkQueueId {
    pub(crate) fn new() -> Result<Self, IbError> {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let next = NEXT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| next.checked_add(1));
        // One per connection: a process has to be restarted after four thousand million of them.
        next.map(Self).map_err(|_| IbError::Limit { what: "queues in one process", requested: 1, max: 0 })
    }

    /// The id of a work request: the queue and the slot in it.
    pub(crate) fn wr_id(self, place: u32) -> u64 {
        u64::from(self.0) << 32 | u64::from(place)
    }
}

/// The completion of a work request, successful or not.
///
/// Only a completion returns posted memory, so it cannot be copied or made. Hand it to the queue with the id
/// [`work_queue`](Self::work_queue).
#[derive(Debug)]
pub struct Completion {
    wr_id: u64,
    queue_pair: u32,
    bytes: u32,
    status: WcStatus,
    opcode: WcOpcode,
    immediate: Option<u32>,
}

impl Completion {
    fn of(raw: &abi::IbvWc) -> Self {
        let status = WcStatus(raw.status as u8);
        let kind = match raw.opcode {
            _ if !status.is_success() => WcOpcode::Failed,
            opcode if opcode & abi::WC_RECV != 0 => WcOpcode::Receive,
            abi::WC_RDMA_READ => WcOpcode::Read,
            abi::WC_RDMA_WRITE => WcOpcode::Write,
            _ => WcOpcode::Send,
        };
        let immediate = kind == WcOpcode::Receive && raw.wc_flags & abi::WC_FLAG_WITH_IMM != 0;
        Self {
            wr_id: raw.wr_id,
            queue_pair: raw.qp_num,
            bytes: if kind == WcOpcode::Receive { raw.byte_len } else { 0 },
            status,
            opcode: kind,
            immediate: immediate.then(|| u32::from_be(raw.imm_data)),
        }
    }

    /// The queue to hand this to.
    pub fn work_queue(&self) -> WorkQueueId {
        WorkQueueId((self.wr_id >> 32) as u32)
    }

    pub(crate) fn slot(&self) -> u32 {
        self.wr_id as u32
    }

    /// The number of the queue pair, also for a receive from a shared queue.
    pub fn queue_pair(&self) -> u32 {
        self.queue_pair
    }

    pub fn status(&self) -> WcStatus {
        self.status
    }

    /// The operation. A device does not report it for work that has failed.
    pub fn opcode(&self) -> WcOpcode {
        self.opcode
    }

    /// Bytes received.
    pub fn bytes(&self) -> u32 {
        self.bytes
    }

    /// The immediate data, if the message had any.
    pub fn immediate(&self) -> Option<u32> {
        self.immediate
    }
}

/// The operation of a completion (`ibv_wc_opcode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WcOpcode {
    /// A send: the peer's device has the message.
    Send,
    Receive,
    /// An RDMA READ: the memory is filled.
    Read,
    /// An RDMA WRITE.
    Write,
    /// The operation is unknown, because it failed.
    Failed,
}

/// The status of a completion (`ibv_wc_status`).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct WcStatus(u8);

impl WcStatus {
    pub const SUCCESS: Self = Self(0);
    /// The message is longer than the posted buffer.
    pub const LOCAL_LENGTH: Self = Self(1);
    /// Local memory is not registered.
    pub const LOCAL_PROTECTION: Self = Self(4);
    /// The queue pair is in the error state: this and all later work is flushed.
    pub const WR_FLUSH: Self = Self(5);
    /// The peer's device rejects the request as invalid.
    pub const REMOTE_INVALID: Self = Self(9);
    /// The peer's memory is not registered, or not for this access.
    pub const REMOTE_ACCESS: Self = Self(10);
    /// The peer's device could not complete the operation.
    pub const REMOTE_OPERATION: Self = Self(11);
    /// No acknowledgement after all retries: the peer or the path to it is gone. **No event of the connection manager
    /// follows.**
    pub const RETRY_EXCEEDED: Self = Self(12);
    /// The peer had no receive posted after all retries.
    pub const RNR_RETRY_EXCEEDED: Self = Self(13);

    /// Whether the work succeeded. If not, its queue pair is in the error state: the connection has ended.
    pub fn is_success(self) -> bool {
        self == Self::SUCCESS
    }

    /// The number in the C interface.
    pub fn number(self) -> u8 {
        self.0
    }
}

impl fmt::Display for WcStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            Self::SUCCESS => "done",
            Self::LOCAL_LENGTH => "the message is longer than the receive buffer",
            Self::LOCAL_PROTECTION => "local memory is not registered",
            Self::WR_FLUSH => "the connection has ended",
            Self::REMOTE_INVALID => "the peer's device rejects the request as invalid",
            Self::REMOTE_ACCESS => "the peer's memory does not allow this access",
            Self::REMOTE_OPERATION => "the peer's device has failed",
            Self::RETRY_EXCEEDED => "the peer does not answer",
            Self::RNR_RETRY_EXCEEDED => "the peer has no receive posted",
            Self(number) => return write!(f, "failed with status {number}"),
        })
    }
}

impl fmt::Debug for WcStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WcStatus({}: {self})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::{Completion, WcOpcode, WcStatus, WorkQueueId};
    use crate::abi;

    fn raw(status: u32, opcode: u32) -> abi::IbvWc {
        abi::IbvWc {
            wr_id: (7 << 32) | 9,
            status,
            opcode,
            vendor_err: 0,
            byte_len: 5,
            imm_data: 1u32.to_be(),
            qp_num: 3,
            src_qp: 0,
            wc_flags: abi::WC_FLAG_WITH_IMM,
            pkey_index: 0,
            slid: 0,
            sl: 0,
            dlid_path_bits: 0,
        }
    }

    #[test]
    fn a_completion_says_what_the_device_did_and_no_more() {
        let receive = Completion::of(&raw(0, abi::WC_RECV));
        assert_eq!((receive.opcode(), receive.bytes(), receive.immediate()), (WcOpcode::Receive, 5, Some(1)));
        assert_eq!((receive.work_queue(), receive.slot(), receive.queue_pair()), (WorkQueueId(7), 9, 3));
        let read = Completion::of(&raw(0, abi::WC_RDMA_READ));
        assert_eq!((read.opcode(), read.bytes(), read.immediate()), (WcOpcode::Read, 0, None));
        let failed = Completion::of(&raw(12, abi::WC_RECV));
        assert_eq!((failed.opcode(), failed.status(), failed.bytes()), (WcOpcode::Failed, WcStatus::RETRY_EXCEEDED, 0));
    }

    #[test]
    fn no_two_queues_have_one_tag() {
        let (one, other) = (WorkQueueId::new().expect("a tag"), WorkQueueId::new().expect("a tag"));
        assert_ne!(one, other);
        assert_eq!(one.wr_id(u32::MAX) >> 32, u64::from(one.0));
    }
}
