//! Assembly: a content that arrives in pieces.
//!
//! Enters: method arguments, a content header, parts of a body.  Leaves: the whole content.
//! Owns:   what has arrived of it, and the memory of the body.

use crate::{
    Body, Event,
    limits::{BODY_GROWTH, BODY_GROWTH_BEHIND, BODY_STEP_BYTES, BODY_WHOLE_BYTES, SPARE_HEAD_BYTES_MAX},
};
use slab::{BlockMut, CLASSED_BYTES_MAX, Pool};
use wire::{ChannelNumber, DecodeError, RawProperties, method::basic};

/// The methods that content follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContentMethod {
    Publish,
    Deliver,
    GetOk,
    Return,
}

impl ContentMethod {
    #[inline]
    pub const fn of_id(id: (u16, u16)) -> Option<Self> {
        match id {
            basic::Publish::ID => Some(Self::Publish),
            basic::Deliver::ID => Some(Self::Deliver),
            basic::GetOk::ID => Some(Self::GetOk),
            basic::Return::ID => Some(Self::Return),
            _ => None,
        }
    }

    pub const fn id(self) -> (u16, u16) {
        match self {
            Self::Publish => basic::Publish::ID,
            Self::Deliver => basic::Deliver::ID,
            Self::GetOk => basic::GetOk::ID,
            Self::Return => basic::Return::ID,
        }
    }

    /// The event of a whole content.
    #[inline]
    pub fn event<'a>(
        self,
        channel: ChannelNumber,
        arguments: &'a [u8],
        properties: RawProperties<'a>,
        body: Body<'a>,
    ) -> Result<Event<'a>, DecodeError> {
        Ok(match self {
            Self::Publish => {
                let basic::Publish { exchange, routing_key, mandatory, immediate } = basic::Publish::decode(arguments)?;
                let (exchange, routing_key) = (exchange.as_bytes(), routing_key.as_bytes());
                Event::Publish { channel, exchange, routing_key, mandatory, immediate, properties, body }
            }
            Self::Deliver => {
                let basic::Deliver { consumer_tag, delivery_tag, redelivered, exchange, routing_key } =
                    basic::Deliver::decode(arguments)?;
                Event::Deliver {
                    channel,
                    consumer_tag: consumer_tag.as_bytes(),
                    delivery_tag,
                    redelivered,
                    exchange: exchange.as_bytes(),
                    routing_key: routing_key.as_bytes(),
                    properties,
                    body,
                }
            }
            Self::GetOk => {
                let basic::GetOk { delivery_tag, redelivered, exchange, routing_key, message_count } =
                    basic::GetOk::decode(arguments)?;
                Event::GetOk {
                    channel,
                    delivery_tag,
                    redelivered,
                    exchange: exchange.as_bytes(),
                    routing_key: routing_key.as_bytes(),
                    message_count,
                    properties,
                    body,
                }
            }
            Self::Return => {
                let basic::Return { reply_code, reply_text, exchange, routing_key } = basic::Return::decode(arguments)?;
                Event::Return {
                    channel,
                    code: reply_code,
                    text: reply_text,
                    exchange: exchange.as_bytes(),
                    routing_key: routing_key.as_bytes(),
                    properties,
                    body,
                }
            }
        })
    }
}

/// A content that has begun.
#[derive(Debug)]
pub(crate) struct ContentAssembly {
    pub method: ContentMethod,
    /// The method's arguments, then property flags and values.
    head: Vec<u8>,
    arguments_bytes: usize,
    /// Bytes on the wire in front of the first body payload, for predicting the next content.
    pub heads_bytes: usize,
    /// Bytes of the body, once the header has come.
    body_bytes: Option<usize>,
    block: BlockMut,
    filled: usize,
    /// The memory was mapped for it: where nothing has arrived the system has provided none.
    is_untouched: bool,
    /// Its room was given back: from then on it gets memory for what arrives.
    is_shrunk: bool,
}

/// Memory for a body in which nothing has arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BodyRoom {
    /// Bytes that nobody misses: the system has not provided them, or they can be given back.
    pub spare_bytes: usize,
    /// Those that the system has not provided.
    pub untouched_bytes: usize,
}

impl ContentAssembly {
    /// A content of which the method has come. `spare` lends its memory.
    pub fn begin(spare: Option<Box<Self>>, method: ContentMethod, arguments: &[u8], frame_bytes: usize) -> Box<Self> {
        let mut assembly = spare.unwrap_or_else(|| {
            Box::new(Self {
                method,
                head: Vec::new(),
                arguments_bytes: 0,
                heads_bytes: 0,
                body_bytes: None,
                block: BlockMut::empty(),
                filled: 0,
                is_untouched: false,
                is_shrunk: false,
            })
        });
        assembly.method = method;
        assembly.head.clear();
        assembly.head.shrink_to(SPARE_HEAD_BYTES_MAX);
        assembly.head.extend_from_slice(arguments);
        assembly.arguments_bytes = arguments.len();
        assembly.heads_bytes = frame_bytes;
        assembly.body_bytes = None;
        assembly.block = BlockMut::empty();
        assembly.filled = 0;
        assembly.is_shrunk = false;
        assembly
    }

