//! Transactions: what a channel published and settled since the last commit happens at once, or not at all.
//!
//! Enters: `tx.select`, `tx.commit`, `tx.rollback`.  Leaves: the steps of the transaction, carried out in their order.
//! Owns:   when `tx.commit-ok` may be sent: once every message is in its queues, on whatever shard.
//! Never:  promises atomicity across queues: like RabbitMQ, each queue sees the messages, in order.

use super::{Broker, ReadControl, no_channel};
use crate::channel::{ChannelKey, ChannelMode, TransactionOperation};
use crate::effects::{Effects, ConnectionSlot};
use crate::message::Content;
use crate::session_state::{PendingCommand, PendingReply};
use catalog::Refusal;
use wire::method::{Method, tx};
use wire::{RawProperties, ReplyCode};

impl Broker {
    pub(super) fn tx_select(&mut self, key: ChannelKey) -> Result<(), Refusal> {
        let channel = self.tables.channels.get_mut(key).ok_or_else(no_channel)?;
        match channel.mode {
            ChannelMode::Confirm => Err(Refusal::channel(
                ReplyCode::PreconditionFailed,
                "PRECONDITION_FAILED - cannot switch from confirm to tx mode",
            )),
            ChannelMode::Transaction(_) => Ok(()),
            ChannelMode::Plain => {
                channel.mode = ChannelMode::Transaction(Vec::new());
                Ok(())
            }
        }
    }

    fn take_steps(&mut self, key: ChannelKey) -> Result<Vec<TransactionOperation>, Refusal> {
        let channel = self.tables.channels.get_mut(key).ok_or_else(no_channel)?;
        match &mut channel.mode {
            ChannelMode::Transaction(steps) => Ok(std::mem::take(steps)),
            _ => Err(Refusal::channel(
                ReplyCode::PreconditionFailed,
                "PRECONDITION_FAILED - channel is not transactional",
            )),
        }
    }

    pub(super) fn rollback(&mut self, key: ChannelKey) -> Result<(), Refusal> {
        let steps = self.take_steps(key)?;
        let channel = self.tables.channels.get_mut(key).ok_or_else(no_channel)?;
        channel.ledger.restore(steps.into_iter().flat_map(TransactionOperation::deliveries));
        Ok(())
    }

    pub(super) fn commit<E: Effects>(
        &mut self,
        slot: ConnectionSlot,
        number: u16,
        key: ChannelKey,
        fx: &mut E,
    ) -> Result<ReadControl, Refusal> {
        let mut settles = false;
        for step in self.take_steps(key)? {
            match step {
                TransactionOperation::Publish { message, mandatory, copies } => {
                    // It is published now.
                    let content = Content { arrived_us: self.now_us, ..message.content() };
                    let properties = RawProperties::new(content.properties);
                    // The exchange may have gone since: then the message has no queues.
                    let (exchange, routing_key) = (content.exchange, content.routing_key);
                    let route = match copies {
                        None => self.route(slot, key, exchange, routing_key, properties),
                        Some(copies) => self.route_copies(slot, exchange, routing_key, &copies, properties),
                    };
                    let Ok(route) = route else { continue };
                    let Some(channel) = self.tables.channels.get_mut(key) else {
                        break;
                    };
                    channel.confirms.published += 1;
                    let publication = Some((key, channel.confirms.published));
                    self.spread(slot, number, &route, &content, mandatory, publication, fx);
                }
                TransactionOperation::Settle { deliveries, fate } => {
                    deliveries.into_iter().for_each(|(_, delivery)| self.release(key, delivery, fate, fx));
                    settles = true;
                }
            }
        }
        if settles {
            self.wake_channel(key, fx);
        }
        self.dispatch_due(fx);
        let waiting = self.tables.channels.get(key).is_some_and(|channel| !channel.confirms.pending.is_empty());
        if !waiting {
            self.check_commit(key)?;
            fx.reply(slot, number, Method::TxCommitOk(tx::CommitOk {}));
            return Ok(ReadControl::Continue);
        }
        let question = self.next_question();
        self.wait_for(slot, PendingCommand { channel: number, method: tx::Commit::ID, request: question, reply: PendingReply::Commit });
        Ok(ReadControl::Pause)
    }

    /// A queue had no room for a message of the commit: the others are where they are, and the client is told.
    fn check_commit(&mut self, key: ChannelKey) -> Result<(), Refusal> {
        let declined = self.tables.channels.get_mut(key).map(|channel| std::mem::take(&mut channel.confirms.refused));
        match declined {
            Some(declined) if !declined.is_empty() => {
                Err(Refusal::detail(ReplyCode::PreconditionFailed, "partial tx completion"))
            }
            _ => Ok(()),
        }
    }

    /// A message of a commit arrived in its queue; with the last one the commit is done.
    pub(super) fn finish_commit<E: Effects>(&mut self, key: ChannelKey, fx: &mut E) {
        let Some(channel) = self.tables.channels.get(key).filter(|channel| channel.confirms.pending.is_empty()) else {
            return;
        };
        let (slot, number) = (channel.slot, channel.number);
        let Some(peer) = self.peer_mut(slot) else {
            return;
        };
        if peer
            .pending
            .as_ref()
            .is_some_and(|awaiting| awaiting.channel == number && matches!(awaiting.reply, PendingReply::Commit))
        {
            peer.pending = None;
            match self.check_commit(key) {
                Ok(()) => fx.reply(slot, number, Method::TxCommitOk(tx::CommitOk {})),
                Err(refusal) => fx.refuse(slot, number, refusal, tx::Commit::ID),
            }
            fx.resume(slot);
        }
    }
}
