//! Threads that make the calls which end sockets. Each call may block until the peer's device has acknowledged
//! everything: for tens of seconds if the peer is gone. Others are closed meanwhile.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::limits::CLOSING_THREADS;

/// What waits to be ended. The threads end when the last clone is dropped and everything was carried out.
pub struct CloseQueue<T> {
    waiting: Sender<T>,
    carry_out: fn(T),
}

impl<T> Clone for CloseQueue<T> {
    fn clone(&self) -> Self {
        Self { waiting: self.waiting.clone(), carry_out: self.carry_out }
    }
}

impl<T: Send + 'static> CloseQueue<T> {
    /// Starts the threads.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn start(carry_out: fn(T)) -> io::Result<Self> {
        let (waiting, next) = channel();
        let next = Arc::new(Mutex::new(next));
        for _ in 0..CLOSING_THREADS {
            let next = next.clone();
            thread::Builder::new().name("rsocket-close".to_owned()).spawn(move || {
                while let Some(close) = take(&next) {
                    carry_out(close);
                }
            })?;
        }
        Ok(Self { waiting, carry_out })
    }

    /// Adds one. It is carried out here, and may block, if the threads are gone.
    pub fn push(&self, close: T) {
        if let Err(unsent) = self.waiting.send(close) {
            (self.carry_out)(unsent.0);
        }
    }
}

/// Waits for the next one, with the lock held: the other idle threads wait for the lock.
fn take<T>(next: &Mutex<Receiver<T>>) -> Option<T> {
    next.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Blocks until its other end is dropped or has sent.
    fn block(until: Receiver<()>) {
        let _released = until.recv();
    }

    #[test]
    fn sockets_that_are_slow_to_close_do_not_hold_up_others() {
        let queue = CloseQueue::start(block).expect("threads can be had");
        let slow: Vec<Sender<()>> = (1..CLOSING_THREADS)
            .map(|_| {
                let (release, until) = channel();
                queue.push(until);
                release
            })
            .collect();
        // A rendezvous: the send ends once somebody has taken it.
        let (release, until) = std::sync::mpsc::sync_channel::<()>(0);
        queue.push(until);
        let (taken, was_taken) = channel();
        thread::spawn(move || taken.send(release.send(()).is_ok()));
        assert_eq!(was_taken.recv_timeout(Duration::from_secs(60)), Ok(true), "it waits behind the slow ones");
        drop(slow);
    }

    #[test]
    fn what_was_pushed_is_carried_out_after_the_last_owner_has_gone() {
        let queue = CloseQueue::start(|done: Sender<u32>| done.send(7).expect("somebody receives"))
            .expect("threads can be had");
        let (done, was_done) = channel();
        (0..100).for_each(|_| queue.push(done.clone()));
        drop((queue, done));
        assert_eq!(was_done.into_iter().collect::<Vec<_>>(), [7; 100]);
    }
}
