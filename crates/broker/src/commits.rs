//! Commits: the operations of a transaction, carried out in turns.

use crate::deferred_work::{DeferredCommit, DeferredPublish, DeferredWork};
use crate::effects::Effects;
use crate::ids::{ChannelKey, ConnectionSlot, PublishKey};
use crate::message::{Content, Message};
use crate::publishing::Publishing;
use crate::session_state::{PendingCommand, PendingReply, ReadControl};
use crate::transaction::TransactionOperation;
use catalog::Refusal;
use wire::method::{Method, tx};
use wire::{ChannelNumber, RawProperties};

/// What a commit may touch.
pub(crate) struct Commits<'a> {
    pub publishing: Publishing<'a>,
}

impl Commits<'_> {
    /// `tx.commit`: carries out the operations of the transaction, in their order. As in RabbitMQ, a commit is not atomic across
    /// queues. The reply waits until every message is in its queues, on whatever shard.
    pub fn begin<E: Effects>(
        &mut self,
        slot: ConnectionSlot,
        number: ChannelNumber,
        key: ChannelKey,
        fx: &mut E,
    ) -> Result<ReadControl, Refusal> {
        let operations = self.publishing.data.dispatcher.channels.open_channel(key)?.transaction()?.take().into_iter();
        let commit = Box::new(DeferredCommit { slot, number, channel: key, operations, settles: false });
        if let Some(commit) = self.run(commit, fx) {
            self.publishing.sessions.defer(slot, DeferredWork::Commit(commit));
        }
        Ok(self.publishing.sessions.read_control(slot))
    }

    /// Carries out operations of a transaction as far as the budget of the turn allows, and replies when all are done. Returns
    /// the rest.
    pub fn run<E: Effects>(&mut self, mut commit: Box<DeferredCommit>, fx: &mut E) -> Option<Box<DeferredCommit>> {
        let (slot, number, key) = (commit.slot, commit.number, commit.channel);
        loop {
            // A publish that has left work behind goes first.
            if self.publishing.data.dispatcher.work.is_spent() {
                return Some(commit);
            }
            match commit.operations.next() {
                Some(TransactionOperation::Publish { message, mandatory, further_keys }) => {
                    self.publish(&commit, &message, mandatory, further_keys.as_deref(), fx);
                }
                Some(TransactionOperation::Settle { deliveries, outcome }) => {
                    let deliveries = deliveries.into_iter().map(|(_, delivery)| delivery);
                    self.publishing.data.settle_all(key, deliveries, outcome, self.publishing.catalog, fx);
                    commit.settles = true;
                }
                None => break,
            }
        }
        if commit.settles {
            self.publishing.data.dispatcher.wake_channel(key, self.publishing.sessions, fx);
        }
        self.publishing.data.dispatch_due(self.publishing.sessions, self.publishing.catalog, fx);
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

    /// Publishes a message of a transaction.
    fn publish<E: Effects>(
        &mut self,
        commit: &DeferredCommit,
        message: &Message,
        mandatory: bool,
        further_keys: Option<&[Box<[u8]>]>,
        fx: &mut E,
    ) {
        let (slot, key) = (commit.slot, commit.channel);
        // The message is published now.
        let content = Content { arrived_us: self.publishing.data.dispatcher.now_us, ..message.content() };
        let properties = RawProperties::new(content.properties);
        // The exchange may have been deleted since: then the message has no queues.
        let (exchange, routing_key) = (content.exchange, content.routing_key);
        let route = match further_keys {
            None => self.publishing.route(slot, key, exchange, routing_key, properties),
            Some(keys) => self.publishing.route_copies(slot, exchange, routing_key, keys, properties),
        };
        let Ok(route) = route else { return };
        let Some(channel) = self.publishing.data.dispatcher.channels.get_mut(key) else { return };
        channel.confirms.published += 1;
        let publish = Some(PublishKey { channel: key, number: channel.confirms.published });
        let route = match route {
            Ok(route) => route,
            Err(search) => {
                let (number, message) = (commit.number, content.keep(fx.pool()));
                let deferred =
                    DeferredPublish { slot, number, channel: key, message, mandatory, search, awaited: publish };
                return self.publishing.defer_publish(Box::new(deferred));
            }
        };
        self.publishing.forward((slot, commit.number), &route, &content, mandatory, publish, fx);
    }
}
