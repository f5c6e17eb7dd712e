//! Methods that are answered: exchanges, queues, bindings, consumers, settings of a channel.
//!
//! Enters: names and options.  Leaves: the server's answer, or its refusal.
//! Owns:   the shape of each call.

use session::Capabilities;
use wire::method::{basic, confirm, exchange, queue, tx};
use wire::{DeliveryTag, Method, Table, TableRef};

use crate::channel::ClientChannel;
use crate::client::Client;
use crate::error::{ClientError, Result};
use crate::message::ReceivedMessage;
use crate::output::short;
use crate::state::Reply;

/// How an exchange is declared. `ExchangeOptions { durable: true, ..Default::default() }`.
#[derive(Clone, Debug, Default)]
pub struct ExchangeOptions {
    /// Only check that it exists.
    pub passive: bool,
    /// Survives a restart of the broker.
    pub durable: bool,
    /// Goes when its last binding goes.
    pub auto_delete: bool,
    /// Takes messages from other exchanges only.
    pub internal: bool,
    /// Further arguments, such as `alternate-exchange`.
    pub arguments: Table,
}

/// How a queue is declared. `QueueOptions { exclusive: true, ..Default::default() }`.
#[derive(Clone, Debug, Default)]
pub struct QueueOptions {
    /// Only check that it exists.
    pub passive: bool,
    /// Survives a restart of the broker.
    pub durable: bool,
    /// Only for this connection, and gone with it.
    pub exclusive: bool,
    /// Goes when its last consumer goes.
    pub auto_delete: bool,
    /// Further arguments.
    pub arguments: Table,
}

/// How a consumer is started. `ConsumeOptions { no_ack: true, ..Default::default() }`.
#[derive(Clone, Debug, Default)]
pub struct ConsumeOptions {
    /// The tag it shall have; empty lets the server choose.
    pub consumer_tag: String,
    /// Deliveries need no acknowledgement.
    pub no_ack: bool,
    /// No other consumer on this queue.
    pub exclusive: bool,
    /// Further arguments, such as `x-priority`.
    pub arguments: Table,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueDeclared {
    /// Its name, chosen by the server if none was given.
    pub name: String,
    /// Messages ready for delivery.
    pub messages: u32,
    pub consumers: u32,
}

fn encoded(arguments: &Table) -> Vec<u8> {
    if arguments.is_empty() { Vec::new() } else { arguments.to_bytes() }
}

fn unexpected(awaited: &'static str) -> ClientError {
    ClientError::Unexpected { awaited, came: "another answer" }
}

impl Client {
    fn call(&mut self, channel: ClientChannel, method: Method<'_>, awaited: &'static str) -> Result<Reply> {
        self.state.channels.open(channel)?;
        self.outbound.method(&self.pool, channel.number, &method);
        self.answer(channel.number, awaited)
    }

    fn count(&mut self, channel: ClientChannel, method: Method<'_>, awaited: &'static str) -> Result<u32> {
        match self.call(channel, method, awaited)? {
            Reply::Messages(count) => Ok(count),
            _ => Err(unexpected(awaited)),
        }
    }

    /// Declares an exchange of type `kind` (`direct`, `fanout`, `topic`, `headers`, …).
    ///
    /// # Errors
    /// The server's refusal, which closes the channel: 404, 406 (it exists and is different), 403.
    pub fn declare_exchange(
        &mut self,
        channel: ClientChannel,
        name: &str,
        kind: &str,
        options: &ExchangeOptions,
    ) -> Result<()> {
        let arguments = encoded(&options.arguments);
        let method = exchange::Declare {
            exchange: short(name)?,
            kind: short(kind)?,
            passive: options.passive,
            durable: options.durable,
            auto_delete: options.auto_delete,
            internal: options.internal,
            no_wait: false,
            arguments: TableRef::new(&arguments),
        };
        self.call(channel, method.into(), "exchange.declare-ok").map(drop)
    }

