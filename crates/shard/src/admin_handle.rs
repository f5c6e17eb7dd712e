//! Administration of a running broker from any thread: the shard concerned does the work on its own thread.

use crate::catalog_replica::CatalogReplica;
use crate::inbox::{InboxMessage, ShardInbox};
use crate::limits::REQUESTS_WAITING_MAX;
use crate::reports::{CloseRequest, ConnectionSelector};
use crate::shard_report::ShardReport;
use broker::{AdminRequest, QueueReport, ReplyAddress};
use catalog::{Catalog, Definition, Refusal, ShardId};
use durability::ShardStoreMetrics;
use federation::{FederationCommand, LinkStatus};
use link::Link;
use queues::PeekedQueue;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::time::Duration;

/// The channel of administrative requests: a sender for `ServerOptions::requests`, and its receiver.
pub fn request_channel() -> (SyncSender<AdminRequest>, Receiver<AdminRequest>) {
    mpsc::sync_channel(REQUESTS_WAITING_MAX)
}

/// Administers a running broker, from any thread.
#[derive(Clone)]
pub struct AdminHandle {
    inboxes: Vec<ShardInbox>,
    /// How many links were ever added.
    links: Arc<AtomicUsize>,
    /// How many connections within the process were ever made.
    connections: Arc<AtomicUsize>,
}

impl AdminHandle {
    pub(crate) fn new(inboxes: Vec<ShardInbox>) -> Self {
        AdminHandle { inboxes, links: Arc::default(), connections: Arc::default() }
    }

    /// Makes these changes, in their order, on every shard, and waits until the first shard has made them, durably if it
    /// has a store. Returns the refusals; the other changes are made. `None`: the broker has stopped, and it is not known which are.
    pub fn define(&self, definitions: Vec<Definition>) -> Option<Vec<Refusal>> {
        let (refused, refusals) = mpsc::channel();
        self.send(ShardId(0), InboxMessage::Define(definitions, refused))?;
        refusals.recv().ok()
    }

