//! Effects: what the broker core has its shard carry out.
//!
//! It is a trait and not a list so that the hottest effect, a delivery, goes from the publisher's receive buffer into the consumer's
//! send buffer without being stored in between (docs/decisions/0002). Tests record effects as text.

use crate::admin_request::{AdminRequest, AdminRequestError};
use crate::ids::{ConnectionSlot, QueuePosition};
use crate::message::{BodyRef, Content, Message};
use crate::shard_message::ShardBatch;
use catalog::{Catalog, Definition, ExecutedDefinition, QueueUid, Refusal, ShardId};
use slab::Pool;
use std::sync::Arc;
use wire::{
    BodyRun, ChannelNumber, DeliveryTag,
    method::{Method, basic},
};

/// One `basic.deliver` for a consumer.
pub struct Delivery<'a> {
    pub consumer_tag: &'a [u8],
    pub tag: DeliveryTag,
    pub redelivered: bool,
    pub content: Content<'a>,
}

/// The outcome of publishes in confirm mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConfirmOutcome {
    /// They are in their queues.
    Accepted,
    /// A queue had no capacity.
    Refused,
}

/// A publisher confirm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Confirm {
    /// The number of the last publish that it covers.
    pub delivery_tag: DeliveryTag,
    /// It covers every publish up to that number, too.
    pub multiple: bool,
    /// What became of them.
    pub outcome: ConfirmOutcome,
}

impl Confirm {
    /// `basic.ack` or `basic.nack`. `requeue` tells a broker that passes messages on to send refused ones again; publishers
    /// ignore it.
    pub fn method(&self, requeue: bool) -> Method<'static> {
        let Confirm { delivery_tag, multiple, outcome } = *self;
        match outcome {
            ConfirmOutcome::Accepted => basic::Ack { delivery_tag, multiple }.into(),
            ConfirmOutcome::Refused => basic::Nack { delivery_tag, multiple, requeue }.into(),
        }
    }
}

/// When an appended message is safe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AppendResult {
    /// It is durable now, or need not be.
    Durable,
    /// Once the store has reported this ticket, see `Broker::durable`.
    Pending(u64),
}

impl AppendResult {
    /// That of a message of a run, so many behind the first, whose result this is.
    #[inline]
    pub fn of_next(self, at: u64) -> AppendResult {
        match self {
            AppendResult::Durable => AppendResult::Durable,
            AppendResult::Pending(ticket) => AppendResult::Pending(ticket + at),
        }
    }
}

