//! The inbox of a thread: what other threads send it, and the waker that interrupts its sleep.

use crate::sync::{Receiver, Sender, Waker, channel};
use link::Link;
use mio::{Registry, Token};
use std::io;
use std::sync::Arc;

/// The token of the thread's waker.
pub(crate) const WAKER: Token = Token(usize::MAX);

/// Interrupts the sleep of one thread.
#[derive(Clone)]
pub struct ThreadWaker(Arc<Waker>);

impl ThreadWaker {
    pub(crate) fn new(registry: &Registry) -> io::Result<Self> {
        Ok(Waker::new(registry, WAKER)?.into())
    }

    /// Makes the thread's current wait return, or the next one if the thread is awake.
    pub fn wake(&self) {
        if let Err(error) = self.0.wake() {
            tracing::error!(%error, "cannot wake a thread");
        }
    }
}

impl From<Waker> for ThreadWaker {
    fn from(waker: Waker) -> Self {
        ThreadWaker(Arc::new(waker))
    }
}

/// What an inbox carries.
pub(crate) enum Envelope<M> {
    /// An accepted link, counted for the receiving thread.
    Link(Box<dyn Link>),
    Message(M),
}

/// Sends to one thread, from any thread.
pub struct InboxSender<M> {
    sender: Sender<Envelope<M>>,
    waker: ThreadWaker,
}

impl<M> Clone for InboxSender<M> {
    fn clone(&self) -> Self {
        InboxSender { sender: self.sender.clone(), waker: self.waker.clone() }
    }
}

impl<M> InboxSender<M> {
    /// Sends a message and wakes the thread. False if the thread has ended; the message is dropped then.
    pub fn send(&self, message: M) -> bool {
        self.post(Envelope::Message(message))
    }

    pub(crate) fn post(&self, envelope: Envelope<M>) -> bool {
        let is_sent = self.sender.send(envelope).is_ok();
        if is_sent {
            self.waker.wake();
        }
        is_sent
    }

    pub fn waker(&self) -> &ThreadWaker {
        &self.waker
    }
}

/// An empty inbox of the thread that `waker` wakes.
pub(crate) fn inbox<M>(waker: ThreadWaker) -> (InboxSender<M>, Receiver<Envelope<M>>) {
    let (sender, receiver) = channel();
    (InboxSender { sender, waker }, receiver)
}
