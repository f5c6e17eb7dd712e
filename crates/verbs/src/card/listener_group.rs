//! Cards that listen together, and what they and others of the same device have to tell each other.
//!
//! Enters: requests that one sibling got, news of the device that one of all got.  Leaves: letters to whom they concern.
//! Owns:   the mailboxes, and which sibling listens.
//! Never:  is asked where messages flow, but for one look at a flag.

use super::wait::EventFd;
use crate::device::DeviceError;
use ib::{AsyncEvent, CmEventChannel, DeviceContext, IbError, CmId, ReadLimits};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is behind these locks is whole between any two statements.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Something for a card.
pub(super) enum CardMessage {
    /// A request that is its own from now on.
    Request { id: CmId, private: Vec<u8>, reads: ReadLimits },
    /// Something has happened to the device, or to something made on it.
    Device(AsyncEvent),
}

/// Where a card is written to, from any thread.
pub(super) struct CardMailbox {
    context: DeviceContext,
    channel: CmEventChannel,
    messages: Mutex<Vec<CardMessage>>,
    has_messages: AtomicBool,
    /// Queue pairs, and requests that may become such.
    queue_pairs: AtomicUsize,
    pub wake: EventFd,
}

/// All cards of the process. The device's own news come to whoever asks first, and may be for any of them.
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

    fn send(&self, letter: CardMessage) {
        locked(&self.messages).push(letter);
        self.has_messages.store(true, Ordering::Release);
        self.wake.signal();
    }

    pub fn has_messages(&self) -> bool {
        self.has_messages.load(Ordering::Acquire)
    }

    pub fn take_messages(&self) -> Vec<CardMessage> {
        // First these two: a letter that comes behind them is found the next time.
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

/// Tells all cards of a device what has happened to it.
pub(super) fn broadcast(context: &DeviceContext, event: AsyncEvent) {
    let all: Vec<_> = locked(&ALL).iter().filter_map(Weak::upgrade).collect();
    for mailbox in all.iter().filter(|mailbox| mailbox.context == *context) {
        mailbox.send(CardMessage::Device(event));
    }
}

/// Cards that listen together: whoever of them is told to first does it for all.
pub(super) struct ListenerGroup {
    /// The address as the owner calls it.
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

    /// Listens by `begin`, unless a sibling does.
    pub fn listen<T>(&self, begin: impl FnOnce() -> Result<T, DeviceError>) -> Result<Option<T>, DeviceError> {
        let mut is_listening = locked(&self.is_listening);
        if *is_listening {
            return Ok(None);
        }
        let begun = begin()?;
        *is_listening = true;
        Ok(Some(begun))
    }

    /// The sibling that listened has gone.
    pub fn on_listener_closed(&self) {
        *locked(&self.is_listening) = false;
    }

    /// Gives a request to the sibling with the fewest queue pairs; back comes one that is the giver's own to serve.
    pub fn assign_request(
        &self,
        own: &Arc<CardMailbox>,
        id: CmId,
        private: Vec<u8>,
        reads: ReadLimits,
    ) -> Result<Option<(CmId, Vec<u8>, ReadLimits)>, IbError> {
        let members: Vec<_> = self.members.iter().filter_map(Weak::upgrade).collect();
        let least = members.iter().min_by_key(|member| member.queue_pairs.load(Ordering::Relaxed));
        let taker = least.unwrap_or(own);
        taker.add_queue_pair();
        if Arc::ptr_eq(taker, own) {
            return Ok(Some((id, private, reads)));
        }
        // Its later events come to the sibling's channel, which wakes the sibling's owner for them.
        if let Err(error) = id.migrate(&taker.channel) {
            taker.remove_queue_pair();
            return Err(error);
        }
        taker.send(CardMessage::Request { id, private, reads });
        Ok(None)
    }
}
