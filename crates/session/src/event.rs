//! What a session tells its owner.
//!
//! Enters: decoded methods and contents.  Leaves: one `Event` at a time, borrowing from the input.
//! Owns:   the vocabulary between a session and a reactor or client.

use crate::{capabilities::Capabilities, tuning::Tuning};
use slab::Slice;
use wire::{BodyRun, ChannelNumber, DeliveryTag, Method, RawProperties, ShortStr, TableRef, method::connection};

/// The body of a content.
#[derive(Clone, Debug)]
pub enum Body<'a> {
    /// Wholly in the input: to be copied by whoever keeps it.
    Small(&'a [u8]),
    /// Received in memory of its own, of exactly its size.
    Large(Slice),
}

impl Body<'_> {
    /// The bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Small(bytes) => bytes,
            Self::Large(slice) => slice,
        }
    }
}

/// Why a content is passed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContentDefect {
    /// Its body has so many bytes.
    LargeBody(u64),
    /// Its properties do not fit a frame.
    LargeProperties,
    /// Its header is malformed, for the reason that another session would give its peer.
    MalformedHeader(Box<str>),
}

/// One thing that a peer said. Properties are validated; names and texts are bytes in no particular encoding.
///
/// "Server" and "client" say at which end an event occurs.
#[derive(Clone, Debug)]
pub enum Event<'a> {
    /// Server: `basic.publish` with its content.
    Publish {
        /// The channel, which is open.
        channel: ChannelNumber,
        /// Name of the exchange, at most 255 bytes.
        exchange: &'a [u8],
        /// The routing key, at most 255 bytes.
        routing_key: &'a [u8],
        /// Return the message if no queue takes it.
        mandatory: bool,
        /// Return the message if no consumer takes it now (RabbitMQ refuses it).
        immediate: bool,
        /// Flags and values in wire form.
        properties: RawProperties<'a>,
        body: Body<'a>,
    },
    /// Server: several `basic.publish` on end, which differ in their bodies alone. Only
    /// [`Inbound::next_run`](crate::Inbound::next_run) tells of them at once. An owner that carries out fewer presents the others
    /// again, and then hears of them anew.
    PublishRun {
        /// The channel, which is open.
        channel: ChannelNumber,
        /// Name of the exchange, at most 255 bytes.
        exchange: &'a [u8],
        /// The routing key, at most 255 bytes.
        routing_key: &'a [u8],
        /// Return the messages if no queue takes them.
        mandatory: bool,
        /// Return the messages if no consumer takes them now (RabbitMQ refuses them).
        immediate: bool,
        /// Flags and values in wire form.
        properties: RawProperties<'a>,
        /// At least two small ones. A message of the run is all that came of one publish.
        bodies: BodyRun<'a>,
    },
    /// Server: a `basic.publish` whose content comes in pieces; `Publish` follows once it is whole. An owner that refuses it
    /// now spares itself the body: what comes of it after [`Inbound::fail`](crate::Inbound::fail) is dropped.
    PublishBegun {
        /// The channel, which is open.
        channel: ChannelNumber,
        /// Name of the exchange, at most 255 bytes.
        exchange: &'a [u8],
    },
    /// Client: `basic.deliver` with its content.
    Deliver {
        channel: ChannelNumber,
        consumer_tag: &'a [u8],
        /// What to acknowledge.
        delivery_tag: DeliveryTag,
        /// Whether it was delivered before.
        redelivered: bool,
        /// Name of the exchange it was published to.
        exchange: &'a [u8],
        routing_key: &'a [u8],
        /// Flags and values in wire form.
        properties: RawProperties<'a>,
        body: Body<'a>,
    },
    /// Client: `basic.get-ok` with its content.
    GetOk {
        channel: ChannelNumber,
        /// What to acknowledge.
        delivery_tag: DeliveryTag,
        /// Whether it was delivered before.
        redelivered: bool,
        /// Name of the exchange it was published to.
        exchange: &'a [u8],
        routing_key: &'a [u8],
        /// Messages still in the queue.
        message_count: u32,
        /// Flags and values in wire form.
        properties: RawProperties<'a>,
        body: Body<'a>,
    },
    /// Client: `basic.return` with its content.
    Return {
        channel: ChannelNumber,
        /// Why, as a number.
        code: u16,
        /// Why, as a text.
        text: ShortStr<'a>,
        /// Name of the exchange it was published to.
        exchange: &'a [u8],
        routing_key: &'a [u8],
        /// Flags and values in wire form.
        properties: RawProperties<'a>,
        body: Body<'a>,
    },
    /// A delivery or publish was too large, or has a malformed header, and is passed over (`SessionLimits::passes_over_contents`).
    /// Of a delivery, the tag is the next on its channel.
    PassedOver { channel: ChannelNumber, defect: ContentDefect },
    /// A method that the owner must answer or carry out. The channel is open, or 0 for `connection.update-secret` and
    /// its answer; the method is one that the other side may send.
    Method {
        channel: ChannelNumber,
        /// The method, never one of those that have an event of their own.
        method: Method<'a>,
    },
    /// A channel is open. Server: `open-ok` is written, unless `owner_opens_channels`. Client: it has arrived.
    ChannelOpened {
        /// Its number.
        channel: ChannelNumber,
    },
    /// The peer closed a channel, which is gone. `close-ok` is written, unless `owner_answers_close`.
    ChannelClosed {
        /// Its number, which may be used again.
        channel: ChannelNumber,
        /// Why, as a number.
        code: u16,
        /// Why, as a text.
        text: ShortStr<'a>,
        /// Class of the method that caused it, or 0.
        class_id: u16,
        /// Number of the method that caused it, or 0.
        method_id: u16,
    },
    /// The peer acknowledged the end of a channel that this side closed; its number may be used again.
    ChannelCloseOk {
        /// Its number.
        channel: ChannelNumber,
    },
    /// Server: a client wants to log in. Answer with `login_accepted`, `login_challenged` or `login_refused`.
    Login {
        /// The mechanism that the client chose; see `sasl::credentials`.
        mechanism: ShortStr<'a>,
        /// Its first response.
        response: &'a [u8],
        /// What the client says about itself.
        client_properties: TableRef<'a>,
        locale: ShortStr<'a>,
        /// What the client says it can do.
        capabilities: Capabilities,
    },
    /// Server: the answer to a challenge.
    LoginResponse { response: &'a [u8] },
    /// Server: limits are settled; heartbeats start.
    Tuned(Tuning),
    /// Server: a client chooses a virtual host. Answer with `open_accepted`, or `fail`.
    Open {
        /// Its name.
        vhost: ShortStr<'a>,
    },
    /// Client: the server says what it can. Answer with `log_in`.
    Start(connection::Start<'a>),
    /// Client: the mechanism needs another round. Answer with `secure-ok`.
    Secure { challenge: &'a [u8] },
    /// Client: the login is accepted and limits are proposed. Answer with `tune`, then `open`.
    Tune(connection::Tune),
    /// Client: the connection is ready.
    OpenOk,
    /// Client: the server has stopped reading from publishers.
    Blocked {
        /// Why.
        reason: ShortStr<'a>,
    },
    /// Client: the server reads again.
    Unblocked,
    /// The peer ends the connection. `close-ok` is written, unless `owner_answers_close`; send it, then end the link.
    CloseRequested {
        /// Why, as a number.
        code: u16,
        /// Why, as a text.
        text: ShortStr<'a>,
        /// Class of the method that caused it, or 0.
        class_id: u16,
        /// Number of the method that caused it, or 0.
        method_id: u16,
    },
    /// The peer acknowledged the end of the connection; end the link.
    CloseOk,
}
