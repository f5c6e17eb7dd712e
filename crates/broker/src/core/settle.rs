//! Settlement: acknowledgements, rejections, recovery, prefetch and flow.
//!
//! Enters: delivery tags.  Leaves: messages put back, mail to their queues, consumers woken.
//! Owns:   what becomes of a delivery.
//! Never:  hands a message to a consumer itself: it makes the queue due.

use super::bury::give_up;
use super::consume::window_of;
use super::{Broker, find, no_channel};
use crate::channel::{ChannelKey, SettlementOutcome, ChannelMode, TransactionOperation};
use crate::death_history::DeadLetterReason;
use crate::effects::Effects;
use crate::ledger::UnsettledDelivery;
use crate::shard_message::ShardMessage;
use crate::limits::TRANSACTION_ITEMS_MAX;
use crate::message::{Content, Message};
use crate::ready_messages::{QueuePosition, QueueEntry};
use catalog::{QueueId, Refusal};
use wire::method::basic;
use wire::{ReplyCode, ShortString, TableRef, Value};

const DELIVERY_COUNT: &str = "x-delivery-count";

/// How often a message says that it came back.
#[cold]
fn count_of(message: &Message) -> Option<u32> {
    let count = message.content().properties().headers()?.get(DELIVERY_COUNT)?.as_i64()?;
    u32::try_from(count).ok()
}

/// A message that says how often it came back (`x-delivery-count`), as those of quorum queues do in RabbitMQ. Its dead letter
/// says nothing of that: `None`.
#[cold]
pub(super) fn counted(message: &Message, times: Option<u32>, pool: &slab::Pool) -> Message {
    let content = message.content();
    let mut properties = Vec::new();
    content.properties().rewrite(true, &mut properties, |headers, out| {
        let mut headers = TableRef::new(headers).to_table().unwrap_or_default();
        match (times, ShortString::try_from(DELIVERY_COUNT)) {
            (Some(times), Ok(name)) => headers.set(name, Value::I64(times.into())),
            _ => drop(headers.remove(DELIVERY_COUNT)),
        }
        out.extend_from_slice(&headers.to_bytes());
    });
    Content { properties: &properties, ..content }.keep(pool)
}

fn unknown_tag(tag: u64) -> Refusal {
    Refusal::channel(ReplyCode::PreconditionFailed, format!("PRECONDITION_FAILED - unknown delivery tag {tag}"))
}

impl Broker {
    /// `basic.ack`, `basic.nack`, `basic.reject`: in a transaction they wait for the commit.
    pub(super) fn settle<E: Effects>(
        &mut self,
        key: ChannelKey,
        tag: u64,
        multiple: bool,
        fate: SettlementOutcome,
        fx: &mut E,
    ) -> Result<(), Refusal> {
        let channel = self.tables.channels.get_mut(key).ok_or_else(no_channel)?;
        if let ChannelMode::Transaction(steps) = &mut channel.mode {
            if steps.len() >= TRANSACTION_ITEMS_MAX {
                return Err(Refusal::channel(
                    ReplyCode::ResourceError,
                    "RESOURCE_ERROR - transaction holds too many acknowledgements",
                ));
            }
            let deliveries = channel.ledger.take(tag, multiple).ok_or_else(|| unknown_tag(tag))?;
            steps.push(TransactionOperation::Settle { deliveries, fate });
            return Ok(());
        }
        self.settle_now(key, tag, multiple, fate, fx)
    }

    /// Settles tags and wakes whom that allows to take more.
    pub(super) fn settle_now<E: Effects>(
        &mut self,
        key: ChannelKey,
        tag: u64,
        multiple: bool,
        fate: SettlementOutcome,
        fx: &mut E,
    ) -> Result<(), Refusal> {
        let channel = self.tables.channels.get_mut(key).ok_or_else(no_channel)?;
        let mut ledger = std::mem::take(&mut channel.ledger);
        let known = if multiple {
            ledger.settle_through(tag, |delivery| self.release(key, delivery, fate, fx))
        } else {
            ledger.settle(tag).map(|delivery| self.release(key, delivery, fate, fx)).is_some()
        };
        if let Some(channel) = self.tables.channels.get_mut(key) {
            channel.ledger = ledger;
        }
        if !known {
            return Err(unknown_tag(tag));
        }
        self.wake(key, fx);
        Ok(())
    }

    /// The channel's consumers may take more: they do.
    pub(super) fn wake<E: Effects>(&mut self, key: ChannelKey, fx: &mut E) {
        self.wake_channel(key, fx);
        self.dispatch_due(fx);
    }

    /// One delivery is settled.
    #[inline]
    pub(super) fn release<E: Effects>(&mut self, key: ChannelKey, delivery: UnsettledDelivery, fate: SettlementOutcome, fx: &mut E) {
        let home = delivery.home;
        self.tables.unsettled -= 1;
        if let Some(consumer_key) = delivery.consumer {
            if let Some(channel) = self.tables.channels.get_mut(key) {
                channel.unsettled -= 1;
            }
            if let Some(consumer) = self.tables.consumers.get_mut(consumer_key) {
                consumer.unsettled -= 1;
                if consumer.prefetch > 0 && home != self.options.shard {
                    consumer.credit_due_messages += 1;
                    if !std::mem::replace(&mut consumer.credit_listed, true) {
                        self.credits_due.push(consumer_key);
                    }
                }
            }
        }
        if self.is_home(home) {
            match fate {
                SettlementOutcome::Acknowledged => self.settled_at_home(delivery.queue, delivery.position, 1, fx),
                SettlementOutcome::Rejected => self.rejected_at_home(delivery.queue, delivery.position, delivery.message, fx),
                SettlementOutcome::Requeued => {
                    let UnsettledDelivery { queue, position: place, message, .. } = delivery;
                    self.returned_home(queue, QueueEntry { position: place, message, redelivered: true }, true, true, fx);
                }
            }
            return;
        }
        let UnsettledDelivery { queue, position: place, message, .. } = delivery;
        let batch = fx.batch(home);
        match fate {
            SettlementOutcome::Rejected if self.catalog.has_dead_letters(queue) => {
                batch.push(ShardMessage::Rejected { queue, position: place, message });
            }
            SettlementOutcome::Acknowledged | SettlementOutcome::Rejected => batch.push_settled(queue, place),
            SettlementOutcome::Requeued => {
                batch.push(ShardMessage::Returned { queue, position: place, message, redelivered: true, seen: true, owed: true });
            }
        }
    }

