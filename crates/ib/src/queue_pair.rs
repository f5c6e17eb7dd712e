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
use crate::completion::{self, Completion, CompletionQueue, WorkQueueId};
use crate::error::IbError;
use crate::cm_id::{CmId, CmIdHandle};
use crate::limits::{SGE_MAX, WORK_REQUESTS_MAX};
use crate::memory::{ExclusiveMemory, StableMemory};
use crate::shared_receive_queue::{self, SharedReceiveQueue, count_before};
use crate::region::{ProtectionDomain, RemoteMemory, LocalKey};

/// What a queue pair is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuePairOptions {
    /// Work that may be outstanding.
    pub send_wr_max: u32,
    /// Pieces of memory in one send.
    pub send_sge_max: u32,
    /// Bytes of an inline send, which need no registered memory.
    pub inline_bytes_max: u32,
}

/// A queue pair. `S` is memory that is sent from, `F` memory that READs fill.
///
/// Before it goes, its id is to be disconnected or it is to be put into the error state, and its completions polled:
/// receives that the device had taken for it from the shared queue are else not heard of again before that queue goes.
pub struct QueuePair<S: StableMemory, F: ExclusiveMemory> {
    id: Arc<CmIdHandle>,
    raw: *mut abi::IbvQp,
    number: u32,
    options: QueuePairOptions,
    tag: WorkQueueId,
    /// Work that has not ended, as far as completions say, the oldest first.
    outstanding: VecDeque<PostedWork<F>>,
    /// The pieces of all sends in `under_way`, in order.
    segments: VecDeque<S>,
    /// The number of the next work.
    next: u32,
    requests: Vec<abi::IbvSendWr>,
    pieces: Vec<abi::IbvSge>,
    // What the queue pair was made with goes after it.
    _completions: [Arc<completion::CompletionQueueHandle>; 2],
    _receives: Arc<shared_receive_queue::SharedReceiveQueueHandle>,
    domain: ProtectionDomain,
}

// SAFETY: libibverbs takes its own locks; the pointers in `requests` mean nothing between two calls.
unsafe impl<S: StableMemory, F: ExclusiveMemory> Send for QueuePair<S, F> {}

struct PostedWork<F> {
    cookie: u64,
    /// How many of `held` are its own.
    segments: u32,
    read_memory: Option<F>,
}

/// Work that has ended.
#[derive(Debug)]
pub struct CompletedWork<F> {
    /// The number it was posted with.
    pub cookie: u64,
    /// The memory of a READ: filled, if the completion says that all went well.
    pub read_memory: Option<F>,
}

/// How work is posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PostOptions {
    /// A number of the poster's own, which comes back when the work has ended.
    pub cookie: u64,
    /// Whether a completion is asked for. One that is not is known to have ended with the next that is, or when
    /// something fails; so let there be one at least in every `work_max`, and one at the end.
    pub signalled: bool,
}

impl<S: StableMemory, F: ExclusiveMemory> QueuePair<S, F> {
    /// A queue pair for an id that has a device: [`CmId::accept`] or [`CmId::connect`] then connects it.
    ///
    /// # Errors
    /// [`IbError::InvalidState`] if the id has no device, or not that of `domain`; [`IbError::Limit`]; the operating system's error:
    /// `EINVAL` is most often an inline limit that the device does not have.
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
            return Err(IbError::InvalidState("a queue pair and what it is made with are of one device"));
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

    /// Its number on this device, which completions name.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// What completions of this queue pair's own work have.
    pub fn work_queue(&self) -> WorkQueueId {
        self.tag
    }

    /// What it was made for: the device may allow longer inline sends than were asked for.
    pub fn options(&self) -> QueuePairOptions {
        self.options
    }

    /// For how much work there is room.
    pub fn free_slots(&self) -> usize {
        self.options.send_wr_max as usize - self.outstanding.len()
    }

    /// Work that has not ended, as far as completions say.
    pub fn outstanding(&self) -> usize {
        self.outstanding.len()
    }

    /// Begins a batch of work, for which the device is called once.
    pub fn batch<'q, 'i>(&'q mut self) -> SendBatch<'q, 'i, S, F> {
        self.requests.clear();
        self.pieces.clear();
        SendBatch { queue_pair: self, inline: PhantomData }
    }

