//! Deliveries encoded once and sent repeatedly in large writes; only their sequence numbers change.

use std::io::Write;

use gauge::{SEQUENCE_BYTES_MAX, write_sequence};
use session::{BodyOut, DeliverHead, Outbound};
use slab::Pool;
use wire::{
    ChannelNumber, DeliveryTag,
    frame::{FRAME_HEAD_BYTES, FRAME_OVERHEAD_BYTES},
};

use super::publish_skimmer::payload_bytes;
use crate::limits::NULL_BLOCK_BYTES;

/// The names in the headers of deliveries, chosen by the consumer when it declared and bound its queue.
#[derive(Clone, Debug, Default)]
pub(super) struct DeliveryHeads {
    pub tag: Vec<u8>,
    pub exchange: Vec<u8>,
    pub routing_key: Vec<u8>,
}

/// The deliveries of one segment.
pub(super) struct EncodedDeliveries {
    /// As many deliveries as make a good write; for bodies of several frames, one delivery up to the end of the first frame.
    block: Vec<u8>,
    /// Bytes of each delivery in the block.
    each_bytes: usize,
    /// The offset of the sequence number.
    number_at: usize,
    number_bytes: usize,
    /// The full frames after the first, which are all equal, and their number.
    frame: Vec<u8>,
    frames: usize,
    /// The last frame, if it is not full.
    last: Vec<u8>,
}

impl EncodedDeliveries {
    /// Encodes them with the frame size that `like` has negotiated.
    pub(super) fn new(
        like: &Outbound,
        pool: &Pool,
        channel: ChannelNumber,
        heads: &DeliveryHeads,
        size_bytes: usize,
    ) -> Self {
        let mut out = like.empty_like();
        let body = vec![b'x'; size_bytes];
        let head = DeliverHead {
            consumer_tag: &heads.tag,
            delivery_tag: DeliveryTag(1),
            redelivered: false,
            exchange: &heads.exchange,
            routing_key: &heads.routing_key,
        };
        out.deliver(pool, channel, &head, &[0, 0], BodyOut::Copy(&body));
        let one = out.take_bytes(pool);
        // Method frame, header frame and the header of the first body frame precede the body.
        let after = |at: usize| at + FRAME_OVERHEAD_BYTES + one.get(at..).map_or(0, payload_bytes);
        let body_at = after(after(0));
        let first_end = if size_bytes > 0 { after(body_at) } else { body_at };
        let (lead, mut behind) = one.split_at(first_end);
        let frame = behind.get(..first_end - body_at).unwrap_or_default().to_vec();
        let mut frames = 0;
        while let (false, Some(rest)) = (frame.is_empty(), behind.strip_prefix(&*frame)) {
            frames += 1;
            behind = rest;
        }
        let times = if one.len() > lead.len() { 1 } else { NULL_BLOCK_BYTES.div_ceil(lead.len()) };
        Self {
            block: lead.repeat(times),
            each_bytes: lead.len(),
            number_at: body_at + FRAME_HEAD_BYTES,
            number_bytes: size_bytes.min(SEQUENCE_BYTES_MAX),
            frame,
            frames,
            last: behind.to_vec(),
        }
    }

    /// Writes `count` of them, numbered from 0.
    pub(super) fn write(&mut self, to: &mut impl Write, count: u64) -> std::io::Result<()> {
        let at_once = (self.block.len() / self.each_bytes) as u64;
        let mut sequence = 0;
        while sequence < count {
            let now = (count - sequence).min(at_once) as usize;
            for message in self.block.chunks_exact_mut(self.each_bytes).take(now) {
                if let Some(number) = message.get_mut(self.number_at..self.number_at + self.number_bytes) {
                    write_sequence(number, sequence);
                }
                sequence += 1;
            }
            to.write_all(&self.block[..now * self.each_bytes])?;
            for _ in 0..self.frames {
                to.write_all(&self.frame)?;
            }
            if !self.last.is_empty() {
                to.write_all(&self.last)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of `count` numbered deliveries of a size.
    fn expected(pool: &Pool, heads: &DeliveryHeads, size_bytes: usize, count: u64) -> Vec<u8> {
        let mut out = Outbound::new();
        for sequence in 0..count {
            let mut body = vec![b'x'; size_bytes];
            write_sequence(&mut body, sequence);
            let head = DeliverHead {
                consumer_tag: &heads.tag,
                delivery_tag: DeliveryTag(1),
                redelivered: false,
                exchange: &heads.exchange,
                routing_key: &heads.routing_key,
            };
            out.deliver(pool, ChannelNumber(1), &head, &[0, 0], BodyOut::Copy(&body));
        }
        out.take_bytes(pool)
    }

    #[test]
    fn canned_deliveries_are_those_that_would_be_encoded() {
        let pool = Pool::default();
        let heads = DeliveryHeads { tag: b"c".to_vec(), exchange: b"hb.x".to_vec(), routing_key: b"hb.k0".to_vec() };
        // Frames of a new session have 4,096 bytes: one frame, exactly one, several, several full ones.
        let frame = Outbound::new().payload_bytes_max();
        for size_bytes in [0, 1, 8, 100, frame, frame + 1, 3 * frame, 3 * frame + 5] {
            for count in [1, 2, 7, 3_000 / (1 + size_bytes as u64) + 5] {
                let mut bytes = Vec::new();
                let mut deliveries =
                    EncodedDeliveries::new(&Outbound::new(), &pool, ChannelNumber(1), &heads, size_bytes);
                deliveries.write(&mut bytes, count).expect("memory takes all");
                assert!(bytes == expected(&pool, &heads, size_bytes, count), "{count} of {size_bytes} bytes");
            }
        }
    }
}
