//! Cards that listen together, and what they and others of the same device have to tell each other.
//!
//! Enters: requests that one sibling got, news of the device that one of all got.  Leaves: letters to whom they concern.
//! Owns:   the mailboxes, and which sibling listens.
//! Never:  is asked where messages flow, but for one look at a flag.

use super::wait::Wake;
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
pub(super) enum Letter {
    /// A request that is its own from now on.
    Request { id: CmId, private: Vec<u8>, reads: ReadLimits },
    /// Something has happened to the device, or to something made on it.
    Device(AsyncEvent),
}

/// Where a card is written to, from any thread.
pub(super) struct Mailbox {
    context: DeviceContext,
    channel: CmEventChannel,
    letters: Mutex<Vec<Letter>>,
    has_letters: AtomicBool,
    /// Queue pairs, and requests that may become such.
    pairs: AtomicUsize,
    pub wake: Wake,
}

/// All cards of the process. The device's own news come to whoever asks first, and may be for any of them.
static ALL: Mutex<Vec<Weak<Mailbox>>> = Mutex::new(Vec::new());

impl Mailbox {
    pub fn new(context: &DeviceContext, channel: &CmEventChannel) -> Result<Arc<Self>, DeviceError> {
        let mailbox = Arc::new(Mailbox {
            context: context.clone(),
            channel: channel.clone(),
            letters: Mutex::default(),
            has_letters: AtomicBool::new(false),
            pairs: AtomicUsize::new(0),
            wake: Wake::new()?,
        });
        let mut all = locked(&ALL);
        all.retain(|other| other.strong_count() > 0);
        all.push(Arc::downgrade(&mailbox));
        Ok(mailbox)
    }

    fn post(&self, letter: Letter) {
        locked(&self.letters).push(letter);
        self.has_letters.store(true, Ordering::Release);
        self.wake.ring();
    }

    pub fn has_letters(&self) -> bool {
        self.has_letters.load(Ordering::Acquire)
    }

    pub fn take(&self) -> Vec<Letter> {
        // First these two: a letter that comes behind them is found the next time.
        self.wake.clear();
        self.has_letters.store(false, Ordering::Release);
        std::mem::take(&mut *locked(&self.letters))
    }

    pub fn pair_came(&self) {
        self.pairs.fetch_add(1, Ordering::Relaxed);
    }

    pub fn pair_went(&self) {
        self.pairs.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Tells all cards of a device what has happened to it.
pub(super) fn announce(context: &DeviceContext, event: AsyncEvent) {
    let all: Vec<_> = locked(&ALL).iter().filter_map(Weak::upgrade).collect();
    for mailbox in all.iter().filter(|mailbox| mailbox.context == *context) {
        mailbox.post(Letter::Device(event));
    }
}

/// Cards that listen together: whoever of them is told to first does it for all.
pub(super) struct Family {
    /// The address as the owner calls it.
    text: String,
    pub address: SocketAddr,
    members: Vec<Weak<Mailbox>>,
    is_listening: Mutex<bool>,
}

impl Family {
    pub fn new(text: &str, address: SocketAddr, members: &[Arc<Mailbox>]) -> Self {
        let members = members.iter().map(Arc::downgrade).collect();
        Family { text: text.to_owned(), address, members, is_listening: Mutex::new(false) }
    }

    pub fn is_of(&self, text: &str) -> bool {
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
    pub fn stopped(&self) {
        *locked(&self.is_listening) = false;
    }

    /// Gives a request to the sibling with the fewest queue pairs; back comes one that is the giver's own to serve.
    pub fn hand_over(
        &self,
        own: &Arc<Mailbox>,
        id: CmId,
        private: Vec<u8>,
        reads: ReadLimits,
    ) -> Result<Option<(CmId, Vec<u8>, ReadLimits)>, IbError> {
        let members: Vec<_> = self.members.iter().filter_map(Weak::upgrade).collect();
        let least = members.iter().min_by_key(|member| member.pairs.load(Ordering::Relaxed));
        let taker = least.unwrap_or(own);
        taker.pair_came();
        if Arc::ptr_eq(taker, own) {
            return Ok(Some((id, private, reads)));
        }
        // Its later events come to the sibling's channel, which wakes the sibling's owner for them.
        if let Err(error) = id.migrate(&taker.channel) {
            taker.pair_went();
            return Err(error);
        }
        taker.post(Letter::Request { id, private, reads });
        Ok(None)
    }
}
