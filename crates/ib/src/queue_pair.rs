//! Reliable connected queue pairs: the work that is posted, and the memory that it owns meanwhile.
//!
//! A queue pair takes no more work than it has slots for, and only completions free slots.

use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomData;
use std::mem;
use std::ptr;
use std::sync::Arc;

use libc::c_int;

use crate::abi;
use crate::cm::lock;
use crate::cm_id::{CmId, CmIdHandle};
use crate::completion::{self, Completion, CompletionQueue, WorkQueueId};
use crate::error::IbError;
use crate::limits::{SGE_MAX, WORK_REQUESTS_MAX};
use crate::memory::{ExclusiveMemory, StableMemory};
use crate::region::{LocalKey, ProtectionDomain, RemoteMemory};
use crate::shared_receive_queue::{self, SharedReceiveQueue, count_before};

/// The capacities of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuePairOptions {
    /// Work requests that may be outstanding.
    pub send_wr_max: u32,
    /// Scatter/gather elements of one send.
    pub send_sge_max: u32,
    /// Bytes of an inline send, which needs no registered memory.
    pub inline_bytes_max: u32,
}

/// A queue pair. `S` is memory to send from, `F` memory that READs fill.
///
/// Before dropping it, disconnect its id or move it to the error state, and poll its completions: otherwise receive
/// buffers that the device had taken for it from the shared queue are not returned until that queue is destroyed.
pub struct QueuePair<S: StableMemory, F: ExclusiveMemory> {
    id: Arc<CmIdHandle>,
    raw: *mut abi::IbvQp,
    number: u32,
    options: QueuePairOptions,
    tag: WorkQueueId,
    /// Work without a completion yet, the oldest first.
    outstanding: VecDeque<PostedWork<F>>,
    /// The segments of all sends in `outstanding`, in order.
    segments: VecDeque<S>,
    /// The slot number of the next work request.
    next: u32,
    requests: Vec<abi::IbvSendWr>,
    pieces: Vec<abi::IbvSge>,
    // Dropped after the queue pair, which was made with them.
    _completions: [Arc<completion::CompletionQueueHandle>; 2],
    _receives: Arc<shared_receive_queue::SharedReceiveQueueHandle>,
    domain: ProtectionDomain,
}

// SAFETY: libibverbs takes its own locks; the pointers in `requests` mean nothing between two calls.
unsafe impl<S: StableMemory, F: ExclusiveMemory> Send for QueuePair<S, F> {}

struct PostedWork<F> {
    cookie: u64,
    /// How many of the queue pair's `segments` belong to it.
    segments: u32,
    read_memory: Option<F>,
}

