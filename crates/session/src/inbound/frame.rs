//! Frames: taken apart, and sorted by what they may mean now.
//!
//! Enters: input at a frame head, or within a frame.  Leaves: steps.
//! Owns:   the faults of framing (RabbitMQ's reader).

use super::{HandshakePhase, Inbound, ParseStep, PartialFrame};
use crate::{
    FaultScope, Outbound, ProtocolFault,
    fault::snippet,
    limits::{FRAME_FUDGE_BYTES, HEADER_FIXED_BYTES},
};
use slab::Pool;
use wire::{
    ChannelNumber, Method, PROTOCOL_HEADER, ReplyCode,
    frame::{
        FRAME_BODY, FRAME_END, FRAME_HEAD_BYTES, FRAME_HEADER, FRAME_HEARTBEAT, FRAME_METHOD, FrameHead, split_head,
    },
};

/// A frame that has not been taken.
#[derive(Clone, Copy, Debug)]
pub struct PeekedFrame<'a> {
    pub channel: ChannelNumber,
    /// Bytes of its payload, come or not.
    pub payload_bytes: usize,
    /// The method, if it is one and has come whole.
    pub method: Option<Method<'a>>,
}

impl Inbound {
    /// A fault on channel 0 or before the connection runs reaches as far as RabbitMQ lets it: until the client is
    /// trusted, it is not answered.
    pub(super) fn fault(
        &self,
        code: ReplyCode,
        channel: ChannelNumber,
        method: (u16, u16),
        explanation: &str,
    ) -> ProtocolFault {
        let fault = ProtocolFault::new(code, channel, method, explanation);
        let scope = match self.phase {
            HandshakePhase::Header | HandshakePhase::Starting | HandshakePhase::Securing => FaultScope::Link,
            HandshakePhase::Tuning if code != ReplyCode::NotAllowed => FaultScope::Link,
            _ => fault.scope,
        };
        ProtocolFault { scope, ..fault }
    }

    pub(super) fn frame_fault(&self, head: FrameHead, payload: &[u8], what: &str) -> ProtocolFault {
        let text = format!("type {}, {}: {what}", head.kind, snippet(payload));
        self.fault(ReplyCode::FrameError, head.channel, (0, 0), &text)
    }

    pub(super) fn unexpected_frame(&self, head: FrameHead, payload: &[u8]) -> ProtocolFault {
        let text = format!("type {}, {}", head.kind, snippet(payload));
        self.fault(ReplyCode::UnexpectedFrame, head.channel, (0, 0), &text)
    }

    /// Whether the payload of such a frame is taken as it comes; all others are kept until they are whole.
    #[inline]
    fn comes_in_parts(&self, head: FrameHead) -> bool {
        head.kind == FRAME_BODY
            && head.channel != ChannelNumber::CONNECTION
            && matches!(self.phase, HandshakePhase::Running | HandshakePhase::Closing)
    }

    /// Whether the head is of a frame that may come at all. Body frames may be a little too long.
    #[inline]
    pub(super) fn check_size(&self, head: FrameHead) -> Result<(), ProtocolFault> {
        let bytes_max = if self.comes_in_parts(head) { self.payload_bytes_max } else { self.whole_payload_bytes_max };
        let fudge = if head.kind == FRAME_BODY { FRAME_FUDGE_BYTES } else { 0 };
        if head.payload_bytes <= bytes_max + fudge {
            return Ok(());
        }
        Err(self.frame_fault(head, &[], &format!("{{frame_too_large,{},{bytes_max}}}", head.payload_bytes)))
    }

    pub(super) fn check_end(&self, head: FrameHead, payload: &[u8], end: u8) -> Result<(), ProtocolFault> {
        if end == FRAME_END {
            return Ok(());
        }
        Err(self.frame_fault(head, payload, &format!("{{invalid_frame_end_marker,{end}}}")))
    }

