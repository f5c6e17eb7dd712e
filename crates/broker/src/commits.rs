//! Commits: the operations of a transaction, carried out in turns.

use crate::data_plane::DataPlane;
use crate::deferred_work::{DeferredCommit, DeferredPublish, DeferredWork};
use crate::effects::Effects;
use crate::ids::{ChannelKey, ConnectionSlot, PublishKey};
use crate::limits::COMMITTED_PUBLISH_WORK;
use crate::publish_origin::{PublishOrigin, Publisher};
use crate::publishing::Publishing;
use crate::session_state::{PendingCommand, PendingReply, ReadControl};
use crate::shard_message::ShardMessage;
use crate::transaction::TransactionOperation;
use catalog::Refusal;
use queues::{AppendResult, Content, Message};
use wire::method::{Method, tx};
use wire::{ChannelNumber, RawProperties};

/// What a commit may touch.
pub(crate) struct Commits<'a> {
    pub publishing: Publishing<'a>,
}

impl Commits<'_> {
    /// `tx.commit`: carries out the operations of the transaction, in their order. To others a commit is not atomic across queues,
    /// as in RabbitMQ. What a turn does of it on one shard is atomic in the store. The reply waits until every message is in its
    /// queues, on whatever shard, and everything is durable.
    pub fn begin<E: Effects>(
        &mut self,
        slot: ConnectionSlot,
        number: ChannelNumber,
        key: ChannelKey,
        fx: &mut E,
    ) -> Result<ReadControl, Refusal> {
        let dispatcher = &mut self.publishing.data.dispatcher;
        let has_store = dispatcher.queues.has_store;
        let transaction = dispatcher.channels.open_channel(key)?.transaction()?;
        let is_stored = has_store && transaction.has_persistent();
        let operations = transaction.take().into_iter();
        let identity = self.publishing.sessions.identity(slot)?;
        let origin = PublishOrigin { slot, number, channel: key };
        let commit = Box::new(DeferredCommit { origin, identity, operations, settles: false, is_stored });
        if let Some(commit) = self.run(commit, fx) {
            self.publishing.sessions.defer(slot, DeferredWork::Commit(commit));
        }
        Ok(self.publishing.sessions.read_control(slot))
    }

    /// Carries out operations of a transaction as far as the budget of the turn allows, and replies when all are done. Returns
    /// the rest.
    pub fn run<E: Effects>(&mut self, mut commit: Box<DeferredCommit>, fx: &mut E) -> Option<Box<DeferredCommit>> {
        let PublishOrigin { slot, number, channel: key } = commit.origin;
        if commit.is_stored {
            self.begin_stored(fx);
        }
        let is_finished = loop {
            // A publish that has left work behind goes first.
            if self.publishing.data.dispatcher.work.is_spent() {
                break false;
            }
            match commit.operations.next() {
                Some(TransactionOperation::Publish { message, mandatory, further_keys }) => {
                    // It may find no exchange or no queue, or go to another shard, which draws nothing by itself.
                    self.publishing.data.dispatcher.work.draw(COMMITTED_PUBLISH_WORK);
                    self.publish(&commit, &message, mandatory, further_keys.as_deref(), fx);
                }
                Some(TransactionOperation::Settle { deliveries, outcome }) => {
                    let deliveries = deliveries.into_iter().map(|(_, delivery)| delivery);
                    self.publishing.data.settle_all(key, deliveries, outcome, self.publishing.catalog, fx);
                    commit.settles = true;
                }
                None => break true,
            }
        };
        if is_finished {
            if commit.settles {
                self.publishing.data.dispatcher.wake_channel(key, self.publishing.sessions, fx);
            }
            // The dead letters of what was rejected are part of it.
            self.publishing.data.dispatch_due(self.publishing.sessions, self.publishing.catalog, fx);
        }
        if commit.is_stored {
            self.end_stored(key, fx);
        }
        if !is_finished {
            return Some(commit);
        }
        // The client has gone, or closed the channel: nobody awaits a reply.
        let channel = self.publishing.data.dispatcher.channels.get_mut(key).filter(|channel| !channel.closing)?;
        if channel.confirms.is_idle() {
            match channel.commit_result() {
                Ok(()) => fx.reply(slot, number, Method::TxCommitOk(tx::CommitOk {})),
                Err(refusal) => fx.refuse(slot, number, refusal, tx::Commit::ID),
            }
            return None;
        }
        let request = self.publishing.sessions.next_request();
        let reply = PendingReply::Commit;
        self.publishing
            .sessions
            .await_response(slot, PendingCommand { channel: number, method: tx::Commit::ID, request, reply });
        None
    }

    /// What this shard and others append and settle from here on is one commit of their stores.
    fn begin_stored<E: Effects>(&mut self, fx: &mut E) {
        fx.begin_commit();
        for shard in self.publishing.identity.others() {
            fx.batch(shard).push(ShardMessage::BeginCommit);
        }
    }

    /// Ends these commits, which the channel awaits.
    fn end_stored<E: Effects>(&mut self, key: ChannelKey, fx: &mut E) {
        let DataPlane { dispatcher, confirms, .. } = &mut *self.publishing.data;
        let append = fx.end_commit();
        let mut channel = dispatcher.channels.get_mut(key);
        let number = channel.as_ref().map_or(0, |channel| channel.confirms.published + 1);
        let publish = PublishKey { channel: key, number };
        let mut answers = 0;
        for shard in self.publishing.identity.others() {
            let batch = fx.batch(shard);
            if batch.messages.pop_if(|last| matches!(last, ShardMessage::BeginCommit)).is_none() {
                batch.push(ShardMessage::EndCommit);
                confirms.await_shard(shard, publish);
                answers += 1;
            }
        }
        let Some(channel) = &mut channel else { return };
        channel.confirms.published = number;
        if answers > 0 {
            channel.confirms.pending.push_back((number, answers));
        }
        if let AppendResult::Pending(ticket) = append {
            confirms.await_store(ticket, publish, &mut channel.confirms, fx);
        }
    }

    /// Publishes a message of a transaction.
    fn publish<E: Effects>(
        &mut self,
        commit: &DeferredCommit,
        message: &Message,
        mandatory: bool,
        further_keys: Option<&[Box<[u8]>]>,
        fx: &mut E,
    ) {
        let (key, publisher) = (commit.origin.channel, Publisher::Identity(commit.identity));
        // The message is published now.
        let content = Content { arrived_us: self.publishing.data.dispatcher.now_us, ..message.content() };
        let properties = RawProperties::new(content.properties);
        // The exchange may have been deleted since: then the message has no queues.
        let (exchange, routing_key) = (content.exchange, content.routing_key);
        let route = match further_keys {
            None => self.publishing.route(publisher, key, exchange, routing_key, properties),
            Some(keys) => self.publishing.route_copies((publisher, key), exchange, routing_key, keys, properties),
        };
        let Ok(route) = route else { return };
        let Some(channel) = self.publishing.data.dispatcher.channels.get_mut(key) else { return };
        channel.confirms.published += 1;
        let publish = Some(PublishKey { channel: key, number: channel.confirms.published });
        let route = match route {
            Ok(route) => {
                if let Some(cache) = &mut channel.route_cache {
                    cache.count(&route, 1);
                }
                route
            }
            Err(search) => {
                let (origin, message) = (commit.origin, content.keep(fx.pool()));
                let deferred = DeferredPublish { origin, message, mandatory, search, awaited: publish };
                return self.publishing.defer_publish(Box::new(deferred));
            }
        };
        self.publishing.forward(commit.origin, &route, &content, mandatory, publish, fx);
    }
}
