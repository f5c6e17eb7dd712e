//! The operator: what the program does with a broker that runs.
//!
//! Enters: changes of definitions, looks at them, answers to administrative requests; from any thread.  Leaves: the same, at the shard concerned.
//! Owns:   the ways to the shards.
//! Never:  shares anything of a shard: what it wants is done on the shard's own thread.

use crate::limits::REQUESTS_WAITING_MAX;
use crate::reactor::{Arrival, Door};
use broker::{ReplyAddress, AdminRequest};
use catalog::{Catalog, Definition, Refusal};
use federation::{LinkStatus, Order};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};

/// The way by which administrative requests come, for `ServerOptions::requests`, and its other end.
pub fn requests() -> (SyncSender<AdminRequest>, Receiver<AdminRequest>) {
    mpsc::sync_channel(REQUESTS_WAITING_MAX)
}

/// Does what an operator wants, from any thread.
#[derive(Clone)]
pub struct Operator {
    doors: Vec<Door>,
    /// Links that were ever made.
    links: Arc<AtomicUsize>,
}

impl Operator {
    pub(crate) fn new(doors: Vec<Door>) -> Self {
        Operator { doors, links: Arc::default() }
    }

    /// Has these changes made, in their order, on every shard, and waits until the first has made them. Answers the refusals;
    /// the others are made. `None`: the broker has stopped, and makes none.
    pub fn define(&self, definitions: Vec<Definition>) -> Option<Vec<Refusal>> {
        let (refused, refusals) = mpsc::channel();
        self.tell(0, Arrival::Definitions(definitions, refused))?;
        refusals.recv().ok()
    }

    /// Looks at the definitions as they are between two changes, on the thread of the shard that makes them, which does nothing else
    /// meanwhile; waits for what is seen. `None`: the broker has stopped.
    pub fn look<T: Send + 'static>(&self, look: impl FnOnce(&Catalog) -> T + Send + 'static) -> Option<T> {
        let (seen, sight) = mpsc::channel();
        let look = move |catalog: &Catalog| {
            // Whoever asked waits, unless its thread has failed.
            let _heard = seen.send(look(catalog));
        };
        self.tell(0, Arrival::Look(Box::new(look)))?;
        sight.recv().ok()
    }

    /// Answers an administrative request: `properties` in wire form, a body of `limits::ANSWER_BYTES_MAX` bytes at most. A channel
    /// that has gone hears nothing.
    ///
    /// # Panics
    /// On a longer body.
    pub fn answer(&self, to: ReplyAddress, properties: Vec<u8>, body: Vec<u8>) {
        assert!(body.len() <= crate::limits::ANSWER_BYTES_MAX, "an answer beyond ANSWER_BYTES_MAX");
        let _stopped = self.tell(to.shard.0, Arrival::Answer { to, properties, body });
    }

    /// Changes links and routes, and waits until it is done. A new link goes to the shards in turn. `None`: the broker has
    /// stopped.
    pub fn federate(&self, order: Order) -> Option<()> {
        if let Order::AddLink(spec) = &order
            && self.links()?.iter().any(|link| link.spec.key == spec.key)
        {
            return Some(());
        }
        let only =
            matches!(order, Order::AddLink(_)).then(|| self.links.fetch_add(1, Ordering::Relaxed) % self.doors.len());
        // Whoever does not have the link does nothing.
        let shards = (0..self.doors.len()).filter(|shard| only.is_none_or(|only| only == *shard));
        let (taken, takings) = mpsc::channel();
        for shard in shards {
            self.tell(shard as u16, Arrival::Federate(order.clone(), taken.clone()))?;
        }
        drop(taken);
        takings.iter().for_each(drop);
        Some(())
    }

    /// How every link stands. `None`: the broker has stopped.
    pub fn links(&self) -> Option<Vec<LinkStatus>> {
        let (seen, sight) = mpsc::channel();
        for shard in 0..self.doors.len() {
            self.tell(shard as u16, Arrival::Links(seen.clone()))?;
        }
        drop(seen);
        let mut links: Vec<_> = sight.iter().flatten().collect();
        links.sort_by(|one, other| one.spec.key.cmp(&other.spec.key));
        Some(links)
    }

    fn tell(&self, shard: u16, arrival: Arrival) -> Option<()> {
        let (sender, bell) = self.doors.get(usize::from(shard))?;
        sender.send(arrival).ok()?;
        bell.wake();
        Some(())
    }
}
