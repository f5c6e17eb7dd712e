//! The receiving half: bytes in, events out.
//!
//! Enters: bytes of a peer.  Leaves: events, and answers that need no owner in the `Outbound`.
//! Owns:   the state of one connection and its channels, and contents that arrive in pieces.
//!
//! `fast_path.rs` is the hot path, `publish_run.rs` a server's shorter one and `repeat.rs` a client's; `frame.rs` takes frames apart; `content.rs` puts contents together; `control.rs` is
//! channel 0; `method.rs` the other channels, `text.rs` the names in methods; `command.rs` what the owner decides; `lending.rs` memory that a link fills
//! by itself.

mod command;
mod content;
mod control;
mod fast_path;
mod frame;
mod lending;
mod method;
mod publish_run;
mod repeat;
mod text;

pub use frame::PeekedFrame;
pub use repeat::{DeliveryTemplate, RepeatedDelivery};

use lending::BodyBufferLoan;
use publish_run::RunSearch;

use crate::{
    Capabilities, Event, FaultScope, Greeting, Outbound, ProtocolFault, SessionLimits,
    assembly::ContentAssembly,
    channels::{ChannelState, ChannelTable},
    limits::{CLIENT_GREETING_BYTES_MAX, CONTENT_ARGUMENTS_BYTES_MAX, LARGE_BODY_BYTES, WAITED_HEADER_BYTES_MAX},
    passed_over::PassedOver,
};
use slab::Pool;
use std::sync::Arc;
use wire::{
    ChannelNumber, Method,
    frame::{FRAME_BYTES_MIN, FRAME_HEAD_BYTES, FRAME_METHOD, FRAME_OVERHEAD_BYTES, split_head},
    method::METHOD_ID_BYTES,
};

/// Which end of the connection this is.
#[derive(Clone, Debug)]
enum EndpointRole {
    Server(Arc<Greeting>),
    Client,
}

/// Where a connection stands. The comments say what is awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HandshakePhase {
    /// Server: the protocol header.
    Header,
    /// Server: `start-ok`. Client: `start`.
    Starting,
    /// Server: the owner's word on the login, or `secure-ok`. Client: `secure` or `tune`.
    Securing,
    /// Server: `tune-ok`.
    Tuning,
    /// Server: `open`, then the owner's word on it. Client: `open-ok`.
    Opening,
    /// Anything.
    Running,
    /// The owner's `fail`: a fault was reported. What comes is dropped.
    Failed,
    /// `close-ok`: this side sent `close`. Everything else is dropped.
    Closing,
    /// Nothing: what comes is dropped unread.
    Deaf,
}

impl HandshakePhase {
    /// As RabbitMQ names it in error texts.
    const fn name(self) -> &'static str {
        match self {
            Self::Header => "pre_init",
            Self::Starting => "starting",
            Self::Securing => "securing",
            Self::Tuning => "tuning",
            Self::Opening => "opening",
            Self::Running => "running",
            Self::Failed | Self::Closing => "closing",
            Self::Deaf => "closed",
        }
    }
}

/// A frame of which the head is taken and the payload is still arriving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PartialFrame {
    /// None: a frame head is next.
    No,
    /// A body frame; `left` bytes of it are missing, then its end. It began at `start` of the body.
    Body { channel: ChannelNumber, left: usize, start: usize },
    /// A frame that is dropped.
    Skip { left: usize },
}

/// What a step came to. It borrows from the input alone.
enum ParseStep<'a> {
    /// More bytes are needed.
    More,
    /// Something was taken that the owner need not know.
    Taken,
    /// Something the owner must know.
    Event(Event<'a>),
    /// The content on this channel is complete.
    Complete(ChannelNumber),
}