#[derive(Debug)]
pub struct CompletedWork<F> {
    /// The cookie it was posted with.
    pub cookie: u64,
    /// The memory of a READ: filled, if the completion was successful.
    pub read_memory: Option<F>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PostOptions {
    /// A number of the caller's choice, which is returned with the completed work.
    pub cookie: u64,
    /// Whether the work is signalled. Unsignalled work completes with the next signalled work, or with a failure; so
    /// signal at least one request in every `send_wr_max`, and the last one.
    pub signalled: bool,
}

impl<S: StableMemory, F: ExclusiveMemory> QueuePair<S, F> {
    /// A queue pair for an id that has a device: [`CmId::accept`] or [`CmId::connect`] then connects it.
    ///
    /// # Errors
    /// [`IbError::InvalidState`] if the id has no device, or not that of `domain`; [`IbError::Limit`]; the operating
    /// system's error: `EINVAL` is most often an inline limit that the device does not have.
    pub fn new(
        id: &CmId,
        domain: &ProtectionDomain,
        sends: &CompletionQueue,
        receives_done: &CompletionQueue,
        receives: &SharedReceiveQueue<impl ExclusiveMemory>,
        options: QueuePairOptions,
    ) -> Result<Self, IbError> {
        IbError::check_limit("work of a queue pair", options.send_wr_max as usize, WORK_REQUESTS_MAX as usize)?;
        IbError::check_limit("pieces of a send", options.send_sge_max as usize, SGE_MAX)?;
        let context = id.context()?;
        let parts = [
            domain.context(),
            sends.shared().context(),
            receives_done.shared().context(),
            receives.shared().domain().context(),
        ];
        if parts.iter().any(|&part| *part != context) {
            return Err(IbError::InvalidState("a queue pair and its resources must belong to one device"));
        }
        let mut attributes = abi::IbvQpInitAttr {
            qp_context: ptr::null_mut(),
            send_cq: sends.shared().raw(),
            recv_cq: receives_done.shared().raw(),
            srq: receives.shared().raw(),
            cap: abi::IbvQpCap {
                max_send_wr: options.send_wr_max,
                max_recv_wr: 0,
                max_send_sge: options.send_sge_max,
                max_recv_sge: 0,
                max_inline_data: options.inline_bytes_max,
            },
            qp_type: abi::QPT_RC,
            sq_sig_all: 0,
        };
        let (made, tag) = (id.handle().clone(), WorkQueueId::new()?);
        let locked = lock();
        // SAFETY: the id has a device, and everything named in the attributes exists on it, and stays so while the
        // queue pair does, which holds it.
        let answer = unsafe { (made.cm().rdma_create_qp)(made.raw(), domain.raw(), &mut attributes) };
        IbError::check("rdma_create_qp", answer)?;
        // SAFETY: the id exists and has a queue pair since just now.
        let (raw, number) = unsafe { ((*made.raw()).qp, (*(*made.raw()).qp).qp_num) };
        drop(locked);
        Ok(Self {
            id: made,
            raw,
            number,
            options: QueuePairOptions { inline_bytes_max: attributes.cap.max_inline_data, ..options },
            tag,
            outstanding: VecDeque::new(),
            segments: VecDeque::new(),
            next: 0,
            requests: Vec::new(),
            pieces: Vec::new(),
            _completions: [sends.shared().clone(), receives_done.shared().clone()],
            _receives: receives.shared().clone(),
            domain: domain.clone(),
        })
    }

    /// Its number on this device, which completions carry.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The id that completions of this queue pair's own work have.
    pub fn work_queue(&self) -> WorkQueueId {
        self.tag
    }

    /// Its capacities: the device may allow longer inline sends than requested.
    pub fn options(&self) -> QueuePairOptions {
        self.options
    }

    /// Free slots of the send queue.
    pub fn free_slots(&self) -> usize {
        self.options.send_wr_max as usize - self.outstanding.len()
    }

    /// Work requests without a completion yet.
    pub fn outstanding(&self) -> usize {
        self.outstanding.len()
    }

    /// Begins a batch of work, which is posted with one call.
    pub fn batch<'q, 'i>(&'q mut self) -> SendBatch<'q, 'i, S, F> {
        self.requests.clear();
        self.pieces.clear();
        SendBatch { queue_pair: self, inline: PhantomData }
    }

    /// Takes a completion of this queue pair's work: that work has completed, and all that was posted before it.
    ///
    /// # Errors
    /// [`IbError::WrongQueue`] for the completion belongs to another queue.
    pub fn on_completion(&mut self, completion: Completion, into: &mut Vec<CompletedWork<F>>) -> Result<(), IbError> {
        self.on_completion_with(completion, into, drop)
    }

    /// As [`on_completion`](Self::on_completion); each segment that was sent is passed to `sent`.
    ///
    /// # Errors
    /// As [`on_completion`](Self::on_completion).
    pub fn on_completion_with(
        &mut self,
        completion: Completion,
        into: &mut Vec<CompletedWork<F>>,
        sent: impl FnMut(S),
    ) -> Result<(), IbError> {
        if completion.work_queue() != self.tag {
            return Err(IbError::WrongQueue);
        }
        let oldest = self.next.wrapping_sub(self.outstanding.len() as u32);
        let ended = completion.slot().wrapping_sub(oldest) as usize;
        if ended >= self.outstanding.len() {
            // A device that reports the same work twice.
            return Err(IbError::WrongQueue);
        }
        let mut held = 0;
        for work in self.outstanding.drain(..=ended) {
            held += work.segments as usize;
            into.push(CompletedWork { cookie: work.cookie, read_memory: work.read_memory });
        }
        self.segments.drain(..held).for_each(sent);
        Ok(())
    }

