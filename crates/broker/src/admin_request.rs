//! An admin request: what an administrator asks the program that runs the broker.

use crate::direct_reply::ReplyAddress;

/// A request to the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminRequest {
    /// The user of the connection, an administrator.
    pub user: Box<str>,
    /// The address of the channel that awaits the answer.
    pub reply_to: ReplyAddress,
    /// Returned with the answer.
    pub correlation_id: Option<Box<[u8]>>,
    pub body: Box<[u8]>,
}

/// Why a request is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdminRequestError {
    /// Too many requests wait.
    Busy,
    /// Nobody answers requests.
    Unavailable,
}
