//! The clients of a thread: each connection's client stays on the thread that opened it, as its memory does.
//!
//! Enters: a connection's number, on any thread.  Leaves: its client on its own thread, or why it cannot be used.
//! Owns:   the clients; whoever is not their owner can only have them dropped, by their own thread, later.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::ThreadId;
use std::time::Duration;

use crate::delivery::NameCache;
use crate::errors::Misuse;
use client::{Client, ClientError, LinkWatch, WaitEnd};
use mio::Waker;

/// A client, and what it needs to wait for its link.
pub(crate) struct ThreadClient {
    client: Option<Client>,
    pid: u32,
    pub(crate) watch: LinkWatch,
    pub(crate) names: NameCache,
    pub(crate) is_unanswered: bool,
    /// A fault behind deliveries that were handed out first.
    pub(crate) fault: Option<ClientError>,
}

impl ThreadClient {
    /// A client whose link is watched from now on; and what wakes a wait from other threads.
    pub(crate) fn new(mut client: Client) -> io::Result<(Self, Waker)> {
        let watch = LinkWatch::new(&mut client)?;
        let waker = watch.waker()?;
        let names = NameCache::default();
        let pid = std::process::id();
        Ok((Self { client: Some(client), pid, watch, names, is_unanswered: false, fault: None }, waker))
    }

    /// The client and the names that its deliveries had last. There is a client until `take`.
    pub(crate) fn parts(&mut self) -> Result<(&mut Client, &mut NameCache), Misuse> {
        Ok((self.client.as_mut().ok_or(Misuse::Closed)?, &mut self.names))
    }

    pub(crate) fn client(&mut self) -> Result<&mut Client, Misuse> {
        self.client.as_mut().ok_or(Misuse::Closed)
    }

    pub(crate) fn take(&mut self) -> Option<Client> {
        self.client.take()
    }

    /// Waits for the link, a wake-up or a signal: for so long, and not so long that a heartbeat would be late.
    pub(crate) fn wait(&mut self, timeout: Duration) -> io::Result<WaitEnd> {
        let at_most = self.client.as_ref().map_or(timeout, Client::wait_max);
        self.watch.wait(timeout.min(at_most))
    }
}

impl Drop for ThreadClient {
    /// In a fork it is the parent's connection: whatever is said on it, or freed of its device, the parent would lose.
    fn drop(&mut self) {
        if self.pid != std::process::id() {
            std::mem::forget(self.client.take());
        }
    }
}

thread_local! {
    static CLIENTS: RefCell<HashMap<u64, Rc<RefCell<ThreadClient>>>> = RefCell::default();
}

static LAST: AtomicU64 = AtomicU64::new(0);
/// Connections that another thread has dropped: whose, and which.
static ABANDONED: Mutex<Vec<(ThreadId, u64)>> = Mutex::new(Vec::new());

/// Notes a client of this thread; says its number.
pub(crate) fn insert(client: ThreadClient) -> u64 {
    drop_abandoned();
    let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    CLIENTS.with_borrow_mut(|clients| clients.insert(number, Rc::new(RefCell::new(client))));
    number
}

/// Uses a client of this thread.
pub(crate) fn with<T>(number: u64, used: impl FnOnce(&mut ThreadClient) -> Result<T, Misuse>) -> Result<T, Misuse> {
    let client = CLIENTS.with_borrow(|clients| clients.get(&number).cloned()).ok_or(Misuse::Closed)?;
    let mut client = client.try_borrow_mut().map_err(|_| Misuse::InUse)?;
    used(&mut client)
}

/// Forgets a client: at once on its own thread, and else when that thread has time.
pub(crate) fn remove(owner: ThreadId, number: u64) {
    if std::thread::current().id() == owner {
        let removed = CLIENTS.try_with(|clients| clients.borrow_mut().remove(&number));
        // At the thread's end they are gone already.
        drop(removed);
    } else {
        ABANDONED.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((owner, number));
    }
}

fn drop_abandoned() {
    let here = std::thread::current().id();
    let mut abandoned = ABANDONED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mine: Vec<u64> = abandoned.iter().filter(|(owner, _)| *owner == here).map(|(_, number)| *number).collect();
    abandoned.retain(|(owner, _)| *owner != here);
    drop(abandoned);
    let removed: Vec<_> = CLIENTS.with_borrow_mut(|clients| mine.iter().map(|number| clients.remove(number)).collect());
    drop(removed);
}
