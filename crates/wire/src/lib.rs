//! The grammar of AMQP 0-9-1: frames, methods, tables, properties, reply codes.
//!
//! Enters: bytes of a peer.  Leaves: borrowed views of them; and the way back, values to bytes.
//! Owns:   the one codec of the whole tree.
//! Never:  does I/O, keeps state between calls, panics on bytes of a peer, allocates while decoding.
//!
//! Read `method` first: every method is one entry of its table.
#![forbid(unsafe_code)]

mod body_run;
pub mod content;
mod error;
mod escaped;
pub mod frame;
pub mod ids;
pub mod limits;
pub mod method;
pub mod properties;
mod read;
pub mod reply;
mod short_str;
pub mod table;
mod value;
mod write;

#[cfg(test)]
mod dice;

pub use body_run::BodyRun;
pub use content::ContentHeader;
pub use error::DecodeError;
pub use escaped::{Escaped, EscapedLines};
pub use frame::{Frame, FrameError, FrameHead, PROTOCOL_HEADER};
pub use ids::{ChannelNumber, DeliveryTag};
pub use method::{Method, encode_frame};
pub use properties::{Properties, RawProperties};
pub use reply::ReplyCode;
pub use short_str::{ShortStr, ShortString, TooLong};
pub use table::{List, ListRef, Table, TableRef};
pub use value::{Decimal, Value, ValueRef};
