//! Methods on an open channel that carry no content: who does what.
//!
//! Enters: a method of a client.  Leaves: its reply, or a refusal.
//! Owns:   the table from method to command.
//! Never:  decides anything itself.

use super::{Broker, ReadControl, no_channel};
use crate::channel::SettlementOutcome;
use crate::effects::{Effects, ConnectionSlot};
use catalog::Refusal;
use wire::ReplyCode;
use wire::method::{Method, access, basic, channel, confirm, exchange, queue, tx};

impl Broker {
    /// A method without content on an open channel.
    pub fn command<E: Effects>(
        &mut self,
        slot: ConnectionSlot,
        number: u16,
        method: Method<'_>,
        fx: &mut E,
    ) -> Result<ReadControl, Refusal> {
        let id = method.id();
        self.carry_out_method(slot, number, method, fx).or_else(|refusal| self.refuse_behind_run(slot, refusal, id, fx))
    }

    #[inline]
    fn carry_out_method<E: Effects>(
        &mut self,
        slot: ConnectionSlot,
        number: u16,
        method: Method<'_>,
        fx: &mut E,
    ) -> Result<ReadControl, Refusal> {
        let key = self.channel_key(slot, number).ok_or_else(no_channel)?;
        let mut say = |no_wait: bool, reply: Method<'_>| {
            if !no_wait {
                fx.reply(slot, number, reply);
            }
        };
        match method {
            Method::BasicAck(ack) => self.settle(key, ack.delivery_tag, ack.multiple, SettlementOutcome::Acknowledged, fx)?,
            Method::BasicNack(nack) => self.settle(key, nack.delivery_tag, nack.multiple, fate(nack.requeue), fx)?,
            Method::BasicReject(reject) => self.settle(key, reject.delivery_tag, false, fate(reject.requeue), fx)?,
            Method::BasicConsume(consume) => return self.consume(slot, number, key, consume, fx),
            Method::BasicCancel(cancel) => return self.cancel(slot, number, key, cancel, fx),
            Method::BasicGet(get) => return self.get(slot, number, key, get, fx),
            // The answers to these three come before the deliveries they cause, as in RabbitMQ.
            Method::BasicQos(qos) => {
                self.qos(key, qos)?;
                fx.reply(slot, number, Method::BasicQosOk(basic::QosOk {}));
                self.wake(key, fx);
            }
            Method::BasicRecover(recover) => {
                check_recover(recover.requeue)?;
                fx.reply(slot, number, Method::BasicRecoverOk(basic::RecoverOk {}));
                self.recover(key, fx)?;
            }
            Method::BasicRecoverAsync(recover) => {
                check_recover(recover.requeue)?;
                self.recover(key, fx)?;
            }
            // A client's answer to the broker's own `basic.cancel`; RabbitMQ's clients send it only when asked to.
            Method::BasicCancelOk(_) => {}
            Method::ChannelFlow(flow) => {
                self.flow(key, flow.active)?;
                fx.reply(slot, number, Method::ChannelFlowOk(channel::FlowOk { active: flow.active }));
                self.wake(key, fx);
            }
            Method::ConfirmSelect(select) => {
                self.confirm_select(key)?;
                say(select.no_wait, Method::ConfirmSelectOk(confirm::SelectOk {}));
            }
            Method::TxSelect(_) => {
                self.tx_select(key)?;
                say(false, Method::TxSelectOk(tx::SelectOk {}));
            }
            Method::TxCommit(_) => return self.commit(slot, number, key, fx),
            Method::TxRollback(_) => {
                self.rollback(key)?;
                say(false, Method::TxRollbackOk(tx::RollbackOk {}));
            }
            Method::ExchangeDeclare(declare) => {
                return self.exchange_declare(slot, number, declare, fx);
            }
            Method::ExchangeDelete(delete) => {
                return self.exchange_delete(slot, number, delete, fx);
            }
            Method::ExchangeBind(bind) => return self.exchange_bind(slot, number, bind, true, fx),
            Method::ExchangeUnbind(unbind) => {
                let exchange::Unbind { destination, source, routing_key, no_wait, arguments } = unbind;
                return self.exchange_bind(
                    slot,
                    number,
                    exchange::Bind { destination, source, routing_key, no_wait, arguments },
                    false,
                    fx,
                );
            }
            Method::QueueDeclare(declare) => {
                return self.queue_declare(slot, number, key, declare, fx);
            }
            Method::QueueBind(bind) => return self.queue_bind(slot, number, key, bind, true, fx),
            Method::QueueUnbind(unbind) => {
                let queue::Unbind { queue, exchange, routing_key, arguments } = unbind;
                return self.queue_bind(
                    slot,
                    number,
                    key,
                    queue::Bind { queue, exchange, routing_key, no_wait: false, arguments },
                    false,
                    fx,
                );
            }
            Method::QueuePurge(purge) => return self.queue_purge(slot, number, key, purge, fx),
            Method::QueueDelete(delete) => return self.queue_delete(slot, number, key, delete, fx),
            // Tickets are a thing of AMQP 0-8; old clients ask for one and nobody looks at it.
            Method::AccessRequest(_) => say(false, Method::AccessRequestOk(access::RequestOk { ticket: 1 })),
            other => {
                let text = format!("NOT_IMPLEMENTED - method {} is not for a client to send", other.name());
                return Err(Refusal::connection(ReplyCode::NotImplemented, text));
            }
        }
        Ok(if self.may_read(slot) { ReadControl::Continue } else { ReadControl::Pause })
    }
}

fn check_recover(requeue: bool) -> Result<(), Refusal> {
    if requeue {
        return Ok(());
    }
    Err(Refusal::connection(ReplyCode::NotImplemented, "NOT_IMPLEMENTED - requeue=false"))
}

fn fate(requeue: bool) -> SettlementOutcome {
    if requeue { SettlementOutcome::Requeued } else { SettlementOutcome::Rejected }
}
