//! The reactor: threads that accept connections, wait for readiness and stop together.
//!
//! Every thread runs one event loop over a [`Worker`], which owns the thread's connections. The first thread also owns
//! the listeners and hands each accepted link to the thread with the fewest connections.
//!
//! - A [`Reactor`] has an inbox for each thread; [`Reactor::start`] starts the threads and returns [`ReactorThreads`].
//! - `event_loop` is the loop itself: inbox, accept, devices, drain, tick, wait, dispatch.
//! - [`AdaptiveSpin`] decides how long a worker polls before it sleeps.
#![forbid(unsafe_code)]

mod adaptive_spin;
mod event_loop;
mod inbox;
pub mod limits;
mod state;
mod sync;
#[cfg(all(test, loom))]
mod tests;
mod threads;
mod worker;

pub use adaptive_spin::AdaptiveSpin;
pub use inbox::{InboxSender, ThreadWaker};
pub use state::ReactorState;
pub use threads::{Reactor, ReactorOptions, ReactorThreads, Stopper};
pub use worker::{ASYNC_EVENTS, COMPLETIONS, IdleStrategy, SocketReadiness, Worker, WorkerContext};