    /// The header has come.
    pub fn header(&mut self, properties: RawProperties<'_>, body_bytes: usize, frame_bytes: usize) {
        debug_assert!(self.body_bytes.is_none(), "one header a content");
        self.head.extend_from_slice(properties.as_bytes());
        self.heads_bytes += frame_bytes;
        self.body_bytes = Some(body_bytes);
    }

    /// Bytes of the body that have not come; `None` before the header.
    pub fn missing(&self) -> Option<usize> {
        self.body_bytes.map(|bytes| bytes - self.filled)
    }

    pub fn body_bytes(&self) -> usize {
        self.body_bytes.unwrap_or(0)
    }

    pub fn filled(&self) -> usize {
        self.filled
    }

    /// What has come of the body.
    pub fn received(&self) -> &[u8] {
        &self.block[..self.filled]
    }

    /// Memory for the next bytes of the body; empty if it must grow first, or was given away.
    pub fn free_mut(&mut self) -> &mut [u8] {
        self.block.get_mut(self.filled..).unwrap_or_default()
    }

    /// `n` bytes of the room are filled.
    pub fn advance(&mut self, n: usize) {
        assert!(n <= self.block.len() - self.filled, "filled {n} bytes of less room");
        self.filled += n;
    }

    /// Makes room, unless there is some or nothing is missing: ahead of what has come, `step_bytes` at first, or if that is
    /// zero for the `left_bytes` of the frame at hand. How many bytes it moved.
    pub fn grow(&mut self, pool: &Pool, step_bytes: usize, left_bytes: usize) -> usize {
        let body_bytes = self.body_bytes();
        if self.filled < self.block.len() || self.filled == body_bytes {
            return 0;
        }
        let larger = match step_bytes {
            0 => (self.filled + left_bytes).max(self.filled.saturating_mul(BODY_GROWTH_BEHIND)),
            _ if self.filled >= BODY_WHOLE_BYTES => body_bytes,
            _ => step_bytes.max(self.block.len().saturating_mul(BODY_GROWTH)),
        };
        self.move_to(pool, larger.min(body_bytes));
        self.filled
    }

    fn move_to(&mut self, pool: &Pool, bytes: usize) {
        let mapped_bytes = pool.mapped_bytes();
        let mut block = pool.block(bytes);
        // A block of a size class shares its region with others.
        self.is_untouched = bytes > CLASSED_BYTES_MAX && pool.mapped_bytes() > mapped_bytes;
        block[..self.filled].copy_from_slice(&self.block[..self.filled]);
        self.block = block;
    }

    /// What of its memory is spare.
    pub fn room(&self) -> BodyRoom {
        let bytes = self.block.len().saturating_sub(self.filled);
        let untouched_bytes = if self.is_untouched { bytes } else { 0 };
        let spare_bytes = if self.may_shrink() { bytes } else { untouched_bytes };
        BodyRoom { spare_bytes, untouched_bytes }
    }

    /// Whether little must be moved to give back its room.
    fn may_shrink(&self) -> bool {
        self.filled <= BODY_STEP_BYTES
    }

    /// Bytes that have arrived.
    pub fn arrived_bytes(&self) -> usize {
        self.head.len() + self.filled
    }

    /// Gives back the room. How many bytes that were, and how many it moved.
    pub fn shrink(&mut self, pool: &Pool) -> (usize, usize) {
        let given_bytes = self.block.len().saturating_sub(self.filled);
        if given_bytes == 0 || !self.may_shrink() {
            return (0, 0);
        }
        self.is_shrunk = true;
        self.move_to(pool, self.filled);
        (given_bytes, self.filled)
    }

    /// Whether its room was given back.
    pub fn is_shrunk(&self) -> bool {
        self.is_shrunk
    }

    /// Gives the memory away for a while, with what is in it.
    pub fn take_block(&mut self) -> BlockMut {
        // A device that gets it has all of it in memory.
        self.is_untouched = false;
        std::mem::take(&mut self.block)
    }

    /// Gets it back.
    pub fn put_block(&mut self, block: BlockMut) {
        debug_assert!(self.block.is_empty(), "it got other memory meanwhile");
        self.block = block;
    }

    /// The event of the whole content. The body moves into it.
    pub fn event(&mut self, channel: ChannelNumber) -> Result<Event<'_>, DecodeError> {
        debug_assert_eq!(self.missing(), Some(0), "an event of half a content");
        let block = std::mem::take(&mut self.block);
        let body = if block.is_empty() { Body::Small(&[]) } else { Body::Large(block.freeze()) };
        let (arguments, properties) = self.head.split_at(self.arguments_bytes);
        self.method.event(channel, arguments, RawProperties::new(properties), body)
    }
}
