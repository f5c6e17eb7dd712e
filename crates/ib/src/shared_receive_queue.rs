//! A shared receive queue: buffers into which the next message of any connection is received.
//!
//! A posted buffer is returned when its completion is handed in. A buffer is never returned early, not even when the
//! queue is dropped while queue pairs still use it.

use std::any::Any;
use std::fmt;
use std::mem;
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};

use crate::abi;
use crate::completion::{Completion, WorkQueueId};
use crate::error::IbError;
use crate::limits::WORK_REQUESTS_MAX;
use crate::memory::ExclusiveMemory;
use crate::region::{LocalKey, ProtectionDomain};

/// A shared receive queue. Completions of its receives arrive at the completion queue of the queue pair, with the
/// [`WorkQueueId`] of this queue.
pub struct SharedReceiveQueue<F: ExclusiveMemory> {
    shared: Arc<SharedReceiveQueueHandle>,
    tag: WorkQueueId,
    /// The posted buffers. The index is part of the work request's id.
    slots: Vec<Option<F>>,
    free: Vec<u32>,
    requests: Vec<abi::IbvRecvWr>,
    pieces: Vec<abi::IbvSge>,
}

// SAFETY: what keeps it from being so by itself are the pointers in `requests`, which mean nothing between two calls.
unsafe impl<F: ExclusiveMemory> Send for SharedReceiveQueue<F> {}

/// What queue pairs hold of the queue: it is destroyed after them.
pub(crate) struct SharedReceiveQueueHandle {
    domain: ProtectionDomain,
    raw: *mut abi::IbvSrq,
    /// The buffers that were posted when the handle was dropped: the device may write there until the queue is
    /// destroyed.
    left: Mutex<Option<Box<dyn Any + Send>>>,
}

// SAFETY: libibverbs takes its own locks.
unsafe impl Send for SharedReceiveQueueHandle {}
// SAFETY: as above.
unsafe impl Sync for SharedReceiveQueueHandle {}

impl Drop for SharedReceiveQueueHandle {
    fn drop(&mut self) {
        // SAFETY: made below; every queue pair on it held a clone of the `Arc` that ends here. `left` goes after this.
        let answer = unsafe { (self.domain.context().verbs().ibv_destroy_srq)(self.raw) };
        debug_assert_eq!(answer, 0, "a receive queue goes while a queue pair uses it");
    }
}

impl SharedReceiveQueueHandle {
    pub(crate) fn raw(&self) -> *mut abi::IbvSrq {
        self.raw
    }

    pub(crate) fn domain(&self) -> &ProtectionDomain {
        &self.domain
    }
}

impl<F: ExclusiveMemory> SharedReceiveQueue<F> {
    /// A queue with room for at least `most` buffers.
    ///
    /// # Errors
    /// [`IbError::Limit`], or the operating system's error.
    pub fn new(domain: &ProtectionDomain, most: u32) -> Result<Self, IbError> {
        IbError::check_limit("receives of a queue", most as usize, WORK_REQUESTS_MAX as usize)?;
        let mut attributes =
            abi::IbvSrqInitAttr { srq_context: ptr::null_mut(), max_wr: most, max_sge: 1, srq_limit: 0 };
        // SAFETY: the domain exists, and stays so while the queue does, which holds it.
        let raw = unsafe { (domain.context().verbs().ibv_create_srq)(domain.raw(), &mut attributes) };
        if raw.is_null() {
            return Err(IbError::last_os_error("ibv_create_srq"));
        }
        let shared = Arc::new(SharedReceiveQueueHandle { domain: domain.clone(), raw, left: Mutex::new(None) });
        Ok(Self {
            shared,
            tag: WorkQueueId::new()?,
            slots: (0..most).map(|_| None).collect(),
            free: (0..most).rev().collect(),
            requests: Vec::new(),
            pieces: Vec::new(),
        })
    }

    pub(crate) fn shared(&self) -> &Arc<SharedReceiveQueueHandle> {
        &self.shared
    }

    /// The id that completions of this queue's receives have.
    pub fn work_queue(&self) -> WorkQueueId {
        self.tag
    }