/// The receiving half of a session.
#[derive(Debug)]
pub struct Inbound {
    role: EndpointRole,
    phase: HandshakePhase,
    mid: PartialFrame,
    owner_answers_close: bool,
    capabilities: Capabilities,
    /// Bytes that the payload of a body frame may have, and of one that is kept until it is whole.
    payload_bytes_max: u32,
    whole_payload_bytes_max: u32,
    limits: SessionLimits,
    /// What is settled: 0 is no limit.
    channel_max: u16,
    channels: ChannelTable,
    /// The last content that was put together: the event borrows its head; the next content takes its memory.
    spare: Option<Box<ContentAssembly>>,
    /// The channel whose large body is arriving.
    streaming: Option<ChannelNumber>,
    /// Bytes of the heads in front of the last large body, if nothing else came since.
    repeat_heads_bytes: usize,
    run_search: RunSearch,
    /// Bytes of input that were left when more were needed.
    left_bytes: usize,
    /// What is lent to the link, and from how many bytes on it may be.
    lending: BodyBufferLoan,
    /// Bytes of contents put together here that were copied on the way to their place.
    copied_bytes: u64,
    passed_over: PassedOver,
    /// Bytes of the frame of the last method on a channel.
    method_frame_bytes: u32,
}

impl Inbound {
    /// The server's end. It writes the greeting itself once the client's protocol header has come.
    pub fn server(limits: &SessionLimits, greeting: Arc<Greeting>) -> Self {
        Self::new(EndpointRole::Server(greeting), limits, HandshakePhase::Header, FRAME_BYTES_MIN)
    }

    /// Greets with other words, before the client's protocol header has come: what is offered may depend on the link.
    pub fn greet_with(&mut self, greeting: Arc<Greeting>) {
        assert!(matches!(self.role, EndpointRole::Server(_)), "a client greets nobody");
        self.role = EndpointRole::Server(greeting);
    }

    /// The client's end. The owner sends the protocol header: [`Outbound::protocol_header`].
    pub fn client(limits: &SessionLimits) -> Self {
        Self::new(EndpointRole::Client, limits, HandshakePhase::Starting, CLIENT_GREETING_BYTES_MAX)
    }

    fn new(role: EndpointRole, limits: &SessionLimits, phase: HandshakePhase, frame_bytes_max: u32) -> Self {
        let limits = limits.clamped();
        let mut inbound = Self {
            role,
            phase,
            mid: PartialFrame::No,
            owner_answers_close: limits.owner_answers_close,
            capabilities: Capabilities::default(),
            payload_bytes_max: 0,
            whole_payload_bytes_max: 0,
            limits,
            channel_max: limits.channel_max,
            channels: ChannelTable::default(),
            spare: None,
            streaming: None,
            repeat_heads_bytes: 0,
            run_search: RunSearch::default(),
            left_bytes: 0,
            lending: BodyBufferLoan::default(),
            copied_bytes: 0,
            passed_over: PassedOver::default(),
            method_frame_bytes: 0,
        };
        inbound.set_frame_bytes_max(frame_bytes_max, frame_bytes_max);
        inbound
    }

    fn set_frame_bytes_max(&mut self, bytes: u32, whole_bytes: u32) {
        self.payload_bytes_max = bytes - FRAME_OVERHEAD_BYTES as u32;
        self.whole_payload_bytes_max = bytes.min(whole_bytes) - FRAME_OVERHEAD_BYTES as u32;
    }