/// What a broker core needs of its shard.
pub trait Effects {
    /// Message memory of this shard.
    fn pool(&self) -> &Pool;
    /// A random number that nobody can guess.
    fn random(&mut self) -> u64;
    /// Whether the connection's output may take another delivery.
    fn has_capacity(&self, slot: ConnectionSlot) -> bool;
    /// Sends `basic.deliver`.
    fn deliver(&mut self, slot: ConnectionSlot, channel: ChannelNumber, delivery: Delivery<'_>);
    /// How many deliveries like this one, with bodies of the same size, the connection's output may take on end: up to so many.
    fn accepted_deliveries(&self, slot: ConnectionSlot, delivery: &Delivery<'_>, most: usize) -> usize;
    /// Sends `basic.deliver` for each of a run of messages, which are like the first in all but their bodies, and whose tags follow
    /// its own. The connection's output accepts them.
    fn deliver_run(&mut self, slot: ConnectionSlot, channel: ChannelNumber, first: Delivery<'_>, bodies: BodyRun<'_>) {
        for (tag, body) in (first.tag.0..).map(DeliveryTag).zip(bodies.iter()) {
            let content = Content { body: BodyRef::Small(body), ..first.content };
            self.deliver(slot, channel, Delivery { tag, content, ..first });
        }
    }
    /// Sends `basic.get-ok`.
    fn get_ok(
        &mut self,
        slot: ConnectionSlot,
        channel: ChannelNumber,
        tag: DeliveryTag,
        redelivered: bool,
        messages_left: u32,
        content: Content<'_>,
    );
    /// Sends `basic.return`.
    fn return_message(&mut self, slot: ConnectionSlot, channel: ChannelNumber, refusal: &Refusal, content: Content<'_>);
    /// Answers a command, or notifies the client of an event.
    fn reply(&mut self, slot: ConnectionSlot, channel: ChannelNumber, method: Method<'_>);
    /// Confirms publishes.
    fn confirm(&mut self, slot: ConnectionSlot, channel: ChannelNumber, confirm: Confirm);
    /// Refuses a command that was answered elsewhere: closes its channel or its connection.
    fn refuse(&mut self, slot: ConnectionSlot, channel: ChannelNumber, refusal: Refusal, method: (u16, u16));
    /// The connection may be read again: its command is answered, or its publishes are not blocked any more.
    fn resume(&mut self, slot: ConnectionSlot);
    /// The connection publishes faster than its consumers receive: after a moment, call `Broker::end_throttle`.
    fn throttle(&mut self, slot: ConnectionSlot);
    /// The batch of messages being written for another shard.
    fn batch(&mut self, to: ShardId) -> &mut ShardBatch;
    /// Passes an admin request to the program, which answers later by `Broker::answer_admin_request`.
    fn admin_request(&mut self, request: AdminRequest) -> Result<(), AdminRequestError>;
    /// A durable queue accepted a persistent message.
    fn append(&mut self, queue: QueueUid, position: QueuePosition, message: Message) -> AppendResult;
    /// A durable queue accepted persistent messages that differ in their bodies alone, at positions that follow one another. Their
    /// tickets follow one another as well: returns when the first is safe.
    fn append_run(&mut self, queue: QueueUid, first: QueuePosition, messages: &[Message]) -> AppendResult;
    /// A durable queue is done with messages whose positions follow one another. Not all of them need have been appended.
    fn forget(&mut self, queue: QueueUid, first: QueuePosition, count: u32);
    /// Messages of a durable queue whose positions follow one another were handed out and must be acknowledged: after a restart
    /// they are redelivered.
    fn mark_delivered(&mut self, queue: QueueUid, first: QueuePosition, count: u32);
    /// Consumers have returned a message of a durable queue so many times.
    fn mark_returned(&mut self, queue: QueueUid, position: QueuePosition, times: u32);
    /// What is appended and forgotten from now on counts as a whole or not at all.
    fn begin_commit(&mut self);
    /// The end of what [`begin_commit`](Self::begin_commit) began, and when all of it is safe.
    fn end_commit(&mut self) -> AppendResult;
    /// When everything that was appended and forgotten up to now is safe.
    fn settled(&mut self) -> AppendResult;
    /// Somebody waits for this ticket: it is to become durable soon.
    fn await_durable(&mut self, ticket: u64);
    /// A queue is gone, with all its messages, on pages or not: a durable one, or one of which messages were paged out.
    fn drop_queue(&mut self, queue: QueueUid);
    /// Takes over waiting messages of one level of a queue, in the order of their positions, until they are asked for again: they
    /// leave the memory. Returns false if that is impossible now: they stay. Messages in the store are not written again; a
    /// queue that is not durable has a number of the shard's own for its pages, from
    /// [`PAGED_QUEUE_UID_FIRST`](crate::limits::PAGED_QUEUE_UID_FIRST) on.
    fn page_out(&mut self, queue: QueueUid, messages: &mut dyn Iterator<Item = (QueuePosition, &Message)>) -> bool;
    /// The messages of a page that are still there are wanted, from one position up to another: `Broker::paged_in` follows once,
    /// for the requests of a queue in their order.
    fn page_in(&mut self, queue: QueueUid, first: QueuePosition, end: QueuePosition);
    /// A queue is done with what it has on pages, from one position up to another. It may have asked for some of it, and be gone
    /// itself.
    fn forget_paged(&mut self, queue: QueueUid, first: QueuePosition, end: QueuePosition);
    /// Shard 0 has executed a definition that changed something. Returns whether its outcome waits until
    /// `Broker::definitions_durable` says that this version is durable: only if it changed what survives a restart, and there
    /// is a store.
    fn journal(
        &mut self,
        _version: u64,
        _definition: &Definition,
        _executed: &ExecutedDefinition,
        _catalog: &Catalog,
    ) -> bool {
        false
    }
    /// Shard 0 has made a change: replicas outside of the shards make it, too.
    fn definition_made(&mut self, _version: u64, _definition: &Arc<Definition>) {}
}