    /// The number of posted buffers.
    pub fn posted(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// The number of buffers that can still be posted.
    pub fn free_slots(&self) -> usize {
        self.free.len()
    }

    /// Posts buffers from the end of `from`, as many as there are free slots, with one call to the device, and removes
    /// them from `from`.
    ///
    /// # Errors
    /// [`IbError::NotRegistered`] before anything is posted; the device's error. Then what is still in `from` was not
    /// taken.
    pub fn post(&mut self, from: &mut Vec<(F, LocalKey)>) -> Result<usize, IbError> {
        let count = from.len().min(self.free.len());
        if count == 0 {
            return Ok(0);
        }
        let first = from.len() - count;
        self.pieces.clear();
        for (buffer, key) in &from[first..] {
            self.pieces.push(key.sge(buffer)?);
        }
        self.requests.clear();
        let places = self.free[self.free.len() - count..].iter().rev();
        self.requests.extend(places.map(|&place| abi::IbvRecvWr {
            wr_id: self.tag.wr_id(place),
            next: ptr::null_mut(),
            sg_list: ptr::null_mut(),
            num_sge: 1,
        }));
        let (requests, pieces) = (self.requests.as_mut_ptr(), self.pieces.as_mut_ptr());
        for at in 0..count {
            // SAFETY: both lists have `count` entries and are not moved before the call below.
            unsafe {
                (*requests.add(at)).sg_list = pieces.add(at);
                (*requests.add(at)).next = if at + 1 < count { requests.add(at + 1) } else { ptr::null_mut() };
            }
        }
        let post = self
            .shared
            .domain
            .context()
            .ops()
            .post_srq_recv
            .ok_or(IbError::InvalidState("the provider does not support shared receive queues"))?;
        let mut refused = ptr::null_mut();
        // SAFETY: the queue exists, and so does the list with its pieces. What they name stays in `slots` from here
        // on, until the device is done with it: between this call and the moving below nothing can end early.
        let answer = unsafe { post(self.shared.raw, requests, &mut refused) };
        let taken = if answer == 0 { count } else { count_before(refused, requests, count) };
        // The first request of the list has the slot that was freed last and the buffer at `first`.
        for (buffer, _) in from.drain(first..first + taken) {
            let place = self.free.pop().expect("as many places as buffers");
            self.slots[place as usize] = Some(buffer);
        }
        IbError::check("ibv_post_srq_recv", answer)?;
        Ok(taken)
    }

    /// Returns the buffer of a completed receive; the completion has the number of received bytes.
    ///
    /// # Errors
    /// [`IbError::WrongQueue`] for the completion belongs to another queue.
    pub fn on_completion(&mut self, completion: Completion) -> Result<F, IbError> {
        if completion.work_queue() != self.tag {
            return Err(IbError::WrongQueue);
        }
        let place = completion.slot();
        let buffer = self.slots.get_mut(place as usize).and_then(Option::take).ok_or(IbError::WrongQueue)?;
        self.free.push(place);
        Ok(buffer)
    }
}

impl<F: ExclusiveMemory> SharedReceiveQueue<F> {
    /// Destroys the queue and returns its posted buffers, if no queue pair uses it any more.
    ///
    /// # Errors
    /// The queue, unchanged.
    pub fn destroy(mut self) -> Result<Vec<F>, Self> {
        if Arc::strong_count(&self.shared) > 1 {
            return Err(self);
        }
        let left = self.shared.clone();
        let places = mem::take(&mut self.slots);
        drop(self);
        // The last reference: dropping it destroys the queue, and the device no longer writes to the buffers.
        drop(left);
        Ok(places.into_iter().flatten().collect())
    }
}

/// The number of entries before `refused` in a list of `count`: those that were posted.
pub(crate) fn count_before<T>(refused: *const T, list: *const T, count: usize) -> usize {
    let bytes = refused.addr().wrapping_sub(list.addr());
    // If the provider does not set it, all count as posted, so that no memory is returned early.
    (bytes / size_of::<T>()).min(count)
}

impl<F: ExclusiveMemory> Drop for SharedReceiveQueue<F> {
    fn drop(&mut self) {
        let places = mem::take(&mut self.slots);
        *self.shared.left.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(places));
    }
}

impl<F: ExclusiveMemory> fmt::Debug for SharedReceiveQueue<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedReceiveQueue({} of {})", self.posted(), self.slots.len())
    }
}
