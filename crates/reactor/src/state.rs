//! What the threads of one reactor share: how many connections each has, and whether they are to stop.

use crate::sync::{AtomicBool, AtomicU32, Ordering};

/// The connections of one thread, on a cache line of their own: other threads read it only when they accept.
#[repr(align(128))]
#[derive(Default)]
struct ConnectionCount(AtomicU32);

/// Connection counts of all threads, and the stop flag.
pub struct ReactorState {
    connections: Box<[ConnectionCount]>,
    /// Those of all threads: what the limit holds for. A connection that moves is among them all the time.
    total: AtomicU32,
    connections_max: u32,
    stopping: AtomicBool,
}

impl ReactorState {
    /// State of `threads` threads, which together may have `connections_max` connections.
    pub fn new(threads: u16, connections_max: u32) -> Self {
        let connections = (0..threads).map(|_| ConnectionCount::default()).collect();
        ReactorState { connections, total: AtomicU32::new(0), connections_max, stopping: AtomicBool::new(false) }
    }

    pub fn threads(&self) -> u16 {
        self.connections.len() as u16
    }

    /// Chooses the thread with the fewest connections and counts one more for it; `None` if the limit is reached.
    pub fn assign_connection(&self) -> Option<u16> {
        let counts = self.connections.iter().map(|count| count.0.load(Ordering::Relaxed));
        let (fewest, _) = counts.enumerate().min_by_key(|&(_, count)| count)?;
        let thread = fewest as u16;
        self.add_connection(thread).then_some(thread)
    }

    /// Counts a connection that a thread got without the listeners; false if the limit is reached.
    pub fn add_connection(&self, thread: u16) -> bool {
        let next = |total: u32| (total < self.connections_max).then(|| total + 1);
        let has_capacity = self.total.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok();
        if has_capacity {
            self.count(thread).fetch_add(1, Ordering::Relaxed);
        }
        has_capacity
    }

    /// A connection leaves one thread for another.
    pub fn move_connection(&self, from: u16, to: u16) {
        self.count(to).fetch_add(1, Ordering::Relaxed);
        self.count(from).fetch_sub(1, Ordering::Relaxed);
    }

    /// A connection of `thread` has ended.
    pub fn connection_closed(&self, thread: u16) {
        self.count(thread).fetch_sub(1, Ordering::Relaxed);
        self.total.fetch_sub(1, Ordering::Relaxed);
    }

    /// `thread` has ended, and its connections with it.
    pub(crate) fn thread_ended(&self, thread: u16) {
        let ended = self.count(thread).swap(0, Ordering::Relaxed);
        self.total.fetch_sub(ended, Ordering::Relaxed);
    }

    fn count(&self, thread: u16) -> &AtomicU32 {
        &self.connections[usize::from(thread)].0
    }

    /// Connections of one thread.
    pub fn connections_of(&self, thread: u16) -> u32 {
        self.count(thread).load(Ordering::Relaxed)
    }

    /// Connections of all threads.
    pub fn connections(&self) -> u32 {
        self.total.load(Ordering::Relaxed)
    }

    /// Sets the stop flag. It wakes nobody; see [`Stopper::stop`](crate::Stopper::stop).
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    #[inline]
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::ReactorState;

    #[test]
    fn a_connection_is_placed_on_the_thread_with_the_fewest_up_to_the_limit() {
        let state = ReactorState::new(3, 5);
        assert!(state.add_connection(0));
        let placed: Vec<_> = (0..5).map(|_| state.assign_connection()).collect();
        assert_eq!(placed, [Some(1), Some(2), Some(0), Some(1), None]);
        assert!(!state.add_connection(2), "the limit holds for connections from elsewhere, too");
        state.connection_closed(0);
        assert_eq!((state.connections(), state.assign_connection()), (4, Some(0)));
        state.thread_ended(1);
        assert_eq!((state.connections(), state.assign_connection()), (3, Some(1)));
        state.move_connection(2, 0);
        assert_eq!([0, 1, 2].map(|thread| state.connections_of(thread)), [3, 1, 0]);
        assert_eq!((state.connections(), state.assign_connection()), (4, Some(2)), "one that moves is counted once");
    }
}
