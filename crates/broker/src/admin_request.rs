//! An administrative request: what an administrator asks of the program that runs the broker.
//!
//! Enters: what the broker knows of a message that was sent to the request queue.  Leaves: the same, for the program.
//! Owns:   the form of a request.
//! Never:  says anything of its sender that the sender has said, beside the correlation id it wants back.

use crate::direct_reply::ReplyAddress;

/// A request, on its way to the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminRequest {
    /// Who asks: the user of the connection, an administrator.
    pub user: Box<str>,
    /// Where the answer goes: to the channel that asks.
    pub reply_to: ReplyAddress,
    /// Goes back with the answer.
    pub correlation_id: Option<Box<[u8]>>,
    /// The body.
    pub body: Box<[u8]>,
}

/// Why a request is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdminRequestError {
    /// So many wait that it must not.
    Busy,
    /// Nobody answers requests here.
    Unavailable,
}
