//! Messages that a shard gets from threads that are not shards: the operator's requests and outcomes of dials.

use crate::catalog_replica::CatalogReplica;
use crate::link_dial::{DialError, DialProgress, DialRequest};
use crate::moved_connection::MovedConnection;
use crate::reports::CloseRequest;
use crate::shard_report::ShardReport;
use broker::{QueueReport, ReplyAddress};
use catalog::{Catalog, Definition, Refusal};
use durability::ShardStoreMetrics;
use federation::{FederationCommand, LinkStatus};
use link::Link;
use queues::PeekedQueue;
use reactor::InboxSender;
use std::sync::mpsc::Sender;

pub(crate) type ShardInbox = InboxSender<InboxMessage>;

pub(crate) enum InboxMessage {
    /// Changes that an operator makes (to shard 0), and where the refusals go.
    Define(Vec<Definition>, Sender<Vec<Refusal>>),
    /// Runs on the shard's thread, with the definitions between two changes (to shard 0).
    ReadCatalog(Box<dyn FnOnce(&Catalog) + Send>),
    /// The answer to an administrative request.
    Answer { to: ReplyAddress, properties: Vec<u8>, body: Vec<u8> },
    /// A change of links and routes, and where it is confirmed.
    Federate(FederationCommand, Sender<()>),
    /// Asks for the state of this shard's links.
    ListLinks(Sender<Vec<LinkStatus>>),
    /// Asks for the numbers of this shard's store.
    ReadStore(Sender<ShardStoreMetrics>),
    /// Asks for a replica of the definitions (of shard 0).
    Subscribe(Sender<Box<CatalogReplica>>),
    /// Asks for the next piece of a report.
    Report(Sender<ShardReport>),
    /// Asks for a queue as it is now; only its home has it.
    ReadQueue { vhost: Box<str>, name: Box<[u8]>, reply: Sender<QueueReport> },
    /// Asks for copies of the first messages of a queue; only its home has them.
    PeekQueue { vhost: Box<str>, name: Box<[u8]>, count: usize, body_bytes: usize, reply: Sender<PeekedQueue> },
    /// Has connections closed.
    CloseConnections(CloseRequest),
    /// A connection within the process of a user who has proved itself to the program.
    Connect { link: Box<dyn Link>, user: Box<str> },
    /// A connection comes from another shard.
    Arrive(Box<MovedConnection>),
    /// The outcome of a dial.
    Dialled(DialRequest, Result<DialProgress, DialError>),
}