    /// Destroys it and returns the outstanding work, whose memory the device does not access any more. Completions that
    /// were not polled have no meaning then.
    pub fn destroy(mut self, into: &mut Vec<CompletedWork<F>>, sent: impl FnMut(S)) {
        let (under_way, held) = (mem::take(&mut self.outstanding), mem::take(&mut self.segments));
        // Destroyed before any of the memory can be reused.
        drop(self);
        into.extend(
            under_way.into_iter().map(|work| CompletedWork { cookie: work.cookie, read_memory: work.read_memory }),
        );
        held.into_iter().for_each(sent);
    }

    ///
    /// # Errors
    /// The operating system's error.
    pub fn state(&self) -> Result<QueuePairState, IbError> {
        // SAFETY: structures of numbers and pointers, for which zero is a value.
        let (mut attributes, mut initial): (abi::IbvQpAttr, abi::IbvQpInitAttr) = unsafe { mem::zeroed() };
        // SAFETY: the queue pair exists, and both structures are as large as the library expects (`tests/layout.rs`).
        let answer = unsafe {
            (self.domain.context().verbs().ibv_query_qp)(self.raw, &mut attributes, abi::QP_STATE, &mut initial)
        };
        IbError::check("ibv_query_qp", answer)?;
        Ok(match attributes.qp_state {
            0 | 1 => QueuePairState::Unconnected,
            2 => QueuePairState::ReadyToReceive,
            3 => QueuePairState::ReadyToSend,
            6 => QueuePairState::Error,
            number => QueuePairState::Other(number),
        })
    }

    /// Moves it to the error state: all work completes as flushed, and the peer's work fails. This ends a connection at
    /// once.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn move_to_error(&mut self) -> Result<(), IbError> {
        // SAFETY: a structure of numbers, for which zero is a value.
        let mut attributes: abi::IbvQpAttr = unsafe { mem::zeroed() };
        attributes.qp_state = abi::QPS_ERR;
        // SAFETY: the queue pair exists, and of the structure only the state is looked at.
        let answer = unsafe { (self.domain.context().verbs().ibv_modify_qp)(self.raw, &mut attributes, abi::QP_STATE) };
        IbError::check("ibv_modify_qp", answer)
    }

    /// Drops the newest `count` requests, which were not posted.
    fn drop_unposted(&mut self, count: usize) {
        for work in self.outstanding.drain(self.outstanding.len() - count..) {
            self.segments.truncate(self.segments.len() - work.segments as usize);
        }
        self.next = self.next.wrapping_sub(count as u32);
    }
}

impl<S: StableMemory, F: ExclusiveMemory> Drop for QueuePair<S, F> {
    fn drop(&mut self) {
        let _locked = lock();
        // SAFETY: the id exists and has this queue pair, which is destroyed once. The device reaches none of the memory
        // in `segments` and `outstanding` behind this, and these go after it.
        unsafe { (self.id.cm().rdma_destroy_qp)(self.id.raw()) };
    }
}

impl<S: StableMemory, F: ExclusiveMemory> fmt::Debug for QueuePair<S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "QueuePair({}, {} under way)", self.number, self.outstanding.len())
    }
}

/// The state of a queue pair (`ibv_qp_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueuePairState {
    /// RESET or INIT: not connected yet.
    Unconnected,
    /// RTR.
    ReadyToReceive,
    /// RTS.
    ReadyToSend,
    /// ERR: all work fails.
    Error,
    /// Another, by its number in the C interface.
    Other(u32),
}

/// Work requests that are posted with one call. Dropping it without [`post`](Self::post) posts none of them.
pub struct SendBatch<'q, 'i, S: StableMemory, F: ExclusiveMemory> {
    queue_pair: &'q mut QueuePair<S, F>,
    /// Inline bytes must live until the batch is posted.
    inline: PhantomData<&'i [u8]>,
}

