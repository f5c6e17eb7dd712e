//! What the header's structures hold.
//!
//! Enters: what C fills in.  Leaves: what C reads.
//! Owns:   their order and types: another one is another version of the library.

use std::ffi::c_char;

use crate::foreign::{LentBytes, LentText};

/// A connection. All zero is none.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConnectionHandle {
    pub(crate) id: u64,
}

/// A channel of a connection. All zero is none.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChannelHandle {
    pub(crate) connection: ConnectionHandle,
    pub(crate) id: u64,
}

/// A name of AMQP, which has 255 bytes at most, ended by a NUL.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct NameBuffer {
    pub(crate) text: [c_char; 256],
}

impl NameBuffer {
    pub(crate) fn of(name: &str) -> Self {
        let mut text = [0; 256];
        // One place is left for the NUL, and no name of AMQP is longer.
        for (to, &byte) in text[..255].iter_mut().zip(name.as_bytes()) {
            *to = byte.cast_signed() as c_char;
        }
        Self { text }
    }
}

/// What a declared queue is called, and has.
#[repr(C)]
pub(crate) struct QueueState {
    pub(crate) name: NameBuffer,
    pub(crate) messages: u32,
    pub(crate) consumers: u32,
}

/// The type of a field.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::enum_variant_names, reason = "C has no namespaces")]
pub(crate) enum FieldKind {
    /// Nothing.
    HarrierVoid = 0,
    /// `integer` is 0 or 1.
    HarrierBool = 1,
    /// `integer`.
    HarrierInteger = 2,
    /// `real`.
    HarrierReal = 3,
    /// `bytes`: text.
    HarrierString = 4,
    /// `bytes`.
    HarrierBinary = 5,
    /// `integer`: seconds since 1970.
    HarrierTimestamp = 6,
    /// `real`, and in `integer` its digits. Not to be sent.
    HarrierDecimal = 7,
    /// `bytes`: a table as it is on the wire, for harrier_item and harrier_item_at.
    HarrierTable = 8,
    /// `bytes`: a list as it is on the wire, for harrier_item_at.
    HarrierList = 9,
}

/// A field of a table: a header of a message, or an argument of a declaration.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Field {
    pub(crate) name: LentBytes,
    /// A harrier_kind.
    pub(crate) kind: i32,
    pub(crate) integer: i64,
    pub(crate) real: f64,
    pub(crate) bytes: LentBytes,
}

/// Fields in a row.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct FieldList {
    pub(crate) at: *const Field,
    pub(crate) len: usize,
}

/// Options of a connection. All zero is as usual.
#[repr(C)]
pub(crate) struct ConnectionOptions {
    /// The name that the broker's tools show.
    pub(crate) name: LentText,
    /// Longest wait for a connection, an answer, or room to send. 0: 30,000.
    pub(crate) timeout_ms: u32,
    /// 0: as the server wishes.
    pub(crate) heartbeat_s: u16,
    /// 0: as many as possible.
    pub(crate) channel_max: u16,
    /// 0: as usual.
    pub(crate) frame_bytes_max: u32,
    /// Asked while a call waits, after each signal and every 250 ms, whether it shall end. It may not call this library.
    pub(crate) is_interrupted: Option<extern "C" fn() -> bool>,
}

/// Properties of a message that is published. All zero is none; what is NULL or 0 is absent.
#[repr(C)]
pub(crate) struct PublishProperties {
    pub(crate) content_type: LentText,
    pub(crate) content_encoding: LentText,
    pub(crate) headers: FieldList,
    /// 2: persistent.
    pub(crate) delivery_mode: u8,
    pub(crate) priority: u8,
    pub(crate) correlation_id: LentText,
    pub(crate) reply_to: LentText,
    /// Milliseconds, as a text.
    pub(crate) expiration: LentText,
    pub(crate) message_id: LentText,
    /// Seconds since 1970.
    pub(crate) timestamp: u64,
    pub(crate) message_type: LentText,
    pub(crate) user_id: LentText,
    pub(crate) app_id: LentText,
    pub(crate) cluster_id: LentText,
}

/// Which property of a message: for harrier_property_text those with a text, for harrier_property_number those with a number.
#[repr(C)]
#[expect(clippy::enum_variant_names, reason = "C has no namespaces")]
pub(crate) enum Property {
    HarrierContentType = 0,
    HarrierContentEncoding = 1,
    HarrierDeliveryMode = 2,
    HarrierPriority = 3,
    HarrierCorrelationId = 4,
    HarrierReplyTo = 5,
    HarrierExpiration = 6,
    HarrierMessageId = 7,
    HarrierMessageTimestamp = 8,
    HarrierMessageType = 9,
    HarrierUserId = 10,
    HarrierAppId = 11,
    HarrierClusterId = 12,
}

/// A message: delivered, got, or returned. What it points to is borrowed until the next call on its connection.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct LentDelivery {
    /// The channel it came on: acknowledge it there.
    pub(crate) channel: ChannelHandle,
    /// What to acknowledge.
    pub(crate) delivery_tag: u64,
    /// Whether it was delivered before.
    pub(crate) redelivered: bool,
    /// Of a returned message: why (312: no queue took it).
    pub(crate) reply_code: u16,
    /// Of a message that was got: how many are left in the queue.
    pub(crate) messages_left: u32,
    pub(crate) consumer_tag: LentBytes,
    pub(crate) exchange: LentBytes,
    pub(crate) routing_key: LentBytes,
    /// As on the wire: harrier_property_text, harrier_property_number, harrier_header.
    pub(crate) properties: LentBytes,
    pub(crate) body: LentBytes,
    /// Of a returned message.
    pub(crate) reply_text: LentBytes,
}

/// The answer to a call of a polled connection.
#[repr(C)]
pub(crate) struct CallAnswer {
    /// Of harrier_open_channel.
    pub(crate) channel: ChannelHandle,
    /// Of harrier_declare_queue the queue's, of harrier_consume the consumer's tag.
    pub(crate) name: NameBuffer,
    /// In a declared queue, or purged, or deleted with it.
    pub(crate) messages: u32,
    pub(crate) consumers: u32,
    /// Of harrier_get, whether there was one.
    pub(crate) has_message: bool,
    pub(crate) message: LentDelivery,
}

/// Only check that it exists.
pub const HARRIER_PASSIVE: u32 = 1;
/// Survives a restart of the broker.
pub const HARRIER_DURABLE: u32 = 2;
/// A queue of this connection alone; or the only consumer of a queue.
pub const HARRIER_EXCLUSIVE: u32 = 4;
/// Goes when its last consumer, or binding, goes.
pub const HARRIER_AUTO_DELETE: u32 = 8;
/// An exchange that takes messages from other exchanges only.
pub const HARRIER_INTERNAL: u32 = 16;
/// Deliveries need no acknowledgement.
pub const HARRIER_NO_ACK: u32 = 32;
/// Delete only if nobody consumes from it, or is bound to it.
pub const HARRIER_IF_UNUSED: u32 = 64;
/// Delete only if there is no message in it.
pub const HARRIER_IF_EMPTY: u32 = 128;
