//! A ring for models, in place of rtrb's: it accesses its indexes in the same order and with the same orderings. What lies
//! in its slots is none of loom's business: that a slot is handed over as a whole is rtrb's promise.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use std::cell::Cell;
use std::sync::{Mutex, PoisonError};

struct Ring<T> {
    /// Elements that were taken and added since the beginning.
    head: AtomicUsize,
    tail: AtomicUsize,
    slots: Box<[Mutex<Option<T>>]>,
}

impl<T> Ring<T> {
    fn replace(&self, at: usize, value: Option<T>) -> Option<T> {
        let mut slot = self.slots[at % self.slots.len()].lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut slot, value)
    }
}

pub struct RingBuffer;

impl RingBuffer {
    pub fn new<T>(capacity: usize) -> (Producer<T>, Consumer<T>) {
        let slots = (0..capacity).map(|_| Mutex::new(None)).collect();
        let ring = Arc::new(Ring { head: AtomicUsize::new(0), tail: AtomicUsize::new(0), slots });
        let consumer = Consumer { ring: Arc::clone(&ring), head: 0, tail: Cell::new(0) };
        (Producer { ring, head: Cell::new(0), tail: 0 }, consumer)
    }
}

pub enum PushError<T> {
    Full(T),
}

pub struct Producer<T> {
    ring: Arc<Ring<T>>,
    /// The consumer's index when it was last looked at.
    head: Cell<usize>,
    tail: usize,
}

impl<T> Producer<T> {
    pub fn is_full(&self) -> bool {
        if self.tail - self.head.get() == self.ring.slots.len() {
            self.head.set(self.ring.head.load(Ordering::Acquire));
        }
        self.tail - self.head.get() == self.ring.slots.len()
    }

    pub fn push(&mut self, value: T) -> Result<(), PushError<T>> {
        if self.is_full() {
            return Err(PushError::Full(value));
        }
        self.ring.replace(self.tail, Some(value));
        self.tail += 1;
        self.ring.tail.store(self.tail, Ordering::Release);
        Ok(())
    }
}

pub struct Consumer<T> {
    ring: Arc<Ring<T>>,
    head: usize,
    /// The producer's index when it was last looked at.
    tail: Cell<usize>,
}

impl<T> Consumer<T> {
    pub fn is_empty(&self) -> bool {
        if self.tail.get() == self.head {
            self.tail.set(self.ring.tail.load(Ordering::Acquire));
        }
        self.tail.get() == self.head
    }

    /// The next element. An empty ring is an error, which rtrb names.
    pub fn pop(&mut self) -> Result<T, ()> {
        if self.is_empty() {
            return Err(());
        }
        let value = self.ring.replace(self.head, None).ok_or(())?;
        self.head += 1;
        self.ring.head.store(self.head, Ordering::Release);
        Ok(value)
    }
}
