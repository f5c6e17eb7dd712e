//! What a proxy has done so far.
//!
//! Enters: what threads count.  Leaves: totals, at any time and on any thread.
//! Owns:   the counters, one set a thread, written by that thread alone.
//! Never:  is in the way: plain additions, published once a round.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Sums over all threads, or those of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Connections of clients that were taken in.
    pub accepted: u64,
    /// Those that were refused because there were as many as may be.
    pub refused: u64,
    /// Those for which the broker could not be reached.
    pub unreachable: u64,
    /// Those that ended because one of the two ends broke off.
    pub broken: u64,
    /// Bytes from clients to the broker.
    pub to_upstream_bytes: u64,
    /// Bytes from the broker to clients.
    pub to_client_bytes: u64,
    /// Bytes that went on from the memory they were received into.
    pub shared_bytes: u64,
    /// Bytes that were copied, because they were few.
    pub copied_bytes: u64,
    /// Bytes that a device has read from the broker straight into memory of ours.
    pub lent_bytes: u64,
    /// Lists of work given to queue pairs of a device.
    pub doorbells: u64,
    /// Messages sent over a device.
    pub rdma_sent: u64,
    /// Messages received over a device.
    pub rdma_received: u64,
}

impl Totals {
    fn fields(&mut self) -> [&mut u64; FIELDS] {
        [
            &mut self.accepted,
            &mut self.refused,
            &mut self.unreachable,
            &mut self.broken,
            &mut self.to_upstream_bytes,
            &mut self.to_client_bytes,
            &mut self.shared_bytes,
            &mut self.copied_bytes,
            &mut self.lent_bytes,
            &mut self.doorbells,
            &mut self.rdma_sent,
            &mut self.rdma_received,
        ]
    }
}

const FIELDS: usize = 12;

/// Where a thread publishes its counts.
#[derive(Default)]
pub(crate) struct Board {
    fields: [AtomicU64; FIELDS],
    /// Connections that lead somewhere, or are on their way.
    pub connections: AtomicUsize,
}

impl Board {
    /// Publishes what this thread has counted.
    pub fn publish(&self, mut counted: Totals) {
        for (place, value) in self.fields.iter().zip(counted.fields()) {
            place.store(*value, Ordering::Relaxed);
        }
    }

    /// Adds what was published to some totals.
    pub fn add_to(&self, totals: &mut Totals) {
        for (place, sum) in self.fields.iter().zip(totals.fields()) {
            *sum += place.load(Ordering::Relaxed);
        }
    }
}
