//! The hot path: a small content that lies whole in the input.
//!
//! Enters: bytes.  Leaves: a `Publish` (server) or `Deliver` (client), or nothing and the input untouched.

use super::{EndpointRole, HandshakePhase, Inbound, PartialFrame};
use crate::{Body, Event, assembly::ContentMethod, limits::WAITED_HEADER_BYTES_MAX};
use wire::{
    ChannelNumber, RawProperties,
    frame::{FRAME_BODY, FRAME_END, FRAME_HEADER, FRAME_METHOD},
    method::basic,
};

/// Takes the first `N` bytes.
#[inline(always)]
fn array<'a, const N: usize>(from: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (first, rest) = from.split_first_chunk()?;
    *from = rest;
    Some(first)
}

/// Takes the first `n` bytes.
#[inline(always)]
fn bytes<'a>(from: &mut &'a [u8], n: usize) -> Option<&'a [u8]> {
    let (first, rest) = from.split_at_checked(n)?;
    *from = rest;
    Some(first)
}

impl Inbound {
    #[inline(always)]
    pub(super) fn quick<'a>(&self, input: &mut &'a [u8]) -> Option<Event<'a>> {
        if self.phase != HandshakePhase::Running || self.mid != PartialFrame::No {
            return None;
        }
        let method = match self.role {
            EndpointRole::Server(_) => ContentMethod::Publish,
            EndpointRole::Client => ContentMethod::Deliver,
        };
        let mut rest = *input;
        // One method frame, …
        let &[FRAME_METHOD, channel_0, channel_1, s0, s1, s2, s3, 0, 60, 0, method_id] = array(&mut rest)? else {
            return None;
        };
        if u16::from(method_id) != method.id().1 {
            return None;
        }
        let channel = ChannelNumber::from_be_bytes([channel_0, channel_1]);
        let method_bytes = u32::from_be_bytes([s0, s1, s2, s3]);
        if method_bytes > self.whole_payload_bytes_max || !self.channels.is_free_for_content(channel) {
            return None;
        }
        let arguments = bytes(&mut rest, (method_bytes as usize).checked_sub(4)?)?;
        // … one header frame, …
        let &[FRAME_END, FRAME_HEADER, same_0, same_1, s0, s1, s2, s3, 0, 60, 0, 0] = array(&mut rest)? else {
            return None;
        };
        let header_bytes = u32::from_be_bytes([s0, s1, s2, s3]);
        if [same_0, same_1] != [channel_0, channel_1]
            || header_bytes > WAITED_HEADER_BYTES_MAX.min(self.whole_payload_bytes_max)
        {
            return None;
        }
        let body_bytes = u64::from_be_bytes(*array(&mut rest)?);
        if body_bytes >= self.lending.large_body_bytes as u64 || body_bytes > self.limits.message_bytes_max {
            return None;
        }
        let properties = bytes(&mut rest, (header_bytes as usize).checked_sub(12)?)?;
        // … and one body frame.
        let body: &[u8] = if body_bytes == 0 {
            let &[FRAME_END] = array(&mut rest)? else { return None };
            &[]
        } else {
            let &[FRAME_END, FRAME_BODY, same_0, same_1, s0, s1, s2, s3] = array(&mut rest)? else { return None };
            let frame_bytes = u32::from_be_bytes([s0, s1, s2, s3]);
            if [same_0, same_1] != [channel_0, channel_1]
                || u64::from(frame_bytes) != body_bytes
                || frame_bytes > self.payload_bytes_max
            {
                return None;
            }
            let body = bytes(&mut rest, frame_bytes as usize)?;
            let &[FRAME_END] = array(&mut rest)? else { return None };
            body
        };
        let properties = RawProperties::new(properties);
        if !is_plain(properties) && properties.validate().is_err() {
            return None;
        }
        let body = Body::Small(body);
        let event = match method {
            ContentMethod::Publish => publish(channel, arguments, properties, body)?,
            _ => deliver(channel, arguments, properties, body)?,
        };
        *input = rest;
        Some(event)
    }
}

/// Whether no property is set but perhaps the delivery mode: valid at a glance.
#[inline(always)]
fn is_plain(properties: RawProperties<'_>) -> bool {
    matches!(properties.as_bytes(), [0, 0] | [0x10, 0, _])
}

#[inline(always)]
fn publish<'a>(
    channel: ChannelNumber,
    arguments: &'a [u8],
    properties: RawProperties<'a>,
    body: Body<'a>,
) -> Option<Event<'a>> {
    let basic::Publish { exchange, routing_key, mandatory, immediate } = basic::Publish::decode(arguments).ok()?;
    let (exchange, routing_key) = (exchange.as_bytes(), routing_key.as_bytes());
    Some(Event::Publish { channel, exchange, routing_key, mandatory, immediate, properties, body })
}

#[inline(always)]
fn deliver<'a>(
    channel: ChannelNumber,
    arguments: &'a [u8],
    properties: RawProperties<'a>,
    body: Body<'a>,
) -> Option<Event<'a>> {
    ContentMethod::Deliver.event(channel, arguments, properties, body).ok()
}
