//! The delivery that is shown next: where its parts lie in the receive buffer.
//!
//! Enters: a borrowed delivery.  Leaves: the same delivery, borrowed anew.
//! Owns:   places instead of references, so that the loop that finds a delivery need not borrow until it is shown;
//!         copies of parts that lie elsewhere (heads of contents that came in pieces).

use session::Body;
use slab::Slice;
use wire::{DeliveryTag, RawProperties};

use crate::channel::ClientChannel;
use crate::message::Delivery;

#[derive(Clone, Copy, Debug, Default)]
struct ByteSpan {
    start: usize,
    len: usize,
    /// Whether it lies in `Parked::copies` instead of the buffer.
    copied: bool,
}

/// A delivery as places.
#[derive(Debug, Default)]
pub(crate) struct BufferedDelivery {
    channel: Option<ClientChannel>,
    delivery_tag: DeliveryTag,
    redelivered: bool,
    consumer_tag: ByteSpan,
    exchange: ByteSpan,
    routing_key: ByteSpan,
    properties: ByteSpan,
    body: ByteSpan,
    large: Option<Slice>,
    copies: Vec<u8>,
}

impl BufferedDelivery {
    /// Notes where the parts of a delivery lie. `memory` is the address range of the buffer.
    #[inline]
    pub(crate) fn buffer(&mut self, delivery: Delivery<'_>, memory: &std::ops::Range<usize>) {
        self.copies.clear();
        self.channel = Some(delivery.channel);
        self.delivery_tag = delivery.delivery_tag;
        self.redelivered = delivery.redelivered;
        self.consumer_tag = self.place(delivery.consumer_tag, memory);
        self.exchange = self.place(delivery.exchange, memory);
        self.routing_key = self.place(delivery.routing_key, memory);
        self.properties = self.place(delivery.properties.as_bytes(), memory);
        match delivery.body {
            Body::Small(bytes) => {
                self.body = self.place(bytes, memory);
                self.large = None;
            }
            Body::Large(slice) => self.large = Some(slice),
        }
    }

    #[inline]
    fn place(&mut self, bytes: &[u8], memory: &std::ops::Range<usize>) -> ByteSpan {
        let address = bytes.as_ptr().addr();
        if address >= memory.start && address + bytes.len() <= memory.end {
            return ByteSpan { start: address - memory.start, len: bytes.len(), copied: false };
        }
        let start = self.copies.len();
        self.copies.extend_from_slice(bytes);
        ByteSpan { start, len: bytes.len(), copied: true }
    }

    /// The delivery; `memory` is the buffer, untouched since.
    #[inline]
    pub(crate) fn show<'a>(&'a self, memory: &'a [u8]) -> Option<Delivery<'a>> {
        let at = |place: ByteSpan| {
            let from = if place.copied { &self.copies[..] } else { memory };
            &from[place.start..place.start + place.len]
        };
        Some(Delivery {
            channel: self.channel?,
            consumer_tag: at(self.consumer_tag),
            delivery_tag: self.delivery_tag,
            redelivered: self.redelivered,
            exchange: at(self.exchange),
            routing_key: at(self.routing_key),
            properties: RawProperties::new(at(self.properties)),
            body: match &self.large {
                Some(slice) => Body::Large(slice.clone()),
                None => Body::Small(at(self.body)),
            },
        })
    }

    /// Lets go of a large body that nobody looks at any more.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.large = None;
    }
}
