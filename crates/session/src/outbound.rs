//! The sending half: commands in, bytes out.
//!
//! Enters: methods and contents.  Leaves: their frames, in a `Gather` that a link sends.
//! Owns:   what is to be sent, and the frame bound of the peer.
//!
//! What is sent is in pieces. A large body that is shared is written a piece at a time, each once the one before it is sent: neither
//! the memory for the heads of its frames nor what a link takes at once grows with the body, or with what else is written.

use crate::{
    body_frames::{BodyFrames, FrameSizes},
    limits::{CLIENT_GREETING_BYTES_MAX, HEADER_FIXED_BYTES, PIECE_BYTES},
    slice_writer::SliceWriter,
    waiting_pieces::WaitingPieces,
};
use slab::{Gather, Pool, Slice};
use wire::{
    BodyRun, ChannelNumber, DeliveryTag, Method, ReplyCode, ShortStr,
    frame::{FRAME_BODY, FRAME_END, FRAME_HEAD_BYTES, FRAME_HEADER, FRAME_OVERHEAD_BYTES, HEARTBEAT_FRAME},
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
    /// What is sent after `gather`. Boxed, as few connections have any.
    waiting: Option<Box<WaitingPieces>>,
    /// Bytes of a body payload in one frame.
    payload_bytes_max: u32,
    /// Bytes of a shared body that the last of several frames should have at least.
    last_bytes_min: u32,
}

impl Default for Outbound {
    fn default() -> Self {
        Self::new()
    }
}

impl Outbound {
    /// Nothing to send yet.
    pub const fn new() -> Self {
        let payload_bytes_max = CLIENT_GREETING_BYTES_MAX - FRAME_OVERHEAD_BYTES as u32;
        Self { gather: Gather::new(), waiting: None, payload_bytes_max, last_bytes_min: 0 }
    }

    /// Nothing to send, with the same frame bound.
    pub fn empty_like(&self) -> Self {
        Self { gather: Gather::new(), waiting: None, ..*self }
    }

    /// Bytes of a body in one frame, at most.
    pub fn payload_bytes_max(&self) -> usize {
        self.payload_bytes_max as usize
    }

    /// Bytes of properties that fit a header frame.
    pub fn properties_bytes_max(&self) -> usize {
        self.payload_bytes_max() - HEADER_FIXED_BYTES
    }

    /// No frame of a shared body that is longer shall have less: the last but one leaves that much to the last. For a link that
    /// hands over so much without a copy. Without effect where two of them do not fit a frame.
    pub fn set_part_bytes_min(&mut self, bytes: usize) {
        // What no frame holds has no effect.
        self.last_bytes_min = u32::try_from(bytes).unwrap_or(u32::MAX);
    }

