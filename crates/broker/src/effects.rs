//! Effects: what the broker core has its shard carry out.
//!
//! It is a trait and not a list so that the hottest effect, a delivery, goes from the publisher's receive buffer into the consumer's
//! send buffer without being stored in between (docs/decisions/0002). Tests record effects as text.

use crate::admin_request::{AdminRequest, AdminRequestError};
use crate::ids::ConnectionSlot;
use crate::shard_message::ShardBatch;
use catalog::{Catalog, Definition, ExecutedDefinition, Refusal, ShardId};
use queues::{BodyRef, Content, MessageStorage};
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

/// What a broker core needs of its shard: where messages are kept, connections, the batches for other shards, the program.
pub trait Effects: MessageStorage {
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