    /// Deletes an exchange.
    ///
    /// # Errors
    /// The server's refusal, which closes the channel.
    pub fn delete_exchange(&mut self, channel: ClientChannel, name: &str, if_unused: bool) -> Result<()> {
        let method = exchange::Delete { exchange: short(name)?, if_unused, no_wait: false };
        self.call(channel, method.into(), "exchange.delete-ok").map(drop)
    }

    /// Binds an exchange to another one (RabbitMQ extension).
    ///
    /// # Errors
    /// The server's refusal, which closes the channel; `NotAnnounced` where the server has no such bindings.
    pub fn bind_exchange(
        &mut self,
        channel: ClientChannel,
        destination: &str,
        source: &str,
        routing_key: &str,
        arguments: &Table,
    ) -> Result<()> {
        self.state.channels.announced(Capabilities::EXCHANGE_EXCHANGE_BINDINGS, "bindings between exchanges")?;
        let arguments = encoded(arguments);
        let (destination, source, routing_key) = (short(destination)?, short(source)?, short(routing_key)?);
        let method =
            exchange::Bind { destination, source, routing_key, no_wait: false, arguments: TableRef::new(&arguments) };
        self.call(channel, method.into(), "exchange.bind-ok").map(drop)
    }

    /// Takes a binding between exchanges away (RabbitMQ extension).
    ///
    /// # Errors
    /// As `bind_exchange`.
    pub fn unbind_exchange(
        &mut self,
        channel: ClientChannel,
        destination: &str,
        source: &str,
        routing_key: &str,
        arguments: &Table,
    ) -> Result<()> {
        self.state.channels.announced(Capabilities::EXCHANGE_EXCHANGE_BINDINGS, "bindings between exchanges")?;
        let arguments = encoded(arguments);
        let (destination, source, routing_key) = (short(destination)?, short(source)?, short(routing_key)?);
        let method =
            exchange::Unbind { destination, source, routing_key, no_wait: false, arguments: TableRef::new(&arguments) };
        self.call(channel, method.into(), "exchange.unbind-ok").map(drop)
    }

    /// Declares a queue; an empty name lets the server choose one.
    ///
    /// # Errors
    /// The server's refusal, which closes the channel: 404, 405 (another connection's), 406 (it exists and is different).
    pub fn declare_queue(
        &mut self,
        channel: ClientChannel,
        name: &str,
        options: &QueueOptions,
    ) -> Result<QueueDeclared> {
        self.write_declare(channel, name, options, false)?;
        match self.answer(channel.number, "queue.declare-ok")? {
            Reply::QueueDeclared { queue: name, messages, consumers } => {
                Ok(QueueDeclared { name, messages, consumers })
            }
            _ => Err(unexpected("queue.declare-ok")),
        }
    }

    /// Declares a queue without waiting for an answer, for very many queues; a call that is answered afterwards tells that
    /// all are declared.
    ///
    /// # Errors
    /// A channel that is not open, or the connection's end. A refusal shows in a later call.
    pub fn declare_queue_unanswered(
        &mut self,
        channel: ClientChannel,
        name: &str,
        options: &QueueOptions,
    ) -> Result<()> {
        self.write_declare(channel, name, options, true)?;
        self.flush_if_much()
    }

    fn write_declare(
        &mut self,
        channel: ClientChannel,
        name: &str,
        options: &QueueOptions,
        no_wait: bool,
    ) -> Result<()> {
        self.state.channels.open(channel)?;
        let arguments = encoded(&options.arguments);
        let method = queue::Declare {
            queue: short(name)?,
            passive: options.passive,
            durable: options.durable,
            exclusive: options.exclusive,
            auto_delete: options.auto_delete,
            no_wait,
            arguments: TableRef::new(&arguments),
        };
        self.outbound.method(&self.pool, channel.number, &method.into());
        Ok(())
    }

