//! The shortest path: a delivery whose heads are those of the one before it.
//!
//! Enters: small deliveries that came whole.  Leaves: the next ones with the same heads, told by comparing bytes.
//! Owns:   a copy of the heads last seen, and for how many deliveries it is not worth another look.
//!
//! A consumer gets thousands of deliveries in a row that differ in delivery tag and body alone. All else was decoded and
//! validated with the first of them.

use std::ops::Range;

use super::{EndpointRole, HandshakePhase, Inbound, PartialFrame};
use crate::{Body, Event};
use wire::{
    ChannelNumber, DeliveryTag, RawProperties,
    frame::{FRAME_BODY, FRAME_END, FRAME_HEAD_BYTES, FRAME_HEADER, FRAME_METHOD, FRAME_OVERHEAD_BYTES, split_head},
    method::{METHOD_ID_BYTES, basic},
};

const TAG_BYTES: usize = 8;
/// Deliveries that pass without another look, at most, where heads keep changing.
const PAUSE_MAX: u32 = 64;

/// What the next delivery probably looks like. Nothing is known at first.
#[derive(Debug, Default)]
pub struct DeliveryTemplate {
    /// Method frame, header frame, and the head of the body's frame if there is a body.
    heads: Vec<u8>,
    /// Of each of these bytes the bits that must be as they were: all, and none of the delivery tag's.
    mask: Vec<u8>,
    /// All of a delivery; zero if nothing is known.
    whole_bytes: usize,
    channel: ChannelNumber,
    tag_at: usize,
    redelivered: bool,
    consumer_tag: Range<usize>,
    exchange: Range<usize>,
    routing_key: Range<usize>,
    properties: Range<usize>,
    /// Deliveries to let pass before the next look, and how many it will be after the next disappointment.
    pause: u32,
    pause_next: u32,
    /// Sizes of heads and of everything, of the last delivery that was looked at.
    shape: (usize, usize),
}

/// What all deliveries with the same heads have in common.
#[derive(Clone, Copy, Debug)]
pub struct RepeatedDelivery<'a> {
    pub channel: ChannelNumber,
    pub consumer_tag: &'a [u8],
    /// Whether they were delivered before.
    pub redelivered: bool,
    /// Name of the exchange.
    pub exchange: &'a [u8],
    pub routing_key: &'a [u8],
    /// Flags and values in wire form.
    pub properties: RawProperties<'a>,
}

impl Inbound {
    /// Whether a delivery may be taken now for its likeness to `repeat` alone. It stays so as long as `next` is not called.
    #[inline]
    pub fn may_repeat(&self, repeat: &DeliveryTemplate) -> bool {
        repeat.whole_bytes > 0
            && self.phase == HandshakePhase::Running
            && self.mid == PartialFrame::No
            && matches!(self.role, EndpointRole::Client)
            && self.channels.is_free_for_content(repeat.channel)
    }

    /// Deliveries were taken for their likeness.
    #[inline]
    pub fn repeated(&mut self) {
        self.repeat_heads_bytes = 0;
    }

    /// Whether the next byte begins a frame.
    #[inline]
    pub fn is_between_frames(&self) -> bool {
        self.mid == PartialFrame::No
    }
}