    /// A queue of this shard is done with messages that followed one another.
    #[inline]
    pub(super) fn settled_at_home<E: Effects>(&mut self, id: QueueId, first: QueuePosition, count: u32, fx: &mut E) {
        let Some(queue) = find(&mut self.queues, id) else {
            return;
        };
        queue.unsettled -= u64::from(count);
        if let Some(features) = &mut queue.features
            && !features.returns.is_empty()
        {
            for place in first.0..first.0 + u64::from(count) {
                features.forget_returns(QueuePosition(place));
            }
        }
        if queue.durable {
            for place in first.0..first.0 + u64::from(count) {
                fx.forget(id, QueuePosition(place));
            }
        }
    }

    /// A message of a queue of this shard comes back; `seen`: a client had it.
    pub(super) fn returned_home<E: Effects>(
        &mut self,
        id: QueueId,
        mut taken: QueueEntry,
        seen: bool,
        owed: bool,
        fx: &mut E,
    ) {
        let Some(queue) = find(&mut self.queues, id) else {
            return;
        };
        if owed {
            queue.unsettled -= 1;
        }
        if let Some(features) = queue.features.as_mut().filter(|features| features.delivery_limit.is_some()) {
            if !seen {
                // It was on its way to somebody who needs no acknowledgement, and for whom its count was forgotten.
                if let Some(times) = count_of(&taken.message).filter(|_| taken.redelivered) {
                    features.restore_returns(taken.position, times);
                }
            } else {
                match features.count_return(taken.position) {
                    Some(times) => taken.message = counted(&taken.message, Some(times), fx.pool()),
                    None => {
                        give_up(queue, taken.position, taken.message, DeadLetterReason::DeliveryLimit, &mut self.dead, fx);
                        return;
                    }
                }
            }
        }
        queue.expiring |= taken.message.has_expiration();
        queue.ready.restore(taken);
        self.waiting += 1;
        self.make_due(id);
    }

    /// `basic.recover`: everything unsettled goes back to its place.
    pub(super) fn recover<E: Effects>(&mut self, key: ChannelKey, fx: &mut E) -> Result<(), Refusal> {
        self.settle_now(key, 0, true, SettlementOutcome::Requeued, fx)
    }

    /// `basic.qos`; wake the channel once it is answered.
    pub(super) fn qos(&mut self, key: ChannelKey, qos: basic::Qos) -> Result<(), Refusal> {
        if qos.prefetch_size != 0 {
            let text = format!("NOT_IMPLEMENTED - prefetch_size!=0 ({})", qos.prefetch_size);
            return Err(Refusal::connection(ReplyCode::NotImplemented, text));
        }
        let channel = self.tables.channels.get_mut(key).ok_or_else(no_channel)?;
        if qos.global {
            channel.prefetch_shared = qos.prefetch_count.into();
            self.widen(key);
        } else {
            channel.prefetch = qos.prefetch_count.into();
        }
        Ok(())
    }

    /// The shared prefetch count may have grown: queues on other shards may send its consumers more. What they were allowed
    /// under a larger count is not taken back; it waits here.
    fn widen(&mut self, key: ChannelKey) {
        let Some(channel) = self.tables.channels.get(key) else {
            return;
        };
        for &consumer_key in &channel.consumers {
            let Some(consumer) = self.tables.consumers.get_mut(consumer_key) else {
                continue;
            };
            let window = window_of(consumer.prefetch, channel.prefetch_shared, consumer.no_ack);
            let more = window.saturating_sub(consumer.window);
            if more > 0 && consumer.home != self.options.shard {
                consumer.window = window;
                consumer.credit_due_messages += more;
                if !std::mem::replace(&mut consumer.credit_listed, true) {
                    self.credits_due.push(consumer_key);
                }
            }
        }
    }

    /// `channel.flow` from the client; wake the channel once it is answered.
    pub(super) fn flow(&mut self, key: ChannelKey, active: bool) -> Result<(), Refusal> {
        self.tables.channels.get_mut(key).ok_or_else(no_channel)?.flow = active;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::counted;
    use crate::message::{BodyRef, Content};
    use slab::{Pool, PoolOptions};
    use wire::{Properties, Table, Value};

    #[test]
    fn how_often_a_message_came_back_is_said_of_it_and_not_of_its_dead_letter() {
        let pool = Pool::new(PoolOptions::default());
        let headers = Some(Table::new().with("mine", Value::I32(1)).expect("short"));
        let properties = Properties { headers, priority: Some(3), ..Properties::default() }.to_bytes();
        let body = BodyRef::Small(b"m");
        let content = Content { routing_key: b"q", properties: &properties, body, ..Content::EMPTY };
        let twice = counted(&counted(&content.keep(&pool), Some(1), &pool), Some(2), &pool);
        let headers = twice.content().properties().headers().expect("headers").to_table().expect("well formed");
        assert_eq!(headers.get("x-delivery-count"), Some(&Value::I64(2)));
        let letter = counted(&twice, None, &pool);
        assert_eq!(letter.content().properties, properties);
    }
}