    /// How many bytes are to be sent.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.gather.bytes() + self.waiting.as_ref().map_or(0, |waiting| waiting.wire_bytes())
    }

    /// Whether there is nothing to send.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.gather.is_empty() && self.waiting.is_none()
    }

    /// What is to be sent next, for a link; empty if nothing is. Once the link has taken all of it there may be more.
    #[inline]
    pub fn gather_mut(&mut self, pool: &Pool) -> &mut Gather {
        if self.gather.is_empty() && self.waiting.is_some() {
            self.write_waiting(pool);
        }
        &mut self.gather
    }

    /// Takes everything that is to be sent, copied together: for whoever has no link.
    pub fn take_bytes(&mut self, pool: &Pool) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.bytes());
        while !self.is_empty() {
            let next = self.gather_mut(pool);
            next.parts().for_each(|part| bytes.extend_from_slice(part));
            next.clear();
        }
        bytes
    }

    /// Drops what is to be sent.
    pub fn clear(&mut self) {
        self.gather.clear();
        self.waiting = None;
    }

    /// What is to be sent next, to look at.
    #[inline]
    pub fn gather(&self) -> &Gather {
        &self.gather
    }

    /// Sets the settled frame bound, in bytes with overhead. `Inbound` does that when tuning is settled.
    pub fn set_frame_bytes_max(&mut self, bytes: u32) {
        assert!(bytes >= wire::frame::FRAME_BYTES_MIN, "a frame bound of {bytes} bytes was settled");
        self.payload_bytes_max = bytes - FRAME_OVERHEAD_BYTES as u32;
    }

    /// Sends a method that no content follows. (The `send_*` and content functions below are the others.)
    #[inline]
    pub fn method(&mut self, pool: &Pool, channel: ChannelNumber, method: &Method<'_>) {
        debug_assert!(!method.has_content(), "{} needs its content", method.name());
        method.encode_frame(channel, self.end_mut().reserve(pool, method.frame_len()));
    }

    /// Sends bytes that are frames already, from where they lie.
    pub fn shared_frames(&mut self, frames: Slice) {
        self.end_mut().push(frames);
    }

    /// Sends bytes that are frames already.
    pub fn frames(&mut self, pool: &Pool, frames: &[u8]) {
        self.end_mut().extend(pool, frames);
    }

    /// Sends the protocol header: a client's first bytes, and a server's answer to another protocol.
    pub fn protocol_header(&mut self, pool: &Pool) {
        self.end_mut().extend(pool, &wire::PROTOCOL_HEADER);
    }

    /// Sends a heartbeat.
    pub fn heartbeat(&mut self, pool: &Pool) {
        self.end_mut().extend(pool, &HEARTBEAT_FRAME);
    }

    /// Sends `basic.ack`: a client's acknowledgement, a server's confirm.
    #[inline]
    pub fn ack(&mut self, pool: &Pool, channel: ChannelNumber, delivery_tag: DeliveryTag, multiple: bool) {
        const PAYLOAD_BYTES: usize = 13;
        let mut pen = SliceWriter::new(self.end_mut().reserve(pool, PAYLOAD_BYTES + FRAME_OVERHEAD_BYTES));
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
        (body_bytes <= self.payload_bytes_max()).then(|| heads.bytes() + inline_bytes(body_bytes))
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
        assert!(body_bytes <= self.payload_bytes_max(), "a run of bodies of {body_bytes} bytes, which fit no frame");
        let heads = first.content(channel, properties, body_bytes);
        let whole_bytes = heads.bytes() + inline_bytes(body_bytes);
        let (mut left, mut delivery_tag, to) = (Some(bodies), first.delivery_tag, self.end_mut());
        while let Some(now) = left.and_then(|left| left.take((to.chunk_room() / whole_bytes).max(1))) {
            let place = to.reserve(pool, now.len() * whole_bytes);
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
            BodyOut::Copy(bytes) if bytes.len() <= self.payload_bytes_max() => bytes,
            _ => &[],
        };
        let heads = ContentHeads { channel, id, arguments_bytes, properties, body_bytes: body.len() };
        if self.end_mut().bytes() >= PIECE_BYTES {
            self.begin_piece();
        }
        let place = self.end_mut().reserve(pool, heads.bytes() + inline_bytes(inline.len()));
        heads.write(place, inline, arguments);
        if inline.is_empty() && heads.body_bytes > 0 {
            self.body(pool, channel, body);
        }
    }

    /// So much is to be sent that what follows is sent by itself.
    #[cold]
    fn begin_piece(&mut self) {
        self.waiting.get_or_insert_default().push_piece();
    }

    /// A body in as many frames as it needs, none of them empty. Of a shared one only so many are written as are sent at once.
    #[inline(never)]
    fn body(&mut self, pool: &Pool, channel: ChannelNumber, body: BodyOut<'_>) {
        let payload_bytes_max = self.payload_bytes_max();
        let sizes = |last_bytes_min| FrameSizes { payload_bytes_max, last_bytes_min };
        match body {
            BodyOut::Copy(bytes) => {
                let mut frames = BodyFrames::new(channel, sizes(0), bytes.len());
                frames.write_all(pool, self.end_mut(), |to, part| to.extend(pool, &bytes[part]));
            }
            BodyOut::Share(slice) => {
                let last_bytes_min = self.last_bytes_min as usize;
                let last_bytes_min = if last_bytes_min <= payload_bytes_max / 2 { last_bytes_min } else { 0 };
                let mut frames = BodyFrames::new(channel, sizes(last_bytes_min), slice.len());
                frames.write_piece(pool, self.end_mut(), slice);
                if !frames.is_written() {
                    self.waiting.get_or_insert_default().push_body(frames, slice.slice(..));
                }
            }
        }
    }

    /// What follows everything that is to be sent.
    #[inline(always)]
    fn end_mut(&mut self) -> &mut Gather {
        match &mut self.waiting {
            None => &mut self.gather,
            Some(waiting) => waiting.end_mut(),
        }
    }

    /// Everything written at once is sent: writes the next frames of a body, or continues with what is behind it.
    #[cold]
    fn write_waiting(&mut self, pool: &Pool) {
        if self.waiting.as_mut().is_some_and(|waiting| waiting.write_next(pool, &mut self.gather).is_break()) {
            self.waiting = None;
        }
    }
}
