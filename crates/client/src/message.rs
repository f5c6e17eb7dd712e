//! Messages as a program sees them: borrowed from the receive buffer, or owned.
//!
//! Enters: contents of the session.  Leaves: `Delivery` (borrowed), `Message`, `Returned` (owned).
//! Owns:   copies only where a message must outlive the buffer.

use session::Body;
use slab::Slice;
use wire::{DeliveryTag, RawProperties};

use crate::channel::ClientChannel;

/// A message for a consumer, borrowed from the client's memory. Copy what must be kept.
#[derive(Clone, Debug)]
pub struct Delivery<'a> {
    /// The channel it came on: acknowledge it there.
    pub channel: ClientChannel,
    pub consumer_tag: &'a [u8],
    /// What to acknowledge.
    pub delivery_tag: DeliveryTag,
    /// Whether it was delivered before.
    pub redelivered: bool,
    /// Name of the exchange it was published to.
    pub exchange: &'a [u8],
    pub routing_key: &'a [u8],
    /// Its properties, each found when asked for.
    pub properties: RawProperties<'a>,
    pub(crate) body: Body<'a>,
}

impl Delivery<'_> {
    #[inline]
    pub fn body(&self) -> &[u8] {
        self.body.bytes()
    }

    /// The body as shared memory, if it came in memory of its own (32 KiB and more): kept without a copy.
    pub fn shared_body(&self) -> Option<&Slice> {
        match &self.body {
            Body::Small(_) => None,
            Body::Large(slice) => Some(slice),
        }
    }

    /// A copy that may be kept.
    pub fn to_message(&self) -> ReceivedMessage {
        ReceivedMessage {
            channel: self.channel,
            consumer_tag: self.consumer_tag.into(),
            delivery_tag: self.delivery_tag,
            redelivered: self.redelivered,
            exchange: self.exchange.into(),
            routing_key: self.routing_key.into(),
            messages_left: 0,
            properties: self.properties.as_bytes().into(),
            body: OwnedBody::of(&self.body),
        }
    }
}

/// A body that is kept.
#[derive(Clone, Debug)]
pub(crate) enum OwnedBody {
    Copied(Box<[u8]>),
    Shared(Slice),
}

impl OwnedBody {
    pub(crate) fn of(body: &Body<'_>) -> Self {
        match body {
            Body::Small(bytes) => Self::Copied((*bytes).into()),
            Body::Large(slice) => Self::Shared(slice.clone()),
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Copied(bytes) => bytes,
            Self::Shared(slice) => slice,
        }
    }
}

/// A message in memory of its own: what `get` answers, and copies of deliveries.
#[derive(Clone, Debug)]
pub struct ReceivedMessage {
    /// The channel it came on: acknowledge it there.
    pub channel: ClientChannel,
    /// Which consumer it is for; empty for `get`.
    pub consumer_tag: Box<[u8]>,
    /// What to acknowledge.
    pub delivery_tag: DeliveryTag,
    /// Whether it was delivered before.
    pub redelivered: bool,
    /// Name of the exchange it was published to.
    pub exchange: Box<[u8]>,
    pub routing_key: Box<[u8]>,
    /// Messages left in the queue (`get` only).
    pub messages_left: u32,
    pub(crate) properties: Box<[u8]>,
    pub(crate) body: OwnedBody,
}

impl ReceivedMessage {
    pub fn body(&self) -> &[u8] {
        self.body.bytes()
    }

    pub fn properties(&self) -> RawProperties<'_> {
        RawProperties::new(&self.properties)
    }

    /// The same as a borrowed delivery.
    pub(crate) fn view(&self) -> Delivery<'_> {
        Delivery {
            channel: self.channel,
            consumer_tag: &self.consumer_tag,
            delivery_tag: self.delivery_tag,
            redelivered: self.redelivered,
            exchange: &self.exchange,
            routing_key: &self.routing_key,
            properties: self.properties(),
            body: match &self.body {
                OwnedBody::Copied(bytes) => Body::Small(bytes),
                OwnedBody::Shared(slice) => Body::Large(slice.clone()),
            },
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.body().len() + self.properties.len() + self.exchange.len() + self.routing_key.len() + size_of::<Self>()
    }
}

/// A published message that came back: no queue took it.
#[derive(Clone, Debug)]
pub struct Returned {
    /// The channel it was published on.
    pub channel: ClientChannel,
    /// Why, as a number (312: no route).
    pub code: u16,
    /// Why, as a text.
    pub text: String,
    /// Name of the exchange it was published to.
    pub exchange: Box<[u8]>,
    pub routing_key: Box<[u8]>,
    pub(crate) properties: Box<[u8]>,
    pub(crate) body: OwnedBody,
}

impl Returned {
    pub fn body(&self) -> &[u8] {
        self.body.bytes()
    }

    pub fn properties(&self) -> RawProperties<'_> {
        RawProperties::new(&self.properties)
    }
}