impl<'i, S: StableMemory, F: ExclusiveMemory> SendBatch<'_, 'i, S, F> {
    pub fn len(&self) -> usize {
        self.queue_pair.requests.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sends the segments, in order, as one message, which consumes one of the peer's receives.
    ///
    /// # Errors
    /// [`IbError::QueueFull`], [`IbError::Limit`] for too many segments, [`IbError::NotRegistered`]. Then the segments
    /// are dropped and the batch is unchanged.
    pub fn send(
        &mut self,
        pieces: impl IntoIterator<Item = (S, LocalKey)>,
        options: PostOptions,
    ) -> Result<(), IbError> {
        let held = self.add_segments(pieces)?;
        self.add_request(
            abi::WR_SEND,
            0,
            None,
            PostedWork { cookie: options.cookie, segments: held, read_memory: None },
            held,
            options,
        );
        Ok(())
    }

    /// RDMA WRITE of the segments, in order, to the start of a peer's memory.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn write(
        &mut self,
        pieces: impl IntoIterator<Item = (S, LocalKey)>,
        to: RemoteMemory,
        options: PostOptions,
    ) -> Result<(), IbError> {
        let held = self.add_segments(pieces)?;
        self.add_request(
            abi::WR_RDMA_WRITE,
            0,
            Some(to),
            PostedWork { cookie: options.cookie, segments: held, read_memory: None },
            held,
            options,
        );
        Ok(())
    }

    /// Sends the parts, in order, as one message of at most [`QueuePairOptions::inline_bytes_max`]. They are read when
    /// the batch is posted; their memory need not be registered.
    ///
    /// # Errors
    /// [`IbError::QueueFull`], [`IbError::Limit`]. Then the batch is unchanged.
    pub fn send_inline(&mut self, parts: &[&'i [u8]], options: PostOptions) -> Result<(), IbError> {
        self.add_inline(abi::WR_SEND, parts, None, options)
    }

    /// RDMA WRITE of the parts to the start of a peer's memory, inline as in [`send_inline`](Self::send_inline).
    ///
    /// # Errors
    /// As [`send_inline`](Self::send_inline).
    pub fn write_inline(&mut self, parts: &[&'i [u8]], to: RemoteMemory, options: PostOptions) -> Result<(), IbError> {
        self.add_inline(abi::WR_RDMA_WRITE, parts, Some(to), options)
    }

    fn add_inline(
        &mut self,
        opcode: u32,
        parts: &[&'i [u8]],
        peer: Option<RemoteMemory>,
        options: PostOptions,
    ) -> Result<(), IbError> {
        let bytes = parts.iter().map(|part| part.len()).sum();
        IbError::check_limit("bytes of an inline send", bytes, self.queue_pair.options.inline_bytes_max as usize)?;
        IbError::check_limit("pieces of a send", parts.len(), self.queue_pair.options.send_sge_max as usize)?;
        self.check_room()?;
        self.queue_pair.pieces.extend(parts.iter().map(|part| abi::IbvSge {
            addr: part.as_ptr().expose_provenance() as u64,
            length: part.len() as u32,
            lkey: 0,
        }));
        let work = PostedWork { cookie: options.cookie, segments: 0, read_memory: None };
        self.add_request(opcode, abi::SEND_INLINE, peer, work, parts.len() as u32, options);
        Ok(())
    }

    /// RDMA READ of the start of a peer's memory into all of `into`. The completed work returns the memory.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn read(&mut self, into: F, key: LocalKey, from: RemoteMemory, options: PostOptions) -> Result<(), IbError> {
        let (_, bytes) = into.span();
        self.read_part(into, 0, bytes, key, from, options)
    }

    /// As [`read`](Self::read), into `bytes` bytes of the memory from `at`.
    ///
    /// # Errors
    /// As [`send`](Self::send), and [`IbError::Limit`] for a range that exceeds the memory.
    pub fn read_part(
        &mut self,
        into: F,
        at: usize,
        bytes: usize,
        key: LocalKey,
        from: RemoteMemory,
        options: PostOptions,
    ) -> Result<(), IbError> {
        self.check_room()?;
        let piece = key.sge_of_range(&into, at, bytes)?;
        self.queue_pair.pieces.push(piece);
        self.add_request(
            abi::WR_RDMA_READ,
            0,
            Some(from),
            PostedWork { cookie: options.cookie, segments: 0, read_memory: Some(into) },
            1,
            options,
        );
        Ok(())
    }

    /// Posts all requests.
    ///
    /// # Errors
    /// The device's error; then some requests may be outstanding and the rest is dropped. The connection is unusable.
    pub fn post(self) -> Result<usize, IbError> {
        let count = self.len();
        if count == 0 {
            return Ok(0);
        }
        let post = self.queue_pair.domain.context().ops().post_send;
        let queue_pair = &mut *self.queue_pair;
        let post = post.ok_or(IbError::InvalidState("the provider does not support sends"))?;
        let (requests, mut pieces) = (queue_pair.requests.as_mut_ptr(), queue_pair.pieces.as_mut_ptr());
        for at in 0..count {
            // SAFETY: the list has `count` entries, whose pieces follow each other in the other list; neither is moved
            // before the call below.
            unsafe {
                let request = &mut *requests.add(at);
                request.sg_list = pieces;
                pieces = pieces.add(request.num_sge as usize);
                request.next = if at + 1 < count { requests.add(at + 1) } else { ptr::null_mut() };
            }
        }
        let mut refused = ptr::null_mut();
        // SAFETY: the queue pair exists, and so do the list and its pieces. The memory that they name is held in `segments`
        // and `outstanding` until a completion returns it; inline parts outlive this batch, and the device
        // has copied them when this returns.
        let answer = unsafe { post(queue_pair.raw, requests, &mut refused) };
        let taken = if answer == 0 { count } else { count_before(refused, requests, count) };
        // Requests that were not posted are dropped here, and nothing is left for `drop`.
        queue_pair.drop_unposted(count - taken);
        queue_pair.requests.clear();
        IbError::check("ibv_post_send", answer)?;
        Ok(taken)
    }

    fn check_room(&self) -> Result<(), IbError> {
        if self.queue_pair.free_slots() == 0 { Err(IbError::QueueFull) } else { Ok(()) }
    }

    /// Adds segments and holds their memory. Returns their number.
    fn add_segments(&mut self, pieces: impl IntoIterator<Item = (S, LocalKey)>) -> Result<u32, IbError> {
        self.check_room()?;
        let most = self.queue_pair.options.send_sge_max as usize;
        let (noted, held) = (self.queue_pair.pieces.len(), self.queue_pair.segments.len());
        let mut count = 0;
        for (piece, key) in pieces {
            let entry = IbError::check_limit("pieces of a send", count + 1, most).and_then(|()| key.sge(&piece));
            match entry {
                Ok(entry) => {
                    self.queue_pair.pieces.push(entry);
                    self.queue_pair.segments.push_back(piece);
                    count += 1;
                }
                Err(error) => {
                    self.queue_pair.pieces.truncate(noted);
                    self.queue_pair.segments.truncate(held);
                    return Err(error);
                }
            }
        }
        Ok(count as u32)
    }

    fn add_request(
        &mut self,
        opcode: u32,
        flags: u32,
        peer: Option<RemoteMemory>,
        work: PostedWork<F>,
        pieces: u32,
        options: PostOptions,
    ) {
        let queue_pair = &mut *self.queue_pair;
        let (remote_addr, rkey) = peer.map_or((0, 0), |peer| (peer.address, peer.key));
        queue_pair.requests.push(abi::IbvSendWr {
            wr_id: queue_pair.tag.wr_id(queue_pair.next),
            next: ptr::null_mut(),
            sg_list: ptr::null_mut(),
            num_sge: pieces as c_int,
            opcode,
            send_flags: flags | if options.signalled { abi::SEND_SIGNALED } else { 0 },
            imm_data: 0,
            remote_addr,
            rkey,
            unused: [0; 9],
        });
        queue_pair.next = queue_pair.next.wrapping_add(1);
        queue_pair.outstanding.push_back(work);
    }
}

impl<S: StableMemory, F: ExclusiveMemory> Drop for SendBatch<'_, '_, S, F> {
    fn drop(&mut self) {
        let count = self.len();
        self.queue_pair.drop_unposted(count);
    }
}
