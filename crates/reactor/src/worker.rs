//! What one thread of a reactor does with its connections: the trait that the event loop calls.

use crate::inbox::InboxSender;
use crate::limits::LISTENERS_MAX;
use link::Link;
use mio::{Registry, Token};
use std::time::{Duration, Instant};

/// The token of the first listener; each further one has one less.
pub(crate) const LISTENERS: Token = Token(usize::MAX - 1);
/// The token of device descriptors that only wake the thread, such as completion channels: it polls all devices then.
pub const COMPLETIONS: Token = Token(LISTENERS.0 - LISTENERS_MAX);
/// The token of device descriptors that announce asynchronous events; see [`Worker::on_async_event`].
pub const ASYNC_EVENTS: Token = Token(COMPLETIONS.0 - 1);

/// Edges that the poll reports for a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketReadiness {
    pub readable: bool,
    pub writable: bool,
    /// The peer has closed its sending half, or the connection failed.
    pub closed: bool,
}

/// How a thread without work waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleStrategy {
    /// It sleeps at once.
    Sleep,
    /// It polls for this long before it sleeps.
    Spin(Duration),
    /// It polls as long as it may wait and never sleeps.
    BusyPoll,
}

/// What a worker is built with, on its own thread.
pub struct WorkerContext<'a, M> {
    pub thread: u16,
    /// The inbox of this thread, for replies from other threads.
    pub inbox: InboxSender<M>,
    /// Where the worker registers descriptors of devices, under [`COMPLETIONS`] or [`ASYNC_EVENTS`].
    pub registry: &'a Registry,
}

/// The connections of one thread and what it does with them. Other threads send it messages of type `M`.
///
/// A round of the event loop calls [`on_message`](Worker::on_message) and [`adopt`](Worker::adopt) for what the inbox and
/// the listeners have, then [`poll_devices`](Worker::poll_devices), [`drain`](Worker::drain) if the reactor stops,
/// [`tick`](Worker::tick), and after the wait [`on_ready`](Worker::on_ready) for each link with edges.
pub trait Worker<M> {
    /// The token that the next adopted link gets.
    fn next_token(&self) -> Token;

    /// Takes over an accepted link, which is registered under [`next_token`](Worker::next_token) and counted in
    /// [`ReactorState`](crate::ReactorState). The worker calls `connection_closed` there when the connection ends.
    fn adopt(&mut self, link: Box<dyn Link>, registry: &Registry, now: Instant);

    /// A client was refused: the connection limit is reached, or its link cannot be registered.
    fn on_refused(&mut self) {}

    fn on_message(&mut self, message: M, registry: &Registry, now: Instant);

    fn on_ready(&mut self, token: Token, readiness: SocketReadiness);

    /// A descriptor registered under [`ASYNC_EVENTS`] is readable.
    fn on_async_event(&mut self) {}

    /// Whether there are devices that report readiness beside the poll.
    fn has_devices(&self) -> bool {
        false
    }

    /// Collects readiness from the devices. Returns whether the next round may skip the poll if it follows at once.
    fn poll_devices(&mut self, _registry: &Registry, _now: Instant) -> bool {
        false
    }

    /// Posts what spinning has queued at the devices.
    fn flush_devices(&mut self, _registry: &Registry) {}

    /// Serves the connections. Returns how long the thread may wait: zero if there is more to do at once, `None` if
    /// only an event brings new work.
    fn tick(&mut self, registry: &Registry, now: Instant) -> Option<Duration>;

    /// Whether messages wait that came past the inbox. Checked while spinning.
    fn has_messages(&self) -> bool {
        false
    }

    /// How to wait for at most `wait`, which is not zero.
    fn idle_strategy(&mut self, _wait: Option<Duration>) -> IdleStrategy {
        IdleStrategy::Sleep
    }

    /// A wait that began with [`IdleStrategy::Spin`] or [`IdleStrategy::BusyPoll`] found work after `elapsed`, spinning and
    /// sleeping together.
    fn on_wait_end(&mut self, _elapsed: Duration) {}

    /// A round has ended, in which the thread has worked and waited for so long.
    fn on_round_end(&mut self, _busy: Duration, _waited: Duration) {}

    /// Called right before a sleep: arms devices and checks once more for work. Returns a bound of the sleep, if any.
    fn before_sleep(&mut self, _registry: &Registry, _now: Instant) -> Option<Duration> {
        None
    }

    fn after_sleep(&mut self) {}

    /// The reactor stops: no more connections are accepted. Called in every round until [`is_drained`](Worker::is_drained)
    /// or the drain timeout.
    fn drain(&mut self, now: Instant);

    /// Whether nothing is left that the drain has to wait for.
    fn is_drained(&self) -> bool;

    /// The last call: the worker is drained, or the drain timeout has passed.
    fn finish(&mut self, registry: &Registry, now: Instant);
}
