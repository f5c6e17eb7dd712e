//! The event loop of one thread: inbox, accept, devices, drain, tick, wait, dispatch.

use crate::inbox::WAKER;
use crate::inbox::{Envelope, InboxSender};
use crate::limits::{ACCEPTED_PER_ROUND, EVENTS_PER_POLL, RETRY_INTERVAL, ROUNDS_WITHOUT_POLL_MAX};
use crate::state::ReactorState;
use crate::sync::Receiver;
use crate::worker::{ASYNC_EVENTS, COMPLETIONS, IdleStrategy, LISTENERS, SocketReadiness, Worker};
use link::{AbortReason, Link, Listeners};
use mio::{Events, Poll, Token};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The listeners, and the inboxes of all threads.
pub(crate) struct LinkDistributor<M> {
    pub listeners: Listeners,
    pub inboxes: Vec<InboxSender<M>>,
}

pub(crate) struct EventLoop<W, M> {
    pub thread: u16,
    pub worker: W,
    pub poll: Poll,
    /// Only on the first thread, until the reactor stops.
    pub distributor: Option<LinkDistributor<M>>,
    pub inbox: Receiver<Envelope<M>>,
    pub state: Arc<ReactorState>,
    pub drain_timeout: Duration,
    /// Rounds since the last poll, while devices kept the thread busy.
    pub rounds_without_poll: u32,
    /// When the thread had no more work in this round; `None` as long as it has.
    pub wait_began: Option<Instant>,
}

