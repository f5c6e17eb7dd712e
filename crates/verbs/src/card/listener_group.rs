//! Devices that listen together, and the messages between them.
//!
//! The message path reads only one flag of a mailbox.

use super::wait::EventFd;
use crate::device::DeviceError;
use ib::{AsyncEvent, CmEventChannel, CmId, DeviceContext, IbError, ReadLimits};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The guarded data is consistent between any two statements.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A message to a device of another shard.
pub(super) enum CardMessage {
    /// A request that it serves from now on.
    Request { id: CmId, private: Vec<u8>, reads: ReadLimits },
    /// An asynchronous event.
    Device(AsyncEvent),
}

/// The mailbox of a device, for messages from any thread.
pub(super) struct CardMailbox {
    context: DeviceContext,
    channel: CmEventChannel,
    messages: Mutex<Vec<CardMessage>>,
    has_messages: AtomicBool,
    /// The number of queue pairs, and of requests that may become one.
    queue_pairs: AtomicUsize,
    pub wake: EventFd,
}

/// All mailboxes of the process: the first caller gets an asynchronous event, which may concern any of them.
static ALL: Mutex<Vec<Weak<CardMailbox>>> = Mutex::new(Vec::new());

impl CardMailbox {
    pub fn new(context: &DeviceContext, channel: &CmEventChannel) -> Result<Arc<Self>, DeviceError> {
        let mailbox = Arc::new(CardMailbox {
            context: context.clone(),
            channel: channel.clone(),
            messages: Mutex::default(),
            has_messages: AtomicBool::new(false),
            queue_pairs: AtomicUsize::new(0),
            wake: EventFd::new()?,
        });
        let mut all = locked(&ALL);
        all.retain(|other| other.strong_count() > 0);
        all.push(Arc::downgrade(&mailbox));
        Ok(mailbox)
    }

    fn send(&self, message: CardMessage) {
        locked(&self.messages).push(message);
        self.has_messages.store(true, Ordering::Release);
        self.wake.signal();
    }

    pub fn has_messages(&self) -> bool {
        self.has_messages.load(Ordering::Acquire)
    }

    pub fn take_messages(&self) -> Vec<CardMessage> {
        // These two first: a message that is sent afterwards is found by the next call.
        self.wake.clear();
        self.has_messages.store(false, Ordering::Release);
        std::mem::take(&mut *locked(&self.messages))
    }

    pub fn add_queue_pair(&self) {
        self.queue_pairs.fetch_add(1, Ordering::Relaxed);
    }

    pub fn remove_queue_pair(&self) {
        self.queue_pairs.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Sends an asynchronous event to all openings of the device.
pub(super) fn broadcast(context: &DeviceContext, event: AsyncEvent) {
    let all: Vec<_> = locked(&ALL).iter().filter_map(Weak::upgrade).collect();
    for mailbox in all.iter().filter(|mailbox| mailbox.context == *context) {
        mailbox.send(CardMessage::Device(event));
    }
}

/// Devices that listen together: the first that is told to listen does so for all.
pub(super) struct ListenerGroup {
    /// The address as the owner wrote it.
    text: String,
    pub address: SocketAddr,
    members: Vec<Weak<CardMailbox>>,
    is_listening: Mutex<bool>,
}

impl ListenerGroup {
    pub fn new(text: &str, address: SocketAddr, members: &[Arc<CardMailbox>]) -> Self {
        let members = members.iter().map(Arc::downgrade).collect();
        ListenerGroup { text: text.to_owned(), address, members, is_listening: Mutex::new(false) }
    }

    pub fn listens_at(&self, text: &str) -> bool {
        self.text == text
    }

    /// Listens by `begin`, unless another member does.
    pub fn listen<T>(&self, begin: impl FnOnce() -> Result<T, DeviceError>) -> Result<Option<T>, DeviceError> {
        let mut is_listening = locked(&self.is_listening);
        if *is_listening {
            return Ok(None);
        }
        let begun = begin()?;
        *is_listening = true;
        Ok(Some(begun))
    }

    /// The member that listened is dropped.
    pub fn on_listener_closed(&self) {
        *locked(&self.is_listening) = false;
    }

    /// Passes a request to the member with the fewest queue pairs. Returns it if that is the caller.
    pub fn assign_request(
        &self,
        own: &Arc<CardMailbox>,
        id: CmId,
        private: Vec<u8>,
        reads: ReadLimits,
    ) -> Result<Option<(CmId, Vec<u8>, ReadLimits)>, IbError> {
        let members: Vec<_> = self.members.iter().filter_map(Weak::upgrade).collect();
        let least = members.iter().min_by_key(|member| member.queue_pairs.load(Ordering::Relaxed));
        let target = least.unwrap_or(own);
        target.add_queue_pair();
        if Arc::ptr_eq(target, own) {
            return Ok(Some((id, private, reads)));
        }
        // Its later events arrive at the channel of that member and wake its thread.
        if let Err(error) = id.migrate(&target.channel) {
            target.remove_queue_pair();
            return Err(error);
        }
        target.send(CardMessage::Request { id, private, reads });
        Ok(None)
    }
}