    /// Takes a completion of this queue pair's work: that work has ended, and all that was posted before it.
    ///
    /// # Errors
    /// [`IbError::WrongQueue`] for a completion of another queue.
    pub fn on_completion(&mut self, completion: Completion, into: &mut Vec<CompletedWork<F>>) -> Result<(), IbError> {
        self.on_completion_with(completion, into, drop)
    }

    /// As [`settle`](Self::settle); each piece that was sent goes to `sent`.
    ///
    /// # Errors
    /// As there.
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
            // A device that says the same twice: the work is not there any more.
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

    /// Destroys it, and gives back what was under way: the device reaches none of that any more. Completions of it that
    /// were not polled mean nothing then.
    pub fn destroy(mut self, into: &mut Vec<CompletedWork<F>>, sent: impl FnMut(S)) {
        let (under_way, held) = (mem::take(&mut self.outstanding), mem::take(&mut self.segments));
        // Before anything of it can be used again.
        drop(self);
        into.extend(under_way.into_iter().map(|work| CompletedWork { cookie: work.cookie, read_memory: work.read_memory }));
        held.into_iter().for_each(sent);
    }

    /// The state it is in.
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

    /// Puts it into the error state: all work completes as flushed, and the peer's fails. The way to end a connection
    /// at once.
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

    /// Forgets the youngest `count` works, which the device has not got.
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
        // in `held` and `under_way` behind this, and these go after it.
        unsafe { (self.id.cm().rdma_destroy_qp)(self.id.raw()) };
    }
}

impl<S: StableMemory, F: ExclusiveMemory> fmt::Debug for QueuePair<S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "QueuePair({}, {} under way)", self.number, self.outstanding.len())
    }
}

/// What state a queue pair is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueuePairState {
    /// Not connected yet.
    Unconnected,
    /// It can receive.
    ReadyToReceive,
    /// It can receive and send.
    ReadyToSend,
    /// All work fails.
    Error,
    /// Another, by its number in the C interface.
    Other(u32),
}

/// Work that goes to the device in one call. Dropped without [`post`](Self::post), nothing of it does.
pub struct SendBatch<'q, 'i, S: StableMemory, F: ExclusiveMemory> {
    queue_pair: &'q mut QueuePair<S, F>,
    /// Inline bytes are read when the batch is posted, and not after.
    inline: PhantomData<&'i [u8]>,
}

