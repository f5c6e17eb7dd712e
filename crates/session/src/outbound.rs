//! The sending half: commands in, bytes out.
//!
//! Enters: methods and contents.  Leaves: their frames, in a `Gather` that a link sends.
//! Owns:   what is to be sent, and the frame bound of the peer.

use crate::{
    limits::{CLIENT_GREETING_BYTES_MAX, HEADER_FIXED_BYTES},
    slice_writer::SliceWriter,
};
use slab::{Gather, Pool, Slice};
use wire::{
    BodyRun, ChannelNumber, DeliveryTag, Method, ReplyCode, ShortStr,
    frame::{FRAME_BODY, FRAME_END, FRAME_HEAD_BYTES, FRAME_HEADER, FRAME_OVERHEAD_BYTES, FrameHead, HEARTBEAT_FRAME},
    method::{METHOD_ID_BYTES, basic, channel, connection},
};

/// How a body is sent.
#[derive(Clone, Copy, Debug)]
pub enum BodyOut<'a> {
    /// Copied among the heads: for small ones.
    Copy(&'a [u8]),
    /// Sent from where it lies: for large ones (the link's `copy_below_bytes` says which).
    Share(&'a Slice),
}

impl BodyOut<'_> {
    #[inline]
    fn len(&self) -> usize {
        match self {
            Self::Copy(bytes) => bytes.len(),
            Self::Share(slice) => slice.len(),
        }
    }
}

/// Arguments of `basic.deliver`. Strings are at most 255 bytes; a longer one is an assertion.
#[derive(Clone, Copy, Debug)]
pub struct DeliverHead<'a> {
    pub consumer_tag: &'a [u8],
    /// What to acknowledge.
    pub delivery_tag: DeliveryTag,
    /// Whether it was delivered before.
    pub redelivered: bool,
    /// Name of the exchange it was published to.
    pub exchange: &'a [u8],
    pub routing_key: &'a [u8],
}

impl DeliverHead<'_> {
    /// Where the delivery tag stands in a frame.
    #[inline]
    fn tag_at(&self) -> usize {
        FRAME_HEAD_BYTES + METHOD_ID_BYTES + 1 + self.consumer_tag.len()
    }

    #[inline(always)]
    fn bytes(&self) -> usize {
        3 + self.consumer_tag.len() + self.exchange.len() + self.routing_key.len() + 9
    }

    #[inline(always)]
    fn write(&self, pen: &mut SliceWriter<'_>) {
        pen.short_str(self.consumer_tag);
        pen.array(self.delivery_tag.0.to_be_bytes());
        pen.array([u8::from(self.redelivered)]);
        pen.short_str(self.exchange);
        pen.short_str(self.routing_key);
    }

    #[inline(always)]
    fn content<'a>(&self, channel: ChannelNumber, properties: &'a [u8], body_bytes: usize) -> ContentHeads<'a> {
        ContentHeads { channel, id: basic::Deliver::ID, arguments_bytes: self.bytes(), properties, body_bytes }
    }

    /// Writes a delivery that has these bytes in common with another, up to its body, but for its tag.
    #[inline(always)]
    fn write_like(&self, place: &mut [u8], common: &[u8], delivery_tag: DeliveryTag, body: &[u8]) {
        let (heads, rest) = place.split_at_mut(common.len());
        heads.copy_from_slice(common);
        let tag = heads[self.tag_at()..].first_chunk_mut().expect("heads have a tag");
        *tag = delivery_tag.0.to_be_bytes();
        if let [place @ .., end] = rest {
            place.copy_from_slice(body);
            *end = FRAME_END;
        }
    }
}

/// Arguments of `basic.get-ok`. Strings are at most 255 bytes; a longer one is an assertion.
#[derive(Clone, Copy, Debug)]
pub struct GetOkHead<'a> {
    /// What to acknowledge.
    pub delivery_tag: DeliveryTag,
    /// Whether it was delivered before.
    pub redelivered: bool,
    /// Name of the exchange it was published to.
    pub exchange: &'a [u8],
    pub routing_key: &'a [u8],
    /// Messages still in the queue.
    pub message_count: u32,
}

/// Arguments of `basic.return`. Strings are at most 255 bytes; a longer one is an assertion.
#[derive(Clone, Copy, Debug)]
pub struct ReturnHead<'a> {
    /// Why, as a number.
    pub code: ReplyCode,
    /// Why, as a text; RabbitMQ sends the code's name (`NO_ROUTE`).
    pub text: &'a [u8],
    /// Name of the exchange it was published to.
    pub exchange: &'a [u8],
    pub routing_key: &'a [u8],
}