    /// Binds a queue to an exchange.
    ///
    /// # Errors
    /// The server's refusal, which closes the channel.
    pub fn bind_queue(
        &mut self,
        channel: ClientChannel,
        queue: &str,
        exchange: &str,
        routing_key: &str,
        arguments: &Table,
    ) -> Result<()> {
        self.write_bind(channel, queue, exchange, routing_key, arguments, false)?;
        self.answer(channel.number, "queue.bind-ok").map(drop)
    }

    /// Binds a queue without waiting for an answer, for very many bindings; a call that is answered afterwards tells
    /// that all are done.
    ///
    /// # Errors
    /// A channel that is not open, or the connection's end. A refusal shows in a later call.
    pub fn bind_queue_unanswered(
        &mut self,
        channel: ClientChannel,
        queue: &str,
        exchange: &str,
        routing_key: &str,
        arguments: &Table,
    ) -> Result<()> {
        self.write_bind(channel, queue, exchange, routing_key, arguments, true)?;
        self.flush_if_much()
    }

    fn write_bind(
        &mut self,
        channel: ClientChannel,
        queue: &str,
        exchange: &str,
        routing_key: &str,
        arguments: &Table,
        no_wait: bool,
    ) -> Result<()> {
        self.state.channels.open(channel)?;
        let arguments = encoded(arguments);
        let (queue, exchange, routing_key) = (short(queue)?, short(exchange)?, short(routing_key)?);
        let method = queue::Bind { queue, exchange, routing_key, no_wait, arguments: TableRef::new(&arguments) };
        self.outbound.method(&self.pool, channel.number, &method.into());
        Ok(())
    }

    /// Takes a binding away.
    ///
    /// # Errors
    /// The server's refusal, which closes the channel.
    pub fn unbind_queue(
        &mut self,
        channel: ClientChannel,
        queue: &str,
        exchange: &str,
        routing_key: &str,
        arguments: &Table,
    ) -> Result<()> {
        let arguments = encoded(arguments);
        let (queue, exchange, routing_key) = (short(queue)?, short(exchange)?, short(routing_key)?);
        let method = queue::Unbind { queue, exchange, routing_key, arguments: TableRef::new(&arguments) };
        self.call(channel, method.into(), "queue.unbind-ok").map(drop)
    }

    /// Drops the messages of a queue that are ready; says how many.
    ///
    /// # Errors
    /// The server's refusal, which closes the channel.
    pub fn purge_queue(&mut self, channel: ClientChannel, name: &str) -> Result<u32> {
        let method = queue::Purge { queue: short(name)?, no_wait: false };
        self.count(channel, method.into(), "queue.purge-ok")
    }

    /// Deletes a queue; says how many messages went with it.
    ///
    /// # Errors
    /// The server's refusal, which closes the channel.
    pub fn delete_queue(&mut self, channel: ClientChannel, name: &str, if_unused: bool, if_empty: bool) -> Result<u32> {
        let method = queue::Delete { queue: short(name)?, if_unused, if_empty, no_wait: false };
        self.count(channel, method.into(), "queue.delete-ok")
    }

    /// Limits unacknowledged deliveries: of each consumer started afterwards, or (`global`) of the whole channel; 0 is
    /// no limit.
    ///
    /// # Errors
    /// The server's refusal, which closes the channel.
    pub fn qos(&mut self, channel: ClientChannel, prefetch: u16, global: bool) -> Result<()> {
        let method = basic::Qos { prefetch_size: 0, prefetch_count: prefetch, global };
        self.call(channel, method.into(), "basic.qos-ok").map(drop)
    }