impl<'i, S: StableMemory, F: ExclusiveMemory> SendBatch<'_, 'i, S, F> {
    /// How much work is in it.
    pub fn len(&self) -> usize {
        self.queue_pair.requests.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sends the pieces, in order, as one message, which takes one of the peer's receives.
    ///
    /// # Errors
    /// [`IbError::QueueFull`], [`IbError::Limit`] for too many pieces, [`IbError::NotRegistered`]. Then the pieces are dropped and
    /// the batch is as it was.
    pub fn send(&mut self, pieces: impl IntoIterator<Item = (S, LocalKey)>, how: PostOptions) -> Result<(), IbError> {
        let held = self.add_segments(pieces)?;
        self.add_request(abi::WR_SEND, 0, None, PostedWork { cookie: how.cookie, segments: held, read_memory: None }, held, how);
        Ok(())
    }

    /// Writes the pieces, in order, to the start of a peer's memory, without the peer's doing.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn write(&mut self, pieces: impl IntoIterator<Item = (S, LocalKey)>, to: RemoteMemory, how: PostOptions) -> Result<(), IbError> {
        let held = self.add_segments(pieces)?;
        self.add_request(abi::WR_RDMA_WRITE, 0, Some(to), PostedWork { cookie: how.cookie, segments: held, read_memory: None }, held, how);
        Ok(())
    }

    /// Sends the parts, in order, as one message of at most [`QueuePairOptions::inline_bytes_max`]. They are read when the batch
    /// is posted; no memory of theirs is registered or held.
    ///
    /// # Errors
    /// [`IbError::QueueFull`], [`IbError::Limit`]. Then the batch is as it was.
    pub fn send_inline(&mut self, parts: &[&'i [u8]], how: PostOptions) -> Result<(), IbError> {
        self.add_inline(abi::WR_SEND, parts, None, how)
    }

    /// Writes the parts, in order, to the start of a peer's memory, as [`send_inline`](Self::send_inline) sends them.
    ///
    /// # Errors
    /// As [`send_inline`](Self::send_inline).
    pub fn write_inline(&mut self, parts: &[&'i [u8]], to: RemoteMemory, how: PostOptions) -> Result<(), IbError> {
        self.add_inline(abi::WR_RDMA_WRITE, parts, Some(to), how)
    }

    fn add_inline(&mut self, opcode: u32, parts: &[&'i [u8]], peer: Option<RemoteMemory>, how: PostOptions) -> Result<(), IbError> {
        let bytes = parts.iter().map(|part| part.len()).sum();
        IbError::check_limit("bytes of an inline send", bytes, self.queue_pair.options.inline_bytes_max as usize)?;
        IbError::check_limit("pieces of a send", parts.len(), self.queue_pair.options.send_sge_max as usize)?;
        self.check_room()?;
        self.queue_pair.pieces.extend(parts.iter().map(|part| abi::IbvSge {
            addr: part.as_ptr().expose_provenance() as u64,
            length: part.len() as u32,
            lkey: 0,
        }));
        let work = PostedWork { cookie: how.cookie, segments: 0, read_memory: None };
        self.add_request(opcode, abi::SEND_INLINE, peer, work, parts.len() as u32, how);
        Ok(())
    }

    /// Reads the start of a peer's memory into all of `into`, without the peer's doing. The memory comes back filled.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn read(&mut self, into: F, key: LocalKey, from: RemoteMemory, how: PostOptions) -> Result<(), IbError> {
        let (_, bytes) = into.span();
        self.read_part(into, 0, bytes, key, from, how)
    }

    /// As [`read`](Self::read), into `bytes` bytes of the memory from `at`.
    ///
    /// # Errors
    /// As [`send`](Self::send), and [`IbError::Limit`] for a part that reaches beyond the memory.
    pub fn read_part(
        &mut self,
        into: F,
        at: usize,
        bytes: usize,
        key: LocalKey,
        from: RemoteMemory,
        how: PostOptions,
    ) -> Result<(), IbError> {
        self.check_room()?;
        let piece = key.sge_of_range(&into, at, bytes)?;
        self.queue_pair.pieces.push(piece);
        self.add_request(abi::WR_RDMA_READ, 0, Some(from), PostedWork { cookie: how.cookie, segments: 0, read_memory: Some(into) }, 1, how);
        Ok(())
    }

    /// Hands all of it to the device.
    ///
    /// # Errors
    /// The device's error; then some of it may be under way and the rest is dropped. The connection is of no use any
    /// more.
    pub fn post(self) -> Result<usize, IbError> {
        let count = self.len();
        if count == 0 {
            return Ok(0);
        }
        let post = self.queue_pair.domain.context().ops().post_send;
        let queue_pair = &mut *self.queue_pair;
        let post = post.ok_or(IbError::InvalidState("the provider cannot send"))?;
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
        // SAFETY: the queue pair exists, and so do the list and its pieces. The memory that they name is held in `held`
        // and `under_way` until a completion says that it is done with; inline parts outlive this batch, and the device
        // has copied them when this returns.
        let answer = unsafe { post(queue_pair.raw, requests, &mut refused) };
        let taken = if answer == 0 { count } else { count_before(refused, requests, count) };
        // What was not taken is forgotten here, and nothing is left for `drop`.
        queue_pair.drop_unposted(count - taken);
        queue_pair.requests.clear();
        IbError::check("ibv_post_send", answer)?;
        Ok(taken)
    }

    fn check_room(&self) -> Result<(), IbError> {
        if self.queue_pair.free_slots() == 0 { Err(IbError::QueueFull) } else { Ok(()) }
    }

    /// Notes the pieces and keeps them; answers how many.
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

    fn add_request(&mut self, opcode: u32, flags: u32, peer: Option<RemoteMemory>, work: PostedWork<F>, pieces: u32, how: PostOptions) {
        let queue_pair = &mut *self.queue_pair;
        let (remote_addr, rkey) = peer.map_or((0, 0), |peer| (peer.address, peer.key));
        queue_pair.requests.push(abi::IbvSendWr {
            wr_id: queue_pair.tag.wr_id(queue_pair.next),
            next: ptr::null_mut(),
            sg_list: ptr::null_mut(),
            num_sge: pieces as c_int,
            opcode,
            send_flags: flags | if how.signalled { abi::SEND_SIGNALED } else { 0 },
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