    /// Reads the definitions as they are between two changes, and waits for the result. The shard that makes changes
    /// calls `read` and does nothing else meanwhile. `None`: the broker has stopped.
    pub fn with_catalog<T: Send + 'static>(&self, read: impl FnOnce(&Catalog) -> T + Send + 'static) -> Option<T> {
        self.read_catalog(read)?.recv().ok()
    }

    /// The same, waiting so long. `None`: the broker has stopped, or takes longer.
    pub fn with_catalog_within<T: Send + 'static>(
        &self,
        timeout: Duration,
        read: impl FnOnce(&Catalog) -> T + Send + 'static,
    ) -> Option<T> {
        self.read_catalog(read)?.recv_timeout(timeout).ok()
    }

    fn read_catalog<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Catalog) -> T + Send + 'static,
    ) -> Option<Receiver<T>> {
        let (result, results) = mpsc::channel();
        let read = move |catalog: &Catalog| {
            // The caller waits, unless its thread has failed or its time is over.
            let _received = result.send(read(catalog));
        };
        self.send(ShardId(0), InboxMessage::ReadCatalog(Box::new(read)))?;
        Some(results)
    }

    /// Answers an administrative request: `properties` in wire form, a body of `limits::ANSWER_BYTES_MAX` bytes at
    /// most. If the channel is closed, the answer is dropped.
    ///
    /// # Panics
    /// On a longer body.
    pub fn respond(&self, to: ReplyAddress, properties: Vec<u8>, body: Vec<u8>) {
        assert!(body.len() <= crate::limits::ANSWER_BYTES_MAX, "an answer beyond ANSWER_BYTES_MAX");
        let _stopped = self.send(to.shard, InboxMessage::Answer { to, properties, body });
    }

    /// Changes links and routes, and waits until that is done. New links are given to the shards in turn. `None`: the
    /// broker has stopped.
    pub fn change_links(&self, order: FederationCommand) -> Option<()> {
        if let FederationCommand::AddLink(spec) = &order
            && self.link_statuses()?.iter().any(|link| link.spec.key == spec.key)
        {
            return Some(());
        }
        let only = matches!(order, FederationCommand::AddLink(_))
            .then(|| self.links.fetch_add(1, Ordering::Relaxed) % self.inboxes.len());
        // A shard without the link does nothing.
        let shards = (0..self.inboxes.len()).filter(|shard| only.is_none_or(|only| only == *shard));
        let (done, shards_done) = mpsc::channel();
        for shard in shards {
            self.send(ShardId(shard as u16), InboxMessage::Federate(order.clone(), done.clone()))?;
        }
        drop(done);
        shards_done.iter().for_each(drop);
        Some(())
    }

    /// The state of every link. `None`: the broker has stopped.
    pub fn link_statuses(&self) -> Option<Vec<LinkStatus>> {
        let (links, of_shards) = mpsc::channel();
        for shard in 0..self.inboxes.len() {
            self.send(ShardId(shard as u16), InboxMessage::ListLinks(links.clone()))?;
        }
        drop(links);
        let mut links: Vec<_> = of_shards.iter().flatten().collect();
        links.sort_by(|one, other| one.spec.key.cmp(&other.spec.key));
        Some(links)
    }

    /// The numbers of every shard's store, in the order of the shards; none without a store. `None`: the broker has stopped.
    pub fn store_metrics(&self) -> Option<Vec<ShardStoreMetrics>> {
        let (metrics, of_shards) = mpsc::channel();
        for shard in 0..self.inboxes.len() {
            self.send(ShardId(shard as u16), InboxMessage::ReadStore(metrics.clone()))?;
        }
        drop(metrics);
        let mut metrics: Vec<_> = of_shards.iter().collect();
        metrics.sort_by_key(|metrics| metrics.shard.0);
        Some(metrics)
    }

    /// A replica of the definitions, which gets every change that is made from then on. The shard that makes changes copies its own,
    /// a piece with each tick; changes of definitions wait meanwhile. `None`: the broker has stopped, or there are
    /// `DEFINITION_SUBSCRIBERS_MAX` already.
    pub fn subscribe_definitions(&self) -> Option<Box<CatalogReplica>> {
        let (reply, replica) = mpsc::channel();
        self.send(ShardId(0), InboxMessage::Subscribe(reply))?;
        replica.recv().ok()
    }

    /// The number of shards.
    pub fn shards(&self) -> u16 {
        self.inboxes.len() as u16
    }

    /// The next piece of what a shard has to tell since this was last asked, by whoever has; its `more` says that another call finds
    /// more. Waits for the shard's next tick. `None`: the broker has stopped, or too many ask at once.
    pub fn report(&self, shard: ShardId) -> Option<ShardReport> {
        let (reply, report) = mpsc::channel();
        self.send(shard, InboxMessage::Report(reply))?;
        report.recv().ok()
    }

    /// A queue as it is now. `None`: there is none, or the broker has stopped.
    pub fn queue_report(&self, vhost: &str, name: &[u8]) -> Option<QueueReport> {
        let (reply, report) = mpsc::channel();
        for shard in 0..self.shards() {
            let (vhost, name, reply) = (vhost.into(), name.into(), reply.clone());
            self.send(ShardId(shard), InboxMessage::ReadQueue { vhost, name, reply })?;
        }
        drop(reply);
        report.recv().ok()
    }

    /// Copies of the first messages of a queue, `count` and as many bytes of each body at most; the queue keeps them as they are.
    /// `None`: there is no such queue, or the broker has stopped.
    pub fn peek_queue(&self, vhost: &str, name: &[u8], count: usize, body_bytes: usize) -> Option<PeekedQueue> {
        let (reply, peeked) = mpsc::channel();
        for shard in 0..self.shards() {
            let (vhost, name, reply) = (vhost.into(), name.into(), reply.clone());
            self.send(ShardId(shard), InboxMessage::PeekQueue { vhost, name, count, body_bytes, reply })?;
        }
        drop(reply);
        peeked.recv().ok()
    }

    /// Closes the connections that are meant: their clients get the reason (320 CONNECTION_FORCED). Returns how many. `None`: the
    /// broker has stopped.
    pub fn close_connections(&self, selector: &ConnectionSelector, reason: &str) -> Option<u32> {
        let (reply, closed) = mpsc::channel();
        for shard in 0..self.shards() {
            let request = CloseRequest { selector: selector.clone(), reason: reason.into(), reply: reply.clone() };
            self.send(ShardId(shard), InboxMessage::CloseConnections(request))?;
        }
        drop(reply);
        Some(closed.iter().sum())
    }

    /// Connects within the process as a user who has proved itself to the caller: the other end of the link speaks AMQP, and logs
    /// the user in by the mechanism EXTERNAL. `label` is what the connection is called. `None`: the broker has stopped.
    ///
    /// # Errors
    /// The process has no descriptors left.
    pub fn connect_as(&self, user: &str, label: &str) -> Option<io::Result<Box<dyn Link>>> {
        let shard = self.connections.fetch_add(1, Ordering::Relaxed) % self.inboxes.len();
        match link::socket_pair(label, "in process") {
            Ok((near, link)) => {
                self.send(ShardId(shard as u16), InboxMessage::Connect { link, user: user.into() })?;
                Some(Ok(near))
            }
            Err(error) => Some(Err(error)),
        }
    }

    fn send(&self, shard: ShardId, message: InboxMessage) -> Option<()> {
        self.inboxes.get(usize::from(shard.0))?.send(message).then_some(())
    }
}