/// Arguments of `basic.publish`. Strings are at most 255 bytes; a longer one is an assertion.
#[derive(Clone, Copy, Debug)]
pub struct PublishHead<'a> {
    /// Name of the exchange.
    pub exchange: &'a [u8],
    pub routing_key: &'a [u8],
    /// Return the message if no queue takes it.
    pub mandatory: bool,
    /// Return the message if no consumer takes it now.
    pub immediate: bool,
}

/// What stands before a body: a method and a header, and the head of the body's frame if both are written together.
struct ContentHeads<'a> {
    channel: ChannelNumber,
    id: (u16, u16),
    arguments_bytes: usize,
    properties: &'a [u8],
    body_bytes: usize,
}

impl ContentHeads<'_> {
    /// Bytes of the frames of method and header.
    #[inline(always)]
    fn bytes(&self) -> usize {
        METHOD_ID_BYTES + self.arguments_bytes + HEADER_FIXED_BYTES + self.properties.len() + 2 * FRAME_OVERHEAD_BYTES
    }

    /// Writes these frames, and the body's if there is any of it.
    #[inline(always)]
    fn write(&self, place: &mut [u8], body: &[u8], arguments: impl FnOnce(&mut SliceWriter<'_>)) {
        let mut pen = SliceWriter::new(place);
        pen.method_head(self.channel, METHOD_ID_BYTES + self.arguments_bytes, self.id);
        arguments(&mut pen);
        pen.between(FRAME_HEADER, self.channel, HEADER_FIXED_BYTES + self.properties.len());
        pen.header_fixed(self.body_bytes as u64);
        pen.bytes(self.properties);
        if !body.is_empty() {
            pen.between(FRAME_BODY, self.channel, body.len());
            pen.bytes(body);
        }
        pen.array([FRAME_END]);
        pen.finish();
    }
}

/// Bytes of the frame of a body that is written with its heads.
#[inline(always)]
fn inline_bytes(body_bytes: usize) -> usize {
    if body_bytes == 0 { 0 } else { body_bytes + FRAME_OVERHEAD_BYTES }
}

/// The sending half of a session. Without anything to send it holds no memory.
#[derive(Debug)]
pub struct Outbound {
    gather: Gather,
    /// Bytes of a body payload in one frame.
    payload_bytes_max: usize,
    /// Bytes of a shared body that the last of several frames should have at least.
    last_bytes_min: usize,
}

impl Default for Outbound {
    fn default() -> Self {
        Self::new()
    }
}

impl Outbound {
    /// Nothing to send yet.
    pub const fn new() -> Self {
        let payload_bytes_max = CLIENT_GREETING_BYTES_MAX as usize - FRAME_OVERHEAD_BYTES;
        Self { gather: Gather::new(), payload_bytes_max, last_bytes_min: 0 }
    }

    /// Nothing to send, with the same frame bound.
    pub fn empty_like(&self) -> Self {
        Self { gather: Gather::new(), ..*self }
    }

    /// Bytes of a body in one frame, at most.
    pub fn payload_bytes_max(&self) -> usize {
        self.payload_bytes_max
    }

    /// Bytes of properties that fit a header frame.
    pub fn properties_bytes_max(&self) -> usize {
        self.payload_bytes_max - HEADER_FIXED_BYTES
    }

    /// No frame of a shared body that is longer shall have less: the last but one leaves that much to the last. For a link that
    /// hands over so much without a copy. Without effect where two of them do not fit a frame.
    pub fn set_part_bytes_min(&mut self, bytes: usize) {
        self.last_bytes_min = bytes;
    }

