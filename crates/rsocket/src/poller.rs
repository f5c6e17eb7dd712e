//! A thread that polls the rsockets whose owners wait for an edge, and signals the eventfd of each that is ready.
//!
//! Other threads ([`CloseQueue`]) close sockets, which may block until the peer has acknowledged.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

use ib::{PollEntry, PollInterest, RSocket, rpoll};
use rustix::event::{EventfdFlags, eventfd};

use crate::close_queue::CloseQueue;

/// A handle on the poller. Its threads end when the last clone is dropped; each link holds one.
#[derive(Clone)]
pub struct RsocketPoller(Arc<PollerThreads>);

struct PollerThreads {
    shared: Arc<PollerShared>,
    closing: CloseQueue<SocketClose>,
    next: AtomicU64,
}

struct PollerShared {
    state: Mutex<PollerState>,
    /// Signalled when the polling thread must read the state again.
    wake: OwnedFd,
}

#[derive(Default)]
struct PollerState {
    sockets: BTreeMap<u64, PolledSocket>,
    is_stopped: bool,
    /// Polling has failed: all sockets were signalled, and none can be added.
    has_failed: bool,
}

struct PolledSocket {
    socket: Arc<RSocket>,
    edge: Arc<OwnedFd>,
    interest: PollInterest,
}

/// A call that ends a socket and may block.
enum SocketClose {
    ShutDown(Arc<RSocket>),
    Close(Arc<RSocket>),
}

fn new_eventfd() -> io::Result<OwnedFd> {
    Ok(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)
}

fn signal(descriptor: &OwnedFd) {
    // It can fail only if the counter is at its maximum: then the descriptor is readable already.
    let _full = rustix::io::write(descriptor, &1u64.to_ne_bytes());
}

impl PollerShared {
    fn state(&self) -> MutexGuard<'_, PollerState> {
        // The state is consistent between any two statements.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for PollerThreads {
    fn drop(&mut self) {
        self.shared.state().is_stopped = true;
        signal(&self.shared.wake);
    }
}

impl RsocketPoller {
    /// Starts the threads.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn start() -> io::Result<Self> {
        let shared = Arc::new(PollerShared { state: Mutex::default(), wake: new_eventfd()? });
        let closing = CloseQueue::start(close_socket)?;
        let (polled, closed) = (shared.clone(), closing.clone());
        thread::Builder::new().name("rsocket-poll".to_owned()).spawn(move || poll(&polled, &closed))?;
        Ok(Self(Arc::new(PollerThreads { shared, closing, next: AtomicU64::new(0) })))
    }

    /// The poller that all links of a process may share.
    ///
    /// # Errors
    /// Why the threads could not be started.
    pub fn process_wide() -> io::Result<Self> {
        static SHARED: OnceLock<Result<RsocketPoller, (io::ErrorKind, String)>> = OnceLock::new();
        let started = SHARED.get_or_init(|| Self::start().map_err(|error| (error.kind(), error.to_string())));
        started.clone().map_err(|(kind, why)| io::Error::new(kind, why))
    }

    /// Adds a socket, not armed yet. The eventfd is signalled for each edge, and once now.
    pub(crate) fn add(&self, socket: &Arc<RSocket>) -> io::Result<(u64, Arc<OwnedFd>)> {
        let edge = Arc::new(new_eventfd()?);
        let number = self.0.next.fetch_add(1, Ordering::Relaxed);
        let watched = PolledSocket { socket: socket.clone(), edge: edge.clone(), interest: PollInterest::default() };
        let mut state = self.0.shared.state();
        if state.has_failed {
            return Err(io::Error::other("rsockets cannot be polled"));
        }
        state.sockets.insert(number, watched);
        drop(state);
        signal(&edge);
        Ok((number, edge))
    }

    /// Signals the socket once when it is ready for what is wanted.
    pub(crate) fn arm(&self, number: u64, wants: PollInterest) {
        let mut state = self.0.shared.state();
        let Some(watched) = state.sockets.get_mut(&number) else { return };
        let before = watched.interest;
        watched.interest.readable |= wants.readable;
        watched.interest.writable |= wants.writable;
        if watched.interest != before {
            drop(state);
            signal(&self.0.shared.wake);
        }
    }

    pub(crate) fn remove(&self, number: u64) {
        let removed = self.0.shared.state().sockets.remove(&number);
        if let Some(watched) = removed {
            self.close(watched.socket);
            signal(&self.0.shared.wake);
        }
    }

    /// Makes another thread drop the socket, which may block.
    pub(crate) fn close(&self, socket: Arc<RSocket>) {
        self.0.closing.push(SocketClose::Close(socket));
    }

    /// Makes another thread end the sending direction of a socket.
    pub(crate) fn shut_down(&self, socket: Arc<RSocket>) {
        self.0.closing.push(SocketClose::ShutDown(socket));
    }
}

/// The polling thread.
fn poll(shared: &PollerShared, closing: &CloseQueue<SocketClose>) {
    loop {
        let mut entries = vec![PollEntry::other(shared.wake.as_fd())];
        let mut numbers = Vec::new();
        {
            let state = shared.state();
            if state.is_stopped {
                return;
            }
            for (&number, watched) in state.sockets.iter().filter(|(_, watched)| watched.interest.is_any()) {
                entries.push(PollEntry::socket(&watched.socket, watched.interest));
                numbers.push(number);
            }
        }
        let outcome = rpoll(&mut entries, None);
        let mut count = [0; 8];
        // It may be empty: then a socket has ended the poll.
        let _idle = rustix::io::read(&shared.wake, &mut count);
        let mut state = shared.state();
        if outcome.is_err() {
            // Without polls nobody would be woken again, so all owners are: they find out by reading.
            state.has_failed = true;
            state.sockets.values().for_each(|watched| signal(&watched.edge));
            return;
        }
        for (number, entry) in numbers.into_iter().zip(entries.drain(1..)) {
            let is = entry.ready();
            match state.sockets.get_mut(&number) {
                Some(watched) if is.is_any() => {
                    watched.interest.readable &= !is.readable;
                    watched.interest.writable &= !is.writable;
                    signal(&watched.edge);
                }
                Some(_) => {}
                None => {
                    // Removed meanwhile: the entry may be its last holder.
                    if let Some(socket) = entry.into_socket() {
                        closing.push(SocketClose::Close(socket));
                    }
                }
            }
        }
    }
}

fn close_socket(ending: SocketClose) {
    match ending {
        SocketClose::ShutDown(socket) => {
            // It fails if the peer is gone, which the owner finds out by reading.
            let _over = socket.shutdown_sending();
        }
        SocketClose::Close(socket) => drop(socket),
    }
}
