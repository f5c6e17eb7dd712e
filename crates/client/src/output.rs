//! Writing contents and acknowledgements: the part of a client that a delivery's handler may use.
//!
//! Enters: messages, delivery tags.  Leaves: their frames in what is to be sent; counted publishes.
//! Owns:   nothing: it borrows the sending half, the memory and the channels.

use session::{BodyOut, Capabilities, Outbound, PublishHead};
use slab::{Pool, Slice};
use wire::method::basic;
use wire::{DeliveryTag, RawProperties, ShortStr};

use crate::channel::{ClientChannel, ClientChannels};
use crate::error::{ClientError, Result};
use crate::limits::SHARED_BODY_BYTES_MIN;

/// Where a message goes, and how.
#[derive(Clone, Copy, Debug)]
pub struct Publish<'a> {
    /// Name of the exchange; empty for the default exchange.
    pub exchange: &'a str,
    /// The routing key; with the default exchange the queue's name.
    pub routing_key: &'a str,
    /// Have it returned if no queue takes it (see `Client::take_returned`).
    pub mandatory: bool,
    /// Its properties in wire form: `RawProperties::new(&Properties { … }.to_bytes())`, made once for many messages.
    pub properties: RawProperties<'a>,
}

impl<'a> Publish<'a> {
    /// To an exchange, without properties.
    pub fn to(exchange: &'a str, routing_key: &'a str) -> Self {
        Self { exchange, routing_key, mandatory: false, properties: RawProperties::EMPTY }
    }
}

/// Writes publishes and acknowledgements; see `Client::dispatch`.
#[derive(Debug)]
pub struct ClientOutput<'a> {
    pub(crate) outbound: &'a mut Outbound,
    pub(crate) pool: &'a Pool,
    pub(crate) channels: &'a mut ClientChannels,
}

impl ClientOutput<'_> {
    /// Publishes a message. The answer is its tag for confirms, or 0 on a channel without them.
    ///
    /// # Errors
    /// A channel that is not open; names of more than 255 bytes.
    #[inline]
    pub fn publish(&mut self, channel: ClientChannel, to: &Publish<'_>, body: &[u8]) -> Result<u64> {
        if body.len() >= SHARED_BODY_BYTES_MIN {
            let body = self.pool.copy(body);
            return self.write(channel, to, BodyOut::Share(&body));
        }
        self.write(channel, to, BodyOut::Copy(body))
    }

    /// Publishes a body that is in shared memory already (`Client::block`, `Delivery::shared_body`), without a copy.
    ///
    /// # Errors
    /// As `publish`.
    #[inline]
    pub fn publish_shared(&mut self, channel: ClientChannel, to: &Publish<'_>, body: &Slice) -> Result<u64> {
        self.write(channel, to, BodyOut::Share(body))
    }

    #[inline]
    fn write(&mut self, channel: ClientChannel, to: &Publish<'_>, body: BodyOut<'_>) -> Result<u64> {
        let record = self.channels.open(channel)?;
        let exchange = ShortStr::new(to.exchange.as_bytes())?.as_bytes();
        let routing_key = ShortStr::new(to.routing_key.as_bytes())?.as_bytes();
        let tag = if record.confirming { record.confirms.published() } else { 0 };
        let head = PublishHead { exchange, routing_key, mandatory: to.mandatory, immediate: false };
        self.outbound.publish(self.pool, channel.number, &head, to.properties.as_bytes(), body);
        Ok(tag)
    }

    /// Acknowledges one delivery, or all of the channel up to it.
    ///
    /// # Errors
    /// A channel that is not open.
    #[inline]
    pub fn ack(&mut self, channel: ClientChannel, delivery_tag: DeliveryTag, multiple: bool) -> Result<()> {
        self.channels.open(channel)?;
        self.outbound.ack(self.pool, channel.number, delivery_tag, multiple);
        Ok(())
    }

    /// Refuses one delivery, or all of the channel up to it; they are requeued, dropped or dead-lettered.
    ///
    /// # Errors
    /// A channel that is not open; several at once where the server has no `basic.nack`.
    pub fn nack(
        &mut self,
        channel: ClientChannel,
        delivery_tag: DeliveryTag,
        multiple: bool,
        requeue: bool,
    ) -> Result<()> {
        if !multiple && !self.channels.announced.has(Capabilities::BASIC_NACK) {
            return self.reject(channel, delivery_tag, requeue);
        }
        self.channels.announced(Capabilities::BASIC_NACK, "basic.nack")?;
        self.channels.open(channel)?;
        self.outbound.method(self.pool, channel.number, &basic::Nack { delivery_tag, multiple, requeue }.into());
        Ok(())
    }

    /// Refuses one delivery (AMQP 0-9-1 §1.8.3.14; `nack` does the same and more).
    ///
    /// # Errors
    /// A channel that is not open.
    pub fn reject(&mut self, channel: ClientChannel, delivery_tag: DeliveryTag, requeue: bool) -> Result<()> {
        self.channels.open(channel)?;
        self.outbound.method(self.pool, channel.number, &basic::Reject { delivery_tag, requeue }.into());
        Ok(())
    }
}

/// Checks a name before it is written.
pub(crate) fn short(text: &str) -> Result<ShortStr<'_>> {
    ShortStr::new(text.as_bytes()).map_err(ClientError::from)
}