impl<W: Worker<M>, M> EventLoop<W, M> {
    /// Runs until the reactor stops and the worker is drained or the drain timeout has passed.
    ///
    /// # Errors
    /// The poll fails.
    #[expect(clippy::disallowed_methods, reason = "the reactor is where time enters")]
    pub fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS_PER_POLL);
        let mut accept_pending = self.register_listeners()?;
        let mut drain_deadline: Option<Instant> = None;
        let mut round_began: Option<Instant> = None;
        loop {
            let now = Instant::now();
            let wait_began = self.wait_began.take().unwrap_or(now);
            if let Some(began) = round_began.replace(now) {
                let waited = now.saturating_duration_since(wait_began);
                self.worker.on_round_end(wait_began.saturating_duration_since(began), waited);
            }
            while let Ok(envelope) = self.inbox.try_recv() {
                match envelope {
                    Envelope::Link(link) => adopt(&mut self.worker, &self.state, self.thread, link, &self.poll, now),
                    Envelope::Message(message) => self.worker.on_message(message, self.poll.registry(), now),
                }
            }
            let mut has_more = false;
            if accept_pending {
                (accept_pending, has_more) = self.accept(now);
            }
            let devices_busy = self.worker.poll_devices(self.poll.registry(), now);
            if self.state.is_stopping() {
                self.distributor = None;
                self.worker.drain(now);
                let deadline = *drain_deadline.get_or_insert(now + self.drain_timeout);
                if self.worker.is_drained() || now >= deadline {
                    self.worker.finish(self.poll.registry(), now);
                    return Ok(());
                }
            }
            let mut wait = self.worker.tick(self.poll.registry(), now);
            if accept_pending || drain_deadline.is_some() || self.state.is_stopping() {
                let retry = if has_more { Duration::ZERO } else { RETRY_INTERVAL };
                wait = Some(wait.unwrap_or(retry).min(retry));
            }
            self.wait(&mut events, wait, devices_busy, now)?;
            for event in &events {
                match event.token() {
                    WAKER | COMPLETIONS => {}
                    ASYNC_EVENTS => self.worker.on_async_event(),
                    Token(number) if number > COMPLETIONS.0 => accept_pending = true,
                    token => {
                        let (readable, writable) = (event.is_readable(), event.is_writable());
                        let closed = event.is_read_closed() || event.is_error();
                        self.worker.on_ready(token, SocketReadiness { readable, writable, closed });
                    }
                }
            }
        }
    }

    /// Waits for events, or for work that devices or other threads bring past the poll.
    #[expect(clippy::disallowed_methods, reason = "the reactor is where time enters")]
    fn wait(
        &mut self,
        events: &mut Events,
        wait: Option<Duration>,
        devices_busy: bool,
        now: Instant,
    ) -> io::Result<()> {
        events.clear();
        if wait == Some(Duration::ZERO) {
            self.rounds_without_poll += 1;
            if devices_busy && self.rounds_without_poll < ROUNDS_WITHOUT_POLL_MAX {
                return Ok(());
            }
            self.rounds_without_poll = 0;
            return poll(&mut self.poll, events, wait);
        }
        self.rounds_without_poll = 0;
        let strategy = self.worker.idle_strategy(wait);
        let has_devices = self.worker.has_devices();
        let began = Instant::now();
        self.wait_began = Some(began);
        let window = match strategy {
            IdleStrategy::Sleep => return self.sleep(events, wait, if has_devices { began } else { now }),
            IdleStrategy::Spin(window) => window,
            IdleStrategy::BusyPoll => wait.unwrap_or(Duration::MAX),
        };
        if !window.is_zero() && self.spin(events, began, window, has_devices)? {
            self.worker.on_wait_end(began.elapsed());
            return Ok(());
        }
        if strategy == IdleStrategy::BusyPoll {
            return Ok(());
        }
        self.sleep(events, wait, if has_devices { Instant::now() } else { now })?;
        self.worker.on_wait_end(began.elapsed());
        Ok(())
    }

    /// Polls until there is work or `window` is over. Returns whether there is work.
    fn spin(&mut self, events: &mut Events, began: Instant, window: Duration, has_devices: bool) -> io::Result<bool> {
        let mut turns: u32 = 0;
        loop {
            let elapsed = began.elapsed();
            if elapsed >= window {
                return Ok(false);
            }
            let mut has_work = false;
            if has_devices {
                has_work = self.worker.poll_devices(self.poll.registry(), began + elapsed);
                self.worker.flush_devices(self.poll.registry());
            }
            if !has_devices || turns.is_multiple_of(ROUNDS_WITHOUT_POLL_MAX) {
                poll(&mut self.poll, events, Some(Duration::ZERO))?;
            }
            if has_work || !events.is_empty() || self.worker.has_messages() {
                return Ok(true);
            }
            turns = turns.wrapping_add(1);
            if has_devices {
                // A software device needs a core as well, and there may be few.
                std::thread::yield_now();
            }
        }
    }

    fn sleep(&mut self, events: &mut Events, wait: Option<Duration>, now: Instant) -> io::Result<()> {
        let bound = self.worker.before_sleep(self.poll.registry(), now);
        let outcome = poll(&mut self.poll, events, wait.into_iter().chain(bound).min());
        self.worker.after_sleep();
        outcome
    }

    /// Returns whether there are listeners: clients may be waiting already.
    fn register_listeners(&mut self) -> io::Result<bool> {
        let Some(distributor) = &mut self.distributor else { return Ok(false) };
        distributor.listeners.register(self.poll.registry(), LISTENERS)?;
        Ok(true)
    }

    /// Accepts waiting clients, as many as one round may. Returns whether to try again, because there are more or the system has no
    /// descriptor left, and whether there are more: then at once.
    fn accept(&mut self, now: Instant) -> (bool, bool) {
        let Some(LinkDistributor { listeners, inboxes }) = &mut self.distributor else { return (false, false) };
        let mut is_exhausted = false;
        let has_more = listeners.accept(ACCEPTED_PER_ROUND, |accepted| match accepted {
            Ok(mut link) => match self.state.assign_connection() {
                Some(thread) if thread == self.thread => {
                    adopt(&mut self.worker, &self.state, thread, link, &self.poll, now);
                }
                Some(thread) => {
                    // A thread that has ended takes no more links, and the reactor is about to stop.
                    let _sent = inboxes[usize::from(thread)].post(Envelope::Link(link));
                }
                None => {
                    tracing::warn!(peer = &*link.peer().address, "connection limit reached: client refused");
                    self.worker.on_refused();
                    link.abort(AbortReason::Limit);
                }
            },
            Err(error) => {
                tracing::warn!(%error, "cannot accept");
                is_exhausted = true;
            }
        });
        (is_exhausted || has_more, has_more && !is_exhausted)
    }
}

/// Registers a link that is counted for this thread, and gives it to the worker.
fn adopt<W: Worker<M>, M>(
    worker: &mut W,
    state: &ReactorState,
    thread: u16,
    mut link: Box<dyn Link>,
    poll: &Poll,
    now: Instant,
) {
    match link.register(poll.registry(), worker.next_token()) {
        Ok(()) => worker.adopt(link, poll.registry(), now),
        Err(error) => {
            tracing::warn!(peer = &*link.peer().address, %error, "cannot wait for a new connection: client refused");
            worker.on_refused();
            link.abort(AbortReason::Limit);
            state.connection_closed(thread);
        }
    }
}

/// Polls once. A signal ends the wait without an error.
fn poll(poll: &mut Poll, events: &mut Events, wait: Option<Duration>) -> io::Result<()> {
    match poll.poll(events, wait) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {
            events.clear();
            Ok(())
        }
        outcome => outcome,
    }
}
