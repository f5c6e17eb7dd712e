//! Contents: method, header and body frames put together, on each channel by itself.
//!
//! Enters: content frames.  Leaves: a whole content's event.
//! Owns:   the faults of contents (RabbitMQ's command assembler).

use super::{EndpointRole, HandshakePhase, Inbound, ParseStep, PartialFrame};
use crate::{
    Body, ContentDefect, Event, ProtocolFault,
    assembly::{ContentAssembly, ContentMethod},
    channels::ChannelState,
    fault::numbers,
    limits::{BODY_BYTES_MAX, HEADER_FIXED_BYTES, WAITED_HEADER_BYTES_MAX},
    passed_over::UNKNOWN_BYTES,
};
use slab::Pool;
use wire::{
    ChannelNumber, RawProperties, ReplyCode,
    frame::{FRAME_BODY, FRAME_HEAD_BYTES, FRAME_HEADER, FRAME_OVERHEAD_BYTES, FrameHead, split_head},
    method::basic,
};

/// The bytes of the body that a header announces, if the header is long enough to.
fn announced_bytes(payload: &[u8]) -> Option<u64> {
    let &[_, _, _, _, s0, s1, s2, s3, s4, s5, s6, s7] = payload.first_chunk::<HEADER_FIXED_BYTES>()?;
    Some(u64::from_be_bytes([s0, s1, s2, s3, s4, s5, s6, s7]))
}

/// What a header frame says.
struct HeaderFrame<'a> {
    body_bytes: usize,
    properties: RawProperties<'a>,
}

