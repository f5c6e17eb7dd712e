//! The heap that the code of one simulated broker holds, as the program's allocator counts it.
//!
//! Everything is on one thread: what is allocated while a broker runs is the broker's, and what the links lend it is not.

use slab::left_by;

/// Bytes of the heap that a broker has allocated and not freed.
#[derive(Default)]
pub struct BrokerHeap {
    bytes: isize,
    /// What it held before its first connection, beside its definitions.
    empty_bytes: isize,
}

impl BrokerHeap {
    /// Calls the broker, and counts what it allocates and frees.
    pub fn measure<T>(&mut self, call: impl FnOnce() -> T) -> T {
        let (result, bytes) = left_by(call);
        self.bytes += bytes;
        result
    }

    /// The broker is set up, and has no connections. Its definitions take so many bytes.
    pub fn mark_empty(&mut self, definition_bytes: usize) {
        self.empty_bytes = self.bytes - definition_bytes as isize;
    }

    /// The broker takes over something that was allocated elsewhere, of which this is a copy.
    pub fn take_over<T>(&mut self, copy: impl FnOnce() -> T) {
        let (copy, bytes) = left_by(copy);
        self.bytes += bytes;
        drop(copy);
    }

    /// What the broker has allocated and others free: the buffer of a connection.
    pub fn hand_over(&mut self, bytes: isize) {
        self.bytes -= bytes;
    }

    /// What it holds beyond what it held when it was empty: its definitions, and what came later.
    pub fn held_bytes(&self) -> isize {
        self.bytes - self.empty_bytes
    }
}

#[cfg(test)]
mod tests {
    use crate::settings::{Mode, Settings};
    use crate::simulated_client::ClientRole;
    use crate::world::SimulatedWorld;
    use slab::left_by;

    #[test]
    fn a_run_that_is_dropped_leaves_nothing_and_what_is_never_freed_is_found() {
        let world = || {
            let mut world = SimulatedWorld::new(Settings::of(Mode::Features, 1), false);
            world.connect(0, ClientRole::Any);
            world
        };
        assert_eq!(left_by(|| drop(world())).1, 0);
        let ((), bytes) = left_by(|| {
            let mut world = world();
            world.brokers[0].wake(0, |_| std::mem::forget(std::hint::black_box(vec![7_u8; 48])));
        });
        assert_eq!(bytes, 48);
    }
}