    /// Starts a consumer; says its tag. Its deliveries come from `next_delivery` or `dispatch`.
    ///
    /// # Errors
    /// The server's refusal, which closes the channel.
    pub fn consume(&mut self, channel: ClientChannel, queue: &str, options: &ConsumeOptions) -> Result<String> {
        let arguments = encoded(&options.arguments);
        let method = basic::Consume {
            queue: short(queue)?,
            consumer_tag: short(&options.consumer_tag)?,
            no_local: false,
            no_ack: options.no_ack,
            exclusive: options.exclusive,
            no_wait: false,
            arguments: TableRef::new(&arguments),
        };
        match self.call(channel, method.into(), "basic.consume-ok")? {
            Reply::ConsumerTag(tag) => Ok(tag),
            _ => Err(unexpected("basic.consume-ok")),
        }
    }

    /// Ends a consumer. Deliveries that came before are still handed out.
    ///
    /// # Errors
    /// A channel that is not open, or the connection's end.
    pub fn cancel(&mut self, channel: ClientChannel, consumer_tag: &str) -> Result<()> {
        let method = basic::Cancel { consumer_tag: short(consumer_tag)?, no_wait: false };
        self.call(channel, method.into(), "basic.cancel-ok").map(drop)
    }

    /// Takes one message from a queue, if there is one.
    ///
    /// # Errors
    /// The server's refusal, which closes the channel.
    pub fn get(&mut self, channel: ClientChannel, queue: &str, no_ack: bool) -> Result<Option<ReceivedMessage>> {
        self.state.channels.open(channel)?;
        self.outbound.method(&self.pool, channel.number, &basic::Get { queue: short(queue)?, no_ack }.into());
        match self.answer_of(channel.number, &["basic.get-ok", "basic.get-empty"])? {
            Reply::Got(message) => Ok(Some(*message)),
            _ => Ok(None),
        }
    }

    /// Has all unacknowledged deliveries of the channel delivered again.
    ///
    /// # Errors
    /// The server's refusal: RabbitMQ refuses `requeue: false` (540).
    pub fn recover(&mut self, channel: ClientChannel, requeue: bool) -> Result<()> {
        self.call(channel, basic::Recover { requeue }.into(), "basic.recover-ok").map(drop)
    }

    /// Turns confirms on: every later publish on this channel is confirmed or refused by the server.
    ///
    /// # Errors
    /// A channel that is not open or is transactional; `NotAnnounced` where the server has no confirms.
    pub fn confirm_select(&mut self, channel: ClientChannel) -> Result<()> {
        self.state.channels.announced(Capabilities::PUBLISHER_CONFIRMS, "publisher confirms")?;
        self.call(channel, confirm::Select { no_wait: false }.into(), "confirm.select-ok")?;
        self.state.channels.open(channel)?.confirming = true;
        Ok(())
    }

    /// Makes the channel transactional.
    ///
    /// # Errors
    /// A channel that is not open or has confirms.
    pub fn tx_select(&mut self, channel: ClientChannel) -> Result<()> {
        self.call(channel, tx::Select {}.into(), "tx.select-ok").map(drop)
    }

    /// Lets the publishes and acknowledgements since the last commit or rollback happen.
    ///
    /// # Errors
    /// A channel that is not open or not transactional.
    pub fn tx_commit(&mut self, channel: ClientChannel) -> Result<()> {
        self.call(channel, tx::Commit {}.into(), "tx.commit-ok").map(drop)
    }

    /// Drops the publishes and acknowledgements since the last commit or rollback.
    ///
    /// # Errors
    /// A channel that is not open or not transactional.
    pub fn tx_rollback(&mut self, channel: ClientChannel) -> Result<()> {
        self.call(channel, tx::Rollback {}.into(), "tx.rollback-ok").map(drop)
    }

    /// Publishes a message: written at once, sent by `flush`, by any call that waits, or when `Options::flush_bytes`
    /// are written. The answer is its tag for confirms, or 0 on a channel without them.
    ///
    /// # Errors
    /// A channel that is not open (also: the server has closed it), names of more than 255 bytes, the connection's end.
    #[inline]
    pub fn publish(&mut self, channel: ClientChannel, to: &crate::Publish<'_>, body: &[u8]) -> Result<u64> {
        let tag = self.output().publish(channel, to, body)?;
        self.flush_if_much()?;
        Ok(tag)
    }

