//! What threads send one another by: atomics and channels of the standard library and the waker of mio, or in models what
//! loom sees.

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicBool, AtomicU32};
#[cfg(loom)]
pub(crate) use model::{Receiver, Sender, Waker, channel};
pub use std::sync::atomic::Ordering;

#[cfg(not(loom))]
pub(crate) use mio::Waker;
#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicBool, AtomicU32};
#[cfg(not(loom))]
pub(crate) use std::sync::mpsc::{Receiver, Sender, channel};

#[cfg(loom)]
mod model {
    use loom::sync::{Arc, Condvar, Mutex, MutexGuard};
    use mio::{Registry, Token};
    use std::collections::VecDeque;
    use std::io;
    use std::sync::PoisonError;
    use std::sync::mpsc::{SendError, TryRecvError};

    fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// In place of an event descriptor: it stays signalled until a wait has ended.
    #[derive(Clone, Default)]
    pub struct Waker(Arc<(Mutex<bool>, Condvar)>);

    impl Waker {
        pub fn new(_registry: &Registry, _token: Token) -> io::Result<Self> {
            Ok(Waker::default())
        }

        pub fn wake(&self) -> io::Result<()> {
            let (is_signalled, changed) = &*self.0;
            *lock(is_signalled) = true;
            changed.notify_one();
            Ok(())
        }

        /// As the poll does with a waker alone.
        #[cfg(test)]
        pub fn wait(&self) {
            let (is_signalled, changed) = &*self.0;
            let mut is_signalled = lock(is_signalled);
            while !*is_signalled {
                is_signalled = changed.wait(is_signalled).unwrap_or_else(PoisonError::into_inner);
            }
            *is_signalled = false;
        }
    }

    /// In place of the standard library's channel. Loom's own does not try what it means to find it empty.
    pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
        let queue = Arc::new(Mutex::new(VecDeque::new()));
        (Sender(Arc::clone(&queue)), Receiver(queue))
    }

    pub struct Sender<T>(Arc<Mutex<VecDeque<T>>>);

    impl<T> Clone for Sender<T> {
        fn clone(&self) -> Self {
            Sender(Arc::clone(&self.0))
        }
    }

    impl<T> Sender<T> {
        /// Never an error: in models receivers live as long as their senders.
        pub fn send(&self, message: T) -> Result<(), SendError<T>> {
            lock(&self.0).push_back(message);
            Ok(())
        }
    }

    pub struct Receiver<T>(Arc<Mutex<VecDeque<T>>>);

    impl<T> Receiver<T> {
        pub fn try_recv(&self) -> Result<T, TryRecvError> {
            lock(&self.0).pop_front().ok_or(TryRecvError::Empty)
        }
    }
}
