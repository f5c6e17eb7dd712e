//! What the mail between shards is made of: atomics of the standard library and rings of rtrb, or in models what loom sees.

#[cfg(loom)]
pub use crate::model_ring::{Consumer, Producer, PushError, RingBuffer};
#[cfg(loom)]
pub use loom::sync::atomic::fence;
#[cfg(loom)]
pub use model::AtomicBool;
#[cfg(not(loom))]
pub use rtrb::{Consumer, Producer, PushError, RingBuffer};
pub use std::sync::atomic::Ordering;
#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicBool, fence};

#[cfg(loom)]
mod model {
    use loom::sync::atomic::{self, Ordering};

    /// Stores by swapping. Beside plain stores loom tries swaps that are not atomic: what one writes is read after a store
    /// that came later.
    pub struct AtomicBool(atomic::AtomicBool);

    impl AtomicBool {
        pub fn new(value: bool) -> Self {
            AtomicBool(atomic::AtomicBool::new(value))
        }

        pub fn load(&self, order: Ordering) -> bool {
            self.0.load(order)
        }

        pub fn store(&self, value: bool, order: Ordering) {
            self.0.swap(value, order);
        }

        pub fn swap(&self, value: bool, order: Ordering) -> bool {
            self.0.swap(value, order)
        }
    }
}
