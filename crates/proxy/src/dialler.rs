//! What takes its time, on threads of its own: names are looked up and brokers waited for where nobody else waits.
//!
//! Enters: addresses, or where tokens come from.  Leaves: links and tokens, or why there is none, sent to who asked.
//! Owns:   a few threads, for all threads of a proxy together.
//! Never:  tries twice; begins what nobody waits for any more.

use crate::limits::DIALLERS;
use crate::options::{Pass, Passes};
use crate::reactor::Arrival;
use link::{Address, DialOptions, Link, TlsClient};
use mio::Waker;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use verbs::RdmaToken;

/// What there is to do.
struct Job {
    cancelled: Arc<AtomicBool>,
    slot: u32,
    ticket: u64,
    door: Door,
}

/// The way to a thread.
#[derive(Clone)]
pub(crate) struct Door {
    pub sender: Sender<Arrival>,
    pub waker: Arc<Waker>,
}

impl Door {
    /// Sends something to the thread, and wakes it. A thread that has ended takes nothing; what it is given goes.
    pub fn send(&self, arrival: Arrival) {
        if self.sender.send(arrival).is_ok()
            && let Err(error) = self.waker.wake()
        {
            tracing::error!(%error, "cannot wake a thread");
        }
    }
}

/// A handle on the threads; they end when the last is gone.
#[derive(Clone)]
pub(crate) struct Dialler(Sender<Job>);

/// What is fetched, for each question.
#[derive(Clone)]
pub(crate) enum Errand {
    /// A link.
    Link(Way),
    /// What a link must show that is connected elsewhere.
    Pass(Passes),
}

/// What was fetched.
pub(crate) enum Found {
    Link(Box<dyn Link>),
    Token(RdmaToken, Shown),
}

/// Dropped when a token was shown, or will not be: what it was given over is closed then.
pub(crate) struct Shown(#[expect(dead_code, reason = "its end is what is said")] Sender<()>);

/// Where to, and how.
#[derive(Clone)]
pub(crate) struct Way {
    pub to: Address,
    pub options: DialOptions,
    pub trust: Option<TlsClient>,
}

impl Way {
    fn dial(&self) -> io::Result<Box<dyn Link>> {
        match &self.trust {
            Some(trust) => link::dial_tls(&self.to, &self.options, trust),
            None => link::dial(&self.to, &self.options),
        }
    }
}

impl Errand {
    fn run(&self, job: &Job) {
        let answer = |outcome| job.door.send(Arrival::Dialled { slot: job.slot, ticket: job.ticket, outcome });
        match self {
            Errand::Link(way) => answer(way.dial().map(Found::Link)),
            Errand::Pass(passes) => match passes() {
                Err(error) => answer(Err(error)),
                Ok(Pass { token, close }) => {
                    let (shown, is_shown) = channel();
                    answer(Ok(Found::Token(token, Shown(shown))));
                    // Nothing is ever sent: it ends with the connection's try, which has a deadline.
                    let _shown = is_shown.recv();
                    close();
                }
            },
        }
    }
}

impl Dialler {
    /// Starts the threads.
    pub fn start(errand: Errand) -> io::Result<Self> {
        let (sender, receiver) = channel::<Job>();
        let receiver = Arc::new(Mutex::new(receiver));
        for number in 0..DIALLERS {
            let (receiver, errand) = (Arc::clone(&receiver), errand.clone());
            let work = move || {
                while let Some(job) = next(&receiver) {
                    if !job.cancelled.load(Ordering::Relaxed) {
                        errand.run(&job);
                    }
                }
            };
            // Nobody waits for their end: each has nothing but a link that nobody has taken.
            std::thread::Builder::new().name(format!("dial-{number}")).spawn(work)?;
        }
        Ok(Dialler(sender))
    }

    /// Asks; the answer comes through the door. Raising the flag makes the question void.
    pub fn dial(&self, slot: u32, ticket: u64, door: Door) -> Arc<AtomicBool> {
        let cancelled = Arc::<AtomicBool>::default();
        let job = Job { cancelled: Arc::clone(&cancelled), slot, ticket, door };
        self.0.send(job).expect("the threads live as long as there is a handle");
        cancelled
    }
}

fn next(receiver: &Mutex<Receiver<Job>>) -> Option<Job> {
    // Whoever panicked with the lock held has taken nothing out.
    receiver.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}