impl Inbound {
    /// A method that content follows, at the start of the input.
    pub(super) fn content<'a>(
        &mut self,
        method: ContentMethod,
        head: FrameHead,
        arguments: &'a [u8],
        input: &mut &'a [u8],
    ) -> Result<ParseStep<'a>, ProtocolFault> {
        let channel = head.channel;
        let malformed = |session: &Self| {
            let text = format!("cannot decode {}", numbers(arguments));
            session.fault(ReplyCode::FrameError, channel, method.id(), &text)
        };
        // Whatever its content will be, the method must be sound.
        method.event(channel, arguments, RawProperties::EMPTY, Body::Small(&[])).map_err(|_| malformed(self))?;
        let method_bytes = head.payload_bytes as usize + FRAME_OVERHEAD_BYTES;
        let mut rest = &input[method_bytes..];
        let Some(next) = split_head(rest) else { return Ok(ParseStep::More) };
        let waited_bytes_max = WAITED_HEADER_BYTES_MAX.min(self.whole_payload_bytes_max);
        let waited = next.kind == FRAME_HEADER && next.payload_bytes <= waited_bytes_max;
        if !waited || next.channel != channel {
            self.begin(channel, method, arguments, method_bytes);
            *input = rest;
            return Ok(self.begun(channel, method, arguments));
        }
        self.check_size(next)?;
        let end = FRAME_HEAD_BYTES + next.payload_bytes as usize;
        let Some(&end_byte) = rest.get(end) else { return Ok(ParseStep::More) };
        let payload = &rest[FRAME_HEAD_BYTES..end];
        self.check_end(next, payload, end_byte)?;
        rest = &rest[end + 1..];
        let header = match self.header(next, payload, method) {
            Ok(header) => header,
            Err(fault) => {
                *input = rest;
                return self.pass_over_defect(channel, method, payload, fault);
            }
        };
        if header.body_bytes < self.lending.large_body_bytes {
            let body = match split_head(rest) {
                _ if header.body_bytes == 0 => Some(&rest[..0]),
                None => return Ok(ParseStep::More),
                Some(next)
                    if next.kind == FRAME_BODY
                        && next.channel == channel
                        && next.payload_bytes as usize == header.body_bytes
                        && self.check_size(next).is_ok() =>
                {
                    let end = FRAME_HEAD_BYTES + header.body_bytes;
                    let Some(&end_byte) = rest.get(end) else { return Ok(ParseStep::More) };
                    let body = &rest[FRAME_HEAD_BYTES..end];
                    self.check_end(next, body, end_byte)?;
                    rest = &rest[end + 1..];
                    Some(body)
                }
                Some(_) => None,
            };
            if let Some(body) = body {
                self.check_side(channel, method)?;
                let event = method.event(channel, arguments, header.properties, Body::Small(body));
                *input = rest;
                return event.map(ParseStep::Event).map_err(|_| malformed(self));
            }
        }
        let heads_bytes = input.len() - rest.len();
        *input = rest;
        self.begin(channel, method, arguments, method_bytes);
        self.begin_body(channel, &header, heads_bytes - method_bytes);
        Ok(self.begun(channel, method, arguments))
    }

    /// What the owner learns of a content that has begun.
    fn begun<'a>(&self, channel: ChannelNumber, method: ContentMethod, arguments: &'a [u8]) -> ParseStep<'a> {
        match (&self.role, method, basic::Publish::decode(arguments)) {
            (EndpointRole::Server(_), ContentMethod::Publish, Ok(publish)) => {
                ParseStep::Event(Event::PublishBegun { channel, exchange: publish.exchange.as_bytes() })
            }
            _ => ParseStep::Taken,
        }
    }

    fn begin(&mut self, channel: ChannelNumber, method: ContentMethod, arguments: &[u8], frame_bytes: usize) {
        let assembly = ContentAssembly::begin(self.spare.take(), method, arguments, frame_bytes);
        if let Some(channel) = self.channels.get_mut(channel) {
            channel.assembly = Some(assembly);
        }
    }

    fn begin_body(&mut self, channel: ChannelNumber, header: &HeaderFrame<'_>, frame_bytes: usize) {
        if header.body_bytes >= self.lending.large_body_bytes {
            self.streaming = Some(channel);
        }
        if let Some(assembly) = self.channels.get_mut(channel).and_then(|channel| channel.assembly.as_deref_mut()) {
            assembly.header(header.properties, header.body_bytes, frame_bytes);
        }
    }

    /// Checks the payload of a header frame.
    fn header<'a>(
        &self,
        head: FrameHead,
        payload: &'a [u8],
        method: ContentMethod,
    ) -> Result<HeaderFrame<'a>, ProtocolFault> {
        let &[class_0, class_1, weight_0, weight_1, s0, s1, s2, s3, s4, s5, s6, s7, ref properties @ ..] = payload
        else {
            return Err(self.frame_fault(head, payload, "unknown_frame"));
        };
        debug_assert_eq!(payload.len() - properties.len(), HEADER_FIXED_BYTES);
        if [weight_0, weight_1] != [0, 0] {
            return Err(self.no_header(head.channel, method));
        }
        let unexpected = |text: &str| self.fault(ReplyCode::UnexpectedFrame, head.channel, method.id(), text);
        let class_id = u16::from_be_bytes([class_0, class_1]);
        if class_id != method.id().0 {
            let expected = method.id().0;
            return Err(unexpected(&format!(
                "expected content header for class {expected}, got one for class {class_id} instead"
            )));
        }
        let announced = u64::from_be_bytes([s0, s1, s2, s3, s4, s5, s6, s7]);
        if announced > BODY_BYTES_MAX {
            let text = format!("content body size {announced} exceeds maximum allowed size {BODY_BYTES_MAX}");
            return Err(self.fault(ReplyCode::FrameError, head.channel, method.id(), &text));
        }
        if announced > self.limits.message_bytes_max {
            let limit = self.limits.message_bytes_max;
            let configured = if limit == BODY_BYTES_MAX { "" } else { "configured " };
            let text = format!("message size {announced} is larger than {configured}max size {limit}");
            return Err(self.fault(ReplyCode::PreconditionFailed, head.channel, method.id(), &text));
        }
        let properties = RawProperties::new(properties);
        if let Err(error) = properties.validate() {
            let text = format!("malformed properties of a content header: {error}");
            return Err(self.fault(ReplyCode::SyntaxError, head.channel, method.id(), &text));
        }
        // Bounded above, so it fits any address space.
        Ok(HeaderFrame { body_bytes: announced as usize, properties })
    }

    /// Whether the content on a channel awaits its header, and may be passed over for a defect of it.
    #[cold]
    fn may_pass_over(&self, channel: ChannelNumber) -> bool {
        let awaits_header = |assembly: &ContentAssembly| assembly.missing().is_none();
        self.limits.passes_over_contents
            && self.phase == HandshakePhase::Running
            && self
                .channels
                .get(channel)
                .is_some_and(|channel| !channel.state.drops() && channel.assembly.as_deref().is_some_and(awaits_header))
    }

    /// Whether a header frame that is longer than frames may be is passed over with its content.
    #[cold]
    pub(super) fn may_pass_over_long(&self, head: FrameHead) -> bool {
        head.payload_bytes > self.whole_payload_bytes_max && self.may_pass_over(head.channel)
    }

    /// Whether a header frame that is shorter than headers are is passed over with its content.
    #[cold]
    pub(super) fn may_pass_over_short(&self, head: FrameHead) -> bool {
        self.may_pass_over(head.channel)
    }

    /// Passes over a header frame that is too long, and the body behind it.
    #[cold]
    pub(super) fn pass_over_header<'a>(
        &mut self,
        head: FrameHead,
        input: &mut &'a [u8],
    ) -> Result<ParseStep<'a>, ProtocolFault> {
        let payload = &input[FRAME_HEAD_BYTES..];
        let Some(bytes) = announced_bytes(payload) else { return Ok(ParseStep::More) };
        let assembly = self.channels.get(head.channel).and_then(|channel| channel.assembly.as_deref());
        let Some(method) = assembly.map(|assembly| assembly.method) else { return Err(self.no_method(head.channel)) };
        *input = payload;
        self.mid = PartialFrame::Skip { left: head.payload_bytes as usize };
        self.pass_over(head.channel, method, bytes, ContentDefect::LargeProperties)
    }

    /// A header cannot be accepted: its content is passed over, if contents may be, and the connection goes on.
    #[cold]
    fn pass_over_defect<'a>(
        &mut self,
        channel: ChannelNumber,
        method: ContentMethod,
        payload: &[u8],
        fault: ProtocolFault,
    ) -> Result<ParseStep<'a>, ProtocolFault> {
        if !self.limits.passes_over_contents {
            return Err(fault);
        }
        match announced_bytes(payload) {
            Some(bytes) if bytes > self.limits.message_bytes_max => {
                self.pass_over(channel, method, bytes, ContentDefect::LargeBody(bytes))
            }
            bytes => {
                let defect = ContentDefect::MalformedHeader(fault.text.into());
                self.pass_over(channel, method, bytes.unwrap_or(UNKNOWN_BYTES), defect)
            }
        }
    }

    /// What is left of a content is dropped as it comes. The owner hears of a delivery or a publish, which it counts.
    #[cold]
    fn pass_over<'a>(
        &mut self,
        channel: ChannelNumber,
        method: ContentMethod,
        body_bytes: u64,
        defect: ContentDefect,
    ) -> Result<ParseStep<'a>, ProtocolFault> {
        self.check_side(channel, method)?;
        if let Some(entry) = self.channels.get_mut(channel) {
            entry.assembly = None;
            entry.state = if body_bytes > 0 { ChannelState::PassingOver } else { entry.state };
        }
        self.passed_over.begin(channel, body_bytes);
        Ok(match method {
            ContentMethod::Publish | ContentMethod::Deliver => ParseStep::Event(Event::PassedOver { channel, defect }),
            ContentMethod::GetOk | ContentMethod::Return => ParseStep::Taken,
        })
    }

    /// Nothing more comes of the content that is passed over on a channel.
    #[cold]
    pub(super) fn end_passing_over(&mut self, channel: ChannelNumber) {
        self.passed_over.end(channel);
        if let Some(entry) = self.channels.get_mut(channel) {
            entry.state = ChannelState::Open;
        }
    }

    /// Takes a body frame of a content that is passed over.
    #[cold]
    fn pass_over_body(&mut self, channel: ChannelNumber, frame_bytes: usize) {
        if self.passed_over.take(channel, frame_bytes) {
            self.end_passing_over(channel);
        }
    }

    fn no_header(&self, channel: ChannelNumber, method: ContentMethod) -> ProtocolFault {
        let class_id = method.id().0;
        let text = format!("expected content header for class {class_id}, got non content header frame instead");
        self.fault(ReplyCode::UnexpectedFrame, channel, method.id(), &text)
    }

    fn no_method(&self, channel: ChannelNumber) -> ProtocolFault {
        let text = "expected method frame, got non method frame instead";
        self.fault(ReplyCode::UnexpectedFrame, channel, (0, 0), text)
    }

    /// What a frame that is not the next of the content on its channel breaks.
    pub(super) fn interrupted(&self, channel: ChannelNumber, assembly: &ContentAssembly) -> ProtocolFault {
        if assembly.missing().is_none() {
            return self.no_header(channel, assembly.method);
        }
        let text = "expected content body, got non content body frame instead";
        self.fault(ReplyCode::UnexpectedFrame, channel, assembly.method.id(), text)
    }

    /// A header frame that did not come right behind its method.
    pub(super) fn header_frame<'a>(
        &mut self,
        head: FrameHead,
        payload: &'a [u8],
        input: &mut &'a [u8],
    ) -> Result<ParseStep<'a>, ProtocolFault> {
        let frame_bytes = payload.len() + FRAME_OVERHEAD_BYTES;
        let method = match self.channels.get(head.channel) {
            Some(channel) if channel.state.drops() => {
                *input = &input[frame_bytes..];
                return Ok(ParseStep::Taken);
            }
            Some(channel) => match channel.assembly.as_deref() {
                Some(assembly) if assembly.missing().is_none() => assembly.method,
                Some(assembly) => return Err(self.interrupted(head.channel, assembly)),
                None => return Err(self.no_method(head.channel)),
            },
            None => return Err(self.no_method(head.channel)),
        };
        *input = &input[frame_bytes..];
        let header = match self.header(head, payload, method) {
            Ok(header) => header,
            Err(fault) => return self.pass_over_defect(head.channel, method, payload, fault),
        };
        self.begin_body(head.channel, &header, frame_bytes);
        Ok(if header.body_bytes == 0 { ParseStep::Complete(head.channel) } else { ParseStep::Taken })
    }

    /// The head of a body frame, which is taken; the payload follows as it comes.
    pub(super) fn body_frame<'a>(
        &mut self,
        head: FrameHead,
        input: &mut &'a [u8],
    ) -> Result<ParseStep<'a>, ProtocolFault> {
        let bytes = head.payload_bytes as usize;
        let rest = &input[FRAME_HEAD_BYTES..];
        let state = self.channels.get(head.channel).map(|channel| channel.state);
        let passes_over = state == Some(ChannelState::PassingOver);
        if passes_over {
            self.pass_over_body(head.channel, bytes);
        }
        if passes_over || self.phase == HandshakePhase::Closing || state.is_some_and(ChannelState::drops) {
            *input = rest;
            self.mid = PartialFrame::Skip { left: bytes };
            return Ok(ParseStep::Taken);
        }
        let assembly = self.channels.get(head.channel).and_then(|channel| channel.assembly.as_deref());
        let Some(assembly) = assembly else { return Err(self.no_method(head.channel)) };
        let Some(missing) = assembly.missing() else { return Err(self.interrupted(head.channel, assembly)) };
        if bytes > missing {
            let text = "content body frame exceeds remaining content size";
            return Err(self.fault(ReplyCode::FrameError, head.channel, assembly.method.id(), text));
        }
        self.mid = PartialFrame::Body { channel: head.channel, left: bytes, start: assembly.filled() };
        if assembly.body_bytes() >= self.lending.large_body_bytes {
            self.streaming = Some(head.channel);
        }
        *input = rest;
        Ok(ParseStep::Taken)
    }

    /// The payload of a body frame, as far as it has come and was not received in place.
    pub(super) fn rest_of_body_frame<'a>(
        &mut self,
        channel: ChannelNumber,
        mut left: usize,
        start: usize,
        input: &mut &'a [u8],
        pool: &Pool,
    ) -> Result<ParseStep<'a>, ProtocolFault> {
        if self.lending.is_lent() {
            return Ok(ParseStep::More);
        }
        let step_bytes = self.step_bytes(channel);
        let assembly = self.channels.get_mut(channel).and_then(|channel| channel.assembly.as_deref_mut());
        let assembly = assembly.expect("a body frame has its content");
        while left > 0 {
            self.copied_bytes += assembly.grow(pool, step_bytes, left) as u64;
            let room = assembly.free_mut();
            let bytes = left.min(input.len()).min(room.len());
            if bytes == 0 {
                break;
            }
            let (taken, rest) = input.split_at(bytes);
            room[..bytes].copy_from_slice(taken);
            self.copied_bytes += bytes as u64;
            *input = rest;
            assembly.advance(bytes);
            left -= bytes;
        }
        self.mid = PartialFrame::Body { channel, left, start };
        let (0, Some((&end, rest))) = (left, input.split_first()) else { return Ok(ParseStep::More) };
        let complete = assembly.missing() == Some(0);
        if end != wire::frame::FRAME_END {
            let payload = &assembly.received()[start..];
            let head = FrameHead { kind: FRAME_BODY, channel, payload_bytes: payload.len() as u32 };
            let snippet = payload.get(..17).unwrap_or(payload).to_vec();
            self.check_end(head, &snippet, end)?;
        }
        *input = rest;
        self.mid = PartialFrame::No;
        Ok(if complete { ParseStep::Complete(channel) } else { ParseStep::Taken })
    }

    /// Hands out the whole content on a channel.
    pub(super) fn complete(&mut self, channel: ChannelNumber) -> Result<Event<'_>, ProtocolFault> {
        let assembly = self.channels.get_mut(channel).and_then(|channel| channel.assembly.take());
        let assembly = assembly.expect("a complete content is on its channel");
        if self.streaming == Some(channel) {
            self.streaming = None;
        }
        self.lending.ahead.take_if(|ahead| *ahead == channel);
        let large = assembly.body_bytes() >= self.lending.large_body_bytes;
        self.repeat_heads_bytes = if large { assembly.heads_bytes + FRAME_HEAD_BYTES } else { 0 };
        self.left_bytes = 0;
        if let Err(fault) = self.check_side(channel, assembly.method) {
            self.abandon(&fault);
            return Err(fault);
        }
        let event = self.spare.insert(assembly).event(channel);
        Ok(event.expect("the arguments were decoded when the content began"))
    }
}