    /// The next event in `input`, which moves on past what was taken.
    ///
    /// `Ok(None)`: all that could be done is done. What is left in `input` must be presented again, followed by more;
    /// it is never more than [`input_bytes_max`](Self::input_bytes_max). A [`ProtocolFault`] goes to [`fail`](Self::fail); calling `next`
    /// again is harmless and goes on as far as the fault's scope allows.
    #[inline]
    pub fn next<'a, 'input: 'a>(
        &'a mut self,
        input: &mut &'input [u8],
        out: &mut Outbound,
        pool: &Pool,
    ) -> Result<Option<Event<'a>>, ProtocolFault> {
        if let Some(event) = self.quick(input) {
            self.repeat_heads_bytes = 0;
            return Ok(Some(event));
        }
        self.next_slow(input, out, pool)
    }

    #[inline(never)]
    fn next_slow<'a, 'input: 'a>(
        &'a mut self,
        input: &mut &'input [u8],
        out: &mut Outbound,
        pool: &Pool,
    ) -> Result<Option<Event<'a>>, ProtocolFault> {
        loop {
            match self.step(input, out, pool) {
                Ok(ParseStep::Taken) => {}
                Ok(ParseStep::Event(event)) => {
                    self.repeat_heads_bytes = 0;
                    return Ok(Some(event));
                }
                Ok(ParseStep::More) => {
                    self.left_bytes = input.len();
                    return Ok(None);
                }
                Ok(ParseStep::Complete(channel)) => return self.complete(channel).map(Some),
                Err(fault) => {
                    if self.phase == HandshakePhase::Closing {
                        // A second offence while the first ends the connection: there is nothing left to say.
                        self.phase = HandshakePhase::Deaf;
                        continue;
                    }
                    self.abandon(&fault);
                    return Err(fault);
                }
            }
        }
    }

    /// One frame, or as much of one as has come.
    fn step<'a>(
        &mut self,
        input: &mut &'a [u8],
        out: &mut Outbound,
        pool: &Pool,
    ) -> Result<ParseStep<'a>, ProtocolFault> {
        match (self.phase, self.mid) {
            (HandshakePhase::Deaf | HandshakePhase::Failed, _) => {
                *input = &[];
                Ok(ParseStep::More)
            }
            (HandshakePhase::Header, _) => self.protocol_header(input, out, pool),
            (_, PartialFrame::No) => self.frame(input, out, pool),
            (_, mid) => self.rest_of_frame(mid, input, pool),
        }
    }

    /// The method that comes next, if it lies whole in the input, on this channel, and may come there. Nothing is taken.
    pub fn next_method<'a>(&self, channel: ChannelNumber, input: &'a [u8]) -> Option<Method<'a>> {
        if self.phase != HandshakePhase::Running
            || self.mid != PartialFrame::No
            || !self.channels.is_free_for_content(channel)
        {
            return None;
        }
        let head = split_head(input).filter(|head| head.kind == FRAME_METHOD && head.channel == channel)?;
        self.check_size(head).ok()?;
        let end = FRAME_HEAD_BYTES + head.payload_bytes as usize;
        let &end_byte = input.get(end)?;
        let payload = &input[FRAME_HEAD_BYTES..end];
        self.check_end(head, payload, end_byte).ok()?;
        self.decode(channel, payload).ok()
    }

    /// Makes sure that nothing is heard any more of what a fault ended.
    fn abandon(&mut self, fault: &ProtocolFault) {
        match fault.scope {
            FaultScope::Channel => self.drop_channel(fault.channel, ChannelState::Failed),
            FaultScope::Connection => {
                self.drop_contents();
                self.phase = HandshakePhase::Failed;
            }
            FaultScope::Link => self.ignore_input(),
        }
    }

    fn ignore_input(&mut self) {
        self.drop_contents();
        self.mid = PartialFrame::No;
        self.phase = HandshakePhase::Deaf;
    }

    /// From here on what comes on this channel is dropped.
    fn drop_channel(&mut self, channel: ChannelNumber, state: ChannelState) {
        if let PartialFrame::Body { channel: receiving, left, .. } = self.mid
            && receiving == channel
        {
            self.mid = PartialFrame::Skip { left };
        }
        if self.streaming == Some(channel) {
            self.streaming = None;
        }
        self.lending.ahead.take_if(|ahead| *ahead == channel);
        if self.channels.get(channel).is_some() {
            self.channels.set(channel, state);
        }
    }

    fn drop_contents(&mut self) {
        if let PartialFrame::Body { left, .. } = self.mid {
            self.mid = PartialFrame::Skip { left };
        }
        self.channels.clear();
        self.spare = None;
        self.streaming = None;
        self.lending.ahead = None;
    }

    /// Where bytes of a large body must be received: the rest of the current frame's payload, straight in its final
    /// place. Empty if there is no such place now.
    #[inline]
    pub fn direct(&mut self) -> &mut [u8] {
        let PartialFrame::Body { channel, left, .. } = self.mid else { return &mut [] };
        match self.channels.get_mut(channel).and_then(|channel| channel.assembly.as_deref_mut()) {
            Some(assembly) => {
                let room = assembly.free_mut();
                let bytes = left.min(room.len());
                &mut room[..bytes]
            }
            None => &mut [],
        }
    }

    /// `n` bytes were received into [`direct`](Self::direct). More than it had are an assertion.
    #[inline]
    pub fn direct_filled(&mut self, n: usize) {
        if n == 0 {
            return;
        }
        let PartialFrame::Body { channel, left, .. } = &mut self.mid else {
            panic!("{n} bytes received where there was no place for them");
        };
        let assembly = self.channels.get_mut(*channel).and_then(|channel| channel.assembly.as_deref_mut());
        assembly.expect("a body frame has its content").advance(n);
        *left = left.checked_sub(n).expect("no more than the frame's payload");
    }

    /// How many bytes are worth receiving behind `direct`, or alone if that is empty, so that the next large body finds
    /// its place before it comes. Never 0; `usize::MAX` if it does not matter.
    #[inline]
    pub fn scratch_bytes_wanted(&self) -> usize {
        match self.mid {
            PartialFrame::Body { channel, left, .. } => self.wanted_in_body(channel, left),
            PartialFrame::Skip { .. } => usize::MAX,
            PartialFrame::No if self.streaming.is_some() => FRAME_HEAD_BYTES.saturating_sub(self.left_bytes).max(1),
            PartialFrame::No => match self.repeat_heads_bytes.checked_sub(self.left_bytes) {
                Some(bytes) if bytes > 0 => bytes,
                _ => usize::MAX,
            },
        }
    }

    fn wanted_in_body(&self, channel: ChannelNumber, left: usize) -> usize {
        let Some(assembly) = self.channels.get(channel).and_then(|channel| channel.assembly.as_deref()) else {
            return usize::MAX;
        };
        if assembly.body_bytes() < self.lending.large_body_bytes {
            return usize::MAX;
        }
        // After this frame: its end, and then either the next head, or all of a small rest and the next content's heads.
        let after = assembly.missing().unwrap_or(0).saturating_sub(left);
        let next_heads = assembly.heads_bytes + FRAME_HEAD_BYTES;
        if after == 0 {
            1 + next_heads
        } else if after < LARGE_BODY_BYTES {
            1 + FRAME_HEAD_BYTES + after + 1 + next_heads
        } else if self.payload_bytes_max < LARGE_BODY_BYTES as u32 {
            // Frames this small are not worth a system call each.
            usize::MAX
        } else {
            1 + FRAME_HEAD_BYTES
        }
    }

    /// How much input may be left at most when `next` wants more, in bytes: a frame, or the heads of a small content and
    /// its body.
    pub fn input_bytes_max(&self) -> usize {
        let method_bytes = CONTENT_ARGUMENTS_BYTES_MAX + METHOD_ID_BYTES;
        let content_bytes = method_bytes + WAITED_HEADER_BYTES_MAX as usize + LARGE_BODY_BYTES;
        content_bytes.max(self.whole_payload_bytes_max as usize) + 3 * FRAME_OVERHEAD_BYTES
    }

    /// Bytes of the frame of the last `Event::Method` on a channel. An owner that does not carry it out yet presents these again:
    /// what came before it in the input is taken.
    pub fn method_frame_bytes(&self) -> usize {
        self.method_frame_bytes as usize
    }

    /// What the peer says it understands: known to a server after `Login`, to a client after `Start`.
    pub fn peer_capabilities(&self) -> Capabilities {
        self.capabilities
    }

    /// Whether the connection is open: methods and contents flow.
    pub fn is_running(&self) -> bool {
        self.phase == HandshakePhase::Running
    }

    /// Whether nothing that comes will be heard any more. Send what is written, then end the link.
    pub fn is_done(&self) -> bool {
        self.phase == HandshakePhase::Deaf
    }

    /// How many channels there are, those being closed included.
    pub fn channel_count(&self) -> usize {
        self.channels.count()
    }
}
