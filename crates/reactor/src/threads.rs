//! The threads of a reactor: they start together, and the end of one is the end of all.

use crate::event_loop::{EventLoop, LinkDistributor};
use crate::inbox::{Envelope, InboxSender, ThreadWaker, inbox};
use crate::limits::LISTENERS_MAX;
use crate::state::ReactorState;
use crate::sync::Receiver;
use crate::worker::{Worker, WorkerContext};
use link::Listener;
use mio::Poll;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// How the threads of a reactor run.
pub struct ReactorOptions {
    /// The threads are called `name-0`, `name-1` and so on.
    pub name: &'static str,
    /// Where clients connect.
    pub listeners: Vec<Listener>,
    /// How long connections may take to end when the reactor stops.
    pub drain_timeout: Duration,
}

/// A reactor whose threads do not run yet, so that their inboxes can be given to others first.
pub struct Reactor<M> {
    state: Arc<ReactorState>,
    threads: Vec<ThreadParts<M>>,
    inboxes: Vec<InboxSender<M>>,
}

/// What exists of a thread before it starts.
struct ThreadParts<M> {
    poll: Poll,
    inbox: Receiver<Envelope<M>>,
}

impl<M: Send + 'static> Reactor<M> {
    /// A poll and an inbox for each thread of `state`.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn new(state: Arc<ReactorState>) -> io::Result<Self> {
        let (mut threads, mut inboxes) = (Vec::new(), Vec::new());
        for _ in 0..state.threads() {
            let poll = Poll::new()?;
            let (sender, receiver) = inbox(ThreadWaker::new(poll.registry())?);
            inboxes.push(sender);
            threads.push(ThreadParts { poll, inbox: receiver });
        }
        Ok(Reactor { state, threads, inboxes })
    }

    /// The inbox of each thread.
    pub fn inboxes(&self) -> &[InboxSender<M>] {
        &self.inboxes
    }

    /// Starts a thread for each of `builders`, which build the workers on their own threads. Returns when all are built.
    ///
    /// # Errors
    /// The error of the first worker that could not be built, or of the system; no thread runs then.
    ///
    /// # Panics
    /// If there is not one builder for each thread, or more than [`LISTENERS_MAX`] listeners.
    pub fn start<W, E, B>(self, options: ReactorOptions, builders: Vec<B>) -> Result<ReactorThreads, E>
    where
        W: Worker<M>,
        E: From<io::Error> + Send + 'static,
        B: FnOnce(WorkerContext<'_, M>) -> Result<W, E> + Send + 'static,
    {
        let Reactor { state, threads: parts, inboxes } = self;
        let ReactorOptions { name, listeners, drain_timeout } = options;
        assert_eq!(builders.len(), parts.len(), "one builder for each thread");
        assert!(listeners.len() <= LISTENERS_MAX, "too many listeners");
        let wakers = inboxes.iter().map(|inbox| inbox.waker().clone()).collect();
        let mut running = ReactorThreads { stopper: Stopper::new(state, wakers), threads: Vec::new() };
        let mut distributor = Some(LinkDistributor { listeners: listeners.into(), inboxes: inboxes.clone() });
        let (sender, outcomes) = channel();
        for (thread, (((parts, inbox), builder), distributor)) in
            (0..).zip(parts.into_iter().zip(inboxes).zip(builders).zip(std::iter::from_fn(|| Some(distributor.take()))))
        {
            let (stopper, sender) = (running.stopper.clone(), sender.clone());
            let run = move || {
                let guard = EndGuard { thread, stopper };
                let state = Arc::clone(&guard.stopper.state);
                let ThreadParts { poll, inbox: receiver } = parts;
                let built = builder(WorkerContext { thread, inbox, registry: poll.registry() });
                let Some(worker) = report(built, &state, sender) else { return Ok(()) };
                let (rounds_without_poll, wait_began) = (0, None);
                let inbox = receiver;
                EventLoop {
                    thread,
                    worker,
                    poll,
                    distributor,
                    inbox,
                    state,
                    drain_timeout,
                    rounds_without_poll,
                    wait_began,
                }
                .run()
            };
            match std::thread::Builder::new().name(format!("{name}-{thread}")).spawn(run) {
                Ok(handle) => running.threads.push(handle),
                Err(error) => return running.abandon(error.into()),
            }
        }
        drop(sender);
        // A thread whose builder panicked reports nothing; `join` passes its panic on.
        match outcomes.iter().find_map(Result::err) {
            None => Ok(running),
            Some(error) => running.abandon(error),
        }
    }
}

/// Reports to the starting thread that a worker was built, or why not, and returns the worker.
fn report<W, E>(built: Result<W, E>, state: &ReactorState, outcomes: Sender<Result<(), E>>) -> Option<W> {
    let (worker, outcome) = match built {
        Ok(worker) => (Some(worker), Ok(())),
        Err(error) => {
            state.stop();
            (None, Err(error))
        }
    };
    // Once another thread has failed, the starting thread receives no more outcomes.
    let _received = outcomes.send(outcome);
    worker
}

/// Stops a reactor, from any thread.
#[derive(Clone)]
pub struct Stopper {
    state: Arc<ReactorState>,
    wakers: Arc<[ThreadWaker]>,
}

impl Stopper {
    pub(crate) fn new(state: Arc<ReactorState>, wakers: Arc<[ThreadWaker]>) -> Self {
        Stopper { state, wakers }
    }

    /// Makes all threads stop accepting and drain their connections. Further calls change nothing.
    pub fn stop(&self) {
        self.state.stop();
        self.wakers.iter().for_each(ThreadWaker::wake);
    }
}

/// Stops the whole reactor if its thread ends by a panic or an error: the others would wait for its connections.
struct EndGuard {
    thread: u16,
    stopper: Stopper,
}

impl Drop for EndGuard {
    fn drop(&mut self) {
        if !self.stopper.state.is_stopping() {
            tracing::error!(thread = self.thread, "a reactor thread failed; all threads stop");
            self.stopper.state.thread_ended(self.thread);
            self.stopper.stop();
        }
    }
}

/// The running threads of a reactor.
pub struct ReactorThreads {
    stopper: Stopper,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

impl ReactorThreads {
    /// Makes all threads stop accepting and drain their connections.
    pub fn stop(&self) {
        self.stopper.stop();
    }

    /// A handle that stops the threads while another thread joins them.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    pub fn state(&self) -> &Arc<ReactorState> {
        &self.stopper.state
    }

    /// Whether every thread still runs.
    pub fn is_running(&self) -> bool {
        !self.threads.iter().any(JoinHandle::is_finished)
    }

    /// Waits until all threads have ended.
    ///
    /// # Errors
    /// The first error of a thread; it has stopped the others.
    ///
    /// # Panics
    /// If a thread panicked, with its panic.
    pub fn join(self) -> io::Result<()> {
        let outcomes: Vec<_> = self.threads.into_iter().map(JoinHandle::join).collect();
        outcomes.into_iter().try_for_each(|outcome| outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    }

    /// Ends the threads that were started before `error`.
    fn abandon<E: From<io::Error>>(self, error: E) -> Result<Self, E> {
        self.stop();
        self.join()?;
        Err(error)
    }
}
