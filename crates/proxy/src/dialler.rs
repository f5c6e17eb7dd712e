//! Threads that dial: they resolve names, connect to brokers and fetch tokens, so that no reactor thread waits.

use crate::limits::DIALLERS;
use crate::options::{BootstrapToken, TokenSource};
use crate::proxy_slot::ProxySlot;
use link::{Address, DialOptions, Link, TlsClient};
use reactor::InboxSender;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use verbs::RdmaToken;

/// The inbox of a reactor thread.
pub(crate) type ProxyInbox = InboxSender<DialOutcome>;

/// The outcome of a dial, for the connection in `slot` if that is still the one that dialled.
pub(crate) struct DialOutcome {
    pub slot: ProxySlot,
    pub dial_id: u64,
    pub outcome: io::Result<DialOutput>,
}

struct DialJob {
    cancelled: Arc<AtomicBool>,
    slot: ProxySlot,
    dial_id: u64,
    inbox: ProxyInbox,
}

/// A handle to the threads, which end when the last handle is dropped.
#[derive(Clone)]
pub(crate) struct Dialler(Sender<DialJob>);

/// What the threads do for each connection.
#[derive(Clone)]
pub(crate) enum DialTask {
    /// Connects a socket.
    Connect(SocketTarget),
    /// Fetches the token that an RDMA connection presents.
    FetchToken(TokenSource),
}

/// What a successful dial produces.
pub(crate) enum DialOutput {
    Link(Box<dyn Link>),
    Token(RdmaToken, BootstrapGuard),
}

/// Keeps the bootstrap connection of a token open. It is dropped when the token has been presented, or will not be.
pub(crate) struct BootstrapGuard(#[expect(dead_code, reason = "only its drop matters")] Sender<()>);

/// The broker's socket address, and how to connect to it.
#[derive(Clone)]
pub(crate) struct SocketTarget {
    pub to: Address,
    pub options: DialOptions,
    pub trust: Option<TlsClient>,
}

impl SocketTarget {
    fn dial(&self) -> io::Result<Box<dyn Link>> {
        match &self.trust {
            Some(trust) => link::dial_tls(&self.to, &self.options, trust),
            None => link::dial(&self.to, &self.options),
        }
    }
}

impl DialTask {
    fn run(&self, job: &DialJob) {
        let report = |outcome| {
            // A thread that has ended needs no outcome.
            let _sent = job.inbox.send(DialOutcome { slot: job.slot, dial_id: job.dial_id, outcome });
        };
        match self {
            DialTask::Connect(target) => report(target.dial().map(DialOutput::Link)),
            DialTask::FetchToken(source) => match source() {
                Err(error) => report(Err(error)),
                Ok(BootstrapToken { token, close }) => {
                    let (guard, dropped) = channel();
                    report(Ok(DialOutput::Token(token, BootstrapGuard(guard))));
                    // Nothing is ever sent. The guard is dropped at the deadline of the connection at the latest.
                    let _dropped = dropped.recv();
                    close();
                }
            },
        }
    }
}

impl Dialler {
    /// Starts the threads.
    pub fn start(task: DialTask) -> io::Result<Self> {
        let (sender, receiver) = channel::<DialJob>();
        let receiver = Arc::new(Mutex::new(receiver));
        for number in 0..DIALLERS {
            let (receiver, task) = (Arc::clone(&receiver), task.clone());
            let run = move || {
                while let Some(job) = next(&receiver) {
                    if !job.cancelled.load(Ordering::Relaxed) {
                        task.run(&job);
                    }
                }
            };
            // They are not joined: none of them owns anything that has to be closed in order.
            std::thread::Builder::new().name(format!("dial-{number}")).spawn(run)?;
        }
        Ok(Dialler(sender))
    }

    /// Starts a dial, whose outcome comes to `inbox`. Setting the returned flag cancels it while it is queued.
    pub fn dial(&self, slot: ProxySlot, dial_id: u64, inbox: ProxyInbox) -> Arc<AtomicBool> {
        let cancelled = Arc::<AtomicBool>::default();
        let job = DialJob { cancelled: Arc::clone(&cancelled), slot, dial_id, inbox };
        self.0.send(job).expect("the threads live as long as there is a handle");
        cancelled
    }
}

fn next(receiver: &Mutex<Receiver<DialJob>>) -> Option<DialJob> {
    // A thread that panicked with the lock held has taken no job.
    receiver.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}