    /// How many bytes are to be sent.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.gather.bytes()
    }

    /// Whether there is nothing to send.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.gather.is_empty()
    }

    /// What is to be sent, for a link.
    #[inline]
    pub fn gather_mut(&mut self) -> &mut Gather {
        &mut self.gather
    }

    /// What is to be sent, to look at.
    #[inline]
    pub fn gather(&self) -> &Gather {
        &self.gather
    }

    /// Sets the settled frame bound, in bytes with overhead. `Inbound` does that when tuning is settled.
    pub fn set_frame_bytes_max(&mut self, bytes: u32) {
        assert!(bytes >= wire::frame::FRAME_BYTES_MIN, "a frame bound of {bytes} bytes was settled");
        self.payload_bytes_max = bytes as usize - FRAME_OVERHEAD_BYTES;
    }

    /// Sends a method that no content follows. (The `send_*` and content functions below are the others.)
    #[inline]
    pub fn method(&mut self, pool: &Pool, channel: ChannelNumber, method: &Method<'_>) {
        debug_assert!(!method.has_content(), "{} needs its content", method.name());
        method.encode_frame(channel, self.gather.reserve(pool, method.frame_len()));
    }

    /// Sends bytes that are frames already.
    pub fn frames(&mut self, pool: &Pool, frames: &[u8]) {
        self.gather.extend(pool, frames);
    }

    /// Sends the protocol header: a client's first bytes, and a server's answer to another protocol.
    pub fn protocol_header(&mut self, pool: &Pool) {
        self.gather.extend(pool, &wire::PROTOCOL_HEADER);
    }

    /// Sends a heartbeat.
    pub fn heartbeat(&mut self, pool: &Pool) {
        self.gather.extend(pool, &HEARTBEAT_FRAME);
    }

    /// Sends `basic.ack`: a client's acknowledgement, a server's confirm.
    #[inline]
    pub fn ack(&mut self, pool: &Pool, channel: ChannelNumber, delivery_tag: DeliveryTag, multiple: bool) {
        const PAYLOAD_BYTES: usize = 13;
        let mut pen = SliceWriter::new(self.gather.reserve(pool, PAYLOAD_BYTES + FRAME_OVERHEAD_BYTES));
        pen.method_head(channel, PAYLOAD_BYTES, basic::Ack::ID);
        pen.array(delivery_tag.0.to_be_bytes());
        pen.array([u8::from(multiple), FRAME_END]);
        pen.finish();
    }

    /// Sends `connection.close`; `Inbound::close` and `fail` also remember it.
    pub(crate) fn connection_close(&mut self, pool: &Pool, reply_code: u16, text: &str, method: (u16, u16)) {
        let (reply_text, (class_id, method_id)) = (ShortStr::truncated(text), method);
        self.method(
            pool,
            ChannelNumber::CONNECTION,
            &connection::Close { reply_code, reply_text, class_id, method_id }.into(),
        );
    }

    /// Sends `channel.close`; `Inbound::close_channel` and `fail` also remember it.
    pub(crate) fn channel_close(
        &mut self,
        pool: &Pool,
        channel: ChannelNumber,
        reply_code: u16,
        text: &str,
        method: (u16, u16),
    ) {
        let (reply_text, (class_id, method_id)) = (ShortStr::truncated(text), method);
        self.method(pool, channel, &channel::Close { reply_code, reply_text, class_id, method_id }.into());
    }

    /// Sends `basic.deliver`. `properties` are flags and values in wire form.
    #[inline]
    pub fn deliver(
        &mut self,
        pool: &Pool,
        channel: ChannelNumber,
        head: &DeliverHead<'_>,
        properties: &[u8],
        body: BodyOut<'_>,
    ) {
        self.content(pool, channel, basic::Deliver::ID, head.bytes(), properties, body, |pen| head.write(pen));
    }

    /// Bytes that `deliver` adds for a body of so many, which it copies, or `None` if that does not fit a frame.
    #[inline]
    pub fn delivery_bytes(&self, head: &DeliverHead<'_>, properties: &[u8], body_bytes: usize) -> Option<usize> {
        let heads = head.content(ChannelNumber::CONNECTION, properties, body_bytes);
        (body_bytes <= self.payload_bytes_max).then(|| heads.bytes() + inline_bytes(body_bytes))
    }

    /// Sends `basic.deliver` for each body of a run, the same in all but the bodies and the delivery tags, which follow that of the
    /// first. The bodies fit a frame each.
    ///
    /// One of them is written, and what it has in common with the others is copied.
    pub fn deliver_run(
        &mut self,
        pool: &Pool,
        channel: ChannelNumber,
        first: &DeliverHead<'_>,
        properties: &[u8],
        bodies: BodyRun<'_>,
    ) {
        let body_bytes = bodies.body_bytes();
        assert!(body_bytes <= self.payload_bytes_max, "a run of bodies of {body_bytes} bytes, which fit no frame");
        let heads = first.content(channel, properties, body_bytes);
        let whole_bytes = heads.bytes() + inline_bytes(body_bytes);
        let (mut left, mut delivery_tag) = (Some(bodies), first.delivery_tag);
        while let Some(now) = left.and_then(|left| left.take((self.gather.chunk_room() / whole_bytes).max(1))) {
            let place = self.gather.reserve(pool, now.len() * whole_bytes);
            let (template, others) = place.split_at_mut(whole_bytes);
            heads.write(template, now.first(), |pen| DeliverHead { delivery_tag, ..*first }.write(pen));
            let end_bytes = usize::from(body_bytes > 0);
            let (common, _) = template.split_at(whole_bytes - body_bytes - end_bytes);
            for (place, body) in others.chunks_exact_mut(whole_bytes).zip(now.iter().skip(1)) {
                delivery_tag.0 += 1;
                first.write_like(place, common, delivery_tag, body);
            }
            delivery_tag.0 += 1;
            left = left.and_then(|left| left.skip(now.len()));
        }
    }

    /// Sends `basic.get-ok`. `properties` are flags and values in wire form.
    #[inline]
    pub fn get_ok(
        &mut self,
        pool: &Pool,
        channel: ChannelNumber,
        head: &GetOkHead<'_>,
        properties: &[u8],
        body: BodyOut<'_>,
    ) {
        let strings_bytes = 2 + head.exchange.len() + head.routing_key.len();
        self.content(pool, channel, basic::GetOk::ID, strings_bytes + 13, properties, body, |pen| {
            pen.array(head.delivery_tag.0.to_be_bytes());
            pen.array([u8::from(head.redelivered)]);
            pen.short_str(head.exchange);
            pen.short_str(head.routing_key);
            pen.array(head.message_count.to_be_bytes());
        });
    }

    /// Sends `basic.return`. `properties` are flags and values in wire form.
    #[inline]
    pub fn return_(
        &mut self,
        pool: &Pool,
        channel: ChannelNumber,
        head: &ReturnHead<'_>,
        properties: &[u8],
        body: BodyOut<'_>,
    ) {
        let strings_bytes = 3 + head.text.len() + head.exchange.len() + head.routing_key.len();
        self.content(pool, channel, basic::Return::ID, strings_bytes + 2, properties, body, |pen| {
            pen.array(head.code.number().to_be_bytes());
            pen.short_str(head.text);
            pen.short_str(head.exchange);
            pen.short_str(head.routing_key);
        });
    }

    /// Sends `basic.publish`. `properties` are flags and values in wire form.
    #[inline]
    pub fn publish(
        &mut self,
        pool: &Pool,
        channel: ChannelNumber,
        head: &PublishHead<'_>,
        properties: &[u8],
        body: BodyOut<'_>,
    ) {
        let strings_bytes = 2 + head.exchange.len() + head.routing_key.len();
        self.content(pool, channel, basic::Publish::ID, strings_bytes + 3, properties, body, |pen| {
            pen.array([0, 0]);
            pen.short_str(head.exchange);
            pen.short_str(head.routing_key);
            pen.array([u8::from(head.mandatory) | u8::from(head.immediate) << 1]);
        });
    }

    /// Method, header, body: one reserved piece if the body is copied and fits a frame.
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "one place for the four contents")]
    fn content(
        &mut self,
        pool: &Pool,
        channel: ChannelNumber,
        id: (u16, u16),
        arguments_bytes: usize,
        properties: &[u8],
        body: BodyOut<'_>,
        arguments: impl FnOnce(&mut SliceWriter<'_>),
    ) {
        let inline = match body {
            BodyOut::Copy(bytes) if bytes.len() <= self.payload_bytes_max => bytes,
            _ => &[],
        };
        let heads = ContentHeads { channel, id, arguments_bytes, properties, body_bytes: body.len() };
        let place = self.gather.reserve(pool, heads.bytes() + inline_bytes(inline.len()));
        heads.write(place, inline, arguments);
        if inline.is_empty() && heads.body_bytes > 0 {
            self.body(pool, channel, body);
        }
    }

    /// A body in as many frames as it needs, none of them empty.
    #[inline(never)]
    fn body(&mut self, pool: &Pool, channel: ChannelNumber, body: BodyOut<'_>) {
        let bytes = body.len();
        let last_bytes_min = match body {
            BodyOut::Share(_) if self.last_bytes_min <= self.payload_bytes_max / 2 => self.last_bytes_min,
            _ => 0,
        };
        let mut at = 0;
        while at < bytes {
            let left = bytes - at;
            let mut part_bytes = left.min(self.payload_bytes_max);
            if part_bytes < left && left - part_bytes < last_bytes_min {
                part_bytes = left - last_bytes_min;
            }
            let part = at..at + part_bytes;
            // The end of the frame before travels with the head of the next, so that a shared part costs one run.
            let end_bytes = usize::from(at > 0);
            let mut pen = SliceWriter::new(self.gather.reserve(pool, end_bytes + FRAME_HEAD_BYTES));
            if end_bytes > 0 {
                pen.array([FRAME_END]);
            }
            // The frame bound fits 32 bits, and so does a part.
            pen.array(FrameHead { kind: FRAME_BODY, channel, payload_bytes: part_bytes as u32 }.to_bytes());
            pen.finish();
            at = part.end;
            match body {
                BodyOut::Copy(bytes) => self.gather.extend(pool, &bytes[part]),
                BodyOut::Share(slice) => self.gather.push(slice.slice(part)),
            }
        }
        self.gather.extend(pool, &[FRAME_END]);
    }
}