    /// The frame that comes next, unless a fault will be found in it or its head has not come. Nothing is taken.
    pub fn peek<'a>(&self, input: &'a [u8]) -> Option<PeekedFrame<'a>> {
        if self.phase != HandshakePhase::Running || self.mid != PartialFrame::No {
            return None;
        }
        let head = split_head(input)?;
        self.check_size(head).ok()?;
        let end = FRAME_HEAD_BYTES + head.payload_bytes as usize;
        let is_method = head.kind == FRAME_METHOD && input.get(end) == Some(&FRAME_END);
        let method = is_method.then(|| self.decode(head.channel, &input[FRAME_HEAD_BYTES..end]).ok()).flatten();
        Some(PeekedFrame { channel: head.channel, payload_bytes: head.payload_bytes as usize, method })
    }

    /// The client's first eight bytes (AMQP 0-9-1 §4.2.2). That of AMQP 0-9 counts as ours, as in RabbitMQ.
    pub(super) fn protocol_header<'a>(
        &mut self,
        input: &mut &'a [u8],
        out: &mut Outbound,
        pool: &Pool,
    ) -> Result<ParseStep<'a>, ProtocolFault> {
        let Some((first, rest)) = input.split_first_chunk::<8>() else { return Ok(ParseStep::More) };
        let super::EndpointRole::Server(greeting) = &self.role else {
            unreachable!("only a server waits for a protocol header");
        };
        if *first == PROTOCOL_HEADER || first == b"AMQP\x01\x01\x00\x09" {
            out.frames(pool, greeting.frame());
            self.phase = HandshakePhase::Starting;
            *input = rest;
            return Ok(ParseStep::Taken);
        }
        out.protocol_header(pool);
        let tls = if first.starts_with(&[22, 3]) { " (this is TLS, on a port without it)" } else { "" };
        let text = format!("client did not start with the protocol header of AMQP 0-9-1: {}{tls}", snippet(first));
        Err(ProtocolFault::link(ReplyCode::NotImplemented, &text))
    }

    /// A frame, from its head on.
    pub(super) fn frame<'a>(
        &mut self,
        input: &mut &'a [u8],
        out: &mut Outbound,
        pool: &Pool,
    ) -> Result<ParseStep<'a>, ProtocolFault> {
        let Some(head) = split_head(input) else { return Ok(ParseStep::More) };
        if let (HandshakePhase::Starting, super::EndpointRole::Client, Some(b"AMQP")) =
            (self.phase, &self.role, input.first_chunk())
        {
            // A protocol header is one byte longer than a frame's head.
            let Some(header) = input.first_chunk::<8>() else { return Ok(ParseStep::More) };
            let text = format!("the server speaks another protocol: {}", snippet(header));
            return Err(ProtocolFault::link(ReplyCode::NotImplemented, &text));
        }
        if head.kind == FRAME_HEADER && self.may_pass_over_long(head) {
            return self.pass_over_header(head, input);
        }
        self.check_size(head)?;
        let running = self.phase == HandshakePhase::Running;
        if self.comes_in_parts(head) {
            return self.body_frame(head, input);
        }
        // The bound on its size keeps this far from overflowing.
        let end = FRAME_HEAD_BYTES + head.payload_bytes as usize;
        let Some(&end_byte) = input.get(end) else { return Ok(ParseStep::More) };
        let payload = &input[FRAME_HEAD_BYTES..end];
        self.check_end(head, payload, end_byte)?;
        let well_formed = match head.kind {
            FRAME_METHOD => payload.len() >= 4,
            FRAME_HEADER => payload.len() >= HEADER_FIXED_BYTES || self.may_pass_over_short(head),
            FRAME_BODY => true,
            FRAME_HEARTBEAT => payload.is_empty(),
            _ => false,
        };
        if self.phase == HandshakePhase::Closing {
            // Only the end of the connection still matters.
            *input = &input[end + 1..];
            return if head.channel == ChannelNumber::CONNECTION && head.kind == FRAME_METHOD && well_formed {
                self.control(payload, out, pool)
            } else {
                Ok(ParseStep::Taken)
            };
        }
        if head.channel != ChannelNumber::CONNECTION && !running {
            return Err(self.unexpected_frame(head, payload));
        }
        if !well_formed {
            return Err(self.frame_fault(head, payload, "unknown_frame"));
        }
        match (head.channel, head.kind) {
            (ChannelNumber::CONNECTION, FRAME_HEARTBEAT) => {
                *input = &input[end + 1..];
                Ok(ParseStep::Taken)
            }
            (ChannelNumber::CONNECTION, FRAME_METHOD) => {
                *input = &input[end + 1..];
                self.control(payload, out, pool)
            }
            (ChannelNumber::CONNECTION, _) | (_, FRAME_HEARTBEAT) => Err(self.unexpected_frame(head, payload)),
            (_, FRAME_METHOD) => self.method(head, payload, input, out, pool),
            _ => self.header_frame(head, payload, input),
        }
    }

    /// The rest of a frame whose head is taken, as far as it has come.
    pub(super) fn rest_of_frame<'a>(
        &mut self,
        mid: PartialFrame,
        input: &mut &'a [u8],
        pool: &Pool,
    ) -> Result<ParseStep<'a>, ProtocolFault> {
        match mid {
            PartialFrame::No => Ok(ParseStep::Taken),
            PartialFrame::Skip { .. } if self.lending.is_lent() => Ok(ParseStep::More),
            PartialFrame::Skip { left } => {
                let (skipped, rest) = input.split_at(left.min(input.len()));
                *input = rest;
                let left = left - skipped.len();
                self.mid = PartialFrame::Skip { left };
                let Some((&end, rest)) = input.split_first() else { return Ok(ParseStep::More) };
                self.mid = PartialFrame::No;
                *input = rest;
                // A dropped frame is a body frame; what it said is gone.
                self.check_end(
                    FrameHead { kind: FRAME_BODY, channel: ChannelNumber::CONNECTION, payload_bytes: 0 },
                    &[],
                    end,
                )?;
                Ok(ParseStep::Taken)
            }
            PartialFrame::Body { channel, left, start } => self.rest_of_body_frame(channel, left, start, input, pool),
        }
    }
}
