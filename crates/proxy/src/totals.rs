//! What a proxy has done: counters of each thread, and their sums at any time.

use reactor::ReactorState;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Sums over all threads, or those of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProxyTotals {
    /// Connections of clients that were accepted.
    pub accepted: u64,
    /// Those that were refused because of the connection limit.
    pub refused: u64,
    /// Those for which the broker could not be reached.
    pub unreachable: u64,
    /// Those that did not end in order.
    pub broken: u64,
    /// Bytes from clients to the broker.
    pub to_upstream_bytes: u64,
    /// Bytes from the broker to clients.
    pub to_client_bytes: u64,
    /// Bytes that were sent from the memory they were received into.
    pub shared_bytes: u64,
    /// Bytes that were copied, in small reads.
    pub copied_bytes: u64,
    /// Bytes that a device read from the broker straight into our memory.
    pub lent_bytes: u64,
    /// Lists of work requests posted to queue pairs of a device.
    pub doorbells: u64,
    /// Messages that the device sent.
    pub rdma_sent: u64,
    /// Messages that the device received.
    pub rdma_received: u64,
}

impl ProxyTotals {
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

/// The totals that a thread has published.
#[derive(Default)]
struct ThreadTotals([AtomicU64; FIELDS]);

/// The published totals of all threads, and the state of their reactor.
pub(crate) struct SharedTotals {
    pub reactor: Arc<ReactorState>,
    threads: Box<[ThreadTotals]>,
}

impl SharedTotals {
    pub fn new(reactor: Arc<ReactorState>) -> Self {
        let threads = (0..reactor.threads()).map(|_| ThreadTotals::default()).collect();
        SharedTotals { reactor, threads }
    }

    /// Publishes what a thread has counted. Only that thread calls this.
    pub fn publish(&self, thread: u16, mut counted: ProxyTotals) {
        for (published, value) in self.threads[usize::from(thread)].0.iter().zip(counted.fields()) {
            published.store(*value, Ordering::Relaxed);
        }
    }

    /// The sums over all threads, and the number of connections.
    pub fn sum(&self) -> (ProxyTotals, usize) {
        let mut totals = ProxyTotals::default();
        for thread in &self.threads {
            for (published, sum) in thread.0.iter().zip(totals.fields()) {
                *sum += published.load(Ordering::Relaxed);
            }
        }
        (totals, self.reactor.connections() as usize)
    }
}