impl DeliveryTemplate {
    /// What the deliveries that `next` finds have in common.
    #[inline]
    pub fn alike(&self) -> RepeatedDelivery<'_> {
        let part = |range: &Range<usize>| self.heads.get(range.clone()).unwrap_or_default();
        RepeatedDelivery {
            channel: self.channel,
            consumer_tag: part(&self.consumer_tag),
            redelivered: self.redelivered,
            exchange: part(&self.exchange),
            routing_key: part(&self.routing_key),
            properties: RawProperties::new(part(&self.properties)),
        }
    }

    /// Takes the next delivery if it is like the last: its tag and body. Only after `Inbound::may_repeat`.
    #[inline(always)]
    pub fn next<'a>(&self, input: &mut &'a [u8]) -> Option<(DeliveryTag, &'a [u8])> {
        let (whole, rest) = input.split_at_checked(self.whole_bytes)?;
        let (heads, tail) = whole.split_at_checked(self.heads.len())?;
        let tag = heads.get(self.tag_at..)?.first_chunk::<TAG_BYTES>()?;
        let body = match tail {
            [] => tail,
            [body @ .., FRAME_END] => body,
            _ => return None,
        };
        if !same(heads, &self.heads, &self.mask) {
            return None;
        }
        *input = rest;
        Some((DeliveryTag(u64::from_be_bytes(*tag)), body))
    }

    /// Deliveries were found.
    #[inline]
    pub fn hit(&mut self) {
        self.pause_next = 0;
    }

    /// A delivery came that was not found: `taken` is what the session took for it, from the start of a frame. If the one
    /// before it was of the same shape, the next may be like it.
    #[inline]
    pub fn learn(&mut self, taken: &[u8], event: &Event<'_>) {
        if self.pause > 0 {
            self.pause -= 1;
            return;
        }
        self.look(taken, event);
    }

    #[inline(never)]
    fn look(&mut self, taken: &[u8], event: &Event<'_>) {
        if self.whole_bytes > 0 {
            // What was expected did not come. Where that happens again and again, looking costs more than it saves.
            self.whole_bytes = 0;
            self.pause = self.pause_next;
            self.pause_next = (self.pause_next * 2 + 1).min(PAUSE_MAX);
            if self.pause > 0 {
                return;
            }
        }
        // A large body is received in memory of its own, and never taken here.
        let &Event::Deliver {
            channel,
            redelivered,
            consumer_tag,
            exchange,
            routing_key,
            properties,
            body: Body::Small(_),
            ..
        } = event
        else {
            return;
        };
        let Some(heads_bytes) = heads_bytes(taken, channel) else { return };
        let shape = (heads_bytes, taken.len());
        if std::mem::replace(&mut self.shape, shape) != shape {
            return;
        }
        self.heads.clear();
        self.heads.extend_from_slice(&taken[..heads_bytes]);
        self.mask.clear();
        self.mask.resize(heads_bytes, u8::MAX);
        // A length stands before each string.
        let string = |at: usize, bytes: &[u8]| at + 1..at + 1 + bytes.len();
        self.consumer_tag = string(FRAME_HEAD_BYTES + METHOD_ID_BYTES, consumer_tag);
        self.tag_at = self.consumer_tag.end;
        self.mask[self.tag_at..self.tag_at + TAG_BYTES].fill(0);
        self.exchange = string(self.tag_at + TAG_BYTES + 1, exchange);
        self.routing_key = string(self.exchange.end, routing_key);
        // The end of the method's frame, then the header's head, class, weight and size.
        let properties_at = self.routing_key.end + 1 + FRAME_HEAD_BYTES + 12;
        self.properties = properties_at..properties_at + properties.as_bytes().len();
        (self.channel, self.redelivered) = (channel, redelivered);
        self.whole_bytes = taken.len();
    }
}

/// Whether two pieces of the same length agree in the bits of the mask. They are short, and nearly always do: without a
/// call and without a way out in the middle this takes half of what comparing slices does.
#[inline(always)]
fn same(one: &[u8], other: &[u8], mask: &[u8]) -> bool {
    const AT_ONCE: usize = size_of::<u128>();
    let differ = |one: &[u8; AT_ONCE], other: &[u8; AT_ONCE], mask: &[u8; AT_ONCE]| {
        (u128::from_ne_bytes(*one) ^ u128::from_ne_bytes(*other)) & u128::from_ne_bytes(*mask)
    };
    let parts = one.as_chunks().0.iter().zip(other.as_chunks().0).zip(mask.as_chunks().0);
    let differing = parts.fold(0, |all, ((one, other), mask)| all | differ(one, other, mask));
    // The end that makes no whole part, with some of the part before it. No head is shorter than a part.
    match (one.last_chunk(), other.last_chunk(), mask.last_chunk()) {
        (Some(one), Some(other), Some(mask)) => differing | differ(one, other, mask) == 0,
        _ => false,
    }
}

/// Bytes of the heads of a delivery that is wholly in `taken` and nothing else is: method, header and body frame, all on its
/// own channel (contents of several channels may come mixed).
fn heads_bytes(taken: &[u8], channel: ChannelNumber) -> Option<usize> {
    let frame = |at: usize, kind: u8| {
        let head = split_head(taken.get(at..)?).filter(|head| (head.kind, head.channel) == (kind, channel))?;
        Some(at + FRAME_OVERHEAD_BYTES + head.payload_bytes as usize)
    };
    let header_at = frame(0, FRAME_METHOD)?;
    let [class_0, class_1] = basic::Deliver::ID.0.to_be_bytes();
    let [method_0, method_1] = basic::Deliver::ID.1.to_be_bytes();
    if !taken[FRAME_HEAD_BYTES..].starts_with(&[class_0, class_1, method_0, method_1]) {
        return None;
    }
    let body_at = frame(header_at, FRAME_HEADER)?;
    if body_at == taken.len() {
        return Some(body_at);
    }
    (frame(body_at, FRAME_BODY)? == taken.len()).then_some(body_at + FRAME_HEAD_BYTES)
}
