//! The signal of a disk's thread to its shard: something is done.
//!
//! The shard looks at it whenever it looks at its mail, so that the thread wakes it only if it sleeps.

use crate::mailbox::ShardWaker;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;

/// Set by threads of disks, taken by the shard.
pub(crate) struct DiskSignal {
    is_set: AtomicBool,
    waker: Arc<ShardWaker>,
    /// The shard's thread, which at its end waits for the disk alone.
    thread: Thread,
}

impl DiskSignal {
    /// The signal for the shard of this thread.
    pub fn new(waker: Arc<ShardWaker>) -> Arc<Self> {
        Arc::new(DiskSignal { is_set: AtomicBool::new(false), waker, thread: std::thread::current() })
    }

    /// What a disk's thread calls.
    pub fn callback(self: &Arc<Self>) -> disk::Wake {
        let signal = Arc::clone(self);
        Box::new(move || signal.set())
    }

    fn set(&self) {
        self.is_set.store(true, Ordering::Release);
        self.waker.wake_if_asleep();
        self.thread.unpark();
    }

    /// Whether something is done that the shard has not seen. To be asked after [`ShardWaker::will_sleep`], too.
    #[inline]
    pub fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Acquire)
    }

    /// The shard is about to see everything that is done.
    #[inline]
    pub fn clear(&self) {
        self.is_set.store(false, Ordering::Release);
    }

    /// Sleeps until something is done.
    pub fn wait(&self) {
        while !self.is_set.swap(false, Ordering::AcqRel) {
            std::thread::park();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::DiskSignal;
    use crate::mailbox::ShardWaker;
    use crate::test_sessions::NeverAsleep;

    #[test]
    fn what_is_done_by_another_thread_ends_the_wait() {
        let signal = DiskSignal::new(ShardWaker::new(Box::new(NeverAsleep)));
        let callback = signal.callback();
        assert!(!signal.is_set());
        let disk = std::thread::spawn(callback);
        signal.wait();
        assert!(!signal.is_set(), "the wait has taken it");
        disk.join().expect("it only calls");
        signal.callback()();
        assert!(signal.is_set());
        signal.clear();
        assert!(!signal.is_set());
    }
}