    /// Publishes a body that is in shared memory already, without a copy.
    ///
    /// # Errors
    /// As `publish`.
    #[inline]
    pub fn publish_shared(
        &mut self,
        channel: ClientChannel,
        to: &crate::Publish<'_>,
        body: &slab::Slice,
    ) -> Result<u64> {
        let tag = self.output().publish_shared(channel, to, body)?;
        self.flush_if_much()?;
        Ok(tag)
    }

    /// Acknowledges one delivery, or all of the channel up to it. Sent like a publish.
    ///
    /// # Errors
    /// A channel that is not open, the connection's end.
    #[inline]
    pub fn ack(&mut self, channel: ClientChannel, delivery_tag: DeliveryTag, multiple: bool) -> Result<()> {
        self.output().ack(channel, delivery_tag, multiple)?;
        self.flush_if_much()
    }

    /// Refuses one delivery, or all of the channel up to it (RabbitMQ extension; a single one is `reject`ed where the
    /// server does not know it).
    ///
    /// # Errors
    /// As `ack`, and `NotAnnounced` for several at once where the server does not know it.
    pub fn nack(
        &mut self,
        channel: ClientChannel,
        delivery_tag: DeliveryTag,
        multiple: bool,
        requeue: bool,
    ) -> Result<()> {
        self.output().nack(channel, delivery_tag, multiple, requeue)?;
        self.flush_if_much()
    }

    /// Refuses one delivery.
    ///
    /// # Errors
    /// As `ack`.
    pub fn reject(&mut self, channel: ClientChannel, delivery_tag: DeliveryTag, requeue: bool) -> Result<()> {
        self.output().reject(channel, delivery_tag, requeue)?;
        self.flush_if_much()
    }

    #[inline]
    fn flush_if_much(&mut self) -> Result<()> {
        if self.outbound.bytes() >= self.options.flush_bytes { self.flush() } else { Ok(()) }
    }

    /// Publishes on this channel that are neither confirmed nor refused yet, as far as the client has read.
    #[inline]
    pub fn outstanding(&self, channel: ClientChannel) -> u64 {
        self.state.channels.outstanding(channel)
    }

    /// The highest tag up to which every publish of the channel is confirmed or refused, as far as the client has read.
    #[inline]
    pub fn confirmed_up_to(&self, channel: ClientChannel) -> u64 {
        self.state.channels.confirmed_up_to(channel)
    }

    /// Waits until at most `outstanding_max` publishes of the channel are unconfirmed; says how many were refused
    /// since the channel was opened.
    ///
    /// # Errors
    /// The channel's or connection's end; `TimedOut` when no confirm comes for `Options::answer_wait`.
    pub fn wait_confirms(&mut self, channel: ClientChannel, outstanding_max: u64) -> Result<u64> {
        loop {
            let record = self.state.channels.open(channel)?;
            let before = record.confirms.outstanding();
            if before <= outstanding_max {
                return Ok(record.confirms.refused());
            }
            if !self.buffer_delivery(self.options.answer_wait)? {
                return Err(ClientError::TimedOut { awaited: "confirm" });
            }
        }
    }

    /// Whether the server refused publishes of the channel since `take_refused` was asked last.
    pub fn has_refused(&self, channel: ClientChannel) -> bool {
        self.state.channels.has_refused(channel)
    }

    /// The tags that the server refused since this was asked last; at most `limits::REFUSED_TAGS_MAX`.
    ///
    /// # Errors
    /// A channel that is not open.
    pub fn take_refused(&mut self, channel: ClientChannel) -> Result<Vec<u64>> {
        Ok(self.state.channels.open(channel)?.confirms.take_refused_tags())
    }
}
